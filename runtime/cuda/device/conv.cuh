/* conv.cuh: computes convolutions and their gradients where cuDNN does not.
 *
 * requires: CONV_NAME(kernel); CONV_ELEMENT and CONV_READ, the C type of the operands and its
 *           conversion to f32 (parc_read_bf16 …); CONV_RESULT and CONV_WRITE, the same for the
 *           result; CONV_KIND, the kernel: 0 conv, 1 conv_grad_x, 2 conv_grad_weight,
 *           3 conv_widen, which converts what cuDNN computes to f32
 *
 * A thread computes an element of y, or of the gradient of x. A warp computes an element of the
 * gradient of the weight: lane l adds the products of elements l, l + 32, … of dy's images. The
 * order of sums is fixed.
 */
#include "parc_device.h"

#ifndef PARC_CONV
#define PARC_CONV
/* The arguments of all kernels: parc_conv.h describes them. */
#define CONV_SHAPE                                                                            \
    int64_t n, int64_t g, int64_t c, int64_t k, int64_t image_h, int64_t image_w,             \
        int64_t kernel_h, int64_t kernel_w, int64_t result_h, int64_t result_w,               \
        int64_t stride_h, int64_t stride_w, int64_t padding_h, int64_t padding_w,             \
        int64_t dilation_h, int64_t dilation_w

/* The last digit of *index in base `of`, which it removes. */
PARC_DEVICE int64_t conv_digit(int64_t *index, int64_t of)
{
    int64_t rest = *index / of, digit = *index - rest * of;
    *index = rest;
    return digit;
}

/* The row or column of x that element i of the kernel multiplies for element r of y; -1: one
 * outside of its `size` ones. */
PARC_DEVICE int64_t conv_element(int64_t r, int64_t stride, int64_t i, int64_t dilation,
                                 int64_t padding, int64_t size)
{
    int64_t at = r * stride + i * dilation - padding;
    return at < size ? at : -1;
}
#endif

#if CONV_KIND == 0
#define CONV_LOAD CONV_NAME(conv_load)
#elif CONV_KIND == 1
#define CONV_LOAD CONV_NAME(conv_grad_x_load)
#elif CONV_KIND == 3
#define CONV_LOAD CONV_NAME(conv_widen_load)
#else
#define CONV_LOAD CONV_NAME(conv_grad_weight_load)
#endif

PARC_DEVICE float CONV_LOAD(const CONV_ELEMENT *from)
{
    float x[1];
    CONV_READ(x, from, 1);
    return x[0];
}

#if CONV_KIND == 0
PARC_KERNEL(KERNEL_THREADS)
CONV_NAME(conv)(CONV_RESULT *__restrict__ y, const CONV_ELEMENT *__restrict__ x,
                const CONV_ELEMENT *__restrict__ weight, CONV_SHAPE)
{
    int64_t at = wide_block_index() * KERNEL_THREADS + thread_index(), index = at;
    int64_t s = conv_digit(&index, result_w), r = conv_digit(&index, result_h);
    int64_t out = conv_digit(&index, g * k);
    if (index >= n)
        return;
    const CONV_ELEMENT *w = weight + out * c * kernel_h * kernel_w;
    const CONV_ELEMENT *from = x + (index * g + out / k) * c * image_h * image_w;
    float sum = 0.0f;
    PARC_ROLL
    for (int64_t in = 0; in < c; in++, from += image_h * image_w)
        PARC_ROLL
        for (int64_t i = 0; i < kernel_h; i++)
            PARC_ROLL
            for (int64_t j = 0; j < kernel_w; j++, w++) {
                int64_t row = conv_element(r, stride_h, i, dilation_h, padding_h, image_h);
                int64_t column =
                    conv_element(s, stride_w, j, dilation_w, padding_w, image_w);
                if (row >= 0 && column >= 0)
                    sum += CONV_LOAD(w) *
                           CONV_LOAD(from + row * image_w + column);
            }
    CONV_WRITE(y + at, &sum, 1);
}
#endif

#if CONV_KIND == 1
PARC_KERNEL(KERNEL_THREADS)
CONV_NAME(conv_grad_x)(CONV_RESULT *__restrict__ dx, const CONV_ELEMENT *__restrict__ dy,
                       const CONV_ELEMENT *__restrict__ weight, CONV_SHAPE)
{
    int64_t at = wide_block_index() * KERNEL_THREADS + thread_index(), index = at;
    int64_t column = conv_digit(&index, image_w), row = conv_digit(&index, image_h);
    int64_t in = conv_digit(&index, g * c), group = in / c;
    if (index >= n)
        return;
    const CONV_ELEMENT *from = dy + (index * g + group) * k * result_h * result_w;
    const CONV_ELEMENT *w = weight + (group * k * c + in % c) * kernel_h * kernel_w;
    float sum = 0.0f;
    PARC_ROLL
    for (int64_t out = 0; out < k; out++) {
        PARC_ROLL
        for (int64_t i = 0; i < kernel_h; i++)
            PARC_ROLL
            for (int64_t j = 0; j < kernel_w; j++) {
                int64_t r = row + padding_h - i * dilation_h;
                int64_t s = column + padding_w - j * dilation_w;
                if (r < 0 || s < 0 || r % stride_h || s % stride_w ||
                    r / stride_h >= result_h || s / stride_w >= result_w)
                    continue;
                sum += CONV_LOAD(w + i * kernel_w + j) *
                       CONV_LOAD(from + r / stride_h * result_w + s / stride_w);
            }
        from += result_h * result_w;
        w += c * kernel_h * kernel_w;
    }
    CONV_WRITE(dx + at, &sum, 1);
}
#endif

#if CONV_KIND == 2
PARC_KERNEL(KERNEL_THREADS)
CONV_NAME(conv_grad_weight)(CONV_RESULT *__restrict__ dw, const CONV_ELEMENT *__restrict__ dy,
                            const CONV_ELEMENT *__restrict__ x, CONV_SHAPE)
{
    int64_t at = wide_block_index() * (KERNEL_THREADS / PARC_WARP) + warp_index(), index = at;
    int64_t j = conv_digit(&index, kernel_w), i = conv_digit(&index, kernel_h);
    int64_t in = conv_digit(&index, c), out = index;
    if (out >= g * k)
        return;
    int64_t all = n * result_h * result_w;
    float sum = 0.0f;
    PARC_ROLL
    for (int64_t l = lane_index(); l < all; l += PARC_WARP) {
        int64_t element = l;
        int64_t s = conv_digit(&element, result_w), r = conv_digit(&element, result_h);
        int64_t row = conv_element(r, stride_h, i, dilation_h, padding_h, image_h);
        int64_t column = conv_element(s, stride_w, j, dilation_w, padding_w, image_w);
        int64_t channel = (element * g + out / k) * c + in;
        if (row >= 0 && column >= 0)
            sum += CONV_LOAD(dy + ((element * g * k + out) * result_h + r) * result_w +
                                        s) *
                   CONV_LOAD(x + (channel * image_h + row) * image_w + column);
    }
    sum = warp_sum(sum);
    if (lane_index() == 0)
        CONV_WRITE(dw + at, &sum, 1);
}
#endif

#if CONV_KIND == 3
PARC_KERNEL(KERNEL_THREADS)
CONV_NAME(conv_widen)(CONV_RESULT *__restrict__ to, const CONV_ELEMENT *__restrict__ from,
                      int64_t n)
{
    int64_t i = wide_block_index() * KERNEL_THREADS + thread_index();
    if (i < n)
        to[i] = CONV_LOAD(from + i);
}
#endif
#undef CONV_LOAD
