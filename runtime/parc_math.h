/* parc_math.h: implements the elementary functions of emitted kernels, in f32.
 *
 * libm's functions are calls, which compilers do not vectorize. These are
 * plain polynomials without branches, tables or fused multiply-adds, so a
 * compiler vectorizes them under `#pragma omp simd` with no unsafe flags but
 * -fno-math-errno. Where a function has two cases, both are computed and one
 * is selected.
 *
 * ensures: results are within about 2 ulp over the whole range. Infinities,
 *          zeros and NaN give the results of C. Results below the smallest
 *          normal number may be rounded more coarsely
 *
 * Coefficients are least-squares fits on Chebyshev nodes, weighted for the
 * relative error of the function's value.
 */
#ifndef PARC_MATH_H
#define PARC_MATH_H

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* By default GCC uses half of the vector width that the machine has, because
 * wide vectors can lower the clock rate. Polynomials gain more than that
 * costs. */
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#pragma GCC target("prefer-vector-width=512")
#endif

#define PARC_MATH static inline __attribute__((always_inline, unused))

/* Elements of a long row that are prefetched while the same number is
 * computed. */
enum { PARC_AHEAD = 256, PARC_LINE = 64 };

/* Prefetches the PARC_AHEAD elements of `size` bytes that follow the
 * PARC_AHEAD elements at `at`. The addresses may exceed the buffer: a prefetch
 * never faults. */
PARC_MATH void parc_read_ahead(const void *at, uint64_t size)
{
    uintptr_t next = (uintptr_t)at + PARC_AHEAD * size;
    for (uintptr_t i = 0; i < PARC_AHEAD * size; i += PARC_LINE)
        __builtin_prefetch((const void *)(next + i));
}

PARC_MATH float parc_from_bits(int32_t i)
{
    float x;
    memcpy(&x, &i, sizeof x);
    return x;
}

PARC_MATH int32_t parc_bits(float x)
{
    int32_t i;
    memcpy(&i, &x, sizeof i);
    return i;
}

/* y if the condition holds, else z. It selects by bits because compilers
 * compile a conditional expression to branches, or specialize the following
 * code for a constant operand. They cannot vectorize a branch with arithmetic,
 * which might trap. */
PARC_MATH float parc_select(int condition, float y, float z)
{
    int32_t mask = -(int32_t)(condition != 0);
    return parc_from_bits((parc_bits(y) & mask) | (parc_bits(z) & ~mask));
}

/* One instruction each. If x is NaN the result is y. */
PARC_MATH float parc_max(float x, float y)
{
    return x > y ? x : y;
}

PARC_MATH float parc_min(float x, float y)
{
    return x < y ? x : y;
}

/* Maps floats to integers of the same order, for row maxima: compilers always
 * vectorize a maximum of integers, but a maximum of floats only under flags
 * that exclude NaN and -0. */
PARC_MATH int32_t parc_key(float x)
{
    int32_t i = parc_bits(x);
    return i ^ ((i >> 31) & INT32_MAX);
}

PARC_MATH float parc_from_key(int32_t key)
{
    return parc_from_bits(key ^ ((key >> 31) & INT32_MAX));
}

PARC_MATH int32_t parc_higher(int32_t x, int32_t y)
{
    return x > y ? x : y;
}

PARC_MATH float parc_abs(float x)
{
    return parc_from_bits(parc_bits(x) & INT32_MAX);
}

/* The largest integer that is at most x. */
PARC_MATH float parc_floor(float x)
{
    return floorf(x);
}

/* The magnitude of x, which is not negative, with the sign of y. */
PARC_MATH float parc_copysign(float x, float y)
{
    return parc_from_bits(parc_bits(x) | (parc_bits(y) & INT32_MIN));
}

/* 2^n for -126 <= n <= 127; 0 for -127. */
PARC_MATH float parc_exp2i(int32_t n)
{
    return parc_from_bits((int32_t)((uint32_t)(n + 127) << 23));
}

/* Adding this number to x rounds x to the nearest integer: the fraction has no
 * bits left. */
#define PARC_ROUND 12582912.0f /* 1.5 2^23 */

/* e^x = 2^n e^r with |r| <= ln 2 / 2. The subtraction of n ln 2 uses ln 2 in
 * two parts; the first has few digits, hence its product with n is exact. The
 * polynomial computes 2 e^r, and the power is 2^(n-1), because n reaches 128.
 * Below 1.7e-38 the result is 0. NaN propagates: a comparison with NaN selects
 * x. */
PARC_MATH float parc_exp(float x)
{
    float v = parc_select(x > 89.0f, 89.0f, x);
    v = parc_select(v < -87.5f, -87.5f, v);
    float t = v * 1.44269504f + PARC_ROUND;
    float n = t - PARC_ROUND;
    float r = v - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 0.0027893177f;
    p = p * r + 0.01673848012f;
    p = p * r + 0.0833325222f;
    p = p * r + 0.333330304f;
    p = p * r + 1.000000016f;
    p = p * (r * r) + (r + r) + 2.0f;
    int32_t power = parc_bits(t) - parc_bits(PARC_ROUND) - 1;
    return p * parc_exp2i(power);
}

/* log x = n ln 2 + log m with m between sqrt(1/2) and sqrt(2). */
PARC_MATH float parc_log(float x)
{
    int tiny = x < FLT_MIN;
    int32_t i = parc_bits(x * parc_select(tiny, 16777216.0f, 1.0f));
    int32_t n = (i - 0x3f3504f3) >> 23;
    float m = parc_from_bits(i - (int32_t)((uint32_t)n << 23));
    float e = (float)n - parc_select(tiny, 24.0f, 0.0f);
    float f = m - 1.0f;
    float p = 0.0679728902f;
    p = p * f - 0.117089617f;
    p = p * f + 0.118826265f;
    p = p * f - 0.123991082f;
    p = p * f + 0.142194272f;
    p = p * f - 0.16668402f;
    p = p * f + 0.200021452f;
    p = p * f - 0.250000015f;
    p = p * f + 0.33333312f;
    float z = f * f;
    float y = f * z * p + e * -2.12194440e-4f - 0.5f * z;
    y = f + y + e * 0.693359375f;
    y = parc_select(x > FLT_MAX, x, y);
    y = parc_select(x == 0.0f, -INFINITY, y);
    return parc_select(x >= 0.0f, y, (float)NAN);
}

/* 1 / sqrt(x) for normal positive x. The first approximation comes from the
 * bits, by halving the exponent. Each step of Newton's method doubles the
 * number of correct digits; the last step uses the residual, which reduces its
 * rounding error. */
PARC_MATH float parc_rsqrt_normal(float x)
{
    float h = 0.5f * x;
    float y = parc_from_bits(0x5f375a86 - (parc_bits(x) >> 1));
    y = y * (1.5f - h * y * y);
    y = y * (1.5f - h * y * y);
    y = y * (1.5f - h * y * y);
    return y + y * (0.5f - h * y * y);
}

/* One instruction, also in vectors, if sqrtf need not set errno. */
PARC_MATH float parc_sqrt(float x)
{
    return sqrtf(x);
}

PARC_MATH float parc_rsqrt(float x)
{
    int tiny = x < FLT_MIN;
    float y = parc_rsqrt_normal(x * parc_select(tiny, 16777216.0f, 1.0f));
    y = y * parc_select(tiny, 4096.0f, 1.0f);
    y = parc_select(x > FLT_MAX, 0.0f, y);
    y = parc_select(x == 0.0f, INFINITY, y);
    return parc_select(x >= 0.0f, y, (float)NAN);
}

PARC_MATH float parc_sigmoid(float x)
{
    return 1.0f / (1.0f + parc_exp(-x));
}

/* Near zero x + x^3 p(x^2), elsewhere 1 - 2 / (e^2x + 1). */
PARC_MATH float parc_tanh(float x)
{
    float a = parc_abs(x);
    float z = x * x;
    float p = -0.00559628554f;
    p = p * z + 0.0205441283f;
    p = p * z - 0.0537115075f;
    p = p * z + 0.133311178f;
    p = p * z - 0.333332706f;
    float small = x + x * z * p;
    float large = 1.0f - 2.0f / (parc_exp(2.0f * a) + 1.0f);
    large = parc_copysign(large, x);
    return parc_select(a < 0.625f, small, large);
}

PARC_MATH float parc_gelu_tanh(float x)
{
    return parc_tanh(0.797884561f * (x + 0.044715f * (x * x * x)));
}

/* GELU as approximated by tanh. */
PARC_MATH float parc_gelu(float x)
{
    return 0.5f * x * (1.0f + parc_gelu_tanh(x));
}

/* Its derivative. */
PARC_MATH float parc_gelu_slope(float x)
{
    float t = parc_gelu_tanh(x);
    float inner = 0.797884561f + 0.107032224f * (x * x);
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

/* Near zero x p(x^2), elsewhere 1 - e^-q(x) with q = -log erfc. From 4 on the
 * nearest float is 1. */
PARC_MATH float parc_erf(float x)
{
    float a = parc_abs(x);
    float z = x * x;
    float p = -9.67359078e-06f;
    p = p * z + 0.000112682539f;
    p = p * z - 0.000848439655f;
    p = p * z + 0.00522105341f;
    p = p * z - 0.0268654383f;
    p = p * z + 0.112837826f;
    p = p * z - 0.376126385f;
    p = p * z + 0.128379167f;
    float small = x + x * p;
    float b = parc_select(a > 4.0f, 4.0f, a);
    float q = 2.04756554e-05f;
    q = q * b - 0.000427552362f;
    q = q * b + 0.00413872554f;
    q = q * b - 0.0250370935f;
    q = q * b + 0.108156819f;
    q = q * b + 0.633455527f;
    q = q * b + 1.12946272f;
    q = q * b - 0.000164115856f;
    float large = 1.0f - parc_exp(-q);
    large = parc_copysign(large, x);
    return parc_select(a < 1.0f, small, large);
}

/* Sine (`quadrant` 0) or cosine (`quadrant` 1) of x: x = n pi/2 + r with |r| <=
 * pi/4, and n + `quadrant` selects the sine or cosine of r and the sign. The
 * multiple of pi/2 is computed and subtracted in double, which keeps f32
 * accuracy up to |x| of about 1e9. */
PARC_MATH float parc_sin_quadrant(float x, int32_t quadrant)
{
    double t = (double)x * 0.63661977236758134 + 6755399441055744.0;
    double n = t - 6755399441055744.0;
    double d = (double)x - n * 1.5707963267341256;
    float r = (float)(d - n * 6.0771005065061922e-11);
    int32_t i = (int32_t)n + quadrant;
    float z = r * r;
    float s = 2.71810095e-06f;
    s = s * z - 0.000198393116f;
    s = s * z + 0.00833332931f;
    s = s * z - 0.166666666f;
    s = r + r * z * s;
    float c = -2.72098792e-07f;
    c = c * z + 2.4799518e-05f;
    c = c * z - 0.00138888838f;
    c = c * z + 0.0416666666f;
    c = 1.0f - 0.5f * z + z * z * c;
    float y = parc_select(i & 1, c, s);
    return parc_from_bits(parc_bits(y) ^ (int32_t)((uint32_t)(i & 2) << 30));
}

PARC_MATH float parc_sin(float x)
{
    return parc_sin_quadrant(x, 0);
}

PARC_MATH float parc_cos(float x)
{
    return parc_sin_quadrant(x, 1);
}

/* x^e for x >= 0. Codegen emits special exponents as other operations. */
PARC_MATH float parc_pow(float x, float e)
{
    return parc_exp(e * parc_log(x));
}

/* ---- 16-bit types in memory ---------------------------------------------- */

/* bf16 is the upper half of f32. */
PARC_MATH float parc_from_bf16(uint16_t x)
{
    return parc_from_bits((int32_t)((uint32_t)x << 16));
}

/* Rounds to nearest, ties to even: adds half a unit in the last place, less
 * one bit if the last place is even. NaN remains NaN. */
PARC_MATH uint16_t parc_to_bf16(float x)
{
    uint32_t i = (uint32_t)parc_bits(x);
    uint32_t rounded = i + 0x7fffu + ((i >> 16) & 1);
    return (uint16_t)((x != x ? i | 0x400000u : rounded) >> 16);
}

/* f16 has 5 exponent bits, biased by 15, and 10 fraction bits; numbers below
 * 2^-14 are multiples of 2^-24. The conversion uses integer operations,
 * because compilers do not vectorize _Float16. */
PARC_MATH float parc_from_f16(uint16_t x)
{
    uint32_t size = x & 0x7fffu, sign = (uint32_t)(x & 0x8000u) << 16;
    uint32_t bias = size >= 0x7c00u ? 224u << 23 : 112u << 23;
    float normal = parc_from_bits((int32_t)((size << 13) + bias));
    float tiny = (float)(int32_t)size * 5.96046448e-08f;
    float y = parc_select(size < 0x400u, tiny, normal);
    return parc_from_bits(parc_bits(y) | (int32_t)sign);
}

/* Rounds to nearest, ties to even; a magnitude that rounds to more than 65504
 * becomes infinity. The addition of 1/2, whose last place is 2^-24, rounds a
 * subnormal number. */
PARC_MATH uint16_t parc_to_f16(float x)
{
    uint32_t i = (uint32_t)parc_bits(x), size = i & 0x7fffffffu;
    uint32_t normal = (size + 0xfffu + ((size >> 13) & 1)) >> 13;
    normal = normal > 0x23c00u ? 0x7c00u : normal - 0x1c000u;
    float half = parc_from_bits((int32_t)size) + 0.5f;
    uint32_t tiny = (uint32_t)parc_bits(half) - 0x3f000000u;
    uint32_t y = size < 0x38800000u ? tiny : normal;
    y = size > 0x7f800000u ? 0x7e00u : y;
    return (uint16_t)(y | (i >> 16 & 0x8000u));
}

#endif
