/* issue_walk.c: walks over a step in order of issue; see issue_walk.h. */
#include "passes/sync/issue_walk.h"

#include "base/bug.h"
#include "ir/analysis/statement.h"
#include "ir/plan/pipeline.h"

const Op *issue_started(const Op *early)
{
    for (const Op *op = early->body->first; op; op = op->next)
        if (op->kind == OP_start)
            return attr_op(op);
    bug("an op 'early' without an op 'start'");
}

/* ---- passes over a staged loop ------------------------------------------- */

/* The staged loop that ISSUE_RANK is in; NULL: none. */
static const IssueFrame *staged_frame(const IssueWalk *w)
{
    bool staged = w->scope.part == ISSUE_RANK && w->nframes > 1 && w->frame[1].loop->staged;
    return staged ? &w->frame[1] : NULL;
}

/* A pass is a phase on a stage: the rank's stages in order, for gradients backward. */
static int passes_of(const IssueWalk *w)
{
    return (PH_WEIGHTS - PH_FORWARD + 1) * rank_stages(w->p);
}
static Phase pass_phase(const IssueWalk *w, const IssueFrame *staged)
{
    return PH_FORWARD + (Phase)(staged->pass / rank_stages(w->p));
}
static int pass_stage(const IssueWalk *w, const IssueFrame *staged)
{
    int n = rank_stages(w->p), k = staged->pass % n;
    bool forward = pass_phase(w, staged) == PH_FORWARD;
    return w->scope.coordinate + pipeline_ranks(w->p) * (forward ? k : n - 1 - k);
}

/* ---- loops --------------------------------------------------------------- */

/* The iterations of the rank's other stages, which precede those of the stage. */
static int64_t iterations_before(const IssueWalk *w, const Op *loop)
{
    const IssueFrame *staged = staged_frame(w);
    return staged && loop->cut ? stage_row(w->p, loop->cut, pass_stage(w, staged)) : 0;
}

static IssueLoop *push_loop(IssueWalk *w, const Op *loop, int64_t iteration,
                            int64_t trips)
{
    if (w->depth == MAX_LOOP_DEPTH)
        ir_too_deep(w->p, loop->loc);
    IssueLoop *at = &w->at[w->depth++];
    int64_t layer = attr_reverse(loop) ? trips - 1 - iteration : iteration;
    *at = (IssueLoop){.loop = loop, .layer = iterations_before(w, loop) + layer,
                      .first = iteration == 0};
    return at;
}

/* The loops around the ops of the innermost frame. */
static void return_to_frames(IssueWalk *w)
{
    w->depth = 0;
    for (int i = 1; i < w->nframes; i++) {
        const IssueFrame *f = &w->frame[i];
        push_loop(w, f->loop, f->iteration, f->trips);
    }
}

static IssueStop enter_iteration(IssueWalk *w)
{
    IssueFrame *f = &w->frame[w->nframes - 1];
    f->next = f->loop->body->first;
    f->pass = 0;
    return_to_frames(w);
    return ISSUE_ITERATION;
}

/* How often the walker goes through the loop. */
static int64_t trips_of(const IssueWalk *w, const Op *loop)
{
    const IssueScope *s = &w->scope;
    const IssueFrame *staged = staged_frame(w);
    bool all = s->part == ISSUE_SEQUENCE && loop->phase != PH_OPTIMIZER;
    if (loop->rounds && s->rounds && s->rounds < loop_trips(loop))
        return s->rounds;
    return !loop->cut || all         ? loop_trips(loop)
           : s->part == ISSUE_SEQUENCE ? loop_rank_trips(w->p, loop)
           : s->part == ISSUE_WHOLE  ? loop_rank_trips(w->p, loop)
           : s->part == ISSUE_ACTION ? stage_rows(w->p, loop->cut, s->stage)
           : staged ? stage_rows(w->p, loop->cut, pass_stage(w, staged))
                                     : rank_rows(w->p, loop->cut, s->coordinate);
}

static void enter_loop(IssueWalk *w, const Op *loop)
{
    if (w->nframes > MAX_LOOP_DEPTH)
        ir_too_deep(w->p, loop->loc);
    IssueFrame f = {.loop = loop, .trips = trips_of(w, loop)};
    w->frame[w->nframes++] = f;
}

void issue_skip(IssueWalk *w, int64_t n)
{
    w->frame[w->nframes - 1].iteration += n;
    return_to_frames(w);
}

void issue_shift(IssueWalk *w, int depth, int64_t n)
{
    IssueFrame *f = &w->frame[depth];
    f->iteration += n;
    for (int i = 0; i < w->depth; i++)
        if (w->at[i].loop == f->loop)
            w->at[i].layer += attr_reverse(f->loop) ? -n : n;
}

int64_t issue_ahead(const Op *loop)
{
    int64_t ahead = 0;
    for (const Op *op = loop->body->first; op; op = op->next)
        if (op->kind == OP_early && attr_distance(op) > ahead)
            ahead = attr_distance(op);
    return ahead;
}

int64_t issue_left(const Op *loop)
{
    int64_t left = 0;
    for (const Op *op = loop->body->first; op; op = op->next)
        if (op->kind == OP_early && attr_remaining(op) > left)
            left = attr_remaining(op);
    return left;
}

/* ---- ops that are issued early ------------------------------------------- */

/* Enters the iteration, which the `early` names, of the loop of the op that it starts. */
static void enter_iteration_of(IssueWalk *w, const Op *early, bool first)
{
    const Op *loop = op_loop(issue_started(early));
    push_loop(w, loop, attr_iteration(early), trips_of(w, loop))->first = first;
}

/* Enters an `early` whose ops belong to another loop, or to none: their waits apply
 * unconditionally. False: the `early` does not run in this iteration. */
static bool enter_across_loops(IssueWalk *w, const Op *early)
{
    const IssueFrame *f = &w->frame[w->nframes - 1];
    if (f->trips - 1 - f->iteration != attr_remaining(early))
        return false;
    w->depth--;
    if (attr_iteration(early) >= 0)
        enter_iteration_of(w, early, false);
    for (int i = 0; i < w->depth; i++)
        w->at[i].first = false;
    return true;
}

static bool enter_prefetch(IssueWalk *w, const Op *early)
{
    const IssueFrame *f = &w->frame[w->nframes - 1];
    int64_t ahead = attr_distance(early);
    IssueLoop *at = &w->at[w->depth - 1];
    at->layer += attr_reverse(f->loop) ? -ahead : ahead;
    return f->iteration + ahead < f->trips;
}

static void enter_early(IssueWalk *w, const Op *early)
{
    bool runs = true;
    if (attr_remaining(early) >= 0)
        runs = enter_across_loops(w, early);
    else if (attr_iteration(early) >= 0)
        enter_iteration_of(w, early, w->depth > 0 && w->at[w->depth - 1].first);
    else
        runs = enter_prefetch(w, early);
    w->early = early;
    w->next = runs ? early->body->first : NULL;
}

static void leave_early(IssueWalk *w)
{
    w->early = NULL;
    return_to_frames(w);
}

/* ---- events -------------------------------------------------------------- */

bool issue_is_first(const IssueWalk *w)
{
    return w->depth > 0 && w->at[w->depth - 1].first;
}

int event_slot(const Op *op, bool inside, int64_t layer)
{
    int64_t slots = attr_slots(op);
    int64_t offset = op->kind == OP_wait ? attr_offset(op) : 0;
    bool rotates = slots > 1 && inside;
    return (int)(attr_event(op) + (rotates ? (layer + offset) % slots : offset));
}

int issue_slot(const IssueWalk *w, const Op *op)
{
    for (int i = 0; i < w->depth; i++)
        if (w->at[i].loop == attr_loop(op))
            return event_slot(op, true, w->at[i].layer);
    return event_slot(op, false, 0);
}

/* ---- the walk ------------------------------------------------------------ */

IssueWalk issue_walk(const Program *p)
{
    return issue_walk_part(p, (IssueScope){.part = ISSUE_WHOLE});
}

IssueWalk issue_walk_part(const Program *p, IssueScope scope)
{
    IssueWalk w = {.p = p, .scope = scope, .nframes = 1};
    bool whole = scope.part == ISSUE_WHOLE || scope.part == ISSUE_SEQUENCE ||
                 scope.part == ISSUE_RANK;
    const Op *loop = whole ? NULL : pipeline_loop(p);
    const Op *first = scope.part == ISSUE_AFTER    ? loop->next
                      : scope.part == ISSUE_ACTION ? loop->body->first
                                                   : p->step->first;
    w.frame[0] = (IssueFrame){.next = first, .trips = 1};
    return w;
}

/* Whether the coordinate runs an op of the stage. */
static bool has_stage(const IssueWalk *w, int stage)
{
    return stage < 0 || coordinate_of(w->p, stage) == w->scope.coordinate;
}

/* Whether the rank runs the op of its stages, in a staged loop in the present pass. */
static bool on_rank(const IssueWalk *w, const Op *op)
{
    const IssueFrame *staged = w->nframes == 2 && !w->early ? staged_frame(w) : NULL;
    if (w->scope.part != ISSUE_RANK || (op_is_schedule(op->kind) && op->kind != OP_barrier))
        return true;
    if (staged)
        return staged_moment_on(w->p, staged->loop, op, pass_stage(w, staged)) != MOMENTS;
    return has_stage(w, op_stage(w->p, op));
}

/* Whether a pass over a rank's ops has the op, or its waits and records. */
static bool in_pass(const IssueWalk *w, const Op *op)
{
    const IssueFrame *staged = w->nframes == 2 && !w->early ? staged_frame(w) : NULL;
    return (!staged || op->phase == pass_phase(w, staged)) &&
           (op->kind != OP_loop || on_rank(w, op));
}

/* Whether the part has the op, in its outermost region. */
static bool in_scope(const IssueWalk *w, const Op *op)
{
    const IssueScope *s = &w->scope;
    if (s->part == ISSUE_RANK)
        return in_pass(w, op);
    if (s->part == ISSUE_WHOLE || s->part == ISSUE_SEQUENCE || w->nframes > 1 || w->early)
        return true;
    if (s->part == ISSUE_ACTION)
        return staged_moment_on(w->p, pipeline_loop(w->p), op, s->stage) == s->moment;
    return has_stage(w, op_stage(w->p, op));
}

/* The op that is issued at `at`; NULL: none. */
static const Op *issued_at(const IssueWalk *w, const Op *at)
{
    const Op *issued = op_issued_at(at);
    if (issued || w->early)
        return issued ? issued : at;
    bool orders = op_is_schedule(at->kind) && at->kind != OP_post && at->kind != OP_await;
    return orders ? at : NULL;
}

/* Ends the `early` or the iteration, whose last op was walked over; false: the step. */
static bool end_region(IssueWalk *w, bool *begins)
{
    IssueFrame *f = &w->frame[w->nframes - 1];
    *begins = false;
    if (w->early) {
        leave_early(w);
    } else if (w->nframes == 1) {
        return false;
    } else if (f == staged_frame(w) && f->pass + 1 < passes_of(w)) {
        f->pass++;
        f->next = f->loop->body->first;
    } else if (++f->iteration < f->trips) {
        *begins = true;
    } else {
        w->nframes--;
        return_to_frames(w);
    }
    return true;
}

IssueStop issue_next(IssueWalk *w, Issued *x)
{
    for (;;) {
        bool begins;
        const Op **next = w->early ? &w->next : &w->frame[w->nframes - 1].next;
        const Op *op = *next;
        if (!op) {
            if (!end_region(w, &begins))
                return ISSUE_END;
            if (begins)
                return enter_iteration(w);
            continue;
        }
        *next = op->next;
        if (w->scope.part == ISSUE_BEFORE && op->staged)
            return ISSUE_END;
        if (op->phase == PH_INIT || !in_scope(w, op))
            continue;
        if (op->kind == OP_loop) {
            enter_loop(w, op);
            if (w->frame[w->nframes - 1].trips > 0)
                return enter_iteration(w);
            w->nframes--;
        } else if (op->kind == OP_early) {
            enter_early(w, op);
        } else if ((x->op = issued_at(w, op))) {
            x->statement = op;
            x->elsewhere = !on_rank(w, x->op);
            return ISSUE_OP;
        }
    }
}
