/* rt_stream.h: copies past the cache.
 *
 * What is larger than a cache and read much later gains nothing from going
 * through it: a plain store first fetches the line that it overwrites. Data
 * of FAR bytes and more is stored around the cache, which moves two thirds of
 * the bytes.
 */
#ifndef PARC_RT_STREAM_H
#define PARC_RT_STREAM_H

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum { RT_FAR = 2 << 20, RT_FAR_LINE = 64 };

static inline void rt_stream_line(char *to, const char *from)
{
#if defined(__AVX512F__)
    _mm512_stream_si512((void *)to, _mm512_loadu_si512(from));
#elif defined(__SSE2__)
    for (int i = 0; i < RT_FAR_LINE; i += 16) {
        _mm_stream_si128((void *)(to + i),
                         _mm_loadu_si128((const void *)(from + i)));
    }
#else
    memcpy(to, from, RT_FAR_LINE);
#endif
}

/* Ordered before what the thread stores next. */
static inline void rt_copy_far(void *to, const void *from, int64_t n)
{
    char *dst = to;
    const char *src = from;
    int64_t head = (int64_t)(-(uintptr_t)dst % RT_FAR_LINE);
    head = head < n ? head : n;
    memcpy(dst, src, (size_t)head);
    int64_t at = head;
    for (; at + RT_FAR_LINE <= n; at += RT_FAR_LINE) {
        rt_stream_line(dst + at, src + at);
    }
    memcpy(dst + at, src + at, (size_t)(n - at));
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

#endif
