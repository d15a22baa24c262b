/* rt_kernels.c: launches the hand-written kernels that copy rows of a table by
 * id (embedding.cuh), compute the table's gradient (embedding_grad.cuh), and
 * compute contractions that no matmul computes (contract.cuh).
 *
 * Variants of the first two differ in the bytes that a thread copies at a time
 * and in the columns that it sums, which depend on the alignment of a row.
 * kernels.cu has one kernel for each contraction; a hash of its letters, the
 * table of sizes and strides, is part of the name. */
#include <stdio.h>

#include "common/type.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"
#include "rt.h"

enum { LEAST_ROWS = 8, WANTED_BLOCKS = 528 };

void parc_embedding(ParcRt *rt, ParcType type, void *out, const void *table,
                    const int32_t *ids, int64_t n, int64_t rows, int64_t width,
                    const int64_t *base)
{
    char symbol[RT_SYMBOL];
    int unit = rt_instance_unit(width * rt_type_size(type));
    int64_t units = width * rt_type_size(type) / unit;
    snprintf(symbol, sizeof symbol, "embedding_%d", unit);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(n * units, KERNEL_THREADS),
                   KERNEL_THREADS, 0, rt_pointer_bits(out),
                   rt_pointer_bits(table), rt_pointer_bits(ids), n * units,
                   rows, units, rt_pointer_bits(base));
}

/* The number of table rows per block. Every block reads all ids, so it is as
 * large as possible while each multiprocessor still has several blocks. */
static int64_t rows_of_block(int64_t rows, int64_t strips)
{
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

void parc_contract(ParcRt *rt, ParcTypes type, void *c, const void *a,
                   const void *b, int n, const int64_t letter[][4])
{
    const char *const name[] = {rt_float_name(type.a), rt_float_name(type.b),
                                rt_float_name(type.c)};
    char symbol[RT_SYMBOL];
    int64_t elements = 1, terms = 1;
    for (int i = 0; i < n; i++)
        *(letter[i][1] ? &elements : &terms) *= letter[i][0];
    rt_instance_contract(symbol, name, n, letter);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(elements, KERNEL_THREADS),
                   KERNEL_THREADS, 0, rt_pointer_bits(c), rt_pointer_bits(a),
                   rt_pointer_bits(b), elements, terms);
}
