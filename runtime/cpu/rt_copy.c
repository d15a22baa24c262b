/* rt_copy.c: copies strided blocks (transposes, slices, parts) and rows, and
 * moves and clears memory of the arena.
 *
 * For strided blocks, dims that are contiguous in both source and destination
 * are merged first. If the source's last dim is contiguous, the copy runs over
 * rows. Otherwise it uses square tiles of the last dim and the dim in which the
 * source is contiguous, so that both sides use whole cache lines. Copies depend
 * on the element size only; the inner loops are specialized for 2, 4 and 8
 * bytes.
 */
#include <string.h>

#include "common/type.h"
#include "cpu/rt_stream.h"
#include "params/strided_copy.h"
#include "rt.h"

enum { TILE = 32, GRAIN = 1 << 14 };

typedef struct Copy {
    RtStridedCopy copy;
    int size; /* bytes of an element */
} Copy;

/* The offsets of element `index`, counted over all dims except `a` and `b`. */
static void locate(const Copy *c, int a, int b, int64_t index, int64_t *src,
                   int64_t *dst)
{
    *src = *dst = 0;
    for (int d = c->copy.n - 1; d >= 0; d--)
        if (d != a && d != b) {
            *src += index % c->copy.dim[d] * c->copy.src[d];
            *dst += index % c->copy.dim[d] * c->copy.dst[d];
            index /= c->copy.dim[d];
        }
}

/* dst[i][j] = src[j][i] for a tile: `rows` along the dim in which the source
 * is contiguous, `columns` along the destination's last dim. Callers pass a
 * constant `size`, so the compiler specializes the loop. */
__attribute__((always_inline)) static inline void
move_tile(char *restrict dst, int64_t dst_stride, const char *restrict src,
          int64_t src_stride, int64_t rows, int64_t columns, int size)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            memcpy(dst + (i * dst_stride + j) * size,
                   src + (j * src_stride + i) * size, (size_t)size);
}

static void copy_tile(const Copy *c, char *dst, int64_t dst_stride,
                      const char *src, int64_t src_stride, int64_t rows,
                      int64_t columns)
{
    if (c->size == 2)
        move_tile(dst, dst_stride, src, src_stride, rows, columns, 2);
    else if (c->size == 4)
        move_tile(dst, dst_stride, src, src_stride, rows, columns, 4);
    else
        move_tile(dst, dst_stride, src, src_stride, rows, columns, 8);
}

static void copy_line(const Copy *c, char *dst, const char *src, int64_t n,
                      int64_t src_stride)
{
    if (src_stride == 1)
        memcpy(dst, src, (size_t)(n * c->size));
    else
        copy_tile(c, dst, n, src, src_stride, 1, n);
}

static void copy_lines(const Copy *c, char *dst, const char *src,
                       int64_t elements)
{
    int last = c->copy.n - 1;
    int64_t n = c->copy.dim[last], lines = elements / n;
    int64_t pieces = lines == 1 ? (n + GRAIN - 1) / GRAIN : 1;
    int64_t step = (n + pieces - 1) / pieces;
#pragma omp parallel for collapse(2) schedule(static) if (elements > GRAIN)
    for (int64_t i = 0; i < lines; i++)
        for (int64_t p = 0; p < pieces; p++) {
            int64_t from, to, begin = p * step;
            int64_t count = rt_least(n - begin, step);
            locate(c, last, last, i, &from, &to);
            copy_line(c, dst + (to + begin) * c->size,
                      src + (from + begin * c->copy.src[last]) * c->size, count,
                      c->copy.src[last]);
        }
}

static void copy_tiles(const Copy *c, int inner, char *dst, const char *src,
                       int64_t elements)
{
    int last = c->copy.n - 1;
    int64_t rows = c->copy.dim[inner], columns = c->copy.dim[last];
    int64_t planes = elements / rows / columns;
    int64_t down = (rows + TILE - 1) / TILE;
#pragma omp parallel for collapse(2) schedule(static) if (elements > GRAIN)
    for (int64_t p = 0; p < planes; p++)
        for (int64_t t = 0; t < down; t++) {
            int64_t from, to, i = t * TILE;
            locate(c, inner, last, p, &from, &to);
            for (int64_t j = 0; j < columns; j += TILE)
                copy_tile(c, dst + (to + i * c->copy.dst[inner] + j) * c->size,
                          c->copy.dst[inner],
                          src + (from + i + j * c->copy.src[last]) * c->size,
                          c->copy.src[last], rt_least(rows - i, TILE),
                          rt_least(columns - j, TILE));
        }
}

void parc_copy(ParcRt *rt, ParcType type, void *dst, const void *src, int ndim,
               const int64_t *dim, const int64_t *src_stride)
{
    Copy c = {rt_strided_copy(ndim, dim, src_stride), (int)rt_type_size(type)};
    int64_t elements = rt_strided_copy_elements(&c.copy);
    int inner = -1;
    (void)rt;
    for (int d = 0; d < c.copy.n; d++)
        inner = c.copy.src[d] == 1 ? d : inner;
    if (elements == 0)
        return;
    if (inner < 0 || inner == c.copy.n - 1)
        copy_lines(&c, dst, src, elements);
    else
        copy_tiles(&c, inner, dst, src, elements);
}

void rt_copy_rows(ParcRt *rt, char *dst, int64_t dst_stride, const char *src,
                  int64_t src_stride, int64_t rows, int64_t n)
{
    /* bytes for several threads; for non-temporal stores of a row */
    enum { COPY_GRAIN = 1 << 17, LONG = 2048 };
    if (dst == src || n == 0)
        return;
    int64_t chunks = n < COPY_GRAIN ? 1 : rt_least(rt->threads, n / COPY_GRAIN);
    int64_t step = (n + chunks - 1) / chunks;
    bool wide = rows * n > COPY_GRAIN, far = rows * n >= RT_FAR;
#pragma omp parallel for collapse(2) schedule(static) if (wide)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < chunks; c++) {
            int64_t from = c * step, count = rt_least(step, n - from);
            char *to = dst + i * dst_stride + from;
            const char *at = src + i * src_stride + from;
            if (far && count >= LONG)
                rt_copy_far(to, at, count);
            else if (count > 0)
                memcpy(to, at, (size_t)count);
        }
}

/* Copies single elements; on one side they are contiguous. */
static void copy_elements(int size, char *dst, int64_t dst_stride, const char *src,
                          int64_t src_stride, int64_t n)
{
    const Copy c = {.size = size};
#pragma omp parallel for schedule(static) if (n > GRAIN)
    for (int64_t i = 0; i < n; i += GRAIN) {
        int64_t count = rt_least(n - i, GRAIN);
        char *to = dst + i * dst_stride * size;
        const char *from = src + i * src_stride * size;
        if (dst_stride == 1)
            copy_tile(&c, to, count, from, src_stride, 1, count);
        else
            copy_tile(&c, to, dst_stride, from, 1, count, 1);
    }
}

void parc_copy_rows(ParcRt *rt, ParcType type, void *dst, int64_t dst_row,
                    const void *src, int64_t src_row, int64_t rows,
                    int64_t width)
{
    int64_t size = rt_type_size(type);
    if (width == 1 && rows > 1 && (dst_row == 1 || src_row == 1)) {
        copy_elements((int)size, dst, dst_row, src, src_row, rows);
        return;
    }
    rt_copy_rows(rt, dst, dst_row * size, src, src_row * size, rows,
                 width * size);
}

void parc_move(ParcRt *rt, void *to, const void *from, int64_t bytes)
{
    enum { PIECE = 1 << 20 };
    (void)rt;
#pragma omp parallel for schedule(static) if (bytes > PIECE)
    for (int64_t at = 0; at < bytes; at += PIECE) {
        int64_t n = rt_least(bytes - at, PIECE);
        memcpy((char *)to + at, (const char *)from + at, (size_t)n);
    }
}

void parc_zero(ParcRt *rt, void *to, int64_t bytes)
{
    (void)rt;
    memset(to, 0, (size_t)bytes);
}

void parc_set_pieces(ParcRt *rt, int64_t *to, int64_t parts, int64_t dim, int64_t held,
                     int64_t first, int64_t second, int64_t part)
{
    (void)rt;
    rt_set_pieces(to, parts, dim, held, first, second, part);
}

void parc_set_index(ParcRt *rt, int64_t *to, int64_t parts, int64_t dim,
                    int64_t index, int64_t part)
{
    parc_set_pieces(rt, to, parts, dim, 1, index, index, part);
}
