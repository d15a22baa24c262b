/* events_drop.c: removes waits that other waits imply and events without waits;
 * numbers the remaining events in the order in which they are recorded.
 *
 * before   %y = add %x, %w    waits for 3 (after: x) and 5 (after: w)
 * after    %y = add %x, %w    waits for 5, whose statement has waited for 3
 */
#include "passes/events.h"

#include "base/bug.h"

#include <string.h>

static void count_waits(EventFinder *f, Issue *issue)
{
    f->first_wait[issue->id] = f->nwaits;
    f->nwaits += issue->wait.n;
}

static void drop_wait(EventFinder *f, Issue *issue)
{
    int w = f->without - f->first_wait[issue->id];
    if (w < 0 || w >= issue->wait.n)
        return;
    for (; w + 1 < issue->wait.n; w++)
        issue->wait.at[w] = issue->wait.at[w + 1];
    issue->wait.n--;
}

/* A wait that no instance of its own statement needs may still serve later
 * statements: it is removed only if the simulation passes without it. */
static void drop_waits(EventFinder *f)
{
    for (int i = 0;; i++) {
        f->nwaits = 0;
        events_visit(f, count_waits);
        f->needed = NEW_ARRAY(f->p->arena, bool, f->nwaits + 1);
        f->without = -1;
        events_run(f, EVENTS_CHECK);
        if (f->missing)
            bug("events: %d statements lack a wait", f->missing);
        while (i < f->nwaits && f->needed[i])
            i++;
        if (i >= f->nwaits)
            return;
        f->without = i;
        events_run(f, EVENTS_CHECK);
        if (f->missing)
            continue;
        events_visit(f, drop_wait);
        i--;
    }
}

static void mark_event(EventFinder *f, Issue *issue)
{
    for (int w = 0; w < issue->wait.n; w++)
        f->needed[issue->wait.at[w].event] = true;
}

/* f->count has the new number of each event. */
static void use_number(EventFinder *f, Issue *issue)
{
    if (issue->event >= 0)
        issue->event = f->needed[issue->event] ? f->count[issue->event] : -1;
    for (int w = 0; w < issue->wait.n; w++)
        issue->wait.at[w].event = f->count[issue->wait.at[w].event];
}

/* Numbers the events that are waited for, in the order of their records. */
static void number_events(EventFinder *f, Issue *issue)
{
    if (issue->event >= 0 && f->needed[issue->event] &&
        f->count[issue->event] < 0)
        f->count[issue->event] = f->s->nevents++;
}

static void drop_events(EventFinder *f)
{
    int n = f->s->nevents;
    Event *old = f->s->event;
    f->needed = NEW_ARRAY(f->p->arena, bool, n + 1);
    events_visit(f, mark_event);
    f->s->nevents = 0;
    memset(f->count, -1, sizeof *f->count * (size_t)f->s->nissues);
    events_visit(f, number_events);
    f->s->event = NEW_ARRAY(f->p->arena, Event, f->s->nevents + 1);
    for (int i = 0; i < n; i++)
        if (f->needed[i])
            f->s->event[f->count[i]] = old[i];
    events_visit(f, use_number);
    events_number_slots(f);
}

void events_drop(EventFinder *f)
{
    drop_waits(f);
    drop_events(f);
}
