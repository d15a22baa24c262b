/* schedule_overlap.c: work for compute while a tensor axis communicates.
 *
 * Collectives over tensor axes are on the critical path: what they make is
 * read next. Two things give compute something to do meanwhile, where streams
 * run side by side:
 *
 *   early   such a collective is issued as soon as its operands are there (in
 *           the order that they have among themselves);
 *   late    one whose result is read at once gets a matmul to stand behind it:
 *           the nearest one in front that is free, for which nothing up to
 *           there waits: one of weight gradients, or, where a layer is run again
 *           for the backward pass, one of its own. It passes one other such
 *           collective at most, which has work behind it already, so that what
 *           it reads lives on for a part of a layer only.
 *
 * before   %dw2 = einsum %dx.9, %mul …
 *          %dx.12 = einsum …
 *          %dx.17 = reduce_scatter{axes={tp}, …} %dx.12 …
 *          %dh = fused{…} %dx.17 …
 * after    %dx.12 = einsum …
 *          %dx.17 = reduce_scatter{axes={tp}, …} %dx.12 …
 *          %dw2 = einsum %dx.9, %mul …              while dx.17 is reduced
 *          %dh = fused{…} %dx.17 …
 */
#include "passes/streams.h"

static bool reads(const Op *op, const Op *of)
{
    for (int i = 0; i < op->nargs; i++)
        if (live_root(op->arg[i])->def == of)
            return true;
    return false;
}

static bool is_tensor_collective(const Op *op)
{
    return op_is_collective(op->kind) && op->stream == STREAM_TENSOR;
}

static bool computes(const Op *op)
{
    return op->stream == STREAM_COMPUTE && !live_is_view(op->kind) &&
           op->kind != OP_param && op->kind != OP_input &&
           op->kind != OP_scalar && op->kind != OP_output &&
           op->kind != OP_assign;
}

/* ---- early --------------------------------------------------------------- */

/* Whether op makes what the collective reads: itself, or a view of it. */
static bool makes_operand(const Op *op, const Op *collective)
{
    for (int i = 0; i < collective->nargs; i++)
        if (collective->arg[i]->def == op)
            return true;
    return reads(collective, op);
}

static void issue_early(Op *collective)
{
    Op *before = collective;
    for (Op *op = collective->prev; op; op = op->prev) {
        if (op->phase != collective->phase || op->kind == OP_loop ||
            is_tensor_collective(op) || makes_operand(op, collective))
            break;
        before = op;
    }
    /* Operands from outside are no reason to hold results for long. */
    bool own = before->prev && (is_tensor_collective(before->prev) ||
                                makes_operand(before->prev, collective));
    if (own && before != collective)
        ir_move(collective, collective->region, before);
}

/* ---- late ---------------------------------------------------------------- */

/* Whether compute goes on before it reads what the collective makes. */
static bool is_covered(const Op *collective)
{
    for (const Op *op = collective->next; op; op = op->next) {
        if (reads(op, collective))
            return live_is_view(op->kind) ? false : !computes(op);
        if (computes(op))
            return true;
    }
    return true;
}

/* A matmul that nothing in front of `at` or at it waits for. */
static bool is_free(const Op *op, const Op *at)
{
    if (!op_is_einsum(op->kind))
        return false;
    for (const Op *reader = op->next; reader; reader = reader->next) {
        if (reads(reader, op))
            return false;
        if (reader == at)
            return true;
    }
    return false;
}

/* Whether it covers a collective already. */
static bool covers(const Op *op)
{
    const Op *before = op->prev;
    return before && is_tensor_collective(before);
}

static void cover(Op *collective)
{
    const Op *passed = NULL;
    if (is_covered(collective))
        return;
    for (Op *op = collective->prev; op; op = op->prev) {
        if (op->phase != collective->phase || op->kind == OP_loop ||
            (passed && is_tensor_collective(op)))
            return;
        if (is_tensor_collective(op))
            passed = op;
        if (is_free(op, collective) && !covers(op)) {
            ir_move(op, op->region, collective->next);
            return;
        }
    }
}

static void overlap_region(Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_loop)
            overlap_region(op->body);
        else if (is_tensor_collective(op))
            issue_early(op);
    }
    for (Op *op = r->first; op; op = op->next)
        if (is_tensor_collective(op))
            cover(op);
}

void schedule_overlap(Program *p)
{
    overlap_region(p->step);
}
