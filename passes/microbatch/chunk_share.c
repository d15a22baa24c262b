/* chunk_share.c: lets the head's gradients read values of the forward pass
 * instead of recomputing them.
 *
 * before   %h.2 = all_gather{axes={tp}, …} %h : f32[8, 64] forward
 *          %z = einsum{spec="bk,vk->bv", …} %h.2, %w : f32[8, 512] forward
 *          …
 *          %h.3 = all_gather{axes={tp}, …} %h : f32[8, 64] backward recomputed
 *          %dw = einsum{spec="bv,bk->vk", …} %dz, %h.3 : f32[512, 64] backward
 * after    %h.2 = all_gather{axes={tp}, …} %h : f32[8, 64] forward
 *          %z = einsum{spec="bk,vk->bv", …} %h.2, %w : f32[8, 512] forward
 *          …
 *          %dw = einsum{spec="bv,bk->vk", …} %dz, %h.2 : f32[512, 64] backward
 *
 * Recomputation saves memory between the forward and the backward pass. A loop
 * that runs both chunk by chunk has nothing to save. Only operands of
 * contractions that depend on the logits change.
 */
#include "passes/microbatch/chunk.h"

static bool same_attributes(const Op *x, const Op *y)
{
    const AttrName *name = op_info(x->kind)->attr;
    for (int i = 0; name[i]; i++)
        if (!attr_equal(attr_type_of(name[i]), &x->attr[i], &y->attr[i]))
            return false;
    return true;
}

static Value *original(Chunk *c, Value *v);

/* Whether result k of the forward op o equals v, a result of op. */
static bool repeats(Chunk *c, const Value *v, const Op *op, const Op *o, int k)
{
    if (!type_equal(&o->out[k]->type, &v->type))
        return false;
    if (op_is_conversion(op->kind)) /* result i belongs to operand i */
        return original(c, op->arg[v->index]) == o->arg[k];
    if (o->nargs != op->nargs || k != v->index)
        return false;
    for (int i = 0; i < op->nargs; i++)
        if (original(c, op->arg[i]) != o->arg[i])
            return false;
    return true;
}

static Value *find_original(Chunk *c, Value *v)
{
    Op *op = v->def;
    if (!op || op->phase != PH_BACKWARD || op->body || op->nargs == 0 ||
        !(op->recomputed || op->kind == OP_all_gather))
        return v;
    for (Op *o = v->region->first; o != op; o = o->next) {
        if (o->kind != op->kind || o->phase != PH_FORWARD ||
            !same_attributes(o, op))
            continue;
        for (int k = 0; k < o->nouts; k++)
            if (repeats(c, v, op, o, k))
                return o->out[k];
    }
    return v;
}

/* The forward value that v recomputes, or v. Memoized, since the search at each
 * op of a chain visits the whole chain. */
static Value *original(Chunk *c, Value *v)
{
    if (!c->original[v->id])
        c->original[v->id] = find_original(c, v);
    return c->original[v->id];
}

static void share_logits(Chunk *c)
{
    for (Op *op = c->head->next; op; op = op->next)
        for (int i = 0; !op->body && i < op->nargs; i++)
            if (original(c, op->arg[i]) == c->head->out[0])
                op->arg[i] = c->head->out[0];
}

void chunk_share(Chunk *c)
{
    bool *depends = NEW_ARRAY(c->t.p->arena, bool, c->t.p->nvalues);
    c->original = NEW_ARRAY(c->t.p->arena, Value *, c->t.p->nvalues);
    share_logits(c);
    loop_axis_mark_users(c->t.r, c->head->out[0], depends);
    for (Op *op = c->head->next; op; op = op->next)
        if (op_is_einsum(op->kind) && op_reads_any(op, depends))
            for (int i = 0; i < op->nargs; i++)
                op->arg[i] = original(c, op->arg[i]);
    ir_eliminate_dead(c->t.p);
}
