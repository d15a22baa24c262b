/* rt_matmul.h: declares the form in which the CPU computes a matrix product (a
 * Plan: matrices with strides and batches), and the implementations
 * other than oneDNN's primitive (rt_matmul_vector.c, rt_matmul_split.c). */
#ifndef PARC_RT_MATMUL_H
#define PARC_RT_MATMUL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/type.h"

/* A matrix of the product; `batch` matrices if batch > 1, stride[0] apart. */
typedef struct View {
    int64_t rows, columns, stride[3];
    ParcType type;
} View;

enum { SRC, WEIGHTS, DST };

/* DST = SRC WEIGHTS: `batch` products in one call, `loops` one after another. */
typedef struct Plan {
    View view[DST + 1];
    int64_t batch, loops;
    int64_t step[DST + 1]; /* elements between two loops */
    bool swapped;          /* SRC is the spec's b, WEIGHTS its a */
} Plan;

/* The name of oneDNN's kernel that packs its operands. */
#define RT_PACKING "gemm:jit"

/* n divided by `of`, rounded up. */
static inline int64_t rt_pieces(int64_t n, int64_t of)
{
    return (n + of - 1) / of;
}

/* The number of threads that have a part of c, if a part has `rows` by
 * `columns`; the last parts may have fewer. */
static inline int64_t rt_shares(const View *c, int64_t rows, int64_t columns)
{
    return rt_pieces(c->rows, rows) * rt_pieces(c->columns, columns);
}

/* The plan of a spec, and the same plan with the products of a batch in a
 * loop. */
Plan rt_plan_of(const ParcMatmulSpec *spec);
Plan rt_plan_one_by_one(const Plan *p);
bool rt_is_all_f32(const Plan *p);
/* How many times as fast as vectors of f32 the fastest instructions are that a
 * product of the run uses, for the peak rate. */
double rt_matmul_speedup(const ParcRt *rt);
/* Frees all matmuls. */
void rt_matmul_close(ParcRt *rt);

/* The size of the pieces if n is divided into equal pieces of at most `most`,
 * each a multiple of `multiple`. */
int64_t rt_evenly(int64_t n, int64_t most, int64_t multiple);

/* Rows and columns of c for each thread, multiples of a strip; the last threads
 * may have fewer. Of all grids of threads the one that costs least, if a's
 * strips are packed once for each `wide` columns and b's once. */
typedef struct RtGrid {
    int64_t rows, columns;
} RtGrid;
RtGrid rt_grid(const View *c, int64_t strip_a, int64_t strip_b, int64_t wide,
               int threads);

/* A product in f32 of operands of any float type, with vectors.
 * `scratch` has at least rt_vector_scratch bytes for `threads` threads, at a
 * multiple of 64. */
int64_t rt_vector_scratch(const Plan *p, int threads);
/* Bytes that are enough for this product and for one with fewer rows, columns or contracted
 * elements. */
int64_t rt_vector_most_scratch(const Plan *p, int threads);
void rt_vector_product(const Plan *p, const void *src, const void *weights,
                       void *dst, void *scratch, int threads);

/* A product in f32 by AMX's tile instructions for bf16 (rt_split.h), as exact
 * as in f32. rt_split_pays: whether the matrices are large enough; equal on
 * every machine. rt_split_takes: whether this machine also has the
 * instructions. `scratch` has at least
 * rt_split_scratch bytes for `threads` threads, at a multiple of 64. */
bool rt_split_pays(const Plan *p);
bool rt_split_takes(const Plan *p);
int64_t rt_split_scratch(const Plan *p, int threads);
void rt_split_product(const Plan *p, const void *src, const void *weights,
                      void *dst, void *scratch, int threads);

#endif
