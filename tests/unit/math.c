/* math.c: parc_math.h against libm in double, over the ranges that matter
 * and at the edges. Prints the worst error of each function in ulp. */
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

/* Sines near their zeros are compared with the ulp of 1e-2: what a table of
 * rotations needs is absolute accuracy. */
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

int main(void)
{
    Check check = {0};
    edges(&check);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare(&check, &cases[i]);
    return check_end(&check);
}
