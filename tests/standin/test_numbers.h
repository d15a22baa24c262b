/* test_numbers.h: operands of tests that hold device code against the CPU's. */
#ifndef PARC_TESTS_STANDIN_TEST_NUMBERS_H
#define PARC_TESTS_STANDIN_TEST_NUMBERS_H

#include "engine.h"
#include "rt_type.h"

/* Number i of a seed, within ±2. */
static inline float test_number(int64_t seed, int64_t i)
{
    uint32_t h = (uint32_t)(seed * 7919 + i * 104729 + 12345);
    h ^= h >> 13;
    h *= 0x5bd1e995u;
    h ^= h >> 15;
    return (float)(int32_t)h * 0x1p-30f;
}

/* n numbers of a type, rounded to it; seed 0: what was there before, NaNs. */
static inline void *test_numbers(ParcType type, int64_t n, int64_t seed)
{
    void *to = standin_alloc(n * rt_type_size(type));
    for (int64_t i = 0; i < n && seed; i++) {
        float x = test_number(seed, i);
        rt_narrow(type, rt_element_out(type, to, i), &x, 1);
    }
    return to;
}

#endif
