/* rt_topk.c: finds the elements of each row that come first in its order, and their
 * gradient.
 *
 * The order is that of parc_order.h. A few elements of a long row are kept in a heap, whose
 * root is the last of them: most elements of the row are compared with the root only. Else
 * the row is sorted, by counting the digits of its keys.
 */
#include <omp.h>
#include <string.h>

#include "common/type.h"
#include "parc_order.h"
#include "rt.h"

enum { DIGIT = 8, DIGITS = 1 << DIGIT, SHORT = 64, FEW = 16, GRAIN = 1 << 12, PIECE = 256 };

/* Whether a heap finds n of `width` elements sooner than a sort. */
static bool uses_heap(int64_t width, int64_t n)
{
    return width <= SHORT || n <= width / FEW;
}

/* The keys of scratch for a thread. */
static int64_t thread_keys(int64_t width, int64_t n)
{
    return uses_heap(width, n) ? n : 2 * width;
}

int64_t parc_topk_scratch(int64_t width, int64_t n, int threads)
{
    return threads * thread_keys(width, n) * (int64_t)sizeof(uint64_t);
}

/* ---- a heap, whose root has the smallest key ------------------------------ */

/* Puts `key` at i, or below it: where no key below is smaller. */
static void sift_down(uint64_t *heap, int64_t n, int64_t i, uint64_t key)
{
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= key)
            break;
        heap[i] = heap[child];
    }
    heap[i] = key;
}

/* Adds the keys of elements first … first + count - 1 to a heap of `held` keys, at most n.
 * Returns the number of keys in the heap. */
static int64_t add_piece(uint64_t *heap, int64_t held, int64_t n, const float *x,
                         int64_t first, int64_t count, bool largest)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t key = parc_order_key(x[i], first + i, largest);
        if (held == n) {
            if (key > heap[0])
                sift_down(heap, n, 0, key);
            continue;
        }
        heap[held++] = key;
        for (int64_t at = held / 2; held == n && at-- > 0;)
            sift_down(heap, n, at, heap[at]);
    }
    return held;
}

/* heap [n]: the n largest keys of the row, descending. */
static void select_row(uint64_t *heap, ParcType type, const void *x, int64_t width,
                       int64_t n, bool largest)
{
    float piece[PIECE];
    int64_t held = 0;
    for (int64_t at = 0; at < width; at += PIECE) {
        int64_t count = rt_least(width - at, PIECE);
        const float *wide = rt_as_floats(type, rt_element(type, x, at), count, piece);
        held = add_piece(heap, held, n, wide, at, count, largest);
    }
    while (held-- > 1) {
        uint64_t key = heap[held];
        heap[held] = heap[0];
        sift_down(heap, held, 0, key);
    }
}

/* ---- a sort --------------------------------------------------------------- */

/* One pass of the sort by the digit at `shift`: large digits come first, keys of the same
 * digit keep their order. Returns the array that has the keys afterwards. */
static uint64_t *sort_digit(uint64_t *from, uint64_t *to, int64_t n, int shift)
{
    int64_t begin[DIGITS] = {0}, at = 0;
    for (int64_t i = 0; i < n; i++)
        begin[from[i] >> shift & (DIGITS - 1)]++;
    if (begin[from[0] >> shift & (DIGITS - 1)] == n)
        return from;
    for (int d = DIGITS; d-- > 0;) {
        int64_t count = begin[d];
        begin[d] = at;
        at += count;
    }
    for (int64_t i = 0; i < n; i++)
        to[begin[from[i] >> shift & (DIGITS - 1)]++] = from[i];
    return to;
}

/* The keys of a row in descending order, in one of the halves of keys [2, width]. They are
 * made in the order of their indices, which passes keep for equal elements. */
static const uint64_t *sort_row(uint64_t *keys, ParcType type, const void *x, int64_t width,
                                bool largest)
{
    float piece[PIECE];
    uint64_t *own = keys, *other = keys + width;
    for (int64_t at = 0; at < width; at += PIECE) {
        int64_t count = rt_least(width - at, PIECE);
        const float *wide = rt_as_floats(type, rt_element(type, x, at), count, piece);
        for (int64_t i = 0; i < count; i++)
            own[at + i] = parc_order_key(wide[i], at + i, largest);
    }
    for (int shift = 32; shift < 64; shift += DIGIT) {
        uint64_t *sorted = sort_digit(own, other, width, shift);
        if (sorted == other) {
            other = own;
            own = sorted;
        }
    }
    return own;
}

/* ---- rows ----------------------------------------------------------------- */

void parc_topk(ParcRt *rt, ParcType type, void *values, int32_t *ids, const void *x,
               int64_t rows, int64_t width, int64_t n, bool largest, void *scratch)
{
    int64_t size = rt_type_size(type), each = thread_keys(width, n);
    (void)rt;
#pragma omp parallel for schedule(static) if (rows > 1 && rows * width > GRAIN)
    for (int64_t row = 0; row < rows; row++) {
        const char *from = rt_element(type, x, row * width);
        char *to = rt_element_out(type, values, row * n);
        uint64_t *keys = (uint64_t *)scratch + omp_get_thread_num() * each;
        const uint64_t *sorted = keys;
        if (uses_heap(width, n))
            select_row(keys, type, from, width, n, largest);
        else
            sorted = sort_row(keys, type, from, width, largest);
        for (int64_t j = 0; j < n; j++) {
            int32_t at = parc_order_index(sorted[j]);
            ids[row * n + j] = at;
            memcpy(to + j * size, from + at * size, (size_t)size);
        }
    }
}

void parc_topk_grad(ParcRt *rt, ParcType type, void *dx, const void *dy, const int32_t *ids,
                    int64_t rows, int64_t width, int64_t n)
{
    int64_t size = rt_type_size(type);
    (void)rt;
#pragma omp parallel for schedule(static) if (rows > 1 && rows * width > GRAIN)
    for (int64_t row = 0; row < rows; row++) {
        char *to = rt_element_out(type, dx, row * width);
        const char *from = rt_element(type, dy, row * n);
        memset(to, 0, (size_t)(width * size));
        for (int64_t j = 0; j < n; j++)
            memcpy(to + ids[row * n + j] * size, from + j * size, (size_t)size);
    }
}
