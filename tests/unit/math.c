/* math.c: compares parc_math.h with libm in double, over the ranges that
 * matter and at the edges, and prints the largest error of each function in
 * ulp. Also tests conversions of 16-bit floats, and the keys that order floats
 * as integers. */
#include <math.h>
#include <stdio.h>

#include "runtime/parc_math.h"
#include "tests/unit/check.h"

typedef struct Case {
    const char *name;
    float (*f)(float);
    double (*exact)(double);
    double low, high;
    double ulp; /* allowed */
} Case;

#define WRAP(name)                                                             \
    static float f_##name(float x)                                             \
    {                                                                          \
        return parc_##name(x);                                                 \
    }
WRAP(exp)
WRAP(log)
WRAP(sqrt)
WRAP(rsqrt)
WRAP(sigmoid)
WRAP(tanh)
WRAP(erf)
WRAP(gelu)
WRAP(gelu_slope)
WRAP(sin)
WRAP(cos)

static double exact_rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double exact_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double exact_gelu_tanh(double x)
{
    return tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x));
}

static double exact_gelu(double x)
{
    return x / 2 * (1 + exact_gelu_tanh(x));
}

static double exact_gelu_slope(double x)
{
    double t = exact_gelu_tanh(x);
    return (1 + t) / 2 + x / 2 * (1 - t * t) *
           0.79788456080286535588 * (1 + 3 * 0.044715 * x * x);
}

/* Near their zeros sines are compared with the ulp of 1e-2, since tables of
 * rotations need absolute accuracy. */
static const Case cases[] = {
    {"exp", f_exp, exp, -86.6, 88.7, 2},
    {"exp", f_exp, exp, -1, 1, 1.5},
    {"log", f_log, log, 1e-37, 1e38, 2},
    {"log", f_log, log, 0.5, 2, 2},
    {"sqrt", f_sqrt, sqrt, 1e-38, 1e38, 1.5},
    {"sqrt", f_sqrt, sqrt, 0.1, 10, 1.5},
    {"rsqrt", f_rsqrt, exact_rsqrt, 1e-37, 1e38, 2},
    {"rsqrt", f_rsqrt, exact_rsqrt, 0.1, 10, 2},
    {"sigmoid", f_sigmoid, exact_sigmoid, -86, 30, 3},
    {"tanh", f_tanh, tanh, -10, 10, 2},
    {"tanh", f_tanh, tanh, -0.7, 0.7, 2},
    {"erf", f_erf, erf, -5, 5, 2},
    {"erf", f_erf, erf, -1.1, 1.1, 2},
    {"gelu", f_gelu, exact_gelu, -1, 8, 8},
    {"gelu_slope", f_gelu_slope, exact_gelu_slope, -0.5, 8, 8},
    {"sin", f_sin, sin, -10, 10, 2},
    {"sin", f_sin, sin, -1e6, 1e6, 2},
    {"cos", f_cos, cos, -10, 10, 2},
    {"cos", f_cos, cos, -1e6, 1e6, 2},
};

static double ulp_of(double x, const Case *c)
{
    double a = fabs(x);
    if ((c->exact == sin || c->exact == cos) && a < 1e-2)
        a = 1e-2;
    if (a < FLT_MIN)
        a = FLT_MIN;
    int e;
    frexp(a, &e);
    return ldexp(1, e - FLT_MANT_DIG);
}

static void compare(Check *check, const Case *c)
{
    enum { points = 400000 };
    double worst = 0, at = 0;
    int logarithmic = c->low > 0 && c->high / c->low > 1e3;
    for (int i = 0; i <= points; i++) {
        double t = (double)i / points;
        float x = logarithmic ? (float)(c->low * pow(c->high / c->low, t))
                              : (float)(c->low + (c->high - c->low) * t);
        double y = c->exact(x);
        double error = fabs(c->f(x) - y) / ulp_of(y, c);
        if (!(error <= worst)) {
            worst = error;
            at = x;
        }
    }
    printf("%-8s %8g … %-8g %.3f ulp at %g\n", c->name, c->low, c->high, worst,
           at);
    CHECK(check, worst <= c->ulp);
}

static void same(Check *check, const char *what, float is, float want)
{
    int equal = is == want || (isnan(is) && isnan(want));
    CHECK(check, equal);
    if (!equal)
        printf("%s is %g, not %g\n", what, (double)is, (double)want);
}

static void edges(Check *check)
{
    const float inf = INFINITY, nan = NAN;
    same(check, "exp(-inf)", f_exp(-inf), 0);
    same(check, "exp(-200)", f_exp(-200), 0);
    same(check, "exp(100)", f_exp(100), inf);
    same(check, "exp(inf)", f_exp(inf), inf);
    same(check, "exp(nan)", f_exp(nan), nan);
    same(check, "exp(0)", f_exp(0), 1);
    same(check, "log(0)", f_log(0), -inf);
    same(check, "log(1)", f_log(1), 0);
    same(check, "log(inf)", f_log(inf), inf);
    same(check, "log(-1)", f_log(-1), nan);
    same(check, "log(nan)", f_log(nan), nan);
    same(check, "sqrt(0)", f_sqrt(0), 0);
    same(check, "sqrt(inf)", f_sqrt(inf), inf);
    same(check, "sqrt(-1)", f_sqrt(-1), nan);
    same(check, "sqrt(4)", f_sqrt(4), 2);
    same(check, "rsqrt(0)", f_rsqrt(0), inf);
    same(check, "rsqrt(inf)", f_rsqrt(inf), 0);
    same(check, "sigmoid(-inf)", f_sigmoid(-inf), 0);
    same(check, "sigmoid(inf)", f_sigmoid(inf), 1);
    same(check, "tanh(inf)", f_tanh(inf), 1);
    same(check, "tanh(-inf)", f_tanh(-inf), -1);
    same(check, "tanh(nan)", f_tanh(nan), nan);
    same(check, "erf(-inf)", f_erf(-inf), -1);
    same(check, "erf(nan)", f_erf(nan), nan);
    same(check, "sin(0)", f_sin(0), 0);
    same(check, "cos(0)", f_cos(0), 1);
    same(check, "max", parc_max(1, 2), 2);
    same(check, "min", parc_min(1, 2), 1);
    same(check, "abs", parc_abs(-3), 3);
}

/* The value of f16 bits, by its definition. */
static double f16_value(uint16_t x)
{
    int exponent = x >> 10 & 31, fraction = x & 1023;
    double size = exponent == 31 ? (fraction ? NAN : INFINITY)
                  : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                 : ldexp(fraction, -24);
    return x >> 15 ? -size : size;
}

typedef struct Half {
    const char *name;
    float (*from)(uint16_t);
    uint16_t (*to)(float);
    uint16_t infinity;
} Half;

/* Every 16-bit number converts to f32 and back unchanged. Numbers between two
 * round to the nearer one, ties to even; above the largest is infinity. */
static void half_type(Check *c, const Half *h)
{
    int back = 1, nearest = 1, nan = 1;
    for (uint32_t i = 0; i < 0x10000; i++) {
        float x = h->from((uint16_t)i);
        uint32_t size = i & 0x7fff;
        if (size > h->infinity) {
            nan &= x != x && h->from(h->to(x)) != h->from(h->to(x));
            continue;
        }
        back &= h->to(x) == i;
        if (size + 1 >= h->infinity)
            continue;
        float y = h->from((uint16_t)(i + 1)), middle = x + (y - x) / 2;
        nearest &= h->to(middle) == (i & 1 ? i + 1 : i);
        nearest &= h->to(nextafterf(middle, x)) == i;
        nearest &= h->to(nextafterf(middle, y)) == i + 1;
    }
    if (!back || !nearest || !nan)
        printf("%s: back %d, nearest %d, NaN %d\n", h->name, back, nearest,
               nan);
    CHECK(c, back && nearest && nan);
    CHECK(c, h->to(INFINITY) == h->infinity);
    CHECK(c, h->to(-FLT_MAX) == (h->infinity | 0x8000));
    CHECK(c, h->to(h->from((uint16_t)(h->infinity - 1))) == h->infinity - 1);
}

static void half_types(Check *c)
{
    static const Half types[] = {
        {"bf16", parc_from_bf16, parc_to_bf16, 0x7f80},
        {"f16", parc_from_f16, parc_to_f16, 0x7c00},
    };
    int exact = 1;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        half_type(c, &types[i]);
    for (uint32_t i = 0; i < 0x10000; i++) {
        double x = (double)parc_from_f16((uint16_t)i);
        double y = f16_value((uint16_t)i);
        exact &= x == y || (x != x && y != y);
    }
    CHECK(c, exact);
    CHECK(c, parc_to_f16(65519.9f) == 0x7bff);
    CHECK(c, parc_to_f16(65520.0f) == 0x7c00);
    CHECK(c, parc_to_f16(0x1p-25f) == 0 && parc_to_f16(0x1.1p-25f) == 1);
    CHECK(c, parc_to_bf16(-0.0f) == 0x8000 && parc_to_f16(-0.0f) == 0x8000);
}

/* Keys order as their floats do, with NaN as the largest, and convert back. */
static void keys(Check *c)
{
    static const float rising[] = {-INFINITY, -FLT_MAX, -1.5f, -1e-40f, -0.0f,
                                   0.0f,      1e-40f,   1.5f,  FLT_MAX, INFINITY,
                                   NAN};
    int n = sizeof rising / sizeof *rising;
    for (int i = 0; i < n; i++) {
        int32_t key = parc_key(rising[i]);
        CHECK(c, parc_bits(parc_from_key(key)) == parc_bits(rising[i]));
        CHECK(c, i == 0 || parc_key(rising[i - 1]) < key);
        CHECK(c, parc_higher(key, parc_key(rising[0])) == key);
    }
}

int main(void)
{
    Check check = {0};
    edges(&check);
    keys(&check);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare(&check, &cases[i]);
    half_types(&check);
    return check_end(&check);
}
