/* cpu_level.h: declares the table of instruction sets that a CPU program can be
 * compiled for (--cpu). */
#ifndef PARC_CODEGEN_CPU_LEVEL_H
#define PARC_CODEGEN_CPU_LEVEL_H

#include <stdbool.h>

#include "runtime/parc_rt.h"

typedef struct CpuLevel {
    const char *name;        /* value of --cpu */
    ParcCpuLevel level;      /* its constant in the runtime */
    const char *machine;     /* the machine's name by uname; NULL: this
                              * machine's */
    const char *library;     /* the runtime library built with parc */
    const char *const *flag; /* flags of the C compiler; NULL ends the list */
} CpuLevel;

/* The levels, in the order of ParcCpuLevel: native is the first. */
enum { CPU_LEVELS = PARC_CPU_AARCH64 + 1 };
extern const CpuLevel cpu_level[CPU_LEVELS];

/* Whether plans and sources of the level are the same on every machine. */
bool cpu_level_is_named(const CpuLevel *level);

#endif
