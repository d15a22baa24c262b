/* random_seeds.h: runs one test on many seeds, each in a separate process
 * (a single one in the calling process, for a debugger). */
#ifndef PARC_TESTS_UNIT_RANDOM_SEEDS_H
#define PARC_TESTS_UNIT_RANDOM_SEEDS_H

#include <stdint.h>

/* REFUSED: the seed's program is not suitable for this test. */
typedef enum SeedResult { SEED_PASSED, SEED_FAILED, SEED_REFUSED } SeedResult;

typedef struct SeedRuns {
    int64_t count, seed;    /* number of seeds that must run; the first seed */
    int refused_percent;    /* percentage of seeds that may be refused */
    int64_t passed, failed; /* counts of earlier checks, for the summary */
    SeedResult (*run)(void *context, uint64_t seed);
    void *context;
} SeedRuns;

/* Runs as many seeds in parallel as there are cores, at most 64; another seed
 * replaces a refused one. If `count` is 1, only this seed is run, also if it is
 * refused. Prints "N passed, N failed" and returns the exit status. */
int run_seeds(const SeedRuns *r);

#endif
