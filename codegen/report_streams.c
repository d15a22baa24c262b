/* report_streams.c: the plan's section on streams.
 *
 *   Streams: compute, tensor, data (51 events)
 *     ag2   data    1 turn ahead   w1.weight.bf16 is there
 *                                  before rsqrt
 *
 * For every collective and transfer: the stream that it runs on, how many turns of its loop
 * ahead it is issued, what it waits for, and who waits for it.
 */
#include "codegen/report.h"
#include "passes/streams.h"

#include <string.h>

typedef struct Scan {
    const Program *p;
    const Op *op;      /* the collective or transfer */
    int event;         /* that it records; -1: none */
    int ahead;
    const char *after; /* "a is there, b has been read" */
    const char *before;
} Scan;

static const char *with(Arena *a, const char *list, const char *more)
{
    size_t n = strlen(more);
    for (const char *at = strstr(list, more); at; at = strstr(at + 1, more))
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ','))
            return list;
    return arena_printf(a, "%s%s%s", list, *list ? ", " : "", more);
}

static void scan_issue(Scan *s, const Issue *issue)
{
    Arena *a = s->p->arena;
    bool own = issue->op == s->op;
    if (own && issue->kind == ISSUE_AHEAD)
        s->ahead = issue->turns;
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

/* Twice: who waits may stand in front of who records. */
static Scan scan(const Program *p, const Op *op)
{
    Scan s = {.p = p, .op = op, .event = -1, .after = "", .before = ""};
    for (int i = 0; i < 2; i++) {
        scan_list(&s, &p->streams->step);
        scan_issue(&s, &p->streams->end);
    }
    return s;
}

static void line(Out *o, const Program *p, const Op *op, const char *label)
{
    Scan s = scan(p, op);
    const char *ahead = !s.ahead ? ""
        : arena_printf(p->arena, "%d turn%s ahead", s.ahead,
                       s.ahead == 1 ? "" : "s");
    out_line(o, "  %-5s %-7s %-13s %s", label, stream_name(op->stream), ahead,
             *s.after ? s.after : "at once");
    if (*s.before)
        out_line(o, "  %-27s before %s", "", s.before);
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
