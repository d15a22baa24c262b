/* rt_matmul.h: between rt_matmul.c and the products that are not the library's:
 * rt_matmul_wide.c, rt_matmul_split.c. */
#ifndef PARC_RT_MATMUL_H
#define PARC_RT_MATMUL_H

#include <stdbool.h>
#include <stdint.h>

#include "parc_rt.h"

/* A matrix of the product, a stack of them if batch > 1. */
typedef struct View {
    int64_t rows, columns, stride[3];
    ParcType type;
} View;

enum { SRC, WEIGHTS, DST };

/* DST = SRC WEIGHTS, `batch` of them at once, `loops` one by one. With more
 * than one of `segments` it is the sum of so many products of these views:
 * equal parts of the summed index, which lie somewhere else each. */
typedef struct Plan {
    View view[DST + 1];
    int64_t batch, loops, segments;
    int64_t step[DST + 1]; /* elements from one loop to the next */
    bool swapped;          /* SRC is the spec's b, WEIGHTS its a */
    View part[DST];        /* of rt_gathered: what the views were */
} Plan;

static inline int64_t rt_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Pieces of at most `of` that n is cut into. */
static inline int64_t rt_pieces(int64_t n, int64_t of)
{
    return (n + of - 1) / of;
}

/* How many threads have a part of c, of so many rows by so many columns each,
 * the last ones less. */
static inline int64_t rt_shares(const View *c, int64_t rows, int64_t columns)
{
    return rt_pieces(c->rows, rows) * rt_pieces(c->columns, columns);
}

/* The plan of a spec, and the same plan with a batch's products in a loop. */
Plan rt_plan_of(const ParcMatmulSpec *spec);
Plan rt_plan_one_by_one(const Plan *p);
bool rt_is_all_f32(const Plan *p);

/* The scratch bytes of a matmul at a level other than PARC_CPU_NATIVE. */
int64_t rt_matmul_bound(const ParcMatmulSpec *spec, int threads,
                        ParcCpuLevel level);

/* The plan for segments that have been put together: its views count all of
 * them, densely. Bytes that an operand takes so, a multiple of 64 (0: there is
 * one segment), and putting it there. */
Plan rt_gathered(const Plan *p);
int64_t rt_gathered_bytes(const Plan *p, int operand);
/* Of both operands. */
int64_t rt_gathered_all(const Plan *p);
void rt_gather(const Plan *p, int operand, const void *const *from, void *to);

/* A product in f32 of operands of any float type. `scratch` has room for
 * rt_wide_scratch bytes of that many threads or more. */
int64_t rt_wide_scratch(const Plan *p, int threads);
void rt_wide_product(const Plan *p, const void *src, const void *weights,
                     void *dst, void *scratch, int threads);

/* A product in f32 on tiles of bf16, as exact as in f32: rt_split_pays where the
 * matrices fill some tiles (the same on every machine), rt_split_takes where
 * this machine also has tiles. Operands are listed by segment. `scratch` has
 * room for rt_split_scratch bytes of that many threads or more, on a boundary
 * of 64. */
bool rt_split_pays(const Plan *p);
bool rt_split_takes(const Plan *p);
int64_t rt_split_scratch(const Plan *p, int threads);
void rt_split_product(const Plan *p, const void *const *src,
                      const void *const *weights, void *dst, void *scratch,
                      int threads);

#endif
