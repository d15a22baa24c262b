/* rt_cudnn_graph.c: creates cuDNN's descriptors from the tables of a graph,
 * and chooses an engine.
 *
 * Every call returns a status. The first failure ends the creation of a plan,
 * with the library's message as its reason. Descriptors are freed together
 * with the plan, because the documentation does not say that a plan can
 * outlive them.
 */
#include "common/message.h"
#include "cuda/dnn/rt_cudnn_graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>


enum { MADE = 256, CONFIGS = 16 };

struct DnnPlan {
    const DnnContext *context;
    const CudaDnn *call;
    DnnHandle handle;
    DnnStatus status;
    char *reason; /* message of the first failure */
    DnnDescriptor made[MADE];
    int nmade;
    DnnDescriptor plan;
    int64_t workspace, engine;
    int64_t name[DNN_TENSORS]; /* names of tensors whose addresses a run
                                  passes */
    int nnames;
};

/* ---- calls that stop at the first failure -------------------------------- */

static bool succeeds(DnnPlan *p, DnnStatus status, const char *what)
{
    if (p->status != RT_DNN_SUCCESS || status == RT_DNN_SUCCESS)
        return p->status == RT_DNN_SUCCESS;
    char says[DNN_REASON / 2] = "";
    p->status = status;
    p->call->cudnnGetLastErrorString(says, sizeof says);
    says[sizeof says - 1] = 0;
    says[strcspn(says, "\n")] = 0;
    snprintf(p->reason, DNN_REASON, "%s: %s%s%s", what,
             p->call->cudnnGetErrorString(status), *says ? ": " : "", says);
    return false;
}

static DnnDescriptor make(DnnPlan *p, DnnKind kind, const char *what)
{
    DnnDescriptor d = NULL;
    if (p->status != RT_DNN_SUCCESS)
        return NULL;
    if (p->nmade == MADE) {
        succeeds(p, (DnnStatus)-1, "too many descriptors");
        return NULL;
    }
    if (succeeds(p, p->call->cudnnBackendCreateDescriptor(kind, &d), what))
        p->made[p->nmade++] = d;
    return d;
}

/* An attribute of a descriptor. n: the number of its values; 0: it is not set. */
typedef struct Attribute {
    DnnAttribute name;
    DnnValue type;
    int64_t n;
    const void *value;
} Attribute;

static bool set(DnnPlan *p, DnnDescriptor d, const Attribute *a)
{
    char what[32];
    snprintf(what, sizeof what, "attribute %u", (unsigned)a->name);
    return succeeds(p, p->call->cudnnBackendSetAttribute(d, a->name, a->type,
                                                         a->n, a->value),
                    what);
}

/* Creates a descriptor with the attributes; n: their number. */
static DnnDescriptor build(DnnPlan *p, DnnKind kind, const char *what, int n,
                           const Attribute *a)
{
    DnnDescriptor d = make(p, kind, what);
    bool good = p->status == RT_DNN_SUCCESS;
    for (int i = 0; i < n; i++)
        good = good && (a[i].n == 0 || set(p, d, &a[i]));
    if (good)
        succeeds(p, p->call->cudnnBackendFinalize(d), what);
    return d;
}
#define BUILD(p, kind, what, ...)                                              \
    build(p, kind, what,                                                       \
          (int)(sizeof((Attribute[]){__VA_ARGS__}) / sizeof(Attribute)),       \
          (Attribute[]){__VA_ARGS__})

/* Reads up to `limit` values, and their number to *n. */
static bool get_values(DnnPlan *p, DnnDescriptor d, DnnAttribute attribute,
                       DnnValue type, int64_t limit, int64_t *n, void *value,
                       const char *what)
{
    return p->status == RT_DNN_SUCCESS &&
           succeeds(p,
                    p->call->cudnnBackendGetAttribute(d, attribute, type, limit,
                                                      n, value),
                    what);
}

/* ---- tensors ------------------------------------------------------------- */

static int64_t name_of(int tensor)
{
    return tensor + 1;
}

static DnnDescriptor make_tensor(DnnPlan *p, const DnnTensor *t, int number)
{
    enum { ALIGNMENT = 16 }; /* bytes: the alignment of all tensors in the
                                arena */
    int32_t type = (int32_t)t->type; /* enumerations have 32 bits */
    int64_t alignment = ALIGNMENT, name = name_of(number);
    bool inner = t->place == DNN_INNER, by_value = t->place == DNN_NUMBER;
    DnnDescriptor d = BUILD(
        p, RT_DNN_TENSOR, "a tensor",
        {RT_DNN_TENSOR_TYPE, RT_DNN_OF_TYPE, 1, &type},
        {RT_DNN_TENSOR_SIZES, RT_DNN_OF_INT64, DNN_DIMS, t->dim},
        {RT_DNN_TENSOR_STRIDES, RT_DNN_OF_INT64, DNN_DIMS, t->stride},
        {RT_DNN_TENSOR_NAME, RT_DNN_OF_INT64, 1, &name},
        {RT_DNN_TENSOR_ALIGNMENT, RT_DNN_OF_INT64, 1, &alignment},
        {RT_DNN_TENSOR_VIRTUAL, RT_DNN_OF_BOOL, 1, &inner},
        {RT_DNN_TENSOR_BY_VALUE, RT_DNN_OF_BOOL, 1, &by_value});
    if (!inner)
        p->name[p->nnames++] = name;
    return d;
}

/* ---- operations ---------------------------------------------------------- */

/* Descriptors and attributes of each kind of operation: ORDER DnnOperation. */
static const struct {
    const char *what;
    DnnKind does, operation; /* `does`: the computation without its tensors */
    DnnAttribute mode, type, of, in[3], out;
    DnnValue mode_type;
    DnnAttribute factor, adds; /* of a convolution: 1, and 0 times the old result */
} kinds[] = {
    {"a pointwise operation", RT_DNN_POINTWISE, RT_DNN_OPERATION_POINTWISE,
     RT_DNN_POINTWISE_MODE, RT_DNN_POINTWISE_TYPE,
     RT_DNN_OPERATION_POINTWISE_DOES,
     {RT_DNN_OPERATION_POINTWISE_X, RT_DNN_OPERATION_POINTWISE_B,
      RT_DNN_OPERATION_POINTWISE_T},
     RT_DNN_OPERATION_POINTWISE_Y, RT_DNN_OF_POINTWISE_MODE, 0, 0},
    {"a product", RT_DNN_MATMUL, RT_DNN_OPERATION_MATMUL, 0,
     RT_DNN_MATMUL_TYPE, RT_DNN_OPERATION_MATMUL_DOES,
     {RT_DNN_OPERATION_MATMUL_A, RT_DNN_OPERATION_MATMUL_B, 0},
     RT_DNN_OPERATION_MATMUL_C, 0, 0, 0},
    {"a reduction", RT_DNN_REDUCTION, RT_DNN_OPERATION_REDUCTION,
     RT_DNN_REDUCTION_MODE, RT_DNN_REDUCTION_TYPE,
     RT_DNN_OPERATION_REDUCTION_DOES, {RT_DNN_OPERATION_REDUCTION_X, 0, 0},
     RT_DNN_OPERATION_REDUCTION_Y, RT_DNN_OF_REDUCTION_MODE, 0, 0},
    {"a reshape", 0, RT_DNN_OPERATION_RESHAPE, 0, 0, 0,
     {RT_DNN_OPERATION_RESHAPE_X, 0, 0}, RT_DNN_OPERATION_RESHAPE_Y, 0, 0, 0},
    {"a convolution", RT_DNN_CONVOLUTION, RT_DNN_OPERATION_CONV, RT_DNN_CONVOLUTION_MODE,
     RT_DNN_CONVOLUTION_TYPE, RT_DNN_OPERATION_CONV_DOES,
     {RT_DNN_OPERATION_CONV_X, RT_DNN_OPERATION_CONV_W, 0}, RT_DNN_OPERATION_CONV_Y,
     RT_DNN_OF_CONVOLUTION_MODE, RT_DNN_OPERATION_CONV_ALPHA, RT_DNN_OPERATION_CONV_BETA},
    {"a convolution's gradient", RT_DNN_CONVOLUTION, RT_DNN_OPERATION_CONV_DATA,
     RT_DNN_CONVOLUTION_MODE, RT_DNN_CONVOLUTION_TYPE, RT_DNN_OPERATION_CONV_DATA_DOES,
     {RT_DNN_OPERATION_CONV_DATA_DY, RT_DNN_OPERATION_CONV_DATA_W, 0},
     RT_DNN_OPERATION_CONV_DATA_DX, RT_DNN_OF_CONVOLUTION_MODE, RT_DNN_OPERATION_CONV_DATA_ALPHA,
     RT_DNN_OPERATION_CONV_DATA_BETA},
    {"a convolution's gradient", RT_DNN_CONVOLUTION, RT_DNN_OPERATION_CONV_FILTER,
     RT_DNN_CONVOLUTION_MODE, RT_DNN_CONVOLUTION_TYPE, RT_DNN_OPERATION_CONV_FILTER_DOES,
     {RT_DNN_OPERATION_CONV_FILTER_DY, RT_DNN_OPERATION_CONV_FILTER_X, 0},
     RT_DNN_OPERATION_CONV_FILTER_DW, RT_DNN_OF_CONVOLUTION_MODE,
     RT_DNN_OPERATION_CONV_FILTER_ALPHA, RT_DNN_OPERATION_CONV_FILTER_BETA},
};

/* The computation of a node. Operations compute in f32, comparisons in bool. */
static DnnDescriptor make_does(DnnPlan *p, const DnnNode *n)
{
    enum { DIMS = 2 };
    bool pointwise = n->kind == DNN_POINTWISE, conv = n->kind >= DNN_CONV;
    bool compares = pointwise && n->mode == RT_DNN_GREATER_EQUAL;
    int32_t mode = n->mode, type = compares ? RT_DNN_BOOL : RT_DNN_F32;
    int64_t axis = n->axis, dims = DIMS, each = conv ? DIMS : 0;
    return BUILD(p, kinds[n->kind].does, kinds[n->kind].what,
                 {kinds[n->kind].mode, kinds[n->kind].mode_type,
                  kinds[n->kind].mode_type != 0, &mode},
                 {kinds[n->kind].type, RT_DNN_OF_TYPE, 1, &type},
                 {RT_DNN_POINTWISE_AXIS, RT_DNN_OF_INT64,
                  pointwise && n->mode == RT_DNN_INDEX, &axis},
                 {RT_DNN_CONVOLUTION_DIMS, RT_DNN_OF_INT64, conv, &dims},
                 {RT_DNN_CONVOLUTION_STRIDES, RT_DNN_OF_INT64, each, n->window.stride},
                 {RT_DNN_CONVOLUTION_BEFORE, RT_DNN_OF_INT64, each, n->window.padding},
                 {RT_DNN_CONVOLUTION_AFTER, RT_DNN_OF_INT64, each, n->window.padding},
                 {RT_DNN_CONVOLUTION_DILATIONS, RT_DNN_OF_INT64, each, n->window.dilation});
}

static DnnDescriptor make_node(DnnPlan *p, const DnnNode *n,
                               const DnnDescriptor *tensor)
{
    enum { OF = RT_DNN_OF_DESCRIPTOR };
    const DnnDescriptor none = NULL, *in[3];
    const float one = 1, zero = 0;
    DnnDescriptor does = n->kind == DNN_RESHAPE ? NULL : make_does(p, n);
    for (int i = 0; i < 3; i++)
        in[i] = n->in[i] == DNN_NONE ? &none : &tensor[n->in[i]];
    return BUILD(p, kinds[n->kind].operation, kinds[n->kind].what,
                 {kinds[n->kind].of, OF, does != NULL, &does},
                 {kinds[n->kind].in[0], OF, *in[0] != NULL, in[0]},
                 {kinds[n->kind].in[1], OF, *in[1] != NULL, in[1]},
                 {kinds[n->kind].in[2], OF, *in[2] != NULL, in[2]},
                 {kinds[n->kind].out, OF, 1, &tensor[n->out]},
                 {kinds[n->kind].factor, RT_DNN_OF_FLOAT, kinds[n->kind].factor != 0, &one},
                 {kinds[n->kind].adds, RT_DNN_OF_FLOAT, kinds[n->kind].adds != 0, &zero});
}

static DnnDescriptor make_graph(DnnPlan *p, const DnnGraph *g)
{
    DnnDescriptor tensor[DNN_TENSORS] = {0}, node[DNN_NODES] = {0};
    for (int i = 0; i < g->ntensors; i++)
        if (g->tensor[i].place != DNN_NOWHERE)
            tensor[i] = make_tensor(p, &g->tensor[i], i);
    for (int i = 0; i < g->nnodes; i++)
        node[i] = make_node(p, &g->node[i], tensor);
    return BUILD(p, RT_DNN_OPERATION_GRAPH, "the graph",
                 {RT_DNN_GRAPH_OPERATIONS, RT_DNN_OF_DESCRIPTOR, g->nnodes,
                  node},
                 {RT_DNN_GRAPH_HANDLE, RT_DNN_OF_HANDLE, p->handle != NULL,
                  &p->handle});
}

/* ---- engines ------------------------------------------------------------- */

/* Requests engines from the library, best first; returns their number. */
static int propose(DnnPlan *p, DnnDescriptor graph, int32_t mode,
                   DnnDescriptor config[CONFIGS])
{
    int64_t n = 0;
    const DnnDescriptor *device = &p->context->device;
    DnnDescriptor d = BUILD(
        p, RT_DNN_HEURISTICS, "no engine for it",
        {RT_DNN_HEURISTICS_GRAPH, RT_DNN_OF_DESCRIPTOR, 1, &graph},
        {RT_DNN_HEURISTICS_MODE, RT_DNN_OF_HEURISTICS_MODE, 1, &mode},
        {RT_DNN_HEURISTICS_DEVICE, RT_DNN_OF_DESCRIPTOR, *device != NULL,
         device});
    for (int i = 0; i < CONFIGS; i++)
        config[i] = make(p, RT_DNN_ENGINE_CONFIG, "an engine");
    if (!get_values(p, d, RT_DNN_HEURISTICS_RESULTS, RT_DNN_OF_DESCRIPTOR,
                    CONFIGS, &n, config, "heuristics"))
        return 0;
    return n < CONFIGS ? (int)n : CONFIGS;
}

/* What a numerical note of an engine means, where a graph may refuse it. */
static const char *const note_meaning[RT_DNN_NOTES] = {
    [RT_DNN_TENSOR_CORE] = "it computes in less than f32",
    [RT_DNN_CONVERTS_DOWN] = "it rounds its operands",
    [RT_DNN_REDUCED_SUMS] = "its sums have less than f32",
    [RT_DNN_NOT_DETERMINISTIC] = "its sums are not in a fixed order",
};

/* Reads an engine's number and its numerical notes, as bits. */
static bool look_at(DnnPlan *p, DnnDescriptor config, uint32_t *notes)
{
    DnnDescriptor engine = make(p, RT_DNN_ENGINE, "an engine");
    int32_t note[RT_DNN_NOTES] = {0};
    int64_t n = 0, one = 0;
    *notes = 0;
    if (!get_values(p, config, RT_DNN_CONFIG_ENGINE, RT_DNN_OF_DESCRIPTOR, 1,
                    &one, &engine, "an engine's config") ||
        !get_values(p, engine, RT_DNN_ENGINE_INDEX, RT_DNN_OF_INT64, 1, &one,
                    &p->engine, "an engine's number") ||
        !get_values(p, engine, RT_DNN_ENGINE_NOTES, RT_DNN_OF_NUMERICAL_NOTE,
                    RT_DNN_NOTES, &n, note, "an engine's notes"))
        return false;
    for (int i = 0; i < n && i < RT_DNN_NOTES; i++)
        if (note[i] >= 0 && note[i] < RT_DNN_NOTES)
            *notes |= 1u << note[i];
    return true;
}

/* Whether `config` gives a plan; else sets `reason`. */
static bool try_config(DnnPlan *p, DnnDescriptor config, int64_t limit, uint32_t refuses)
{
    uint32_t notes;
    int64_t n = 0;
    if (!look_at(p, config, &notes))
        return false;
    if (notes & refuses) {
        const char *why = note_meaning[__builtin_ctz(notes & refuses)];
        snprintf(p->reason, DNN_REASON, "engine %lld: %s", (long long)p->engine,
                 why ? why : "its results are not exact");
        return false;
    }
    DnnDescriptor d = BUILD(
        p, RT_DNN_PLAN, "a plan",
        {RT_DNN_PLAN_CONFIG, RT_DNN_OF_DESCRIPTOR, 1, &config},
        {RT_DNN_PLAN_HANDLE, RT_DNN_OF_HANDLE, p->handle != NULL, &p->handle});
    if (!get_values(p, d, RT_DNN_PLAN_WORKSPACE, RT_DNN_OF_INT64, 1, &n,
                    &p->workspace, "a plan's workspace"))
        return false;
    if (p->workspace > limit) {
        snprintf(p->reason, DNN_REASON,
                 "engine %lld: it needs %lld bytes of workspace, and %lld are "
                 "planned",
                 (long long)p->engine, (long long)p->workspace,
                 (long long)limit);
        return false;
    }
    p->plan = d;
    return true;
}

static bool choose_engine(DnnPlan *p, DnnDescriptor graph, int64_t limit,
                          uint32_t refuses)
{
    static const int mode[] = {RT_DNN_MODE_A, RT_DNN_MODE_FALLBACK};
    DnnDescriptor config[CONFIGS];
    for (int m = 0; m < 2; m++) {
        int n = propose(p, graph, mode[m], config);
        for (int i = 0; i < n; i++) {
            p->status = RT_DNN_SUCCESS;
            if (try_config(p, config[i], limit, refuses))
                return true;
        }
        p->status = RT_DNN_SUCCESS;
    }
    return false;
}

DnnPlan *rt_cudnn_plan(const DnnContext *c, const DnnGraph *g, int64_t limit,
                       char reason[DNN_REASON])
{
    DnnPlan *p = rt_allocate(sizeof *p);
    p->context = c;
    p->call = c->call;
    p->handle = c->handle;
    p->reason = reason;
    snprintf(reason, DNN_REASON, "no engine for it");
    DnnDescriptor graph = make_graph(p, g);
    if (p->status == RT_DNN_SUCCESS &&
        choose_engine(p, graph, limit, g->refuses)) {
        p->context = NULL;
        p->reason = NULL;
        return p;
    }
    rt_cudnn_plan_free(p);
    return NULL;
}

void rt_cudnn_plan_free(DnnPlan *p)
{
    while (p && p->nmade > 0)
        p->call->cudnnBackendDestroyDescriptor(p->made[--p->nmade]);
    free(p);
}

int64_t rt_cudnn_plan_engine(const DnnPlan *p)
{
    return p->engine;
}

/* ---- run ----------------------------------------------------------------- */

DnnStatus rt_cudnn_run(DnnPlan *p, void *const at[DNN_TENSORS], void *workspace)
{
    void *address[DNN_TENSORS] = {0};
    char reason[DNN_REASON];
    for (int i = 0; i < p->nnames; i++)
        address[i] = at[p->name[i] - name_of(0)];
    p->reason = reason;
    DnnDescriptor pack = BUILD(
        p, RT_DNN_PACK, "the addresses",
        {RT_DNN_PACK_NAMES, RT_DNN_OF_INT64, p->nnames, p->name},
        {RT_DNN_PACK_POINTERS, RT_DNN_OF_POINTER, p->nnames, address},
        {RT_DNN_PACK_WORKSPACE, RT_DNN_OF_POINTER, 1, &workspace});
    if (p->status == RT_DNN_SUCCESS)
        p->status = p->call->cudnnBackendExecute(p->handle, p->plan, pack);
    if (pack)
        p->call->cudnnBackendDestroyDescriptor(p->made[--p->nmade]);
    p->reason = NULL;
    return p->status;
}
