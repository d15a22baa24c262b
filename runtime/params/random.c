/* random.c: draws random numbers, keys and permutations, none of which
 * depends on the mesh.
 *
 * Philox (parc_random.h) turns a counter and a key into four words. The key
 * contains the seed and a hash of the tensor's name, the counter the element's
 * global index. Any rank can therefore compute any element alone, and a seed
 * gives the same model on every mesh.
 *
 *   counter = (block, block >> 32, stream, seed >> 32)   key = (seed, hash)
 *
 * Element i is word i % 4 of block i / 4. The Box-Muller method computes a pair
 * of normal numbers from words (0, 1) or (2, 3) of a block. Models have up to
 * billions of weights, and libm's functions compute one value per call. Several
 * blocks are therefore computed together; logarithm, sine and cosine are
 * polynomials without branches, which the compiler vectorizes. They are in
 * double with errors of about 1e-14: except for one number in millions, the
 * result in f32 does not depend on the machine.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "params/philox.h"
#include "params/random.h"

#define HASH_START 2166136261u
#define HASH_PRIME 16777619u

/* The FNV-1a hash of a name. */
uint32_t rt_hash(const char *name)
{
    uint32_t h = HASH_START;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * HASH_PRIME;
    return h;
}

void rt_random_block(uint32_t out[4], int64_t seed, int stream, uint32_t key,
                     uint64_t block)
{
    uint64_t s = (uint64_t)seed;
    out[0] = (uint32_t)block;
    out[1] = (uint32_t)(block >> 32);
    out[2] = (uint32_t)stream;
    out[3] = (uint32_t)(s >> 32);
    parc_philox(out, (uint32_t)s, key);
}

/* Loops over the blocks that overlap the range. `at` is the index of a block's
 * word 0 in the range; it may be negative for the first block. */
#define EACH_BLOCK(first, n)                                                   \
    for (int64_t block = (first) / 4, at = block * 4 - (first); at < (n);      \
         block++, at += 4)

void rt_random_uniform(float *to, int64_t seed, int stream, uint32_t key,
                       int64_t first, int64_t n, double low, double high)
{
    EACH_BLOCK(first, n)
    {
        uint32_t word[4];
        rt_random_block(word, seed, stream, key, (uint64_t)block);
        for (int i = 0; i < 4; i++)
            if (at + i >= 0 && at + i < n) {
                /* 24 bits: rounding to f32 must not give `high`. */
                double u = (double)(word[i] >> 8) * 0x1p-24;
                to[at + i] = (float)(low + (high - low) * u);
            }
    }
}

void rt_random_below(int32_t *to, int64_t seed, int stream, uint32_t key,
                     int64_t first, int64_t n, int64_t below)
{
    EACH_BLOCK(first, n)
    {
        uint32_t word[4];
        rt_random_block(word, seed, stream, key, (uint64_t)block);
        for (int i = 0; i < 4; i++)
            if (at + i >= 0 && at + i < n)
                to[at + i] =
                    (int32_t)(((uint64_t)word[i] * (uint64_t)below) >> 32);
    }
}

int64_t rt_step_key(int64_t seed, int64_t step)
{
    uint32_t c[4];
    rt_random_block(c, seed, RT_STREAM_STEP, 0, (uint64_t)step);
    return parc_key_of(c);
}

/* A Feistel network permutes the numbers below the smallest power of 4 that
 * is at least n. It is repeated until the result is below n ("cycle
 * walking"), which gives a permutation of 0 … n-1. An epoch of any length
 * needs no table. */
int64_t rt_permute(int64_t seed, uint32_t key, int64_t n, int64_t i)
{
    enum { ROUNDS = 6 };
    int half = 1;
    while (((uint64_t)1 << (2 * half)) < (uint64_t)n)
        half++;
    uint64_t mask = ((uint64_t)1 << half) - 1, x = (uint64_t)i;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (int r = 0; r < ROUNDS; r++) {
            uint32_t word[4];
            rt_random_block(word, seed, RT_STREAM_SHUFFLE + r, key, right);
            uint64_t next = left ^ (word[0] & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= (uint64_t)n);
    return (int64_t)x;
}

/* ---- normal numbers ------------------------------------------------------ */

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

/* ---- truncated normal numbers --------------------------------------------- */

/* (c[7] x^7 + … + c[0]) / (d[7] x^7 + … + d[0]) */
static double ratio(const double c[8], const double d[8], double x)
{
    double above = c[7], below = d[7];
    for (int i = 6; i >= 0; i--) {
        above = above * x + c[i];
        below = below * x + d[i];
    }
    return above / below;
}

/* The x for which a normal variable with std 1 is below x with probability p, for
 * p in (0, 1), with a relative error of about 1e-16.
 *
 * Reference: Wichura, Algorithm AS 241, Applied Statistics 37, 1988 (PPND16). */
static double normal_quantile(double p)
{
    static const double centre[2][8] = {
        {3.3871328727963666080e0, 1.3314166789178437745e+2,
         1.9715909503065514427e+3, 1.3731693765509461125e+4,
         4.5921953931549871457e+4, 6.7265770927008700853e+4,
         3.3430575583588128105e+4, 2.5090809287301226727e+3},
        {1, 4.2313330701600911252e+1, 6.8718700749205790830e+2,
         5.3941960214247511077e+3, 2.1213794301586595867e+4,
         3.9307895800092710610e+4, 2.8729085735721942674e+4,
         5.2264952788528545610e+3}};
    static const double near[2][8] = {
        {1.42343711074968357734e0, 4.63033784615654529590e0,
         5.76949722146069140550e0, 3.64784832476320460504e0,
         1.27045825245236838258e0, 2.41780725177450611770e-1,
         2.27238449892691845833e-2, 7.74545014278341407640e-4},
        {1, 2.05319162663775882187e0, 1.67638483018380384940e0,
         6.89767334985100004550e-1, 1.48103976427480074590e-1,
         1.51986665636164571966e-2, 5.47593808499534494600e-4,
         1.05075007164441684324e-9}};
    static const double far[2][8] = {
        {6.65790464350110377720e0, 5.46378491116411436990e0,
         1.78482653991729133580e0, 2.96560571828504891230e-1,
         2.65321895265761230930e-2, 1.24266094738807843860e-3,
         2.71155556874348757815e-5, 2.01033439929228813265e-7},
        {1, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
         1.48753612908506148525e-2, 7.86869131145613259100e-4,
         1.84631831751005468180e-5, 1.42151175831644588870e-7,
         2.04426310338993978564e-15}};
    double q = p - 0.5;
    if (fabs(q) <= 0.425)
        return q * ratio(centre[0], centre[1], 0.180625 - q * q);
    double r = sqrt(-log_of(q < 0 ? p : 1 - p));
    double x = r <= 5 ? ratio(near[0], near[1], r - 1.6)
                      : ratio(far[0], far[1], r - 5);
    return q < 0 ? -x : x;
}

/* Element i is the quantile of a uniform number between the probabilities of the
 * bounds: it depends on word i only, as rejected draws would not. */
void rt_random_truncated(float *to, int64_t seed, int stream, uint32_t key,
                         int64_t first, int64_t n, double std, double low,
                         double high)
{
    bool wide = std > 0 && low < high;
    double from = wide ? erfc(-low / std * sqrt(0.5)) / 2 : 0;
    double size = wide ? erfc(-high / std * sqrt(0.5)) / 2 - from : 0;
    EACH_BLOCK(first, n)
    {
        uint32_t word[4];
        rt_random_block(word, seed, stream, key, (uint64_t)block);
        for (int i = 0; i < 4; i++)
            if (at + i >= 0 && at + i < n) {
                double p = from + size * open_unit(word[i]);
                double x = size > 0 ? std * normal_quantile(p) : 0;
                to[at + i] = (float)fmin(fmax(x, low), high);
            }
    }
}
