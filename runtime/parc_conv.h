/* parc_conv.h: convolutions of images, and their gradients.
 */
#ifndef PARC_CONV_H
#define PARC_CONV_H

#include "parc_rt.h"

/* Which of x, weight and y (or their gradients) is computed from the two others. */
typedef enum ParcConvResult { PARC_CONV_Y, PARC_CONV_X, PARC_CONV_WEIGHT } ParcConvResult;

/* x [n, g c, h, w], weight [g k, c, i, j] -> y [n, g k, r, s], in g groups of channels. The last
 * two dims are image, kernel and result. y[r, s] is the sum over c, i and j of weight[i, j] times
 * x at row r * stride + i * dilation - padding, and likewise for columns; x is 0 outside. All are
 * contiguous; the operands have one type, sums are in f32. */
typedef struct ParcConvSpec {
    const char *name;
    ParcConvResult computes;
    int64_t n, g, c, k;
    int64_t image[2], kernel[2], result[2], stride[2], padding[2], dilation[2];
    ParcType type, out;             /* of the operands, and of what is computed */
    int64_t scratch, scratch_bytes; /* in the arena, of parc_conv_scratch bytes */
} ParcConvSpec;

typedef struct ParcConv ParcConv;
ParcConv *parc_conv_new(ParcRt *rt, const ParcConvSpec *spec);
/* The operands are x and weight, dy and weight for the gradient of x, dy and x for that of
 * weight. */
void parc_conv(ParcRt *rt, ParcConv *conv, const void *a, const void *b, void *out);
/* The scratch bytes that are planned on a CPU (used by parc), as parc_matmul_scratch. */
int64_t parc_conv_scratch(const ParcConvSpec *spec, int threads, ParcCpuLevel level);

#endif
