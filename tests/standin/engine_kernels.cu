/* engine_kernels.cu: kernels for the engine's own test: correct ones, and
 * one with each of the faults that it must find. */
#include "parc_device.h"

PARC_DEVICE float block_sum(float x, float *shared)
{
    block_put(warp_sum(x), shared);
    block_barrier();
    return block_get_sum(shared);
}

PARC_KERNEL(256) scale(float *y, const float *x, int64_t n)
{
    int64_t i = block_index() * block_threads() + thread_index();
    if (i < n)
        y[i] = 2.0f * x[i];
}

/* Like scale, but the last thread exceeds the array. */
PARC_KERNEL(256) scale_too_far(float *y, const float *x, int64_t n)
{
    int64_t i = block_index() * block_threads() + thread_index();
    if (i <= n)
        y[i] = 2.0f * x[i];
}

PARC_KERNEL(256) row_sum(float *y, const float *x, int64_t width)
{
    PARC_SHARED float part[32];
    const float *row = x + block_index() * width;
    float sum = 0.0f;
    for (int64_t i = thread_index(); i < width; i += block_threads())
        sum += row[i];
    sum = block_sum(sum, part);
    if (thread_index() == 0)
        y[block_index()] = sum;
}

/* Uses the same scratch twice, with a barrier between and without. */
PARC_KERNEL(256) two_sums(float *y, const float *x)
{
    PARC_SHARED float part[32];
    float a = block_sum(x[thread_index()], part);
    block_barrier();
    float b = block_sum(x[thread_index()] * a, part);
    if (thread_index() == 0)
        y[block_index()] = b;
}

PARC_KERNEL(256) two_sums_racing(float *y, const float *x)
{
    PARC_SHARED float part[32];
    float a = block_sum(x[thread_index()], part);
    float b = block_sum(x[thread_index()] * a, part);
    if (thread_index() == 0)
        y[block_index()] = b;
}

/* Rows in shared memory that other threads read: correct; without the barrier
 * after the writes; without the barrier before the next writes. */
PARC_DEVICE void reverse(float *x, int64_t iterations, int before, int after)
{
    float *s = (float *)parc_shared();
    int n = block_threads(), t = thread_index();
    for (int64_t i = 0; i < iterations; i++) {
        s[t] = x[t];
        if (before)
            block_barrier();
        x[t] = s[n - 1 - t] + 1.0f;
        if (after)
            block_barrier();
    }
}

PARC_KERNEL(256) reverse_right(float *x, int64_t iterations)
{
    reverse(x, iterations, 1, 1);
}

PARC_KERNEL(256) reverse_early(float *x, int64_t iterations)
{
    reverse(x, iterations, 0, 1);
}

PARC_KERNEL(256) reverse_again(float *x, int64_t iterations)
{
    reverse(x, iterations, 1, 0);
}

/* Within a warp: with its barrier, without, and with a shuffle instead, which
 * does not order memory. */
PARC_KERNEL(256) warp_reverse(float *x)
{
    PARC_SHARED float s[256];
    s[thread_index()] = x[thread_index()];
    warp_barrier();
    x[thread_index()] = s[thread_index() ^ 1];
}

PARC_KERNEL(256) warp_reverse_racing(float *x)
{
    PARC_SHARED float s[256];
    s[thread_index()] = x[thread_index()];
    float sum = warp_sum(1.0f);
    x[thread_index()] = s[thread_index() ^ 1] + sum;
}

PARC_KERNEL(256) warp_reverse_other_warp(float *x)
{
    PARC_SHARED float s[256];
    s[thread_index()] = x[thread_index()];
    warp_barrier();
    x[thread_index()] = s[thread_index() ^ 32];
}

/* Two threads own the halves of a word. */
PARC_KERNEL(256) halves(parc_bf16 *y, const parc_bf16 *x)
{
    y[thread_index()] = parc_to_bf16(2.0f * parc_from_bf16(x[thread_index()]));
}

PARC_KERNEL(256) blocks_collide(float *y)
{
    if (thread_index() == 0)
        y[block_index() / 2] = 1.0f;
}

PARC_KERNEL(256) blocks_read_what_one_writes(float *y)
{
    float x = y[0];
    y[1 + block_index() * block_threads() + thread_index()] = x;
    if (block_index() == standin_block_count() - 1 && thread_index() == 5)
        y[0] = x + 1.0f;
}

PARC_KERNEL(256) shared_unset(float *y)
{
    PARC_SHARED float s[256];
    if (thread_index() != 77)
        s[thread_index()] = 1.0f;
    y[thread_index()] = s[thread_index()];
}

PARC_KERNEL(256) half_a_barrier(float *y)
{
    if (thread_index() < 64)
        block_barrier();
    y[thread_index()] = 1.0f;
}

PARC_KERNEL(256) lanes_disagree(float *y)
{
    float x = 1.0f;
    if (thread_index() % 32 < 16)
        x = warp_shuffle(x, 3);
    else
        warp_barrier();
    y[thread_index()] = x;
}

PARC_KERNEL(256) odd_vector(float *y, const float *x)
{
    float v[4];
    parc_load16(v, x + 1);
    parc_store16(y + 4 * thread_index(), v);
}

PARC_KERNEL(256) writes_constants(float *y)
{
    static const float table[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    y[thread_index()] = table[thread_index() % 4];
}

PARC_KERNEL(256) shuffles(int32_t *y)
{
    int t = thread_index();
    y[4 * t] = warp_shuffle_xor_int(t, 5);
    y[4 * t + 1] = warp_shuffle_int(t, t / 2);
    y[4 * t + 2] = (int32_t)warp_shuffle((float)t, 31);
    y[4 * t + 3] = (int32_t)warp_max((float)(t * 7 % 32));
}

/* d [16, 8] += a [16, 16] b [16, 8] of each block, by one warp. */
PARC_DEVICE void product(float *d, const uint16_t *a, const uint16_t *b,
                         int f16)
{
    int g = lane_index() / 4, t = lane_index() % 4 * 2;
    uint32_t x[4], y[2];
    float z[4];
    for (int i = 0; i < 4; i++) {
        const uint16_t *p = a + (g + i % 2 * 8) * 16 + t + i / 2 * 8;
        x[i] = p[0] | (uint32_t)p[1] << 16;
        z[i] = d[(g + i / 2 * 8) * 8 + t + i % 2];
    }
    for (int i = 0; i < 2; i++) {
        const uint16_t *p = b + (t + i * 8) * 8 + g;
        y[i] = p[0] | (uint32_t)p[8] << 16;
    }
    if (f16)
        mma_f16(z, x, y);
    else
        mma_bf16(z, x, y);
    for (int i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + t + i % 2] = z[i];
}

PARC_KERNEL(32) product_bf16(float *d, const uint16_t *a, const uint16_t *b)
{
    product(d, a, b, 0);
}

PARC_KERNEL(32) product_f16(float *d, const uint16_t *a, const uint16_t *b)
{
    product(d, a, b, 1);
}

/* Iteration i reads what was copied two iterations earlier, after waiting until
 * `waits` groups remain. It is correct with the barriers, three slots and at
 * most one group in flight. */
PARC_DEVICE void pipeline(float *y, const float *x, int64_t iterations,
                          int slots, int ahead)
{
    float *s = (float *)parc_shared();
    int t = thread_index(), n = block_threads();
    float sum = 0.0f;
    for (int64_t i = 0; i < iterations + 1; i++) {
        if (i < iterations)
            copy_async16_if(1, s + 4 * (i % slots * n + t),
                            x + 4 * (i * n + t));
        copy_async_commit();
        if (i == 0)
            continue;
        if (ahead)
            copy_async_wait(1);
        else
            copy_async_wait(2);
        block_barrier();
        sum += s[4 * ((i - 1) % slots * n) + 4 * (n - 1 - t)];
    }
    y[t] = sum;
}

PARC_KERNEL(128) pipeline_right(float *y, const float *x, int64_t iterations)
{
    pipeline(y, x, iterations, 3, 1);
}

PARC_KERNEL(128)
pipeline_too_few_slots(float *y, const float *x, int64_t iterations)
{
    pipeline(y, x, iterations, 2, 1);
}

PARC_KERNEL(128)
pipeline_not_landed(float *y, const float *x, int64_t iterations)
{
    pipeline(y, x, iterations, 3, 0);
}

PARC_KERNEL(64) many_arguments(
    int64_t *y, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e,
    int64_t f, int64_t g, int64_t h, int64_t i, int64_t j, int64_t k,
    int64_t l, int64_t m, int64_t n, int64_t o, int64_t p, int64_t q,
    int64_t r, int64_t s, int64_t t, int64_t u, int64_t v, int64_t w)
{
    if (thread_index() == 0)
        y[0] = a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p +
               q + r + s + t + u + v + 100 * w;
}
