/* random_compare.c: fills the inputs and parameters of a program with numbers,
 * and compares the results of two runs. */
#include "tests/unit/random.h"

#include <math.h>
#include <string.h>

/* ---- numbers ----------------------------------------------------------- */

/* One generator per name, as passes may add or reorder tensors. */
static Rng rng_for(uint64_t seed, const char *name)
{
    Rng r = {seed * 1000003u + 17};
    for (const char *s = name; *s; s++)
        r.state = (r.state ^ (uint64_t)(unsigned char)*s) * 0x100000001b3u;
    return r;
}

static double param_number(const Param *p, Rng *r)
{
    if (p->state_of < 0)
        return 0.3 * rng_normal(r);
    if (strcmp(p->state, "v") == 0)
        return 0.5 + (double)rng_below(r, 1000) / 1000;
    return 0.1 * rng_normal(r);
}

static void set_values(Interp *in, const Program *p, uint64_t seed, double error)
{
    Arena *a = arena_new();
    Rng rounding = {seed};
    for (int i = 0; i < p->param.n; i++) {
        const Param *param = &p->param.at[i];
        Rng r = rng_for(seed, param->name);
        Type shape = param_shape(param);
        int64_t n = type_elements(&shape);
        double *x = NEW_ARRAY(a, double, n + 1);
        for (int64_t k = 0; k < n; k++)
            x[k] = param_number(param, &r);
        for (int64_t k = 0; k < n && error > 0; k++)
            x[k] *= 1 + error * rng_normal(&rounding);
        interp_set_param(in, i, x);
    }
    for (int i = 0; i < p->input.n; i++) {
        const Input *input = &p->input.at[i];
        Rng r = rng_for(seed, input->name);
        int64_t n = type_elements(&input->type);
        double *x = NEW_ARRAY(a, double, n + 1);
        for (int64_t k = 0; k < n; k++)
            x[k] = input->below > 0 ? (double)rng_below(&r, input->below)
                                    : rng_normal(&r);
        interp_set_input(in, i, x);
    }
    interp_set_scalar(in, "lr", 0.1);
    interp_set_scalar(in, "bias1", 0.3);
    interp_set_scalar(in, "loss_scale", p->train.loss_scale);
    interp_set_scalar(in, "bias2", 0.2);
    interp_set_scalar(in, "random", 0x1p52 + 12345);
    arena_free(a);
}

void random_values(Interp *in, const Program *p, uint64_t seed)
{
    set_values(in, p, seed, 0);
}

void random_rounded_values(Interp *in, const Program *p, uint64_t seed)
{
    set_values(in, p, seed, 0x1p-52);
}

/* ---- comparison -------------------------------------------------------- */

/* Smaller numbers are rounding errors of a value that is mathematically zero,
 * such as the gradient of a constant loss. */
static const double smallest = 1e-6;
/* The same for parameters and states, as a share of the norm of all gradients:
 * in a steep model large terms cancel and leave rounding errors. */
static const double cancelled = 1e-2;

static const char *compare_tensors(Arena *a, const char *name, const double *x,
                                   const double *y, int64_t n, double least,
                                   double tolerance)
{
    double largest = least;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(x[i]));
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i]))
            return arena_printf(a, "%s[%lld] is %g", name, (long long)i, x[i]);
        if (!(fabs(x[i] - y[i]) <= tolerance * largest))
            return arena_printf(a,
                                "%s[%lld] is %.17g, should be %.17g (largest "
                                "magnitude %g)",
                                name, (long long)i, y[i], x[i], largest);
    }
    return NULL;
}

static const char *compare_output(Arena *a, const char *name, Interp *x,
                                  Interp *y, double tolerance)
{
    double v = 0, w = 0;
    bool has = interp_output(x, name, &v);
    if (has != interp_output(y, name, &w))
        return arena_printf(a, "only one of the programs has output %s", name);
    return has ? compare_tensors(a, name, &v, &w, 1, smallest, tolerance)
               : NULL;
}

const char *compare_runs(Arena *a, const Program *p, Interp *x, Interp *y,
                         double tolerance)
{
    const char *text = compare_output(a, "loss", x, y, tolerance);
    if (!text)
        text = compare_output(a, "grad_norm", x, y, tolerance);
    if (!text)
        text = compare_output(a, "dropped", x, y, 0);
    double norm = 0;
    interp_output(x, "grad_norm", &norm);
    for (int i = 0; i < p->param.n && !text; i++) {
        const Param *param = &p->param.at[i];
        /* A low-precision copy is compared with its parameter in x. */
        int of = param->init.kind == INIT_COPY ? param->state_of : i;
        if (interp_assigned(x, of) != interp_assigned(y, i))
            return arena_printf(a, "'%s' is assigned in one program only",
                                param->name);
        Type shape = param_shape(param);
        text = compare_tensors(a, param->name, interp_param(x, of),
                               interp_param(y, i), type_elements(&shape),
                               fmax(smallest, cancelled * norm), tolerance);
    }
    return text;
}
