/* value_of.h: deterministic numbers for tests, from an index and a seed. */
#ifndef PARC_TESTS_UNIT_VALUE_OF_H
#define PARC_TESTS_UNIT_VALUE_OF_H

#include <stdint.h>

/* Number i of a rank or seed, within ±8. */
static inline float value_of(int64_t rank, int64_t i)
{
    uint32_t h = (uint32_t)(rank * 7919 + i * 104729 + 12345);
    h ^= h >> 13;
    h *= 0x5bd1e995u;
    h ^= h >> 15;
    return (float)(int32_t)h * 0x1p-28f;
}

#endif
