/* line.cu: the kernels of line.c for a GPU. */
#include "parc_device.h"

/* loss = the mean of y^2, dy its gradient. One block. */
PARC_KERNEL(64) line_loss(float *loss, float *dy, const float *y, int64_t n)
{
    PARC_SHARED float part[32];
    float sum = 0.0f;
    for (int64_t i = thread_index(); i < n; i += block_threads()) {
        sum += y[i] * y[i];
        dy[i] = 2.0f * y[i] / (float)n;
    }
    block_put(warp_sum(sum), part);
    block_barrier();
    sum = block_get_sum(part);
    if (thread_index() == 0)
        *loss = sum / (float)n;
}

/* w -= lr dw, through a large block of dynamic shared memory. */
PARC_KERNEL(64) line_update(float *w, const float *dw, const float *lr,
                            int64_t n)
{
    float *buffer = (float *)parc_shared();
    int64_t i = block_index() * block_threads() + thread_index();
    buffer[thread_index()] = i < n ? dw[i] * *lr : 0.0f;
    if (i < n)
        w[i] -= buffer[thread_index()];
}
