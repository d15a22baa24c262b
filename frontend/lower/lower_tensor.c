/* lower_tensor.c: lowers builtins that change shapes or look up.
 *
 * Dims may be negative and sizes inferred in PDL; the ops that are emitted have
 * explicit dims and sizes:
 *
 * before   reshape(x, 8, -1)
 * after    %reshape = reshape{dims=[8, 64]} %x
 */
#include "frontend/lower/lower.h"

#include <string.h>

/* ---- reshape ------------------------------------------------------------- */

static Datum reshape_to(const BuiltinCall *c, Datum x, const AttrList *dims)
{
    Attr attr[MAX_ATTRS] = {{.l = *dims}};
    return lower_op(c->l, c->call->loc, "reshape", OP_reshape, 1, &x, attr);
}

/* One size may be -1: it is inferred from the others. */
Datum builtin_reshape(const BuiltinCall *c)
{
    Value *x;
    AttrList dims;
    if (!builtin_tensor(c, 0, &x) || !builtin_sizes(c, 1, true, &dims))
        return datum_poison();
    int64_t known = 1, all = type_elements(&x->type);
    int open = -1, opens = 0;
    for (int i = 0; i < dims.n; i++)
        if (dims.v[i] < 0) {
            open = i;
            opens++;
        } else if (__builtin_mul_overflow(known, dims.v[i], &known)) {
            known = 0;
        }
    if (opens > 1 || (opens == 1 && (known == 0 || all % known != 0)))
        return lower_poison(c->l, c->call->loc, NULL, "cannot reshape %s: %s",
                            builtin_shape(c, x),
                            opens > 1 ? "only one dim may be -1"
                                      : "the product of the other dims does "
                                        "not divide its size");
    if (opens)
        dims.v[open] = all / known;
    return reshape_to(c, c->arg[0], &dims);
}

Datum builtin_unsqueeze(const BuiltinCall *c)
{
    Value *x;
    int at;
    AttrList dims = {0};
    if (!builtin_tensor(c, 0, &x))
        return datum_poison();
    if (x->type.ndim == MAX_DIMS)
        return lower_poison(c->l, c->call->loc, NULL,
                            "a tensor has at most %d dims", MAX_DIMS);
    if (!builtin_dim(c, 1, x->type.ndim + 1, 0, &at))
        return datum_poison();
    for (int d = 0; d <= x->type.ndim; d++)
        dims.v[dims.n++] = d == at ? 1 : x->type.dim[d - (d > at)];
    return reshape_to(c, c->arg[0], &dims);
}

Datum builtin_squeeze(const BuiltinCall *c)
{
    Value *x;
    int at;
    AttrList dims = {0};
    if (!builtin_tensor(c, 0, &x) || !builtin_dim(c, 1, x->type.ndim, 0, &at))
        return datum_poison();
    if (x->type.dim[at] != 1)
        return lower_poison(c->l, builtin_loc(c, 1), NULL, "dim %d of %s does not have the size 1",
                            at, builtin_shape(c, x));
    for (int d = 0; d < x->type.ndim; d++)
        if (d != at)
            dims.v[dims.n++] = x->type.dim[d];
    return reshape_to(c, c->arg[0], &dims);
}

Datum builtin_broadcast(const BuiltinCall *c)
{
    Value *x;
    Attr attr[MAX_ATTRS] = {{0}};
    if (!builtin_tensor(c, 0, &x) || !builtin_sizes(c, 1, false, &attr[0].l))
        return datum_poison();
    return lower_op(c->l, c->call->loc, "broadcast", OP_broadcast, 1, c->arg,
                    attr);
}

Datum builtin_transpose(const BuiltinCall *c)
{
    Value *x;
    int i, j;
    if (!builtin_tensor(c, 0, &x) ||
        !builtin_dim(c, 1, x->type.ndim, 0, &i) ||
        !builtin_dim(c, 2, x->type.ndim, 0, &j))
        return datum_poison();
    Attr attr[MAX_ATTRS] = {{.l = {.n = x->type.ndim}}};
    for (int d = 0; d < x->type.ndim; d++)
        attr[0].l.v[d] = d == i ? j : d == j ? i : d;
    return lower_op(c->l, c->call->loc, "transpose", OP_transpose, 1, c->arg,
                    attr);
}

/* [.., n * d] -> [.., n, d] */
Datum builtin_heads(const BuiltinCall *c)
{
    Value *x;
    if (!builtin_tensor(c, 0, &x))
        return datum_poison();
    int last = x->type.ndim - 1;
    int64_t n = c->arg[1].kind == DATUM_INT ? c->arg[1].integer : 0;
    if (last < 0 || last + 2 > MAX_DIMS || n < 1 ||
        x->type.dim[last] % n != 0)
        return lower_poison(c->l, c->call->loc, NULL,
                            "the last dim of %s does not divide into %s heads",
                            builtin_shape(c, x),
                            datum_text(c->l->arena, c->arg[1]));
    AttrList dims = {.n = last + 2};
    memcpy(dims.v, x->type.dim, sizeof dims.v);
    dims.v[last] = n;
    dims.v[last + 1] = x->type.dim[last] / n;
    return reshape_to(c, c->arg[0], &dims);
}

/* [.., n, d] -> [.., n * d] */
Datum builtin_merge_heads(const BuiltinCall *c)
{
    Value *x;
    if (!builtin_tensor(c, 0, &x))
        return datum_poison();
    int last = x->type.ndim - 1;
    if (last < 1)
        return lower_poison(c->l, c->call->loc, NULL,
                            "%s has no heads to merge", builtin_shape(c, x));
    AttrList dims = {.n = last};
    memcpy(dims.v, x->type.dim, sizeof dims.v);
    dims.v[last - 1] = x->type.dim[last - 1] * x->type.dim[last];
    dims.v[last] = 0;
    return reshape_to(c, c->arg[0], &dims);
}

/* ---- parts --------------------------------------------------------------- */

static bool joins(const Type *x, const Type *y, int dim)
{
    bool fits = x->ndim == y->ndim && x->dtype == y->dtype;
    for (int d = 0; d < x->ndim && fits; d++)
        fits = d == dim || x->dim[d] == y->dim[d];
    return fits;
}

Datum builtin_concat(const BuiltinCall *c)
{
    int n = c->bound.nextra + 1, dim;
    Datum *all = NEW_ARRAY(c->l->arena, Datum, n);
    for (int i = 0; i < n; i++) {
        all[i] = i ? c->extra[i - 1] : c->arg[0];
        if (all[i].kind != DATUM_TENSOR)
            return lower_poison(c->l, c->call->loc, NULL,
                                "'concat' joins tensors, not %s",
                                datum_text(c->l->arena, all[i]));
    }
    if (n > MAX_PORTS)
        return lower_poison(c->l, c->call->loc, NULL,
                            "'concat' joins at most %d tensors", MAX_PORTS);
    if (!builtin_dim(c, 1, all[0].tensor->type.ndim, -1, &dim))
        return datum_poison();
    for (int i = 1; i < n; i++) {
        if (joins(&all[0].tensor->type, &all[i].tensor->type, dim))
            continue;
        return lower_poison(c->l, c->call->loc, NULL,
                            "cannot join %s and %s along dim %d",
                            builtin_shape(c, all[0].tensor),
                            builtin_shape(c, all[i].tensor), dim);
    }
    Attr attr[MAX_ATTRS] = {{.i = dim}};
    return lower_op(c->l, c->call->loc, "join", OP_concat, n, all, attr);
}

static Datum slice_of(const BuiltinCall *c, Datum x, int dim, int64_t start,
                      int64_t size)
{
    Attr attr[MAX_ATTRS] = {{.i = dim}, {.i = start}, {.i = size}};
    if (start == 0 && size == x.tensor->type.dim[dim])
        return x;
    return lower_op(c->l, c->call->loc, "take a slice of", OP_slice, 1,
                    &x, attr);
}

static Datum pad_of(const BuiltinCall *c, Datum x, int dim, int64_t before, int64_t after)
{
    Attr attr[MAX_ATTRS] = {{.i = dim}, {.i = before}, {.i = after}};
    return lower_op(c->l, c->call->loc, "pad", OP_pad, 1, &x, attr);
}

/* split(x, 3): equal parts; split(x, (8, 4, 4)): parts of these sizes. */
Datum builtin_split(const BuiltinCall *c)
{
    Value *x;
    int dim;
    if (!builtin_tensor(c, 0, &x) ||
        !builtin_dim(c, 2, x->type.ndim, -1, &dim))
        return datum_poison();
    int64_t size = x->type.dim[dim], sum = 0;
    Datum by = c->arg[1];
    bool sizes = by.kind == DATUM_TUPLE;
    int64_t n = sizes ? by.nitems : by.kind == DATUM_INT ? by.integer : 0;
    for (int i = 0; sizes && i < by.nitems; i++)
        sum += by.item[i].kind == DATUM_INT && by.item[i].integer > 0 &&
                       by.item[i].integer <= size
                   ? by.item[i].integer
                   : size + 1;
    if (n < 1 || n > size || (sizes ? sum != size : size % n != 0))
        return lower_poison(c->l, c->call->loc, NULL,
                            "dim %d of %s does not divide into %s", dim,
                            builtin_shape(c, x),
                            sizes ? "these sizes"
                                  : arena_printf(c->l->arena, "%s equal parts",
                                                 datum_text(c->l->arena, by)));
    Datum *item = NEW_ARRAY(c->l->arena, Datum, n);
    int64_t start = 0;
    for (int i = 0; i < n; i++) {
        int64_t part = sizes ? by.item[i].integer : size / n;
        item[i] = slice_of(c, c->arg[0], dim, start, part);
        start += part;
    }
    return (Datum){.kind = DATUM_TUPLE, .item = item, .nitems = (int)n};
}

/* Every step-th of the size * step elements of a dim:
 * before   [.., 6, ..], step 2
 * after    reshape [.., 3, 2, ..], slice [.., 3, 1, ..], reshape [.., 3, ..] */
static Datum take_strided(const BuiltinCall *c, Datum x, int dim, int64_t size, int64_t step)
{
    const Type *of = &x.tensor->type;
    AttrList wide = {.n = of->ndim + 1}, result = {.n = of->ndim};
    if (of->ndim == MAX_DIMS)
        return lower_poison(c->l, c->call->loc, NULL, "a slice with a step takes at most %d dims",
                            MAX_DIMS - 1);
    for (int d = 0; d < of->ndim; d++)
        wide.v[d + (d > dim)] = result.v[d] = of->dim[d];
    wide.v[dim] = result.v[dim] = size;
    wide.v[dim + 1] = step;
    x = slice_of(c, reshape_to(c, x, &wide), dim + 1, 0, 1);
    return x.kind == DATUM_POISON ? x : reshape_to(c, x, &result);
}

/* x with the elements of a dim in the opposite order:
 * before   [a, n, b]
 * after    transpose [n, a, b], reshape [n, a b], rows n - 1, …, 0, and back */
static Datum reversed(const BuiltinCall *c, Datum x, int dim)
{
    const Type *of = &x.tensor->type;
    int64_t n = of->dim[dim];
    AttrList perm = {of->ndim, {dim}}, back = {.n = of->ndim}, moved = {of->ndim, {n}};
    AttrList table = {2, {n, type_elements(of) / n}};
    for (int to = 1; to < of->ndim; to++) {
        perm.v[to] = to - (to <= dim);
        moved.v[to] = of->dim[perm.v[to]];
    }
    for (int d = 0; d < of->ndim; d++)
        back.v[perm.v[d]] = d;
    Build *b = &c->l->b;
    Attr size[MAX_ATTRS] = {{.i = n}}, last[MAX_ATTRS] = {{.f = (double)(n - 1)}};
    Value *at = ir_unary(b, OP_neg, ir_value(b, OP_iota, 0, NULL, size, NULL));
    at = ir_cast(b, ir_value(b, OP_offset, 1, &at, last, NULL), DT_I32);
    Attr order[MAX_ATTRS] = {{.l = perm}}, other[MAX_ATTRS] = {{.l = back}};
    Datum rows[2] = {lower_op(c->l, c->call->loc, "reverse", OP_transpose, 1, &x, order),
                     datum_tensor(at)};
    rows[0] = reshape_to(c, rows[0], &table);
    x = lower_op(c->l, c->call->loc, "reverse", OP_embedding, 2, rows, NULL);
    x = x.kind == DATUM_POISON ? x : reshape_to(c, x, &moved);
    return x.kind == DATUM_POISON
               ? x : lower_op(c->l, c->call->loc, "reverse", OP_transpose, 1, &x, other);
}

/* A slice with a step that is not 0. */
static Datum step_slice(const BuiltinCall *c, int dim, int64_t start, int64_t n, int64_t step)
{
    int64_t limit = c->arg[0].tensor->type.dim[dim];
    if (step == 1 || n <= 1 || n > limit)
        return slice_of(c, c->arg[0], dim, start, n);
    if (step > limit || -step > limit)
        return lower_poison(c->l, c->call->loc, NULL, "%lld elements with a step of %lld are "
                            "outside of dim %d of %s", (long long)n, (long long)step, dim,
                            builtin_shape(c, c->arg[0].tensor));
    if (step < 0) {
        Datum x = step_slice(c, dim, start + (n - 1) * step, n, -step);
        return x.kind == DATUM_POISON ? x : reversed(c, x, dim);
    }
    /* If x ends within the last group of `step` elements, the group is padded. */
    int64_t used = (n - 1) * step + 1, padded = n * step;
    int64_t taken = start >= 0 && start + padded <= limit ? padded : used;
    Datum part = slice_of(c, c->arg[0], dim, start, taken);
    if (part.kind != DATUM_POISON && taken < padded)
        part = pad_of(c, part, dim, 0, padded - taken);
    return part.kind == DATUM_POISON ? part : take_strided(c, part, dim, n, step);
}

/* slice(x, start, size, dim=-1, step=1): elements start, start + step, … */
Datum builtin_slice(const BuiltinCall *c)
{
    Value *x;
    int dim;
    if (!builtin_tensor(c, 0, &x) ||
        !builtin_dim(c, 3, x->type.ndim, -1, &dim))
        return datum_poison();
    Datum start = c->arg[1], size = c->arg[2], step = c->arg[4];
    if (step.kind == DATUM_NONE)
        step = datum_int(1);
    if (start.kind != DATUM_INT || size.kind != DATUM_INT || step.kind != DATUM_INT)
        return lower_poison(c->l, c->call->loc, NULL,
                            "'slice' takes integers for start, size and step");
    if (step.integer == 0)
        return lower_poison(c->l, c->call->loc, NULL, "the step of a slice must not be 0");
    return step_slice(c, dim, start.integer, size.integer, step.integer);
}

/* A tensor of x's shape, but with `size` elements in `dim`, all equal to `value`. */
static Datum filled(const BuiltinCall *c, const Value *x, int dim, int64_t size, double value)
{
    Attr attr[MAX_ATTRS] = {{.f = value}, {.i = x->type.dtype}, {.l = {.n = x->type.ndim}}};
    for (int d = 0; d < x->type.ndim; d++)
        attr[2].l.v[d] = d == dim ? size : x->type.dim[d];
    return lower_op(c->l, c->call->loc, "pad", OP_full, 0, c->arg, attr);
}

/* The elements that pad adds: 0 by default; `lowest` is the lowest finite number of x's
 * element type. */
static bool pad_value(const BuiltinCall *c, const Value *x, double *value)
{
    const Datum *d = &c->arg[4];
    bool lowest = d->kind == DATUM_WORD && strcmp(d->text, "lowest") == 0;
    if (!lowest && !builtin_number(c, 4, 0, value))
        return false;
    if (lowest)
        *value = -dtype_largest(x->type.dtype);
    return lower_element_fits(c->l, builtin_loc(c, 4), datum_float(*value), c->arg[0]);
}

/* pad(x, before, after, dim=-1, value=0.0): elements before and after those of a dim. */
Datum builtin_pad(const BuiltinCall *c)
{
    enum { MAX_PAD = 1 << 30 };
    Value *x;
    int dim;
    double value;
    if (!builtin_tensor(c, 0, &x) || !builtin_dim(c, 3, x->type.ndim, -1, &dim) ||
        !pad_value(c, x, &value))
        return datum_poison();
    if (!dtype_is_float(x->type.dtype))
        return lower_poison(c->l, builtin_loc(c, 0), NULL, "'pad' takes a tensor of floats, not "
                            "%s", builtin_shape(c, x));
    for (int i = 1; i <= 2; i++)
        if (c->arg[i].kind != DATUM_INT || c->arg[i].integer < 0 || c->arg[i].integer > MAX_PAD)
            return lower_poison(c->l, builtin_loc(c, i), NULL,
                                "'pad' takes an integer from 0 to %d, not %s", MAX_PAD,
                                datum_text(c->l->arena, c->arg[i]));
    int64_t before = c->arg[1].integer, after = c->arg[2].integer;
    if (before + after == 0)
        return c->arg[0];
    if (value == 0)
        return pad_of(c, c->arg[0], dim, before, after);
    Datum part[3];
    int n = 0;
    if (before)
        part[n++] = filled(c, x, dim, before, value);
    part[n++] = c->arg[0];
    if (after)
        part[n++] = filled(c, x, dim, after, value);
    Attr attr[MAX_ATTRS] = {{.i = dim}};
    return lower_op(c->l, c->call->loc, "pad", OP_concat, n, part, attr);
}

/* ---- lookups ------------------------------------------------------------- */

/* The model's input that v is, through the ports of modules; NULL: none. */
static const Input *input_of(const Program *p, const Value *v)
{
    while (v->def && v->def->kind == OP_boundary)
        v = v->def->arg[0];
    return v->def && v->def->kind == OP_input
               ? &p->input.at[attr_input(v->def)] : NULL;
}

/* Reports floats where integers below `rows` are looked up: an input's at its
 * declaration. */
static bool refuse_floats(const BuiltinCall *c, int i, const Value *ids,
                          int64_t rows)
{
    Lower *l = c->l;
    const Input *in = input_of(l->p, ids);
    if (!in)
        return lower_error(l, builtin_loc(c, i), NULL,
                           "'%s' looks up integers, not %s", c->call->name,
                           builtin_shape(c, ids));
    lower_error(l, in->loc,
                arena_printf(l->arena, "write %s: int(%lld)[…]", in->name,
                             (long long)rows),
                "input '%s' has floats where integers are looked up",
                in->name);
    diag_note(l->diag, lower_user_loc(l, builtin_loc(c, i)),
              "they are looked up here");
    return false;
}

bool builtin_ids(const BuiltinCall *c, int i, int64_t rows, const Datum *ignored)
{
    Value *ids;
    if (!builtin_tensor(c, i, &ids))
        return false;
    if (dtype_is_float(ids->type.dtype))
        return refuse_floats(c, i, ids, rows);
    const Datum *d = &c->arg[i];
    bool has = ignored && ignored->kind == DATUM_INT;
    bool one_more = has && ignored->integer == rows;
    if (d->has_ignored && !(has && ignored->integer == d->ignored))
        return lower_error(c->l, builtin_loc(c, i),
                           has ? arena_printf(c->l->arena, "integers declared with ignore=%lld are accepted",
                                              (long long)ignored->integer)
                               : NULL,
                           "'%s' takes integers "
                           "below %lld here, these may also be %lld, the value "
                           "that they ignore", c->call->name, (long long)rows,
                           (long long)d->ignored);
    if (d->below > rows + one_more)
        return lower_error(c->l, builtin_loc(c, i), NULL, "'%s' takes integers "
                           "below %lld here, these are below %lld",
                           c->call->name, (long long)rows, (long long)d->below);
    return true;
}

Datum builtin_embedding(const BuiltinCall *c)
{
    Value *table;
    if (!builtin_tensor(c, 0, &table) ||
        !builtin_ids(c, 1, table->type.ndim ? table->type.dim[0] : 0, NULL))
        return datum_poison();
    return lower_op(c->l, c->call->loc, "look up in", OP_embedding, 2, c->arg,
                    NULL);
}

Datum builtin_onehot(const BuiltinCall *c)
{
    int64_t n = c->arg[1].kind == DATUM_INT ? c->arg[1].integer : 0;
    if (n < 1)
        return lower_poison(c->l, builtin_loc(c, 1), NULL, "'onehot' needs the "
                            "number of classes: onehot(ids, n)");
    if (!builtin_ids(c, 0, n, &c->arg[2]))
        return datum_poison();
    Attr attr[MAX_ATTRS] = {{.i = n}};
    return lower_op(c->l, c->call->loc, "encode", OP_onehot, 1, c->arg, attr);
}

/* may_be(ids, n): whether the declared bound of ids allows the value n. */
Datum builtin_may_be(const BuiltinCall *c)
{
    const Datum *ids = &c->arg[0], *n = &c->arg[1];
    if (n->kind == DATUM_NONE)
        return datum_bool(false);
    if (ids->kind == DATUM_POISON || n->kind == DATUM_POISON)
        return datum_poison();
    if (n->kind != DATUM_INT)
        return lower_poison(c->l, builtin_loc(c, 1), NULL,
                            "'may_be' compares with an integer or none, not %s",
                            datum_text(c->l->arena, *n));
    return datum_bool(ids->below == 0 ||
                      (n->integer >= 0 && n->integer < ids->below) ||
                      (ids->has_ignored && n->integer == ids->ignored));
}

/* ---- orders -------------------------------------------------------------- */

/* The first n elements of the last dim of argument 0 in order, and their indices. */
static Datum first_in_order(const BuiltinCall *c, const Value *x, int64_t n, bool largest)
{
    Attr attr[MAX_ATTRS] = {{.i = n}, {.i = largest}};
    Datum *item = NEW_ARRAY(c->l->arena, Datum, 2);
    item[0] = lower_op(c->l, c->call->loc, "order", OP_topk, 1, c->arg, attr);
    if (item[0].kind == DATUM_POISON)
        return item[0];
    item[1] = datum_tensor(item[0].tensor->def->out[1]);
    item[1].below = x->type.dim[x->type.ndim - 1];
    return (Datum){.kind = DATUM_TUPLE, .item = item, .nitems = 2};
}

/* Whether argument 0 is a tensor with a last dim of floats. */
static bool ordered(const BuiltinCall *c, Value **x)
{
    if (!builtin_tensor(c, 0, x))
        return false;
    if (dtype_is_float((*x)->type.dtype) && (*x)->type.ndim > 0)
        return true;
    return lower_error(c->l, builtin_loc(c, 0), "float(x) converts integers", "'%s' orders the "
                       "last dim of a tensor of floats, not of %s", c->call->name,
                       builtin_shape(c, *x));
}

/* topk(x, k, largest=true): k elements of the last dim in order, and their indices. */
Datum builtin_topk(const BuiltinCall *c)
{
    Value *x;
    bool largest;
    if (!ordered(c, &x) || !builtin_flag(c, 2, true, &largest))
        return datum_poison();
    Datum k = c->arg[1];
    int64_t width = x->type.dim[x->type.ndim - 1];
    if (k.kind != DATUM_INT || k.integer < 1 || k.integer > width)
        return lower_poison(c->l, builtin_loc(c, 1), NULL, "'topk' takes from 1 to %lld "
                            "elements of %s, not %s", (long long)width, builtin_shape(c, x),
                            datum_text(c->l->arena, k));
    return first_in_order(c, x, k.integer, largest);
}

/* sort(x, descending=false): the last dim in order, and the elements' indices. */
Datum builtin_sort(const BuiltinCall *c)
{
    Value *x;
    bool descending;
    if (!ordered(c, &x) || !builtin_flag(c, 1, false, &descending))
        return datum_poison();
    return first_in_order(c, x, x->type.dim[x->type.ndim - 1], descending);
}
