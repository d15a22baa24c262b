/* schedule_overlap.c: orders ops so that compute has work while a tensor axis
 * communicates.
 *
 * Collectives over tensor axes (mesh axes that `parallelize` names) are on the
 * critical path: the next op reads their results. Where streams run
 * concurrently, compute has work meanwhile:
 *
 *   early   such a collective is issued as soon as its operands are
 *           available; the order of these collectives stays the same
 *   late    if the next op reads the result, an independent matmul is sunk
 *           below the collective: the nearest earlier one whose result
 *           nothing up to there reads. It computes a weight gradient or, in a
 *           recomputed layer, a gradient that depends on no recomputed value.
 *           It is moved past at most one other such collective, which already
 *           overlaps with another matmul, so that its operands live longer by
 *           a part of a layer only.
 *
 *   concurrent   matmuls between such a collective and its reader leave
 *           multiprocessors to it. Kernels of matmuls keep those that they
 *           have to their end: else a collective would begin after the
 *           matmul that should run at the same time
 *
 * before   %dw2 = einsum %dx.9, %mul …
 *          %dx.12 = einsum …
 *          %dx.17 = reduce_scatter{axes={tp}, …} %dx.12 …
 *          %dh = fused{…} %dx.17 …
 * after    %dx.12 = einsum …
 *          %dx.17 = reduce_scatter{axes={tp}, …} %dx.12 …
 *          %dw2 = einsum %dx.9, %mul … concurrent   while dx.17 is reduced
 *          %dh = fused{…} %dx.17 …
 */
#include "ir/analysis/flops.h"
#include "passes/schedule/issue.h"

static bool is_tensor_collective(const Op *op)
{
    return op_is_collective(op->kind) && op->stream == STREAM_TENSOR;
}

static bool computes(const Op *op)
{
    return op->stream == STREAM_COMPUTE && !op_is_view(op->kind) &&
           op->kind != OP_param && op->kind != OP_input &&
           op->kind != OP_scalar && op->kind != OP_output &&
           op->kind != OP_assign;
}

/* ---- early --------------------------------------------------------------- */

/* Whether op is the producer of an operand of the collective, or of a view of
 * it. */
static bool makes_collective_operand(const Op *op, const Op *collective)
{
    return op_reads(collective, op) || issue_reads(collective, op);
}

static void issue_early(Op *collective)
{
    Op *before = collective;
    for (Op *op = collective->prev; op; op = op->prev) {
        if (op->phase != collective->phase || op->kind == OP_loop ||
            is_tensor_collective(op) ||
            makes_collective_operand(op, collective))
            break;
        before = op;
    }
    /* If no operand is computed in this region, the collective stays: issued
     * early, its results would be live too long. */
    bool own =
        before->prev && (is_tensor_collective(before->prev) ||
                         makes_collective_operand(before->prev, collective));
    if (own && before != collective)
        ir_move(collective, collective->region, before);
}

/* ---- late ---------------------------------------------------------------- */

/* Whether compute has work before it reads the collective's result. */
static bool is_covered(const Op *collective)
{
    for (const Op *op = collective->next; op; op = op->next) {
        if (issue_reads(op, collective))
            return op_is_view(op->kind) ? false : !computes(op);
        if (computes(op))
            return true;
    }
    return true;
}

/* Whether op is a matmul whose result nothing up to `at` reads. */
static bool is_unread_matmul(const Op *op, const Op *at)
{
    if (!op_is_einsum(op->kind))
        return false;
    for (const Op *reader = op->next; reader; reader = reader->next) {
        if (issue_reads(reader, op))
            return false;
        if (reader == at)
            return true;
    }
    return false;
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
        bool overlaps = op->prev && is_tensor_collective(op->prev);
        if (is_unread_matmul(op, collective) && !overlaps) {
            ir_move(op, op->region, collective->next);
            return;
        }
    }
}

/* ---- concurrent ---------------------------------------------------------- */

/* The flops that a GPU computes in 16 bits while a link to another one moves a byte:
 * 700 Tflop/s and 330 GB/s on an H100, and about as many on an A100 and a B200. */
enum { FLOPS_PER_BYTE = 2000, SLOWER_IN_F32 = 8 };

static double collective_bytes(const Program *p, const Op *collective)
{
    double bytes = 0;
    for (int i = 0; i < collective->nargs; i++) {
        int64_t in = type_local_bytes(&collective->arg[i]->type, &p->mesh);
        int64_t out = type_local_bytes(&collective->out[i]->type, &p->mesh);
        bytes += (double)(in > out ? in : out);
    }
    return bytes;
}

/* Of a matmul on one rank, as if it were in 16 bits. */
static double rank_flops(const Program *p, const Op *matmul)
{
    double flops = op_flops(p, matmul) / (double)mesh_ranks(&p->mesh);
    return dtype_size(matmul->arg[0]->type.dtype) > 2 ? flops * SLOWER_IN_F32 : flops;
}

/* A matmul that leaves a quarter of the multiprocessors to a collective takes a third
 * longer. That is worth it if the collective takes longer than this third. */
static bool is_worth_it(const Program *p, const Op *matmul, const Op *collective)
{
    return rank_flops(p, matmul) / 3 <= FLOPS_PER_BYTE * collective_bytes(p, collective);
}

static void leave_multiprocessors(const Program *p, const Op *collective)
{
    for (Op *op = collective->next; op && !issue_reads(op, collective); op = op->next)
        if (op_is_einsum(op->kind))
            op->concurrent |= is_worth_it(p, op, collective);
}

static void overlap_region(const Program *p, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_loop)
            overlap_region(p, op->body);
        else if (is_tensor_collective(op))
            issue_early(op);
    }
    for (Op *op = r->first; op; op = op->next)
        if (is_tensor_collective(op))
            cover(op);
    for (const Op *op = r->first; op; op = op->next)
        if (is_tensor_collective(op))
            leave_multiprocessors(p, op);
}

void schedule_overlap(Program *p)
{
    overlap_region(p, p->step);
}
