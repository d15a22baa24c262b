/* autodiff_optimizer.c: compares an expanded update with the op `update` and
 * with the optimizer's definition.
 */
#include <math.h>

#include "tests/unit/autodiff_check.h"
#include "tests/unit/check.h"

static const struct {
    const char *name;
    Train train;
} cases[] = {
    {"sgd", {.optimizer = OPT_SGD}},
    {"sgd, decay", {.optimizer = OPT_SGD, .weight_decay = 0.2}},
    {"sgd, momentum",
     {.optimizer = OPT_SGD, .weight_decay = 0.2, .momentum = 0.9}},
    {"adam",
     {.optimizer = OPT_ADAM,
      .beta1 = 0.9,
      .beta2 = 0.95,
      .eps = 1e-3,
      .weight_decay = 0.2}},
    {"adamw",
     {.optimizer = OPT_ADAMW,
      .beta1 = 0.9,
      .beta2 = 0.95,
      .eps = 1e-3,
      .weight_decay = 0.2}},
    {"lion",
     {.optimizer = OPT_LION, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.2}},
    {"lion, clip, scaled loss",
     {.optimizer = OPT_LION, .beta1 = 0.8, .beta2 = 0.95, .clip = 0.01,
      .loss_scale = 1024}},
    {"sgd, clip",
     {.optimizer = OPT_SGD, .momentum = 0.9, .weight_decay = 0.2,
      .clip = 0.01}},
    {"adam, clip above the norm",
     {.optimizer = OPT_ADAM, .beta1 = 0.9, .beta2 = 0.95, .clip = 1e6}},
    {"adamw, clip",
     {.optimizer = OPT_ADAMW,
      .beta1 = 0.9,
      .beta2 = 0.95,
      .eps = 1e-3,
      .clip = 0.01}},
    {"adamw, scaled loss",
     {.optimizer = OPT_ADAMW,
      .beta1 = 0.9,
      .beta2 = 0.95,
      .eps = 1e-3,
      .clip = 0.01,
      .loss_scale = 1024}},
    {"sgd, scaled loss",
     {.optimizer = OPT_SGD, .momentum = 0.9, .loss_scale = 0.125}},
    {"muon",
     {.optimizer = OPT_MUON, .momentum = 0.9, .nesterov = true, .ns_steps = 60,
      .ns_coefficients = {3, {1.5, -0.5, 0}}, .weight_decay = 0.2}},
    {"muon, clip",
     {.optimizer = OPT_MUON, .momentum = 0.8, .ns_steps = 60,
      .ns_coefficients = {3, {2, -1.5, 0.5}}, .clip = 0.01,
      .adjust_lr = ADJUST_UNCLAMPED}},
    {"muon, scaled loss",
     {.optimizer = OPT_MUON, .momentum = 0.95, .nesterov = true, .ns_steps = 5,
      .loss_scale = 1024, .adjust_lr = ADJUST_RMS}},
    {"adafactor",
     {.optimizer = OPT_ADAFACTOR, .eps1 = 1e-3, .eps2 = 1e-3, .clip_threshold = 1, .weight_decay = 0.2}},
    {"adafactor, clip, scaled loss",
     {.optimizer = OPT_ADAFACTOR, .eps1 = 1e-2, .eps2 = 0.5, .clip_threshold = 0.25, .clip = 0.01,
      .loss_scale = 1024}},
    {"adafactor, average",
     {.optimizer = OPT_ADAFACTOR, .eps1 = 1e-3, .eps2 = 1e-3, .ema = 0.5}},
    {"adamw, no decay",
     {.optimizer = OPT_ADAMW, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-8}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Two parameters, a plain one and a stack: vectors, or matrices [3, columns]. */
static Small make(const Train *t, int64_t columns)
{
    int ndim = columns ? 2 : 1;
    int64_t dim[] = {3, columns};
    Small s = small_new();
    s.p->train = *t;
    Value *args[] = {small_param(&s, "x", true, 0, ndim, dim),
                     small_param(&s, "layers.*.w", true, 2, ndim, dim)};
    Attr attr[MAX_ATTRS] = {{.i = 2}, {.i = 0}};
    Op *loop = ir_open(&s.b, OP_loop, 2, args, 1, 1, attr);
    Build b = s.b;
    b.region = loop->body;
    Value *next = ir_binary(&b, OP_mul, loop->body->arg[0], loop->body->arg[1]);
    next = ir_unary(&b, OP_sin, next);
    ir_yield(s.p, loop->body, 1, &next);
    ir_close(s.p, loop);
    small_loss(&s, loop->out[0]);
    return s;
}

enum { STATES = 2 };
static const double lr = 0.125, bias1 = 0.3, bias2 = 0.2;

/* PyTorch's single-tensor AdamW, given the gradient. */
static double adamw(const Train *t, double p, double g, const double *state)
{
    double m = state[0], v = state[1];
    p *= 1 - lr * t->weight_decay;
    m = t->beta1 * m + (1 - t->beta1) * g;
    v = t->beta2 * v + (1 - t->beta2) * g * g;
    return p - lr / bias1 * m / (sqrt(v) / sqrt(bias2) + t->eps);
}

/* The new parameter by the paper's algorithm, given the gradient. */
static double lion(const Train *t, double p, double g, const double *state)
{
    double c = t->beta1 * state[0] + (1 - t->beta1) * g;
    return p - lr * ((c > 0) - (c < 0) + t->weight_decay * p);
}

/* The definitions of optimizers; NULL: compared with the op `update` only. */
static const struct Definition {
    double (*update)(const Train *t, double p, double g, const double *state);
    const char *state[STATES];
} definitions[OPTIMIZERS] = {
    [OPT_ADAMW] = {adamw, {"m", "v"}},
    [OPT_LION] = {lion, {"m"}},
};

static int param_of(const Program *p, int of, const char *state)
{
    for (int i = 0; i < p->param.n; i++)
        if (p->param.at[i].state_of == of &&
            strcmp(p->param.at[i].state, state) == 0)
            return i;
    return -1;
}

static void check_definition(Check *c, const Program *p,
                             const struct Definition *d)
{
    Interp *in = interp_new(p), *before = interp_new(p);
    small_values(in, p);
    small_values(before, p);
    CHECK_TEXT(c, interp_run(in), NULL);
    const double *g = NULL;
    for (const Op *op = p->step->first; op != NULL; op = op->next)
        if (op->kind == OP_finish_grad && attr_param(op) == 0)
            g = interp_value(in, op->out[0]->name, NULL);
    double norm = 0, factor = 1;
    CHECK(c, interp_output(in, "grad_norm", &norm));
    if (p->train.clip > 0)
        factor = fmin(1, p->train.clip / (norm + 1e-6));
    if (p->train.loss_scale > 0)
        factor /= p->train.loss_scale;
    for (int k = 0; k < 3; k++) {
        double state[STATES] = {0};
        for (int s = 0; s < STATES && d->state[s]; s++)
            state[s] = interp_param(before, param_of(p, 0, d->state[s]))[k];
        double expected = d->update(&p->train, interp_param(before, 0)[k],
                                    factor * g[k], state);
        CHECK(c, fabs(interp_param(in, 0)[k] - expected) < 1e-12);
    }
    interp_free(in);
    interp_free(before);
}

/* The change of a matrix [3, n] by Muon, without weight decay and divided by the
 * learning rate, has the singular values 1 after many iterations: its rows, or
 * its columns, are orthonormal. */
static void check_orthogonal(Check *c, const Program *p, int64_t n)
{
    Interp *in = interp_new(p), *before = interp_new(p);
    small_values(in, p);
    small_values(before, p);
    CHECK_TEXT(c, interp_run(in), NULL);
    const double *old = interp_param(before, 0), *new = interp_param(in, 0);
    bool wide = n >= 3, clamped = p->train.adjust_lr == ADJUST_ORIGINAL;
    double factor = clamped && wide ? 1 : sqrt(3.0 / (double)n);
    int64_t rows = wide ? 3 : n, columns = wide ? n : 3;
    double d[3][4];
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < n; j++) {
            int64_t k = i * n + j;
            double kept = old[k] * (1 - lr * p->train.weight_decay);
            d[wide ? i : j][wide ? j : i] = (kept - new[k]) / (lr * factor);
        }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < rows; j++) {
            double product = 0;
            for (int64_t k = 0; k < columns; k++)
                product += d[i][k] * d[j][k];
            CHECK(c, fabs(product - (i == j)) < 1e-6);
        }
    interp_free(in);
    interp_free(before);
}

static void check_case(Check *c, const char *name, const Train *t,
                       int64_t columns)
{
    Small s = make(t, columns);
    pass_autodiff(s.p, NULL);
    Program *before = ir_copy(s.p);
    pass_optimizer(s.p, NULL);
    CHECK(c, small_count(s.p, OP_update) == 0);
    CHECK_TEXT(c, ir_verify(s.p), NULL);
    const char *fault = small_compare(s.arena, before, s.p);
    if (fault != NULL)
        printf("%s: %s\n", name, fault);
    CHECK(c, fault == NULL);
    const struct Definition *d = &definitions[t->optimizer];
    if (d->update)
        check_definition(c, s.p, d);
    if (t->ns_steps > 5)
        check_orthogonal(c, s.p, columns);
    small_free(&s);
}

int main(void)
{
    Check c = {0};
    for (int i = 0; i < CASES; i++) {
        bool vector = cases[i].train.optimizer != OPT_MUON;
        bool matrix = !vector || cases[i].train.optimizer == OPT_ADAFACTOR;
        for (int64_t columns = vector ? 0 : 2; columns <= (matrix ? 4 : 0); columns++)
            check_case(&c, cases[i].name, &cases[i].train, columns);
    }
    return check_end(&c);
}
