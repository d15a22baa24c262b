/* events.c: the pass `events`: inserts the synchronization that the schedule
 * needs, between the streams of a rank here, between ranks of a node in
 * meetings.c.
 *
 * requires: Program.memory and the streams that `schedule` assigned
 * ensures:  Program.streams: the order of issue, and events such that every
 *           execution of the streams accesses memory as a serial execution
 *           would. On a target with one stream: the order of issue and the
 *           barriers.
 *
 * The step is simulated in order of issue (trace.h, which also divides the
 * arena into pieces). For every piece the pass records the last write and the
 * reads since then on each stream; for every stream, how much of the other
 * streams it is known to follow (vector clocks). A statement that accesses what
 * another stream wrote last, or writes what another stream has read, must run
 * after that access. If the vector clock does not imply it, the statement waits
 * for an event that the other statement records.
 *
 *   discover   adds exactly the waits that are needed, and finds events that
 *              are re-recorded before a stream waits for an earlier record:
 *              these get slots, which iterations record in rotation
 *   place      adds the waits again, as a loop body can state them: for the
 *              latest record of an event, or for the record of a slot
 *   check      finds waits that others imply; events_drop.c removes them
 *
 * before   %dw = einsum %dy, %x …                              (compute)
 *          %dw.2 = reduce_scatter{axes={dp}, …} %dw …          (data)
 * after    %dw = einsum %dy, %x …            records event 7
 *          %dw.2 = reduce_scatter … waits for event 7, after: dw
 *
 * Time and memory: the statements of a trace times the pieces that each
 * accesses.
 */
#include "passes/events.h"

#include "base/bug.h"

#include <string.h>

typedef struct Need {
    int act; /* instance that must precede; -1: none on this stream */
    const Access *access; /* the access to wait for */
} Need;

/* ---- statements ---------------------------------------------------------- */

static void visit_list(EventFinder *f, IssueList *list, EventVisit *visit)
{
    for (int i = 0; i < list->n; i++) {
        visit(f, &list->at[i]);
        if (list->at[i].op->kind == OP_loop)
            visit_list(f, &f->s->body[list->at[i].op->id], visit);
    }
}

void events_visit(EventFinder *f, EventVisit *visit)
{
    visit(f, &f->s->begin);
    visit_list(f, &f->s->step, visit);
    visit(f, &f->s->end);
}

/* The plan's statement of a dynamic instance: the trace has it as const. */
static Issue *issue_of(const EventFinder *f, int act)
{
    return (Issue *)f->trace.act[act].issue;
}

static int stream_of(const EventFinder *f, int act)
{
    return f->trace.act[act].issue->stream;
}

static const Op *loop_of(const Issue *issue)
{
    return issue->op ? issue->op->region->owner : NULL;
}

/* ---- dependences of an instance ------------------------------------------ */

static void need(const EventFinder *f, int stream, Need n[STREAMS], int act,
                 const Access *access)
{
    if (act < 0 || stream_of(f, act) == stream)
        return;
    Need *on = &n[stream_of(f, act)];
    if (on->act < act)
        *on = (Need){act, access};
}

static const Access *access_at(const EventFinder *f, int act, int piece)
{
    const Act *a = &f->trace.act[act];
    for (int i = a->naccesses - 1; i >= 0; i--) {
        const Access *x = &f->trace.access[a->access + i];
        if (x->first <= piece && piece <= x->last)
            return x;
    }
    return NULL;
}

static void needs_of(const EventFinder *f, int act, Need n[STREAMS])
{
    const Act *a = &f->trace.act[act];
    int stream = a->issue->stream, best[STREAMS], where[STREAMS];
    for (int s = 0; s < STREAMS; s++)
        best[s] = where[s] = -1;
    for (int i = 0; i < a->naccesses; i++) {
        const Access *x = &f->trace.access[a->access + i];
        for (int k = x->first; k <= x->last; k++) {
            const EventPiece *q = &f->piece[k];
            int w = q->written;
            if (w >= 0 && best[stream_of(f, w)] < w) {
                best[stream_of(f, w)] = w;
                where[stream_of(f, w)] = k;
            }
            for (int s = 0; x->write && s < STREAMS; s++)
                if (best[s] < q->read[s]) {
                    best[s] = q->read[s];
                    where[s] = k;
                }
        }
    }
    for (int s = 0; s < STREAMS; s++) {
        n[s] = (Need){-1, NULL};
        if (best[s] >= 0)
            need(f, stream, n, best[s], access_at(f, best[s], where[s]));
    }
}

static void learn(EventClock *c, const EventClock *more)
{
    for (int s = 0; s < STREAMS; s++)
        if (c->upto[s] < more->upto[s])
            c->upto[s] = more->upto[s];
}

static bool knows(const EventFinder *f, const EventClock *c, int act)
{
    return act < 0 || c->upto[stream_of(f, act)] >= f->place[act];
}

static bool knows_all(const EventFinder *f, const EventClock *c,
                      const Need n[STREAMS])
{
    for (int s = 0; s < STREAMS; s++)
        if (!knows(f, c, n[s].act))
            return false;
    return true;
}

/* Drops the dependences that the clock implies, or that another awaited
 * instance implies. */
static void drop_known(const EventFinder *f, const EventClock *c,
                       Need n[STREAMS])
{
    for (int s = 0; s < STREAMS; s++)
        if (knows(f, c, n[s].act))
            n[s].act = -1;
    for (int s = 0; s < STREAMS; s++)
        for (int k = 0; k < STREAMS && n[s].act >= 0; k++)
            if (k != s && n[k].act >= 0 &&
                knows(f, &f->done[n[k].act], n[s].act))
                n[s].act = -1;
}

/* ---- events -------------------------------------------------------------- */

/* Statements that record the same event: those of an op that is hoisted within
 * its loop, before the loop and inside it. */
static bool same_event(const Issue *a, const Issue *b)
{
    return a == b || (a->op && a->op == b->op && a->kind != ISSUE_HERE &&
                      b->kind != ISSUE_HERE);
}

static void share_event(EventFinder *f, Issue *issue)
{
    if (same_event(issue, f->sharing))
        issue->event = f->s->nevents;
}

static Event *event_of(EventFinder *f, Issue *by)
{
    if (by->event < 0) {
        Event e = {.loop = loop_of(by), .slots = 1};
        f->sharing = by;
        events_visit(f, share_event);
        f->s->event[f->s->nevents++] = e;
    }
    Event *e = &f->s->event[by->event];
    /* The gather for a later iteration is issued before the wait for this
     * iteration's, except in the last iterations. */
    if (by->kind == ISSUE_AHEAD && by->stream != STREAM_COMPUTE &&
        e->slots < by->turns + 1)
        e->slots = by->turns + 1;
    return e;
}

void events_number_slots(EventFinder *f)
{
    f->s->nslots = 0;
    for (int i = 0; i < f->s->nevents; i++) {
        f->s->event[i].number = f->s->nslots;
        f->s->nslots += f->s->event[i].slots;
    }
}

/* Gives the event slots if it was recorded again since, and the waiting
 * statement can compute the slot from its iteration. */
static void count_slots(EventFinder *f, int act, int on)
{
    const Act *a = &f->trace.act[act];
    Issue *by = issue_of(f, on);
    Event *e = event_of(f, by);
    int64_t turn;
    int slots = f->turn[f->latest[by->id]] - f->turn[on] + 1;
    if (e->loop && trace_turn(a, e->loop, &turn) && slots <= EVENTS_SLOTS &&
        e->slots < slots)
        e->slots = slots;
}

/* ---- waits --------------------------------------------------------------- */

static bool contains(const Op *loop, const Issue *issue)
{
    for (const Op *o = issue_loop(issue); o; o = o->region->owner)
        if (o == loop)
            return true;
    return false;
}

static const char *why_text(const EventFinder *f, const Need *n)
{
    const Act *a = &f->trace.act[n->act];
    if (a->issue->kind == ISSUE_BEGIN)
        return "step start";
    const char *name = n->access && n->access->value ? n->access->value->name
                                                     : "scratch";
    bool written = n->access && n->access->write;
    return written ? name : arena_printf(f->p->arena, "read of %s", name);
}

/* Adds a wait for the instance of n to the statement. */
static void add_wait(EventFinder *f, int act, const Need *n)
{
    const Act *a = &f->trace.act[act], *on = &f->trace.act[n->act];
    Issue *issue = issue_of(f, act);
    const Event *e = event_of(f, issue_of(f, n->act));
    const Op *loop = issue_loop(issue);
    Wait w = {.event = on->issue->event, .why = why_text(f, n)};
    int64_t turn;
    if (e->slots > 1 && trace_turn(a, e->loop, &turn))
        w.offset = (int)(((on->turn[0] - turn) % e->slots + e->slots) %
                         e->slots);
    else if (e->slots > 1)
        w.offset = (int)(on->turn[0] % e->slots);
    if (loop && a->first && !contains(loop, on->issue))
        w.when = WAIT_FIRST;
    for (int i = 0; i < issue->wait.n; i++) {
        Wait *old = &issue->wait.at[i];
        if (old->event != w.event || old->offset != w.offset)
            continue;
        if (old->when == WAIT_ALWAYS)
            bug("events: a wait for '%s' does not help", w.why);
        old->when = WAIT_ALWAYS;
        return;
    }
    vec_push(f->p->arena, &issue->wait, w);
}

/* The clock that the statement's wait number w gives this instance; NULL: the
 * wait does not apply. */
static const EventClock *told(const EventFinder *f, int act, int w)
{
    const Act *a = &f->trace.act[act];
    const Wait *wait = &a->issue->wait.at[w];
    if (wait->when == WAIT_FIRST && !a->first)
        return NULL;
    if (f->mode == EVENTS_CHECK &&
        f->first_wait[a->issue->id] + w == f->without)
        return NULL;
    int on = f->recorded[trace_awaited(f->s, a, wait)];
    return on < 0 ? NULL : &f->done[on];
}

static void obey_waits(EventFinder *f, int act, EventClock *c)
{
    for (int w = 0; w < f->trace.act[act].issue->wait.n; w++) {
        const EventClock *more = told(f, act, w);
        if (more)
            learn(c, more);
    }
}

/* Marks the waits without which the clock would not cover the dependences. */
static void mark_needed(EventFinder *f, int act, const EventClock *before,
                        const Need n[STREAMS])
{
    const Issue *issue = f->trace.act[act].issue;
    for (int w = 0; w < issue->wait.n; w++) {
        EventClock c = *before;
        for (int k = 0; k < issue->wait.n; k++) {
            const EventClock *more = k == w ? NULL : told(f, act, k);
            if (more)
                learn(&c, more);
        }
        if (!knows_all(f, &c, n))
            f->needed[f->first_wait[issue->id] + w] = true;
    }
}

/* ---- simulation of the step ---------------------------------------------- */

static void serve(EventFinder *f, int act, EventClock *c)
{
    Need n[STREAMS];
    EventClock before = *c;
    needs_of(f, act, n);
    if (f->mode != EVENTS_DISCOVER)
        obey_waits(f, act, c);
    if (f->mode == EVENTS_CHECK) {
        mark_needed(f, act, &before, n);
        f->missing += !knows_all(f, c, n);
        return;
    }
    drop_known(f, c, n);
    for (int s = 0; s < STREAMS; s++) {
        if (n[s].act < 0)
            continue;
        if (f->mode == EVENTS_DISCOVER)
            count_slots(f, act, n[s].act);
        else
            add_wait(f, act, &n[s]);
        learn(c, &f->done[n[s].act]);
    }
    /* The slot's record may be later than the dependence: use its clock. */
    if (f->mode == EVENTS_PLACE) {
        events_number_slots(f);
        obey_waits(f, act, c);
    }
}

static void touch_pieces(EventFinder *f, int act)
{
    const Act *a = &f->trace.act[act];
    for (int i = 0; i < a->naccesses; i++) {
        const Access *x = &f->trace.access[a->access + i];
        for (int k = x->first; k <= x->last; k++) {
            EventPiece *q = &f->piece[k];
            if (!x->write) {
                q->read[a->issue->stream] = act;
                continue;
            }
            q->written = act;
            for (int s = 0; s < STREAMS; s++)
                q->read[s] = -1;
        }
    }
}

static void reset(EventFinder *f)
{
    memset(f->now, 0, sizeof f->now);
    memset(f->count, 0, sizeof *f->count * (size_t)f->s->nissues);
    memset(f->latest, -1, sizeof *f->latest * (size_t)f->s->nissues);
    memset(f->recorded, -1,
           sizeof *f->recorded * (size_t)f->s->nissues * EVENTS_SLOTS);
    memset(f->piece, -1, sizeof *f->piece * (size_t)f->trace.npieces);
    f->missing = 0;
}

void events_run(EventFinder *f, EventMode mode)
{
    f->mode = mode;
    reset(f);
    for (int i = 0; i < f->trace.n; i++) {
        const Act *a = &f->trace.act[i];
        EventClock *c = &f->now[a->issue->stream];
        serve(f, i, c);
        f->place[i] = ++c->upto[a->issue->stream];
        f->done[i] = *c;
        f->turn[i] = f->count[a->issue->id]++;
        f->latest[a->issue->id] = i;
        touch_pieces(f, i);
        if (mode != EVENTS_DISCOVER && a->issue->event >= 0)
            f->recorded[trace_recorded(f->s, a)] = i;
    }
}

static void follow_step(EventFinder *f)
{
    Arena *a = f->p->arena;
    f->trace = trace_step(f->p, f->s, 0);
    f->done = NEW_ARRAY(a, EventClock, f->trace.n);
    f->place = NEW_ARRAY(a, int, f->trace.n);
    f->turn = NEW_ARRAY(a, int, f->trace.n);
    f->piece = NEW_ARRAY(a, EventPiece, f->trace.npieces + 1);
}

/* ---- the pass ------------------------------------------------------------ */

static void find_events(EventFinder *f)
{
    Arena *a = f->p->arena;
    int n = f->s->nissues;
    f->count = NEW_ARRAY(a, int, n);
    f->latest = NEW_ARRAY(a, int, n);
    f->first_wait = NEW_ARRAY(a, int, n);
    f->recorded = NEW_ARRAY(a, int, n * EVENTS_SLOTS);
    f->s->event = NEW_ARRAY(a, Event, n);
    follow_step(f);
    events_run(f, EVENTS_DISCOVER);
    events_number_slots(f);
    follow_step(f);
    events_run(f, EVENTS_PLACE);
    events_drop(f);
}

static void find_meetings(Program *p)
{
    meetings_find(p, p->streams);
    const char *fault = meetings_check(p, p->streams, NULL);
    if (fault)
        bug("events: %s", fault);
}

void pass_events(Program *p, const TargetInfo *t)
{
    if (!p->memory) /* resumed from a dump, which has no addresses */
        pass_memory(p, t);
    p->streams = issue_plan(p, t);
    if (t->streams < 2) {
        find_meetings(p);
        return;
    }
    EventFinder f = {.p = p, .s = p->streams, .without = -1};
    find_events(&f);
    const char *fault = hazards_check(p, p->streams, NULL);
    if (fault)
        bug("events: %s", fault);
}
