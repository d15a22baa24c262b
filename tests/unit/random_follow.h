/* random_follow.h: compares a training run with the interpreter. */
#ifndef PARC_TESTS_UNIT_RANDOM_FOLLOW_H
#define PARC_TESTS_UNIT_RANDOM_FOLLOW_H

#include "ir/ir.h"

typedef struct Reference Reference;
typedef struct BinaryRun {
    Arena *arena;
    const Program *global; /* behind `autodiff` */
    int64_t seed, steps;
    const char *before, *after, *log; /* files that the binary writes */
    Reference *reference;             /* set by reference_run */
    double worst; /* result: the largest error, of what it may be */
} BinaryRun;

/* Runs the interpreter from the weights in `before`; lowers `steps` to those
 * whose results can be compared. NULL, or what went wrong. */
const char *reference_run(BinaryRun *run);
/* `after` and `log` of so many steps against it. NULL, or what differs. */
const char *reference_compare(BinaryRun *run);

#endif
