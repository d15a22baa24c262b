/* pipeline.c: finds the loop that the stages of a pipeline run, and the stage of
 * an op. */
#include "ir/plan/pipeline.h"

int pipeline_stage_count(const Program *p)
{
    int axis = pipeline_axis(p);
    /* Those of a rank could not overlap with one microbatch. */
    const Program *t = p->training ? p->training : p;
    int64_t each = t->train.accumulate > 1
                       ? pipeline_stages_per_rank(&p->plan.pipeline)
                       : 1;
    return axis < 0 ? 0 : (int)(p->mesh.size[axis] * each);
}

int pipeline_ranks(const Program *p)
{
    int axis = pipeline_axis(p);
    return axis < 0 ? 0 : (int)p->mesh.size[axis];
}

int64_t stage_rows(const Program *p, int cut, int stage)
{
    const StageCut *c = &p->mesh.cut[cut - 1];
    return c->begin[stage + 1] - c->begin[stage];
}

int64_t rank_rows(const Program *p, int cut, int coordinate)
{
    int64_t rows = 0;
    for (int s = coordinate; s < pipeline_stage_count(p); s += pipeline_ranks(p))
        rows += stage_rows(p, cut, s);
    return rows;
}

int64_t coordinate_elements(const Program *p, const Type *t, int coordinate)
{
    int axis = pipeline_axis(p);
    int64_t n = type_local_elements(t, &p->mesh);
    if (axis < 0)
        return n;
    const AxisPlace *at = &t->place.ax[axis];
    if (at->kind == AX_AT)
        return coordinate_of(p, at->dim) == coordinate ? n : 0;
    int cut = type_cut(t);
    return cut ? n / cut_most(&p->mesh, cut, axis) * rank_rows(p, cut, coordinate) : n;
}

bool op_follows_rows(const Op *op)
{
    return op->kind == OP_param || op->kind == OP_assign || op->kind == OP_loop ||
           op->kind == OP_zeros || op->kind == OP_all_gather ||
           op->kind == OP_reduce_scatter || op->kind == OP_all_reduce ||
           (op->kind == OP_local_slice &&
            type_cut(&op->out[0]->type) != type_cut(&op->arg[0]->type));
}

int64_t stage_row(const Program *p, int cut, int stage)
{
    int ranks = pipeline_ranks(p);
    int64_t row = 0;
    for (int s = stage % ranks; s < stage; s += ranks)
        row += stage_rows(p, cut, s);
    return row;
}

int64_t rotation_first(const Program *p, int rotation, int stage)
{
    int ranks = pipeline_ranks(p);
    int64_t first = 0;
    for (int s = stage % ranks; rotation && s < stage; s += ranks)
        first += p->memory->rotation[rotation - 1].buffers[s];
    return first;
}

int64_t rotation_modulo(const Program *p, int rotation, int stage)
{
    int64_t buffers = p->memory->rotation[rotation - 1].buffers[stage];
    return buffers > 0 ? buffers : 1;
}

int64_t stage_buffer(const Program *p, const Address *at, int stage, int64_t micro)
{
    int64_t modulo = 0;
    for (int i = 0; i < at->nstrides; i++)
        if (at->loop[i]->staged)
            modulo = address_modulo(p->memory, at, i, stage);
    return modulo > 0 ? rotation_first(p, at->rotation, stage) + micro % modulo : 0;
}

int64_t stage_most_rows(const Program *p, int cut)
{
    int64_t most = 0;
    for (int s = 0; s < pipeline_stage_count(p); s++)
        most = stage_rows(p, cut, s) > most ? stage_rows(p, cut, s) : most;
    return most;
}

bool transfer_is_at_end(const Program *p, const Op *op, int stage)
{
    bool first = attr_reverse(op) == (op->kind == OP_send);
    int next = stage + (first ? -1 : 1);
    return next < 0 || next == pipeline_stage_count(p) ||
           !stage_rows(p, op->cut, next);
}

/* How often the stage sends or receives where the op is. */
static int stage_transfers(const Program *p, const Op *op, int stage, bool sends)
{
    if (op->kind == OP_move)
        return (value_stage(p, op->arg[0]) == stage) +
               (!sends && value_stage(p, op->out[0]) == stage);
    return !(sends && op->kind == OP_receive) && stage_rows(p, op->cut, stage) > 0 &&
           !transfer_is_at_end(p, op, stage);
}

int64_t op_coordinate_count(const Program *p, const Op *op, int coordinate, bool sends)
{
    int64_t n = 1;
    int stage = op_transfers(op) ? -1 : op_stage(p, op);
    for (const Op *loop = op_loop(op); loop; loop = op_loop(loop)) {
        bool cut = loop->cut && pipeline_axis(p) >= 0;
        n *= cut ? rank_rows(p, loop->cut, coordinate) : loop_rank_trips(p, loop);
    }
    if (op_transfers(op)) {
        int64_t each = 0;
        for (int s = coordinate; s < pipeline_stage_count(p); s += pipeline_ranks(p))
            each += stage_transfers(p, op, s, sends);
        return n * each;
    }
    return stage < 0 || coordinate_of(p, stage) == coordinate ? n : 0;
}

const Op *pipeline_loop(const Program *p)
{
    const Op *op = p->step->first;
    while (op && !op->staged)
        op = op->next;
    return op;
}

static bool has_transfers(const Region *r)
{
    const Op *op = r->first;
    while (op && !op_transfers(op))
        op = op->next;
    return op;
}

Region *pipeline_forward_region(const Program *p)
{
    for (Op *op = p->step->first; op; op = op->next)
        if (loop_is_microbatches(p, op) && has_transfers(op->body))
            return op->body;
    return p->step;
}

bool op_transfers(const Op *op)
{
    const AxisPlace *ax = op->nargs ? op->arg[0]->type.place.ax : NULL;
    bool held = false;
    for (int a = 0; op->kind == OP_move && a < MAX_AXES; a++)
        held |= (attr_axes(op) >> a & 1) && ax[a].kind == AX_AT;
    return op->kind == OP_receive || op->kind == OP_send || held;
}

const Op *transfer_at(const Op *op)
{
    bool before = op->kind == OP_await;
    while (op && !op_transfers(op))
        op = before ? op->next : op->prev;
    return op;
}

int value_stage(const Program *p, const Value *v)
{
    int axis = pipeline_axis(p);
    if (axis < 0 || v->type.place.ax[axis].kind != AX_AT)
        return -1;
    return v->type.place.ax[axis].dim;
}

int64_t loop_least_trips(const Program *p, const Op *loop)
{
    int64_t least = loop->rounds ? 1 : loop_trips(loop);
    const Op *around = op_loop(loop);
    int nstages = pipeline_stage_count(p), ranks = pipeline_ranks(p);
    bool alone = (around && around->staged) || !program_trains(p);
    for (int k = 0; loop->cut && k < (alone ? nstages : ranks); k++) {
        int64_t n = alone ? stage_rows(p, loop->cut, k) : rank_rows(p, loop->cut, k);
        least = n < least ? n : least;
    }
    return least;
}

/* The stage that runs all ops of a loop. */
static int loop_stage(const Program *p, const Op *loop)
{
    int found = -1;
    bool any = false;
    for (const Op *op = loop->body->first; op; op = op->next) {
        if (op_is_schedule(op->kind))
            continue;
        int stage = op_stage(p, op);
        if (stage < 0 || (any && stage != found))
            return -1;
        found = stage;
        any = true;
    }
    return found;
}

int op_stage(const Program *p, const Op *op)
{
    if (pipeline_axis(p) < 0)
        return -1;
    if (op->kind == OP_loop)
        return loop_stage(p, op);
    if (op->kind == OP_barrier)
        return op_stage(p, attr_op(op));
    if (op_is_hand_over(op->kind) && value_stage(p, op->arg[0]) >= 0)
        return -1;
    return op->nouts   ? value_stage(p, op->out[0])
           : op->nargs ? value_stage(p, op->arg[0])
                       : -1;
}
