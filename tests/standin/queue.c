/* queue.c: implements streams, events and graphs (queue.h). */
#include "queue.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "hazard.h"

enum { RELAXED = 2, ARRAY = 16 };

typedef struct Op Op;
typedef struct CuGraphObject Graph;
typedef struct CuStreamObject Stream;
typedef struct CuEventObject Event;

/* A piece of work, in the queue or in a graph. It lives as long as it is
 * referenced. */
struct Op {
    Op *next; /* in the queue or the graph, in the order of the calls */
    Op **dep;
    int ndeps, refs;
    bool done, timed;
    double when;
    Graph *graph;  /* graph of the current capture; NULL: none */
    bool captured; /* in a graph: it never runs itself */
    Op *copy;     /* its copy in the launch of a graph */
    int mark;     /* number of the last traversal that visited it */
    int priority; /* lower numbers run first */
    HazardOp hazard;
    Work work;
};

typedef struct OpList {
    Op *first, **end;
    int n;
} OpList;

struct CuGraphObject {
    OpList ops;
    Op *last; /* the newest op */
    int refs;
    CuCaptureMode mode;
    CuStream origin;
    uint64_t number; /* number of the capture, from 1 on */
    Spoiled spoiled;
};

struct CuGraphExecObject {
    Graph *graph;
    bool own_priorities;
};

struct CuStreamObject {
    Stream *next;
    int number, priority;
    Op *tail;
    Op *before; /* the stream's last op before the capture */
    Graph *capture;
};

struct CuEventObject {
    Event *next;
    Op *op; /* NULL: never recorded, which counts as done */
    bool timed;
};

enum Order { EARLY, LATE, AHEAD, RANDOM };

static struct Queue {
    pthread_mutex_t lock;
    pthread_t helper;
    bool has_helper;
    OpList pending;
    Stream *streams;
    Event *events;
    enum Order order;
    uint64_t random;
    CuResult error;
    uint64_t captures;
    int marks, restricted, numbers;
    uint32_t index[HAZARD_STREAMS]; /* pieces of work on each stream */
    Age host; /* the work that the host has seen end */
    double asked;       /* time of the host's last call */
    double stuck_since; /* 0: the last query made progress */
} q = {.lock = PTHREAD_MUTEX_INITIALIZER};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- operations ---- */

static Op *op_keep(Op *o)
{
    if (o)
        o->refs++;
    return o;
}

/* Frees an operation and what only it references. op_finish() drops the
 * dependencies of finished operations, so the recursion stays shallow. */
static void op_drop(Op *o)
{
    if (!o || --o->refs > 0)
        return;
    for (int i = 0; i < o->ndeps; i++)
        op_drop(o->dep[i]);
    free(o->dep);
    free(o);
}

static Op *op_new(const Work *w)
{
    Op *o = calloc(1, sizeof *o);
    o->refs = 1;
    if (w)
        o->work = *w;
    return o;
}

static void op_depend(Op *o, Op *on)
{
    if (on && !on->captured)
        age_join(&o->hazard.age, &on->hazard.age);
    if (!on || on->done)
        return;
    if (o->ndeps % ARRAY == 0)
        o->dep = realloc(o->dep, (size_t)(o->ndeps + ARRAY) * sizeof *o->dep);
    o->dep[o->ndeps++] = op_keep(on);
}

static void op_finish(Op *o)
{
    o->done = true;
    o->when = now();
    for (int i = 0; i < o->ndeps; i++)
        op_drop(o->dep[i]);
    o->ndeps = 0;
}

static void list_add(OpList *l, Op *o)
{
    if (!l->end)
        l->end = &l->first;
    *l->end = o;
    l->end = &o->next;
    l->n++;
}

static bool ready(const Op *o)
{
    for (int i = 0; i < o->ndeps; i++)
        if (!o->dep[i]->done)
            return false;
    return true;
}

/* Numbers an operation when it is queued, after its dependencies. */
static void op_number(Op *o, int stream)
{
    o->hazard.name = o->work.name ? o->work.name : "an event";
    o->hazard.stream = stream < HAZARD_STREAMS ? stream : -1;
    age_join(&o->hazard.age, &q.host);
    if (o->hazard.stream >= 0) {
        o->hazard.index = ++q.index[stream];
        o->hazard.age.ended[stream] = o->hazard.index;
    }
}

/* Runs it if its dependencies have ended; true if it has ended now. */
static bool try_op(Op *o)
{
    if (o->done || q.error)
        return o->done;
    if (!ready(o))
        return false;
    enum WorkStatus s = WORK_DONE;
    if (o->work.run) {
        hazard_begin(&o->hazard);
        s = o->work.run(o->work.state);
        hazard_begin(NULL);
    }
    if (s == WORK_FAILED)
        queue_fail(SC_LAUNCH_FAILED);
    else if (s == WORK_DONE)
        op_finish(o);
    return o->done;
}

/* Removes finished operations from the queue. */
static void sweep(void)
{
    Op **p = &q.pending.first;
    while (*p) {
        Op *o = *p;
        if (o->done) {
            *p = o->next;
            q.pending.n--;
            op_drop(o);
        } else {
            p = &o->next;
        }
    }
    q.pending.end = p;
}

/* ---- orders ---- */

/* Runs the operations of one priority that can run, in the order of the calls.
 * `next` gets the next priority that has any. */
static bool run_priority(int priority, int *next)
{
    bool any = false;
    *next = INT_MAX;
    for (Op *o = q.pending.first; o; o = o->next) {
        if (o->priority == priority)
            any |= !o->done && try_op(o);
        else if (o->priority > priority && o->priority < *next)
            *next = o->priority;
    }
    return any;
}

/* Runs all that can run, higher priorities first. */
static void run_early(void)
{
    int priority = INT_MIN, next;
    while (priority < INT_MAX && !q.error) {
        bool any = run_priority(priority, &next);
        sweep();
        priority = any ? INT_MIN : next;
    }
}

/* Runs only the operations that this one needs. Its stream's earlier work (its
 * first dependency) runs first or last, as the order requires. */
static void run_closure(Op *o, int mark)
{
    if (o->done || o->mark == mark)
        return;
    o->mark = mark;
    for (int i = 0; i < o->ndeps; i++)
        run_closure(o->dep[q.order == LATE ? i : o->ndeps - 1 - i], mark);
    try_op(o);
}

static uint64_t draw(void)
{
    q.random ^= q.random << 13;
    q.random ^= q.random >> 7;
    q.random ^= q.random << 17;
    return q.random >> 8;
}

/* Runs a random operation that can run. */
static bool run_random(void)
{
    int n = 0;
    for (Op *o = q.pending.first; o; o = o->next)
        n += !o->done && ready(o);
    int at = n ? (int)(draw() % (uint64_t)n) : 0;
    bool any = false;
    for (Op *o = q.pending.first; o && !any; o = o->next)
        if (!o->done && ready(o) && at-- <= 0)
            any = try_op(o);
    sweep();
    return any;
}

/* Called after an operation was queued. */
static void added(void)
{
    q.asked = now();
    if (q.order == EARLY)
        run_early();
    else if (q.order == RANDOM)
        for (uint64_t n = draw() % 4; n > 0 && run_random(); n--) {
        }
}

/* The host waits for the operation. If that waits for another process, which
 * may wait for other work of this process, everything runs after a while. */
static CuResult query(Op *o)
{
    const double patience = 0.01;
    q.asked = now();
    if (q.error)
        return q.error;
    if (!o)
        return RT_CU_SUCCESS;
    if (o->done) {
        age_join(&q.host, &o->hazard.age);
        return RT_CU_SUCCESS;
    }
    if (q.order == EARLY ||
        (q.stuck_since > 0 && q.asked - q.stuck_since > patience))
        run_early();
    else if (q.order != RANDOM)
        run_closure(o, ++q.marks);
    else
        while (!o->done && run_random()) {
        }
    bool done = o->done;
    if (done)
        age_join(&q.host, &o->hazard.age);
    sweep();
    if (q.error)
        return q.error;
    q.stuck_since = done ? 0 : q.stuck_since > 0 ? q.stuck_since : q.asked;
    return done ? RT_CU_SUCCESS : RT_CU_NOT_READY;
}

/* A thread that runs work while the host waits elsewhere. */
static void *help(void *unused)
{
    const double idle = 0.02;
    (void)unused;
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        queue_lock();
        if (q.pending.first && now() - q.asked > idle)
            run_early();
        queue_unlock();
    }
    return NULL;
}

/* Stops running work when the process exits. */
static void stop(void)
{
    queue_lock();
}

static void read_order(void)
{
    static const char *const name[] = {"early", "late", "ahead"};
    const char *text = getenv("STANDIN_ORDER");
    char *end;
    q.order = EARLY;
    if (!text)
        return;
    for (; q.order < RANDOM; q.order++)
        if (strcmp(text, name[q.order]) == 0)
            return;
    q.random = strtoull(text, &end, 10) * 2654435761u + 88172645463325252u;
    if (!*text || *end) {
        fprintf(stderr, "standin: STANDIN_ORDER is '%s'; it takes early, "
                        "late, ahead or a number\n", text);
        exit(1);
    }
}

void queue_lock(void)
{
    pthread_mutex_lock(&q.lock);
}

void queue_unlock(void)
{
    pthread_mutex_unlock(&q.lock);
}

static void open_queue(void)
{
    if (q.has_helper)
        return;
    read_order();
    q.has_helper = pthread_create(&q.helper, NULL, help, NULL) == 0;
    atexit(stop);
}

CuResult queue_error(void)
{
    return q.error;
}

void queue_fail(CuResult error)
{
    if (!q.error)
        q.error = error;
}

/* ---- streams and events ---- */

static bool is_stream(CuStream s)
{
    for (Stream *p = q.streams; p; p = p->next)
        if (p == s)
            return true;
    standin_error("%s", s ? "a stream that was destroyed or never made"
                          : "the default stream; parc makes its own");
    return false;
}

static bool is_event(CuEvent e)
{
    for (Event *p = q.events; p; p = p->next)
        if (p == e)
            return true;
    standin_error("an event that was destroyed or never made");
    return false;
}

/* Appends an operation to the stream. */
static void append(Stream *s, Op *o)
{
    Op *last = s->tail;
    o->graph = s->capture;
    o->captured = s->capture != NULL;
    o->hazard.stream = s->number;
    o->priority = s->priority;
    if (!o->captured)
        op_number(o, s->number);
    list_add(s->capture ? &s->capture->ops : &q.pending, o);
    s->tail = op_keep(o);
    op_drop(last);
}

static Op *stream_op(Stream *s, const Work *w)
{
    Op *o = op_new(w);
    op_depend(o, s->tail);
    return o;
}

CuResult queue_add(CuStream s, const Work *w)
{
    if (q.error)
        return q.error;
    if (!is_stream(s))
        return SC_INVALID_HANDLE;
    Op *o = stream_op(s, w);
    append(s, o);
    if (!s->capture) {
        if (w->queued)
            w->queued(o->work.state);
        added();
    }
    return q.error;
}

CuResult queue_stream_new(CuStream *s, int priority)
{
    open_queue();
    *s = calloc(1, sizeof **s);
    (*s)->next = q.streams;
    (*s)->number = q.numbers++;
    (*s)->priority = priority;
    q.streams = *s;
    return q.error;
}

CuResult queue_stream_free(CuStream s)
{
    if (!is_stream(s))
        return SC_INVALID_HANDLE;
    Stream **p = &q.streams;
    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
    op_drop(s->tail);
    op_drop(s->before);
    free(s);
    return q.error;
}

bool queue_is_capturing(CuStream s)
{
    return s && s->capture;
}

uint64_t queue_capture_number(CuStream s)
{
    return queue_is_capturing(s) ? s->capture->number : 0;
}

void queue_spoil(CuStream s, Spoiled how)
{
    s->capture->spoiled = how;
}

bool queue_is_restricted(void)
{
    return q.restricted > 0;
}

CuResult queue_stream_query(CuStream s)
{
    if (!is_stream(s))
        return SC_INVALID_HANDLE;
    if (s->capture) {
        standin_error("a stream is asked for its state while it is captured");
        s->capture->spoiled = SPOILED_CAPTURE;
        return SC_CAPTURE_UNSUPPORTED;
    }
    return query(s->tail);
}

CuResult queue_event_new(CuEvent *e, bool timed)
{
    *e = calloc(1, sizeof **e);
    (*e)->timed = timed;
    (*e)->next = q.events;
    q.events = *e;
    return q.error;
}

CuResult queue_event_free(CuEvent e)
{
    if (!is_event(e))
        return SC_INVALID_HANDLE;
    Event **p = &q.events;
    while (*p != e)
        p = &(*p)->next;
    *p = e->next;
    op_drop(e->op);
    free(e);
    return q.error;
}

CuResult queue_event_query(CuEvent e)
{
    if (!is_event(e))
        return SC_INVALID_HANDLE;
    if (e->op && e->op->captured) {
        standin_error("an event of a capture is asked for its state");
        if (e->op->graph)
            e->op->graph->spoiled = SPOILED_CAPTURE;
        return SC_CAPTURED_EVENT;
    }
    return query(e->op);
}

CuResult queue_record(CuEvent e, CuStream s)
{
    if (q.error)
        return q.error;
    if (!is_event(e) || !is_stream(s))
        return SC_INVALID_HANDLE;
    Op *o = stream_op(s, NULL), *before = e->op;
    append(s, o);
    e->op = op_keep(o);
    op_drop(before);
    if (!s->capture)
        added();
    return q.error;
}

/* Work that was queued before a capture still precedes work queued after it.
 */
static void enter_capture(Stream *s, Graph *g)
{
    s->before = s->tail;
    s->tail = NULL;
    s->capture = g;
}

/* A stream that waits for an event of a capture joins the capture. */
CuResult queue_wait(CuStream s, CuEvent e)
{
    if (q.error)
        return q.error;
    if (!is_event(e) || !is_stream(s))
        return SC_INVALID_HANDLE;
    Graph *of = e->op ? e->op->graph : NULL;
    if (s->capture && of != s->capture) {
        standin_error("a captured stream waits for an event that was recorded "
                      "%s", of ? "in another capture"
                               : "before the capture, or never");
        s->capture->spoiled = SPOILED_CAPTURE;
        return SC_CAPTURE_ISOLATION;
    }
    if (!s->capture && e->op && e->op->captured && !of) {
        standin_error("a stream waits for an event of a capture that has "
                      "ended");
        return SC_CAPTURED_EVENT;
    }
    if (!s->capture && of)
        enter_capture(s, of);
    Op *o = stream_op(s, NULL);
    op_depend(o, e->op);
    append(s, o);
    if (!s->capture)
        added();
    return q.error;
}

CuResult queue_elapsed(float *milliseconds, CuEvent from, CuEvent to)
{
    if (!is_event(from) || !is_event(to) || !from->timed || !to->timed ||
        !from->op || !to->op)
        return SC_INVALID_HANDLE;
    if (!from->op->done || !to->op->done)
        return RT_CU_NOT_READY;
    *milliseconds = (float)((to->op->when - from->op->when) * 1e3);
    return q.error;
}

/* ---- graphs ---- */

static void graph_drop(Graph *g)
{
    if (!g || --g->refs > 0)
        return;
    op_drop(g->last);
    for (Op *o = g->ops.first, *next; o; o = next) {
        next = o->next;
        op_drop(o);
    }
    free(g);
}

CuResult queue_capture(CuStream s, CuCaptureMode mode)
{
    if (q.error)
        return q.error;
    if (!is_stream(s) || s->capture)
        return SC_INVALID_HANDLE;
    Graph *g = calloc(1, sizeof *g);
    g->refs = 1;
    g->mode = mode;
    g->origin = s;
    g->number = ++q.captures;
    enter_capture(s, g);
    q.restricted += mode != RELAXED;
    return q.error;
}

static void mark_all(Op *o, int mark)
{
    if (!o || o->mark == mark)
        return;
    o->mark = mark;
    for (int i = 0; i < o->ndeps; i++)
        mark_all(o->dep[i], mark);
}

/* Whether all captured work precedes the stream's last operation. */
static bool is_joined(const Graph *g, Op *last)
{
    int mark = ++q.marks;
    mark_all(last, mark);
    for (Op *o = g->ops.first; o; o = o->next)
        if (o->mark != mark) {
            standin_error("a capture ends while other streams have work in it "
                          "that it does not wait for: '%s'",
                          o->work.name ? o->work.name : "an event");
            return false;
        }
    return true;
}

CuResult queue_capture_end(CuStream s, CuGraph *g)
{
    *g = NULL;
    if (q.error)
        return q.error;
    if (!is_stream(s) || !s->capture || s->capture->origin != s)
        return SC_CAPTURE_UNMATCHED;
    Graph *c = s->capture;
    bool joined = is_joined(c, s->tail);
    c->origin = NULL;
    c->last = op_keep(s->tail);
    for (Op *o = c->ops.first; o; o = o->next)
        o->graph = NULL;
    q.restricted -= c->mode != RELAXED;
    for (Stream *p = q.streams; p; p = p->next)
        if (p->capture == c) {
            op_drop(p->tail);
            p->tail = p->before;
            p->before = NULL;
            p->capture = NULL;
        }
    if (!joined || c->spoiled == SPOILED_CAPTURE) {
        graph_drop(c);
        return joined ? SC_CAPTURE_INVALIDATED : SC_CAPTURE_UNJOINED;
    }
    *g = c;
    return q.error;
}

CuResult queue_instantiate(CuGraphExec *x, CuGraph g, bool own)
{
    if (q.error)
        return q.error;
    if (g->spoiled)
        return SC_INVALID_VALUE;
    for (Op *o = g->ops.first; o && !own; o = o->next)
        if (o->priority != g->ops.first->priority) {
            standin_error("a graph of streams with different priorities is "
                          "instantiated without those of its nodes");
            return SC_INVALID_VALUE;
        }
    *x = calloc(1, sizeof **x);
    (*x)->graph = g;
    (*x)->own_priorities = own;
    g->refs++;
    return q.error;
}

/* Queues the graph's operations after the stream's earlier work; the stream's
 * later work follows all of them. */
CuResult queue_launch(CuGraphExec x, CuStream s)
{
    if (q.error)
        return q.error;
    if (!is_stream(s) || s->capture || !x || !x->graph)
        return SC_INVALID_HANDLE;
    Op *join = op_new(NULL);
    for (Op *o = x->graph->ops.first; o; o = o->next) {
        Op *c = o->copy = op_new(&o->work);
        if (o->ndeps == 0)
            op_depend(c, s->tail);
        for (int i = 0; i < o->ndeps; i++)
            op_depend(c, o->dep[i]->copy);
        op_number(c, o->hazard.stream);
        c->priority = x->own_priorities ? o->priority : s->priority;
        list_add(&q.pending, c);
        if (c->work.queued)
            c->work.queued(c->work.state);
    }
    op_depend(join, x->graph->last ? x->graph->last->copy : s->tail);
    append(s, join);
    added();
    return q.error;
}

CuResult queue_exec_free(CuGraphExec x)
{
    graph_drop(x->graph);
    free(x);
    return q.error;
}

CuResult queue_graph_free(CuGraph g)
{
    graph_drop(g);
    return q.error;
}
