/* events_insert.c: inserts the waits and records that events.c found as ops,
 * except for waits that other waits imply, and events without waits.
 *
 * before   %y = add %x, %w    waits for 3 (after: x) and 5 (after: w)
 * after    wait{event=5, …}   its statement has waited for 3
 *          %y = add %x, %w
 *
 * A wait precedes its statement, a record follows it. Both are in the region of
 * the statement: inside an `early`, they are for the iteration that it names.
 * Events are numbered in the order in which they are recorded.
 */
#include "passes/sync/events.h"

#include "base/bug.h"

/* ---- redundant waits ----------------------------------------------------- */

/* Sets Wait.needed of all waits. */
static void check_waits(EventFinder *f)
{
    for (int i = 0; i < f->nsynced; i++)
        for (int w = 0; w < f->synced[i].wait.n; w++)
            f->synced[i].wait.at[w].needed = false;
    events_run(f, EVENTS_CHECK);
    if (f->missing)
        bug("sync: %d statements lack a wait", f->missing);
}

/* A wait that no instance of its own statement needs may still serve later
 * statements: it is removed only if the simulation passes without it. */
static void drop_waits(EventFinder *f)
{
    check_waits(f);
    for (int i = 0; i < f->nsynced; i++)
        for (int w = 0; w < f->synced[i].wait.n; w++) {
            Wait *wait = &f->synced[i].wait.at[w];
            if (wait->needed)
                continue;
            wait->dropped = true;
            events_run(f, EVENTS_CHECK);
            wait->dropped = f->missing == 0;
            check_waits(f);
        }
}

/* Reduces f->event to the events that are waited for. */
static void drop_events(EventFinder *f)
{
    Event *old = f->event;
    bool *waited = NEW_ARRAY(f->p->arena, bool, f->nevents);
    int *number = NEW_ARRAY(f->p->arena, int, f->nevents);
    for (int i = 0; i < f->nevents; i++)
        number[i] = -1;
    f->event = NEW_ARRAY(f->p->arena, Event, f->nevents);
    f->nevents = 0;
    for (int i = 0; i < f->nsynced; i++)
        for (int w = 0; w < f->synced[i].wait.n; w++)
            if (!f->synced[i].wait.at[w].dropped)
                waited[f->synced[i].wait.at[w].event] = true;
    for (int i = 0; i < f->nsynced; i++) {
        int *event = &f->synced[i].event;
        if (*event < 0)
            continue;
        if (waited[*event] && number[*event] < 0) {
            number[*event] = f->nevents;
            f->event[f->nevents++] = old[*event];
        }
        *event = number[*event];
    }
    for (int i = 0; i < f->nsynced; i++)
        for (int w = 0; w < f->synced[i].wait.n; w++)
            f->synced[i].wait.at[w].event =
                number[f->synced[i].wait.at[w].event];
    events_number_slots(f);
}

/* ---- ops ----------------------------------------------------------------- */

static Op *insert(EventFinder *f, const Synced *s, OpKind kind,
                  const Attr *attr, Op *before)
{
    Region *step = f->p->step;
    const Op *like = s->at ? s->at : before ? before : step->last;
    Build b = {.p = f->p, .region = s->at ? s->at->region : step,
               .before = before, .phase = like->phase, .path = ""};
    Op *op = ir_op_typed(&b, kind, 0, NULL, attr, 0, NULL, NULL);
    op->stream = s->stream;
    return op;
}

static void insert_wait(EventFinder *f, const Synced *s, const Wait *w)
{
    const Event *e = &f->event[w->event];
    const Op *loop =
        events_op(s) && e->slots > 1 ? op_loop(events_op(s)) : NULL;
    while (loop && loop != e->loop)
        loop = op_loop(loop);
    Attr attr[] = {{.i = e->number}, {.i = e->slots}, {.i = w->offset},
                   {.o = (Op *)loop}, {.i = w->when == WAIT_FIRST},
                   {.s = w->why}};
    insert(f, s, OP_wait, attr, s->at);
}

static void insert_record(EventFinder *f, const Synced *s, Op *before)
{
    const Event *e = &f->event[s->event];
    Attr attr[] = {{.i = e->number}, {.i = e->slots},
                   {.o = e->slots > 1 ? (Op *)e->loop : NULL}};
    insert(f, s, OP_record, attr, before);
}

/* The first op of the step that runs in every step. */
static Op *first_op(const Program *p)
{
    Op *op = p->step->first;
    while (op && op->phase == PH_INIT)
        op = op->next;
    return op;
}

void events_insert(EventFinder *f)
{
    drop_waits(f);
    drop_events(f);
    for (int i = 0; i < f->nsynced; i++) {
        const Synced *s = &f->synced[i];
        for (int w = 0; w < s->wait.n; w++)
            if (!s->wait.at[w].dropped)
                insert_wait(f, s, &s->wait.at[w]);
        if (s->event >= 0)
            insert_record(f, s, s->at ? s->at->next : first_op(f->p));
    }
}
