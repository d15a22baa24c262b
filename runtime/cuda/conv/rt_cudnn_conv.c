/* rt_cudnn_conv.c: describes a convolution, or one of its gradients, as a graph of one
 * operation. */
#include "cuda/conv/rt_cuda_conv.h"

#include <string.h>

/* A tensor [n, channels, …] or [out, channels of a group, …] as the program stores it. */
static DnnTensor dense(int64_t type, int64_t n, int64_t channels, const int64_t last[2])
{
    return (DnnTensor){DNN_MEMORY, type, {n, channels, last[0], last[1]},
                       {channels * last[0] * last[1], last[0] * last[1], last[1], 1}};
}

void rt_conv_graph(DnnGraph *g, const ParcConvSpec *s, bool exact)
{
    static const DnnOperation kind[] = {[PARC_CONV_Y] = DNN_CONV,
                                        [PARC_CONV_X] = DNN_CONV_GRAD_X,
                                        [PARC_CONV_WEIGHT] = DNN_CONV_GRAD_WEIGHT};
    int64_t type = s->type == PARC_F32    ? RT_DNN_F32
                   : s->type == PARC_BF16 ? RT_DNN_BF16
                                          : RT_DNN_F16;
    memset(g, 0, sizeof *g);
    g->ntensors = PARC_CONV_WEIGHT + 1;
    g->nnodes = 1;
    g->tensor[PARC_CONV_X] = dense(type, s->n, s->g * s->c, s->image);
    g->tensor[PARC_CONV_Y] = dense(type, s->n, s->g * s->k, s->result);
    g->tensor[PARC_CONV_WEIGHT] = dense(type, s->g * s->k, s->c, s->kernel);
    g->refuses = 1u << RT_DNN_NOT_DETERMINISTIC | 1u << RT_DNN_REDUCED_SUMS;
    if (exact)
        g->refuses |= 1u << RT_DNN_TENSOR_CORE | 1u << RT_DNN_CONVERTS_DOWN;
    g->node[0] = (DnnNode){.kind = kind[s->computes], .mode = RT_DNN_CROSS_CORRELATION,
                           .in = {rt_conv_operand(s, 0), rt_conv_operand(s, 1), DNN_NONE},
                           .out = s->computes};
    memcpy(g->node[0].window.stride, s->stride, sizeof s->stride);
    memcpy(g->node[0].window.padding, s->padding, sizeof s->padding);
    memcpy(g->node[0].window.dilation, s->dilation, sizeof s->dilation);
}

int rt_conv_operand(const ParcConvSpec *s, int i)
{
    static const ParcConvResult of[][2] = {
        [PARC_CONV_Y] = {PARC_CONV_X, PARC_CONV_WEIGHT},
        [PARC_CONV_X] = {PARC_CONV_Y, PARC_CONV_WEIGHT},
        [PARC_CONV_WEIGHT] = {PARC_CONV_Y, PARC_CONV_X}};
    return (int)of[s->computes][i];
}
