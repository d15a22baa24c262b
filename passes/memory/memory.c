/* memory.c: assigns every tensor a block of memory, and every block an offset
 * in one arena.
 *
 * requires: STAGE_FUSED, scheduled: copies exist where a loop could not write a
 *           yield in place (schedule.c)
 * ensures:  Program.memory: every value outside of fused ops has an address;
 *           blocks that are live at the same time do not overlap
 *
 * before   %h = copy %in : f32[8, 64] forward
 *          %r, %s = loop{n=4, …} : f32[8, 64], f32[4 x 8, 64] forward {
 *            carry %x = %h : f32[8, 64]
 *            %y, %z = fused{…} : f32[8, 64], f32[8, 64] forward { … }
 *            yield %y, %z
 *          }
 * after    %in, %h, %x, %y and %r share one block; %z is slice `layer` of %s's
 *          block; in train.c:
 *            float *x = (float *)(A + AT_in);
 *            float *y = (float *)(A + AT_in);
 *            float *z = (float *)(A + AT_s + layer * 2048);
 *
 * These values share a block: a view and its operand; a loop's carry, its
 * start, its next value and its result; a parameter, its assigned value and, if
 * it stays gathered, its gathered value; a result and an operand whose live
 * range ends at the op, where the target allows it (so that gradients are
 * accumulated in their stack). Every other value gets a block of its own, and
 * blocks whose live ranges are disjoint may share addresses. A prefetched
 * `fetch` has one buffer per iteration in flight; the new value of the fetched
 * tensor is computed in that buffer, from which `store` copies it. Addresses in
 * host memory, of offloaded tensors, begin where the arena ends. With more than
 * one stream, tensors that a collective accesses live until the compute stream
 * has waited for it (memory_streams.c).
 */
#include "passes/memory/memory.h"
#include "ir/plan/pipeline.h"
#include "ir/plan/ranges.h"
#include "passes/side_program.h"

#include <limits.h>
#include <string.h>

/* ---- persistent values --------------------------------------------------- */

static void bind(Memory *m, Value *v, Address at)
{
    Value *root = value_root(v);
    m->bound[root->id] = at;
    m->is_bound[root->id] = true;
}

/* The address of a parameter's shard that stays gathered: the rank's run in
 * each full layer. */
static Address gathered_address(const Memory *m, const Type *t)
{
    const Mesh *mesh = &m->p->mesh;
    Address at = {.run = type_flat_run(t, mesh) * dtype_size(t->dtype),
                  .row = type_flat_row(t, mesh) * dtype_size(t->dtype)};
    for (int a = 0; a < mesh->n; a++)
        if (t->place.ax[a].kind == AX_FLAT)
            at.cut |= 1u << a;
    return at;
}

/* Makes the block hold all ranks' runs, of which each rank counts its own: as
 * many bytes as if the runs were not contiguous. */
static void share_block(const Memory *m, Block *b, const Address *at,
                        int64_t bytes)
{
    int64_t ranks = at->row / at->run;
    b->shared = at->cut;
    b->counted = memory_align(m, bytes / ranks);
    b->bytes = b->counted * ranks;
}

static Address place_param(Memory *m, const Param *pm)
{
    Address at = {0};
    MemoryClass class = memory_class_of_param(pm);
    int64_t bytes = type_local_bytes(&pm->type, &m->p->mesh);
    if (pm->gathered) {
        at = gathered_address(m, &pm->type);
        bytes = type_local_layers(&pm->type, &m->p->mesh) * at.row;
    }
    at.block = memory_add_block(m, pm->name, class, bytes, 0, m->live.end - 1);
    Block *block = &m->block.at[at.block];
    const Param *of = side_param(m->p, pm);
    /* The first blocks are those of the parameters. */
    if (of)
        block->training = (int)(of - m->p->training->param.at) + 1;
    if (pm->shared)
        share_block(m, block, &at, bytes);
    if (pm->host) {
        block->host = true;
        block->counted = 0;
    }
    return at;
}

static void place_params(Memory *m)
{
    Program *p = m->p;
    for (int i = 0; i < p->param.n; i++) {
        Param *pm = &p->param.at[i];
        Address at = place_param(m, pm);
        if (pm->value)
            memory_place_value(m, pm->value, at);
    }
    for (Op *op = p->step->first; op; op = op->next) {
        if (op->kind != OP_assign)
            continue;
        Param *pm = &p->param.at[attr_param(op)];
        bind(m, op->arg[0], *value_address(pm->value));
    }
}

/* ---- loops --------------------------------------------------------------- */

/* The address of a slice of `stack`, which is at `at`. The parts of a fold follow
 * each other within a layer, whatever the distance of two layers is. */
static Address slice_of(const Memory *m, Address at, const Op *loop,
                        Value *stack, const Value *slice)
{
    if (value_root(stack)->type.nstack == 0)
        at.row = 0;
    if (at.nstrides == MAX_LOOP_DEPTH)
        ir_too_deep(m->p, loop->loc);
    at.loop[at.nstrides] = loop;
    at.stride[at.nstrides] = at.row ? at.row * type_layers(&slice->type)
                                    : memory_local_bytes(m, slice);
    at.modulo[at.nstrides] = 0;
    at.nstrides++;
    return at;
}

/* An all-reduce that is written to a new block may run in place there: binds
 * its operand to the block too, if nothing else reads the operand. */
static void bind_operand(Memory *m, Value *v, Address at)
{
    v = value_root(v);
    const Op *sum = v->def;
    if (!sum || sum->kind != OP_all_reduce)
        return;
    Value *x = value_root(sum->arg[v->index]);
    bool own = x->def && x->def->region == sum->region && !m->is_bound[x->id] &&
               (x->def->kind != OP_loop || x->index >= x->def->ncarry);
    if (own && m->live.last_use[x->id] == m->live.begin[sum->id] &&
        x->def->kind != OP_all_gather && x->def->phase != PH_INIT &&
        memory_local_bytes(m, x) == memory_local_bytes(m, v) &&
        m->t->in_place(m->p, sum, v->index, v->index))
        bind(m, x, at);
}

static void place_region(Memory *m, Region *r);

static void place_loop(Memory *m, Op *loop)
{
    Region *body = loop->body;
    int begin = m->live.begin[loop->id];
    for (int i = 0; i < loop->nargs; i++) {
        Address at = *value_address(loop->arg[i]);
        if (loop_is_stack(loop, i))
            at = slice_of(m, at, loop, loop->arg[i], body->arg[i]);
        memory_place_value(m, body->arg[i], at);
    }
    for (int i = 0; i < loop->nouts; i++) {
        Value *result = loop->out[i];
        if (i < loop->ncarry) {
            Address at = *value_address(loop->arg[i]);
            memory_extend(m, at.block, begin, m->live.last_use[result->id]);
            memory_place_value(m, result, at);
            if (value_root(body->yield[i]) != body->arg[i])
                bind(m, body->yield[i], at);
            continue;
        }
        Address at;
        bool gathered = memory_place_gathered(m, result);
        bool fresh = !gathered && !m->is_bound[result->id];
        if (gathered)
            at = *value_address(result);
        else if (!fresh)
            at = m->bound[result->id];
        else
            at = memory_new_block(m, result, begin,
                                  m->live.last_use[result->id]);
        memory_place_value(m, result, at);
        at = slice_of(m, at, loop, result, body->yield[i]);
        bind(m, body->yield[i], at);
        if (fresh)
            bind_operand(m, body->yield[i], at);
    }
    place_region(m, body);
}

static void place_region(Memory *m, Region *r)
{
    for (Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop) {
            place_loop(m, op);
        } else if (op_is_view(op->kind)) {
            memory_place_value(m, op->out[0], *value_address(op->arg[0]));
        } else if (op->kind == OP_all_gather && attr_prefetch(op) > 0 &&
                   r->owner) {
            memory_place_prefetched(m, op);
        } else if (m->prefetch.gather[op->id] == op) {
            memory_place_slots(m, op->out[0],
                               issue_fetch_slots(&m->prefetch, op));
        } else if (m->prefetch.gather[op->id]) {
            memory_place_producer(m, op);
        } else if (op->kind != OP_param) {
            for (int i = 0; i < op->nouts; i++)
                memory_place_result(m, op, i);
        }
        memory_place_workspace(m, op);
    }
}

/* ---- streams ------------------------------------------------------------- */

static void hold_block(Memory *m, int block, Awaited until)
{
    if (block < 0)
        return;
    int first = until.loop ? m->live.begin[until.loop->id] : until.time;
    memory_extend(m, block, first, until.time);
}

/* Extends the live range of what another stream reads or writes until compute
 * has waited for it. */
static void hold_memory(Memory *m, Op *op)
{
    /* The reader of a fetched tensor waits for the fetch. A stored tensor's
     * memory is free after the store: later copies run on the same stream. */
    if (op->stream == STREAM_COMPUTE || op->stream == STREAM_HOST)
        return;
    Awaited until = memory_awaited(m->p, &m->live, &m->prefetch, op);
    for (int i = 0; i < op->nargs; i++)
        hold_block(m, value_address(op->arg[i])->block, until);
    for (int i = 0; i < op->nouts; i++)
        hold_block(m, value_address(op->out[i])->block, until);
    hold_block(m, op->workspace, until);
}

/* ---- the pass ------------------------------------------------------------ */

/* Records which results are in their operand's memory. */
static void set_in_place(Memory *m, Op *op)
{
    for (int i = 0; i < op->nouts; i++) {
        const Address *at = op->out[i]->address;
        if (!at || !place_is_operands(m->plan, op, i))
            continue;
        Address same = *at;
        same.in_place = true;
        memory_place_value(m, op->out[i], same);
    }
}

void memory_count(MemoryPlan *plan, int64_t *shares, int64_t *fixed)
{
    plan->lower_bound =
        arena_lower_bound(plan->block, plan->nblocks, plan->end, false,
                          &plan->peak_time, &plan->peak_coordinate);
    *shares = *fixed = 0;
    memset(plan->at_peak, 0, sizeof plan->at_peak);
    for (int i = 0; i < plan->nblocks; i++) {
        const Block *b = &plan->block[i];
        if (b->first <= plan->peak_time && plan->peak_time <= b->last)
            plan->at_peak[b->class] += block_counted_on(b, plan->peak_coordinate);
        *(b->shared ? shares : fixed) += b->shared || b->training ? b->counted : 0;
    }
}

int64_t memory_own_end(const MemoryPlan *plan, int64_t most)
{
    for (int i = 0; i < plan->nblocks; i++) {
        const Block *b = &plan->block[i];
        if (!b->shared && !b->host && most < b->offset + b->bytes)
            most = b->offset + b->bytes;
    }
    return most;
}

/* On a pipeline, what a rank allocates at the coordinate that needs the most; for a forward
 * program, the part that this one uses. */
static void set_peak(Program *p)
{
    int axis = pipeline_axis(p);
    if (axis < 0)
        return;
    p->memory->peak = 0;
    for (int i = 0; i < p->mesh.size[axis]; i++) {
        Ranges at = p->training ? program_ranges(p, i) : memory_ranges(p, i);
        int64_t bytes = memory_ranges_counted(p->memory, &at);
        p->memory->peak = bytes > p->memory->peak ? bytes : p->memory->peak;
    }
}

void memory_fit_arena(Program *t)
{
    Program *all[1 + PURPOSES] = {t};
    int n = 1;
    for (int k = 0; k < PURPOSES; k++)
        if (t->side[k] && t->side[k]->memory)
            all[n++] = t->side[k];
    int64_t most = 0;
    for (int i = 0; i < n; i++)
        most = memory_own_end(all[i]->memory, most);
    for (int i = 0; i < n; i++)
        memory_set_arena(all[i]->memory, t->memory, most);
    for (int i = 0; i < n; i++)
        set_peak(all[i]);
}

static void sum_up(Memory *m)
{
    MemoryPlan *plan = m->plan;
    const Program *t = m->p->training;
    int64_t shares, fixed, base = t ? t->memory->resident : 0;
    plan->block = m->block.at;
    plan->nblocks = m->block.n;
    plan->end = m->live.end;
    plan->alignment = m->t->alignment;
    plan->page = pipeline_axis(m->p) < 0 ? 0 : m->t->page;
    memory_count(plan, &shares, &fixed);
    int when, coordinate;
    int64_t whole = arena_lower_bound(plan->block, plan->nblocks, plan->end, true,
                                      &when, &coordinate);
    /* A side program uses the memory of the training step: no smaller size helps. */
    int64_t enough = t ? t->memory->own - base : 0;
    int64_t bound = whole - shares - fixed;
    plan->own = arena_pack(m->p->arena, plan->block, plan->nblocks,
                           t ? INT_MAX : plan->end, base,
                           bound > enough ? bound : enough, plan->page > 0,
                           &plan->resident);
    plan->lower_bound += base - fixed;
    plan->peak = plan->own + shares;
    m->p->memory = plan;
    memory_fit_arena(m->p->training ? m->p->training : m->p);
}

void pass_memory(Program *p, const TargetInfo *t)
{
    Memory m = {.p = p, .t = t, .plan = NEW(p->arena, MemoryPlan)};
    live_analyse(p, &m.live);
    m.prefetch = issue_prefetches(p, t);
    m.bound = NEW_ARRAY(p->arena, Address, p->nvalues);
    m.is_bound = NEW_ARRAY(p->arena, bool, p->nvalues);
    m.class = memory_classes(p);
    /* At most a block for each value, op and parameter. */
    m.pinned = NEW_ARRAY(p->arena, bool,
                         p->nvalues + p->nops + (uint32_t)p->param.n);
    side_follow(p);
    place_params(&m);
    for (int i = 0; i < m.block.n; i++)
        m.pinned[i] = true;
    place_region(&m, p->step);
    if (t->streams > 1)
        for_ops(op, p->step)
            hold_memory(&m, op);
    memory_extend_hoists(p, &m.live, &m.prefetch, m.plan, m.block.at,
                         m.block.n);
    if (pipeline_loop(p))
        memory_stage(&m, pipeline_loop(p));
    if (!program_trains(p) && rank_stages(p) > 1)
        memory_keep_for_stages(&m);
    memory_set_coordinates(&m);
    memory_limit_rows(&m);
    sum_up(&m);
    for_ops(op, p->step)
        set_in_place(&m, op);
    if (t->streams > 1)
        issue_order(p, &m.prefetch);
}
