/* trace.c: records when a rank executes which statement, for --trace, and
 * writes the timeline of a run in Chrome's trace format.
 *
 * A rank executes one statement after another, so a timeline is a list of
 * marks: each mark starts one interval and ends the previous one. Emitted code
 * marks its statements; a collective also marks the end of its wait and of its
 * transfer. The lists are in shared memory, which is allocated and touched
 * before the first step, so tracing does not disturb the step. Rank 0 reads
 * all lists after the last traced step:
 *
 *   {"traceEvents": [
 *     {"ph": "M", "pid": 0, …}                      names of the rows
 *     {"ph": "X", "name": "ag0", "cat": "collective", "pid": 0, "tid": 0,
 *      "ts": 12.5, "dur": 80.1, "args": {…}}, …]}
 *
 * Perfetto (ui.perfetto.dev) and chrome://tracing load it. A rank is a process
 * with one row of nested slices: a step, its phases, and their statements. With a
 * pipeline each pass of a microbatch is a slice, in place of the phases: "F3" is the
 * forward pass of microbatch 3. A collective contains `wait` and `move`; another
 * statement contains `wait` if ranks synchronize before it. Times are in
 * microseconds since the first mark of any rank, on one clock. `cpu_us` of a
 * statement on a CPU is less than its duration if the rank was not running all of
 * the time, as with more ranks than processors.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/files.h"
#include "common/json.h"
#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "parc_pipeline.h"
#include "rt.h"
#include "trace/trace.h"

/* ---- marks --------------------------------------------------------------- */

/* The first steps are slow because of page faults and cold caches. They are
 * not traced if the run has enough other steps. */
enum {
    WARM_UP = 2,
    MARKS_OF_STEP = 2,
    MARKS_OF_COLLECTIVE = 3,
    MARKS_OF_STATEMENT = 2, /* a barrier may precede it */
};

static int64_t marks_a_step(const ParcModel *m)
{
    int64_t n = MARKS_OF_STEP;
    for (int i = 0; i < m->nwork; i++) {
        bool collective = strcmp(m->work[i].kind, "collective") == 0;
        n += m->work[i].count *
             (collective ? MARKS_OF_COLLECTIVE : MARKS_OF_STATEMENT);
    }
    int64_t most = 0, ranks = m->order ? rt_group_size(m, m->order->axis) : 0;
    for (int64_t i = 0; i < ranks; i++) {
        int64_t actions = rt_actions(m->order, i) + 1;
        most = actions > most ? actions : most;
    }
    return n + most;
}

bool rt_trace_open(RtWorld *w, int64_t steps, int64_t done, int64_t total)
{
    RtTrace *t = &w->trace;
    steps = steps < total - done ? steps : total - done;
    int64_t before = total - done - steps;
    t->first = done + (before < WARM_UP ? before : WARM_UP) + 1;
    t->last = t->first + steps - 1;
    int64_t marks = marks_a_step(w->model);
    RtNeed need = {.ranks = w->store ? 1 : w->nranks,
                   .each = (double)steps * (double)marks * sizeof(RtMark),
                   .what = "the trace",
                   .advice = "a smaller --trace-steps takes less"};
    if (!rt_memory_fits(&need, ""))
        return false;
    int64_t capacity = steps * marks;
    size_t ring = sizeof(RtRing) + (size_t)capacity * sizeof(RtMark);
    t->stride = (ring + RT_PAGE - 1) / RT_PAGE * RT_PAGE;
    t->bytes = (size_t)w->nranks * t->stride;
    /* Under a launcher each process fills only its own ring. */
    int pages = w->store ? MAP_NORESERVE : MAP_POPULATE;
    void *map = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | pages, -1, 0);
    if (map == MAP_FAILED) {
        char text[RT_SIZE_TEXT];
        return rt_error("cannot map %s of memory for the trace: %s",
                        rt_size_text((double)t->bytes, text), strerror(errno));
    }
    t->rings = map;
    memset(rt_trace_ring(w, w->rank), 0, t->stride);
    for (int r = 0; r < w->nranks; r++)
        rt_trace_ring(w, r)->capacity = capacity;
    return true;
}

/* Nodes have different clocks. Marks are sent as times since the start of the
 * run, which is the same moment on all ranks up to the latency of a message. */
void rt_trace_gather(ParcRt *rt)
{
    RtWorld *w = rt->world;
    for (int r = 1; w->store && r < rt->nranks; r++) {
        RtRing *ring = rt_trace_ring(w, r);
        int64_t capacity = ring->capacity;
        rt_job_read(w->store, r, RT_OF_TRACE, 0, (int64_t)w->trace.stride,
                    ring);
        ring->n = ring->n < 0 || ring->n > capacity ? 0 : ring->n;
        rt_marks_shift(ring, w->store->zero);
    }
}

static void add_mark(RtRing *ring, int64_t ns, int64_t cpu_ns, int32_t what,
                     int64_t iteration)
{
    if (ring->n == ring->capacity) { /* more marks than planned: train.c was
                                    edited by hand */
        ring->lost++;
        return;
    }
    ring->mark[ring->n++] = (RtMark){ns, cpu_ns, what, (int32_t)iteration};
}

void rt_trace_add_at(RtRing *ring, int64_t ns, int32_t what, int64_t iteration)
{
    add_mark(ring, ns, -1, what, iteration);
}

void rt_trace_add(RtRing *ring, int32_t what, int64_t iteration)
{
    add_mark(ring, rt_now_ns(), rt_cpu_ns(), what, iteration);
}

void rt_trace_begin(ParcRt *rt, int64_t step)
{
    const RtTrace *t = &rt->world->trace;
    if (t->rings && step >= t->first && step <= t->last) {
        rt->ring = rt_trace_ring(rt->world, rt->rank);
        rt_trace_add(rt->ring, RT_MARK_STEP, step);
    }
}

void rt_trace_end(ParcRt *rt)
{
    const RtRing *ring = rt->ring;
    /* A device has already marked the end. */
    if (ring && (ring->n == 0 || ring->mark[ring->n - 1].what != RT_MARK_END))
        rt_mark(rt, RT_MARK_END);
    rt->ring = NULL;
}

/* ---- slices -------------------------------------------------------------- */

/* The open slices of a rank, and its last marks. */
typedef struct Row {
    FILE *file;
    const ParcModel *model;
    int rank;
    int64_t zero; /* ns: the first mark of all ranks */
    int64_t step, step_begin;
    bool input;        /* no phase or action of the step has begun */
    const char *phase; /* NULL: no phase is open */
    int64_t phase_begin;
    bool acts;         /* an action of a pipeline is open */
    bool ends;         /* it is the last one, and ends with the next statement */
    ParcAction action;
    int64_t stage, action_begin;
    const RtMark *work; /* the statement that runs; NULL: none */
    int64_t cpu_ns;     /* of the current mark */
    int64_t part_begin; /* start of the current wait or move */
    bool moving, collective;
    int64_t waited, moved;
} Row;

/* Writes an event up to the start of its args. */
static void open_event(Row *r, const char *name, const char *category,
                       int64_t begin, int64_t end)
{
    FILE *f = r->file;
    fprintf(f, ",\n{\"ph\": \"X\", \"name\": ");
    rt_json_print(f, name);
    fprintf(f,
            ", \"cat\": \"%s\", \"pid\": %d, \"tid\": 0, \"ts\": %.3f, "
            "\"dur\": %.3f, \"args\": {",
            category, r->rank, (double)(begin - r->zero) * 1e-3,
            (double)(end - begin) * 1e-3);
}

static void close_event(Row *r)
{
    fprintf(r->file, "}}");
}

/* Writes "layer": 3 for each loop around the statement. */
static void add_iterations(FILE *f, const ParcWork *w, int64_t iteration)
{
    int64_t at[PARC_MAX_LOOPS];
    rt_work_iterations(w, iteration, at);
    for (int i = w->nloops - 1; i >= 0; i--)
        fprintf(f, ", \"%s\": %" PRId64, w->loop[i].name, at[i]);
}

static void text_field(FILE *f, const char *name, const char *value)
{
    if (value && *value) {
        fprintf(f, ", \"%s\": ", name);
        rt_json_print(f, value);
    }
}

static void work_event(Row *r, int64_t end)
{
    const ParcWork *w = &r->model->work[r->work->what];
    FILE *f = r->file;
    double seconds = (double)(end - r->work->ns) * 1e-9;
    open_event(r, w->id, w->kind, r->work->ns, end);
    fprintf(f, "\"phase\": \"%s\"", w->phase);
    add_iterations(f, w, r->work->iteration);
    text_field(f, "module", w->path);
    text_field(f, "source", w->source);
    text_field(f, "what", w->detail);
    fprintf(f, ", \"bytes\": %" PRId64, w->bytes);
    if (r->collective) {
        fprintf(f, ", \"wait_us\": %.3f, \"move_us\": %.3f",
                (double)r->waited * 1e-3, (double)r->moved * 1e-3);
        seconds = (double)r->moved * 1e-9;
    } else if (r->waited > 0) {
        fprintf(f, ", \"wait_us\": %.3f", (double)r->waited * 1e-3);
        seconds -= (double)r->waited * 1e-9;
    }
    if (r->work->cpu_ns >= 0 && r->cpu_ns >= 0 && !r->collective)
        fprintf(f, ", \"cpu_us\": %.3f",
                (double)(r->cpu_ns - r->work->cpu_ns) * 1e-3);
    if (w->flops > 0)
        fprintf(f, ", \"flops\": %.0f", w->flops);
    if (seconds > 0 && w->flops > 0)
        fprintf(f, ", \"Gflop/s\": %.1f", w->flops / seconds * 1e-9);
    else if (seconds > 0)
        fprintf(f, ", \"GB/s\": %.2f", (double)w->bytes / seconds * 1e-9);
    close_event(r);
}

/* Ends a wait or move. */
static void close_part(Row *r, int64_t now)
{
    int64_t time = now - r->part_begin;
    open_event(r, r->moving ? "move" : "wait", r->moving ? "move" : "wait",
               r->part_begin, now);
    fprintf(r->file, "\"of\": ");
    rt_json_print(r->file, r->model->work[r->work->what].id);
    close_event(r);
    *(r->moving ? &r->moved : &r->waited) += time;
    r->part_begin = now;
}

static void close_work(Row *r, int64_t now)
{
    if (!r->work)
        return;
    if (r->collective)
        close_part(r, now);
    work_event(r, now);
    r->work = NULL;
}

static void close_phase(Row *r, int64_t now)
{
    if (r->phase) {
        open_event(r, r->phase, "phase", r->phase_begin, now);
        close_event(r);
        r->phase = NULL;
    }
}

static void close_input(Row *r, int64_t now)
{
    if (r->input) {
        open_event(r, "input", "input", r->step_begin, now);
        close_event(r);
        r->input = false;
    }
}

static void close_action(Row *r, int64_t now)
{
    static const struct {
        const char *letter, *kind;
    } text[] = {[PARC_FORWARD] = {"F", "forward"},
                [PARC_BACKWARD] = {"B", "backward"},
                [PARC_WEIGHTS] = {"W", "weights"},
                [PARC_SEND] = {"send F", "send"},
                [PARC_RECEIVE] = {"receive F", "receive"},
                [PARC_SEND_GRADIENT] = {"send B", "send"},
                [PARC_RECEIVE_GRADIENT] = {"receive B", "receive"}};
    if (!r->acts)
        return;
    const ParcPipeline *p = r->model->order;
    char name[64], stage[32] = "";
    if (p->stages > rt_group_size(r->model, p->axis))
        snprintf(stage, sizeof stage, "/%" PRId64, r->stage);
    snprintf(name, sizeof name, "%s%" PRId64 "%s", text[r->action.kind].letter,
             r->action.micro, stage);
    open_event(r, name, "action", r->action_begin, now);
    fprintf(r->file, "\"kind\": \"%s\", \"micro\": %" PRId64
            ", \"stage\": %" PRId64, text[r->action.kind].kind,
            r->action.micro, r->stage);
    close_event(r);
    r->acts = false;
}

static void open_action(Row *r, const RtMark *m)
{
    const ParcPipeline *p = r->model->order;
    int64_t at = rt_index(r->model, r->rank, p->axis);
    ParcAction next;
    r->ends = !rt_action(p, at, m->iteration, &next);
    if (r->ends)
        return;
    close_input(r, m->ns);
    close_phase(r, m->ns);
    close_action(r, m->ns);
    r->acts = true;
    r->action = next;
    r->stage = rt_action_stage(&next, at);
    r->action_begin = m->ns;
}

static void open_work(Row *r, const RtMark *m)
{
    const ParcWork *w = &r->model->work[m->what];
    close_input(r, m->ns);
    if (r->ends)
        close_action(r, m->ns);
    r->ends = false;
    if (!r->acts && (!r->phase || strcmp(r->phase, w->phase) != 0)) {
        close_phase(r, m->ns);
        r->phase = w->phase;
        r->phase_begin = m->ns;
    }
    r->work = m;
    r->collective = r->moving = false;
    r->part_begin = m->ns;
    r->waited = r->moved = 0;
}

static void close_step(Row *r, int64_t now)
{
    char name[32];
    close_phase(r, now);
    close_action(r, now);
    snprintf(name, sizeof name, "step %" PRId64, r->step);
    open_event(r, name, "step", r->step_begin, now);
    close_event(r);
}

static void print_mark(Row *r, const RtMark *m)
{
    r->cpu_ns = m->cpu_ns;
    switch (m->what) {
    case RT_MARK_STEP:
        r->step = m->iteration;
        r->step_begin = m->ns;
        r->input = true;
        return;
    case RT_MARK_MOVE:
        if (r->work) {
            const char *kind = r->model->work[r->work->what].kind;
            r->moving = false;
            close_part(r, m->ns);
            r->collective = r->moving = strcmp(kind, "collective") == 0;
        }
        return;
    case RT_MARK_WAIT:
        if (r->work && r->collective) {
            close_part(r, m->ns);
            r->moving = false;
        }
        return;
    case RT_MARK_END:
        close_work(r, m->ns);
        close_step(r, m->ns);
        return;
    case RT_MARK_ACTION:
        close_work(r, m->ns);
        open_action(r, m);
        return;
    default:
        close_work(r, m->ns);
        open_work(r, m);
    }
}

/* ---- the file ------------------------------------------------------------ */

static void name_rows(FILE *f, const RtWorld *w)
{
    const ParcModel *m = w->model;
    for (int r = 0; r < w->nranks; r++) {
        fprintf(f,
                "%s{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": %d, "
                "\"args\": {\"name\": \"rank %d",
                r > 0 ? ",\n" : "", r, r);
        for (int a = 0; a < m->naxes; a++)
            fprintf(f, " %s=%" PRId64, m->axis[a].name, rt_coord(m, r, a));
        fprintf(f,
                "\"}},\n{\"ph\": \"M\", \"name\": \"process_sort_index\", "
                "\"pid\": %d, \"args\": {\"sort_index\": %d}},\n",
                r, r);
        fprintf(f,
                "{\"ph\": \"M\", \"name\": \"thread_name\", \"pid\": %d, "
                "\"tid\": 0, \"args\": {\"name\": \"step\"}}",
                r);
    }
}

static int64_t first_mark(const RtWorld *w)
{
    int64_t first = INT64_MAX;
    for (int r = 0; r < w->nranks; r++) {
        const RtRing *ring = rt_trace_ring(w, r);
        if (ring->n > 0 && ring->mark[0].ns < first)
            first = ring->mark[0].ns;
    }
    return first;
}

const char *rt_trace_write(const RtWorld *w, const char *path)
{
    RtOutput o;
    int64_t zero = first_mark(w), lost = 0;
    rt_output_open(&o, path, w->temporary[RT_TRACE_FILE]);
    FILE *f = o.error ? NULL : rt_output_stream(&o);
    if (!f)
        return rt_output_close(&o);
    fprintf(f, "{\"traceEvents\": [\n");
    name_rows(f, w);
    for (int rank = 0; rank < w->nranks; rank++) {
        const RtRing *ring = rt_trace_ring(w, rank);
        Row r = {.file = f, .model = w->model, .rank = rank, .zero = zero};
        for (int64_t i = 0; i < ring->n; i++)
            print_mark(&r, &ring->mark[i]);
        lost += ring->lost;
    }
    fprintf(f,
            "\n],\n\"displayTimeUnit\": \"ms\",\n\"otherData\": {\"model\": ");
    rt_json_print(f, w->model->name);
    fprintf(f, ", \"source\": ");
    rt_json_print(f, w->model->source);
    fprintf(f,
            ", \"parc\": \"%s\", \"plan_hash\": \"%016" PRIx64
            "\", \"ranks\": %d, \"threads\": %d, \"marks_lost\": %" PRId64
            "}}\n",
            w->model->parc_version, w->model->plan_hash, w->nranks, w->threads,
            lost);
    fclose(f);
    return rt_output_close(&o);
}
