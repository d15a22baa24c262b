/* waits.c: lists which statements of other streams a statement waits for.
 *
 *   %dw = einsum …                   statement 7
 *   record{event=7, …}
 *   wait{event=7, …} stream=2
 *   %dw.2 = reduce_scatter %dw …     statement 8 waits for 7
 */
#include "codegen/statements/statements.h"

#include "ir/analysis/statement.h"

typedef struct Waits {
    const Program *p;
    StatementWaits *of;
    int *index;      /* by op id: of the statement; -1: none */
    int *recorded;   /* by event: the statement that it follows; -1: none */
    int last[STREAM_TRANSFER + 1]; /* by stream: the last statement */
    VEC(const Op *) pending[STREAM_TRANSFER + 1]; /* by stream: waits before the next */
} Waits;

static int events_of(const Program *p)
{
    int64_t n = 0;
    for_ops(op, p->step)
        if ((op->kind == OP_record || op->kind == OP_wait) && attr_event(op) >= n)
            n = attr_event(op) + 1;
    return (int)n;
}

static void add_wait(Waits *w, int statement, int on)
{
    StatementWaits *list = &w->of[statement];
    for (int i = 0; i < list->n; i++)
        if (list->at[i] == on)
            return;
    vec_push(w->p->arena, list, on);
}

static void add_statement(Waits *w, int statement, int stream)
{
    for (int i = 0; i < w->pending[stream].n; i++) {
        int on = w->recorded[attr_event(w->pending[stream].at[i])];
        if (on >= 0)
            add_wait(w, statement, on);
    }
    w->pending[stream].n = 0;
    w->last[stream] = statement;
}

/* An event may be recorded after a wait for its record in an earlier iteration, so the
 * program is read twice. */
static void read_step(Waits *w)
{
    for_ops(op, w->p->step) {
        const Op *issued = op->phase == PH_INIT ? NULL : op_issued_at(op);
        if (op->kind == OP_record)
            w->recorded[attr_event(op)] = w->last[op->stream];
        else if (op->kind == OP_wait)
            vec_push(w->p->arena, &w->pending[op->stream], (const Op *)op);
        else if (issued && w->index[issued->id] >= 0)
            add_statement(w, w->index[issued->id], op->stream);
    }
}

StatementWaits *statement_waits(const Program *p, const Statement *statement, int n)
{
    Arena *a = p->arena;
    int events = events_of(p);
    Waits w = {.p = p, .of = NEW_ARRAY(a, StatementWaits, n + 1),
               .index = NEW_ARRAY(a, int, p->nops),
               .recorded = NEW_ARRAY(a, int, events + 1)};
    for (uint32_t i = 0; i < p->nops; i++)
        w.index[i] = -1;
    for (int i = 0; i < n; i++)
        w.index[statement[i].op->id] = i;
    for (int i = 0; i < events; i++)
        w.recorded[i] = -1;
    for (int s = 0; s <= STREAM_TRANSFER; s++)
        w.last[s] = -1;
    read_step(&w);
    read_step(&w);
    return w.of;
}
