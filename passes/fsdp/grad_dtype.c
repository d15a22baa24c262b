/* grad_dtype.c: reduces gradients in the type that the setting `reduce` names.
 *
 * requires: STAGE_STORED (all reductions of gradients exist)
 * ensures:  where train.reduce is narrower than f32, all_reduce and
 *           reduce_scatter ops whose operands are all gradients of parameters
 *           have operands and results of that type. Their results are cast to
 *           f32, so that sums over layers and microbatches and the optimizer
 *           stay in f32
 *
 * before   %dw = einsum{spec="bf,bk->fk", type=f32} %dy, %x : f32[8, 8]+dp
 *          %dw.2 = reduce_scatter{axes={dp}, unit="net"} %dw : f32[8, 8]~dp
 *          %g = finish_grad{param="net.weight"} %dw.2 : f32[8, 8]~dp
 * after    %dw = einsum{spec="bf,bk->fk", type=bf16} %dy, %x : bf16[8, 8]+dp
 *          %dw.2 = reduce_scatter{axes={dp}, unit="net"} %dw : bf16[8, 8]~dp
 *          %cast = cast{to=f32} %dw.2 : f32[8, 8]~dp
 *          %g = finish_grad{param="net.weight"} %cast : f32[8, 8]~dp
 *
 * Gradients are traced from finish_grad back to their producers, through loops,
 * sums and reductions. Each value is visited once.
 */
#include "passes/pass.h"

typedef struct Reduce {
    Program *p;
    bool *seen;         /* by value id: a gradient, or a term of one */
    VEC(Op *) reduction; /* the reductions of gradients */
} Reduce;

static void follow_gradient(Reduce *r, Value *v)
{
    if (r->seen[v->id])
        return;
    r->seen[v->id] = true;
    Op *op = v->def;
    if (!op)
        return;
    if (op->kind == OP_all_reduce || op->kind == OP_reduce_scatter) {
        if (!vec_has(&r->reduction, op))
            vec_push(r->p->arena, &r->reduction, op);
        follow_gradient(r, op->arg[v->index]);
    } else if (op->kind == OP_loop) {
        follow_gradient(r, op->body->yield[v->index]);
        if (v->index < op->ncarry)
            follow_gradient(r, op->arg[v->index]);
    } else if (op->kind == OP_add) {
        follow_gradient(r, op->arg[0]);
        follow_gradient(r, op->arg[1]);
    } else if (op->kind == OP_local_slice || op->kind == OP_mask_to_partial) {
        follow_gradient(r, op->arg[0]);
    }
}

/* ---- narrowing ----------------------------------------------------------- */

/* v in a narrower type: computed so by its einsum, if that is its only use; the
 * operand of a cast that widened v; else a cast. */
static Value *narrowed(Program *p, const TargetInfo *t, Value *v, DType to,
                       Op *user)
{
    Op *def = v->def;
    if (def && def->kind == OP_cast && def->arg[0]->type.dtype == to)
        return def->arg[0];
    if (def && def->kind == OP_einsum && ir_count_uses(v) == 1) {
        DType was = v->type.dtype;
        v->type.dtype = to;
        set_attr_type(def, to);
        if (t->multiplies(p, def))
            return v;
        v->type.dtype = was;
        set_attr_type(def, was);
    }
    Build b = {.p = p, .region = user->region, .before = user,
               .phase = user->phase, .loc = v->loc, .path = user->path};
    Attr attr[MAX_ATTRS] = {{.i = to}};
    return ir_value(&b, OP_cast, 1, &v, attr, v->name);
}

static void narrow_reduction(Program *p, const TargetInfo *t, Op *op, DType to)
{
    for (int i = 0; i < op->nargs; i++) {
        op->arg[i] = narrowed(p, t, op->arg[i], to, op);
        Value *out = op->out[i];
        out->type.dtype = to;
        Build b = {.p = p, .region = op->region, .before = op->next,
                   .phase = op->phase, .loc = out->loc, .path = op->path};
        Value *wide = ir_cast(&b, out, DT_F32);
        ir_replace_uses(op->region, out, wide);
        wide->def->arg[0] = out;
    }
}

static bool reduces_only_gradients(const Reduce *r, const Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        if (!r->seen[op->out[i]->id] || op->arg[i]->type.dtype != DT_F32)
            return false;
    return true;
}

void pass_grad_dtype(Program *p, const TargetInfo *t)
{
    Reduce r = {.p = p, .seen = NEW_ARRAY(p->arena, bool, p->nvalues)};
    if (p->train.reduce == DT_F32)
        return;
    for (Op *op = p->step->first; op; op = op->next)
        if (op->kind == OP_finish_grad)
            follow_gradient(&r, op->arg[0]);
    for (int i = 0; i < r.reduction.n; i++)
        if (reduces_only_gradients(&r, r.reduction.at[i]))
            narrow_reduction(p, t, r.reduction.at[i], p->train.reduce);
}
