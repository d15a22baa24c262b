/* events_insert.c: inserts the waits and records that events.c found as ops.
 *
 * A wait precedes its statement, a record follows it. Both are in the region of
 * the statement: inside an `early`, they are for the iteration that it names.
 */
#include "passes/sync/events.h"

/* The op that a statement runs. */
const Op *events_op(const Synced *s)
{
    return s->at && s->at->kind == OP_start ? attr_op(s->at) : s->at;
}

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
    for (int i = 0; i < f->nsynced; i++) {
        const Synced *s = &f->synced[i];
        for (int w = 0; w < s->wait.n; w++)
            insert_wait(f, s, &s->wait.at[w]);
        if (s->event >= 0)
            insert_record(f, s, s->at ? s->at->next : first_op(f->p));
    }
}
