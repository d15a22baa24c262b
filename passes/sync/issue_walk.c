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

/* ---- loops --------------------------------------------------------------- */

static IssueLoop *push_loop(IssueWalk *w, const Op *loop, int64_t iteration,
                            int64_t trips)
{
    if (w->depth == MAX_LOOP_DEPTH)
        ir_too_deep(w->p, loop->loc);
    IssueLoop *at = &w->at[w->depth++];
    *at = (IssueLoop){.loop = loop,
                      .layer = attr_reverse(loop) ? trips - 1 - iteration : iteration,
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
    return_to_frames(w);
    return ISSUE_ITERATION;
}

static void enter_loop(IssueWalk *w, const Op *loop)
{
    if (w->nframes > MAX_LOOP_DEPTH)
        ir_too_deep(w->p, loop->loc);
    w->frame[w->nframes++] =
        (IssueFrame){.loop = loop, .trips = loop_rank_trips(w->p, loop)};
}

void issue_skip(IssueWalk *w, int64_t n)
{
    w->frame[w->nframes - 1].iteration += n;
    return_to_frames(w);
}

/* ---- ops that are issued early ------------------------------------------- */

/* Of an iteration of the op's loop, whose number the `early` says. */
static void enter_iteration_of(IssueWalk *w, const Op *early, bool first)
{
    const Op *loop = op_loop(issue_started(early));
    push_loop(w, loop, attr_iteration(early), loop_rank_trips(w->p, loop))->first = first;
}

/* Ops that belong to another loop than that of the `early`, or to none: their waits
 * apply there unconditionally. */
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

/* ---- the walk ------------------------------------------------------------ */

IssueWalk issue_walk(const Program *p)
{
    IssueWalk w = {.p = p, .nframes = 1};
    w.frame[0] = (IssueFrame){.next = p->step->first, .trips = 1};
    return w;
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
        if (op->phase == PH_INIT)
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
            return ISSUE_OP;
        }
    }
}
