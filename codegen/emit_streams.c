/* emit_streams.c: emits statements in their order of issue, with waits and
 * barriers before and event records after them (passes/streams.h).
 *
 * An all-gather that is prefetched one iteration early is emitted twice: before
 * the loop for the first layer, inside the loop for the next layer. Its buffer
 * and its event alternate between two slots:
 *
 *     {
 *         const int64_t layer = 0;
 *         parc_all_gather(rt, 1, AXIS_dp, 9, (ParcPart[]){ … layer % 2 … });
 *         parc_record(rt, PARC_DATA, 4 + layer % 2);
 *     }
 *     for (int64_t layer = 0; layer <= 31; layer++) {
 *         if (layer + 1 <= 31) {
 *             const int64_t next = layer + 1;
 *             parc_wait(rt, PARC_DATA, 9); // after: read of w1
 *             parc_all_gather(rt, 1, AXIS_dp, 9, (ParcPart[]){ … next % 2 … });
 *             parc_record(rt, PARC_DATA, 4 + next % 2);
 *         }
 *         parc_wait(rt, PARC_COMPUTE, 4 + layer % 2); // after: w1
 *         …
 */
#include "codegen/emitter.h"

#include "passes/streams.h"

#include <string.h>

const char *emit_stream_name(int stream)
{
    static const char *const name[STREAMS] = {"PARC_COMPUTE", "PARC_TENSOR",
                                              "PARC_DATA", "PARC_HOST"};
    return name[stream];
}

/* "4", "4 + layer % 2", "4 + (next + 1) % 2": the number of an event's slot, a
 * function of the iteration in which op runs. */
static const char *slot_text(const Emitter *e, const Event *event,
                             const Op *op, int offset)
{
    Arena *a = e->p->arena;
    const Op *loop = op ? op->region->owner : NULL;
    while (loop && loop != event->loop)
        loop = loop->region->owner;
    int number = e->first.events + event->number;
    if (event->slots == 1 || !loop)
        return arena_printf(a, "%d", number + offset);
    const char *turn = e->loop_name[loop->id];
    if (offset)
        turn = arena_printf(a, "(%s + %d)", turn, offset);
    return arena_printf(a, "%d + %s %% %d", number, turn,
                        event->slots);
}

/* "layer == 31": true in the loop's first iteration. */
static const char *first_turn(const Emitter *e, const Op *loop,
                              const char *turn)
{
    return arena_printf(e->p->arena, "%s == %lld", turn,
                        (long long)(loop_reverse(loop) ? loop_trips(loop) - 1
                                                       : 0));
}

/* Emits a wait; `turn` is the variable of the loop that contains the
 * statement. */
static void emit_wait(Emitter *e, const Issue *issue, const Wait *w,
                      const char *turn)
{
    Arena *a = e->p->arena;
    const char *call = arena_printf(
        a, "parc_wait(rt, %s, %s);", emit_stream_name(issue->stream),
        slot_text(e, &e->p->streams->event[w->event], issue->op, w->offset));
    const char *why = arena_printf(a, "/* after: %s */",
                                   c_comment(a, w->why));
    int width = e->o->indent + (int)(strlen(call) + strlen(why)) + 1;
    if (w->when == WAIT_FIRST) {
        out_line(e->o, "%s", why);
        out_line(e->o, "if (%s)", first_turn(e, issue_loop(issue), turn));
        out_line(e->o, "    %s", call);
    } else if (width <= 80) {
        out_line(e->o, "%s %s", call, why);
    } else {
        out_line(e->o, "%s", why);
        out_line(e->o, "%s", call);
    }
}

/* Emits the barriers of a statement, after its mark: before the operation, or
 * instead of a gather that moves nothing. */
static void emit_meetings(Emitter *e, const Issue *issue, const char *turn)
{
    Arena *a = e->p->arena;
    for (int i = 0; i < issue->meet.n; i++) {
        const Meeting *m = &issue->meet.at[i];
        bool first = m->when == WAIT_FIRST;
        out_line(e->o, "/* barrier: %s */", c_comment(a, m->why));
        if (first)
            out_line(e->o, "if (%s)", first_turn(e, issue_loop(issue), turn));
        out_line(e->o, "%sparc_meet(rt, %d, %s);", first ? "    " : "",
                 e->collective[e->collective_of[m->by->id]].id,
                 axes_expression(e, m->axes));
    }
}

static void emit_issue(Emitter *e, const Issue *issue, const char *turn)
{
    bool in_place = issue->op && memory_moves_nothing(e->p, issue->op);
    for (int i = 0; i < issue->wait.n; i++)
        emit_wait(e, issue, &issue->wait.at[i], turn);
    if (issue->op)
        emit_head(e, issue->op);
    if (!in_place)
        emit_meetings(e, issue, turn);
    if (issue->op)
        emit_body(e, issue->op);
    if (in_place)
        emit_meetings(e, issue, turn);
    if (issue->event >= 0)
        out_line(e->o, "parc_record(rt, %s, %s);",
                 emit_stream_name(issue->stream),
                 slot_text(e, &e->p->streams->event[issue->event], issue->op,
                           0));
}

void emit_step_border(Emitter *e, bool end)
{
    const StreamPlan *s = e->p->streams;
    e->o->indent += 4;
    emit_issue(e, end ? &s->end : &s->begin, "");
    e->o->indent -= 4;
}

/* ---- statements of other iterations -------------------------------------- */

/* The number of consecutive statements for the same iteration of the same
 * loop. */
static int same_turn(const IssueList *list, int from)
{
    const Issue *first = &list->at[from];
    int n = 1;
    while (from + n < list->n && list->at[from + n].kind == first->kind &&
           list->at[from + n].turns == first->turns &&
           list->at[from + n].at == first->at &&
           list->at[from + n].left == first->left &&
           list->at[from + n].op->region == first->op->region)
        n++;
    return n;
}

/* Emits statements of another iteration and the end of their block, which
 * declares its own variables. */
static void emit_block(Emitter *e, const IssueList *list, int from, int n,
                       const char *turn)
{
    size_t size = e->p->nvalues * sizeof *e->declared;
    bool *outside = arena_copy(e->p->arena, e->declared, size);
    memset(e->declared, 0, size);
    for (int i = from; i < from + n; i++)
        emit_issue(e, &list->at[i], turn);
    memcpy(e->declared, outside, size);
    e->o->indent -= 4;
    out_line(e->o, "}");
}

/* Declares the variable of a loop before the loop begins. */
static void declare_turn(Emitter *e, const Issue *issue)
{
    const Op *loop = issue->op->region->owner;
    int64_t layer = loop_reverse(loop) ? loop_trips(loop) - 1 - issue->turns
                                       : issue->turns;
    out_line(e->o, "const int64_t %s = %lld;", e->loop_name[loop->id],
             (long long)layer);
}

/* Emits, before a loop, statements of one of its first iterations. */
static void emit_first(Emitter *e, const IssueList *list, int from, int n)
{
    const Issue *issue = &list->at[from];
    const Op *outer = issue_loop(issue);
    out_line(e->o, "{");
    e->o->indent += 4;
    declare_turn(e, issue);
    emit_block(e, list, from, n, outer ? e->loop_name[outer->id] : "");
}

/* Emits, inside a loop, statements of a later iteration, if it exists. */
static void emit_ahead(Emitter *e, const IssueList *list, int from, int n)
{
    const Issue *issue = &list->at[from];
    const Op *loop = issue->op->region->owner;
    const char *turn = e->loop_name[loop->id];
    const char *next = e->next_name[loop->id];
    if (loop_reverse(loop))
        out_line(e->o, "if (%s >= %d) {", turn, issue->turns);
    else
        out_line(e->o, "if (%s + %d <= %lld) {", turn, issue->turns,
                 (long long)(loop_trips(loop) - 1));
    e->o->indent += 4;
    out_line(e->o, "const int64_t %s = %s %c %d;", next, turn,
             loop_reverse(loop) ? '-' : '+', issue->turns);
    e->loop_name[loop->id] = next;
    emit_block(e, list, from, n, turn);
    e->loop_name[loop->id] = turn;
}

/* Emits, in one of the last iterations of a loop, statements that come after
 * the loop. */
static void emit_late(Emitter *e, const IssueList *list, int from, int n)
{
    const Issue *issue = &list->at[from];
    const Op *loop = issue->at;
    const char *turn = e->loop_name[loop->id];
    int64_t layer = loop_reverse(loop) ? issue->left
                                       : loop_trips(loop) - 1 - issue->left;
    out_line(e->o, "if (%s == %lld) {", turn, (long long)layer);
    e->o->indent += 4;
    if (issue->kind == ISSUE_FIRST)
        declare_turn(e, issue);
    emit_block(e, list, from, n, turn);
}

/* A statement issued before a loop runs in the loop's phase. */
static Phase phase_of(const Issue *issue)
{
    const Op *op = issue->at                    ? issue->at
                   : issue->kind == ISSUE_FIRST ? issue->op->region->owner
                                                : issue->op;
    return op->phase;
}

void emit_issues(Emitter *e, const IssueList *list, const Phase *phase)
{
    int n;
    for (int i = 0; i < list->n; i += n) {
        const Issue *issue = &list->at[i];
        bool late = issue->at && issue->at->kind == OP_loop;
        n = issue->kind == ISSUE_HERE && !late ? 1 : same_turn(list, i);
        if (phase && phase_of(issue) != *phase)
            continue;
        if (late) {
            emit_late(e, list, i, n);
        } else if (issue->kind == ISSUE_FIRST) {
            emit_first(e, list, i, n);
        } else if (issue->kind == ISSUE_AHEAD) {
            emit_ahead(e, list, i, n);
        } else {
            const Op *loop = issue_loop(issue);
            emit_issue(e, issue, loop ? e->loop_name[loop->id] : "");
        }
    }
}
