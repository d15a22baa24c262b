/* verify_memory.c: checks the memory plan and the addresses of values.
 *
 * Every buffer is aligned and in its part of memory: the rank's own part of the
 * arena, the segment of its axes, or host memory. Buffers that are live at one
 * time do not overlap. Every value outside of kernels that needs memory has a
 * place in a buffer, and fits into it in every iteration of its loops.
 *
 *   buffer 4 "y" activations at=4096 bytes=512 live=[3, 9]
 *   buffer 5 "z" activations at=4352 bytes=512 live=[8, 12]
 *   → buffer 5 'z' overlaps buffer 4 'y', which is live too
 *
 * A buffer is live whenever an op accesses it. That no other value has replaced
 * the one which the op expects there is checked by passes/sync/hazards.c, for
 * accesses of different streams.
 */
#include <stdlib.h>

#include "ir/verify/verify.h"
#include "ir/memory.h"
#include "ir/plan/pipeline.h"

typedef struct Check {
    const Program *p;
    const MemoryPlan *m;
    int *begin, *finish; /* times of ops, by op id */
    const char *fault;
} Check;

/* ---- buffers ------------------------------------------------------------- */

static const char *block_fault(const Check *c, int i, const char *what)
{
    return arena_printf(c->p->arena, "buffer %d '%s' %s", i,
                        c->m->block[i].name, what);
}

/* The part of memory of a block: bytes *begin … *end-1. False: none. */
static bool part_of(const MemoryPlan *m, const Block *b, int64_t *begin,
                    int64_t *end)
{
    *begin = b->host ? m->extent : 0;
    *end = b->host ? m->extent + m->host : m->own;
    for (int i = 0; b->shared && i < m->nsegments; i++)
        if (m->segment[i].axes == b->shared) {
            *begin = m->segment[i].offset;
            *end = *begin + m->segment[i].bytes;
            return true;
        }
    return !b->shared;
}

static const char *check_block(const Check *c, int i)
{
    const MemoryPlan *m = c->m;
    const Block *b = &m->block[i];
    int64_t begin, end;
    bool part = part_of(m, b, &begin, &end);
    if (b->bytes < 0 || b->counted < 0 || b->counted > b->bytes)
        return block_fault(c, i, "has a wrong size");
    if (b->first < 0 || b->last >= m->end || b->first > b->last + 1)
        return block_fault(c, i, "is live at times that do not exist");
    if (b->offset % m->alignment || b->bytes % m->alignment)
        return block_fault(c, i, "is not aligned");
    if (!part || b->offset < begin || b->bytes > end - b->offset)
        return block_fault(c, i, "is not inside its part of memory");
    return NULL;
}

static int by_offset(const void *x, const void *y)
{
    const Block *a = *(const Block *const *)x, *b = *(const Block *const *)y;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    return (a > b) - (a < b);
}

/* Buffers that overlap in memory and in time. */
static const char *check_overlaps(const Check *c)
{
    const MemoryPlan *m = c->m;
    const Block **sorted = NEW_ARRAY(c->p->arena, const Block *, m->nblocks);
    for (int i = 0; i < m->nblocks; i++)
        sorted[i] = &m->block[i];
    if (m->nblocks)
        qsort(sorted, (size_t)m->nblocks, sizeof *sorted, by_offset);
    for (int i = 0; i < m->nblocks; i++)
        for (int k = i + 1; k < m->nblocks; k++) {
            const Block *a = sorted[i], *b = sorted[k];
            if (b->offset >= a->offset + a->bytes)
                break;
            if (a->first <= b->last && b->first <= a->last && b->bytes > 0 &&
                blocks_share_rank(a, b))
                return arena_printf(
                    c->p->arena, "buffer %d '%s' overlaps buffer %d '%s', "
                    "which is live too", (int)(b - m->block), b->name,
                    (int)(a - m->block), a->name);
        }
    return NULL;
}

static const char *check_numbers(const Check *c)
{
    const MemoryPlan *m = c->m;
    int64_t end = m->own;
    if (m->alignment < 1 || m->own < 0 || m->host < 0 || m->end < 0 ||
        m->resident < 0 || m->resident > m->own)
        return "the arena has a wrong size";
    for (int i = 0; i < m->nsegments; i++) {
        if (m->segment[i].offset != end || m->segment[i].bytes < 0)
            return "the segments are not one after another";
        end += m->segment[i].bytes;
    }
    if (pipeline_axis(c->p) >= 0 && m->page < 1)
        return "a page has no bytes";
    return m->extent == end ? NULL : "the arena does not end after its segments";
}

/* ---- values -------------------------------------------------------------- */

static void fail(Check *c, const Value *v, const char *what)
{
    if (!c->fault)
        c->fault = arena_printf(c->p->arena, "%%%s %s", v->name, what);
}

/* Whether the loop is around the op or argument that defines v. */
static bool is_inside(const Value *v, const Op *loop)
{
    const Op *o = v->region->owner;
    while (o && o != loop)
        o = o->region->owner;
    return o != NULL;
}

/* The bytes from the place of v that it may occupy in one iteration. */
static int64_t bytes_of(const Check *c, const Value *v, const Address *at)
{
    if (at->row > 0)
        return type_local_layers(&v->type, &c->p->mesh) * at->row;
    return type_local_bytes(&v->type, &c->p->mesh);
}

static void check_address(Check *c, const Value *v)
{
    const Address *at = v->address;
    if (!at || c->fault)
        return;
    if (at->block < 0 || at->block >= c->m->nblocks) {
        fail(c, v, "is in a buffer that does not exist");
        return;
    }
    int64_t left = c->m->block[at->block].bytes;
    if (at->row < 0 || at->run < 0 || (at->cut && !at->run) ||
        at->rotation < 0 || at->rotation > c->m->nrotations)
        fail(c, v, "has a wrong place in its buffer");
    for (int i = 0; i < at->nstrides && !c->fault; i++) {
        int64_t trips = loop_rank_trips(c->p, at->loop[i]);
        if (at->modulo[i] > 0 && at->modulo[i] < trips)
            trips = at->modulo[i];
        if (!is_inside(v, at->loop[i]))
            fail(c, v, "has a stride for a loop that is not around it");
        else if (at->stride[i] < 0 || at->modulo[i] < 0 ||
                 (trips > 1 && at->stride[i] > left / (trips - 1)))
            fail(c, v, "leaves its buffer");
        else
            left -= at->stride[i] * (trips - 1);
    }
    if (!c->fault && bytes_of(c, v, at) > left)
        fail(c, v, "does not fit into its buffer");
}

/* ---- live ranges --------------------------------------------------------- */

/* Times count ops in order; a loop begins before its body and finishes after
 * it, and ops of the schedule take no time. */
static int time_region(Check *c, const Region *r, int time)
{
    for (const Op *op = r->first; op; op = op->next) {
        bool takes_time = !op_is_schedule(op->kind);
        c->begin[op->id] = time;
        time += takes_time;
        if (op->kind == OP_early)
            time_region(c, op->body, time);
        if (op->kind == OP_loop)
            time = time_region(c, op->body, time) + 1;
        c->finish[op->id] = takes_time ? time - 1 : time;
    }
    return time;
}

/* The end of the outermost loop around op in which v is not defined, else of
 * the op: a value is needed in every iteration. */
static int needed_until(const Check *c, const Op *op, const Value *v)
{
    int until = c->finish[op->id];
    for (const Op *loop = op_loop(op); loop && !is_inside(v, loop);
         loop = op_loop(loop))
        until = c->finish[loop->id];
    return until;
}

static void check_access(Check *c, const Op *op, const Value *v)
{
    if (c->fault || !v->address || v->address->block < 0)
        return;
    const Block *b = &c->m->block[v->address->block];
    if (b->first > c->begin[op->id] || b->last < needed_until(c, op, v))
        fail(c, v,
             arena_printf(c->p->arena,
                          "is accessed by %s when buffer %d '%s' is not "
                          "live",
                          op_info(op->kind)->name, v->address->block, b->name));
}

/* Ops whose results need no memory of their own. */
static bool needs_address(const Op *op)
{
    return !op_is_view(op->kind) && op->kind != OP_loop;
}

static void check_op(Check *c, Op *op)
{
    const Op *owner = op->region->owner;
    if (owner && owner->kind == OP_fused)
        return;
    for (int i = 0; i < op->nouts; i++) {
        if (!op->out[i]->address && needs_address(op))
            fail(c, op->out[i], "has no place in memory");
        check_address(c, op->out[i]);
        if (!c->fault && value_in_place(op->out[i]) !=
                             place_is_operands(c->m, op, i))
            fail(c, op->out[i], value_in_place(op->out[i])
                                    ? "is not in its operand's memory"
                                    : "is in its operand's memory: in_place");
    }
    for (int i = 0; op->kind == OP_loop && i < op->body->nargs; i++)
        check_address(c, op->body->arg[i]);
    if (op->workspace >= c->m->nblocks && op->nouts)
        fail(c, op->out[0], "has a workspace that does not exist");
    const Op *runs = op->kind == OP_start ? attr_op(op) : op;
    for (int i = 0; i < runs->nouts; i++)
        check_access(c, op, runs->out[i]);
    for (int i = 0; i < runs->nargs; i++)
        check_access(c, op, runs->arg[i]);
}

/* Checks that the mesh is split for its nodes, but for the axis of the pipeline, whose
 * ranks send each other tensors, and that no segment is shared between them. */
static const char *check_nodes(const Program *p)
{
    const Mesh *m = &p->mesh;
    int64_t ranks = mesh_ranks(m);
    if (m->node == 0 || m->node >= ranks)
        return NULL;
    if (ranks % m->node || mesh_uneven_axis(m, m->node) >= 0)
        return "the node size does not fit the mesh";
    for (int a = 0; a < m->n - m->nloop; a++)
        if (m->size[a] > 1 && a != pipeline_axis(p) &&
            mesh_stride(m, a) < m->node &&
            mesh_stride(m, a) * m->size[a] > m->node)
            return arena_printf(p->arena, "axis '%s' is neither inside nodes "
                                "nor between them", m->name[a]);
    for (int i = 0; i < p->memory->nsegments; i++)
        if (mesh_group(m, p->memory->segment[i].axes & mesh_between_nodes(m)) > 1)
            return "a segment is shared by ranks of several nodes";
    return NULL;
}

const char *verify_memory(const Program *p)
{
    Check c = {.p = p, .m = p->memory};
    if (!c.m)
        return NULL;
    const char *fault = check_nodes(p);
    fault = fault ? fault : check_numbers(&c);
    for (int i = 0; i < c.m->nblocks && !fault; i++)
        fault = check_block(&c, i);
    if (!fault)
        fault = check_overlaps(&c);
    if (fault)
        return fault;
    c.begin = NEW_ARRAY(p->arena, int, p->nops);
    c.finish = NEW_ARRAY(p->arena, int, p->nops);
    if (time_region(&c, p->step, 0) != c.m->end)
        return "the times of the memory plan are those of another program";
    for_ops(op, p->step)
        check_op(&c, op);
    return c.fault;
}
