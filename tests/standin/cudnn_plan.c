/* cudnn_plan.c: creates and runs the graphs and plans of the stand-in cuDNN.
 *
 * A graph is computed from its descriptors alone (cudnn_graph.c). For backward
 * graphs of attention, and for convolutions, three engines are proposed: engine 0, whose results vary from run to
 * run, engine 1, whose workspace of 1 TiB exceeds a GPU's memory, and engine 2,
 * which is right for all graphs. A program may run engine 2, and engine 0 if
 * the graph sums dq in a separate tensor. Any other run is an error.
 *
 *   STANDIN_CUDNN=refuse  there is no engine
 *   STANDIN_CUDNN=fail    every run fails
 *   STANDIN_CUDNN=slow    a run takes a tenth of a second
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cudnn_object.h"
#include "engine.h"
#include "hazard.h"
#include "loaded.h"
#include "queue.h"

enum {
    OWN_WORKSPACE = 256,
    TILE = 128,
    ALIGNMENT = 16,
    ENGINES = 3,
    VARIES = 0,
    RIGHT = 2, /* engines of backward graphs */
};

/* ---- graphs -------------------------------------------------------------- */

/* Attributes of operations' operands, by kind. */
static const struct Operands {
    DnnKind kind;
    DnnAttribute does, in[3], out;
} operands[] = {
    {RT_DNN_OPERATION_POINTWISE, RT_DNN_OPERATION_POINTWISE_DOES,
     {RT_DNN_OPERATION_POINTWISE_X, RT_DNN_OPERATION_POINTWISE_B,
      RT_DNN_OPERATION_POINTWISE_T},
     RT_DNN_OPERATION_POINTWISE_Y},
    {RT_DNN_OPERATION_MATMUL, RT_DNN_OPERATION_MATMUL_DOES,
     {RT_DNN_OPERATION_MATMUL_A, RT_DNN_OPERATION_MATMUL_B, 0},
     RT_DNN_OPERATION_MATMUL_C},
    {RT_DNN_OPERATION_REDUCTION, RT_DNN_OPERATION_REDUCTION_DOES,
     {RT_DNN_OPERATION_REDUCTION_X, 0, 0}, RT_DNN_OPERATION_REDUCTION_Y},
    {RT_DNN_OPERATION_RESHAPE, 0, {RT_DNN_OPERATION_RESHAPE_X, 0, 0},
     RT_DNN_OPERATION_RESHAPE_Y},
    {RT_DNN_OPERATION_CONV, RT_DNN_OPERATION_CONV_DOES,
     {RT_DNN_OPERATION_CONV_X, RT_DNN_OPERATION_CONV_W, 0}, RT_DNN_OPERATION_CONV_Y},
    {RT_DNN_OPERATION_CONV_DATA, RT_DNN_OPERATION_CONV_DATA_DOES,
     {RT_DNN_OPERATION_CONV_DATA_DY, RT_DNN_OPERATION_CONV_DATA_W, 0},
     RT_DNN_OPERATION_CONV_DATA_DX},
    {RT_DNN_OPERATION_CONV_FILTER, RT_DNN_OPERATION_CONV_FILTER_DOES,
     {RT_DNN_OPERATION_CONV_FILTER_DY, RT_DNN_OPERATION_CONV_FILTER_X, 0},
     RT_DNN_OPERATION_CONV_FILTER_DW},
};

static int tensor_in(HostGraph *g, const Descriptor *d)
{
    int64_t uid = dnn_int64(d, RT_DNN_TENSOR_NAME, 0);
    for (int i = 0; i < g->ntensors; i++)
        if (g->tensor[i].uid == uid)
            return i;
    HostTensor *t = &g->tensor[g->ntensors];
    t->uid = uid;
    t->type = dnn_mode(d, RT_DNN_TENSOR_TYPE);
    t->inner = dnn_bool(d, RT_DNN_TENSOR_VIRTUAL);
    t->by_value = dnn_bool(d, RT_DNN_TENSOR_BY_VALUE);
    t->named = t->inner ? -1 : g->nnamed++;
    for (int i = 0; i < GRAPH_DIMS; i++) {
        t->dim[i] = dnn_int64(d, RT_DNN_TENSOR_SIZES, i);
        t->stride[i] = dnn_int64(d, RT_DNN_TENSOR_STRIDES, i);
    }
    return g->ntensors++;
}

/* Whether a convolution's result is 1 times the sums, and 0 times the old one. */
static bool replaces(const Descriptor *d)
{
    static const struct {
        DnnKind kind;
        DnnAttribute alpha, beta;
    } factors[] = {
        {RT_DNN_OPERATION_CONV, RT_DNN_OPERATION_CONV_ALPHA, RT_DNN_OPERATION_CONV_BETA},
        {RT_DNN_OPERATION_CONV_DATA, RT_DNN_OPERATION_CONV_DATA_ALPHA,
         RT_DNN_OPERATION_CONV_DATA_BETA},
        {RT_DNN_OPERATION_CONV_FILTER, RT_DNN_OPERATION_CONV_FILTER_ALPHA,
         RT_DNN_OPERATION_CONV_FILTER_BETA},
    };
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++) {
        int32_t bits[2] = {dnn_mode(d, factors[i].alpha), dnn_mode(d, factors[i].beta)};
        float x[2];
        memcpy(x, bits, sizeof x);
        if (factors[i].kind == d->kind && (x[0] < 1 || x[0] > 1 || x[1] < 0 || x[1] > 0))
            return false;
    }
    return true;
}

static HostNode node_in(HostGraph *g, const Descriptor *d)
{
    HostNode n = {.kind = d->kind, .in = {-1, -1, -1}};
    const struct Operands *o = operands;
    while (o->kind != d->kind)
        o++;
    const Descriptor *does = o->does ? dnn_descriptor(d, o->does, 0) : NULL;
    if (does) {
        n.mode = dnn_mode(does, d->kind == RT_DNN_OPERATION_REDUCTION
                                   ? RT_DNN_REDUCTION_MODE
                                   : RT_DNN_POINTWISE_MODE);
        n.axis = (int)dnn_int64(does, RT_DNN_POINTWISE_AXIS, 0);
        for (int i = 0; i < 2; i++) {
            n.stride[i] = dnn_int64(does, RT_DNN_CONVOLUTION_STRIDES, i);
            n.padding[i] = dnn_int64(does, RT_DNN_CONVOLUTION_BEFORE, i);
            n.dilation[i] = dnn_int64(does, RT_DNN_CONVOLUTION_DILATIONS, i);
        }
    }
    for (int i = 0; i < 3; i++) {
        const Descriptor *x = o->in[i] ? dnn_descriptor(d, o->in[i], 0) : NULL;
        n.in[i] = x ? tensor_in(g, x) : -1;
    }
    n.out = tensor_in(g, dnn_descriptor(d, o->out, 0));
    return n;
}

DnnStatus dnn_finalize_graph(Descriptor *d)
{
    const Attribute *operations = dnn_find(d, RT_DNN_GRAPH_OPERATIONS);
    HostGraph *g = d->graph = calloc(1, sizeof *g);
    for (int64_t i = 0; i < operations->count; i++) {
        const Descriptor *x = dnn_descriptor(d, RT_DNN_GRAPH_OPERATIONS, i);
        if (!x)
            return dnn_fails(NOT_FINALIZED, "an operation that is not finalized");
        if (!replaces(x))
            return dnn_fails(NOT_SUPPORTED, "a convolution with other factors");
        g->node[g->nnodes++] = node_in(g, x);
    }
    const char *fault = graph_fault(g);
    if (fault)
        standin_error("cuDNN: a graph with %s", fault);
    return fault ? dnn_fails(BAD_PARAM, fault) : RT_DNN_SUCCESS;
}

/* ---- engines ------------------------------------------------------------- */

/* Backward graphs of attention have a matmul of transposed scores. */
static bool is_backward(const HostGraph *g)
{
    for (int i = 0; i < g->nnodes; i++)
        if (g->node[i].kind == RT_DNN_OPERATION_RESHAPE)
            return true;
    return false;
}

/* The tensor whose parts a convolution's engines add in f32; NULL: no convolution. */
static const HostTensor *conv_result(const HostGraph *g)
{
    unsigned kind = g->node[0].kind;
    bool conv = kind == RT_DNN_OPERATION_CONV || kind == RT_DNN_OPERATION_CONV_DATA ||
                kind == RT_DNN_OPERATION_CONV_FILTER;
    return conv ? &g->tensor[g->node[0].out] : NULL;
}

/* The tensor that dq is copied from; NULL: a matmul computes dq itself. */
static const HostTensor *sum_of_dq(const HostGraph *g)
{
    for (int i = 0; i < g->nnodes; i++)
        if (g->node[i].kind == RT_DNN_OPERATION_POINTWISE &&
            g->node[i].mode == RT_DNN_IDENTITY)
            return &g->tensor[g->node[i].in[0]];
    return NULL;
}

static bool is_right(const HostGraph *g, int64_t engine)
{
    return engine == RIGHT || (engine == VARIES && sum_of_dq(g));
}

static int64_t up(int64_t n)
{
    return (n + TILE - 1) / TILE * TILE;
}

/* The workspace of a backward graph: ds for each head, or another sum of dq. The
 * gradients of shared heads are summed from 16-bit values. */
static int64_t workspace_of(const HostGraph *g)
{
    const HostTensor *scores = &g->tensor[g->node[3].out];
    int64_t bytes = OWN_WORKSPACE;
    if (conv_result(g))
        return bytes + 2 * graph_tensor_bytes(conv_result(g));
    if (!is_backward(g))
        return bytes;
    const HostTensor *sum = sum_of_dq(g);
    bytes += scores->dim[0] * scores->dim[1] * up(scores->dim[2]) *
             (sum ? sum->dim[3] * 4 : up(scores->dim[3]) * 2);
    for (int i = 0; i < g->nnodes; i++)
        if (g->node[i].kind == RT_DNN_OPERATION_REDUCTION &&
            g->tensor[g->node[i].out].type != RT_DNN_F32)
            bytes += graph_tensor_bytes(&g->tensor[g->node[i].in[0]]);
    return bytes;
}

DnnStatus dnn_finalize_plan(Descriptor *d)
{
    const Descriptor *config = dnn_descriptor(d, RT_DNN_PLAN_CONFIG, 0);
    if (!config)
        return dnn_fails(NOT_FINALIZED, "a plan without a config");
    d->engine = config->engine;
    d->graph = config->graph;
    d->workspace = is_right(d->graph, d->engine) ? workspace_of(d->graph)
                                                 : INT64_C(1) << 40;
    return RT_DNN_SUCCESS;
}

/* Proposes configs of the graph's engines in the descriptors of the caller.
 */
static DnnStatus propose(const Descriptor *d, int64_t limit, int64_t *count,
                         DnnDescriptor *config)
{
    Descriptor *graph = dnn_descriptor(d, RT_DNN_HEURISTICS_GRAPH, 0);
    bool all = is_backward(graph->graph) || conv_result(graph->graph);
    *count = 0;
    if (dnn_asked_to("refuse") ||
        dnn_mode(d, RT_DNN_HEURISTICS_MODE) != RT_DNN_MODE_A)
        return RT_DNN_SUCCESS;
    for (int i = all ? 0 : RIGHT; i < ENGINES && *count < limit; i++) {
        Descriptor *to = config[(*count)++];
        if (!dnn_is(to) || to->kind != RT_DNN_ENGINE_CONFIG)
            return dnn_fails(BAD_PARAM, "results go to configs");
        to->engine = i;
        to->graph = graph->graph;
        to->finalized = true;
    }
    return RT_DNN_SUCCESS;
}

/* Engine 2 computes convolutions in f32. */
static DnnStatus notes_of(const Descriptor *engine, int64_t *count, void *value)
{
    const int32_t note[] = {RT_DNN_TENSOR_CORE, RT_DNN_NOT_DETERMINISTIC};
    *count = engine->engine == VARIES ? 2 : conv_result(engine->graph) ? 0 : 1;
    memcpy(value, note, (size_t)*count * sizeof *note);
    return RT_DNN_SUCCESS;
}

DnnStatus cudnnBackendGetAttribute(DnnDescriptor descriptor,
                                   DnnAttribute attribute, DnnValue type,
                                   int64_t limit, int64_t *count, void *value)
{
    const Descriptor *d = descriptor;
    int64_t number = 0;
    if (!dnn_is(d) || limit < 1)
        return dnn_fails(BAD_PARAM, "nothing to ask");
    *count = 1;
    switch (attribute) {
    case RT_DNN_HEURISTICS_RESULTS:
        return propose(d, limit, count, value);
    case RT_DNN_CONFIG_ENGINE:
        (*(Descriptor **)value)->engine = d->engine;
        (*(Descriptor **)value)->graph = d->graph;
        return RT_DNN_SUCCESS;
    case RT_DNN_ENGINE_NOTES: return notes_of(d, count, value);
    case RT_DNN_ENGINE_INDEX: number = d->engine; break;
    case RT_DNN_PLAN_WORKSPACE:
        number = d->workspace;
        break;
    default:
        return dnn_refuse(d, attribute, "cannot be asked for here");
    }
    if (type != RT_DNN_OF_INT64)
        return dnn_refuse(d, attribute, "is asked for by another type");
    memcpy(value, &number, sizeof number);
    return RT_DNN_SUCCESS;
}

/* ---- running ------------------------------------------------------------- */

typedef struct Run {
    const Descriptor *plan;
    const HostGraph *graph;
    void *at[GRAPH_NAMED];
    float number[GRAPH_NAMED]; /* copies of scalars in host memory */
    void *workspace;
} Run;
_Static_assert(sizeof(Run) <= WORK_STATE, "a run fits");

/* Marks rows along the contiguous dim as read or written. */
static bool touch(const HostTensor *t, char *at, bool write)
{
    int64_t bytes = t->type == RT_DNN_F32 ? 4 : 2;
    int run = 0;
    for (int i = 0; i < GRAPH_DIMS; i++)
        run = t->stride[i] == 1 && t->dim[i] >= t->dim[run] ? i : run;
    for (int64_t i = 0, n = 1; i < n; i++) {
        int64_t left = i, to = 0;
        n = 1;
        for (int j = 0; j < GRAPH_DIMS; j++) {
            if (j == run)
                continue;
            to += left % t->dim[j] * t->stride[j];
            left /= t->dim[j];
            n *= t->dim[j];
        }
        if (!hazard_touch(at + to * bytes, t->dim[run] * bytes, write))
            return false;
    }
    return true;
}

static bool is_made(const HostGraph *g, int tensor)
{
    for (int i = 0; i < g->nnodes; i++)
        if (g->node[i].out == tensor)
            return true;
    return false;
}

static bool check_memory(const Run *r, bool write)
{
    for (int i = 0; i < r->graph->ntensors; i++) {
        const HostTensor *t = &r->graph->tensor[i];
        if (t->inner || t->by_value || is_made(r->graph, i) != write)
            continue;
        if (!standin_is_device(r->at[t->named], graph_tensor_bytes(t))) {
            standin_error("cuDNN: tensor %lld, %lld bytes at %p, is not within "
                          "live device memory", (long long)t->uid,
                          (long long)graph_tensor_bytes(t), r->at[t->named]);
            return false;
        }
        if (!touch(t, r->at[t->named], write))
            return false;
    }
    return true;
}

/* STANDIN_VARIED=1: inputs of equal numbers are an error, as in blas.c. */
static bool inputs_vary(const Run *r)
{
    enum { BYTES = 32 };
    for (int i = 0; i < r->graph->ntensors && getenv("STANDIN_VARIED"); i++) {
        const HostTensor *t = &r->graph->tensor[i];
        const char *at = r->at[t->named];
        if (!t->inner && !t->by_value && !is_made(r->graph, i) &&
            graph_tensor_bytes(t) > BYTES && memcmp(at, at + 4, BYTES - 4) == 0) {
            standin_error("cuDNN: tensors of equal numbers");
            return false;
        }
    }
    return true;
}

static enum WorkStatus run_plan(void *state)
{
    Run *r = state;
    if (!dnn_is(r->plan)) {
        standin_error("cuDNN: a plan that is queued has been destroyed");
        return WORK_FAILED;
    }
    if (!standin_is_device(r->workspace, r->plan->workspace)) {
        standin_error("cuDNN: the workspace, %lld bytes at %p, is not within "
                      "live device memory", (long long)r->plan->workspace,
                      r->workspace);
        return WORK_FAILED;
    }
    if (!check_memory(r, false) || !check_memory(r, true) ||
        !hazard_touch(r->workspace, r->plan->workspace, true) ||
        !inputs_vary(r))
        return WORK_FAILED;
    memset(r->workspace, 0xff, (size_t)r->plan->workspace);
    for (int i = 0; i < r->graph->ntensors; i++) {
        const HostTensor *t = &r->graph->tensor[i];
        if (t->by_value)
            r->at[t->named] = &r->number[t->named];
    }
    if (dnn_asked_to("slow"))
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    graph_compute(r->graph, r->at);
    return WORK_DONE;
}

/* Reads the addresses of the variant pack, by name. */
static const char *take_addresses(Run *r, const Descriptor *pack)
{
    const Attribute *names = dnn_find(pack, RT_DNN_PACK_NAMES);
    const Attribute *pointers = dnn_find(pack, RT_DNN_PACK_POINTERS);
    if (names->count != pointers->count || names->count != r->graph->nnamed)
        return "not as many addresses as tensors";
    for (int i = 0; i < r->graph->ntensors; i++) {
        const HostTensor *t = &r->graph->tensor[i];
        for (int64_t j = 0; !t->inner && j < names->count; j++)
            if (dnn_int64(pack, RT_DNN_PACK_NAMES, j) == t->uid)
                r->at[t->named] =
                    (void *)(uintptr_t)dnn_int64(pack, RT_DNN_PACK_POINTERS, j);
        if (t->inner)
            continue;
        void *at = r->at[t->named];
        if (!at || (!t->by_value && (uintptr_t)at % ALIGNMENT))
            return "a tensor that is nowhere or not aligned";
        if (t->by_value)
            memcpy(&r->number[t->named], at, sizeof(float));
    }
    return NULL;
}

DnnStatus cudnnBackendExecute(DnnHandle handle, DnnDescriptor plan,
                              DnnDescriptor pack)
{
    const Descriptor *p = plan, *v = pack;
    Work w = {"a plan of cuDNN's", run_plan, NULL, {0}};
    Run *r = (Run *)(void *)w.state;
    if (!handle || handle->magic != MAGIC || !dnn_is(p) ||
        !dnn_is(v) || !p->finalized || !v->finalized)
        return dnn_fails(NOT_FINALIZED, "a plan or pack that is not finalized");
    if (dnn_asked_to("fail"))
        return dnn_fails(EXECUTION_FAILED, "as STANDIN_CUDNN wants");
    r->plan = p;
    r->graph = p->graph;
    r->workspace = (void *)(uintptr_t)dnn_int64(v, RT_DNN_PACK_WORKSPACE, 0);
    const char *fault = !is_right(p->graph, p->engine)
                            ? "an engine that should not have been taken"
                            : take_addresses(r, v);
    if (fault) {
        standin_error("cuDNN: %s", fault);
        return dnn_fails(BAD_PARAM, fault);
    }
    if (!loaded_launch(&p, sizeof p, handle->stream, "a plan of cuDNN's"))
        return dnn_fails(EXECUTION_FAILED, "a kernel is loaded in a capture");
    queue_lock();
    CuResult result = queue_add(handle->stream, &w);
    queue_unlock();
    return result ? EXECUTION_FAILED : RT_DNN_SUCCESS;
}
