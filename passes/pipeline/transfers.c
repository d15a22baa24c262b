/* transfers.c: makes explicit what stages send each other in a loop.
 *
 * requires: STAGE_FUSED; the pass `stages` has placed all values
 * ensures:  what a carry of a loop with a cut begins with is the result of a
 *           `receive`, and its result is the operand of a `send`
 *
 * before   %h.2 = loop{n=4, reverse=false} : f32[8, 64]@pp=1 forward cut=1 {
 *            carry %x = %h : f32[8, 64]@pp
 *            …
 * after    %h.3 = receive{axes={pp}, reverse=false} %h : f32[8, 64]@pp=0 cut=1
 *          %h.2 = loop{n=4, reverse=false} : f32[8, 64]@pp=1 forward cut=1 {
 *            carry %x = %h.3 : f32[8, 64]@pp
 *            …
 *          %h.4 = send{axes={pp}, reverse=false} %h.2 : f32[8, 64]@pp=1 cut=1
 *
 * If all that the stages exchange for a microbatch are the carries of one loop
 * forward and of one backward, the loop over the microbatches is `staged`: its
 * forward ops precede the others, and the stages overlap. Otherwise the stages run
 * each microbatch one after another.
 *
 * Every rank has a buffer for the carry. On the first stage `receive` does
 * nothing, nor does `send` on the last one, if the result has the operand's
 * memory. Sums that each stage adds its part to stay where they are.
 */
#include <string.h>

#include "base/bug.h"
#include "ir/plan/pipeline.h"
#include "passes/pass.h"
#include "passes/pipeline/staged_loop.h"

typedef struct Transfers {
    Program *p;
    int axis; /* of the pipeline */
} Transfers;

/* An op of the kind on n values, before `before`. */
static Op *transfer(const Transfers *t, OpKind kind, const Op *loop, int n,
                    Value *const *values, Op *before)
{
    Program *p = t->p;
    Build b = {p, loop->region, before, loop->phase, loop->loc, loop->path};
    Attr attr[MAX_ATTRS] = {{.i = 1u << t->axis}, {.i = attr_reverse(loop)}};
    Type *type = NEW_ARRAY(p->arena, Type, n);
    const char **name = NEW_ARRAY(p->arena, const char *, n);
    for (int i = 0; i < n; i++) {
        type[i] = values[i]->type;
        name[i] = values[i]->name;
    }
    Op *op = ir_op_typed(&b, kind, n, values, attr, n, type, name);
    op->cut = loop->cut;
    op->why = why_is(kind == OP_send ? "the next stage continues the loop"
                                     : "the stage before has begun the loop",
                     p->plan.pipeline.loc);
    op->why.origin = ORIGIN_PIPELINE;
    for (int i = 0; i < n; i++)
        memcpy(op->out[i]->why, values[i]->why, sizeof values[i]->why);
    return op;
}

static void add_transfers(const Transfers *t, Op *loop)
{
    Arena *a = t->p->arena;
    int *carry = NEW_ARRAY(a, int, loop->ncarry), n = 0;
    Value **start = NEW_ARRAY(a, Value *, loop->ncarry);
    Value **end = NEW_ARRAY(a, Value *, loop->ncarry);
    for (int i = 0; i < loop->ncarry; i++) {
        if (loop->body->arg[i]->type.place.ax[t->axis].kind != AX_HERE)
            continue;
        start[n] = loop->arg[i];
        end[n] = loop->out[i];
        carry[n++] = i;
    }
    if (!n)
        return;
    Op *receive = transfer(t, OP_receive, loop, n, start, loop);
    Op *send = transfer(t, OP_send, loop, n, end, loop->next);
    for (int i = 0; i < n; i++) {
        loop->arg[carry[i]] = receive->out[i];
        ir_replace_uses(loop->region, end[i], send->out[i]);
        send->arg[i] = end[i];
    }
}

/* ---- microbatches -------------------------------------------------------- */

/* Whether each stage runs iterations of a loop with the cut. */
static bool is_on_all_stages(const Mesh *m, int cut)
{
    const StageCut *c = &m->cut[cut - 1];
    bool all = true;
    for (int s = 0; s < c->nstages; s++)
        all &= c->begin[s + 1] > c->begin[s];
    return all;
}

/* Whether the body has one loop forward over all stages and one backward, and no
 * other op that stages communicate in. */
static bool fits_timetable(const Transfers *t, const Op *loop)
{
    int sends[2] = {0, 0};
    for (const Op *op = NULL; (op = ir_next(loop->body, op));) {
        bool between = op_is_collective(op->kind) &&
                       (attr_axes(op) >> t->axis & 1);
        if (!between || op->kind == OP_receive)
            continue;
        if (op->kind != OP_send) {
            AxisPlace from = op->arg[0]->type.place.ax[t->axis];
            if (op->kind == OP_move && from.kind == AX_R)
                continue;
            return false;
        }
        if (!is_on_all_stages(&t->p->mesh, op->cut) ||
            attr_reverse(op) != (op->phase == PH_BACKWARD))
            return false;
        sends[op->phase == PH_BACKWARD]++;
    }
    return sends[0] == 1 && sends[1] == 1;
}

static void stage_loops(const Transfers *t)
{
    PipelineSchedule schedule = t->p->plan.pipeline.schedule;
    if (schedule != PIPELINE_GPIPE && schedule != PIPELINE_1F1B)
        return;
    for (Op *op = t->p->step->first; op; op = op->next) {
        if (!loop_is_microbatches(t->p, op) || !fits_timetable(t, op))
            continue;
        op->staged = true;
        Timetable order = staged_timetable(t->p, op);
        const char *fault = timetable_fault(t->p->arena, &order);
        if (fault)
            bug("transfers: %s", fault);
    }
}

static void refuse(Program *p, const char *what)
{
    diag_error(p->diag, p->plan.pipeline.loc, "%s cannot be built yet", what);
    diag_help(p->diag, "--stop-after=fuse --emit ir shows the stages");
}

void pass_transfers(Program *p, const TargetInfo *target)
{
    Transfers t = {.p = p, .axis = pipeline_axis(p)};
    if (t.axis < 0)
        return;
    (void)target;
    if (pipeline_stages_per_rank(&p->plan.pipeline) > 1) {
        refuse(p, "pipelines with several stages on a rank");
        return;
    }
    VEC(Op *) loops = {0};
    for_ops(op, p->step)
        if (op->kind == OP_loop && op->cut)
            vec_push(p->arena, &loops, op);
    for (int i = 0; i < loops.n; i++)
        add_transfers(&t, loops.at[i]);
    stage_loops(&t);
}
