/* interp_conv.c: evaluates a convolution, or one of its gradients, on one rank's part. */
#include "ir/analysis/conv.h"
#include "tests/interp/interp_impl.h"

typedef struct Image {
    double *at;
    const int64_t *dim;
} Image;

static double *element(Image t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return &t.at[((a * t.dim[1] + b) * t.dim[2] + c) * t.dim[3] + d];
}

static Image image_of(Interp *in, Value *v, int64_t rank)
{
    Local x = interp_local(in, v, rank);
    return (Image){x.at, x.shape->dim};
}

/* Each triple of elements of x, weight and y whose product a sum has: the op's result gets the
 * product of the other two. */
void interp_conv(Interp *in, const Op *op, int64_t rank)
{
    ConvTensors t = conv_tensors(op);
    Image x = image_of(in, t.x, rank), w = image_of(in, t.weight, rank);
    Image y = image_of(in, t.y, rank);
    int64_t channels = w.dim[1], k = w.dim[0] / (x.dim[1] / channels);
    const int64_t *stride = attr_stride(op)->v, *padding = attr_padding(op)->v;
    const int64_t *dilation = attr_dilation(op)->v;
    for (int64_t b = 0; b < y.dim[0]; b++)
    for (int64_t out = 0; out < y.dim[1]; out++)
    for (int64_t c = 0; c < channels; c++)
    for (int64_t r = 0; r < y.dim[2]; r++)
    for (int64_t s = 0; s < y.dim[3]; s++)
    for (int64_t i = 0; i < w.dim[2]; i++)
    for (int64_t j = 0; j < w.dim[3]; j++) {
        int64_t row = r * stride[0] + i * dilation[0] - padding[0];
        int64_t column = s * stride[1] + j * dilation[1] - padding[1];
        if (row < 0 || row >= x.dim[2] || column < 0 || column >= x.dim[3])
            continue;
        double *of_x = element(x, b, out / k * channels + c, row, column);
        double *of_w = element(w, out, c, i, j), *of_y = element(y, b, out, r, s);
        if (op->kind == OP_conv)
            *of_y += *of_x * *of_w;
        else if (op->kind == OP_conv_grad_x)
            *of_x += *of_y * *of_w;
        else
            *of_w += *of_y * *of_x;
    }
}
