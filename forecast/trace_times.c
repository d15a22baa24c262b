/* trace_times.c: reads the times of statements from a trace; see trace_times.h. */
#include "forecast/trace_times.h"

#include <string.h>

#include "runtime/common/json.h"

enum { KEY = 32, TEXT = 256 };

/* The calls of a statement on one rank, in order. */
typedef struct Calls {
    int rank;
    VEC(double) seconds, cpu; /* of each call */
} Calls;
typedef VEC(Calls) RankCalls;

typedef struct Reader {
    Arena *arena;
    RtJson json;
    const Statement *statement;
    int n, found;
    RankCalls *calls; /* by statement */
    int *ranks, *threads;
} Reader;

/* ---- events -------------------------------------------------------------- */

typedef struct Event {
    char id[TEXT], phase[KEY], category[KEY];
    double duration, cpu; /* microseconds; cpu < 0: unknown */
    int rank;
} Event;

static int count_of(Reader *r)
{
    int64_t n = rt_json_integer(&r->json);
    if (n > 1 << 24)
        rt_json_fail(&r->json, "a number of ranks or threads is too large");
    return (int)n;
}

static void read_args(Reader *r, Event *e)
{
    char key[KEY];
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key))
        if (strcmp(key, "cpu_us") == 0)
            e->cpu = rt_json_number(&r->json);
        else
            rt_json_skip(&r->json);
}

static void read_event(Reader *r, Event *e)
{
    char key[KEY];
    *e = (Event){.cpu = -1};
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key))
        if (strcmp(key, "name") == 0)
            rt_json_string(&r->json, e->id, sizeof e->id);
        else if (strcmp(key, "ph") == 0)
            rt_json_string(&r->json, e->phase, sizeof e->phase);
        else if (strcmp(key, "cat") == 0)
            rt_json_string(&r->json, e->category, sizeof e->category);
        else if (strcmp(key, "dur") == 0)
            e->duration = rt_json_number(&r->json);
        else if (strcmp(key, "pid") == 0)
            e->rank = count_of(r);
        else if (strcmp(key, "args") == 0)
            read_args(r, e);
        else
            rt_json_skip(&r->json);
}

/* The statement of an event; -1: the event is another part of the timeline. Statements
 * follow each other in the trace as in the program, so the search goes on from `from`. */
static int statement_of(const Reader *r, const Event *e, int from)
{
    for (int k = 0; k < r->n; k++) {
        int i = (from + k) % r->n;
        if (strcmp(r->statement[i].id, e->id) == 0 &&
            strcmp(r->statement[i].kind, e->category) == 0)
            return i;
    }
    return -1;
}

static void add_call(Reader *r, int statement, const Event *e)
{
    RankCalls *of = &r->calls[statement];
    int i = 0;
    while (i < of->n && of->at[i].rank != e->rank)
        i++;
    if (i == of->n)
        vec_push(r->arena, of, ((Calls){.rank = e->rank}));
    if (!(e->duration >= 0 && e->duration < 1e12) || !(e->cpu < 1e12))
        rt_json_fail(&r->json, "a duration is no time");
    double cpu = e->cpu >= 0 && e->cpu < e->duration ? e->cpu : e->duration;
    vec_push(r->arena, &of->at[i].seconds, e->duration * 1e-6);
    vec_push(r->arena, &of->at[i].cpu, cpu * 1e-6);
    r->found++;
}

static void read_events(Reader *r)
{
    Event e;
    int at = 0;
    rt_json_list(&r->json);
    while (rt_json_next(&r->json)) {
        read_event(r, &e);
        int i = r->n && strcmp(e.phase, "X") == 0 ? statement_of(r, &e, at) : -1;
        if (i < 0)
            continue;
        add_call(r, i, &e);
        at = i;
    }
}

static void read_run(Reader *r)
{
    char key[KEY];
    rt_json_object(&r->json);
    while (rt_json_key(&r->json, key, sizeof key))
        if (strcmp(key, "ranks") == 0)
            *r->ranks = count_of(r);
        else if (strcmp(key, "threads") == 0)
            *r->threads = count_of(r);
        else
            rt_json_skip(&r->json);
}

/* ---- times --------------------------------------------------------------- */

/* The mean of the calls: of a collective on the rank that takes the least time in each,
 * which waits for no other; of others on average, in CPU time if the trace has it. */
static TraceTime time_of(const Reader *r, int statement)
{
    const RankCalls *of = &r->calls[statement];
    bool waits = op_is_collective(r->statement[statement].op->kind);
    double sum = 0, least = 0, cpu = 0;
    if (of->n == 0)
        return (TraceTime){0};
    int n = of->at[0].seconds.n;
    for (int k = 1; k < of->n; k++)
        n = of->at[k].seconds.n < n ? of->at[k].seconds.n : n;
    for (int i = 0; i < n; i++) {
        double min = of->at[0].seconds.at[i];
        for (int k = 0; k < of->n; k++) {
            double t = of->at[k].seconds.at[i];
            sum += t / of->n;
            cpu += of->at[k].cpu.at[i] / of->n;
            min = t < min ? t : min;
        }
        least += min;
    }
    return (TraceTime){.seconds = (waits ? least : cpu) / n,
                       .waited = (sum - (waits ? least : cpu)) / n};
}

const TraceTime *trace_times(Arena *a, const Statement *statement, int n,
                             const char *trace, size_t size, int *ranks, int *threads,
                             const char **error)
{
    char key[KEY];
    Reader r = {.arena = a, .statement = statement, .n = n, .ranks = ranks,
                .threads = threads, .calls = NEW_ARRAY(a, RankCalls, n + 1)};
    r.json = (RtJson){.text = (const unsigned char *)trace, .end = (int64_t)size};
    *ranks = *threads = 0;
    rt_json_object(&r.json);
    while (rt_json_key(&r.json, key, sizeof key))
        if (strcmp(key, "traceEvents") == 0)
            read_events(&r);
        else if (strcmp(key, "otherData") == 0)
            read_run(&r);
        else
            rt_json_skip(&r.json);
    if (rt_json_peek(&r.json) >= 0)
        rt_json_fail(&r.json, "text follows it");
    if (!r.json.error && (*ranks < 1 || *threads < 1))
        rt_json_fail(&r.json, "it does not say how many ranks and threads ran");
    if (r.json.error)
        *error = arena_printf(a, "it is no trace of a run: %s", r.json.error);
    else if (r.found == 0)
        *error = "it has no statement of this program";
    if (r.json.error || r.found == 0)
        return NULL;
    TraceTime *times = NEW_ARRAY(a, TraceTime, n + 1);
    for (int i = 0; i < n; i++)
        times[i] = time_of(&r, i);
    return times;
}
