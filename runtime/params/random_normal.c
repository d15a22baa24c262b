/* random_normal.c: draws normal random numbers for initial weights.
 *
 * The Box-Muller method computes two normal numbers from two words
 * (params/random.c). Models have up to billions of weights, and libm's functions
 * compute one value per call. This file computes several blocks together;
 * logarithm, sine and cosine are polynomials without branches, which the
 * compiler vectorizes. They are in double with errors of about 1e-14: except
 * for one number in millions, the result in f32 does not depend on the
 * machine.
 */
#include <math.h>
#include <string.h>

#include "params/philox.h"
#include "params/random.h"

enum { LANES = RT_LANES_OF_BLOCKS, WORDS = 4 * LANES };

/* (word + 1/2) / 2^32, which is never 0 or 1. It converts a signed integer,
 * because not all machines have a vector conversion of unsigned ones. */
static inline double open_unit(uint32_t word)
{
    return ((double)(int32_t)(word ^ 0x80000000u) + 2147483648.5) * 0x1p-32;
}

/* log x for x in (0, 1): x = 2^e m with m near 1, and log m = 2 artanh((m - 1)
 * / (m + 1)). */
static inline double log_of(double x)
{
    static const double ln2 = 0.693147180559945309417232;
    const uint64_t root_half = 0x3FE6A09E667F3BCDu, magic = 0x4330000000000000u;
    uint64_t bits, e;
    double m, power;
    memcpy(&bits, &x, sizeof bits);
    e = (bits - root_half + 0x3FF0000000000000u) >> 52; /* exponent + 1023 */
    bits -= (e - 1023) << 52;
    memcpy(&m, &bits, sizeof m);
    e |= magic;
    memcpy(&power, &e, sizeof power);
    power -= 0x1p52 + 1023;
    double s = (m - 1) / (m + 1), q = s * s;
    double sum = 1.0 / 17;
    sum = sum * q + 1.0 / 15;
    sum = sum * q + 1.0 / 13;
    sum = sum * q + 1.0 / 11;
    sum = sum * q + 1.0 / 9;
    sum = sum * q + 1.0 / 7;
    sum = sum * q + 1.0 / 5;
    sum = sum * q + 1.0 / 3;
    sum = sum * q + 1.0;
    return power * ln2 + 2 * s * sum;
}

/* Taylor series, for |x| <= pi / 4. */
static inline double sine(double x)
{
    double q = x * x, sum = -1.0 / 1307674368000;
    sum = sum * q + 1.0 / 6227020800;
    sum = sum * q - 1.0 / 39916800;
    sum = sum * q + 1.0 / 362880;
    sum = sum * q - 1.0 / 5040;
    sum = sum * q + 1.0 / 120;
    sum = sum * q - 1.0 / 6;
    return x + x * (q * sum);
}

static inline double cosine(double x)
{
    double q = x * x, sum = 1.0 / 20922789888000;
    sum = sum * q - 1.0 / 87178291200;
    sum = sum * q + 1.0 / 479001600;
    sum = sum * q - 1.0 / 3628800;
    sum = sum * q + 1.0 / 40320;
    sum = sum * q - 1.0 / 720;
    sum = sum * q + 1.0 / 24;
    sum = sum * q - 1.0 / 2;
    return 1 + q * sum;
}

/* a and b are the radius times cosine and sine of the angle 2 pi v / 2^32. The
 * angle is reduced to a multiple of pi / 2 and a rest of at most pi / 4 in
 * magnitude. */
static void pairs(double *restrict a, double *restrict b,
                  const uint32_t *restrict u, const uint32_t *restrict v,
                  double std)
{
    static const double full_angle = 6.283185307179586476925286766559 * 0x1p-32;
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        double radius = std * sqrt(-2 * log_of(open_unit(u[i])));
        int32_t quarters = (int32_t)((v[i] + 0x20000000u) >> 30);
        int32_t left = (int32_t)(v[i] - ((uint32_t)quarters << 30));
        double x = ((double)left + 0.5) * full_angle;
        double s = sine(x), c = cosine(x);
        double odd = (double)(quarters & 1), even = 1 - odd;
        double of_cosine = (double)(1 - ((quarters + 1) & 2));
        double of_sine = (double)(1 - (quarters & 2));
        a[i] = radius * of_cosine * (even * c + odd * s);
        b[i] = radius * of_sine * (even * s + odd * c);
    }
}

/* The numbers of LANES blocks, starting at `block`. */
static void draw_lanes(float *restrict to, int64_t seed, int stream,
                       uint32_t key, uint64_t block, double std)
{
    uint32_t x[LANES], y[LANES], z[LANES], w[LANES];
    double a[LANES], b[LANES], c[LANES], d[LANES];
    for (uint64_t i = 0; i < LANES; i++) {
        x[i] = (uint32_t)(block + i);
        y[i] = (uint32_t)((block + i) >> 32);
        z[i] = (uint32_t)stream;
        w[i] = (uint32_t)((uint64_t)seed >> 32);
    }
    rt_philox_lanes(x, y, z, w, (uint32_t)(uint64_t)seed, key);
    pairs(a, b, x, y, std);
    pairs(c, d, z, w, std);
    for (int i = 0; i < LANES; i++) {
        to[4 * i] = (float)a[i];
        to[4 * i + 1] = (float)b[i];
        to[4 * i + 2] = (float)c[i];
        to[4 * i + 3] = (float)d[i];
    }
}

void rt_random_normal(float *to, int64_t seed, int stream, uint32_t key,
                      int64_t first, int64_t n, double std)
{
    float lanes[WORDS];
    int64_t skip = first % 4; /* words of the first block */
    for (int64_t at = 0; at < n;) {
        int64_t have = WORDS - skip, take = n - at < have ? n - at : have;
        draw_lanes(lanes, seed, stream, key, (uint64_t)(first + at) / 4, std);
        memcpy(to + at, lanes + skip, (size_t)take * sizeof *to);
        at += take;
        skip = 0;
    }
}
