/* random_follow.h: compares a training run with the interpreter. */
#ifndef PARC_TESTS_UNIT_RANDOM_FOLLOW_H
#define PARC_TESTS_UNIT_RANDOM_FOLLOW_H

#include "ir/ir.h"

typedef struct Reference Reference;
typedef struct BinaryRun {
    Arena *arena;
    const Program *global; /* after `autodiff` */
    int64_t seed, steps;
    const char *before, *after, *log; /* files that the binary writes */
    Reference *reference;             /* set by reference_run */
    double worst; /* result: the largest error as a share of its tolerance */
} BinaryRun;

/* Runs the interpreter from the weights in `before`; lowers `steps` to the
 * number that can be compared. NULL, or the error. */
const char *reference_run(BinaryRun *run);
/* Compares `after` and `log` of `steps` steps. NULL, or the mismatch. */
const char *reference_compare(BinaryRun *run);

#endif
