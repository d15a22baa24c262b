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
    {"adamw, no decay",
     {.optimizer = OPT_ADAMW, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-8}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Two parameters, a plain one and a stack. */
static Small make(const Train *t)
{
    Small s = small_new();
    s.p->train = *t;
    Value *args[] = {small_param(&s, "x", true, 0, DIMS(3)),
                     small_param(&s, "layers.*.w", true, 2, DIMS(3))};
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

int main(void)
{
    Check c = {0};
    for (int i = 0; i < CASES; i++) {
        Small s = make(&cases[i].train);
        pass_autodiff(s.p, NULL);
        Program *before = ir_copy(s.p);
        pass_optimizer(s.p, NULL);
        CHECK(&c, small_count(s.p, OP_update) == 0);
        CHECK_TEXT(&c, ir_verify(s.p), NULL);
        const char *fault = small_compare(s.arena, before, s.p);
        if (fault != NULL)
            printf("%s: %s\n", cases[i].name, fault);
        CHECK(&c, fault == NULL);
        const struct Definition *d = &definitions[s.p->train.optimizer];
        if (d->update)
            check_definition(&c, s.p, d);
        small_free(&s);
    }
    return check_end(&c);
}
