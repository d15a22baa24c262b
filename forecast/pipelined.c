/* pipelined.c: the time of a step of a pipeline; see pipelined.h. */
#include "forecast/pipelined.h"

#include <math.h>

#include "base/bug.h"
#include "ir/plan/pipeline.h"
#include "passes/pipeline/staged_loop.h"

const Moment pipeline_computes[COMPUTES] = {MOMENT_FORWARD, MOMENT_BACKWARD,
                                            MOMENT_WEIGHTS};

typedef struct RankTime {
    const Actions *actions;
    int computed, transferred; /* positions in the actions */
    double compute, transfer;  /* when these streams are free */
    Timeline *before, *after;
} RankTime;

typedef struct Replay {
    const Program *p;
    const Machine *m;
    const Op *loop;
    bool one_stream;
    StageTime *stage;
    RankTime *rank;
    Timetable table;
    PipelineTime *to;
} Replay;

/* ---- durations ----------------------------------------------------------- */

/* Whether neighbors on the axis of the pipeline are on other nodes. */
static bool crosses_nodes(const Replay *r, int stage)
{
    int64_t node = machine_node(r->m, &r->p->mesh);
    int64_t stride = mesh_stride(&r->p->mesh, pipeline_axis(r->p));
    int64_t from = coordinate_of(r->p, stage);
    int64_t to = coordinate_of(r->p, (stage + 1) % r->table.nstages);
    return from * stride / node != to * stride / node;
}

static double transfer_seconds(const Replay *r, int stage, bool gradient)
{
    int64_t bytes = 0;
    Moment at = gradient ? MOMENT_SEND_GRADIENT : MOMENT_SEND;
    for (const Op *op = r->loop->body->first; op; op = op->next)
        if (op_transfers(op) && staged_moment_on(r->p, r->loop, op, stage) == at)
            for (int i = 0; i < op->nargs; i++)
                bytes += type_local_bytes(&op->arg[i]->type, &r->p->mesh);
    return send_seconds(r->m, bytes, r->stage[stage].between[gradient]);
}

/* The `post` of an event in the loop's body. */
static const Op *post_of(const Op *loop, int64_t event)
{
    for (const Op *op = loop->body->first; op; op = op->next)
        if (op->kind == OP_post && attr_event(op) == event)
            return op;
    bug("forecast: an await without a post");
}

static Freed freed_of(const Replay *r, int stage, bool gradient)
{
    Moment at = gradient ? MOMENT_RECEIVE_GRADIENT : MOMENT_RECEIVE;
    for (const Op *op = r->loop->body->first; op; op = op->next) {
        if (op->kind != OP_await || op->stream != STREAM_TRANSFER ||
            staged_moment_on(r->p, r->loop, op, stage) != at)
            continue;
        const Op *post = post_of(r->loop, attr_event(op));
        int64_t back = attr_rotation(op)
                           ? rotation_modulo(r->p, attr_rotation(op), stage)
                           : attr_back(op);
        if (back == 0) /* of the sender, for its tensor */
            continue;
        return (Freed){true, staged_moment_on(r->p, r->loop, post, stage), back};
    }
    return (Freed){0};
}

static double *unknown_times(Arena *a, int64_t n)
{
    double *t = NEW_ARRAY(a, double, n);
    for (int64_t i = 0; i < n; i++)
        t[i] = INFINITY;
    return t;
}

static void time_stage(Replay *r, int stage, const Work *work, int n, bool whole)
{
    StageTime *s = &r->stage[stage];
    Arena *a = r->p->arena;
    for (int k = 0; k < COMPUTES; k++) {
        IssueScope scope = {.part = ISSUE_ACTION, .coordinate = coordinate_of(r->p, stage),
                            .stage = stage, .moment = pipeline_computes[k]};
        s->action[k] = timeline_of(r->p, r->m, work, n, scope, whole);
        s->end[k] = unknown_times(a, r->table.micro);
    }
    for (int g = 0; g < 2; g++) {
        bool sends = g ? stage > 0 : stage + 1 < r->table.nstages;
        s->sent[g] = unknown_times(a, r->table.micro);
        s->offered[g] = unknown_times(a, r->table.micro);
        s->between[g] = sends && crosses_nodes(r, g ? stage - 1 : stage);
        s->transfer[g] = sends ? transfer_seconds(r, stage, g) : 0;
        s->freed[g] = freed_of(r, stage, g);
    }
}

static void time_rank(Replay *r, int c, const Work *work, int n, bool whole)
{
    RankTime *t = &r->rank[c];
    IssueScope before = {.part = ISSUE_BEFORE, .coordinate = c, .stage = -1};
    IssueScope after = {.part = ISSUE_AFTER, .coordinate = c, .stage = -1};
    t->actions = &r->table.rank[c];
    *t->before = timeline_of(r->p, r->m, work, n, before, whole);
    *t->after = timeline_of(r->p, r->m, work, n, after, whole);
    t->compute = t->transfer = t->before->seconds;
}

/* ---- the timetable ------------------------------------------------------- */

static bool is_transfer(const Action *x)
{
    return x->kind == ACTION_SEND || x->kind == ACTION_RECEIVE;
}

static int compute_index(const Action *x)
{
    return x->kind == ACTION_FORWARD ? 0 : x->kind == ACTION_BACKWARD ? 1 : 2;
}

/* The next action of a rank that computes, or transfers; NULL: there is none. */
static const Action *next_action(const RankTime *t, bool transfers)
{
    int i = transfers ? t->transferred : t->computed;
    while (i < t->actions->n && is_transfer(&t->actions->at[i]) != transfers)
        i++;
    return i < t->actions->n ? &t->actions->at[i] : NULL;
}

/* The rank's next action is known to take place at this time. */
static void pass_action(Replay *r, RankTime *t, const Action *x, double begin, double end)
{
    *(is_transfer(x) ? &t->transferred : &t->computed) = (int)(x - t->actions->at) + 1;
    ActionTime done = {(int)(t - r->rank), *x, begin, end};
    vec_push(r->p->arena, &r->to->action, done);
}

/* Whether all that precedes an action on its rank has been done, on a target with one
 * stream. */
static bool is_next(const Replay *r, const RankTime *t, const Action *x)
{
    const Action *other = next_action(t, !is_transfer(x));
    return !r->one_stream || !other || other > x;
}

/* When the tensor that an action needs of another stage has arrived; INFINITY: not known. */
static double received(const Replay *r, const Action *x)
{
    if (x->kind == ACTION_FORWARD && x->stage > 0)
        return r->stage[x->stage - 1].sent[0][x->micro];
    if (x->kind == ACTION_BACKWARD && x->stage + 1 < r->table.nstages)
        return r->stage[x->stage + 1].sent[1][x->micro];
    return 0;
}

static bool compute_next(Replay *r, RankTime *t)
{
    const Action *x = next_action(t, false);
    double from = x && is_next(r, t, x) ? received(r, x) : INFINITY;
    if (isinf(from))
        return false;
    StageTime *s = &r->stage[x->stage];
    int k = compute_index(x);
    from = t->compute > from ? t->compute : from;
    t->compute = s->end[k][x->micro] = from + s->action[k].seconds;
    pass_action(r, t, x, from, t->compute);
    return true;
}

/* Whether the rank has still to compute this before the receive `x`. */
static bool is_pending(const RankTime *t, Moment moment, int stage, int64_t micro,
                       const Action *x)
{
    for (const Action *y = &t->actions->at[t->computed]; y < x; y++)
        if (!is_transfer(y) && y->stage == stage && y->micro == micro &&
            action_moment(y) == moment)
            return true;
    return false;
}

/* When the buffer of the receive `x` is free; INFINITY: not known. As in the program, an
 * event that the rank records after the receive has no effect. */
static double buffer_free(const Replay *r, const RankTime *t, int stage, const Action *x)
{
    const Freed *f = &r->stage[stage].freed[x->gradient];
    int64_t micro = x->micro - f->back;
    if (!f->given || micro < 0)
        return 0;
    for (int k = 0; k < COMPUTES; k++) {
        double end = r->stage[stage].end[k][micro];
        if (pipeline_computes[k] != f->after)
            continue;
        return isinf(end) && !is_pending(t, f->after, stage, micro, x) ? 0 : end;
    }
    return 0;
}

/* With one stream: a rank that sends continues, and the receiver copies later. */
static bool copy_next(Replay *r, RankTime *t)
{
    const Action *x = next_action(t, true);
    if (!x || !is_next(r, t, x))
        return false;
    StageTime *s = &r->stage[x->stage];
    double *sent = &s->sent[x->gradient][x->micro], begin = t->compute;
    if (x->kind == ACTION_SEND) {
        s->offered[x->gradient][x->micro] = t->compute;
    } else {
        double from = s->offered[x->gradient][x->micro];
        if (isinf(from))
            return false;
        begin = fmax(from, t->compute);
        *sent = t->compute = begin + s->transfer[x->gradient];
    }
    pass_action(r, t, x, begin, t->compute);
    return true;
}

/* A send, with the receive of the other rank. */
static bool transfer_next(Replay *r, RankTime *t)
{
    if (r->one_stream)
        return copy_next(r, t);
    const Action *x = next_action(t, true);
    if (!x || x->kind != ACTION_SEND)
        return false;
    int to = x->gradient ? x->stage - 1 : x->stage + 1;
    RankTime *other = &r->rank[coordinate_of(r->p, to)];
    const Action *y = next_action(other, true);
    if (!y || y->kind != ACTION_RECEIVE || y->stage != x->stage || y->micro != x->micro ||
        y->gradient != x->gradient)
        return false;
    StageTime *s = &r->stage[x->stage];
    double from = fmax(s->end[x->gradient][x->micro],
                       buffer_free(r, other, to, y));
    from = fmax(from, fmax(t->transfer, other->transfer));
    if (isinf(from))
        return false;
    double end = from + s->transfer[x->gradient];
    s->sent[x->gradient][x->micro] = t->transfer = other->transfer = end;
    pass_action(r, t, x, from, end);
    pass_action(r, other, y, from, end);
    return true;
}

static void replay(Replay *r)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (int c = 0; c < r->table.nranks; c++)
            while (compute_next(r, &r->rank[c]) || transfer_next(r, &r->rank[c]))
                moved = true;
    }
    for (int c = 0; c < r->table.nranks; c++)
        if (next_action(&r->rank[c], false) || next_action(&r->rank[c], true))
            bug("forecast: rank %d of a pipeline waits for ever", c);
}

/* ---- sums ---------------------------------------------------------------- */

/* Whether ranks of several coordinates take part in what follows the actions. */
static bool ends_together(const Program *p)
{
    uint32_t axis = 1u << pipeline_axis(p);
    for (const Op *op = pipeline_loop(p)->next; op; op = op->next)
        if (op_is_collective(op->kind) && (attr_axes(op) & axis))
            return true;
    return false;
}

static double busy_seconds(const Replay *r, int c)
{
    double seconds = r->rank[c].before->seconds + r->rank[c].after->seconds;
    for (int i = 0; i < r->rank[c].actions->n; i++) {
        const Action *x = &r->rank[c].actions->at[i];
        if (!is_transfer(x))
            seconds += r->stage[x->stage].action[compute_index(x)].seconds;
    }
    return seconds;
}

static void add_times(StatementTime *to, const Timeline *t, double times, int n)
{
    for (int i = 0; i <= n; i++) {
        to[i].run += times * t->time[i].run;
        to[i].exposed += times * t->time[i].exposed;
        to[i].slowed += times * t->time[i].slowed;
    }
}

/* The times of a coordinate's statements; of n, those that wait for none. */
static StatementTime *times_of(const Replay *r, int c, int n)
{
    StatementTime *time = NEW_ARRAY(r->p->arena, StatementTime, n + 1);
    add_times(time, r->rank[c].before, 1, n);
    add_times(time, r->rank[c].after, 1, n);
    for (int s = c; s < r->table.nstages; s += r->table.nranks)
        for (int k = 0; k < COMPUTES; k++)
            add_times(time, &r->stage[s].action[k], (double)r->table.micro, n);
    return time;
}

/* The replay of p before any action, with the times of all stages and ranks. */
static Replay replay_new(const Program *p, const Machine *m, const Work *work, int n,
                         bool whole, PipelineTime *to)
{
    Arena *a = p->arena;
    Replay r = {.p = p, .m = m, .loop = pipeline_loop(p), .one_stream = p->streams < 2,
                .to = to};
    r.table = staged_timetable(p, r.loop);
    r.stage = NEW_ARRAY(a, StageTime, r.table.nstages);
    r.rank = NEW_ARRAY(a, RankTime, r.table.nranks);
    Timeline *apart = NEW_ARRAY(a, Timeline, 2 * r.table.nranks);
    *to = (PipelineTime){.ranks = r.table.nranks, .stages = r.table.nstages,
                         .actions = r.table.rank, .stage = r.stage,
                         .before = apart, .after = apart + r.table.nranks,
                         .busy = NEW_ARRAY(a, double, r.table.nranks),
                         .bubble = NEW_ARRAY(a, double, r.table.nranks),
                         .together = ends_together(p)};
    for (int s = 0; s < r.table.nstages; s++)
        time_stage(&r, s, work, n, whole);
    for (int c = 0; c < r.table.nranks; c++) {
        r.rank[c].before = &apart[c];
        r.rank[c].after = &apart[r.table.nranks + c];
        time_rank(&r, c, work, n, whole);
    }
    return r;
}

PipelineTime pipelined_time(const Program *p, const Machine *m, const Work *work, int n,
                            bool whole)
{
    PipelineTime t;
    Replay r = replay_new(p, m, work, n, whole, &t);
    replay(&r);
    double last = 0, after = 0;
    for (int c = 0; c < t.ranks; c++) {
        double end = fmax(r.rank[c].compute, r.rank[c].transfer);
        t.busy[c] = busy_seconds(&r, c);
        t.slowest = t.busy[c] > t.busy[t.slowest] ? c : t.slowest;
        last = fmax(last, end + (t.together ? 0 : t.after[c].seconds));
        after = fmax(after, t.after[c].seconds);
    }
    t.seconds = last + (t.together ? after : 0);
    for (int c = 0; c < t.ranks; c++)
        t.bubble[c] = t.seconds - t.busy[c];
    t.time = times_of(&r, t.slowest, n);
    t.waits = t.time[n].exposed;
    return t;
}
