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
 * A tensor that only one coordinate has is in a block of this stage. Of a stack
 * that is cut into stages, each uses as many rows as it has layers.
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
    int64_t **buffers;    /* by block: that each stage needs; NULL: ops of one
                           * moment only access it */
    int64_t *most;        /* by block: the largest of them */
} StagedMemory;

static void note(StagedMemory *s, const Value *v, Moment at)
{
    if (!v->address || v->address->block < 0)
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
    bool receives = op->kind == OP_receive && at != MOMENT_FORWARD &&
                    at != MOMENT_BACKWARD;
    if (at == MOMENTS)
        return;
    for (int i = 0; i < op->nargs && !receives; i++)
        note(s, op->arg[i], at);
    for (int i = 0; i < op->nouts; i++)
        note(s, op->out[i], at);
}

/* Whether the loop's body makes all that the block holds. */
static bool is_inside(const StagedMemory *s, int block)
{
    const Block *b = &s->m->block.at[block];
    return b->first > s->m->live.begin[s->loop->id] &&
           b->last <= s->m->live.finish[s->loop->id];
}

/* Counts the buffers that the stage needs; at least one of each. */
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
        if (s->first[b] >= s->last[b] || !is_inside(s, b))
            continue;
        int64_t need = staged_buffers(&s->t, s->stage, s->first[b], s->last[b]);
        if (!s->buffers[b])
            s->buffers[b] = NEW_ARRAY(s->m->p->arena, int64_t, s->t.nstages);
        s->buffers[b][s->stage] = need;
        s->most[b] = need > s->most[b] ? need : s->most[b];
    }
}

/* The bytes of the buffers of each stage, one at least: what ops of one moment only
 * access. NULL: those of all stages are equal. */
static const int64_t *bytes_on(StagedMemory *s, int block)
{
    int64_t *on = NEW_ARRAY(s->m->p->arena, int64_t, s->t.nstages);
    bool equal = true;
    for (int i = 0; i < s->t.nstages; i++) {
        int64_t *n = &s->buffers[block][i];
        *n = *n ? *n : 1;
        on[i] = *n * s->bytes[block];
        equal &= *n == s->most[block];
    }
    return equal ? NULL : on;
}

static void resize_blocks(StagedMemory *s)
{
    for (int i = 0; i < s->m->block.n; i++) {
        Block *b = &s->m->block.at[i];
        s->bytes[i] = b->bytes;
        if (!s->buffers[i])
            continue;
        b->on = bytes_on(s, i);
        b->bytes *= s->most[i];
        b->counted *= s->most[i];
        b->first = s->m->live.begin[s->loop->id];
        b->last = s->m->live.finish[s->loop->id];
    }
}

/* The number of the rotation with the block's buffers; 0: all stages have as many.
 */
static int number_rotation(StagedMemory *s, int block)
{
    MemoryPlan *plan = s->m->plan;
    const int64_t *buffers = s->buffers[block];
    size_t size = sizeof *buffers * (size_t)s->t.nstages;
    if (!s->m->block.at[block].on)
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
    if (!v->address || v->address->block < 0 || s->most[v->address->block] < 2)
        return;
    Address at = *v->address;
    if (at.nstrides == MAX_LOOP_DEPTH) {
        ir_too_deep(s->m->p, s->loop->loc);
        return;
    }
    at.loop[at.nstrides] = s->loop;
    at.stride[at.nstrides] = s->bytes[at.block];
    at.modulo[at.nstrides++] = s->most[at.block];
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

void memory_stage(Memory *m, const Op *loop)
{
    Arena *a = m->p->arena;
    StagedMemory s = {.m = m, .loop = loop,
                      .t = staged_timetable(m->p, loop),
                      .first = NEW_ARRAY(a, Moment, m->block.n),
                      .last = NEW_ARRAY(a, Moment, m->block.n),
                      .bytes = NEW_ARRAY(a, int64_t, m->block.n),
                      .buffers = NEW_ARRAY(a, int64_t *, m->block.n),
                      .most = NEW_ARRAY(a, int64_t, m->block.n)};
    for (s.stage = 0; s.stage < s.t.nstages; s.stage++)
        count_on_stage(&s);
    resize_blocks(&s);
    rotate_region(&s, loop->body);
}

/* ---- blocks of one stage ------------------------------------------------- */

enum { UNUSED = -1 };

/* A block that values of several stages, or of all ranks, use has stage 0. */
static void use_on(int *stage, int block, int on)
{
    if (block < 0)
        return;
    bool other = stage[block] != UNUSED && stage[block] != on;
    stage[block] = other ? 0 : on;
}

static void use_value(Memory *m, int *stage, const Value *v)
{
    if (v->address)
        use_on(stage, v->address->block, value_stage(m->p, v) + 1);
}

static void use_region(Memory *m, int *stage, const Region *r)
{
    for (int i = 0; i < r->nargs; i++)
        use_value(m, stage, r->arg[i]);
    for (const Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nouts; i++)
            use_value(m, stage, op->out[i]);
        use_on(stage, op->workspace, op_stage(m->p, op) + 1);
        if (op->kind == OP_loop)
            use_region(m, stage, op->body);
    }
}

void memory_set_stages(Memory *m)
{
    if (pipeline_axis(m->p) < 0)
        return;
    int *stage = NEW_ARRAY(m->p->arena, int, m->block.n);
    for (int i = 0; i < m->block.n; i++)
        stage[i] = UNUSED;
    use_region(m, stage, m->p->step);
    for (int i = 0; i < m->block.n; i++) {
        Block *b = &m->block.at[i];
        b->stage = stage[i] == UNUSED ? 0 : stage[i];
        if (b->training)
            b->stage = m->p->training->memory->block[b->training - 1].stage;
    }
}
