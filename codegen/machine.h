/* machine.h: declares what --cpu and --arch accept: the instruction sets and
 * the GPU architectures that a program can be compiled for. */
#ifndef PARC_CODEGEN_MACHINE_H
#define PARC_CODEGEN_MACHINE_H

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

/* The names of all architectures ("sm_90a"), oldest first; NULL ends the list.
 * Code for a name with 'a' uses all features and runs on that architecture
 * only; other code also runs on newer architectures of the same major
 * number. */
extern const char *const cuda_archs[];

/* The names that are used without --arch; NULL ends the list. */
extern const char *const cuda_default_archs[];

#endif
