/* cudnn_graph.c: computes a graph node by node from its descriptors alone, so
 * wrong descriptors give wrong numbers.
 *
 * A tensor between nodes has its own f32 memory, with its described strides: a
 * reshape is the same memory with other strides.
 */
#include "cudnn_graph.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/api/api_cudnn.h"
#include "parc_math.h"

/* ---- elements ------------------------------------------------------------ */

static int64_t element_bytes(int64_t type)
{
    return type == RT_DNN_BF16 || type == RT_DNN_F16 ? 2 : 4;
}

static int64_t extent(const HostTensor *t)
{
    int64_t last = 0;
    for (int i = 0; i < GRAPH_DIMS; i++)
        last += (t->dim[i] - 1) * t->stride[i];
    return last + 1;
}

int64_t graph_tensor_bytes(const HostTensor *t)
{
    return extent(t) * element_bytes(t->type);
}

/* A tensor with its memory: f32 if it exists only between nodes. */
typedef struct Held {
    const HostTensor *t;
    void *at;
} Held;

static float rounded(int64_t type, float x)
{
    return type == RT_DNN_BF16  ? parc_from_bf16(parc_to_bf16(x))
           : type == RT_DNN_F16 ? parc_from_f16(parc_to_f16(x))
                                : x;
}

static float load(const Held *x, int64_t i)
{
    if (!x->t->inner && x->t->type == RT_DNN_BF16)
        return parc_from_bf16(((const uint16_t *)x->at)[i]);
    if (!x->t->inner && x->t->type == RT_DNN_F16)
        return parc_from_f16(((const uint16_t *)x->at)[i]);
    return ((const float *)x->at)[i];
}

static void store(const Held *x, int64_t i, float value)
{
    if (x->t->inner || x->t->type == RT_DNN_F32)
        ((float *)x->at)[i] = rounded(x->t->type, value);
    else if (x->t->type == RT_DNN_BF16)
        ((uint16_t *)x->at)[i] = parc_to_bf16(value);
    else
        ((uint16_t *)x->at)[i] = parc_to_f16(value);
}

/* ---- indices ------------------------------------------------------------- */

/* Advances to the next index of a tensor; false after the last. */
static bool next(const HostTensor *t, int64_t at[GRAPH_DIMS])
{
    for (int i = GRAPH_DIMS - 1; i >= 0; i--) {
        if (++at[i] < t->dim[i])
            return true;
        at[i] = 0;
    }
    return false;
}

/* The offset in t of an index of `of`; t may be broadcast, so several indices
 * may have one offset. */
static int64_t offset(const HostTensor *t, const HostTensor *of,
                      const int64_t at[GRAPH_DIMS])
{
    int64_t x = 0;
    for (int i = 0; i < GRAPH_DIMS; i++)
        x += at[i] * t->dim[i] / of->dim[i] * t->stride[i];
    return x;
}

/* ---- operations ---------------------------------------------------------- */

static float pointwise(const HostNode *n, const float x[3],
                       const int64_t at[GRAPH_DIMS])
{
    switch (n->mode) {
    case RT_DNN_ADD: return x[0] + x[1];
    case RT_DNN_SUBTRACT: return x[0] - x[1];
    case RT_DNN_MULTIPLY: return x[0] * x[1];
    case RT_DNN_DIVIDE: return x[0] / x[1];
    case RT_DNN_EXP: return expf(x[0]);
    case RT_DNN_LOG: return logf(x[0]);
    case RT_DNN_IDENTITY: return x[0];
    case RT_DNN_GREATER_EQUAL: return x[0] >= x[1];
    case RT_DNN_INDEX: return (float)at[n->axis];
    case RT_DNN_SELECT: return x[2] != 0.0f ? x[0] : x[1];
    }
    return NAN;
}

static void compute_pointwise(const HostNode *n, const Held *of)
{
    const Held *y = &of[n->out];
    int64_t at[GRAPH_DIMS] = {0};
    do {
        float x[3] = {0};
        for (int i = 0; i < 3; i++)
            if (n->in[i] >= 0)
                x[i] = load(&of[n->in[i]],
                            offset(of[n->in[i]].t, y->t, at));
        store(y, offset(y->t, y->t, at), pointwise(n, x, at));
    } while (next(y->t, at));
}

static void compute_product(const HostNode *n, const Held *of)
{
    const Held *a = &of[n->in[0]], *b = &of[n->in[1]], *c = &of[n->out];
    int64_t at[GRAPH_DIMS] = {0};
    do {
        int64_t head[GRAPH_DIMS] = {at[0], at[1], 0, 0};
        int64_t ia = offset(a->t, c->t, head) + at[2] * a->t->stride[2];
        int64_t ib = offset(b->t, c->t, head) + at[3] * b->t->stride[3];
        double sum = 0;
        for (int64_t k = 0; k < a->t->dim[3]; k++)
            sum += (double)load(a, ia + k * a->t->stride[3]) *
                   (double)load(b, ib + k * b->t->stride[2]);
        store(c, offset(c->t, c->t, at), (float)sum);
    } while (next(c->t, at));
}

static void compute_reduction(const HostNode *n, const Held *of)
{
    const Held *x = &of[n->in[0]], *y = &of[n->out];
    bool most = n->mode == RT_DNN_MAX;
    int64_t size = extent(y->t), at[GRAPH_DIMS] = {0};
    double *sum = malloc((size_t)size * sizeof *sum);
    for (int64_t i = 0; i < size; i++)
        sum[i] = most ? -INFINITY : 0;
    do {
        double v = (double)load(x, offset(x->t, x->t, at));
        double *to = &sum[offset(y->t, x->t, at)];
        *to = most ? fmax(*to, v) : *to + v;
    } while (next(x->t, at));
    memset(at, 0, sizeof at);
    do {
        int64_t i = offset(y->t, y->t, at);
        store(y, i, (float)sum[i]);
    } while (next(y->t, at));
    free(sum);
}

static void compute_reshape(const HostNode *n, const Held *of)
{
    const Held *x = &of[n->in[0]], *y = &of[n->out];
    int64_t at[GRAPH_DIMS] = {0};
    do {
        int64_t i = offset(y->t, y->t, at);
        store(y, i, load(x, i));
    } while (next(y->t, at));
}

/* x, weights and y of a convolution, or their gradients: numbers of tensors. */
typedef struct ConvTensors {
    int x, w, y;
} ConvTensors;

static bool is_conv(unsigned kind)
{
    return kind == RT_DNN_OPERATION_CONV || kind == RT_DNN_OPERATION_CONV_DATA ||
           kind == RT_DNN_OPERATION_CONV_FILTER;
}

static ConvTensors conv_tensors(const HostNode *n)
{
    if (n->kind == RT_DNN_OPERATION_CONV)
        return (ConvTensors){n->in[0], n->in[1], n->out};
    return n->kind == RT_DNN_OPERATION_CONV_DATA ? (ConvTensors){n->out, n->in[1], n->in[0]}
                                                 : (ConvTensors){n->in[1], n->out, n->in[0]};
}

/* Visits each index of the weights and of y: their product with an element of x is a term of one
 * of the three. */
static void compute_conv(const HostNode *n, const Held *of)
{
    ConvTensors t = conv_tensors(n);
    const Held *x = &of[t.x], *w = &of[t.w], *y = &of[t.y], *out = &of[n->out];
    int64_t channels = w->t->dim[1], each = w->t->dim[0] / (x->t->dim[1] / channels);
    int64_t at[GRAPH_DIMS] = {0};
    double *sum = calloc((size_t)extent(out->t), sizeof *sum);
    do {
        int64_t kernel[GRAPH_DIMS] = {0};
        do {
            int64_t to = offset(y->t, y->t, at), from[GRAPH_DIMS] = {at[0]};
            from[1] = kernel[0] / each * channels + kernel[1];
            bool inside = kernel[0] == at[1];
            for (int d = 0; d < 2; d++) {
                from[2 + d] = at[2 + d] * n->stride[d] + kernel[2 + d] * n->dilation[d] -
                              n->padding[d];
                inside = inside && from[2 + d] >= 0 && from[2 + d] < x->t->dim[2 + d];
            }
            if (!inside)
                continue;
            int64_t ix = offset(x->t, x->t, from), iw = offset(w->t, w->t, kernel);
            if (n->out == t.y)
                sum[to] += (double)load(x, ix) * (double)load(w, iw);
            else if (n->out == t.x)
                sum[ix] += (double)load(y, to) * (double)load(w, iw);
            else
                sum[iw] += (double)load(y, to) * (double)load(x, ix);
        } while (next(w->t, kernel));
    } while (next(y->t, at));
    memset(at, 0, sizeof at);
    do {
        int64_t i = offset(out->t, out->t, at);
        store(out, i, (float)sum[i]);
    } while (next(out->t, at));
    free(sum);
}

void graph_compute(const HostGraph *g, void *const at[GRAPH_NAMED])
{
    Held of[GRAPH_TENSORS];
    for (int i = 0; i < g->ntensors; i++) {
        const HostTensor *t = &g->tensor[i];
        void *own = t->inner ? calloc((size_t)extent(t), sizeof(float)) : NULL;
        of[i] = (Held){t, t->inner ? own : at[t->named]};
    }
    for (int i = 0; i < g->nnodes; i++) {
        const HostNode *n = &g->node[i];
        switch (n->kind) {
        case RT_DNN_OPERATION_POINTWISE: compute_pointwise(n, of); break;
        case RT_DNN_OPERATION_MATMUL: compute_product(n, of); break;
        case RT_DNN_OPERATION_REDUCTION: compute_reduction(n, of); break;
        case RT_DNN_OPERATION_RESHAPE: compute_reshape(n, of); break;
        default: compute_conv(n, of);
        }
    }
    for (int i = 0; i < g->ntensors; i++)
        if (g->tensor[i].inner)
            free(of[i].at);
}

/* ---- errors -------------------------------------------------------------- */

static bool divides(const HostTensor *small, const HostTensor *large, int dims)
{
    for (int i = 0; i < dims; i++)
        if (large->dim[i] % small->dim[i])
            return false;
    return true;
}

static bool same_elements(const HostTensor *x, const HostTensor *y)
{
    int64_t n[2] = {1, 1};
    for (int i = 0; i < GRAPH_DIMS; i++) {
        n[0] *= x->dim[i];
        n[1] *= y->dim[i];
    }
    return n[0] == n[1] && extent(x) == extent(y);
}

/* Whether y has the rows and columns that the kernel has places in the padded image, and both
 * have the channels of the weights. */
static bool conv_fits(const HostGraph *g, const HostNode *n)
{
    ConvTensors t = conv_tensors(n);
    const HostTensor *x = &g->tensor[t.x], *w = &g->tensor[t.w], *y = &g->tensor[t.y];
    bool fits = x->dim[0] == y->dim[0] && y->dim[1] == w->dim[0] && x->dim[1] % w->dim[1] == 0 &&
                w->dim[0] % (x->dim[1] / w->dim[1]) == 0 && x->type == y->type &&
                x->type == w->type;
    for (int d = 0; d < 2; d++) {
        int64_t left = x->dim[2 + d] + 2 * n->padding[d] - n->dilation[d] * (w->dim[2 + d] - 1);
        fits = fits && left > 0 && y->dim[2 + d] == (left - 1) / n->stride[d] + 1;
    }
    return fits;
}

static const char *node_fault(const HostGraph *g, const HostNode *n)
{
    const HostTensor *x = &g->tensor[n->in[0]], *y = &g->tensor[n->out];
    const HostTensor *b = n->in[1] >= 0 ? &g->tensor[n->in[1]] : NULL;
    switch (n->kind) {
    case RT_DNN_OPERATION_MATMUL:
        if (!b || x->dim[3] != b->dim[2] || x->dim[2] != y->dim[2] ||
            b->dim[3] != y->dim[3] || !divides(x, y, 2) || !divides(b, y, 2))
            return "a product of sizes that do not fit";
        break;
    case RT_DNN_OPERATION_REDUCTION:
        if (!divides(y, x, GRAPH_DIMS))
            return "a reduction to what is no part of its operand";
        break;
    case RT_DNN_OPERATION_RESHAPE:
        if (!same_elements(x, y))
            return "a reshape to another size";
        break;
    default:
        if (is_conv(n->kind))
            return conv_fits(g, n) ? NULL : "a convolution of sizes or types that do not fit";
        for (int i = 0; i < 3; i++)
            if (n->in[i] >= 0 && !divides(&g->tensor[n->in[i]], y, GRAPH_DIMS))
                return "a pointwise operand that cannot be spread";
    }
    return NULL;
}

const char *graph_fault(const HostGraph *g)
{
    bool made[GRAPH_TENSORS] = {0};
    for (int i = 0; i < g->nnodes; i++) {
        const HostNode *n = &g->node[i];
        for (int j = 0; j < 3; j++)
            if (n->in[j] >= 0 && g->tensor[n->in[j]].inner && !made[n->in[j]])
                return "a tensor that is read before it is made";
        if (made[n->out])
            return "a tensor that is made twice";
        made[n->out] = true;
        const char *fault = node_fault(g, n);
        if (fault)
            return fault;
    }
    for (int i = 0; i < g->ntensors; i++)
        for (int j = 0; j < i; j++)
            if (g->tensor[i].uid == g->tensor[j].uid)
                return "two tensors of one name";
    return NULL;
}
