/* random_numbers.c: compares the random numbers of emitted kernels with the
 * interpreter's: equal element by element and row by row, wherever a row
 * begins; uniform, and a different sequence for every key and site. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/interp/interp_impl.h"
#include "runtime/params/random.h"
#include "runtime/parc_rt.h"
#include "runtime/parc_random.h"
#include "tests/unit/check.h"

enum { N = 300 };

static void rows(Check *c)
{
    static const int64_t first[] = {0, 1, 2, 3, 5, 64, 1000003,
                                    ((int64_t)1 << 34) - 70,
                                    ((int64_t)1 << 40) - 129};
    const int64_t key = rt_step_key(42, 7);
    for (size_t f = 0; f < sizeof first / sizeof *first; f++)
        for (int64_t n = 0; n <= N; n += n < 9 ? 1 : 97) {
            float row[N + 1];
            row[n] = -1;
            parc_random_row(row, key, 3, first[f], n);
            bool same = (double)row[n] == -1;
            for (int64_t i = 0; i < n; i++) {
                int64_t at = first[f] + i;
                double want = interp_uniform((double)key, 3, at);
                same &= (double)row[i] == want &&
                        (double)parc_random_at(key, 3, at) == want;
            }
            CHECK(c, same);
        }
}

/* Checks the mean and variance of uniform numbers, the count in each sixteenth
 * of the range, and the correlation of neighbours. */
static void uniform(Check *c)
{
    enum { MANY = 1 << 18 };
    static float x[MANY];
    int count[16] = {0};
    double sum = 0, squares = 0, neighbours = 0;
    parc_random_row(x, rt_step_key(1, 1), 0, 0, MANY);
    for (int i = 0; i < MANY; i++) {
        double u = (double)x[i] - 0.5;
        sum += u;
        squares += u * u;
        neighbours += i ? u * ((double)x[i - 1] - 0.5) : 0;
        count[(int)(x[i] * 16)]++;
    }
    CHECK(c, fabs(sum / MANY) < 0.003);
    CHECK(c, fabs(squares / MANY - 1.0 / 12) < 0.001);
    CHECK(c, fabs(neighbours / MANY) < 0.001);
    for (int i = 0; i < 16; i++)
        CHECK(c, labs((long)count[i] - MANY / 16) < 5 * 128);
}

/* Normal numbers equal those of libm's functions, except that a few are rounded
 * differently, wherever a range begins. */
static void normal(Check *c)
{
    enum { MANY = 4 * 5003 };
    static float x[MANY], part[MANY];
    const double full_angle = 6.283185307179586476925286766559;
    const int64_t seed = 5000000007, first = ((int64_t)1 << 34) - 4000;
    int others = 0;
    double most = 0;
    rt_random_normal(x, seed, RT_STREAM_INIT, 77, first, MANY, 0.5);
    for (int i = 0; i < MANY; i += 2) {
        uint32_t word[4];
        rt_random_block(word, seed, RT_STREAM_INIT, 77,
                        (uint64_t)(first + i) / 4);
        const uint32_t *pair = word + i % 4;
        double u = ((double)pair[0] + 0.5) * 0x1p-32;
        double angle = ((double)pair[1] + 0.5) * 0x1p-32 * full_angle;
        double radius = 0.5 * sqrt(-2 * log(u));
        float want[2] = {(float)(radius * cos(angle)),
                         (float)(radius * sin(angle))};
        for (int k = 0; k < 2; k++) {
            others += memcmp(&x[i + k], &want[k], sizeof *want) != 0;
            most = fmax(most, fabs((double)x[i + k] - (double)want[k]));
        }
    }
    CHECK(c, others <= 2 && most < 1e-7);
    for (int from = 0; from < 9; from++)
        for (int n = 0; n < 200; n += 1 + n / 9) {
            part[n] = -7;
            rt_random_normal(part, seed, RT_STREAM_INIT, 77, first + from, n,
                             0.5);
            CHECK(c, memcmp(part, x + from, sizeof *x * (size_t)n) == 0);
            CHECK(c, (double)part[n] == -7);
        }
}

/* Truncated normal numbers: bounds, moments, the probability of each value, and
 * the same values wherever a range begins. */
static void truncated(Check *c)
{
    enum { MANY = 1 << 18 };
    static float x[MANY], part[MANY];
    static const double row[][6] = {
        /* std, low, high, mean, standard deviation, tolerance */
        {1, -2, 2, 0, 0.879626, 0.005},
        {0.02, -0.06, 0.06, 0, 0.019732, 0.0001},
        {3, -60, 60, 0, 3, 0.015},
        {2, 0, 1000, 1.595769, 1.205621, 0.01},
        {1, -1, 0.5, -0.206631, 0.415660, 0.003},
        {0, -1, 1, 0, 0, 0},
        {1, 0, 0, 0, 0, 0}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        const double *r = row[k];
        double sum = 0, squares = 0, most = 0;
        rt_random_truncated(x, 9, RT_STREAM_INIT, 77, 0, MANY, r[0], r[1], r[2]);
        for (int i = 0; i < MANY; i++) {
            double v = (double)x[i];
            sum += v, squares += v * v;
            CHECK(c, x[i] >= (float)r[1] && x[i] <= (float)r[2]);
            if (i < 2000 && r[0] > 0 && r[2] > 0) {
                uint32_t word[4];
                rt_random_block(word, 9, RT_STREAM_INIT, 77, (uint64_t)i / 4);
                double below = erfc(-v / r[0] * sqrt(0.5)) / 2;
                double low = erfc(-r[1] / r[0] * sqrt(0.5)) / 2;
                double high = erfc(-r[2] / r[0] * sqrt(0.5)) / 2;
                double u = ((double)word[i % 4] + 0.5) * 0x1p-32;
                most = fmax(most, fabs((below - low) / (high - low) - u));
            }
        }
        double mean = sum / MANY, variance = squares / MANY - mean * mean;
        CHECK(c, fabs(mean - r[3]) <= r[5]);
        CHECK(c, fabs(sqrt(fmax(variance, 0)) - r[4]) <= r[5]);
        CHECK(c, most < 1e-7);
    }
    rt_random_truncated(x, 9, RT_STREAM_INIT, 77, 0, MANY, 1, -2, 2);
    for (int at = 0, n = 1; at < MANY; at += n, n = n % 13 + 1) {
        n = n < MANY - at ? n : MANY - at;
        rt_random_truncated(part + at, 9, RT_STREAM_INIT, 77, at, n, 1, -2, 2);
    }
    CHECK(c, memcmp(x, part, sizeof x) == 0);
}

static bool differ(int64_t key, uint32_t site, int64_t other_key,
                   uint32_t other_site)
{
    int same = 0;
    for (int i = 0; i < N; i++)
        same += (double)parc_random_at(key, site, i) ==
                (double)parc_random_at(other_key, other_site, i);
    return same < 3;
}

static void sequences(Check *c)
{
    int64_t key = rt_step_key(1, 1), keys[4], later[2], second[2];
    CHECK(c, key >= 0 && key < (int64_t)1 << 53);
    CHECK(c, differ(key, 0, key, 1));
    CHECK(c, differ(key, 0, rt_step_key(1, 2), 0));
    CHECK(c, differ(key, 0, rt_step_key(2, 1), 0));
    parc_split_key(NULL, keys, &key, 0, 1, 4);
    parc_split_key(NULL, later, &key, 2, 1, 2);
    CHECK(c, memcmp(keys + 2, later, sizeof later) == 0);
    parc_split_key(NULL, second, &key, 1, 2, 2);
    CHECK(c, keys[1] == second[0] && keys[3] == second[1]);
    for (int i = 0; i < 4; i++) {
        CHECK(c, differ(key, 0, keys[i], 0));
        for (int j = 0; j < i; j++)
            CHECK(c, differ(keys[i], 0, keys[j], 0));
    }
}

int main(void)
{
    Check c = {0, 0};
    rows(&c);
    uniform(&c);
    normal(&c);
    truncated(&c);
    sequences(&c);
    return check_end(&c);
}
