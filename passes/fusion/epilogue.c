/* epilogue.c: moves work on a matmul's product into the matmul.
 *
 * requires: STAGE_STORED, updates expanded into primitive ops
 * ensures:  the same stage. Where the target's library supports it, a matmul
 *           - adds a tensor that is in memory anyway to its product (the sum
 *             over microbatches, the residual stream, another product), in
 *             addition to its bias or to the sum of an operand;
 *           - writes GELU (tanh form) of its result beside the result, where no
 *             kernel reads the GELU;
 *           - multiplies its product by the derivative of GELU;
 *           - sums an operand while it reads it: the gradient of a bias, where
 *             no kernel reads that operand and could sum it at no cost.
 *
 * before   %dw = einsum{spec="bf,bk->fk", type=f32} %dy, %x : f32[64, 64] …
 *          %sum.2 = add %sum, %dw : f32[64, 64] backward
 *          %db = sum{dims=[0], keep=false} %dz : f32[64] backward
 *          %dv = einsum{spec="bf,bk->fk", type=f32} %dz, %x : f32[64, 64] …
 * after    %sum.2 = einsum_add{spec="bf,bk,fk->fk", type=f32} %dy, %x, %sum …
 *          %dv, %db = einsum_bias_grad{spec="bf,bk->fk,f", type=f32} %dz, %x …
 *
 * The product is rounded once, after the epilogue.
 */
#include <string.h>

#include "passes/fusion/epilogue.h"
#include "passes/fusion/fuse_space.h"

typedef struct Pass {
    Program *p;
    const TargetInfo *t;
    Readers *readers;
} Pass;

/* ---- consumers and producers --------------------------------------------- */

/* The value that a chain of views is a view of. */
static const Value *root_of(const Value *v)
{
    while (v->def && fuse_is_view(v->def->kind))
        v = v->def->arg[0];
    return v;
}

/* Whether a kernel computes v: the pass `fuse` should then fuse v's consumer
 * into that kernel. */
static bool is_a_kernels(const Value *v)
{
    const Op *def = root_of(v)->def;
    return def && fuse_takes(def);
}

/* Whether a kernel reads v, or a view of it, except in `except`. */
static bool kernel_reads(Pass *s, const Value *v, const Op *except)
{
    int n;
    Op *const *reader = readers_of(s->readers, v, &n);
    for (int i = 0; i < n; i++) {
        const Op *op = reader[i];
        if (op != except &&
            (fuse_is_view(op->kind) ? kernel_reads(s, op->out[0], except)
                                    : fuse_takes(op)))
            return true;
    }
    return false;
}

/* Whether all consumers of v come after `op`. */
static bool is_read_after(Pass *s, const Value *v, const Op *op)
{
    int n;
    Op *const *reader = readers_of(s->readers, v, &n);
    return n == 0 || readers_precedes(s->readers, op, reader[0]);
}

/* Whether all consumers of v come after `at`, or can be moved there (a sum over
 * microbatches, which is read at the end). Moves them. */
static bool move_readers_after(Pass *s, const Value *v, Op *at)
{
    int n, before = 0;
    Op *const *reader = readers_of(s->readers, v, &n);
    for (; before < n && !readers_precedes(s->readers, at, reader[before]);
         before++) {
        const Op *op = reader[before];
        if (op == at || !op_is_elementwise(op->kind) ||
            !is_read_after(s, op->out[0], at))
            return false;
    }
    while (before-- > 0) {
        Op *op = reader[before];
        ir_move(op, op->region, at->next);
        readers_enter(s->readers, op);
    }
    return true;
}

/* Replaces v by the result of `made`, which takes v's name. */
static void replace(Pass *s, Value *v, Value *made)
{
    ir_swap_names(made, v);
    memcpy(made->why, v->why, sizeof v->why);
    made->loc = v->loc;
    readers_replace(s->readers, v, made);
}

/* ---- products plus a tensor ---------------------------------------------- */

/* einsum + z in one op, with the einsum's bias if it has one. */
static Op *make_sum(Pass *s, const Op *einsum, Value *z, const Type *type)
{
    Arena *a = s->p->arena;
    const char *spec = attr_spec(einsum);
    const char *result = epilogue_result(spec);
    int n;
    const char *second = spec_letters(spec, 1, &n);
    const char *factors = arena_printf(
        a, "%.*s->%s", (int)(second + n - spec), spec, result);
    const char *last = result + strlen(result) - 1;
    bool bias = einsum->kind == OP_einsum_bias;
    Value *args[] = {einsum->arg[0], einsum->arg[1], z,
                     bias ? einsum->arg[2] : NULL};
    const char *beside = bias ? arena_printf(a, "%s,%s", result, last) : result;
    return epilogue_make(s->readers, s->p, s->t, einsum, OP_einsum_add,
                         bias ? 4 : 3, args,
                         epilogue_spec(a, factors, beside, NULL), type);
}

static void take_in_sum(Pass *s, Op *add)
{
    for (int i = 1; i >= 0; i--) {
        Value *y = add->arg[i], *z = add->arg[1 - i];
        Op *einsum = y->def;
        if (!einsum || y == z ||
            (einsum->kind != OP_einsum && einsum->kind != OP_einsum_bias) ||
            y->region != add->region || readers_count(s->readers, y) > 1 ||
            !type_equal(&y->type, &add->out[0]->type) ||
            !type_same_shape(&z->type, &y->type) || is_a_kernels(z) ||
            !epilogue_precedes(s->readers, z, einsum))
            continue;
        Op *op = make_sum(s, einsum, z, &add->out[0]->type);
        if (!op)
            continue;
        replace(s, add->out[0], op->out[0]);
        ir_remove(add);
        ir_remove(einsum);
        return;
    }
}

/* ---- GELU ---------------------------------------------------------------- */

/* A GELU that the backward pass recomputes stays there: beside a matmul of the
 * forward pass it would be saved. */
static void take_in_gelu(Pass *s, Op *gelu)
{
    Value *e = gelu->arg[0], *y = gelu->out[0];
    Op *einsum = e->def;
    if (!einsum || e->region != y->region || einsum->phase != gelu->phase ||
        kernel_reads(s, y, NULL) ||
        (einsum->kind != OP_einsum && einsum->kind != OP_einsum_bias))
        return;
    const char *spec = attr_spec(einsum);
    Type types[] = {e->type, e->type};
    Op *op = epilogue_make(s->readers, s->p, s->t, einsum, OP_einsum_gelu,
                           einsum->nargs, einsum->arg,
                           epilogue_spec(s->p->arena, spec, NULL,
                                         epilogue_result(spec)),
                           types);
    if (!op)
        return;
    replace(s, y, op->out[0]);
    replace(s, e, op->out[1]);
    ir_remove(gelu);
    ir_remove(einsum);
}

static void take_in_gelu_grad(Pass *s, Op *grad)
{
    Value *d = grad->arg[0], *z = grad->arg[1], *v = grad->out[0];
    Op *einsum = d->def;
    if (!einsum || einsum->kind != OP_einsum || d->region != v->region ||
        (z->def && fuse_takes(z->def)) || !type_equal(&z->type, &d->type) ||
        readers_count(s->readers, d) > 1 ||
        !epilogue_precedes(s->readers, z, einsum))
        return;
    const char *spec = attr_spec(einsum);
    Value *args[] = {einsum->arg[0], einsum->arg[1], z};
    Op *op = epilogue_make(
        s->readers, s->p, s->t, einsum, OP_einsum_gelu_grad, 3, args,
        epilogue_spec(s->p->arena, spec, epilogue_result(spec), NULL),
        &v->type);
    if (!op)
        return;
    replace(s, v, op->out[0]);
    ir_remove(grad);
    ir_remove(einsum);
}

/* ---- gradients of biases ------------------------------------------------- */

/* The subscripts that are left when these dims are summed. */
static const char *kept_letters(Arena *a, const char *letters, int count,
                                const AttrList *dims)
{
    char *kept = arena_strndup(a, letters, (size_t)count);
    int n = 0;
    for (int d = 0; d < count; d++) {
        bool gone = false;
        for (int i = 0; i < dims->n; i++)
            gone |= dims->v[i] == d;
        if (!gone)
            kept[n++] = letters[d];
    }
    kept[n] = 0;
    return kept;
}

/* Lets the einsum compute `sum`, a sum of its operand i. */
static bool sum_within(Pass *s, Op *sum, Op *einsum, int i)
{
    Arena *a = s->p->arena;
    const char *spec = attr_spec(einsum);
    int nx, nother;
    const char *x = spec_letters(spec, i, &nx);
    const char *other = spec_letters(spec, 1 - i, &nother);
    const char *kept = kept_letters(a, x, nx, attr_dims(sum));
    bool adds = einsum->kind == OP_einsum_add;
    const char *result = epilogue_result(spec);
    Value *args[] = {einsum->arg[i], einsum->arg[1 - i],
                     adds ? einsum->arg[2] : NULL};
    Type types[] = {einsum->out[0]->type, sum->out[0]->type};
    const char *factors = arena_printf(a, "%.*s,%.*s->%s", nx, x, nother, other,
                                       result);
    Op *op = epilogue_make(s->readers, s->p, s->t, einsum, OP_einsum_bias_grad,
                           adds ? 3 : 2, args,
                           epilogue_spec(a, factors, adds ? result : NULL,
                                         kept),
                           types);
    if (!op)
        return false;
    replace(s, einsum->out[0], op->out[0]);
    replace(s, sum->out[0], op->out[1]);
    ir_remove(sum);
    ir_remove(einsum);
    return true;
}

/* Whether the op has no epilogue that excludes the sum of an operand. */
static bool takes_sum(const Op *op)
{
    return op->kind == OP_einsum ||
           (op->kind == OP_einsum_add && op->nargs == 3);
}

static void take_in_bias_grad(Pass *s, Op *sum)
{
    Value *x = sum->arg[0];
    if (attr_keep(sum) || is_a_kernels(x) ||
        kernel_reads(s, root_of(x), sum))
        return;
    int n;
    Op *const *reader = readers_of(s->readers, x, &n);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < 2 && takes_sum(reader[k]); i++)
            if (reader[k]->arg[i] == x &&
                move_readers_after(s, sum->out[0], reader[k]) &&
                sum_within(s, sum, reader[k], i))
                return;
}

/* ---- the pass ------------------------------------------------------------ */

/* Calls `take` for all ops of a kind. It may remove the op that it is called
 * for, but no other op of the kind. */
static void each_of_kind(Pass *s, OpKind kind, void take(Pass *, Op *))
{
    VEC(Op *) all = {0};
    for_ops(op, s->p->step)
        if (op->kind == kind)
            vec_push(s->p->arena, &all, op);
    for (int i = 0; i < all.n; i++)
        take(s, all.at[i]);
}

void pass_epilogue(Program *p, const TargetInfo *t)
{
    Pass s = {.p = p, .t = t};
    if (!t->has_epilogues || p->train.bare_matmuls)
        return;
    s.readers = readers_new(p);
    each_of_kind(&s, OP_add, take_in_sum);
    each_of_kind(&s, OP_gelu, take_in_gelu);
    each_of_kind(&s, OP_gelu_grad, take_in_gelu_grad);
    each_of_kind(&s, OP_sum, take_in_bias_grad);
}
