/* report_streams.c: prints the plan's section on streams: when each collective
 * and transfer is issued, and what it waits for.
 *
 *   Streams: compute, tensor, data (51 events)
 *     ag2   data    after: w1.weight.bf16; prefetched 1 iteration ahead
 *                   first issued before tok_embeddings
 *                   before: rsqrt
 *     rs9   data    after: d_w1.weight
 *                   then: k07_cast_grad
 *
 * For every collective and transfer: its stream, the values that it waits for,
 * its prefetch distance in iterations of its loop, where it is issued if that
 * is outside of the loop, the first consumers, which wait for it, and the kernels that
 * follow it on its stream (schedule_streams.c).
 */
#include "ir/analysis/alias.h"
#include "ir/analysis/statement.h"
#include "ir/plan/pipeline.h"
#include "ir/units.h"
#include "passes/sync/simulate.h"
#include "report/report.h"

typedef struct Scan {
    const Program *p;
    const Op *op;      /* the collective or transfer */
    int64_t event;     /* the first slot of the event that it records; -1 */
    int64_t distance;     /* prefetch distance of the op, in iterations */
    const Op *hoisted; /* the start of the op, or of its first iteration, before
                        * another statement; NULL: none */
    const Op *statement; /* the statement before the present op; NULL: none */
    VEC(const Op *) wait; /* the waits before the next statement */
    const char *after; /* the values that it waits for: "a, read of b" */
    const char *before; /* the statements that wait for it */
} Scan;

static const Op *early_of(const Op *at)
{
    const Op *owner = at->region->owner;
    return owner && owner->kind == OP_early ? owner : NULL;
}

/* Whether a start is not directly before its op or the loop of its op. */
static bool is_hoisted(const Op *start)
{
    const Op *early = early_of(start), *op = attr_op(start);
    if (!early)
        return !op_loop(start);
    if (attr_remaining(early) >= 0)
        return true;
    if (attr_iteration(early) < 0)
        return false;
    const Op *next = early->next;
    while (next && op_is_schedule(next->kind))
        next = next->next;
    return next != op_loop(op);
}

/* The waits before the end of the step, or before the statement `at`, which
 * runs `op`. */
static void scan_statement(Scan *s, const Op *at, const Op *op)
{
    Arena *a = s->p->arena;
    bool own = op && op == s->op;
    const Op *early = own ? early_of(at) : NULL;
    if (early && attr_distance(early) > 0)
        s->distance = attr_distance(early);
    if (own && at != op && is_hoisted(at) && !s->hoisted)
        s->hoisted = at;
    for (int i = 0; i < s->wait.n; i++) {
        const Op *wait = s->wait.at[i];
        if (own)
            s->after =
                report_listed(a, s->after, attr_why(wait), ", ");
        if (attr_event(wait) == s->event)
            s->before = report_listed(
                a, s->before, op ? op->out[0]->name : "the end", ", ");
    }
    s->wait.n = 0;
    s->statement = op;
}

static void scan_op(Op *op, void *context)
{
    Scan *s = context;
    const Op *issued = op_issued_at(op);
    if (op->kind == OP_wait)
        vec_push(s->p->arena, &s->wait, op);
    else if (op->kind == OP_record && s->statement == s->op)
        s->event = attr_event(op);
    else if (issued)
        scan_statement(s, op, issued);
}

/* Scans the step twice, because the first scan finds the event of the op: a
 * statement that waits for the previous iteration may come before the op. */
static Scan scan(const Program *p, const Op *op)
{
    Scan s = {.p = p, .op = op, .event = -1, .after = "", .before = ""};
    for (int i = 0; i < 2; i++) {
        ir_walk(p->step, scan_op, &s);
        scan_statement(&s, NULL, NULL);
    }
    return s;
}

/* The unit whose layers the loop iterates over, or the loop's module. */
static const char *loop_text(const Op *loop)
{
    for (const Op *op = loop->body->first; op; op = op->next)
        if (op_is_unit_gather(op))
            return attr_unit(op);
    return *loop->path ? loop->path : "the loop";
}

/* "first issued in the last iteration of layers.*", "issued before norm". */
static const char *hoist_text(Arena *a, const Op *start)
{
    const Op *early = early_of(start), *at = early ? early : start;
    int64_t remaining = early ? attr_remaining(early) : -1;
    const char *first =
        early && attr_iteration(early) >= 0 ? "first " : "";
    if (remaining == 0)
        return arena_printf(a, "%sissued in the last iteration of %s", first,
                            loop_text(op_loop(early)));
    if (remaining > 0)
        return arena_printf(a, "%sissued %lld iterations before the end of %s",
                            first, (long long)remaining + 1,
                            loop_text(op_loop(early)));
    while (at->next && (at->nouts == 0 || at->kind == OP_param))
        at = at->next;
    return arena_printf(a, "%sissued before %s", first,
                        at->nouts ? at->out[0]->name : "the end");
}

static void line(Out *o, const Program *p, const Op *op, const char *label)
{
    Scan s = scan(p, op);
    const char *ahead = "";
    if (s.distance)
        ahead = arena_printf(p->arena, "; prefetched %lld iteration%s ahead",
                             (long long)s.distance, s.distance == 1 ? "" : "s");
    const Op *staged = pipeline_loop(p);
    int stream = staged && op_transfers(op) ? STREAM_TRANSFER : op->stream;
    out_line(o, "  %-5s %-*s %s%s%s", label, staged ? 8 : 7, stream_name(stream),
             *s.after ? "after: " : "issued immediately", s.after, ahead);
    if (s.hoisted)
        out_line(o, "  %-13s %s", "", hoist_text(p->arena, s.hoisted));
    if (*s.before)
        out_line(o, "  %-13s before: %s", "", s.before);
}

static bool reads_result(const Op *op, const Op *of)
{
    for (int i = 0; i < op->nargs; i++)
        if (value_root(op->arg[i])->def == of)
            return true;
    return false;
}

/* The kernels on the collective's stream that read its results: some of them, and how many. */
static void followers(Out *o, const Program *p, const Op *collective)
{
    enum { MOST = 2 };
    int nstatements, n = 0;
    if (collective->stream == STREAM_COMPUTE)
        return;
    const Statement *w = statements_of(p, &nstatements);
    const char *text = "";
    for (int i = 0; i < nstatements; i++) {
        if (w[i].op->kind != OP_fused || w[i].op->stream != collective->stream ||
            !reads_result(w[i].op, collective))
            continue;
        if (n++ < MOST)
            text = arena_printf(p->arena, "%s%s%s", text, *text ? ", " : "", w[i].id);
    }
    if (n)
        out_line(o, "  %-13s then: %s%s", "", text,
                 n > MOST ? arena_printf(p->arena, " and %d more", n - MOST) : "");
}

void report_streams(Out *o, const Program *p, const CollectiveInfo *c, int n)
{
    int ntransfers;
    const TransferInfo *x = transfers_of(p, &ntransfers);
    if (p->streams < 2 || (!n && !ntransfers))
        return;
    out(o, "\nStreams:");
    for (int i = 0; i < p->streams; i++)
        if (i != STREAM_HOST || ntransfers)
            out(o, "%s %s", i ? "," : "", stream_name(i));
    out(o, " (%d events)\n", program_event_slots(p));
    for (int i = 0; i < n; i++) {
        line(o, p, c[i].op, c[i].label);
        followers(o, p, c[i].op);
    }
    for (int i = 0; i < ntransfers; i++)
        line(o, p, x[i].op, x[i].label);
}
