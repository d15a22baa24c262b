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
 * If the stages send all tensors of a microbatch forward to later stages, and backward
 * to earlier ones, the loop over the microbatches is `staged`: its forward ops precede
 * the others, and the stages overlap. Each transfer is then to a neighbor, so a move
 * over several stages becomes several moves. Otherwise the stages run each microbatch
 * one after another.
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
#include "passes/pipeline/weights.h"

typedef struct Transfers {
    Program *p;
    int axis; /* of the pipeline */
} Transfers;

static const char *reason(bool sends, bool reverse)
{
    if (reverse)
        return sends ? "the stage before continues the loop"
                     : "the next stage has begun the loop";
    return sends ? "the next stage continues the loop"
                 : "the stage before has begun the loop";
}

/* An op of the kind on n values, before `before`. */
static Op *transfer(const Transfers *t, OpKind kind, const Op *loop, int n,
                    Value *const *values, Op *before)
{
    Program *p = t->p;
    Build b = {.p = p, .region = loop->region, .before = before, .phase = loop->phase,
               .loc = loop->loc, .path = loop->path};
    Attr attr[MAX_ATTRS] = {{.i = 1u << t->axis}, {.i = attr_reverse(loop)}};
    Type *type = NEW_ARRAY(p->arena, Type, n);
    const char **name = NEW_ARRAY(p->arena, const char *, n);
    for (int i = 0; i < n; i++) {
        type[i] = values[i]->type;
        name[i] = values[i]->name;
    }
    Op *op = ir_op_typed(&b, kind, n, values, attr, n, type, name);
    op->cut = loop->cut;
    op->why = why_is(reason(kind == OP_send, attr_reverse(loop)),
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

/* Whether consecutive stages run the iterations of a loop with the cut. */
static bool is_of_consecutive_stages(const Mesh *m, int cut)
{
    const StageCut *c = &m->cut[cut - 1];
    int first = cut_stage(m, cut, 0);
    int last = cut_stage(m, cut, c->begin[c->nstages] - 1);
    bool all = true;
    for (int s = first; s <= last; s++)
        all &= c->begin[s + 1] > c->begin[s];
    return all;
}

/* Whether what the op of the loop's body sends goes to later stages in the forward
 * pass, and to earlier ones in the backward pass. */
static bool follows_stages(const Transfers *t, const Op *loop, const Op *op)
{
    bool backward = op->phase == PH_BACKWARD;
    if (op->kind == OP_send)
        return is_of_consecutive_stages(&t->p->mesh, op->cut) &&
               attr_reverse(op) == backward;
    if (op->kind != OP_move || op->region != loop->body)
        return false;
    int from = value_stage(t->p, op->arg[0]), to = value_stage(t->p, op->out[0]);
    return backward ? to < from : to > from;
}

/* Whether the stages exchange tensors in the body that way, and no other. */
static bool fits_timetable(const Transfers *t, const Op *loop)
{
    bool any = false;
    for (const Op *op = NULL; (op = ir_next(loop->body, op));) {
        bool between = op_is_collective(op->kind) &&
                       (attr_axes(op) >> t->axis & 1);
        if (!between || op->kind == OP_receive ||
            (op->kind == OP_move && !op_transfers(op)))
            continue;
        if (!follows_stages(t, loop, op))
            return false;
        any = true;
    }
    return any;
}

/* Lets a move to another than the next stage pass through those between. */
static void move_by_steps(const Transfers *t, Op *op)
{
    int to = value_stage(t->p, op->out[0]);
    int step = op->phase == PH_BACKWARD ? -1 : 1;
    for (int s = value_stage(t->p, op->arg[0]) + step; s != to; s += step) {
        Build b = {.p = t->p, .region = op->region, .before = op, .phase = op->phase,
                   .loc = op->loc, .path = op->path};
        Op *hop = ir_clone(&b, op, NULL);
        for (int i = 0; i < op->nargs; i++) {
            hop->out[i]->type.place.ax[t->axis].dim = (uint8_t)s;
            op->arg[i] = hop->out[i];
        }
    }
}

static void move_all_by_steps(const Transfers *t, Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        if (op->kind == OP_move && op_transfers(op))
            move_by_steps(t, op);
}

static void stage_loops(const Transfers *t)
{
    for (Op *op = t->p->step->first; op; op = op->next) {
        if (!loop_is_microbatches(t->p, op) || !fits_timetable(t, op))
            continue;
        op->staged = true;
        move_all_by_steps(t, op->body);
        if (t->p->plan.pipeline.schedule == PIPELINE_ZERO_BUBBLE)
            weights_divide(t->p, op);
        Timetable order = staged_timetable(t->p, op);
        const char *fault = timetable_fault(t->p->arena, &order);
        if (fault)
            bug("transfers: %s", fault);
    }
}

/* A rank that has several stages holds the layers of all in one stack, of which an op outside
 * of the loop over layers would have to work on those of one stage. */
static bool check_stacks(Program *p)
{
    const Op *loop = pipeline_loop(p);
    for (const Op *op = loop ? loop->body->first : NULL; op; op = op->next)
        if (op->kind == OP_fused && type_cut(&op->out[0]->type)) {
            diag_error(p->diag, op->loc, "with several stages on a rank, gradients need the "
                       "placement of their parameters: one of '%s' is converted after the loop "
                       "over layers", op->path);
            return diag_help(p->diag, "write schedule=1f1b, with one stage on each rank");
        }
    return true;
}

/* Several stages of a rank overlap; in a side program one follows another. */
static void order_stages(const Transfers *t)
{
    Program *p = t->p;
    bool goes_on = !program_trains(p) || pipeline_loop(p);
    Region *r = pipeline_forward_region(p);
    for (const Op *op = r->first; op; op = op->next)
        if (!program_trains(p) && op->kind == OP_move && op_transfers(op))
            goes_on &= value_stage(p, op->out[0]) > value_stage(p, op->arg[0]);
    if (goes_on) {
        move_all_by_steps(t, r);
        return;
    }
    diag_error(p->diag, p->plan.pipeline.loc, "several stages on a rank need microbatches "
               "that overlap: all that they send must go to later stages in the forward pass, "
               "and to earlier ones in the backward pass");
    diag_help(p->diag, "write schedule=1f1b, with one stage on each rank");
}

void pass_transfers(Program *p, const TargetInfo *target)
{
    Transfers t = {.p = p, .axis = pipeline_axis(p)};
    if (t.axis < 0)
        return;
    (void)target;
    VEC(Op *) loops = {0};
    for_ops(op, p->step)
        if (op->kind == OP_loop && op->cut)
            vec_push(p->arena, &loops, op);
    for (int i = 0; i < loops.n; i++)
        add_transfers(&t, loops.at[i]);
    if (program_trains(p))
        stage_loops(&t);
    if (rank_stages(p) > 1 && check_stacks(p))
        order_stages(&t);
}
