/* epilogue_gelu.c: recognizes GELU and its gradient, however a model or
 * autodiff has written them.
 *
 * Sample values of an operand are evaluated through the elementwise ops of a
 * region that depend on it and on constants alone. If a value equals GELU at all
 * samples, the pass treats it as GELU. Only smooth ops are evaluated, and two
 * different smooth functions of a few ops do not agree at that many points.
 *
 * The sources of a value are the values that smooth ops compute it from and
 * that no smooth op computes. For each source there are two lists: the values
 * that have no other source, and those that have one more. Only these are
 * evaluated, so that the time is linear in the size of the program.
 */
#include <math.h>

#include "ir/interp/interp.h"
#include "passes/fusion/epilogue.h"

enum { SAMPLES = 24 };

/* The values that smooth ops compute a value from. */
typedef struct Sources {
    int n; /* MANY: more than two */
    Value *of[2];
} Sources;
enum { MANY = 3 };

typedef VEC(Op *) OpVec;

struct Follow {
    Program *p;
    uint32_t n;       /* values that the tables cover */
    Sources *sources; /* by value id */
    OpVec *single;    /* by value id: ops whose results have this source only */
    OpVec *paired;    /* by value id: ops whose results have one more */
    double (*at)[SAMPLES];
};

/* Models and the library may have rounded constants to f32. */
static const double tolerance = 1e-6;

/* Samples of the first operand: from -4.1 to 4.3, not equidistant. */
static double sample(int i)
{
    return -4.1 + 8.4 * i / (SAMPLES - 1) + 0.13 * sin(7 * i);
}

/* Samples of the second operand: never near zero. */
static double second_sample(int i)
{
    return (i % 2 ? 1.3 : -0.8) + 0.4 * cos(5 * i);
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

/* Evaluates op from its operands. An operand that replaced another since the
 * tables were made is not a number. */
static void evaluate(Follow *f, const Op *op)
{
    double x[3];
    for (int i = 0; i < SAMPLES; i++) {
        for (int k = 0; k < op->nargs; k++)
            x[k] = op->arg[k]->id < f->n ? f->at[op->arg[k]->id][i] : NAN;
        f->at[op->out[0]->id][i] = op->kind == OP_full ? attr_value(op)
                                                       : interp_element(op, x);
    }
}

static void add_source(Sources *s, Value *v)
{
    for (int i = 0; i < s->n && s->n < MANY; i++)
        if (s->of[i] == v)
            return;
    if (s->n < 2)
        s->of[s->n] = v;
    if (s->n < MANY)
        s->n++;
}

static Sources sources_of(const Follow *f, const Op *op)
{
    Sources s = {0};
    for (int k = 0; k < op->nargs; k++) {
        const Sources *of = &f->sources[op->arg[k]->id];
        for (int i = 0; i < of->n && i < 2; i++)
            add_source(&s, of->of[i]);
        if (of->n == MANY)
            s.n = MANY;
    }
    return s;
}

static void be_source(Follow *f, Value *v)
{
    f->sources[v->id] = (Sources){1, {v, NULL}};
}

static void see_op(Follow *f, Op *op)
{
    Arena *a = f->p->arena;
    bool smooth = op->kind == OP_full ||
                  (op->nouts == 1 && op->nargs <= 3 && is_smooth(op->kind));
    for (int i = 0; i < op->nouts && !smooth; i++)
        be_source(f, op->out[i]);
    if (!smooth)
        return;
    Sources s = sources_of(f, op);
    f->sources[op->out[0]->id] = s;
    if (s.n == 0)
        evaluate(f, op);
    if (s.n == 1)
        vec_push(a, &f->single[s.of[0]->id], op);
    for (int i = 0; i < 2 && s.n == 2; i++)
        vec_push(a, &f->paired[s.of[i]->id], op);
}

static void see_region(Follow *f, const Region *r)
{
    for (int i = 0; i < r->nargs; i++)
        be_source(f, r->arg[i]);
    for (Op *op = r->first; op; op = op->next) {
        see_op(f, op);
        if (op->body)
            see_region(f, op->body);
    }
}

Follow *follow_new(Program *p)
{
    Follow *f = NEW(p->arena, Follow);
    f->p = p;
    f->n = p->nvalues;
    f->sources = NEW_ARRAY(p->arena, Sources, f->n);
    f->single = NEW_ARRAY(p->arena, OpVec, f->n);
    f->paired = NEW_ARRAY(p->arena, OpVec, f->n);
    f->at = arena_alloc(p->arena, (size_t)f->n * sizeof *f->at);
    see_region(f, p->step);
    return f;
}

/* Whether v is in the tables and its own source. */
static bool is_source(const Follow *f, const Value *v)
{
    return v->id < f->n && f->sources[v->id].n == 1 &&
           f->sources[v->id].of[0] == v;
}

static void set_samples(Follow *f, const Value *v, double number(int))
{
    for (int i = 0; i < SAMPLES; i++)
        f->at[v->id][i] = number(i);
}

/* Whether v, which has been evaluated, has x's type and the wanted samples. */
static bool agrees(const Follow *f, const Value *v, const Value *x,
                   const double *wanted)
{
    if (!type_equal(&v->type, &x->type))
        return false;
    for (int i = 0; i < SAMPLES; i++)
        if (!(fabs(f->at[v->id][i] - wanted[i]) <=
              tolerance * (1 + fabs(wanted[i]))))
            return false;
    return true;
}

Value *follow_gelu(Follow *f, Value *x)
{
    double wanted[SAMPLES];
    if (!is_source(f, x))
        return NULL;
    set_samples(f, x, sample);
    for (int i = 0; i < SAMPLES; i++)
        wanted[i] = interp_gelu(sample(i));
    const OpVec *list = &f->single[x->id];
    for (int i = 0; i < list->n; i++) {
        evaluate(f, list->at[i]);
        if (agrees(f, list->at[i]->out[0], x, wanted))
            return list->at[i]->out[0];
    }
    return NULL;
}

/* The only value that is a source of values together with d; NULL: there is
 * none, or several. */
static Value *partner_of(const Follow *f, const Value *d)
{
    const OpVec *list = &f->paired[d->id];
    Value *partner = NULL;
    for (int i = 0; i < list->n; i++) {
        const Sources *s = &f->sources[list->at[i]->out[0]->id];
        Value *other = s->of[s->of[0] == d];
        if (partner && partner != other)
            return NULL;
        partner = other;
    }
    return partner;
}

static void evaluate_all(Follow *f, const OpVec *list)
{
    for (int i = 0; i < list->n; i++)
        evaluate(f, list->at[i]);
}

Value *follow_gelu_grad(Follow *f, Value *d, Value **z)
{
    double wanted[SAMPLES];
    *z = is_source(f, d) ? partner_of(f, d) : NULL;
    if (!*z)
        return NULL;
    set_samples(f, d, second_sample);
    set_samples(f, *z, sample);
    evaluate_all(f, &f->single[d->id]);
    evaluate_all(f, &f->single[(*z)->id]);
    for (int i = 0; i < SAMPLES; i++)
        wanted[i] = second_sample(i) * interp_gelu_grad(sample(i));
    const OpVec *list = &f->paired[d->id];
    for (int i = 0; i < list->n; i++) {
        evaluate(f, list->at[i]);
        if (agrees(f, list->at[i]->out[0], d, wanted))
            return list->at[i]->out[0];
    }
    return NULL;
}
