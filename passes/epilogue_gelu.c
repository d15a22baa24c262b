/* epilogue_gelu.c: recognizes GELU and its gradient, however a model or
 * autodiff has written them.
 *
 * Sample values of an operand are evaluated through the elementwise ops of a
 * region that depend on it and on constants alone. A value that equals GELU at
 * all samples is taken for GELU: only smooth ops take part, and two different
 * smooth functions built from a few of them do not agree at that many points.
 */
#include <math.h>
#include <string.h>

#include "ir/interp.h"
#include "passes/epilogue.h"

enum { SAMPLES = 24 };

struct Follow {
    Program *p;
    uint32_t n;       /* values that the tables cover */
    uint32_t *turn;   /* by value id: evaluated in the run with this number */
    bool *moves;      /* by value id: depends on a sample (is not constant) */
    bool *derived;    /* by value id: computed from the d of follow_mark */
    bool *needed;     /* by value id: such a value is computed from it */
    double (*at)[SAMPLES];
    uint32_t now;
};

/* Models and the library may have rounded constants to f32. */
static const double tolerance = 1e-6;

static double gelu(double x)
{
    return x / 2 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

static double gelu_grad(double x)
{
    double t = tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * 0.7978845608028654 *
                             (1 + 3 * 0.044715 * x * x);
}

/* From -4.1 to 4.3, not equidistant. */
static double sample(int i)
{
    return -4.1 + 8.4 * i / (SAMPLES - 1) + 0.13 * sin(7 * i);
}

/* Never near zero. */
static double second_sample(int i)
{
    return (i % 2 ? 1.3 : -0.8) + 0.4 * cos(5 * i);
}

Follow *follow_new(Program *p)
{
    Follow *f = NEW(p->arena, Follow);
    f->p = p;
    f->n = p->nvalues;
    f->turn = NEW_ARRAY(p->arena, uint32_t, f->n);
    f->moves = NEW_ARRAY(p->arena, bool, f->n);
    f->derived = NEW_ARRAY(p->arena, bool, f->n);
    f->needed = NEW_ARRAY(p->arena, bool, f->n);
    f->at = arena_alloc(p->arena, (size_t)f->n * sizeof *f->at);
    return f;
}

static bool is_known(const Follow *f, const Value *v)
{
    return v->id < f->n && f->turn[v->id] == f->now;
}

static void set(Follow *f, const Value *v, double number(int))
{
    f->turn[v->id] = f->now;
    f->moves[v->id] = true;
    for (int i = 0; i < SAMPLES; i++)
        f->at[v->id][i] = number(i);
}

static bool is_smooth(OpKind kind)
{
    static const bool kinked[OP_COUNT] = {
        [OP_maximum] = true, [OP_minimum] = true, [OP_equal] = true,
        [OP_less] = true,    [OP_select] = true,  [OP_abs] = true,
        [OP_relu] = true,    [OP_step] = true,
    };
    return op_is_elementwise(kind) && !kinked[kind];
}

static void follow(Follow *f, const Op *op)
{
    double x[3];
    bool known = is_smooth(op->kind) && op->nargs <= 3, moves = false;
    const Value *v = op->nouts == 1 ? op->out[0] : NULL;
    if (!v || v->id >= f->n || is_known(f, v))
        return;
    for (int k = 0; k < op->nargs && known; k++) {
        known = is_known(f, op->arg[k]);
        moves |= known && f->moves[op->arg[k]->id];
    }
    if (!known && op->kind != OP_full)
        return;
    f->turn[v->id] = f->now;
    f->moves[v->id] = moves;
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < op->nargs; k++)
            x[k] = f->at[op->arg[k]->id][i];
        f->at[v->id][i] = op->kind == OP_full ? op_attr(op, "value").f
                                              : interp_element(op, x);
    }
}

static bool agrees(const Follow *f, const Value *v, const double *wanted)
{
    if (!is_known(f, v) || !f->moves[v->id])
        return false;
    for (int i = 0; i < SAMPLES; i++)
        if (!(fabs(f->at[v->id][i] - wanted[i]) <=
              tolerance * (1 + fabs(wanted[i]))))
            return false;
    return true;
}

/* The first value of x's type in its region, other than x, that has the wanted
 * samples. */
static Value *find(Follow *f, const Value *x, const double *wanted)
{
    for (Op *op = x->region->first; op; op = op->next) {
        follow(f, op);
        if (op->nouts == 1 && op->out[0] != x &&
            type_equal(&op->out[0]->type, &x->type) &&
            agrees(f, op->out[0], wanted))
            return op->out[0];
    }
    return NULL;
}

Value *follow_gelu(Follow *f, Value *x)
{
    double wanted[SAMPLES];
    if (x->id >= f->n)
        return NULL;
    f->now++;
    set(f, x, sample);
    for (int i = 0; i < SAMPLES; i++)
        wanted[i] = gelu(sample(i));
    return find(f, x, wanted);
}

/* Whether smooth ops compute op's result, and a table covers it. */
static bool is_covered(const Follow *f, const Op *op)
{
    return op->nouts == 1 && op->out[0]->id < f->n && is_smooth(op->kind);
}

void follow_mark(Follow *f, const Value *d)
{
    const Region *r = d->region;
    memset(f->derived, 0, f->n * sizeof *f->derived);
    memset(f->needed, 0, f->n * sizeof *f->needed);
    if (d->id >= f->n)
        return;
    f->derived[d->id] = true;
    for (const Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs && is_covered(f, op); i++)
            if (op->arg[i]->id < f->n && f->derived[op->arg[i]->id])
                f->derived[op->out[0]->id] = true;
    for (const Op *op = r->last; op; op = op->prev)
        for (int i = 0; i < op->nargs && is_covered(f, op); i++)
            if (op->arg[i]->id < f->n && (f->derived[op->out[0]->id] ||
                                          f->needed[op->out[0]->id]))
                f->needed[op->arg[i]->id] = true;
}

bool follow_is_marked(const Follow *f, const Value *z)
{
    return z->id < f->n && f->needed[z->id];
}

Value *follow_gelu_grad(Follow *f, Value *d, Value *z)
{
    double wanted[SAMPLES];
    if (d->id >= f->n || z->id >= f->n)
        return NULL;
    f->now++;
    set(f, d, second_sample);
    set(f, z, sample);
    for (int i = 0; i < SAMPLES; i++)
        wanted[i] = second_sample(i) * gelu_grad(sample(i));
    return find(f, d, wanted);
}
