/* rt_cuda_step.c: executes steps on the device: it enqueues the calls of
 * step(), captures them as a graph once and replays it. It also implements the
 * events and marks that train.c uses.
 *
 * The same holds for the programs beside it (eval/eval.h), each of which has a
 * graph of its own, unless it computes experts in rounds, whose number varies.
 *
 * The first step is enqueued call by call: libraries load kernels, connect and
 * allocate memory in their first calls, which must not happen during a
 * capture. The calls of the second step are captured as a graph. Hundreds of
 * launches become one, whose cost for the host does not depend on the model.
 * The arguments of a graph never change: data that differs between steps
 * (batch, learning rate, key, scale) is in device memory, which is written
 * before the step.
 *
 * The graph begins and ends on the compute stream. As a capture requires, the
 * other streams fork from it by an event at the start and join it by events at
 * the end.
 *
 * A step that --trace records runs without its graph, with an event before each
 * statement. Its statements run one after another on any stream, so each time
 * is that of the statement alone; work that overlaps in other steps does not
 * overlap here. After the step, events become marks in the rank's list
 * (trace/trace.c). The device's clock is aligned with the host's at the start
 * of the step.
 */
#include <stdio.h>
#include <stdlib.h>

#include "common/message.h"
#include "cuda/core/rt_cuda.h"
#include "device.h"
#include "rt.h"
#include "trace/trace.h"

/* A program to execute: the training step or one beside it. */
typedef struct Executed {
    CudaProgram number;
    void (*program)(ParcRt *rt);
    const char *what; /* for messages */
    bool varies;      /* runs a number of rounds that the host chooses: it has no graph */
} Executed;

/* ---- traced steps -------------------------------------------------------- */

/* Events are reused in the next traced step. */
static CudaMark *next_mark(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    t->mark = rt_grow(t->mark, t->n, &t->capacity, sizeof *t->mark);
    CudaMark *m = &t->mark[t->n++];
    if (!m->event)
        CU(rt, cuEventCreate(&m->event, RT_CU_EVENT_DEFAULT));
    return m;
}

static void trace_mark(ParcRt *rt, int32_t what, int64_t iteration)
{
    const RtDevice *d = rt->device;
    CudaMark *m = next_mark(rt);
    m->what = what;
    m->iteration = iteration;
    CU(rt, cuEventRecord(m->event, d->stream[PARC_COMPUTE]));
}

static void trace_begin(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "what comes before a traced step");
    t->n = 0;
    t->begin_ns = (int64_t)(1e9 * rt_now());
    trace_mark(rt, -1, 0); /* the times of other events are relative to
                                      this one */
}

static void trace_end(ParcRt *rt)
{
    const RtDevice *d = rt->device;
    const CudaTrace *t = &d->trace;
    trace_mark(rt, RT_MARK_END, 0);
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "a traced step");
    for (int64_t i = 1; i < t->n; i++) {
        float ms = 0;
        CU(rt, cuEventElapsedTime(&ms, t->mark[0].event, t->mark[i].event));
        rt_trace_add_at(rt->ring, t->begin_ns + (int64_t)((double)ms * 1e6),
                        t->mark[i].what, t->mark[i].iteration);
    }
}

static void trace_close(ParcRt *rt)
{
    CudaTrace *t = &rt->device->trace;
    for (int64_t i = 0; i < t->capacity; i++)
        if (t->mark[i].event)
            CU(rt, cuEventDestroy(t->mark[i].event));
    free(t->mark);
}

/* ---- streams and events of train.c --------------------------------------- */

void parc_record(ParcRt *rt, int stream, int event)
{
    RtDevice *d = rt->device;
    CU(rt, cuEventRecord(d->event[event], d->stream[stream]));
    d->recorded[event] = d->queued;
}

/* In the first iteration of a loop, an event of the previous iteration has not
 * been recorded yet. Records of another step are ignored: that step has ended,
 * and the driver does not allow records of captured steps and waits of eager
 * ones to be mixed. */
void parc_wait(ParcRt *rt, int stream, int event)
{
    const RtDevice *d = rt->device;
    if (d->recorded[event] == d->queued) {
        rt_cuda_progress_settle(rt, stream);
        CU(rt, cuStreamWaitEvent(d->stream[stream], d->event[event], 0));
    }
}

/* With PARC_NANCHECK: checks the results of the previous statement, after all
 * streams. */
static void look_at_results(ParcRt *rt, int next, int64_t iteration)
{
    for (int i = 0; rt->nan_check && i < PARC_STREAMS; i++)
        rt_cuda_wait_stream(rt, i, "a statement");
    if (rt->nan_check)
        rt_nan_mark(rt, next, iteration);
}

/* The number of streams that the program uses. */
static int streams_of(const ParcRt *rt)
{
    return rt->model->pipeline ? PARC_STREAMS : PARC_TRANSFER;
}

/* The other streams begin after the work that is now enqueued on the compute
 * stream. */
static void fork_streams(ParcRt *rt, int streams)
{
    const RtDevice *d = rt->device;
    CU(rt, cuEventRecord(d->fork, d->stream[PARC_COMPUTE]));
    for (int i = PARC_COMPUTE + 1; i < streams; i++)
        CU(rt, cuStreamWaitEvent(d->stream[i], d->fork, 0));
}

/* The compute stream continues after all other streams. */
static void join_streams(ParcRt *rt, int streams)
{
    const RtDevice *d = rt->device;
    for (int i = PARC_COMPUTE + 1; i < streams; i++) {
        rt_cuda_progress_settle(rt, i);
        CU(rt, cuEventRecord(d->join[i], d->stream[i]));
        CU(rt, cuStreamWaitEvent(d->stream[PARC_COMPUTE], d->join[i], 0));
    }
}

void parc_join(ParcRt *rt, bool transfers)
{
    int streams = transfers ? PARC_STREAMS : PARC_TRANSFER;
    join_streams(rt, streams);
    fork_streams(rt, streams);
}

void parc_mark(ParcRt *rt, int i, int64_t iteration)
{
    RtDevice *d = rt->device;
    look_at_results(rt, i, iteration);
    if (rt->ring) {
        join_streams(rt, streams_of(rt)); /* a traced statement runs alone */
        trace_mark(rt, i, iteration);
        fork_streams(rt, streams_of(rt));
    }
    rt_nvtx_mark(rt->model, d->work, i);
    d->work = i;
    d->iteration = iteration;
}

void rt_device_mark_action(ParcRt *rt, int64_t i)
{
    if (rt->ring)
        trace_mark(rt, RT_MARK_ACTION, i);
}

static void queue_program(ParcRt *rt, const Executed *x)
{
    if (rt->ring)
        trace_begin(rt);
    rt->device->queued++;
    rt_cuda_progress_step(rt, x->number);
    fork_streams(rt, streams_of(rt));
    x->program(rt);
    look_at_results(rt, -1, 0);
    rt_nvtx_mark(rt->model, rt->device->work, -1);
    rt->device->work = -1;
    join_streams(rt, streams_of(rt));
    if (rt->ring)
        trace_end(rt);
}

/* ---- the graph ----------------------------------------------------------- */

/* Relaxed mode: libraries may allocate pinned memory or register buffers for
 * calls in graphs, which are not a part of the step. */
static void capture(ParcRt *rt, const Executed *x)
{
    RtDevice *d = rt->device;
    CuGraph graph = NULL;
    CU(rt, cuStreamBeginCapture(d->stream[PARC_COMPUTE], RT_CU_CAPTURE_RELAXED));
    queue_program(rt, x);
    CU(rt, cuStreamEndCapture(d->stream[PARC_COMPUTE], &graph));
    /* With this flag each node keeps the priority of the stream that it was
     * captured on; without it all nodes have the priority of the launching
     * stream. */
    CU(rt, cuGraphInstantiate(&d->graph[x->number], graph, RT_CU_GRAPH_NODE_PRIORITY));
    CU(rt, cuGraphDestroy(graph));
}

static void run_program(ParcRt *rt, const Executed *x)
{
    RtDevice *d = rt->device;
    bool first = !d->ran[x->number];
    rt_cuda_progress_forget(rt);
    if (d->queued == 0)
        rt_cuda_matmul_ready(rt);
    d->ran[x->number] = true;
    if (first || d->mode.eager || rt->ring || x->varies) {
        queue_program(rt, x);
        rt_cuda_queued(rt, PARC_COMPUTE, x->what);
        return;
    }
    if (!d->graph[x->number]) {
        rt_nvtx_push("capture");
        capture(rt, x);
        rt_nvtx_pop();
    }
    CU(rt, cuGraphLaunch(d->graph[x->number], d->stream[PARC_COMPUTE]));
}

void rt_device_step(ParcRt *rt)
{
    char name[32];
    int64_t step = atomic_load(&rt->world->status[rt->rank].step);
    snprintf(name, sizeof name, "step %lld", (long long)step);
    rt_nvtx_push(name);
    run_program(rt, &(Executed){CUDA_STEP, rt->model->step, "the step", false});
    rt_nvtx_pop();
}

void rt_device_run(ParcRt *rt, const ParcProgram *e)
{
    const ParcModel *m = rt->model;
    bool varies = e->at.overflow >= 0;
    Executed x = {CUDA_OUTPUTS, e->run, "the outputs of the model", varies};
    if (e == m->eval)
        x = (Executed){CUDA_EVAL, e->run, "the evaluation", varies};
    else if (e == m->rounds)
        x = (Executed){CUDA_ROUNDS, e->run, "the step in rounds", varies};
    rt_nvtx_push(x.what);
    run_program(rt, &x);
    rt_nvtx_pop();
}

/* A traced step has ended when this is called; the host must not extend it. */
bool rt_device_runs_beside(const ParcRt *rt)
{
    return rt->ring == NULL;
}

/* A graph contains the whole step, with its updates. */
bool rt_device_repeats(const ParcRt *rt)
{
    (void)rt;
    return false;
}

void rt_cuda_step_close(ParcRt *rt)
{
    for (int i = 0; i < CUDA_PROGRAMS; i++)
        if (rt->device->graph[i])
            CU(rt, cuGraphExecDestroy(rt->device->graph[i]));
    trace_close(rt);
}
