/* test_numbers.h: makes operands, and compares results, for tests of device
 * code against the CPU's functions. */
#ifndef PARC_TESTS_STANDIN_TEST_NUMBERS_H
#define PARC_TESTS_STANDIN_TEST_NUMBERS_H

#include <math.h>
#include <stdio.h>

#include "engine.h"
#include "parc_attention.h"
#include "parc_rt.h"
#include "common/type.h"
#include "unit/value_of.h"

/* n numbers, rounded to the type; seed 0: all NaN, as in unwritten memory. */
static inline void *test_numbers(ParcType type, int64_t n, int64_t seed)
{
    void *to = standin_alloc(n * rt_type_size(type));
    for (int64_t i = 0; i < n && seed; i++) {
        float x = value_of(seed, i) / 4;
        rt_narrow(type, rt_element_out(type, to, i), &x, 1);
    }
    return to;
}

/* The largest difference, relative to the largest number. */
static inline double test_distance(ParcType type, const void *is,
                                   const void *should, int64_t n)
{
    double worst = 0, top = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        float x, y;
        rt_widen(&x, type, rt_element(type, is, i), 1);
        rt_widen(&y, type, rt_element(type, should, i), 1);
        double d = fabs((double)x - (double)y);
        worst = d > worst || d != d ? d : worst;
        top = fabs((double)y) > top ? fabs((double)y) : top;
    }
    return worst / top;
}

/* Whether results are equal up to rounding and the order of sums. */
static inline bool test_near(ParcType type, const void *is, const void *should, int64_t n)
{
    static const double ulp[] = {[PARC_F32] = 1e-6, [PARC_BF16] = 0x1p-7, [PARC_F16] = 0x1p-10};
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        float got, want;
        rt_widen(&got, type, rt_element(type, is, i), 1);
        rt_widen(&want, type, rt_element(type, should, i), 1);
        double e = fabs((double)got - want) - ulp[type] * fabs((double)want) - 1e-5;
        worst = e > worst || e != e ? e : worst;
    }
    return worst <= 0;
}

/* The results of attention and of its gradient. */
enum { TEST_O, TEST_LSE, TEST_DQ, TEST_DK, TEST_DV, TEST_RESULTS };

/* Compares two calls' results, up to rounding; `what` names the calls. */
static inline void test_attention(void (*check)(bool fine, const char *what),
                                  const char *what, const ParcAttention *a,
                                  const void *const is[TEST_RESULTS],
                                  const void *const should[TEST_RESULTS])
{
    static const char *const name[] = {"o", "lse", "dq", "dk", "dv"};
    static const double rounded[] = {
        [PARC_F32] = 4e-6, [PARC_BF16] = 0x1p-7, [PARC_F16] = 0x1p-10};
    int64_t q = a->b * a->s * a->kv * a->g, k = a->b * a->t * a->kv;
    const int64_t size[] = {q * a->e, q, q * a->d, k * a->d, k * a->e};
    for (int i = 0; i < TEST_RESULTS; i++) {
        ParcType type = i == TEST_LSE ? PARC_F32 : a->type;
        double d = test_distance(type, is[i], should[i], size[i]);
        char text[300];
        snprintf(text, sizeof text, "%s: %s is off by %g of its largest", what,
                 name[i], d);
        check(d <= rounded[type] * (i < TEST_DQ ? 1 : 2), text);
    }
}

#endif
