/* sync.c: the pass `sync`: inserts the synchronization that the schedule needs,
 * between the streams of a rank (events.c), between ranks of a node
 * (barriers.c).
 *
 * requires: Program.memory, and the order of issue and the streams of ops
 * ensures:  ops record and wait such that every execution of the streams
 *           accesses memory as a serial execution would. On a target with one
 *           stream: ops barrier; and ops await for what a stage of a pipeline
 *           sends, which the receiver copies later
 *
 * before   %dw = einsum %dy, %x …
 *          %dw.2 = reduce_scatter{axes={dp}, …} %dw … stream=2
 * after    %dw = einsum %dy, %x …
 *          record{event=7, …}
 *          wait{event=7, …, why="dw"} stream=2
 *          %dw.2 = reduce_scatter{axes={dp}, …} %dw … stream=2
 */
#include "passes/sync/events.h"

#include "base/bug.h"
#include "ir/analysis/statement.h"

static void add_statement(EventFinder *f, Op *at)
{
    if (at)
        f->synced_of[at->id] = f->nsynced;
    f->synced[f->nsynced++] = (Synced){.at = at, .event = -1,
                                       .stream = at ? at->stream
                                                    : STREAM_COMPUTE};
}

static void find_statements(EventFinder *f)
{
    f->synced = NEW_ARRAY(f->p->arena, Synced, f->p->nops + 2);
    f->synced_of = NEW_ARRAY(f->p->arena, int, f->p->nops);
    add_statement(f, NULL);
    for_ops(op, f->p->step)
        if (op->phase != PH_INIT && op_issued_at(op))
            add_statement(f, op);
    add_statement(f, NULL);
}

static void find_events(EventFinder *f)
{
    Arena *a = f->p->arena;
    find_statements(f);
    int n = f->nsynced;
    f->count = NEW_ARRAY(a, int, n);
    f->latest = NEW_ARRAY(a, int, n);
    f->recorded = NEW_ARRAY(a, int, n * EVENTS_SLOTS);
    f->event = NEW_ARRAY(a, Event, n);
    events_follow(f);
    events_run(f, EVENTS_DISCOVER);
    events_number_slots(f);
    events_follow(f);
    events_run(f, EVENTS_PLACE);
    events_insert(f);
}

const char *events_check(const Program *p)
{
    const char *fault = stages_check(p);
    fault = fault ? fault : transfers_check(p);
    return fault             ? fault
           : p->streams == 1 ? barriers_check(p, NULL)
                             : hazards_check(p, NULL);
}

void pass_sync(Program *p, const TargetInfo *t)
{
    joins_insert(p);
    if (t->streams == 1) {
        barriers_find(p);
    } else {
        EventFinder f = {.p = p};
        find_events(&f);
    }
    transfer_events_insert(p);
    const char *fault = events_check(p);
    if (fault)
        bug("sync: %s", fault);
}
