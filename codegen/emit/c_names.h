/* c_names.h: gives the things of a program C names: a name of the model becomes
 * an identifier, with a number if it is in use: wq_weight, wq_weight_2.
 */
#ifndef PARC_CODEGEN_EMIT_C_NAMES_H
#define PARC_CODEGEN_EMIT_C_NAMES_H

#include "base/arena.h"

/* The names in use in a scope of C. */
typedef struct CNames {
    Arena *arena;
    const char **slot; /* a hash table with open addressing; NULL: empty */
    size_t room, n;
} CNames;

/* No name in use. */
CNames c_names(Arena *a);

/* The C name for a name of PDL or of the IR, which is in use from now on. It is
 * no name that emitted code or the C library uses. */
const char *c_name(CNames *s, const char *text);
/* The same for a C name that the emitter chose, "layer". */
const char *c_name_unique(CNames *s, const char *name);

#endif
