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
 * before   %sum.2 = add %sum, %dw : f32[64, 64] backward
 *          %db = sum{dims=[0], keep=false} %dy : f32[64] backward
 *          %dv = einsum{spec="bf,bk->fk", type=f32} %dy, %x : f32[64, 64] …
 * after    %sum.2 = einsum_add{spec="bf,bk,fk->fk", type=f32} %dy, %x, %sum …
 *          %dv, %db = einsum_bias_grad{spec="bf,bk->fk,f", type=f32} %dy, %x …
 *
 * The product is rounded once, after the epilogue.
 */
#include <string.h>

#include "passes/epilogue.h"
#include "passes/fuse_space.h"

typedef struct Pass {
    Program *p;
    const TargetInfo *t;
    Follow *follow;
    bool changed; /* dead ops may remain */
} Pass;

/* ---- consumers and producers --------------------------------------------- */

static bool reads(const Op *op, const Value *v)
{
    for (int i = 0; i < op->nargs; i++)
        if (op->arg[i] == v)
            return true;
    return false;
}

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
static bool kernel_reads(const Value *v, const Op *except)
{
    for (const Op *op = v->region->first; op; op = op->next) {
        if (op == except || !reads(op, v))
            continue;
        if (fuse_is_view(op->kind) ? kernel_reads(op->out[0], except)
                                   : fuse_takes(op))
            return true;
    }
    return false;
}

/* Whether all consumers of v come after `op`. */
static bool is_read_behind(const Value *v, const Op *op)
{
    for (; op; op = op->prev)
        if (reads(op, v))
            return false;
    return true;
}

/* Whether all consumers of v come after `at`, or can be moved there (a sum over
 * microbatches, which is read at the end). Moves them. */
static bool read_behind(const Value *v, Op *at)
{
    for (const Op *op = at; op; op = op->prev)
        if (reads(op, v) && (op == at || !op_is_elementwise(op->kind) ||
                             !is_read_behind(op->out[0], at)))
            return false;
    for (Op *op = at->prev, *prev; op; op = prev) {
        prev = op->prev;
        if (reads(op, v))
            ir_move(op, op->region, at->next);
    }
    return true;
}

/* Replaces v by the result of `made`, which takes v's name. */
static void replace(Value *v, Value *made)
{
    const char *name = made->name;
    made->name = v->name;
    v->name = name;
    memcpy(made->why, v->why, sizeof v->why);
    made->loc = v->loc;
    ir_replace_uses(v->region, v, made);
}

/* The subscripts of the two factors: "abk,fk". */
static const char *factors_of(Arena *a, const char *spec)
{
    size_t n = strcspn(spec, ",");
    n += 1 + strcspn(spec + n + 1, ",-");
    return arena_strndup(a, spec, n);
}

/* ---- products plus a tensor ---------------------------------------------- */

/* einsum + z in one op, with the einsum's bias if it has one. */
static Op *make_sum(Pass *s, const Op *einsum, Value *z, const Type *type)
{
    Arena *a = s->p->arena;
    const char *spec = op_attr(einsum, "spec").s;
    const char *result = epilogue_result(spec);
    const char *factors = arena_printf(a, "%s->%s", factors_of(a, spec), result);
    const char *last = result + strlen(result) - 1;
    bool bias = einsum->kind == OP_einsum_bias;
    Value *args[] = {einsum->arg[0], einsum->arg[1], z,
                     bias ? einsum->arg[2] : NULL};
    const char *beside = bias ? arena_printf(a, "%s,%s", result, last) : result;
    return epilogue_make(s->p, s->t, einsum, OP_einsum_add, bias ? 4 : 3, args,
                         epilogue_spec(a, factors, beside, NULL), type);
}

static void take_in_sum(Pass *s, Op *add)
{
    for (int i = 1; i >= 0; i--) {
        Value *y = add->arg[i], *z = add->arg[1 - i];
        Op *einsum = y->def;
        if (!einsum || y == z ||
            (einsum->kind != OP_einsum && einsum->kind != OP_einsum_bias) ||
            y->region != add->region || ir_count_uses(y) > 1 ||
            !type_equal(&y->type, &add->out[0]->type) ||
            !type_same_shape(&z->type, &y->type) || is_a_kernels(z) ||
            !epilogue_precedes(z, einsum))
            continue;
        Op *op = make_sum(s, einsum, z, &add->out[0]->type);
        if (!op)
            continue;
        replace(add->out[0], op->out[0]);
        ir_remove(add);
        ir_remove(einsum);
        return;
    }
}

/* ---- GELU ---------------------------------------------------------------- */

static void take_in_gelu(Pass *s, Op *einsum)
{
    Value *e = einsum->out[0];
    Value *y = follow_gelu(s->follow, e);
    if (!y || kernel_reads(y, NULL))
        return;
    const char *spec = op_attr(einsum, "spec").s;
    Type types[] = {e->type, e->type};
    Op *op = epilogue_make(s->p, s->t, einsum, OP_einsum_gelu, einsum->nargs,
                           einsum->arg,
                           epilogue_spec(s->p->arena, spec, NULL,
                                         epilogue_result(spec)),
                           types);
    if (!op)
        return;
    replace(y, op->out[0]);
    replace(e, op->out[1]);
    ir_remove(einsum);
    s->changed = true;
}

/* Whether all that depends on d is elementwise and ends in v. */
static bool leads_to(const Value *d, const Value *v)
{
    for (int i = 0; i < d->region->nyields; i++)
        if (d->region->yield[i] == d)
            return false;
    for (const Op *op = d->region->first; op; op = op->next) {
        if (!reads(op, d))
            continue;
        if (!op_is_elementwise(op->kind) ||
            (op->out[0] != v && !leads_to(op->out[0], v)))
            return false;
    }
    return true;
}

static void take_in_gelu_grad(Pass *s, Op *einsum)
{
    Value *d = einsum->out[0], *v = NULL, *z = NULL;
    Region *r = einsum->region;
    const char *spec = op_attr(einsum, "spec").s;
    follow_mark(s->follow, d);
    for (int i = 0; i < r->nargs && !v; i++) {
        z = r->arg[i];
        if (follow_is_marked(s->follow, z) && type_equal(&z->type, &d->type))
            v = follow_gelu_grad(s->follow, d, z);
    }
    for (Op *op = r->first; op != einsum && !v; op = op->next) {
        z = op->nouts ? op->out[op->nouts - 1] : NULL;
        if (z && !fuse_takes(op) && follow_is_marked(s->follow, z) &&
            type_equal(&z->type, &d->type))
            v = follow_gelu_grad(s->follow, d, z);
    }
    if (!v || !leads_to(d, v))
        return;
    Value *args[] = {einsum->arg[0], einsum->arg[1], z};
    Op *op = epilogue_make(
        s->p, s->t, einsum, OP_einsum_gelu_grad, 3, args,
        epilogue_spec(s->p->arena, spec, epilogue_result(spec), NULL),
        &v->type);
    if (!op)
        return;
    replace(v, op->out[0]);
    s->changed = true;
}

/* ---- gradients of biases ------------------------------------------------- */

/* The subscripts of operand i of an einsum, one of the two factors. */
static const char *operand_letters(Arena *a, const char *spec, int i)
{
    const char *factors = factors_of(a, spec);
    size_t first = strcspn(factors, ",");
    return i ? factors + first + 1 : arena_strndup(a, factors, first);
}

/* The subscripts that are left when these dims are summed. */
static const char *kept_letters(Arena *a, const char *letters,
                                const AttrList *dims)
{
    char *kept = arena_strdup(a, letters);
    int n = 0;
    for (int d = 0; letters[d]; d++) {
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
    const char *spec = op_attr(einsum, "spec").s;
    const char *x = operand_letters(a, spec, i);
    const char *other = operand_letters(a, spec, 1 - i);
    const char *kept = kept_letters(a, x, &op_attr(sum, "dims").l);
    bool adds = einsum->kind == OP_einsum_add;
    const char *result = epilogue_result(spec);
    Value *args[] = {einsum->arg[i], einsum->arg[1 - i],
                     adds ? einsum->arg[2] : NULL};
    Type types[] = {einsum->out[0]->type, sum->out[0]->type};
    const char *factors = arena_printf(a, "%s,%s->%s", x, other, result);
    Op *op = epilogue_make(s->p, s->t, einsum, OP_einsum_bias_grad,
                           adds ? 3 : 2, args,
                           epilogue_spec(a, factors, adds ? result : NULL,
                                         kept),
                           types);
    if (!op)
        return false;
    replace(einsum->out[0], op->out[0]);
    replace(sum->out[0], op->out[1]);
    ir_remove(sum);
    ir_remove(einsum);
    return true;
}

/* Whether the op has no epilogue that excludes the sum of an operand. */
static bool is_free(const Op *op)
{
    return op->kind == OP_einsum ||
           (op->kind == OP_einsum_add && op->nargs == 3);
}

static void take_in_bias_grad(Pass *s, Op *sum)
{
    Value *x = sum->arg[0];
    if (op_attr(sum, "keep").i || is_a_kernels(x) ||
        kernel_reads(root_of(x), sum))
        return;
    for (Op *op = sum->region->first; op; op = op->next)
        for (int i = 0; i < 2 && is_free(op); i++)
            if (op->arg[i] == x && read_behind(sum->out[0], op) &&
                sum_within(s, sum, op, i))
                return;
}

/* ---- the pass ------------------------------------------------------------ */

typedef VEC(Op *) OpVec;

static void collect(Pass *s, Region *r, OpKind kind, OpVec *all)
{
    for (Op *op = r->first; op; op = op->next) {
        if (op->body)
            collect(s, op->body, kind, all);
        else if (op->kind == kind)
            vec_push(s->p->arena, all, op);
    }
}

/* Calls `take` for all ops of a kind. It may remove the op that it is called
 * for, but no other op of the kind. */
static void visit(Pass *s, OpKind kind, void take(Pass *, Op *))
{
    OpVec all = {0};
    collect(s, s->p->step, kind, &all);
    for (int i = 0; i < all.n; i++)
        take(s, all.at[i]);
}

void pass_epilogue(Program *p, const TargetInfo *t)
{
    Pass s = {.p = p, .t = t};
    if (!t->multiplies || p->train.bare_matmuls)
        return;
    visit(&s, OP_add, take_in_sum);
    s.follow = follow_new(p);
    visit(&s, OP_einsum_bias, take_in_gelu);
    visit(&s, OP_einsum, take_in_gelu);
    s.follow = follow_new(p);
    visit(&s, OP_einsum, take_in_gelu_grad);
    if (s.changed)
        ir_eliminate_dead(p);
    visit(&s, OP_sum, take_in_bias_grad);
}
