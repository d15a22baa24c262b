/* events.c: finds the events that order the streams of a rank.
 *
 * The step is simulated in order of issue (simulate.h, which also divides the
 * arena into pieces). For every piece the last write and the reads since then
 * on each stream are recorded; for every stream, how much of the other streams
 * it is known to follow (vector clocks). A statement that accesses what another
 * stream wrote last, or writes what another stream has read, must run after
 * that access. If the vector clock does not imply it, the statement waits for
 * an event that the other statement records.
 *
 *   discover   adds exactly the waits that are needed, and finds events that
 *              are re-recorded before a stream waits for an earlier record:
 *              these get slots, which iterations record in rotation
 *   place      adds the waits again, as a loop body can state them: for the
 *              latest record of an event, or for the record of a slot
 *   check      finds waits that others imply; events_insert.c drops them
 *
 * Time and memory: the statements of a simulation times the pieces that each
 * accesses.
 */
#include "passes/sync/events.h"

#include "base/bug.h"

#include <string.h>

/* ---- statements ---------------------------------------------------------- */

/* The statement of an instance. */
static int statement_of(const EventFinder *f, int instance)
{
    const Instance *a = &f->sim.instance[instance];
    return a->statement    ? f->synced_of[a->statement->id]
           : instance == 0 ? 0
                           : f->nsynced - 1;
}

const Op *events_op(const Synced *s)
{
    return s->at && s->at->kind == OP_start ? attr_op(s->at) : s->at;
}

static int stream_of(const EventFinder *f, int instance)
{
    return f->sim.instance[instance].stream;
}

/* Attribute `name` of the `early` around the statement; -1: not given. */
static int64_t early_attr(const Synced *s, AttrName name)
{
    const Op *early = s->at ? op_early(s->at) : NULL;
    return early ? early->attr[op_attr_index(OP_early, name)].i : -1;
}

/* ---- dependences of an instance ------------------------------------------ */

/* The accesses that an instance must follow: by stream, the last of them; NULL:
 * none. */
typedef struct Needs {
    const Access *on[STREAMS];
} Needs;

static void add_need(const EventFinder *f, Needs *n, const Access *a)
{
    const Access **on = a ? &n->on[stream_of(f, a->instance)] : NULL;
    if (on && (!*on || (*on)->instance < a->instance))
        *on = a;
}

static Needs needs_of(const EventFinder *f, int instance)
{
    const Instance *a = &f->sim.instance[instance];
    Needs n = {0};
    for (int i = 0; i < a->naccesses; i++) {
        const Access *x = &f->sim.access[a->first_access + i];
        for (int k = x->first; k <= x->last; k++) {
            add_need(f, &n, f->piece[k].written);
            for (int s = 0; x->write && s < STREAMS; s++)
                add_need(f, &n, f->piece[k].read[s]);
        }
    }
    n.on[a->stream] = NULL;
    return n;
}

/* Whether what the clock counts includes the access. */
static bool follows(const EventFinder *f, const EventClock *c, const Access *a)
{
    return !a || c->upto[stream_of(f, a->instance)] >= f->place[a->instance];
}

static bool follows_all(const EventFinder *f, const EventClock *c,
                        const Needs *n)
{
    for (int s = 0; s < STREAMS; s++)
        if (!follows(f, c, n->on[s]))
            return false;
    return true;
}

/* Drops the dependences that the clock implies, or that another awaited
 * instance implies. */
static void drop_implied(const EventFinder *f, const EventClock *c, Needs *n)
{
    for (int s = 0; s < STREAMS; s++)
        if (follows(f, c, n->on[s]))
            n->on[s] = NULL;
    for (int s = 0; s < STREAMS; s++)
        for (int k = 0; k < STREAMS; k++)
            if (k != s && n->on[k] &&
                follows(f, &f->done[n->on[k]->instance], n->on[s]))
                n->on[s] = NULL;
}

/* ---- events -------------------------------------------------------------- */

static bool is_for_other_iteration(const Synced *s)
{
    return early_attr(s, ATTR_distance) >= 0 ||
           early_attr(s, ATTR_iteration) >= 0;
}

/* The largest prefetch distance, in iterations, of the statements that record the event of
 * `by`; -1: none has one. */
static int64_t distance_of(const EventFinder *f, const Synced *by)
{
    int64_t most = early_attr(by, ATTR_distance);
    for (int i = 0; i < f->nsynced && is_for_other_iteration(by); i++) {
        int64_t distance = early_attr(&f->synced[i], ATTR_distance);
        if (f->synced[i].event == by->event && distance > most)
            most = distance;
    }
    return most;
}

static Event *event_of(EventFinder *f, Synced *by)
{
    if (by->event < 0) {
        const Op *op = events_op(by);
        Event e = {.loop = op ? op_loop(op) : NULL, .slots = 1};
        by->event = f->nevents;
        /* Statements of an op that is hoisted within its loop, before the loop
         * and inside it, record the same event. */
        for (int i = 0; i < f->nsynced && is_for_other_iteration(by); i++)
            if (is_for_other_iteration(&f->synced[i]) &&
                events_op(&f->synced[i]) == op)
                f->synced[i].event = f->nevents;
        f->event[f->nevents++] = e;
    }
    Event *e = &f->event[by->event];
    /* The gather for a later iteration is issued before the wait for this
     * iteration's, except in the last iterations. */
    int64_t distance = distance_of(f, by);
    if (distance > 0 && by->stream != STREAM_COMPUTE && e->slots < distance + 1)
        e->slots = (int)distance + 1;
    return e;
}

void events_number_slots(EventFinder *f)
{
    f->nslots = 0;
    for (int i = 0; i < f->nevents; i++) {
        f->event[i].number = f->nslots;
        f->nslots += f->event[i].slots;
    }
}

/* Gives the event slots if it was recorded again since, and the waiting
 * statement can compute the slot from its iteration. */
static void count_slots(EventFinder *f, int instance, int on)
{
    const Instance *a = &f->sim.instance[instance];
    int by = statement_of(f, on);
    Event *e = event_of(f, &f->synced[by]);
    int64_t iteration;
    int slots = f->ordinal[f->latest[by]] - f->ordinal[on] + 1;
    if (e->loop && instance_iteration_in(a, e->loop, &iteration) &&
        slots <= EVENTS_SLOTS && e->slots < slots)
        e->slots = slots;
}

/* ---- waits --------------------------------------------------------------- */

static bool contains(const Op *loop, const Synced *s)
{
    for (const Op *o = s->at ? op_loop(s->at) : NULL; o; o = op_loop(o))
        if (o == loop)
            return true;
    return false;
}

static const char *wait_text(const EventFinder *f, const Access *on)
{
    if (on->instance == 0)
        return "step start";
    const Op *op = f->synced[statement_of(f, on->instance)].at;
    const char *name = on->value ? on->value->name
                       : op && op->nouts
                           ? arena_printf(f->p->arena, "scratch memory of %s",
                                          op->out[0]->name)
                           : "scratch memory";
    return on->write ? name : arena_printf(f->p->arena, "read of %s", name);
}

/* The wait of an instance for the access `on`. */
static Wait wait_for(EventFinder *f, int instance, const Access *on)
{
    const Instance *a = &f->sim.instance[instance];
    const Synced *s = &f->synced[statement_of(f, instance)];
    Synced *by = &f->synced[statement_of(f, on->instance)];
    const Event *e = event_of(f, by);
    const Op *loop = s->at ? op_loop(s->at) : NULL;
    Wait w = {.event = by->event, .why = wait_text(f, on)};
    int64_t recorded = instance_iteration(&f->sim.instance[on->instance]);
    int64_t iteration = 0;
    instance_iteration_in(a, e->loop, &iteration);
    if (e->slots > 1)
        w.offset = (int)(((recorded - iteration) % e->slots + e->slots) %
                         e->slots);
    if (loop && a->first && !contains(loop, by))
        w.when = WAIT_FIRST;
    return w;
}

/* Adds a wait for the access to the statement. */
static void add_wait(EventFinder *f, int instance, const Access *on)
{
    Synced *s = &f->synced[statement_of(f, instance)];
    Wait w = wait_for(f, instance, on);
    for (int i = 0; i < s->wait.n; i++) {
        Wait *old = &s->wait.at[i];
        if (old->event != w.event || old->offset != w.offset)
            continue;
        if (old->when == WAIT_ALWAYS)
            bug("sync: a wait for '%s' does not help", w.why);
        old->when = WAIT_ALWAYS;
        return;
    }
    vec_push(f->p->arena, &s->wait, w);
}

/* The slot of an event that the instance records, or waits for. */
static int event_slot(const EventFinder *f, const Instance *instance, int event,
                      int offset)
{
    const Event *e = &f->event[event];
    int64_t iteration;
    if (e->slots == 1 || !instance_iteration_in(instance, e->loop, &iteration))
        return e->number + offset;
    return e->number + (int)((iteration + offset) % e->slots);
}

/* The clock that a wait gives this instance; NULL: the wait does not apply. */
static const EventClock *clock_of_wait(const EventFinder *f,
                                       const Instance *a, const Wait *w)
{
    if (w->dropped || (w->when == WAIT_FIRST && !a->first))
        return NULL;
    int on = f->recorded[event_slot(f, a, w->event, w->offset)];
    return on < 0 ? NULL : &f->done[on];
}

/* Adds to the clock what the waits of an instance give, except for wait
 * `without`; -1: of all. */
static void apply_waits(const EventFinder *f, int instance, int without,
                        EventClock *c)
{
    const Synced *s = &f->synced[statement_of(f, instance)];
    for (int w = 0; w < s->wait.n; w++) {
        const EventClock *more =
            w == without ? NULL
                         : clock_of_wait(f, &f->sim.instance[instance],
                                         &s->wait.at[w]);
        if (more)
            clock_join(c, more);
    }
}

/* Marks the waits without which the clock would not cover the dependences. */
static void mark_needed(EventFinder *f, int instance, const EventClock *before,
                        const Needs *n)
{
    Synced *s = &f->synced[statement_of(f, instance)];
    for (int w = 0; w < s->wait.n; w++) {
        EventClock c = *before;
        apply_waits(f, instance, w, &c);
        s->wait.at[w].needed |= !follows_all(f, &c, n);
    }
}

/* ---- simulation of the step ---------------------------------------------- */

/* Finds or checks the waits of an instance; adds what they give to the clock of
 * its stream. */
static void find_waits(EventFinder *f, int instance, EventClock *c)
{
    Needs n = needs_of(f, instance);
    EventClock before = *c;
    if (f->mode != EVENTS_DISCOVER)
        apply_waits(f, instance, -1, c);
    if (f->mode == EVENTS_CHECK) {
        mark_needed(f, instance, &before, &n);
        f->missing += !follows_all(f, c, &n);
        return;
    }
    drop_implied(f, c, &n);
    for (int s = 0; s < STREAMS; s++) {
        if (!n.on[s])
            continue;
        if (f->mode == EVENTS_DISCOVER)
            count_slots(f, instance, n.on[s]->instance);
        else
            add_wait(f, instance, n.on[s]);
        clock_join(c, &f->done[n.on[s]->instance]);
    }
    /* The slot's record may be later than the dependence: use its clock. */
    if (f->mode == EVENTS_PLACE) {
        events_number_slots(f);
        apply_waits(f, instance, -1, c);
    }
}

static void touch_pieces(EventFinder *f, int instance)
{
    const Instance *a = &f->sim.instance[instance];
    for (int i = 0; i < a->naccesses; i++) {
        const Access *x = &f->sim.access[a->first_access + i];
        for (int k = x->first; k <= x->last; k++)
            if (x->write)
                f->piece[k] = (EventPiece){.written = x};
            else
                f->piece[k].read[a->stream] = x;
    }
}

static void reset(EventFinder *f)
{
    memset(f->now, 0, sizeof f->now);
    memset(f->count, 0, sizeof *f->count * (size_t)f->nsynced);
    memset(f->latest, -1, sizeof *f->latest * (size_t)f->nsynced);
    memset(f->recorded, -1,
           sizeof *f->recorded * (size_t)f->nsynced * EVENTS_SLOTS);
    memset(f->piece, 0, sizeof *f->piece * (size_t)f->sim.npieces);
}

static void run_simulation(EventFinder *f)
{
    reset(f);
    for (int i = 0; i < f->sim.n; i++) {
        const Instance *a = &f->sim.instance[i];
        if (a->op && a->op->kind == OP_join) {
            clock_join_all(f->now);
            continue;
        }
        EventClock *c = &f->now[a->stream];
        int statement = statement_of(f, i), event;
        find_waits(f, i, c);
        f->place[i] = ++c->upto[a->stream];
        f->done[i] = *c;
        f->ordinal[i] = f->count[statement]++;
        f->latest[statement] = i;
        touch_pieces(f, i);
        event = f->synced[statement].event;
        if (f->mode != EVENTS_DISCOVER && event >= 0)
            f->recorded[event_slot(f, a, event, 0)] = i;
    }
}

void events_run(EventFinder *f, EventMode mode)
{
    f->mode = mode;
    f->missing = 0;
    for (int i = 0; i < f->sims.n; i++) {
        f->sim = f->sims.at[i];
        run_simulation(f);
    }
}

/* The slots of events, which no op records yet. */
static SlotCounts *slots_of_loops(const EventFinder *f)
{
    SlotCounts *slots = NEW_ARRAY(f->p->arena, SlotCounts, f->p->nops);
    for (int i = 0; i < f->nevents; i++)
        if (f->event[i].loop)
            vec_push(f->p->arena, &slots[f->event[i].loop->id],
                     f->event[i].slots);
    return slots;
}

void events_follow(EventFinder *f)
{
    Arena *a = f->p->arena;
    f->sims = simulate_step(f->p, slots_of_loops(f), 0);
    int n = 0, npieces = 0;
    for (int i = 0; i < f->sims.n; i++) {
        const Simulation *sim = &f->sims.at[i];
        n = sim->n > n ? sim->n : n;
        npieces = sim->npieces > npieces ? sim->npieces : npieces;
    }
    f->done = NEW_ARRAY(a, EventClock, n);
    f->place = NEW_ARRAY(a, int, n);
    f->ordinal = NEW_ARRAY(a, int, n);
    f->piece = NEW_ARRAY(a, EventPiece, npieces + 1);
}
