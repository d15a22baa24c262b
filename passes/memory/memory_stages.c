/* memory_stages.c: gives tensors of a staged loop a buffer for each microbatch that
 * is in flight (passes/pipeline/staged_loop.h), and finds what each stage uses of
 * the blocks.
 *
 * before   in loop %micro, which four stages run in the order of 1F1B
 *            %h, %saved = … forward, %g = … %saved backward: %saved is at AT_saved
 * after    %saved is at AT_saved + micro % buffers[stage] * bytes, where buffers
 *          is [4, 3, 2, 1], in a block of four times the size that lives as long
 *          as the loop. Of it, stage 3 uses the first fourth
 *
 * What one moment of a microbatch writes and reads alone lives as before: no other
 * microbatch runs meanwhile.
 *
 * Several stages of a rank have buffers of their own, one after another:
 *
 *   stages 0 and 2 on a rank, buffers [3, 2, 2, 1]
 *   stage 2, microbatch i is at AT_saved + (3 + i % 2) * bytes
 *
 * A tensor that the ranks at one coordinate have is in a block of this coordinate.
 *
 * A side program has no staged loop. A rank that has several stages runs its ops for
 * one stage after another: what it transfers, and its inputs, live for all that time.
 */
#include "ir/plan/pipeline.h"
#include "passes/memory/memory.h"
#include "passes/pipeline/staged_loop.h"

#include <string.h>

typedef struct StagedMemory {
    Memory *m;
    const Op *loop;
    Timetable t;
    int stage;            /* the one whose moments are noted */
    Moment *first, *last; /* by block: the stage's moments whose ops access it;
                           * first > last: none */
    int64_t *bytes;       /* by block: of one buffer */
    int64_t **buffers;    /* by block: that each stage needs */
    bool *several;        /* by block: ops of several moments access it */
} StagedMemory;

static void note(StagedMemory *s, const Op *op, const Value *v, Moment at)
{
    int stage = value_stage(s->m->p, v);
    bool elsewhere = stage >= 0 && stage != s->stage && !op->cut;
    if (!v->address || v->address->block < 0 || elsewhere)
        return;
    int b = v->address->block;
    if (s->first[b] > at)
        s->first[b] = at;
    if (s->last[b] < at)
        s->last[b] = at;
}

static void note_op(StagedMemory *s, const Op *op)
{
    Moment at = staged_moment_on(s->m->p, s->loop, op, s->stage);
    if (at == MOMENTS)
        return;
    for (int i = 0; i < op->nargs && !moment_receives(op, at); i++)
        note(s, op, op->arg[i], at);
    for (int i = 0; i < op->nouts && !moment_sends(op, at); i++)
        note(s, op, op->out[i], at);
}

/* Whether the loop's body makes all that the block holds. */
static bool is_inside(const StagedMemory *s, int block)
{
    const Block *b = &s->m->block.at[block];
    return b->first > s->m->live.begin[s->loop->id] &&
           b->last <= s->m->live.finish[s->loop->id];
}

/* Counts the buffers that the stage needs: one of what one moment only accesses. */
static void count_on_stage(StagedMemory *s)
{
    int n = s->m->block.n;
    for (int b = 0; b < n; b++) {
        s->first[b] = MOMENTS;
        s->last[b] = MOMENT_RECEIVE;
    }
    for (const Op *op = NULL; (op = ir_next(s->loop->body, op));)
        note_op(s, op);
    for (int b = 0; b < n; b++) {
        bool several = s->first[b] < s->last[b] && is_inside(s, b);
        bool any = s->first[b] <= s->last[b];
        s->several[b] |= several;
        s->buffers[b][s->stage] =
            several ? staged_buffers(&s->t, s->stage, s->first[b], s->last[b]) : any;
    }
}

/* The most buffers that one stage has. */
static int64_t most_on_stage(const StagedMemory *s, int block)
{
    int64_t most = 0;
    for (int i = 0; i < s->t.nstages; i++)
        most = s->buffers[block][i] > most ? s->buffers[block][i] : most;
    return most;
}

/* Those of all stages of a rank. */
static int64_t buffers_at(const StagedMemory *s, int block, int coordinate)
{
    int64_t n = 0;
    for (int i = coordinate; i < s->t.nstages; i += s->t.nranks)
        n += s->buffers[block][i];
    return n;
}

static bool rotates(const StagedMemory *s, int block)
{
    int64_t most = 0;
    for (int c = 0; c < s->t.nranks && s->several[block]; c++)
        most = buffers_at(s, block, c) > most ? buffers_at(s, block, c) : most;
    return most > 1;
}

/* Gives the block the buffers of the ranks that have the most, and others a part of
 * it. */
static void resize_block(StagedMemory *s, int block)
{
    Block *b = &s->m->block.at[block];
    int64_t *on = NEW_ARRAY(s->m->p->arena, int64_t, s->t.nranks), most = 0;
    bool equal = true;
    for (int c = 0; c < s->t.nranks; c++) {
        on[c] = buffers_at(s, block, c) * s->bytes[block];
        equal &= on[c] == on[0];
        most = on[c] > most ? on[c] : most;
    }
    b->on = equal || !rotates(s, block) ? NULL : on;
    b->counted = b->counted == 0 ? 0 : most / (b->bytes / b->counted);
    b->bytes = most;
    b->first = s->m->live.begin[s->loop->id];
    b->last = s->m->live.finish[s->loop->id];
}

/* The number of the rotation with the block's buffers; 0: all stages have as many, and
 * each is on a rank of its own. */
static int number_rotation(StagedMemory *s, int block)
{
    MemoryPlan *plan = s->m->plan;
    const int64_t *buffers = s->buffers[block];
    size_t size = sizeof *buffers * (size_t)s->t.nstages;
    if (!s->m->block.at[block].on && s->t.nstages == s->t.nranks)
        return 0;
    for (int i = 0; i < plan->nrotations; i++)
        if (!memcmp(plan->rotation[i].buffers, buffers, size))
            return i + 1;
    vec_push(s->m->p->arena, &s->m->rotation, ((Rotation){buffers}));
    plan->rotation = s->m->rotation.at;
    return plan->nrotations = s->m->rotation.n;
}

static void rotate(StagedMemory *s, Value *v)
{
    if (!v->address || v->address->block < 0 || !rotates(s, v->address->block))
        return;
    Address at = *v->address;
    if (at.nstrides == MAX_LOOP_DEPTH) {
        ir_too_deep(s->m->p, s->loop->loc);
        return;
    }
    at.loop[at.nstrides] = s->loop;
    at.stride[at.nstrides] = s->bytes[at.block];
    at.modulo[at.nstrides++] = most_on_stage(s, at.block);
    at.rotation = number_rotation(s, at.block);
    memory_place_value(s->m, v, at);
}

static void rotate_region(StagedMemory *s, const Region *r)
{
    for (int i = 0; i < r->nargs; i++)
        rotate(s, r->arg[i]);
    for (const Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nouts; i++)
            rotate(s, op->out[i]);
        if (op->kind == OP_loop)
            rotate_region(s, op->body);
    }
}

/* ---- the size of a buffer ------------------------------------------------- */

/* The bytes of v on one stage. */
static int64_t stage_bytes(const Memory *m, const Value *v)
{
    const Program *p = m->p;
    int64_t bytes = type_local_bytes(&v->type, &p->mesh);
    int cut = type_cut(&v->type);
    if (cut)
        bytes = bytes / cut_most(&p->mesh, cut, pipeline_axis(p)) *
                stage_most_rows(p, cut);
    return memory_align(m, bytes);
}

static void grow_buffers(StagedMemory *s, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nouts; i++) {
            const Address *at = op->out[i]->address;
            if (!at || at->block < 0 || op->kind == OP_param)
                continue;
            int64_t bytes = stage_bytes(s->m, op->out[i]);
            s->bytes[at->block] =
                bytes > s->bytes[at->block] ? bytes : s->bytes[at->block];
        }
        if (op->kind == OP_loop)
            grow_buffers(s, op->body);
    }
}

/* A buffer has the rows of one stage; the block was made for those of a rank. */
static void size_buffers(StagedMemory *s)
{
    if (s->t.nstages > s->t.nranks)
        grow_buffers(s, s->loop->body);
    for (int b = 0; b < s->m->block.n; b++)
        if (s->t.nstages == s->t.nranks || s->bytes[b] > s->m->block.at[b].bytes)
            s->bytes[b] = s->m->block.at[b].bytes;
}

void memory_stage(Memory *m, const Op *loop)
{
    Arena *a = m->p->arena;
    int n = m->block.n;
    StagedMemory s = {.m = m, .loop = loop,
                      .t = staged_timetable(m->p, loop),
                      .first = NEW_ARRAY(a, Moment, n),
                      .last = NEW_ARRAY(a, Moment, n),
                      .bytes = NEW_ARRAY(a, int64_t, n),
                      .buffers = NEW_ARRAY(a, int64_t *, n),
                      .several = NEW_ARRAY(a, bool, n)};
    for (int b = 0; b < n; b++)
        s.buffers[b] = NEW_ARRAY(a, int64_t, s.t.nstages);
    for (s.stage = 0; s.stage < s.t.nstages; s.stage++)
        count_on_stage(&s);
    size_buffers(&s);
    for (int b = 0; b < n; b++)
        if (s.several[b])
            resize_block(&s, b);
    rotate_region(&s, loop->body);
}

/* ---- side programs ---------------------------------------------------- */

static void keep_block(Memory *m, const Value *v, int first, int last)
{
    if (!v->address || v->address->block < 0)
        return;
    Block *b = &m->block.at[v->address->block];
    b->first = first < b->first ? first : b->first;
    b->last = last > b->last ? last : b->last;
}

void memory_keep_for_stages(Memory *m)
{
    const Region *r = pipeline_forward_region(m->p);
    int first = r->owner ? m->live.begin[r->owner->id] : 0;
    int last = r->owner ? m->live.finish[r->owner->id] : m->live.end - 1;
    for (const Op *op = r->first; op; op = op->next) {
        bool keeps = op_transfers(op) || op->kind == OP_input;
        for (int i = 0; i < op->nargs && keeps; i++)
            keep_block(m, op->arg[i], first, last);
        for (int i = 0; i < op->nouts && keeps; i++)
            keep_block(m, op->out[i], first, last);
    }
}

/* ---- blocks of one coordinate -------------------------------------------- */

enum { UNUSED = -1 };

/* A block that values of several coordinates, or of all ranks, use has number 0. */
static void use_on(int *coordinate, int block, int on)
{
    if (block < 0)
        return;
    bool other = coordinate[block] != UNUSED && coordinate[block] != on;
    coordinate[block] = other ? 0 : on;
}

/* The number of the coordinate that runs the stage. */
static int number_of(const Memory *m, int stage)
{
    return stage < 0 ? 0 : coordinate_of(m->p, stage) + 1;
}

static void use_value(Memory *m, int *coordinate, const Value *v)
{
    if (v->address)
        use_on(coordinate, v->address->block, number_of(m, value_stage(m->p, v)));
}

static void use_region(Memory *m, int *coordinate, const Region *r)
{
    for (int i = 0; i < r->nargs; i++)
        use_value(m, coordinate, r->arg[i]);
    for (const Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nouts; i++)
            use_value(m, coordinate, op->out[i]);
        use_on(coordinate, op->workspace, number_of(m, op_stage(m->p, op)));
        if (op->kind == OP_loop)
            use_region(m, coordinate, op->body);
    }
}

void memory_set_coordinates(Memory *m)
{
    if (pipeline_axis(m->p) < 0)
        return;
    int *coordinate = NEW_ARRAY(m->p->arena, int, m->block.n);
    for (int i = 0; i < m->block.n; i++)
        coordinate[i] = UNUSED;
    use_region(m, coordinate, m->p->step);
    for (int i = 0; i < m->block.n; i++) {
        Block *b = &m->block.at[i];
        b->coordinate = coordinate[i] == UNUSED ? 0 : coordinate[i];
        if (b->training)
            b->coordinate =
                m->p->training->memory->block[b->training - 1].coordinate;
    }
}
