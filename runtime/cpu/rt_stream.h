/* rt_stream.h: copies and sums past the cache, with non-temporal stores.
 *
 * Data that is larger than a cache and read much later does not profit from
 * it, and a normal store first reads the cache line that it overwrites. For
 * RT_FAR bytes or more, non-temporal stores avoid that read: two thirds of the
 * memory traffic remain. Sums are read and stored line by line, so several
 * loads are in flight.
 */
#ifndef PARC_RT_STREAM_H
#define PARC_RT_STREAM_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "parc_rt.h"

enum { RT_FAR = 2 << 20, RT_FAR_LINE = 64 };

static inline void rt_stream_line(char *to, const char *from)
{
#if defined(__AVX512F__)
    _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
#elif defined(__SSE2__)
    for (int i = 0; i < RT_FAR_LINE; i += 16)
        _mm_stream_si128((void *)(to + i),
                         _mm_loadu_si128((const void *)(from + i)));
#else
    memcpy(to, from, RT_FAR_LINE);
#endif
}

/* Orders the thread's non-temporal stores before its next stores. */
static inline void rt_stream_end(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* Bytes before the first cache line boundary at or after `to`, at most n. */
static inline int64_t rt_stream_head(const void *to, int64_t n)
{
    int64_t head = (int64_t)(-(uintptr_t)to % RT_FAR_LINE);
    return head < n ? head : n;
}

/* Copies several runs in parallel: more lines are in flight than with one
 * run. */
static inline void rt_copy_far(void *to, const void *from, int64_t n)
{
    enum { RUNS = 4 };
    char *dst = to;
    const char *src = from;
    int64_t at = rt_stream_head(to, n);
    memcpy(dst, src, (size_t)at);
    int64_t run = (n - at) / (RUNS * RT_FAR_LINE) * RT_FAR_LINE;
    for (int64_t i = at; i < at + run; i += RT_FAR_LINE)
        for (int64_t r = 0; r < RUNS; r++)
            rt_stream_line(dst + i + r * run, src + i + r * run);
    for (at += RUNS * run; at + RT_FAR_LINE <= n; at += RT_FAR_LINE)
        rt_stream_line(dst + at, src + at);
    memcpy(dst + at, src + at, (size_t)(n - at));
    rt_stream_end();
}

/* Copies `rows` rows of `n` bytes between two strides, with all threads
 * (rt_copy.c). */
void rt_copy_rows(ParcRt *rt, char *dst, int64_t dst_stride, const char *src,
                  int64_t src_stride, int64_t rows, int64_t n);

enum { RT_FAR_FLOATS = RT_FAR_LINE / sizeof(float) };

/* to[i] = from[0][at + i] + from[1][at + i] + … in this order, i below n. */
static inline void rt_sum(float *to, const float *const *from, int parts,
                          int64_t at, int64_t n)
{
    memcpy(to, from[0] + at, (size_t)n * sizeof *to);
    for (int j = 1; j < parts; j++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            to[i] += from[j][at + i];
    }
}

/* Computes rt_sum from element 0 with non-temporal stores; `to` must not
 * overlap `from`. */
static inline void rt_sum_far(float *to, const float *const *from, int parts,
                              int64_t n)
{
    int64_t at = rt_stream_head(to, n * (int64_t)sizeof *to) /
                 (int64_t)sizeof *to;
    rt_sum(to, from, parts, 0, at);
    for (; at + RT_FAR_FLOATS <= n; at += RT_FAR_FLOATS) {
        float line[RT_FAR_FLOATS];
        rt_sum(line, from, parts, at, RT_FAR_FLOATS);
        rt_stream_line((char *)(to + at), (const char *)line);
    }
    rt_sum(to + at, from, parts, at, n - at);
    rt_stream_end();
}

#endif
