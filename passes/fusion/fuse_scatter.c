/* fuse_scatter.c: fuses a gradient's einsum with the reduce-scatter that
 * follows it.
 *
 * requires: STAGE_FUSED
 * ensures:  where the ranks are on one node (TargetInfo.makes_shards): an
 *           einsum that only a unit's reduce_scatter reads is an einsum_shard,
 *           if that is less work; all einsum_shards of a reduce_scatter are
 *           right before it
 *
 * before   %dw = einsum{…} %dy, %x : f32[768, 3072]+dp backward
 *          …
 *          %s, %t = reduce_scatter{axes={dp}, …} %dw, %db
 *                   : f32[768, 3072]~dp, f32[768]~dp backward
 * after    …
 *          %dw = einsum_shard{…, axes={dp}} %dy, %x
 *                : f32[768, 3072]+dp backward
 *          %s, %t = reduce_scatter{axes={dp}, …} %dw, %db
 *                   : f32[768, 3072]~dp, f32[768]~dp backward
 *
 * A rank's product is a partial sum over its rows of the batch, as large as the
 * weight; the reduce-scatter reads the partial sums of all ranks. With few rows
 * this costs more than the product. With einsum_shard a rank multiplies its
 * columns of all ranks' %dy by all ranks' %x, through shared memory: the number
 * of multiplications is the same, and the result is its shard %s. The full %dw
 * is never stored, and the reduce_scatter has nothing to do for it. The ranks
 * synchronize before the first einsum_shard (meetings.c), so that all operands
 * are computed, and in the reduce_scatter after the last.
 */
#include "ir/analysis/uses.h"
#include "passes/pass.h"

typedef struct Shards {
    Program *p;
    const TargetInfo *t;
    Uses uses; /* before the pass: it adds no reader of an old value */
} Shards;

static bool is_shard(const Shards *s, const Op *scatter, int i)
{
    const Op *einsum = scatter->arg[i]->def;
    return einsum && einsum->kind == OP_einsum &&
           einsum->region == scatter->region &&
           einsum->phase == scatter->phase &&
           s->uses.count[einsum->out[0]->id] == 1 &&
           s->t->makes_shards(s->p, einsum, scatter, i);
}

/* Whether op is the reduce_scatter of a unit's gradients. */
static bool is_unit_scatter(const Op *op)
{
    return op->kind == OP_reduce_scatter && op_unit(op) && *op_unit(op);
}

static void make_shard(Program *p, Op *scatter, int i)
{
    Op *einsum = scatter->arg[i]->def;
    const Value *old = einsum->out[0];
    Attr attr[] = {{.s = op_spec(einsum)}, op_attr(einsum, "type"),
                   {.i = op_axes(scatter)}};
    Build b = {.p = p, .region = scatter->region, .before = scatter,
               .phase = scatter->phase, .loc = einsum->loc,
               .path = einsum->path};
    Value *made = ir_op_typed(&b, OP_einsum_shard, 2, einsum->arg, attr, 1,
                              &old->type, &old->name)->out[0];
    for (int a = 0; a < p->mesh.n; a++)
        made->why[a] = old->why[a];
    scatter->arg[i] = made;
    ir_remove(einsum);
}

void pass_fuse_scatter(Program *p, const TargetInfo *t)
{
    if (!t->makes_shards)
        return;
    Shards s = {p, t, uses_find(p)};
    for_ops(op, p->step)
        for (int i = 0; is_unit_scatter(op) && i < op->nargs; i++)
            if (is_shard(&s, op, i))
                make_shard(p, op, i);
}
