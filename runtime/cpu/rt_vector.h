/* rt_vector.h: declares how matrix operands are packed for the product with
 * vectors of f32 (rt_matmul_vector.c).
 *
 * A strip is RT_STRIP_A rows of a or RT_STRIP_B columns of b, its edges. Packed,
 * it holds the edges of one contracted index after another:
 *
 *   a, row-major, edges = rows            packed, with strips of two edges
 *     a00 a01 a02                           a00 a10  a01 a11  a02 a12
 *     a10 a11 a12
 */
#ifndef PARC_RT_VECTOR_H
#define PARC_RT_VECTOR_H

#include "common/type.h"
#include "cpu/rt_tile.h"

enum {
    RT_STRIP_A = RT_TILE_ROWS,
    RT_STRIP_B = 2 * RT_LANES,
    RT_MOST_STRIP_B = 32, /* the largest of all instruction sets */
    RT_MOST_EDGES = 512, /* edges and contracted indices of a packed block */
    RT_MOST_DEPTH = 384,
};

/* One operand of a product. Element (edge, k) has the index edge * along_edges +
 * k * along_depth. */
typedef struct RtOperand {
    const void *at;
    ParcType type;
    int64_t along_edges, along_depth;
} RtOperand;

/* The address of an element. */
static inline const void *rt_operand_at(const RtOperand *x, int64_t edge,
                                        int64_t k)
{
    return rt_element(x->type, x->at,
                      edge * x->along_edges + k * x->along_depth);
}

/* Pack edges [edge, edge + edges) by contracted indices [k, k + depth) as
 * strips. Edges that the last strip lacks are 0. `to` has whole strips of
 * `depth` indices. */
void rt_pack_a(const RtOperand *x, int64_t edge, int64_t edges, int64_t k,
               int64_t depth, float *to);
void rt_pack_b(const RtOperand *x, int64_t edge, int64_t edges, int64_t k,
               int64_t depth, float *to);

#endif
