/* lower_init.c: lowers constants to ops of the INIT phase, before all loops: arange, and the
 * tables of sines and cosines of rotary embeddings.
 *
 *   rope(x, 500000.0, scaling=("llama3", 8.0, 1.0, 4.0, 8192))
 *
 *   %frequency = theta^(-2 i / d) (kept + (1 - kept) / factor)      [d / 2]
 *   %rope_cos  = magnitude cos(position frequency)                  [seq, d / 2]
 *
 * The numbers are factor, low, high and the tokens of the original context. `kept` is the
 * part of a pair's frequency that is not divided by factor, from 0 to 1:
 *
 *   linear   0 (Chen et al.: "Extending context window of large language models via
 *            positional interpolation", 2023)
 *   llama3   linear in the rotations r of a pair in the original context: 0 at `low`, 1 at
 *            `high` (the code of Llama 3.1)
 *   yarn     linear in i, from the pair of `low` rotations to that of `high`; the
 *            magnitude is 0.1 ln(factor) + 1 (Peng et al.: "YaRN", 2023). The indices of
 *            both pairs are rounded outward, those of yarn_exact are not (gpt-oss)
 *
 * Uses with the same arguments share the tables; the body of a loop reads them as free
 * operands.
 */
#include <math.h>
#include <string.h>

#include "frontend/lower/lower.h"

/* INIT ops are inserted at the start of the step. */
static Build enter_init(Lower *l, Level **level)
{
    Build saved = l->b;
    *level = l->level;
    l->level = &l->step;
    l->b.region = l->p->step;
    l->b.before = l->init_end;
    l->b.phase = PH_INIT;
    return saved;
}

static void leave_init(Lower *l, Build saved, Level *level)
{
    l->b = saved;
    l->level = level;
}

/* Among members: an initializer (start, start + 1, …). In a forward or a
 * buffer: the tensor 0, 1, …, n - 1. */
Datum builtin_arange(const BuiltinCall *c)
{
    Lower *l = c->l;
    if (l->frame->members) {
        Datum d = {.kind = DATUM_INIT, .init = {.kind = INIT_ARANGE}};
        return builtin_number(c, 0, 0, &d.init.a) ? d : datum_poison();
    }
    if (c->arg[0].kind != DATUM_INT || c->arg[0].integer < 1)
        return lower_poison(l, builtin_loc(c, 0), NULL,
                            "'arange' needs the number of elements: arange(n)");
    Level *level;
    Build saved = enter_init(l, &level);
    Attr attr[MAX_ATTRS] = {{.i = c->arg[0].integer}};
    Datum d = lower_op(l, c->call->loc, "count", OP_iota, 0, c->arg, attr);
    leave_init(l, saved, level);
    return d;
}

/* ---- rotary embedding ---------------------------------------------------- */

/* The arguments of rope, in the order of the builtin's signature. */
enum { ARG_THETA = 1, ARG_STYLE, ARG_SCALING };

static const double two_pi = 6.28318530717958647692;

static Value *scaled(Build *b, Value *x, double by, double offset)
{
    Attr scale[MAX_ATTRS] = {{.f = by}}, add[MAX_ATTRS] = {{.f = offset}};
    x = ir_value(b, OP_scale, 1, &x, scale, "scaled");
    return ir_value(b, OP_offset, 1, &x, add, "offset");
}

/* x, at least 0 and at most 1. */
static Value *clamped(Build *b, Value *x)
{
    const Type *t = &x->type;
    Value *zero = ir_full(b, 0, DT_F32, t->ndim, t->dim);
    Value *one = ir_full(b, 1, DT_F32, t->ndim, t->dim);
    return ir_binary(b, OP_minimum, ir_binary(b, OP_maximum, x, zero), one);
}

/* The index of the pair that makes `rotations` in the original context. */
static double pair_of(const Rope *r, double rotations)
{
    return (double)r->dim * log(r->original / (rotations * two_pi)) / (2 * log(r->theta));
}

/* The part of each pair's frequency that is not divided; NULL: none. */
static Value *kept_part(Build *b, const Rope *r, Value *pair, Value *frequency)
{
    if (r->scaling == ROPE_LLAMA3) {
        double per = 1 / (r->high - r->low);
        return clamped(b, scaled(b, frequency, r->original / two_pi * per, -r->low * per));
    }
    if (r->scaling < ROPE_YARN)
        return NULL;
    double first = pair_of(r, r->high), last = pair_of(r, r->low);
    bool exact = r->scaling == ROPE_YARN_EXACT;
    first = fmax(exact ? first : floor(first), 0);
    last = fmin(exact ? last : ceil(last), (double)r->dim - 1);
    double per = 1 / (last > first ? last - first : 0.001);
    return clamped(b, scaled(b, pair, -per, 1 + first * per));
}

static Value *frequencies(Build *b, const Rope *r)
{
    Attr columns[MAX_ATTRS] = {{.i = r->dim / 2}};
    Attr step[MAX_ATTRS] = {{.f = -2 * log(r->theta) / (double)r->dim}};
    Value *pair = ir_value(b, OP_iota, 0, NULL, columns, "pair");
    Value *power = ir_value(b, OP_scale, 1, &pair, step, "log_frequency");
    Value *frequency = ir_value(b, OP_exp, 1, &power, NULL, "frequency");
    if (r->scaling == ROPE_PLAIN)
        return frequency;
    Value *kept = kept_part(b, r, pair, frequency);
    if (kept)
        return ir_binary(b, OP_mul, frequency,
                         scaled(b, kept, 1 - 1 / r->factor, 1 / r->factor));
    Attr by[MAX_ATTRS] = {{.f = 1 / r->factor}};
    return ir_value(b, OP_scale, 1, &frequency, by, "frequency");
}

/* A table of cosines or sines, times the magnitude. */
static Value *table_of(Build *b, const Rope *r, OpKind kind, Value *angle, const char *hint)
{
    Value *x = ir_value(b, kind, 1, &angle, NULL, hint);
    Attr by[MAX_ATTRS] = {{.f = 0.1 * log(r->factor) + 1}};
    return r->scaling >= ROPE_YARN && r->factor > 1 ? ir_value(b, OP_scale, 1, &x, by, hint) : x;
}

static bool same_rope(const Rope *a, const Rope *b)
{
    return a->seq == b->seq && a->dim == b->dim && a->theta == b->theta &&
           a->scaling == b->scaling && a->factor == b->factor && a->low == b->low &&
           a->high == b->high && a->original == b->original;
}

static const RopeTable *rope_table(Lower *l, const Rope *r)
{
    for (int i = 0; i < l->rope.n; i++)
        if (same_rope(&l->rope.at[i].of, r))
            return &l->rope.at[i];
    Level *level;
    Build saved = enter_init(l, &level);
    Build *b = &l->b;
    Attr rows[MAX_ATTRS] = {{.i = r->seq}};
    Value *frequency = frequencies(b, r);
    Value *position = ir_value(b, OP_iota, 0, NULL, rows, "position");
    position = ir_reshape(b, position, 2, (int64_t[]){r->seq, 1});
    Value *angle = ir_value(b, OP_mul, 2, (Value *[]){position, frequency},
                            NULL, "angle");
    RopeTable t = {.of = *r};
    t.cos = table_of(b, r, OP_cos, angle, "rope_cos");
    t.sin = table_of(b, r, OP_sin, angle, "rope_sin");
    leave_init(l, saved, level);
    vec_push(l->arena, &l->rope, t);
    return &l->rope.at[l->rope.n - 1];
}

/* The index of the word that argument i, or a part d of it, is; 0 for none, -1 after an
 * error. */
static int read_choice(const BuiltinCall *c, int i, Datum d, const char *what,
                       const char *const *word, int n, const char *words)
{
    if (d.kind == DATUM_NONE)
        return 0;
    for (int k = 0; k < n && d.kind == DATUM_WORD; k++)
        if (strcmp(d.text, word[k]) == 0)
            return k;
    lower_error(c->l, builtin_loc(c, i), NULL, "the %s of rope must be %s, not %s", what, words,
                datum_text(c->l->arena, d));
    return -1;
}

/* Whether the tuple `scaling` has this number of numbers after its name. */
static bool check_numbers(const BuiltinCall *c, const Datum *scaling, int numbers)
{
    int n = scaling->nitems > 0 ? scaling->nitems - 1 : 0;
    for (int i = 1; i <= n; i++)
        if (scaling->item[i].kind == DATUM_POISON)
            return false;
        else if (!datum_is_number(scaling->item[i]))
            return lower_error(c->l, builtin_loc(c, ARG_SCALING), NULL, "a scaling of rope has a "
                               "name and numbers, not %s",
                               datum_text(c->l->arena, scaling->item[i]));
    return n == numbers ||
           lower_error(c->l, builtin_loc(c, ARG_SCALING),
                       numbers == 1 ? "such as scaling=(\"linear\", 8.0)"
                                  : "such as scaling=(\"llama3\", 8.0, 1.0, 4.0, 8192)",
                       "this scaling of rope needs %d number%s, not %d", numbers,
                       numbers == 1 ? "" : "s", n);
}

/* Reads the argument scaling: none, "default", or a tuple of a name and numbers. */
static bool read_scaling(const BuiltinCall *c, Rope *r)
{
    static const char *const word[] = {"default", "linear", "llama3", "yarn", "yarn_exact"};
    const Datum *d = &c->arg[ARG_SCALING];
    bool tuple = d->kind == DATUM_TUPLE && d->nitems > 0;
    int scaling = read_choice(c, ARG_SCALING, tuple ? d->item[0] : *d, "scaling", word, 5,
                              "default, linear, llama3, yarn or yarn_exact");
    if (scaling <= ROPE_PLAIN)
        return scaling == ROPE_PLAIN;
    int numbers = scaling == ROPE_LINEAR ? 1 : 4;
    if (!check_numbers(c, d, numbers))
        return false;
    r->scaling = (RopeScaling)scaling;
    r->factor = datum_number(d->item[1]);
    if (r->factor < 1)
        return lower_error(c->l, builtin_loc(c, ARG_SCALING), NULL,
                           "rope needs a factor of at least 1, not %g", r->factor);
    if (scaling == ROPE_LINEAR)
        return true;
    r->low = datum_number(d->item[2]);
    r->high = datum_number(d->item[3]);
    r->original = datum_number(d->item[4]);
    return (r->original >= 1 && r->low > 0 && r->high > r->low) ||
           lower_error(c->l, builtin_loc(c, ARG_SCALING), NULL, "rope needs numbers of rotations, "
                       "0 < low < high, and the tokens of the original context");
}

Datum builtin_rope(const BuiltinCall *c)
{
    static const char *const styles[] = {"interleaved", "half"};
    Lower *l = c->l;
    Value *x;
    Rope r = {0};
    if (!builtin_tensor(c, 0, &x) ||
        !builtin_number(c, ARG_THETA, DEFAULT_THETA, &r.theta))
        return datum_poison();
    if (r.theta <= 0)
        return lower_poison(l, builtin_loc(c, ARG_THETA), NULL, "the base of rope's "
                            "frequencies must be above 0, not %g", r.theta);
    if (x->type.ndim != 4 || x->type.dim[3] % 2 != 0)
        return lower_poison(l, c->call->loc,
                            "rope(heads(x, n), theta): [batch, seq, heads, "
                            "even]", "cannot rotate %s", builtin_shape(c, x));
    r.seq = x->type.dim[1];
    r.dim = x->type.dim[3];
    int style = read_choice(c, ARG_STYLE, c->arg[ARG_STYLE], "style", styles, 2, "interleaved or half");
    if (style < 0 || !read_scaling(c, &r))
        return datum_poison();
    l->b.loc = lower_user_loc(l, c->call->loc);
    const RopeTable *t = rope_table(l, &r);
    Datum args[3] = {c->arg[0], datum_tensor(t->cos), datum_tensor(t->sin)};
    Attr attr[MAX_ATTRS] = {{.i = style}, {.i = false}};
    return lower_op(l, c->call->loc, "rotate", OP_rotary, 3, args, attr);
}
