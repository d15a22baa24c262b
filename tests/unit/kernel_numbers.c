/* kernel_numbers.c: makes operands for kernels, and compares their results; see
 * kernel_numbers.h. */
#include "tests/unit/kernel_numbers.h"

#include <math.h>
#include <string.h>

#include "runtime/parc_math.h"

static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 40) * 0x1p-24;
}

/* Numbers that are difficult for a row's maximum and sums of exponentials; `at`
 * is the position in the row, from 0 to 1. */
static double any_number(double at, double random)
{
    (void)at;
    return random + 0.25;
}

static double large(double at, double random)
{
    (void)at;
    return (random - 0.5) * 60000;
}

static double rising(double at, double random)
{
    return at * 200 - 100 + random;
}

static double falling(double at, double random)
{
    return rising(1 - at, random);
}

/* Masks most columns, among them whole vectors and threads at the start. */
static bool is_masked(double at)
{
    return at < 0.4 || fmod(at * 997, 1) < 0.9;
}

static double masked(double at, double random)
{
    return is_masked(at) ? -(double)INFINITY : random * 8;
}

static double lowest(double at, double random)
{
    return is_masked(at) ? -60000 : random * 8;
}

static double infinite(double at, double random)
{
    (void)at;
    (void)random;
    return -(double)INFINITY;
}

typedef double Kind(double at, double random);
static const struct {
    const char *name;
    Kind *number;
} kinds[] = {
    {"any", any_number}, {"large", large},   {"rising", rising},
    {"falling", falling}, {"masked", masked}, {"lowest", lowest},
    {"infinite", infinite},
};

static Kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i].number;
    return NULL;
}

/* Stores a number in type t. */
static void put(DType t, void *at, int64_t i, double x)
{
    if (t == DT_F32)
        ((float *)at)[i] = (float)x;
    else if (t == DT_BF16)
        ((uint16_t *)at)[i] = parc_to_bf16((float)x);
    else
        ((uint16_t *)at)[i] = parc_to_f16((float)x);
}

bool kernel_numbers(const Value *v, void *at, int64_t n, uint64_t *state,
                    const char *name)
{
    int64_t row = v->type.ndim ? v->type.dim[v->type.ndim - 1] : 1;
    Kind *kind = kind_of(name);
    for (int64_t i = 0; i < n && kind; i++) {
        double x = draw(state);
        if (v->type.dtype == DT_I32)
            ((int32_t *)at)[i] = (int32_t)(x * 7);
        else if (v->type.dtype == DT_I64)
            ((int64_t *)at)[i] = (int64_t)(x * 4) * 8;
        else
            put(v->type.dtype, at, i,
                kind((double)(i % row) / (double)row, x));
    }
    return kind != NULL;
}

static double number(DType t, const void *at, int64_t i)
{
    uint16_t half = 0;
    if (t == DT_F32)
        return (double)((const float *)at)[i];
    if (t == DT_I32)
        return ((const int32_t *)at)[i];
    if (t == DT_I64)
        return (double)((const int64_t *)at)[i];
    half = ((const uint16_t *)at)[i];
    if (t == DT_BF16) {
        uint32_t bits = (uint32_t)half << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        return (double)x;
    }
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double x =
        exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    x = exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY) : x;
    return half & 0x8000 ? -x : x;
}

/* The distance of two results relative to the largest number among them. In
 * 16-bit types a unit in the last place is ignored, as both were rounded. */
double kernel_largest(DType t, const void *x, int64_t n, double least)
{
    for (int64_t i = 0; i < n; i++) {
        double a = fabs(number(t, x, i));
        least = isfinite(a) && a > least ? a : least;
    }
    return least;
}

double kernel_distance(DType t, const void *x, const void *y, int64_t n, double least)
{
    static const double place[] = {[DT_F32] = 0,
                                   [DT_BF16] = 0x1p-7,
                                   [DT_F16] = 0x1p-10,
                                   [DT_I32] = 0,
                                   [DT_I64] = 0};
    double largest = kernel_largest(t, x, n, least), worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = number(t, x, i), b = number(t, y, i);
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        double off = fabs(a - b) - place[t] * fabs(a);
        if (!(off <= worst))
            worst = off;
    }
    return worst / largest;
}
