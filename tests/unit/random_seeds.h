/* random_seeds.h: runs one test on many seeds, each in a separate process. */
#ifndef PARC_TESTS_UNIT_RANDOM_SEEDS_H
#define PARC_TESTS_UNIT_RANDOM_SEEDS_H

#include <stdint.h>

/* REFUSED: the seed's program is not one for this test. */
typedef enum SeedResult { SEED_PASSED, SEED_FAILED, SEED_REFUSED } SeedResult;

typedef struct SeedRuns {
    int64_t count, seed;    /* seeds that must run, the first */
    int refused_percent;    /* so many of a hundred may be refused */
    int64_t passed, failed; /* of checks made before, for the closing line */
    SeedResult (*run)(void *context, uint64_t seed);
    void *context;
} SeedRuns;

/* As many at a time as there are cores; a seed that is refused makes way for
 * another. Prints the closing line, returns the status to exit with. A single
 * seed runs in this process. */
int run_seeds(const SeedRuns *r);

#endif
