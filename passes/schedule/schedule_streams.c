/* schedule_streams.c: assigns the streams of ops.
 *
 *   compute   kernels, matmuls, attention
 *   tensor    collectives over tensor axes (mesh axes that `parallelize` names), and the
 *             exchanges of sequences over the axis of a context and of tokens over the axes
 *             of experts: compute waits for them, and on the stream `data` they would wait
 *             for the prefetched gathers of units
 *   data      collectives over the other axes, and in loops over layers kernels that only
 *             convert or accumulate what these have reduced: on the stream `compute` such a
 *             kernel would wait for its reduction, and the next layer for both
 *   host      copies from and to host memory
 *
 * before   %g = reduce_scatter{axes={dp}, unit="layers.*"} %dw … backward stream=2
 *          %sum = fused{name="add_grad"} %g, %sums … backward
 * after    %sum = fused{name="add_grad"} %g, %sums … backward stream=2
 */
#include "ir/analysis/alias.h"
#include "ir/units.h"
#include "passes/schedule/issue.h"

/* Whether op exchanges activations over the axis of a context or the axes of experts;
 * gathers and gradients of units and of other parameters may have these axes too. */
static bool exchanges_activations(const Program *p, const Op *op)
{
    uint32_t axes = p->plan.context.axes | p->plan.experts.axes;
    bool may = op->kind == OP_all_gather || op->kind == OP_reduce_scatter;
    const char *unit = may ? attr_unit(op) : NULL;
    return (may || op->kind == OP_all_to_all || op->kind == OP_shift) && !(unit && *unit) &&
           (attr_axes(op) & ~axes) == 0;
}

static bool is_pointwise(const Op *op)
{
    if (op->kind != OP_fused)
        return false;
    for (const Op *inner = op->body->first; inner; inner = inner->next)
        if (!op_is_elementwise(inner->kind) && !op_is_view(inner->kind))
            return false;
    return true;
}

/* Whether v is made on the stream `data`, by a reduction or from what one has reduced. */
static bool is_reduced(const Program *p, const Value *v)
{
    const Op *def = v->def;
    if (def->stream != STREAM_DATA)
        return false;
    if (def->kind == OP_reduce_scatter)
        return unit_overlaps(p, attr_unit(def));
    return def->kind == OP_all_reduce || def->kind == OP_fused;
}

/* A loop of the backward pass over layers: not one over microbatches, during which memory
 * would stay reserved for the gradients of each unit outside of loops over layers. */
static bool is_in_layers(const Op *op)
{
    const Op *loop = op->region->owner;
    return loop && loop->kind == OP_loop && loop->phase == PH_BACKWARD;
}

/* Whether a kernel reads what an iteration over layers has reduced on the stream `data`, and
 * nothing else that it computes. The streams of earlier ops are known. */
static bool follows_reduction(const Program *p, const Op *op)
{
    bool follows = false;
    if (!is_in_layers(op) || !is_pointwise(op))
        return false;
    for (int i = 0; i < op->nargs; i++) {
        const Value *v = value_root(op->arg[i]);
        if (!v->def || v->def->region != op->region || v->def->phase == PH_INIT ||
            v->def->kind == OP_param || v->def->kind == OP_scalar)
            continue;
        if (!is_reduced(p, v))
            return false;
        follows = true;
    }
    return follows;
}

static int stream_of(const Program *p, const Op *op)
{
    if (op->kind == OP_fetch || op->kind == OP_store)
        return STREAM_HOST;
    if (op_is_collective(op->kind) && !op_is_hand_over(op->kind))
        return attr_axes(op) & p->plan.tensor_axes || exchanges_activations(p, op)
                   ? STREAM_TENSOR : STREAM_DATA;
    return follows_reduction(p, op) ? STREAM_DATA : STREAM_COMPUTE;
}

void schedule_streams(Program *p)
{
    for_ops(op, p->step)
        op->stream = stream_of(p, op);
}
