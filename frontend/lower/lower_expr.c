/* lower_expr.c: lowers expressions, and operators on tensors.
 *
 * lower_arithmetic.c computes with numbers. An operator on a tensor and a number
 * becomes an op with a compile-time operand, which needs no constant tensor:
 *
 * before   2.0 * y
 * after    %scale = scale{by=2} %y
 */
#include "frontend/lower/lower.h"

#include <math.h>
#include <string.h>

#include "frontend/syntax/parser.h"
#include "ir/options.h"

/* ---- ops on tensors ------------------------------------------------------ */

static Datum unary(Lower *l, Loc loc, const char *doing, OpKind kind, Datum x)
{
    return lower_op(l, loc, doing, kind, 1, &x, NULL);
}

static Datum unary_by(Lower *l, Loc loc, const char *doing, OpKind kind,
                      Datum x, double by)
{
    Attr attr[MAX_ATTRS] = {{.f = by}};
    return lower_op(l, loc, doing, kind, 1, &x, attr);
}

/* ---- tensor and number --------------------------------------------------- */

static Datum power_of(Lower *l, Loc loc, Datum x, double y)
{
    Datum both[2] = {x, x};
    if (y == 1)
        return x;
    if (y == 2)
        return lower_op(l, loc, "square", OP_mul, 2, both, NULL);
    if (y == -1)
        return unary(l, loc, "invert", OP_recip, x);
    if (y == 0.5)
        return unary(l, loc, "take the root of", OP_sqrt, x);
    if (y == -0.5)
        return unary(l, loc, "take the root of", OP_rsqrt, x);
    return unary_by(l, loc, "raise", OP_power, x, y);
}

static Datum tensor_number(Lower *l, Loc loc, BinaryOp op, Datum x, double y)
{
    if (!lower_f32(l, loc, y))
        return datum_poison();
    if (op == BIN_DIV && dtype_range(DT_F32, 1 / y) > 0)
        return lower_poison(l, loc, NULL,
                            y == 0 ? "division by zero"
                                   : "1 / %s is too large for f32",
                            datum_text(l->arena, datum_float(y)));
    if (op == BIN_ADD || op == BIN_SUB)
        return unary_by(l, loc, "add to", OP_offset, x,
                        op == BIN_ADD ? y : -y);
    if (op == BIN_MUL || op == BIN_DIV)
        return unary_by(l, loc, "scale", OP_scale, x,
                        op == BIN_MUL ? y : 1 / y);
    return power_of(l, loc, x, y);
}

static Datum number_tensor(Lower *l, Loc loc, BinaryOp op, double x, Datum y)
{
    if (!lower_f32(l, loc, x))
        return datum_poison();
    if (op == BIN_POW && x <= 0)
        return lower_poison(l, loc, NULL, "the base of a power with a tensor "
                            "exponent must be above 0, not %s",
                            datum_text(l->arena, datum_float(x)));
    if (op == BIN_ADD || op == BIN_MUL)
        return tensor_number(l, loc, op, y, x);
    if (op == BIN_SUB) {
        y = unary(l, loc, "negate", OP_neg, y);
        return y.kind == DATUM_POISON
                   ? y : unary_by(l, loc, "add to", OP_offset, y, x);
    }
    if (op == BIN_DIV) {
        y = unary(l, loc, "divide by", OP_recip, y);
    } else { /* x ** y = e^(y ln x) */
        y = unary_by(l, loc, "raise a number to", OP_scale, y, log(x));
        return y.kind == DATUM_POISON ? y : unary(l, loc, "raise", OP_exp, y);
    }
    return y.kind == DATUM_POISON || x == 1
               ? y : unary_by(l, loc, "scale", OP_scale, y, x);
}

/* ---- tensor and tensor --------------------------------------------------- */

static Datum matmul(Lower *l, Loc loc, const Datum *xy)
{
    const Type *x = &xy[0].tensor->type, *y = &xy[1].tensor->type;
    int leading = y->ndim - 2;
    bool fits = x->ndim >= 1 && leading >= 0 &&
                (leading == 0 || x->ndim == y->ndim) &&
                x->ndim + 1 <= MAX_DIMS + 1 &&
                x->dim[x->ndim - 1] == y->dim[y->ndim - 2];
    for (int i = 0; i < leading && fits; i++)
        fits = x->dim[i] == y->dim[i];
    if (!fits)
        return lower_poison(l, loc, "shapes must be [..., m, k] @ [k, n]",
                            "cannot multiply %s",
                            lower_operands_text(l, 2, xy));
    const char *a = "abcdefgh";
    int n = x->ndim - 1; /* dims of x before k */
    const char *spec =
        arena_printf(l->arena, "%.*sk,%.*skn->%.*sn", n, a, leading, a, n, a);
    Attr attr[MAX_ATTRS] = {{.s = spec}, {.i = x->dtype}};
    return lower_op(l, loc, "multiply", OP_einsum, 2, xy, attr);
}

/* A comparison gives 1 or 0 for each element. */
static Datum tensor_compare(Lower *l, Loc loc, BinaryOp op, Datum *xy)
{
    bool swap = op == BIN_GT || op == BIN_LE;
    bool invert = op == BIN_NE || op == BIN_LE || op == BIN_GE;
    bool equal = op == BIN_EQ || op == BIN_NE;
    Datum sides[2] = {xy[swap], xy[!swap]};
    Datum r = lower_op(l, loc, "compare", equal ? OP_equal : OP_less, 2,
                       sides, NULL);
    if (r.kind == DATUM_POISON || !invert)
        return r;
    return number_tensor(l, loc, BIN_SUB, 1, r);
}

static Datum tensor_tensor(Lower *l, Loc loc, BinaryOp op, Datum *xy)
{
    static const struct {
        BinaryOp op;
        OpKind kind;
        const char *doing;
    } table[] = {
        {BIN_ADD, OP_add, "add"},
        {BIN_SUB, OP_sub, "subtract"},
        {BIN_MUL, OP_mul, "multiply"},
        {BIN_DIV, OP_div, "divide"},
    };
    if (op == BIN_MATMUL)
        return matmul(l, loc, xy);
    if (op >= BIN_EQ && op <= BIN_GE)
        return tensor_compare(l, loc, op, xy);
    for (int i = 0; i < 4; i++)
        if (table[i].op == op)
            return lower_op(l, loc, table[i].doing, table[i].kind, 2, xy,
                            NULL);
    return lower_poison(l, loc, NULL, "'%s' does not work on %s",
                        binary_sign(op), lower_operands_text(l, 2, xy));
}

static Datum binary(Lower *l, Loc loc, BinaryOp op, Datum x, Datum y)
{
    bool xt = x.kind == DATUM_TENSOR, yt = y.kind == DATUM_TENSOR;
    if (x.kind == DATUM_POISON || y.kind == DATUM_POISON)
        return datum_poison();
    bool mixed = (xt && datum_is_number(y)) || (yt && datum_is_number(x));
    bool simple = op <= BIN_DIV || op == BIN_POW;
    if (mixed && simple)
        return xt ? tensor_number(l, loc, op, x, datum_number(y))
                  : number_tensor(l, loc, op, datum_number(x), y);
    if ((xt && yt) || (mixed && op >= BIN_EQ && op <= BIN_GE)) {
        Datum xy[2] = {lower_scalar(l, loc, x), lower_scalar(l, loc, y)};
        if (xy[0].kind == DATUM_POISON || xy[1].kind == DATUM_POISON)
            return datum_poison();
        return tensor_tensor(l, loc, op, xy);
    }
    return eval_binary(l, loc, op, x, y);
}

/* ---- names --------------------------------------------------------------- */

static Datum read_datum(Lower *l, const Expr *e, Datum d)
{
    bool reads = d.kind == DATUM_PARAM || d.kind == DATUM_BUFFER;
    if (reads && l->frame->members)
        return lower_poison(l, e->loc, NULL,
                            "'%s' has no value outside of forward", e->name);
    if (d.kind == DATUM_PARAM && l->b.phase == PH_INIT)
        return lower_poison(l, e->loc, NULL,
                            "a buffer is computed once, at start: it cannot "
                            "read the parameter '%s'", e->name);
    if (d.kind == DATUM_PARAM)
        return lower_read_param(l, (int)d.integer);
    if (d.kind == DATUM_BUFFER)
        return lower_read_buffer(l, d.module, d.buffer);
    return d;
}

static void add_names(NameList *names, const Binding *b)
{
    for (; b; b = b->next)
        names_add(names, b->name, b->loc);
}

static void unknown_name(Lower *l, const Expr *e)
{
    lower_error(l, e->loc, NULL, "unknown name '%s'", e->name);
    NameList names = {.arena = l->arena};
    add_names(&names, l->frame->locals);
    if (l->frame->instance) {
        add_names(&names, l->frame->instance->members);
        add_names(&names, l->frame->instance->formals);
    }
    names_suggest(l->diag, &names, e->name);
}

static const Binding *find_in_frame(const Lower *l, const char *name)
{
    const Frame *f = l->frame;
    const Binding *b = find_name(f->locals, name);
    if (b || !f->instance)
        return b;
    const Instance *m = f->instance;
    if (f->members)
        b = find_name(m->formals, name);
    if (!b)
        b = find_name(m->members, name);
    return b ? b : find_name(m->formals, name);
}

static Datum lower_name(Lower *l, const Expr *e)
{
    Datum d;
    const Binding *b = find_in_frame(l, e->name);
    if (b)
        return read_datum(l, e, b->datum);
    const Option *o = option_find(SCOPE_TRAIN, e->name);
    if (o && o->readable && l->frame->settings)
        return lower_poison(l, e->loc, "write the number",
                            "train settings cannot use '%s'", e->name);
    if (o && o->readable) {
        int64_t x = option_integer(o, &l->p->train);
        return datum_int(x > 1 || o != &option_rows[OPTION_accumulate] ? x : 1);
    }
    if (strcmp(e->name, "training") == 0 && !l->frame->members)
        return datum_bool(program_trains(l->p));
    if (eval_word(e->name, &d))
        return d;
    unknown_name(l, e);
    return datum_poison();
}

bool lower_is_known(const Lower *l, const char *name)
{
    Datum d;
    const Option *o = option_find(SCOPE_TRAIN, name);
    return find_in_frame(l, name) || (o && o->readable) || eval_word(name, &d);
}

static void no_member(Lower *l, const Expr *e, Datum of)
{
    bool module = of.kind == DATUM_MODULE;
    lower_error(l, e->loc, module ? NULL : foreign_help(e->name),
                "%s has no member '%s'", module
                    ? arena_printf(l->arena, "'%s'", of.module->name)
                    : datum_text(l->arena, of), e->name);
    NameList names = {.arena = l->arena};
    for (const Binding *b = module ? of.module->members : NULL; b; b = b->next)
        names_add(&names, b->name, b->loc);
    names_suggest(l->diag, &names, e->name);
}

static Datum lower_member(Lower *l, const Expr *e)
{
    Datum of = lower_expr(l, e->arg[0].value);
    if (of.kind == DATUM_POISON)
        return of;
    const Binding *b = NULL;
    if (of.kind == DATUM_MODULE) {
        b = find_name(of.module->members, e->name);
        if (!b)
            b = find_name(of.module->formals, e->name);
    }
    if (b)
        return read_datum(l, e, b->datum);
    no_member(l, e, of);
    return datum_poison();
}

static Datum lower_index(Lower *l, const Expr *e)
{
    Datum of = lower_expr(l, e->arg[0].value);
    int64_t i;
    if (!lower_int(l, e->arg[1].value, "an index", &i) ||
        of.kind == DATUM_POISON)
        return datum_poison();
    if (of.kind == DATUM_TUPLE && i >= 0 && i < of.nitems)
        return of.item[i];
    const char *help =
        of.kind == DATUM_ARRAY ? "for x in array { … } visits every element"
        : of.kind == DATUM_TENSOR
            ? "slice(x, start, size, dim=d) takes a part of a tensor"
            : NULL;
    return lower_poison(l, e->loc, help, "%s cannot be indexed with %lld",
                        datum_text(l->arena, of), (long long)i);
}

/* ---- calls --------------------------------------------------------------- */

static Datum call_instance(Lower *l, const Expr *e, Instance *m)
{
    if (!m->forward)
        return datum_poison();
    Signature s;
    Bound bound;
    signature_of_forward(arena_printf(l->arena, "'%s'", e->name), m->forward,
                         &s);
    if (!bind_call(l->arena, l->diag, &s, e, &bound))
        return datum_poison();
    Datum args[MAX_FORMALS];
    Loc locs[MAX_FORMALS];
    for (int i = 0; i < s.n; i++) {
        args[i] = lower_expr(l, bound.value[i]);
        locs[i] = bound.value[i]->range;
    }
    return lower_call_module(l, m, args, locs, e->loc);
}

static Datum call_function(Lower *l, const Expr *e, const Decl *decl)
{
    Signature s;
    Bound bound;
    signature_of_decl(l->arena, decl, &s);
    if (!bind_call(l->arena, l->diag, &s, e, &bound))
        return datum_poison();
    for (const Frame *at = l->frame; at; at = at->outer)
        if (at->callee == decl->name.name)
            return lower_poison(l, e->loc, NULL, "function '%s' calls itself",
                                e->name);
    Binding *formals = bind_formals(l, decl, &bound, NULL);
    Frame f;
    if (!push_frame(l, &f, decl->name.name, e->loc, NULL))
        return datum_poison();
    f.locals = formals;
    lower_stmts(l, decl->stmt, decl->nstmts);
    lower_ended(l, decl->name.loc, decl->name.name);
    pop_frame(l);
    return f.result;
}

static Datum call_unknown(Lower *l, const Expr *e)
{
    if (lower_find_decl(l, e->loc, e->name, DC_MODULE))
        return lower_poison(l, e->loc,
                            arena_printf(l->arena, "among the members: "
                                         "child: %s(…)", e->name),
                            "'%s' is a module: declare a child and call that",
                            e->name);
    return lower_poison(l, e->loc, NULL, "unknown function '%s'", e->name);
}

static Datum lower_call(Lower *l, const Expr *e)
{
    const Binding *b = find_in_frame(l, e->name);
    if (b && b->datum.kind == DATUM_MODULE && !l->frame->members)
        return call_instance(l, e, b->datum.module);
    if (b && b->datum.kind == DATUM_POISON)
        return b->datum;
    if (b && b->datum.kind == DATUM_ARRAY)
        return lower_poison(l, e->loc,
                            arena_printf(l->arena, "for x in %s { … }",
                                         e->name), "'%s' is an array of "
                            "modules: loop over it", e->name);
    const Decl *decl = lower_find_decl(l, e->loc, e->name, DC_FUNCTION);
    if (decl)
        return call_function(l, e, decl);
    const Builtin *builtin = builtin_find(e->name);
    if (builtin)
        return lower_builtin(l, builtin, e);
    if (b)
        return lower_poison(l, e->loc, NULL, "'%s' is %s: it cannot be called",
                            e->name, datum_text(l->arena, b->datum));
    return call_unknown(l, e);
}

/* ---- expressions --------------------------------------------------------- */

static Datum lower_tuple(Lower *l, const Expr *e)
{
    Datum *item = NEW_ARRAY(l->arena, Datum, e->nargs);
    for (int i = 0; i < e->nargs; i++)
        item[i] = lower_expr(l, e->arg[i].value);
    return (Datum){.kind = DATUM_TUPLE, .item = item, .nitems = e->nargs};
}

static Datum lower_unary(Lower *l, const Expr *e)
{
    Datum x = lower_expr(l, e->arg[0].value);
    if (x.kind == DATUM_TENSOR && e->kind == EX_NEG)
        return unary(l, e->loc, "negate", OP_neg, x);
    return eval_unary(l, e->loc, e->kind, x);
}

/* `and` and `or` evaluate the second operand only if the first one does not
 * decide. */
static Datum lower_both(Lower *l, const Expr *e)
{
    Datum x = lower_expr(l, e->arg[0].value);
    if (x.kind == DATUM_BOOL &&
        ((e->op == BIN_AND && !x.integer) || (e->op == BIN_OR && x.integer)))
        return x;
    return binary(l, e->loc, e->op, x, lower_expr(l, e->arg[1].value));
}

Datum lower_expr(Lower *l, const Expr *e)
{
    switch (e->kind) {
    case EX_INT:
        return datum_int(e->integer);
    case EX_FLOAT:
        return datum_float(e->number);
    case EX_STRING:
        return datum_word(e->name);
    case EX_BOOL:
        return datum_bool(e->integer);
    case EX_NONE:
        return datum_none();
    case EX_NAME:
        return lower_is_refused(l, e) ? datum_poison() : lower_name(l, e);
    case EX_NEG:
    case EX_NOT:
        return lower_unary(l, e);
    case EX_BINARY:
        return lower_both(l, e);
    case EX_CALL:
        return lower_is_refused(l, e) ? datum_poison() : lower_call(l, e);
    case EX_TUPLE:
        return lower_tuple(l, e);
    case EX_MEMBER:
        return lower_member(l, e);
    case EX_INDEX:
        return lower_index(l, e);
    case EX_IF:
        break;
    }
    return datum_poison();
}

/* ---- expressions of one kind --------------------------------------------- */

static bool wrong_kind(Lower *l, const Expr *e, const char *what,
                       const char *kind, Datum d)
{
    if (d.kind != DATUM_POISON)
        lower_error(l, e->range, NULL, "%s must be %s, not %s", what, kind,
                    datum_text(l->arena, d));
    return false;
}

bool lower_int(Lower *l, const Expr *e, const char *what, int64_t *x)
{
    Datum d = lower_expr(l, e);
    *x = d.integer;
    return d.kind == DATUM_INT || wrong_kind(l, e, what, "an integer", d);
}

bool lower_float(Lower *l, const Expr *e, const char *what, double *x)
{
    Datum d = lower_expr(l, e);
    *x = datum_number(d);
    return datum_is_number(d) || wrong_kind(l, e, what, "a number", d);
}

bool lower_bool(Lower *l, const Expr *e, const char *what, bool *x)
{
    Datum d = lower_expr(l, e);
    *x = d.integer != 0;
    if (d.kind == DATUM_TENSOR)
        return lower_error(l, e->range, "where(condition, x, y) chooses for "
                           "each element",
                           "%s must be known at compile time, but this is %s",
                           what, datum_text(l->arena, d));
    return d.kind == DATUM_BOOL ||
           wrong_kind(l, e, what, "true or false", d);
}

bool lower_size(Lower *l, const Expr *e, const char *what, int64_t *x)
{
    if (!lower_int(l, e, what, x))
        return false;
    if (*x >= 1 && *x <= (int64_t)1 << MAX_SIZE_LOG2)
        return true;
    if (*x < 1)
        return lower_error(l, e->range, NULL, "%s must be at least 1, not %lld",
                           what, (long long)*x);
    return lower_error(l, e->range, NULL, "%s must be at least 1 and at most "
                       "2 ** %d, not %lld", what, MAX_SIZE_LOG2,
                       (long long)*x);
}
