/* lower_builtin.c: the table of builtins; lowers the elementwise ones.
 *
 * Builtins are the primitive operators from which the prelude is built. With
 * only numbers as arguments a builtin computes a number (sqrt(dim)); with a
 * tensor it becomes an op.
 */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "frontend/lower/lower.h"

/* ---- elementwise --------------------------------------------------------- */

static Datum run_unary(const BuiltinCall *c)
{
    Value *x;
    if (!builtin_tensor(c, 0, &x))
        return datum_poison();
    return lower_op(c->l, c->call->loc,
                    arena_printf(c->l->arena, "take %s of", c->self->name),
                    c->self->op, 1, c->arg, NULL);
}

/* An elementwise op on n arguments. From argument `first` on, numbers become
 * scalar tensors and must fit the element type of the result. */
static Datum run_choice(const BuiltinCall *c, const char *doing, OpKind op,
                        int first, int n)
{
    Datum args[3];
    for (int i = 0; i < n; i++) {
        args[i] = c->arg[i];
        if (i >= first)
            args[i] = lower_scalar(c->l, builtin_loc(c, i), args[i]);
        if (args[i].kind == DATUM_POISON)
            return args[i];
        if (args[i].kind != DATUM_TENSOR) {
            builtin_wrong(c, i, i < first ? "a tensor" : "a tensor or a number");
            return datum_poison();
        }
    }
    Datum r = lower_op(c->l, c->call->loc, doing, op, n, args, NULL);
    for (int i = first; i < n; i++)
        if (!lower_element_fits(c->l, builtin_loc(c, i), c->arg[i], r))
            return datum_poison();
    return r;
}

static Datum run_binary(const BuiltinCall *c)
{
    return run_choice(c, arena_printf(c->l->arena, "take the %s of",
                                      c->self->name), c->self->op, 0, 2);
}

/* where(condition, x, y) */
static Datum run_where(const BuiltinCall *c)
{
    return run_choice(c, "choose between", c->self->op, 1, 3);
}

/* ceil and round accept only numbers. */
static Datum run_number(const BuiltinCall *c)
{
    builtin_wrong(c, 0, "a number");
    return datum_poison();
}

static Datum run_cast(const BuiltinCall *c, DType to)
{
    Value *x;
    if (!builtin_tensor(c, 0, &x))
        return datum_poison();
    Datum same = c->arg[0];
    same.is_data = false;
    if (x->type.dtype == to)
        return same;
    Attr attr[MAX_ATTRS] = {{.i = to}};
    return lower_op(c->l, c->call->loc, "cast", OP_cast, 1, c->arg, attr);
}

/* The value in f32 of a parameter that was cast to the compute type; else x. */
static Datum exact_param(Datum x)
{
    const Op *def = x.kind == DATUM_TENSOR && x.use.declared_by ? x.tensor->def : NULL;
    if (def && def->kind == OP_cast && def->arg[0]->type.dtype == DT_F32)
        x.tensor = def->arg[0];
    return x;
}

/* float(x): x in f32, independent of the precision. */
static Datum run_float(const BuiltinCall *c)
{
    if (datum_is_number(c->arg[0]))
        return datum_float(datum_number(c->arg[0]));
    BuiltinCall exact = *c;
    exact.arg[0] = exact_param(c->arg[0]);
    return run_cast(&exact, DT_F32);
}

/* int(x): the floats x rounded toward 0, as integers, which have no gradient. */
static Datum run_int(const BuiltinCall *c)
{
    Value *x;
    if (!builtin_tensor(c, 0, &x))
        return datum_poison();
    if (!dtype_is_float(x->type.dtype))
        return c->arg[0];
    return datum_tensor(ir_cast(&c->l->b, ir_unary(&c->l->b, OP_detach, x), DT_I32));
}

/* like(x, y): x in the element type of y. */
static Datum run_like(const BuiltinCall *c)
{
    Value *y;
    if (!builtin_tensor(c, 1, &y))
        return datum_poison();
    Value *x;
    if (!c->arg[1].is_data || !builtin_tensor(c, 0, &x))
        return run_cast(c, y->type.dtype);
    Datum d = c->arg[0]; /* y has the compute type, once an op needs it */
    d.is_data = x->type.dtype == DT_F32;
    return d;
}

/* ---- reductions and sizes ------------------------------------------------ */

static Datum run_reduce(const BuiltinCall *c)
{
    Value *x;
    bool keep;
    Attr attr[MAX_ATTRS] = {{0}};
    if (!builtin_tensor(c, 0, &x) ||
        !builtin_dims(c, 1, x->type.ndim, &attr[0].l) ||
        !builtin_flag(c, 2, false, &keep))
        return datum_poison();
    attr[1].i = keep;
    return lower_op(c->l, c->call->loc,
                    arena_printf(c->l->arena, "take the %s of", c->self->name),
                    c->self->op, 1, c->arg, attr);
}

/* size(x, d): the size of one dim. */
static Datum run_size(const BuiltinCall *c)
{
    Value *x;
    int dim;
    if (!builtin_tensor(c, 0, &x) ||
        !builtin_dim(c, 1, x->type.ndim, 0, &dim))
        return datum_poison();
    return datum_int(x->type.dim[dim]);
}

/* count(x, dim=): the number of elements that a reduction over dim combines. */
static Datum run_count(const BuiltinCall *c)
{
    Value *x;
    AttrList dims;
    if (!builtin_tensor(c, 0, &x) || !builtin_dims(c, 1, x->type.ndim, &dims))
        return datum_poison();
    int64_t n = 1;
    for (int i = 0; i < dims.n; i++)
        n *= x->type.dim[dims.v[i]];
    return datum_int(n);
}

static Datum run_rank(const BuiltinCall *c)
{
    Value *x;
    return builtin_tensor(c, 0, &x) ? datum_int(x->type.ndim)
                                    : datum_poison();
}

/* pair(x): x if it is a tuple of two, else the tuple (x, x). */
static Datum run_pair(const BuiltinCall *c)
{
    Datum x = c->arg[0];
    if (x.kind == DATUM_TUPLE && x.nitems == 2)
        return x;
    if (!datum_is_number(x)) {
        builtin_wrong(c, 0, "a number or a pair");
        return datum_poison();
    }
    Datum *item = NEW_ARRAY(c->l->arena, Datum, 2);
    item[0] = item[1] = x;
    return (Datum){.kind = DATUM_TUPLE, .item = item, .nitems = 2};
}

/* ---- initializers and refuse --------------------------------------------- */

/* The initializers with random values, whose last argument is `depth`. */
static const struct RandomInit {
    const char *name;
    InitKind kind;
    int nargs; /* without `depth` */
} random_inits[] = {{"normal", INIT_NORMAL, 1},
                    {"truncated_normal", INIT_TRUNCATED_NORMAL, 3},
                    {"uniform", INIT_UNIFORM, 2}};

/* What is wrong with the numbers; NULL: nothing. */
static const char *init_fault(const BuiltinCall *c, const Init *i)
{
    if (i->kind == INIT_UNIFORM)
        return i->a <= i->b ? NULL : "uniform(lo, hi) needs lo <= hi";
    if (!(i->a >= 0))
        return "a standard deviation must not be negative";
    if (i->kind == INIT_NORMAL || (i->b <= 0 && i->c >= 0))
        return NULL;
    return arena_printf(c->l->arena, "truncated_normal(std, lo, hi) needs lo <= 0 "
                        "<= hi, not %s and %s; the bounds are values, by default "
                        "-2 std and 2 std",
                        datum_text(c->l->arena, datum_float(i->b)),
                        datum_text(c->l->arena, datum_float(i->c)));
}

static Datum run_init(const BuiltinCall *c)
{
    const struct RandomInit *self = table_find(random_inits, c->self->name);
    Datum d = {.kind = DATUM_INIT, .init = {.kind = self->kind}};
    Init *i = &d.init;
    double none = 0;
    if (!builtin_number(c, 0, 0, &i->a))
        return datum_poison();
    if (self->kind == INIT_TRUNCATED_NORMAL)
        none = 2 * i->a;
    if ((self->nargs > 1 && !builtin_number(c, 1, -none, &i->b)) ||
        (self->nargs > 2 && !builtin_number(c, 2, none, &i->c)) ||
        !builtin_number(c, self->nargs, 0, &i->depth))
        return datum_poison();
    const char *fault = init_fault(c, i);
    if (fault)
        return lower_poison(c->l, c->call->loc, NULL, "%s", fault);
    if (!(i->depth >= -1 && i->depth <= 0))
        return lower_poison(c->l, c->call->loc, "-0.5 divides the values in "
                            "element i of an array by sqrt(i + 1)",
                            "'depth' must be from -1 to 0, not %s",
                            datum_text(c->l->arena, datum_float(i->depth)));
    return d;
}

/* refuse("… {} …", x): reports an error of a prelude function's arguments; each {} becomes the next
 * value. */
static Datum run_refuse(const BuiltinCall *c)
{
    if (c->arg[0].kind != DATUM_WORD) {
        builtin_wrong(c, 0, "a text");
        return datum_poison();
    }
    const char *text = c->arg[0].text, *at;
    for (int i = 0; i < c->bound.nextra && (at = strstr(text, "{}")); i++)
        text = arena_printf(c->l->arena, "%.*s%s%s", (int)(at - text), text,
                            datum_text(c->l->arena, c->extra[i]), at + 2);
    return lower_poison(c->l, c->call->loc, NULL, "%s", text);
}

/* ---- the table ----------------------------------------------------------- */

#define UNARY(name) {#name, "x", OP_##name, run_unary}
#define PLAIN(name, signature, run) {name, signature, OP_COUNT, run}

const Builtin builtin_table[] = {
    UNARY(exp), UNARY(log), UNARY(sqrt), UNARY(rsqrt), UNARY(recip),
    UNARY(tanh), UNARY(sigmoid), UNARY(erf), UNARY(sin), UNARY(cos),
    UNARY(abs), UNARY(floor), UNARY(relu), UNARY(detach),
    {"gelu_tanh", "x", OP_gelu, run_unary},
    {"maximum", "x, y", OP_maximum, run_binary},
    {"minimum", "x, y", OP_minimum, run_binary},
    {"where", "condition, x, y", OP_select, run_where},
    {"sum", "x, dim=, keep=", OP_sum, run_reduce},
    {"max", "x, dim=, keep=", OP_max, run_reduce},
    PLAIN("ceil", "x", run_number),
    PLAIN("round", "x", run_number),
    PLAIN("float", "x", run_float),
    PLAIN("int", "x", run_int),
    PLAIN("like", "x, y", run_like),
    PLAIN("size", "x, dim", run_size),
    PLAIN("count", "x, dim=", run_count),
    PLAIN("rank", "x", run_rank),
    PLAIN("reshape", "x, dims...", builtin_reshape),
    PLAIN("unsqueeze", "x, dim", builtin_unsqueeze),
    PLAIN("squeeze", "x, dim", builtin_squeeze),
    PLAIN("broadcast", "x, dims...", builtin_broadcast),
    PLAIN("transpose", "x, i, j", builtin_transpose),
    PLAIN("heads", "x, n", builtin_heads),
    PLAIN("merge_heads", "x", builtin_merge_heads),
    PLAIN("concat", "tensors..., dim=", builtin_concat),
    PLAIN("split", "x, n, dim=", builtin_split),
    PLAIN("slice", "x, start, size, dim=, step=", builtin_slice),
    PLAIN("pad", "x, before, after, dim=, value=", builtin_pad),
    PLAIN("einsum", "spec, tensors...", builtin_einsum),
    PLAIN("embedding", "table, ids", builtin_embedding),
    PLAIN("onehot", "ids, n, ignore=", builtin_onehot),
    PLAIN("topk", "x, k, largest=", builtin_topk),
    PLAIN("sort", "x, descending=", builtin_sort),
    PLAIN("limit_choices", "ids, experts, capacity", builtin_limit_choices),
    PLAIN("group_rows", "ids, experts", builtin_group_rows),
    {"gather_rows", "x, pair, row", OP_gather_rows, builtin_rows},
    {"combine_rows", "y, pair, row", OP_combine_rows, builtin_rows},
    {"gather_pairs", "x, pair, row", OP_gather_pairs, builtin_rows},
    {"scatter_pairs", "x, pair, row", OP_scatter_pairs, builtin_rows},
    PLAIN("grouped_matmul", "rows, weight, ends", builtin_grouped_matmul),
    PLAIN("range", "n", builtin_range),
    PLAIN("pair", "x", run_pair),
    PLAIN("may_be", "ids, n", builtin_may_be),
    PLAIN("arange", "n=", builtin_arange),
    PLAIN("attention", "q, k, v, causal=, scale=, dropout=, window=, softcap=, documents=, "
          "padding=, bias=, sinks=", builtin_attention),
    PLAIN("convolution", "x, weight, stride, padding, dilation, groups, size",
          builtin_convolution),
    PLAIN("rope", "x, theta=, style=, scaling=", builtin_rope),
    PLAIN("random", "x..., dim=", builtin_random),
    PLAIN("normal", "std, depth=", run_init),
    PLAIN("truncated_normal", "std, lo=, hi=, depth=", run_init),
    PLAIN("uniform", "lo, hi, depth=", run_init),
    PLAIN("refuse", "text...", run_refuse),
};
const int builtin_count = sizeof builtin_table / sizeof *builtin_table;

const Builtin *builtin_find(const char *name)
{
    return table_find(builtin_table, name);
}

Datum lower_builtin(Lower *l, const Builtin *b, const Expr *call)
{
    BuiltinCall c = {.l = l, .self = b, .call = call};
    Signature s;
    signature_of_text(l->arena, b->name, b->signature, &s);
    if (!bind_call(l->arena, l->diag, &s, call, &c.bound))
        return datum_poison();
    bool poison = false;
    int given = 0;
    for (int i = 0; i < s.n; i++) {
        const Expr *e = c.bound.value[i];
        c.arg[i] = e ? lower_expr(l, e) : datum_none();
        poison |= c.arg[i].kind == DATUM_POISON;
        given += e != NULL;
    }
    c.extra = NEW_ARRAY(l->arena, Datum, c.bound.nextra + 1);
    for (int i = 0; i < c.bound.nextra; i++) {
        c.extra[i] = lower_expr(l, c.bound.extra[i]);
        poison |= c.extra[i].kind == DATUM_POISON;
    }
    Datum result;
    if (poison)
        return datum_poison();
    if (eval_function(l, call->loc, b->name, given, c.arg, &result))
        return result;
    return b->run(&c);
}
