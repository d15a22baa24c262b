/* events_drop.c: removes waits that other waits imply and events without waits;
 * numbers the remaining events in the order in which they are recorded.
 *
 * before   %y = add %x, %w    waits for 3 (after: x) and 5 (after: w)
 * after    %y = add %x, %w    waits for 5, whose statement has waited for 3
 */
#include "passes/sync/events.h"

#include "base/bug.h"

#include <string.h>

static void count_waits(EventFinder *f)
{
    f->nwaits = 0;
    for (int i = 0; i < f->nsynced; i++) {
        f->first_wait[i] = f->nwaits;
        f->nwaits += f->synced[i].wait.n;
    }
}

/* Removes the wait f->without. */
static void drop_wait(EventFinder *f)
{
    int i = f->nsynced - 1;
    while (f->first_wait[i] > f->without || f->synced[i].wait.n == 0)
        i--;
    Synced *s = &f->synced[i];
    s->wait.n--;
    for (int w = f->without - f->first_wait[i]; w < s->wait.n; w++)
        s->wait.at[w] = s->wait.at[w + 1];
}

/* A wait that no instance of its own statement needs may still serve later
 * statements: it is removed only if the simulation passes without it. */
static void drop_waits(EventFinder *f)
{
    for (int i = 0;; i++) {
        count_waits(f);
        f->needed = NEW_ARRAY(f->p->arena, bool, f->nwaits + 1);
        f->without = -1;
        events_run(f, EVENTS_CHECK);
        if (f->missing)
            bug("sync: %d statements lack a wait", f->missing);
        while (i < f->nwaits && f->needed[i])
            i++;
        if (i >= f->nwaits)
            return;
        f->without = i;
        events_run(f, EVENTS_CHECK);
        if (f->missing)
            continue;
        drop_wait(f);
        i--;
    }
}

static void mark_events(EventFinder *f)
{
    for (int i = 0; i < f->nsynced; i++)
        for (int w = 0; w < f->synced[i].wait.n; w++)
            f->needed[f->synced[i].wait.at[w].event] = true;
}

/* Numbers the events that are waited for, in the order of their records:
 * f->count has the new number of each. */
static void number_events(EventFinder *f)
{
    memset(f->count, -1, sizeof *f->count * (size_t)f->nsynced);
    f->nevents = 0;
    for (int i = 0; i < f->nsynced; i++) {
        int event = f->synced[i].event;
        if (event >= 0 && f->needed[event] && f->count[event] < 0)
            f->count[event] = f->nevents++;
    }
}

static void use_numbers(EventFinder *f)
{
    for (int i = 0; i < f->nsynced; i++) {
        Synced *s = &f->synced[i];
        if (s->event >= 0)
            s->event = f->needed[s->event] ? f->count[s->event] : -1;
        for (int w = 0; w < s->wait.n; w++)
            s->wait.at[w].event = f->count[s->wait.at[w].event];
    }
}

static void drop_events(EventFinder *f)
{
    int n = f->nevents;
    Event *old = f->event;
    f->needed = NEW_ARRAY(f->p->arena, bool, n + 1);
    mark_events(f);
    number_events(f);
    f->event = NEW_ARRAY(f->p->arena, Event, f->nevents + 1);
    for (int i = 0; i < n; i++)
        if (f->needed[i])
            f->event[f->count[i]] = old[i];
    use_numbers(f);
    events_number_slots(f);
}

void events_drop(EventFinder *f)
{
    drop_waits(f);
    drop_events(f);
}
