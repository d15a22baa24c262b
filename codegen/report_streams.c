/* report_streams.c: prints the plan's section on streams: when each collective
 * and transfer is issued, and what it waits for.
 *
 *   Streams: compute, tensor, data (51 events)
 *     ag2   data    after: w1.weight.bf16; prefetched 1 iteration ahead
 *                   first issued before tok_embeddings
 *                   before: rsqrt
 *
 * For every collective and transfer: its stream, the values that it waits for,
 * its prefetch distance in iterations of its loop, where it is issued if that
 * is outside of the loop, and the first consumers, which wait for it.
 */
#include "codegen/report.h"
#include "passes/streams.h"

#include <string.h>

typedef struct Scan {
    const Program *p;
    const Op *op;      /* the collective or transfer */
    int event;         /* the event that it records; -1: none */
    int ahead;         /* prefetch distance of the op, in iterations */
    const Issue *lead; /* issue of the op, or of its first iteration, before
                        * another statement; NULL: none */
    const char *after; /* the values that it waits for: "a, read of b" */
    const char *before; /* the statements that wait for it */
} Scan;

static const char *with(Arena *a, const char *list, const char *more)
{
    size_t n = strlen(more);
    for (const char *at = strstr(list, more); at; at = strstr(at + 1, more))
        if ((at == list || strncmp(at - 2, ", ", 2) == 0) &&
            (!at[n] || at[n] == ','))
            return list;
    return arena_printf(a, "%s%s%s", list, *list ? ", " : "", more);
}

static void scan_issue(Scan *s, const Issue *issue)
{
    Arena *a = s->p->arena;
    bool own = issue->op == s->op;
    if (own && issue->kind == ISSUE_AHEAD)
        s->ahead = issue->turns;
    if (own && issue->at && !s->lead)
        s->lead = issue;
    if (own && issue->event >= 0)
        s->event = issue->event;
    for (int i = 0; i < issue->wait.n; i++) {
        const Wait *w = &issue->wait.at[i];
        if (own)
            s->after = with(a, s->after, w->why);
        if (w->event != s->event || s->event < 0)
            continue;
        const char *who = issue->op ? issue->op->out[0]->name : "the end";
        s->before = with(a, s->before, who);
    }
}

static void scan_list(Scan *s, const IssueList *list)
{
    for (int i = 0; i < list->n; i++) {
        scan_issue(s, &list->at[i]);
        if (list->at[i].op->kind == OP_loop)
            scan_list(s, &s->p->streams->body[list->at[i].op->id]);
    }
}

/* Scans the step twice, because the first scan finds the event of the op: a
 * statement that waits for the previous iteration may come before the op. */
static Scan scan(const Program *p, const Op *op)
{
    Scan s = {.p = p, .op = op, .event = -1, .after = "", .before = ""};
    for (int i = 0; i < 2; i++) {
        scan_list(&s, &p->streams->step);
        scan_issue(&s, &p->streams->end);
    }
    return s;
}

/* The unit whose layers the loop iterates over, or the loop's module. */
static const char *loop_text(const Op *loop)
{
    for (const Op *op = loop->body->first; op; op = op->next)
        if (live_is_unit_gather(op))
            return op->attr[1].s;
    return *loop->path ? loop->path : "the loop";
}

/* "first issued in the last iteration of layers.*", "issued before norm". */
static const char *lead_text(Arena *a, const Issue *issue)
{
    const char *first = issue->kind == ISSUE_FIRST ? "first " : "";
    const Op *at = issue->at;
    if (at->kind == OP_loop && issue->left == 0)
        return arena_printf(a, "%sissued in the last iteration of %s", first,
                            loop_text(at));
    if (at->kind == OP_loop)
        return arena_printf(a, "%sissued %d iterations before the end of %s",
                            first, issue->left + 1, loop_text(at));
    while (at->next && (at->nouts == 0 || at->kind == OP_param))
        at = at->next;
    return arena_printf(a, "%sissued before %s", first,
                        at->nouts ? at->out[0]->name : "the end");
}

static void line(Out *o, const Program *p, const Op *op, const char *label)
{
    Scan s = scan(p, op);
    const char *ahead = "";
    if (s.ahead)
        ahead = arena_printf(p->arena, "; prefetched %d iteration%s ahead",
                             s.ahead, s.ahead == 1 ? "" : "s");
    out_line(o, "  %-5s %-7s %s%s%s", label, stream_name(op->stream),
             *s.after ? "after: " : "issued immediately", s.after, ahead);
    if (s.lead)
        out_line(o, "  %-13s %s", "", lead_text(p->arena, s.lead));
    if (*s.before)
        out_line(o, "  %-13s before: %s", "", s.before);
}

void report_streams(Out *o, const Program *p, const CollectiveInfo *c, int n)
{
    int ntransfers;
    const TransferInfo *x = transfers_of(p, &ntransfers);
    if (!p->streams || p->streams->streams < 2 || (!n && !ntransfers))
        return;
    out_line(o, "");
    out(o, "Streams:");
    for (int i = 0; i < p->streams->streams; i++)
        if (i != STREAM_HOST || ntransfers)
            out(o, "%s %s", i ? "," : "", stream_name(i));
    out(o, " (%d events)\n", p->streams->nslots);
    for (int i = 0; i < n; i++)
        line(o, p, c[i].op, c[i].label);
    for (int i = 0; i < ntransfers; i++)
        line(o, p, x[i].op, x[i].label);
}
