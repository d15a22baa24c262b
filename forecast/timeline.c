/* timeline.c: runs the streams of a rank; see timeline.h. */
#include "forecast/timeline.h"

#include <math.h>

#include "base/bug.h"
#include "forecast/sharing.h"
#include "forecast/streams.h"

/* ---- what a stream issues ------------------------------------------------ */

static void start_work(Clockwork *c, Stream *s, int statement)
{
    s->runs = statement;
    s->left = c->work[statement].seconds + machine_value(c->machine, graph_node);
    s->span = c->log.span.n;
    vec_push(c->p->arena, &c->log.span, ((Span){s->number, statement, c->now, c->now}));
}

/* Whether the work of another stream cannot begin because a matmul keeps all
 * multiprocessors. */
static bool is_kept_out(const Clockwork *c, const Work *w)
{
    const Stream *compute = &c->stream[STREAM_COMPUTE];
    bool needs = w->blocks > 0 || w->class == WORK_KERNEL;
    return needs && compute->runs >= 0 && c->work[compute->runs].persistent;
}

/* Whether the stream may go on after a wait. */
static bool passes_wait(Clockwork *c, Stream *s, const Op *wait)
{
    int slot = issue_slot(&s->walk, wait);
    if (attr_first(wait) && !issue_is_first(&s->walk))
        return true;
    s->awaits = c->done[slot] < s->recorded[slot] ? slot : -1;
    double seen = c->when[slot] + machine_value(c->machine, graph_edge);
    if (s->awaits < 0 && c->done[slot] > 0 && seen > s->ready)
        s->ready = seen;
    return s->awaits < 0;
}

static void record(Clockwork *c, Stream *s, const Op *op, bool own)
{
    int slot = issue_slot(&s->walk, op);
    s->recorded[slot]++;
    if (own) {
        c->done[slot]++;
        c->when[slot] = c->now;
    }
}

static bool passes_join(Clockwork *c, Stream *s)
{
    if (!s->joining)
        s->joins++;
    s->joining = true;
    for (int k = 0; k < c->nstreams; k++)
        if (c->stream[k].joins < s->joins)
            return false;
    s->joining = false;
    return true;
}

/* Whether the stream is past what it is to issue next. */
static bool issues(Clockwork *c, Stream *s)
{
    const Op *op = s->next.op;
    bool own = s->next.statement->stream == s->number;
    if (op->kind == OP_join)
        return passes_join(c, s);
    if (op->kind == OP_record) {
        record(c, s, op, own);
    } else if (op->kind == OP_wait) {
        return !own || passes_wait(c, s, op);
    } else if (own && !op_is_schedule(op->kind)) {
        int statement = c->statement_of[op->id];
        if (statement < 0 || c->work[statement].seconds <= 0 ||
            (c->part == ISSUE_ACTION && c->work[statement].class == WORK_SEND))
            return true; /* in an action, a transfer at the ends of a loop moves nothing */
        if (is_kept_out(c, &c->work[statement]))
            return false;
        start_work(c, s, statement);
    }
    return true;
}

/* Goes on until the stream runs something, waits, or is at its end. Returns whether it
 * did something. */
static bool advance(Clockwork *c, Stream *s)
{
    bool moved = false;
    while (s->runs < 0 && !s->ended && s->ready <= c->now) {
        if (!s->has_next) {
            IssueStop stop = issue_next(&s->walk, &s->next);
            s->ended = stop == ISSUE_END;
            s->has_next = stop == ISSUE_OP;
            moved = true;
            if (stop == ISSUE_ITERATION && s->number == STREAM_COMPUTE && !c->whole) {
                c->skips = true;
                return true;
            }
            continue;
        }
        if (!issues(c, s))
            return moved;
        s->has_next = false;
        moved = true;
    }
    return moved;
}

/* Streams of collectives go first: they have priority. */
static void advance_all(Clockwork *c)
{
    static const int order[STREAMS] = {STREAM_TENSOR, STREAM_DATA, STREAM_HOST,
                                       STREAM_COMPUTE};
    bool moved = true;
    while (moved) {
        moved = false;
        for (int i = 0; i < STREAMS; i++)
            if (order[i] < c->nstreams)
                moved |= advance(c, &c->stream[order[i]]);
        if (c->skips)
            skip_periods(c);
        c->skips = false;
    }
}

/* ---- time ---------------------------------------------------------------- */

/* The statement that the stream waits for; -1: none. */
static int awaited(const Clockwork *c, const Stream *s)
{
    for (int hops = 0; hops < STREAMS; hops++) {
        if (s->awaits < 0 && !s->joining)
            return -1;
        const Stream *on = s->awaits >= 0 ? &c->stream[c->records[s->awaits]] : NULL;
        for (int k = 0; !on && k < c->nstreams; k++)
            if (c->stream[k].runs >= 0)
                on = &c->stream[k];
        if (!on || on->runs >= 0)
            return on ? on->runs : -1;
        s = on;
    }
    return -1;
}

/* The time until a statement ends or a stream sees an event; INFINITY: never. */
static double next_change(const Clockwork *c)
{
    double least = INFINITY;
    for (int k = 0; k < c->nstreams; k++) {
        const Stream *s = &c->stream[k];
        double t = s->runs >= 0 ? s->left / s->speed
                   : !s->ended && s->ready > c->now ? s->ready - c->now
                                                    : INFINITY;
        least = t < least ? t : least;
    }
    return least;
}

static void count_time(Clockwork *c, double t)
{
    const Stream *compute = &c->stream[STREAM_COMPUTE];
    for (int k = 0; k < c->nstreams; k++) {
        const Stream *s = &c->stream[k];
        if (s->runs < 0)
            continue;
        c->time[s->runs].run += t;
        c->time[s->runs].slowed += t * (1 - s->speed);
    }
    int at = compute->runs >= 0 ? compute->runs : awaited(c, compute);
    if (at < 0)
        at = c->nstatements; /* waits for no statement */
    c->time[at].exposed += t;
}

static void pass_time(Clockwork *c, double t)
{
    count_time(c, t);
    c->now += t;
    for (int k = 0; k < c->nstreams; k++) {
        Stream *s = &c->stream[k];
        if (s->runs < 0) {
            if (s->ready > c->now && s->ready - c->now <= 1e-15 * c->now)
                s->ready = c->now;
            continue;
        }
        s->left -= t * s->speed;
        if (s->left <= 1e-12 * c->work[s->runs].seconds) {
            c->log.span.at[s->span].end = c->now;
            s->runs = -1;
        }
    }
}

static bool ends(const Clockwork *c)
{
    for (int k = 0; k < c->nstreams; k++)
        if (!c->stream[k].ended || c->stream[k].runs >= 0)
            return false;
    return true;
}

Timeline timeline_of(const Program *p, const Machine *m, const Work *work, int n,
                     IssueScope scope, bool whole)
{
    Clockwork c = clockwork_new(p, m, work, n, scope);
    c.whole = whole;
    for (;;) {
        advance_all(&c);
        if (ends(&c))
            break;
        share_device(&c);
        double t = next_change(&c);
        if (isinf(t))
            bug("forecast: the streams wait for each other");
        pass_time(&c, t);
    }
    return (Timeline){.seconds = c.now, .waits = c.time[n].exposed, .time = c.time,
                      .log = c.log};
}
