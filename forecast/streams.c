/* streams.c: the state of the streams of a rank, and the periods of loops that are left
 * out; see streams.h. */
#include "forecast/streams.h"

#include <math.h>
#include <string.h>

#include "passes/sync/simulate.h"

/* SNAPSHOTS: as many iterations back a state is compared. */
enum { SNAPSHOTS = 8 };

/* The state at the begin of an iteration. */
struct Snapshot {
    bool taken;
    double now;
    Stream stream[STREAMS];
    int64_t *recorded[STREAMS], *done;
    double *when;
    StatementTime *time;
};

/* ---- the state ----------------------------------------------------------- */

static void list_records(Clockwork *c)
{
    c->records = NEW_ARRAY(c->p->arena, int, c->nslots + 1);
    for_ops(op, c->p->step)
        for (int64_t i = 0; op->kind == OP_record && i < attr_slots(op); i++)
            c->records[attr_event(op) + i] = op->stream;
}

Clockwork clockwork_new(const Program *p, const Machine *m, const Work *work, int n,
                        IssueScope scope)
{
    Arena *a = p->arena;
    Clockwork c = {.p = p, .machine = m, .work = work, .part = scope.part, .nstatements = n,
                   .nstreams = p->streams, .nslots = program_event_slots(p)};
    c.statement_of = NEW_ARRAY(a, int, p->nops);
    for (uint32_t i = 0; i < p->nops; i++)
        c.statement_of[i] = -1;
    for (int i = 0; i < n; i++)
        c.statement_of[work[i].statement->op->id] = i;
    c.done = NEW_ARRAY(a, int64_t, c.nslots + 1);
    c.when = NEW_ARRAY(a, double, c.nslots + 1);
    c.time = NEW_ARRAY(a, StatementTime, n + 1);
    for (int k = 0; k < c.nstreams; k++)
        c.stream[k] = (Stream){.number = k, .walk = issue_walk_part(p, scope),
                               .runs = -1,
                               .awaits = -1,
                               .recorded = NEW_ARRAY(a, int64_t, c.nslots + 1)};
    list_records(&c);
    return c;
}

/* ---- snapshots ----------------------------------------------------------- */

static struct Snapshot *snapshots_of(Clockwork *c, int depth)
{
    if (c->last[depth])
        return c->last[depth];
    Arena *a = c->p->arena;
    struct Snapshot *s = NEW_ARRAY(a, struct Snapshot, SNAPSHOTS);
    for (int i = 0; i < SNAPSHOTS; i++) {
        for (int k = 0; k < c->nstreams; k++)
            s[i].recorded[k] = NEW_ARRAY(a, int64_t, c->nslots + 1);
        s[i].done = NEW_ARRAY(a, int64_t, c->nslots + 1);
        s[i].when = NEW_ARRAY(a, double, c->nslots + 1);
        s[i].time = NEW_ARRAY(a, StatementTime, c->nstatements + 1);
    }
    return c->last[depth] = s;
}

static void take_snapshot(const Clockwork *c, struct Snapshot *s)
{
    size_t slots = (size_t)c->nslots;
    s->taken = true;
    s->now = c->now;
    for (int k = 0; k < c->nstreams; k++) {
        s->stream[k] = c->stream[k];
        memcpy(s->recorded[k], c->stream[k].recorded, slots * sizeof *s->recorded[k]);
    }
    memcpy(s->done, c->done, slots * sizeof *s->done);
    memcpy(s->when, c->when, slots * sizeof *s->when);
    memcpy(s->time, c->time, ((size_t)c->nstatements + 1) * sizeof *s->time);
}

static bool near(double a, double b, double unit)
{
    return fabs(a - b) <= 1e-12 * unit;
}

/* Whether the stream is in the loop that frame `depth` of the compute stream walks over. */
static bool is_inside(const Clockwork *c, const Stream *s, int depth)
{
    const IssueWalk *compute = &c->stream[STREAM_COMPUTE].walk;
    if (s->walk.nframes <= depth)
        return false;
    for (int i = 0; i <= depth; i++)
        if (s->walk.frame[i].loop != compute->frame[i].loop ||
            (i < depth && s->walk.frame[i].iteration != compute->frame[i].iteration))
            return false;
    return true;
}

/* Whether two positions in the order of issue differ by `shift` iterations of the loop of
 * frame `depth` only; `inside`: the stream is in that loop. */
static bool same_place(const IssueWalk *a, const IssueWalk *b, bool inside, int depth,
                       int64_t shift)
{
    if (a->nframes != b->nframes || a->early != b->early || a->next != b->next)
        return false;
    for (int i = 0; i < a->nframes; i++) {
        const IssueFrame *x = &a->frame[i], *y = &b->frame[i];
        int64_t more = inside && i == depth ? shift : 0;
        if (x->loop != y->loop || x->next != y->next ||
            y->iteration - x->iteration != more ||
            (x->iteration == 0) != (y->iteration == 0))
            return false;
    }
    return true;
}

/* What the stream has not seen of the records so far. */
static bool same_events(const Clockwork *c, const struct Snapshot *s, int stream)
{
    for (int i = 0; i < c->nslots; i++)
        if (c->stream[stream].recorded[i] - c->done[i] !=
            s->recorded[stream][i] - s->done[i])
            return false;
    return true;
}

static bool same_stream(const Clockwork *c, const struct Snapshot *s, int stream,
                        int depth, int64_t shift)
{
    const Stream *x = &s->stream[stream], *y = &c->stream[stream];
    bool inside = is_inside(c, y, depth);
    double rest_x = fmax(x->ready - s->now, 0), rest_y = fmax(y->ready - c->now, 0);
    if (x->ended != y->ended || x->runs != y->runs || x->has_next != y->has_next ||
        x->awaits != y->awaits || x->joining != y->joining ||
        (y->has_next && x->next.statement != y->next.statement))
        return false;
    if (y->runs >= 0 && !near(x->left, y->left, c->work[y->runs].seconds))
        return false;
    if (!near(rest_x, rest_y, c->now) || (!y->ended && !same_place(&x->walk, &y->walk,
                                                                  inside, depth, shift)))
        return false;
    return !inside || same_events(c, s, stream);
}

static bool same_state(const Clockwork *c, const struct Snapshot *s, int depth,
                       int64_t shift)
{
    double edge = machine_value(c->machine, graph_edge);
    for (int k = 0; k < c->nstreams; k++)
        if (!same_stream(c, s, k, depth, shift))
            return false;
    for (int i = 0; i < c->nslots; i++) {
        double x = s->now - s->when[i], y = c->now - c->when[i];
        if (!near(x < edge ? x : edge, y < edge ? y : edge, c->now))
            return false;
    }
    return true;
}

/* ---- periods ------------------------------------------------------------- */

/* How many periods, of `shift` iterations each, can be left out: until a stream comes to
 * the loop's last iterations, or one that waits outside of it goes on. */
static int64_t periods_left(const Clockwork *c, const struct Snapshot *s, int depth,
                            int64_t shift)
{
    const IssueFrame *f = &c->stream[STREAM_COMPUTE].walk.frame[depth];
    int64_t end = f->trips - 2 - issue_ahead(f->loop) - issue_left(f->loop);
    int64_t least = (end - f->iteration) / shift;
    for (int k = 0; k < c->nstreams; k++) {
        const Stream *x = &c->stream[k];
        int64_t n = INT64_MAX;
        if (is_inside(c, x, depth)) {
            n = (end - x->walk.frame[depth].iteration) / shift;
        } else if (x->awaits >= 0) {
            int64_t each = c->done[x->awaits] - s->done[x->awaits];
            n = each > 0 ? (x->recorded[x->awaits] - c->done[x->awaits] - 1) / each : n;
        } else if (!x->ended) {
            n = 0;
        }
        least = n < least ? n : least;
    }
    return least;
}

static void leave_out(Clockwork *c, const struct Snapshot *s, int depth, int64_t shift,
                      int64_t n)
{
    double times = (double)n, period = c->now - s->now;
    const Op *loop = c->stream[STREAM_COMPUTE].walk.frame[depth].loop;
    Skip skip = {c->now, times * period, n * shift, loop};
    vec_push(c->p->arena, &c->log.skip, skip);
    for (int i = 0; i <= c->nstatements; i++) {
        StatementTime *t = &c->time[i];
        t->run += times * (t->run - s->time[i].run);
        t->exposed += times * (t->exposed - s->time[i].exposed);
        t->slowed += times * (t->slowed - s->time[i].slowed);
    }
    for (int i = 0; i < c->nslots; i++) {
        c->done[i] += n * (c->done[i] - s->done[i]);
        c->when[i] += c->when[i] > s->now ? times * period : 0;
    }
    for (int k = 0; k < c->nstreams; k++) {
        Stream *x = &c->stream[k];
        bool inside = is_inside(c, x, depth);
        x->ready += x->ready > c->now ? times * period : 0;
        x->joins += n * (x->joins - s->stream[k].joins);
        if (!inside)
            continue;
        issue_shift(&x->walk, depth, n * shift);
        for (int i = 0; i < c->nslots; i++)
            x->recorded[i] += n * (x->recorded[i] - s->recorded[k][i]);
    }
    c->now += times * period;
}

void skip_periods(Clockwork *c)
{
    const IssueWalk *w = &c->stream[STREAM_COMPUTE].walk;
    int depth = w->nframes - 1;
    const IssueFrame *f = &w->frame[depth];
    struct Snapshot *last = snapshots_of(c, depth);
    if (f->iteration == 0)
        for (int i = 0; i < SNAPSHOTS; i++)
            last[i].taken = false;
    int64_t i = f->iteration;
    for (int64_t shift = 1; shift < SNAPSHOTS && shift <= i; shift++) {
        const struct Snapshot *s = &last[(i - shift) % SNAPSHOTS];
        if (!s->taken || s->stream[STREAM_COMPUTE].walk.frame[depth].loop != f->loop ||
            !same_state(c, s, depth, shift))
            continue;
        int64_t n = periods_left(c, s, depth, shift);
        if (n > 0)
            leave_out(c, s, depth, shift, n);
        break;
    }
    take_snapshot(c, &last[f->iteration % SNAPSHOTS]);
}
