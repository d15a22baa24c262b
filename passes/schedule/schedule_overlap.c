/* schedule_overlap.c: orders ops so that compute has work while a tensor axis
 * communicates.
 *
 * Collectives over tensor axes (mesh axes that `parallelize` names) are on the
 * critical path: the next op reads their results. Where streams run
 * concurrently, compute has work meanwhile:
 *
 *   early   such a collective is issued as soon as its operands are
 *           available; the order of these collectives stays the same, and
 *           a shift of a ring stays after the step that frees its destination
 *   late    if the next op reads the result, an independent matmul is sunk
 *           below the collective: the nearest earlier one whose result
 *           nothing up to there reads. It computes a weight gradient or, in a
 *           recomputed layer, a gradient that depends on no recomputed value.
 *           It is moved past at most one other such collective, which already
 *           overlaps with another matmul, so that its operands live longer by
 *           a part of a layer only.
 *
 *   concurrent   matmuls between such a collective and its reader leave
 *           multiprocessors to it, unless copy engines execute it. Kernels of matmuls keep those that they
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
#include "ir/analysis/copy_engine.h"
#include "ir/analysis/flops.h"
#include "passes/schedule/issue.h"

static bool is_tensor_collective(const Op *op)
{
    return op_is_collective(op->kind) && op->stream == STREAM_TENSOR;
}

bool schedule_computes(const Op *op)
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

/* A step of a ring, after which a shift may overwrite the keys of the step before. */
static bool frees_keys(const Op *op, const Op *collective)
{
    return collective->kind == OP_shift && op_is_attention_step(op->kind);
}

static void issue_early(Op *collective)
{
    Op *before = collective;
    for (Op *op = collective->prev; op; op = op->prev) {
        if (op->phase != collective->phase || op->kind == OP_loop ||
            is_tensor_collective(op) || frees_keys(op, collective) ||
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
            return op_is_view(op->kind) ? false : !schedule_computes(op);
        if (schedule_computes(op))
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

/* The unit of a cost is a flop in 16 bits. A byte costs the number of flops that a GPU
 * computes while it moves the byte. */
enum {
    FLOPS_PER_MEMORY_BYTE = 250,
    FLOPS_PER_LINK_BYTE = 2000,
    FLOPS_PER_NIC_BYTE = 15000,
    SLOWER_IN_F32 = 8,
};

typedef struct Bytes {
    double in, out, larger; /* of a rank's operands and results; the sum of the larger
                             * one of each pair */
} Bytes;

static Bytes op_bytes(const Program *p, const Op *op)
{
    Bytes b = {0};
    for (int i = 0; i < op->nargs || i < op->nouts; i++) {
        double in = 0, out = 0;
        if (i < op->nargs)
            in = (double)type_local_bytes(&op->arg[i]->type, &p->mesh);
        if (i < op->nouts)
            out = (double)type_local_bytes(&op->out[i]->type, &p->mesh);
        b.in += in;
        b.out += out;
        b.larger += in > out ? in : out;
    }
    return b;
}

static double rank_flops(const Program *p, const Op *op)
{
    double flops = op->kind == OP_fused ? 0 : op_flops(p, op);
    bool wide = op->nargs > 0 && dtype_size(op->arg[0]->type.dtype) > 2;
    return flops / (double)mesh_ranks(&p->mesh) * (wide ? SLOWER_IN_F32 : 1);
}

/* Most of an all-to-all between nodes leaves the node, on one NIC for each rank. */
static double flops_per_byte(const Program *p, const Op *collective)
{
    uint32_t between = attr_axes(collective) & mesh_between_nodes(&p->mesh);
    return collective->kind == OP_all_to_all && mesh_group(&p->mesh, between) > 1
               ? FLOPS_PER_NIC_BYTE : FLOPS_PER_LINK_BYTE;
}

double schedule_cost(const Program *p, const Op *op)
{
    if (is_tensor_collective(op))
        return flops_per_byte(p, op) * op_bytes(p, op).larger;
    if (!schedule_computes(op))
        return 0;
    Bytes b = op_bytes(p, op);
    double memory = FLOPS_PER_MEMORY_BYTE * (b.in + b.out), flops = rank_flops(p, op);
    return memory > flops ? memory : flops;
}

/* Matmuls that run while the collective does. One that leaves a quarter of the
 * multiprocessors to a collective takes a third longer. That is worth it if the
 * collective takes longer than this third. */
static void leave_multiprocessors(const Program *p, const Op *collective)
{
    double whole = schedule_cost(p, collective), left = whole;
    if (op_uses_copy_engines(p, collective))
        return;
    for (Op *op = collective->next; op && !issue_reads(op, collective); op = op->next) {
        if (op_is_einsum(op->kind) && left > 0)
            op->concurrent |= rank_flops(p, op) / 3 <= whole;
        left -= is_tensor_collective(op) ? 0 : schedule_cost(p, op);
    }
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
