/* memory_results.c: adds blocks to a memory plan, and places the results of an
 * op in them: over an operand whose live range ends there, at the destination
 * that a loop or parameter prescribes, in buffers rotated across iterations, or
 * in a new block (the rules are in memory.c); and the op's workspace.
 *
 * before   %y = exp %x …, the last reader of %x, whose block is 3
 * after    %y is in block 3
 */
#include "ir/plan/pipeline.h"
#include "passes/memory/memory.h"

#include <string.h>

/* ---- blocks -------------------------------------------------------------- */

int64_t memory_align(const Memory *m, int64_t bytes)
{
    int64_t a = m->t->alignment;
    return (bytes + a - 1) / a * a;
}

int memory_add_block(Memory *m, const char *name, MemoryClass class,
                     int64_t bytes, int first, int last)
{
    Block b = {.name = name, .class = class, .bytes = memory_align(m, bytes),
               .first = first, .last = last};
    b.counted = b.bytes;
    vec_push(m->p->arena, &m->block, b);
    return m->block.n - 1;
}

Address memory_new_block(Memory *m, const Value *v, int first, int last)
{
    return (Address){.block = memory_add_block(m, v->name, m->class[v->id],
                                               memory_local_bytes(m, v), first,
                                               last)};
}

void memory_extend(Memory *m, int block, int first, int last)
{
    Block *b = &m->block.at[block];
    if (b->first > first)
        b->first = first;
    if (b->last < last)
        b->last = last;
}

int64_t memory_local_bytes(const Memory *m, const Value *v)
{
    return type_local_bytes(&v->type, &m->p->mesh);
}

void memory_place_value(Memory *m, Value *v, Address at)
{
    v->address = arena_copy(m->p->arena, &at, sizeof at);
}

/* Places the blocks of host memory consecutively, from the arena's end on. */
static void place_host(MemoryPlan *plan)
{
    plan->host = 0;
    for (int i = 0; i < plan->nblocks; i++) {
        Block *b = &plan->block[i];
        if (!b->host)
            continue;
        b->offset = plan->extent + plan->host;
        plan->host += b->bytes;
    }
}

void memory_set_arena(MemoryPlan *plan, const MemoryPlan *training, int64_t own)
{
    plan->own = own;
    if (plan == training) {
        arena_lay_segments(plan);
        place_host(plan);
        return;
    }
    memcpy(plan->segment, training->segment, sizeof plan->segment);
    plan->nsegments = training->nsegments;
    plan->extent = training->extent;
    plan->host = training->host;
    for (int i = 0; i < plan->nblocks; i++)
        if (plan->block[i].training)
            plan->block[i].offset =
                training->block[plan->block[i].training - 1].offset;
}

/* ---- results ------------------------------------------------------------- */

/* Whether the step reads the constant: then it persists. A constant that only
 * other constants read is freed before the first step. */
static bool read_by_step(const Memory *m, const Value *v)
{
    for (const Op *op = m->p->step->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (value_root(op->arg[i]) == v && op->phase != PH_INIT &&
                !op_is_view(op->kind))
                return true;
    return false;
}

/* Whether the result may overwrite every operand that is a view of `root`,
 * which the op may read several times in different shapes. The test of
 * `operand`, one of them, comes first: most results cannot overwrite it. */
static bool may_take_over(const Memory *m, const Op *op, int out,
                          const Value *root, int operand)
{
    for (int k = 0; k < op->nargs; k++) {
        int i = (operand + k) % op->nargs;
        if (value_root(op->arg[i]) == root && !m->t->in_place(m->p, op, out, i))
            return false;
    }
    return true;
}

/* A rank that has several stages reads inputs for each of them. */
static bool is_read_again(const Memory *m, const Op *def)
{
    return def->kind == OP_input && rank_stages(m->p) > 1;
}

/* Whether a stage sends v, after all ops of the phase (passes/pipeline/staged_loop.h). */
static bool is_sent(const Value *v)
{
    const Op *loop = v->region->owner;
    for (const Op *op = loop && loop->staged ? v->def->next : NULL; op; op = op->next)
        for (int i = 0; i < op->nargs && op_transfers(op); i++)
            if (value_root(op->arg[i]) == v)
                return true;
    return false;
}

/* The operand whose memory result `out` reuses, or -1. What all ranks compute is not
 * in the memory of what one stage has: another stage may have received a tensor
 * there. */
static int reusable_operand(const Memory *m, const Op *op, int out)
{
    for (int i = 0; i < op->nargs; i++) {
        const Value *root = value_root(op->arg[i]);
        const Address *at = value_address(op->arg[i]);
        if (!root->def || at->block < 0 || at->nstrides ||
            m->pinned[at->block] || is_read_again(m, root->def) ||
            m->live.last_use[root->id] != m->live.begin[op->id] ||
            m->block.at[at->block].last != m->live.begin[op->id] ||
            m->block.at[at->block].bytes !=
                memory_align(m, memory_local_bytes(m, op->out[out])) ||
            !type_same_holder(&root->type, &op->out[out]->type))
            continue;
        if (may_take_over(m, op, out, root, i) && (op_transfers(op) || !is_sent(root)))
            return i;
    }
    return -1;
}

static bool taken(const Op *op, int upto, int block)
{
    for (int i = 0; i < upto; i++)
        if (value_address(op->out[i])->block == block)
            return true;
    return false;
}

bool memory_place_gathered(Memory *m, Value *v)
{
    Value *shard = value_gathered_from(m->p, v);
    if (!shard)
        return false;
    Address at = *value_address(shard);
    at.cut = 0;
    at.run = 0;
    memory_place_value(m, v, at);
    return true;
}

void memory_place_slots(Memory *m, Value *v, int64_t slots)
{
    const Op *loop = v->region->owner;
    int64_t bytes = memory_align(m, memory_local_bytes(m, v));
    int b = memory_add_block(m, v->name, m->class[v->id], slots * bytes,
                             m->live.begin[loop->id],
                             m->live.finish[loop->id]);
    Address at = {.block = b,
                  .nstrides = slots > 1,
                  .loop = {loop},
                  .stride = {bytes},
                  .modulo = {slots}};
    memory_place_value(m, v, at);
}

/* Whether v is made for another stream that may still read it while the next
 * iteration makes its successor. */
static bool outlives_iteration(const Memory *m, const Value *v)
{
    const Op *loop = v->region->owner;
    if (m->t->streams < 2 || !loop || loop_trips(loop) < 2 ||
        v->def->stream != STREAM_COMPUTE)
        return false;
    for (const Op *op = v->def->next; op; op = op->next)
        if (m->live.begin[op->id] == m->live.last_use[v->id])
            return (op->stream == STREAM_DATA || op->kind == OP_store) &&
                   memory_awaited(m->p, &m->live, &m->prefetch, op).loop;
    return false;
}

/* Lets the update of a fetched tensor write its result into the buffer of the
 * fetch, from which `store` copies it. */
static bool place_over_fetched(Memory *m, const Op *op, int out)
{
    Value *v = op->out[out];
    int time = m->live.begin[op->id];
    if (!op->region->owner || op->stream != STREAM_COMPUTE ||
        m->live.last_use[v->id] >= m->live.finish[op->region->owner->id])
        return false;
    for (int i = 0; i < op->nargs; i++) {
        const Value *root = value_root(op->arg[i]);
        const Address *at = value_address(op->arg[i]);
        if (!root->def || m->prefetch.gather[root->def->id] != root->def ||
            root->def->kind != OP_fetch || m->live.last_use[root->id] != time ||
            memory_local_bytes(m, v) != memory_local_bytes(m, root) ||
            taken(op, out, at->block) || !may_take_over(m, op, out, root, i))
            continue;
        memory_place_value(m, v, *at);
        return true;
    }
    return false;
}

void memory_place_result(Memory *m, Op *op, int i)
{
    Value *v = op->out[i];
    if (memory_place_gathered(m, v))
        return;
    if (m->is_bound[v->id]) {
        memory_place_value(m, v, m->bound[v->id]);
        return;
    }
    if (place_over_fetched(m, op, i))
        return;
    if (outlives_iteration(m, v)) {
        memory_place_slots(m, v, 2);
        return;
    }
    int time = m->live.begin[op->id], last = m->live.last_use[v->id];
    bool constant = op->phase == PH_INIT && read_by_step(m, v);
    int operand = constant ? -1 : reusable_operand(m, op, i);
    if (operand >= 0) {
        int block = value_address(op->arg[operand])->block;
        if (!taken(op, i, block)) {
            memory_extend(m, block, time, last);
            memory_place_value(m, v, (Address){.block = block});
            return;
        }
    }
    bool fixed = constant || op->kind == OP_input || op->kind == OP_scalar;
    if (constant || op->kind == OP_scalar)
        last = m->live.end - 1;
    memory_place_value(m, v, memory_new_block(m, v, fixed ? 0 : time, last));
}

void memory_place_prefetched(Memory *m, Op *op)
{
    for (int i = 0; i < op->nouts; i++) {
        Value *v = op->out[i];
        if (memory_place_gathered(m, v))
            continue;
        if (m->is_bound[v->id])
            memory_place_value(m, v, m->bound[v->id]);
        else
            memory_place_slots(m, v, issue_gather_slots(op));
    }
}

void memory_place_producer(Memory *m, const Op *op)
{
    int distance = m->prefetch.distance[op->id];
    for (int i = 0; i < op->nouts; i++)
        memory_place_slots(m, op->out[i], distance > 1 ? distance : 1);
}

void memory_place_workspace(Memory *m, Op *op)
{
    op->workspace = -1;
    int64_t bytes = m->t->workspace(m->p, op, m->t);
    if (bytes <= 0)
        return;
    const char *name = op->nouts ? op->out[0]->name : op_info(op->kind)->name;
    int time = m->live.begin[op->id];
    op->workspace =
        memory_add_block(m, name, MEM_WORKSPACE, bytes, time, time);
}
