/* rt_kernels.c: launches the hand-written kernels except attention's.
 *
 * copy.cuh: copies of strided blocks within the device (transposes, slices,
 * parts), and the local ops local_slice and mask_to_partial. A copy uses the
 * largest vectors, up to 16 bytes, that divide its contiguous sizes, strides
 * and addresses. If source and destination are contiguous along different dims,
 * tiles are transposed in shared memory.
 *
 * embedding.cuh, embedding_grad.cuh: rows of a table by id, and the table's
 * gradient. Variants differ in the bytes that a thread copies at a time and in
 * the columns that it sums, which depend on the alignment of a row.
 *
 * topk.cuh: the first elements of rows in order, by a warp or by a block for each row.
 *
 * split_key.cuh: the keys of layers.
 */
#include <stdio.h>

#include "common/type.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"
#include "params/strided_copy.h"
#include "rt.h"

enum { MOST_DIMS = 6, TRANSPOSE_DIMS = 4 };

/* ---- copies -------------------------------------------------------------- */

/* Removes dim d. */
static void remove_dim(RtStridedCopy *b, int d)
{
    b->n--;
    for (; d < b->n; d++) {
        b->dim[d] = b->dim[d + 1];
        b->dst[d] = b->dst[d + 1];
        b->src[d] = b->src[d + 1];
    }
}

/* Writes the kernel arguments of a copy: sizes of dims 1 … dims-1, then all
 * strides. Missing outer dims have size 1 and stride 0. */
static void strided_arguments(const RtStridedCopy *b, int dims,
                              int64_t *argument)
{
    for (int i = 0; i < dims; i++) {
        int d = i - (dims - b->n);
        if (i > 0)
            argument[i - 1] = d >= 0 ? b->dim[d] : 1;
        argument[dims - 1 + i] = d >= 0 ? b->dst[d] : 0;
        argument[2 * dims - 1 + i] = d >= 0 ? b->src[d] : 0;
    }
}

/* Merges elements to larger vectors, as far as both sides allow. Returns the
 * bytes of a vector. */
static int widen(RtStridedCopy *b, const void *dst, const void *src, int size)
{
    int last = b->n - 1;
    if (b->dst[last] != 1 || b->src[last] != 1)
        return size;
    int64_t all =
        rt_pointer_bits(dst) | rt_pointer_bits(src) | b->dim[last] * size;
    for (int d = 0; d < last; d++)
        all |= b->dst[d] * size | b->src[d] * size;
    int bytes = rt_instance_vector(all), many = bytes / size;
    b->dim[last] /= many;
    for (int d = 0; d < last; d++) {
        b->dst[d] /= many;
        b->src[d] /= many;
    }
    return bytes;
}

static void copy_strided(ParcRt *rt, RtStridedCopy b, int size, char *dst,
                         const char *src)
{
    if (b.n > MOST_DIMS) {
        RtStridedCopy inner = b;
        remove_dim(&inner, 0);
        for (int64_t i = 0; i < b.dim[0]; i++)
            copy_strided(rt, inner, size, dst + i * b.dst[0] * size,
                         src + i * b.src[0] * size);
        return;
    }
    int bytes = widen(&b, dst, src, size);
    int64_t n = rt_strided_copy_elements(&b);
    int64_t argument[4 + 3 * MOST_DIMS - 1] = {rt_pointer_bits(dst),
                                               rt_pointer_bits(src), bytes, n};
    strided_arguments(&b, MOST_DIMS, argument + 4);
    rt_cuda_launch(rt, "copy_strided", rt_blocks(n, KERNEL_THREADS),
                   KERNEL_THREADS, 0,
                   (int)(sizeof argument / sizeof *argument), argument);
}

/* A transpose: the source is contiguous along dim `inner`, which is not the
 * last. */
static void copy_transposed(ParcRt *rt, RtStridedCopy b, int inner, int size,
                            char *dst, const char *src)
{
    int last = b.n - 1;
    int64_t rows = b.dim[inner], columns = b.dim[last];
    int64_t argument[7 + 3 * TRANSPOSE_DIMS - 1] = {
        rt_pointer_bits(dst), rt_pointer_bits(src), size, rows, columns,
        b.dst[inner],         b.src[last]};
    remove_dim(&b, last);
    remove_dim(&b, inner);
    strided_arguments(&b, TRANSPOSE_DIMS, argument + 7);
    rt_cuda_launch(rt, "copy_transposed",
                   rt_strided_copy_elements(&b) * rt_blocks(rows, COPY_TILE) *
                       rt_blocks(columns, COPY_TILE),
                   KERNEL_THREADS, 0, (int)(sizeof argument / sizeof *argument),
                   argument);
}

void parc_copy(ParcRt *rt, ParcType type, void *dst, const void *src, int ndim,
               const int64_t *dim, const int64_t *src_stride)
{
    RtStridedCopy b = rt_strided_copy(ndim, dim, src_stride);
    int size = (int)rt_type_size(type), inner = -1, last = b.n - 1;
    for (int d = 0; d < last; d++)
        inner = b.src[d] == 1 ? d : inner;
    if (rt_strided_copy_elements(&b) == 0)
        return;
    if (b.n == 1 && b.src[0] == 1)
        parc_move(rt, dst, src, b.dim[0] * size);
    else if (inner >= 0 && b.src[last] != 1 && b.n <= TRANSPOSE_DIMS + 2)
        copy_transposed(rt, b, inner, size, dst, src);
    else
        copy_strided(rt, b, size, dst, src);
}

void parc_copy_rows(ParcRt *rt, ParcType type, void *dst, int64_t dst_row,
                    const void *src, int64_t src_row, int64_t rows,
                    int64_t width)
{
    RtStridedCopy b = {0};
    int size = (int)rt_type_size(type);
    if (rows == 0 || width == 0)
        return;
    rt_strided_copy_add(&b, rows, dst_row, src_row);
    rt_strided_copy_add(&b, width, 1, 1);
    if (b.n == 0 || (b.n == 1 && b.dst[0] == 1 && b.src[0] == 1))
        parc_move(rt, dst, src, rows * width * size);
    else
        copy_strided(rt, b, size, dst, src);
}

void parc_local_slice(ParcRt *rt, uint32_t axes, const ParcPart *part)
{
    const RtGroup *g = &rt->group[axes];
    int64_t size = rt_type_size(part->type), n = part->inner;
    int64_t count = rt_valid_run(part, g->index), piece = count / rt_part_pieces(part);
    char *arena = parc_arena(rt), *dst = arena + part->dst;
    if (count < n)
        parc_zero(rt, dst, part->outer * n * size);
    for (int i = 0; i < rt_part_pieces(part); i++) {
        int64_t begin = rt_piece_begin(part, g->n, g->index, i);
        const char *src = arena + part->src + begin * size;
        if (dst != src)
            parc_copy_rows(rt, part->type, dst + i * piece * size, n, src,
                           rt_whole_row(part, g->n), part->outer, piece);
    }
}

void parc_mask_to_partial(ParcRt *rt, uint32_t axes, int64_t keeps,
                          const ParcPart *part)
{
    int64_t bytes = part->outer * part->inner * rt_type_size(part->type);
    char *arena = parc_arena(rt), *dst = arena + part->dst;
    if (rt->group[axes].index != keeps)
        parc_zero(rt, dst, bytes);
    else if (part->dst != part->src)
        parc_move(rt, dst, arena + part->src, bytes);
}

/* ---- embeddings ---------------------------------------------------------- */

void parc_embedding(ParcRt *rt, ParcType type, void *out, const void *table,
                    const int32_t *ids, int64_t n, int64_t rows, int64_t width,
                    const int64_t *base)
{
    char symbol[RT_SYMBOL];
    int bytes = rt_instance_vector(width * rt_type_size(type));
    int64_t vectors = width * rt_type_size(type) / bytes;
    snprintf(symbol, sizeof symbol, "embedding_%d", bytes);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(n * vectors, KERNEL_THREADS),
                   KERNEL_THREADS, 0, rt_pointer_bits(out),
                   rt_pointer_bits(table), rt_pointer_bits(ids), n * vectors,
                   rows, vectors, rt_pointer_bits(base));
}

/* The number of table rows per block. Every block reads all ids, so it is as
 * large as possible while each multiprocessor still has several blocks. */
static int64_t rows_of_block(int64_t rows, int64_t strips)
{
    enum { LEAST_ROWS = 8, WANTED_BLOCKS = 528 };
    int64_t n = rows * strips / WANTED_BLOCKS;
    return n < LEAST_ROWS ? LEAST_ROWS : n > LOOKUP_ROWS ? LOOKUP_ROWS : n;
}

void parc_embedding_grad(ParcRt *rt, ParcType type, float *grad, const void *dy,
                         const int32_t *ids, int64_t n, int64_t rows,
                         int64_t width, const int64_t *base)
{
    char symbol[RT_SYMBOL];
    int columns = rt_instance_columns(width, (int)rt_type_size(type));
    int64_t strips = rt_blocks(width, KERNEL_THREADS * columns);
    int64_t chunk = rows_of_block(rows, strips);
    snprintf(symbol, sizeof symbol, "embedding_grad_%s_%d", rt_float_name(type),
             columns);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(rows, chunk) * strips,
                   KERNEL_THREADS, 0, rt_pointer_bits(grad),
                   rt_pointer_bits(dy), rt_pointer_bits(ids), n, rows, width,
                   rt_pointer_bits(base), chunk);
}

/* ---- orders --------------------------------------------------------------- */

void parc_topk(ParcRt *rt, ParcType type, void *values, int32_t *ids, const void *x,
               int64_t rows, int64_t width, int64_t n, bool largest, void *scratch)
{
    char symbol[RT_SYMBOL];
    bool few = rt_topk_few(width, n);
    snprintf(symbol, sizeof symbol, "topk%s_%s", few ? "_few" : "", rt_float_name(type));
    if (few)
        RT_CUDA_LAUNCH(rt, symbol, rt_blocks(rows, KERNEL_THREADS / PARC_WARP),
                       KERNEL_THREADS, 0, rt_pointer_bits(values), rt_pointer_bits(ids),
                       rt_pointer_bits(x), rows, width, n, largest);
    else
        RT_CUDA_LAUNCH(rt, symbol, rt_topk_blocks(rows, n), KERNEL_THREADS, 0,
                       rt_pointer_bits(values), rt_pointer_bits(ids), rt_pointer_bits(x), rows,
                       width, n, largest, rt_pointer_bits(scratch), rt_topk_blocks(rows, n));
}

void parc_topk_grad(ParcRt *rt, ParcType type, void *dx, const void *dy, const int32_t *ids,
                    int64_t rows, int64_t width, int64_t n)
{
    char symbol[RT_SYMBOL];
    snprintf(symbol, sizeof symbol, "topk_grad_%s", rt_float_name(type));
    parc_zero(rt, dx, rows * width * rt_type_size(type));
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(rows * n, KERNEL_THREADS), KERNEL_THREADS, 0,
                   rt_pointer_bits(dx), rt_pointer_bits(dy), rt_pointer_bits(ids), rows * n,
                   width, n);
}

/* ---- keys ----------------------------------------------------------------- */

void parc_split_key(ParcRt *rt, int64_t *to, const int64_t *from, int64_t first,
                    int64_t step, int64_t n)
{
    RT_CUDA_LAUNCH(rt, "split_key", 1, KERNEL_THREADS, 0,
                   rt_pointer_bits(to), rt_pointer_bits(from), first, step, n);
}
