/* async_tp.c: cuts a microbatch into pieces, so that collectives over tensor axes of
 * one piece run beside the matmuls of another (the setting `async_tp`).
 *
 * requires: STAGE_STORED, after chunk
 * ensures:  the same stage. A piece has an nth of a rank's sequences. Each op on rows
 *           of the batch is n ops, which Op.piece numbers; they follow one another,
 *           and the pass `schedule` orders them. What sums over rows, such as the loss
 *           and gradients of weights, is the sum of the pieces' sums. All else is
 *           computed once: weights are gathered and gradients reduced as before.
 *
 * before   %x = all_gather{axes={tp}, …} %h : f32[8, 32, 64] forward
 *          %y = einsum{spec="bsk,fk->bsf", …} %x, %w : f32[8, 32, 64/tp] forward
 *          …
 *          %dw = einsum{spec="bsf,bsk->fk", …} %dy, %x : f32[64/tp, 64] backward
 * after    %x.2 = all_gather{axes={tp}, …} %h.2 : f32[4, 32, 64] forward piece=1
 *          %x.3 = all_gather{axes={tp}, …} %h.3 : f32[4, 32, 64] forward piece=2
 *          %y.2 = einsum{…} %x.2, %w : f32[4, 32, 64/tp] forward piece=1
 *          %y.3 = einsum{…} %x.3, %w : f32[4, 32, 64/tp] forward piece=2
 *          …
 *          %dw.2 = einsum{…} %dy.2, %x.2 : f32[64/tp, 64] backward piece=1
 *          %dw.3 = einsum{…} %dy.3, %x.3 : f32[64/tp, 64] backward piece=2
 *          %dw = add %dw.2, %dw.3 : f32[64/tp, 64] backward
 *
 * Source: DeepSpeed-Domino, https://arxiv.org/abs/2409.15241, which cuts the batch by
 * hand in its layers.
 */
#include "passes/microbatch/pieces.h"
#include "ir/options.h"
#include "passes/pass.h"

typedef struct Cut {
    Pieces c;
    ValueMap *piece; /* by piece: from a value that is cut to its piece */
    ValueMap *rows;  /* by piece: from a whole value to the last rows that were made
                      * of it, … */
    int *rows_dim;   /* … by value id: along this dim */
    ValueMap sum;    /* from a result that sums over rows to the sum of the pieces */
} Cut;

/* ---- types --------------------------------------------------------------- */

static void cut_type(Cut *cut, Value *v, int dim)
{
    if (dim == WHOLE)
        return;
    v->type.dim[dim] /= cut->c.n;
    type_normalize(&v->type, &cut->c.p->mesh);
}

/* ---- operands ------------------------------------------------------------ */

static Value *read_piece(Cut *cut, Value *v, int dim, int64_t k, Op *before);

/* Rows of v: a rank's part of dim in n parts, of which it has the k-th. */
static Value *slice_rows(Cut *cut, Value *v, int dim, int64_t k, Op *before)
{
    Program *p = cut->c.p;
    const Type *t = &v->type;
    int64_t parts = type_parts(t, &p->mesh, dim), cuts[MAX_DIMS], rows[MAX_DIMS];
    Build b = {.p = p, .region = before->region, .before = before,
               .phase = before->phase, .loc = v->loc, .path = "", .piece = (int)k + 1};
    int n = 0;
    for (int d = 0; d < t->ndim; d++) {
        rows[d] = d == dim ? t->dim[d] / cut->c.n : t->dim[d];
        if (d == dim) {
            cuts[n++] = parts;
            cuts[n++] = cut->c.n;
        }
        cuts[n++] = d == dim ? rows[d] / parts : rows[d];
    }
    Value *x = ir_reshape(&b, v, n, cuts);
    Attr attr[MAX_ATTRS] = {{.i = dim + 1}, {.i = k}, {.i = 1}};
    x = ir_value(&b, OP_slice, 1, &x, attr, v->name);
    return ir_reshape(&b, x, t->ndim, rows);
}

/* A copy of the cheap op that makes v, for rows of the piece; NULL: there is none. */
static Value *repeat_producer(Cut *cut, Value *v, int dim, int64_t k, Op *before)
{
    Op *op = v->def;
    Rule r;
    if (!op || op->nouts != 1 || op->body || !op_info(op->kind)->cheap ||
        !op_info(op->kind)->rule || op->region != before->region)
        return NULL;
    rule_of(cut->c.p, op, &r);
    int f = pieces_factor(&cut->c, op, &r, r.nargs, dim);
    if (f < 0 || r.factor[f].whole || r.factor[f].base >= 0)
        return NULL;
    Value **arg = NEW_ARRAY(cut->c.p->arena, Value *, op->nargs);
    for (int i = 0; i < op->nargs; i++)
        if (op->arg[i]->type.ndim > PIECES_MOST_DIMS)
            return NULL;
    for (int i = 0; i < op->nargs; i++) {
        int at = i < r.nargs ? rule_factor_dim(&r, i, f) : -1;
        arg[i] = at < 0 ? op->arg[i] : read_piece(cut, op->arg[i], at, k, before);
    }
    Build b = ir_build_at(cut->c.p, op, before);
    b.phase = before->phase;
    Op *made = ir_clone_with(&b, op, arg);
    made->piece = (int)k + 1;
    cut_type(cut, made->out[0], dim);
    loop_axis_fit_attributes(made);
    return made->out[0];
}

/* Piece k of v, for an op at `before`. */
static Value *read_piece(Cut *cut, Value *v, int dim, int64_t k, Op *before)
{
    Value *x = value_map_get(&cut->piece[k], v);
    if (x)
        return x;
    bool whole = pieces_dim(&cut->c, v) == WHOLE, known = whole && v->id < cut->c.nvalues;
    x = known ? value_map_get(&cut->rows[k], v) : NULL;
    if (x && x->region == before->region && cut->rows_dim[v->id] == dim)
        return x;
    x = repeat_producer(cut, v, dim, k, before);
    if (!x)
        x = slice_rows(cut, v, dim, k, before);
    value_map_set(cut->c.p, whole ? &cut->rows[k] : &cut->piece[k], v, x);
    if (known)
        cut->rows_dim[v->id] = dim;
    return x;
}

/* ---- ops ----------------------------------------------------------------- */

static int operand_dim(const Cut *cut, const Op *op, const Rule *r, int f, int i)
{
    if (!r)
        return pieces_dim(&cut->c, op->arg[i]);
    return i < r->nargs ? rule_factor_dim(r, i, f) : WHOLE;
}

static void make_op(Cut *cut, Op *op, const Rule *r, int f, int64_t k)
{
    Program *p = cut->c.p;
    Value **arg = NEW_ARRAY(p->arena, Value *, op->nargs);
    for (int i = 0; i < op->nargs; i++) {
        int dim = operand_dim(cut, op, r, f, i);
        arg[i] = dim < 0 ? op->arg[i] : read_piece(cut, op->arg[i], dim, k, op);
    }
    Build b = ir_build_at(p, op, op);
    Op *made = ir_clone_with(&b, op, arg);
    made->piece = (int)k + 1;
    for (int o = 0; o < op->nouts; o++) {
        cut_type(cut, made->out[o], pieces_dim(&cut->c, op->out[o]));
        value_map_set(p, &cut->piece[k], op->out[o], made->out[o]);
    }
    loop_axis_fit_attributes(made);
}

/* Replaces a result that sums over rows by the sum of the pieces' results. */
static void add_pieces(Cut *cut, Op *op, Value *whole)
{
    Build b = ir_build_at(cut->c.p, op, op);
    Value *sum = value_map_get(&cut->piece[0], whole);
    for (int64_t k = 1; k < cut->c.n; k++)
        sum = ir_binary(&b, OP_add, sum, value_map_get(&cut->piece[k], whole));
    for (int a = 0; a < MAX_AXES; a++)
        sum->why[a] = whole->why[a];
    value_map_set(cut->c.p, &cut->sum, whole, sum);
    ir_swap_names(whole, sum);
}

/* The members of a grouped collective that are cut, or those that are not. */
static void keep_members(Cut *cut, Op *op, bool are_cut)
{
    Program *p = cut->c.p;
    Value **arg = NEW_ARRAY(p->arena, Value *, op->nargs);
    Value **out = NEW_ARRAY(p->arena, Value *, op->nargs);
    int n = 0;
    for (int i = 0; i < op->nargs; i++)
        if ((pieces_dim(&cut->c, op->arg[i]) != WHOLE) == are_cut) {
            arg[n] = op->arg[i];
            out[n++] = op->out[i];
        }
    ir_set_members(op, n, arg, out);
}

static int count_cut(const Cut *cut, const Op *op)
{
    int n = 0;
    for (int i = 0; i < op->nargs; i++)
        n += pieces_dim(&cut->c, op->arg[i]) != WHOLE;
    return n;
}

/* Members that are not cut become a collective of their own. */
static void split_group(Cut *cut, Op *op)
{
    if (count_cut(cut, op) == op->nargs)
        return;
    Build b = ir_build_at(cut->c.p, op, op);
    Op *rest = ir_op_typed(&b, op->kind, 0, NULL, op->attr, 0, NULL, NULL);
    rest->why = op->why;
    ir_set_members(rest, op->nargs, op->arg, op->out);
    keep_members(cut, rest, false);
    keep_members(cut, op, true);
}

static void cut_op(Cut *cut, Op *op)
{
    Rule rule;
    const Rule *r = NULL;
    int f = -1, first = 0;
    if (op_is_conversion(op->kind)) {
        split_group(cut, op);
    } else {
        while (pieces_dim(&cut->c, op->arg[first]) == WHOLE)
            first++;
        rule_of(cut->c.p, op, &rule);
        r = &rule;
        f = pieces_factor(&cut->c, op, r, first, pieces_dim(&cut->c, op->arg[first]));
    }
    for (int64_t k = 0; k < cut->c.n; k++)
        make_op(cut, op, r, f, k);
    for (int o = 0; o < op->nouts; o++)
        if (pieces_dim(&cut->c, op->out[o]) == WHOLE)
            add_pieces(cut, op, op->out[o]);
}

/* ---- loops --------------------------------------------------------------- */

static void cut_region(Cut *cut, Region *r);

/* An argument of the body for each piece of argument v. */
static void add_argument(Cut *cut, Op *loop, Value *v)
{
    Program *p = cut->c.p;
    int dim = pieces_dim(&cut->c, v);
    bool carry = v->index < loop->ncarry, stack = loop_is_stack(loop, v->index);
    for (int64_t k = 0; k < cut->c.n; k++) {
        Value *from = read_piece(cut, loop->arg[v->index], dim, k, loop);
        Value *made = carry   ? ir_loop_add_carry(p, loop, from)
                      : stack ? ir_loop_add_stack(p, loop, from)
                              : ir_loop_add_free(p, loop, from);
        value_map_set(p, &cut->piece[k], v, made);
    }
}

static bool operand_is_cut(const Cut *cut, const Op *loop, const Value *v)
{
    return v->index < loop->ncarry ||
           pieces_dim(&cut->c, loop->arg[v->index]) != WHOLE;
}

/* The values of the loop before its pieces: arguments, yields and results. */
typedef struct Interface {
    int ncarry, nargs, nouts;
    Value **arg, **yield, **out;
} Interface;

static Interface interface_of(const Cut *cut, const Op *loop)
{
    Arena *a = cut->c.p->arena;
    Interface f = {loop->ncarry, loop->nargs, loop->nouts,
                   NEW_ARRAY(a, Value *, loop->nargs), NEW_ARRAY(a, Value *, loop->nouts),
                   NEW_ARRAY(a, Value *, loop->nouts)};
    for (int i = 0; i < f.nargs; i++)
        f.arg[i] = loop->body->arg[i];
    for (int i = 0; i < f.nouts; i++) {
        f.yield[i] = loop->body->yield[i];
        f.out[i] = loop->out[i];
    }
    return f;
}

/* Piece k of result i. */
static Value *cut_result(Cut *cut, Op *loop, const Interface *f, int i, int64_t k)
{
    Value *next = value_map_get(&cut->piece[k], f->yield[i]);
    if (i >= f->ncarry)
        return ir_loop_add_yield(cut->c.p, loop, next);
    const Value *inner = value_map_get(&cut->piece[k], f->arg[i]);
    loop->body->yield[inner->index] = next;
    return loop->out[inner->index];
}

static void cut_loop(Cut *cut, Op *loop)
{
    Interface f = interface_of(cut, loop);
    for (int i = 0; i < f.nargs; i++)
        if (pieces_dim(&cut->c, f.arg[i]) != WHOLE && operand_is_cut(cut, loop, f.arg[i]))
            add_argument(cut, loop, f.arg[i]);
    cut_region(cut, loop->body);
    for (int i = 0; i < f.nouts; i++)
        for (int64_t k = 0; k < cut->c.n && pieces_dim(&cut->c, f.out[i]) != WHOLE; k++)
            value_map_set(cut->c.p, &cut->piece[k], f.out[i],
                          cut_result(cut, loop, &f, i, k));
}

/* Lets the readers of results that sum over rows read the sums of the pieces. */
static void read_sums(const Cut *cut, Value **value, int n)
{
    for (int i = 0; i < n; i++) {
        Value *sum = value_map_get(&cut->sum, value[i]);
        value[i] = sum ? sum : value[i];
    }
}

static void cut_region(Cut *cut, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        read_sums(cut, op->arg, op->nargs);
        if (op->kind == OP_loop)
            cut_loop(cut, op);
        else if (count_cut(cut, op) > 0)
            cut_op(cut, op);
    }
    read_sums(cut, r->yield, r->nyields);
}

/* ---- the pass ------------------------------------------------------------ */

static Region *microbatch_region(Program *p)
{
    for (Op *op = p->step->first; op; op = op->next)
        if (loop_is_microbatches(p, op))
            return op->body;
    return p->step;
}

/* Whether the plan has a collective over tensor axes at all. */
static bool has_tensor_ranks(const Program *p)
{
    for (int a = 0; a < p->mesh.n; a++)
        if ((p->plan.tensor_axes >> a & 1) && p->mesh.size[a] > 1)
            return true;
    return false;
}

static bool refuse(Program *p, const char *with)
{
    diag_error(p->diag, p->train.loc, "async_tp does not work with %s yet", with);
    diag_help(p->diag, "omit async_tp, or %s", with);
    return false;
}

static bool is_supported(Program *p)
{
    if (p->train.head_chunk)
        return refuse(p, option_name(OPTION_head_chunk));
    return !p->plan.pipeline.axes || refuse(p, "a pipeline");
}

void pass_async_tp(Program *p, const TargetInfo *t)
{
    (void)t;
    if (p->train.async_tp < 2 || p->purpose == FOR_OUTPUTS || !has_tensor_ranks(p) ||
        !is_supported(p))
        return;
    Cut cut = {.c = {.p = p, .step = microbatch_region(p), .n = p->train.async_tp}};
    if (!pieces_mark(&cut.c))
        return;
    cut.piece = NEW_ARRAY(p->arena, ValueMap, cut.c.n);
    cut.rows = NEW_ARRAY(p->arena, ValueMap, cut.c.n);
    cut.rows_dim = NEW_ARRAY(p->arena, int, cut.c.nvalues);
    cut_region(&cut, cut.c.step);
    ir_eliminate_dead(p);
}
