/* embedding_grad.cuh: computes the gradient of an embedding table.
 *
 * requires: EMBEDDING_NAME(kernel); EMBEDDING_ELEMENT, the C type of dy;
 *           EMBEDDING_READ, which converts it to f32 (parc_read_bf16 …);
 *           EMBEDDING_COLUMNS, the columns that a thread sums: those in 16 bytes of
 *           dy, or 1 if the width is not a multiple of that
 *
 * A block owns `chunk` rows of the table and KERNEL_THREADS * EMBEDDING_COLUMNS
 * columns. It reads all ids, lists the positions of its own rows, sorts the
 * list by row and sums each row in registers, in order of position. No two
 * threads add to one element, and every run adds in the same order. Rows
 * without a position become zeros.
 */
#include "block_sort.h"

#ifndef PARC_EMBEDDING_GRAD
#define PARC_EMBEDDING_GRAD
enum {
    LOOKUP_ROUND = 4 * KERNEL_THREADS, /* ids that a block reads in one round */
    LOOKUP_LIST = 3072,  /* the list is processed when it may not hold another
                            round */
};
#endif

/* Adds rows position[from … to - 1] of dy to a row of grad; `fresh`: grad is
 * not initialized. Four rows are loaded at a time. */
PARC_DEVICE void EMBEDDING_NAME(add)(float *grad, const EMBEDDING_ELEMENT *dy,
                                     int64_t width, const int32_t *position,
                                     int from, int to, int fresh)
{
    enum { N = EMBEDDING_COLUMNS };
    float sum[N], y[4][N];
    int i = from;
    PARC_UNROLL
    for (int c = 0; c < N; c++)
        sum[c] = 0;
    if (!fresh)
        parc_read_f32(sum, grad, N);
    for (; i + 4 <= to; i += 4) {
        PARC_UNROLL
        for (int j = 0; j < 4; j++)
            EMBEDDING_READ(y[j], dy + position[i + j] * width, N);
        PARC_UNROLL
        for (int j = 0; j < 4; j++)
            PARC_UNROLL
            for (int c = 0; c < N; c++)
                sum[c] += y[j][c];
    }
    PARC_ROLL
    for (; i < to; i++) {
        EMBEDDING_READ(y[0], dy + position[i] * width, N);
        PARC_UNROLL
        for (int c = 0; c < N; c++)
            sum[c] += y[0][c];
    }
    if (fresh || from < to)
        parc_write_f32(grad, sum, N);
}

PARC_KERNEL(KERNEL_THREADS)
EMBEDDING_NAME(embedding_grad)(float *__restrict__ grad,
                               const EMBEDDING_ELEMENT *__restrict__ dy,
                               const int32_t *__restrict__ ids, int64_t n,
                               int64_t rows, int64_t width,
                               const int64_t *base, int64_t chunk)
{
    enum { WARPS = KERNEL_THREADS / PARC_WARP };
    PARC_SHARED int32_t listed[LOOKUP_LIST], position[LOOKUP_LIST];
    PARC_SHARED int32_t sorted[LOOKUP_LIST];
    PARC_SHARED int32_t count[LOOKUP_ROWS], begin[LOOKUP_ROWS + 1];
    PARC_SHARED int32_t warp_count[2][WARPS];
    const int thread = thread_index();
    const int span = KERNEL_THREADS * EMBEDDING_COLUMNS;
    const int64_t strips = (width + span - 1) / span;
    const int64_t row0 = block_index() / strips * chunk;
    const int64_t column0 = block_index() % strips * span;
    const int64_t first = row0 + (base ? *base : 0);
    const int own_rows = (int)(rows - row0 < chunk ? rows - row0 : chunk);
    const int64_t columns = width - column0 < span ? width - column0 : span;
    const int lanes =
        (int)((columns + EMBEDDING_COLUMNS - 1) / EMBEDDING_COLUMNS);
    const int64_t column = column0 + thread % lanes * EMBEDDING_COLUMNS;
    int held = 0, fresh = 1;

    for (int64_t at = 0; at < n; at += LOOKUP_ROUND) {
        int own[4], own_count = 0, half = (int)(at / LOOKUP_ROUND % 2);
        PARC_UNROLL
        for (int i = 0; i < 4; i++) {
            int64_t p = at + thread * 4 + i;
            int64_t row = p < n ? ids[p] - first : -1;
            own[i] = row >= 0 && row < own_rows ? (int)row : -1;
            own_count += own[i] >= 0;
        }
        int to = held + warp_before(own_count);
        if (lane_index() == PARC_WARP - 1)
            warp_count[half][warp_index()] = to - held + own_count;
        block_barrier();
        PARC_UNROLL
        for (int w = 0; w < WARPS; w++) {
            to += w < warp_index() ? warp_count[half][w] : 0;
            held += warp_count[half][w];
        }
        PARC_UNROLL
        for (int i = 0; i < 4; i++)
            if (own[i] >= 0) {
                listed[to] = own[i];
                position[to++] = (int32_t)(at + thread * 4 + i);
            }
        if (held <= LOOKUP_LIST - LOOKUP_ROUND && at + LOOKUP_ROUND < n)
            continue;

        block_barrier();
        if (thread < own_rows) {
            int all = 0;
            for (int i = 0; i < held; i++)
                all += listed[i] == thread;
            count[thread] = all;
        }
        block_barrier();
        if (thread < own_rows) {
            int next = 0;
            for (int r = 0; r < thread; r++)
                next += count[r];
            begin[thread] = next;
            for (int i = 0; i < held; i++)
                if (listed[i] == thread)
                    sorted[next++] = position[i];
            if (thread == own_rows - 1)
                begin[own_rows] = next;
        }
        block_barrier();
        const int together = KERNEL_THREADS / lanes; /* rows that the block
                                                        sums in parallel */
        for (int r = thread / lanes; r < own_rows && thread / lanes < together;
             r += together)
            EMBEDDING_NAME(add)(grad + (row0 + r) * width + column,
                                dy + column, width, sorted, begin[r],
                                begin[r + 1], fresh);
        held = 0;
        fresh = 0;
    }
}
