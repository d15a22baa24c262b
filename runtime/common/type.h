/* type.h: declares operations on tensors of any element type.
 *
 * Copies count bytes and ignore the type. Computations convert a piece to f32
 * ("widen"), compute in f32 and round the result ("narrow").
 */
#ifndef PARC_RT_TYPE_H
#define PARC_RT_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "parc_rt.h"

static inline int64_t rt_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The number of elements of a tensor with these dims. */
static inline int64_t rt_elements(const int64_t *dim, int n)
{
    int64_t elements = 1;
    for (int d = 0; d < n; d++)
        elements *= dim[d];
    return elements;
}

static inline int64_t rt_type_size(ParcType type)
{
    static const int8_t size[] = {[PARC_F32] = 4, [PARC_BF16] = 2,
                                  [PARC_F16] = 2, [PARC_I32] = 4,
                                  [PARC_I64] = 8};
    return size[type];
}

static inline bool rt_is_integer(ParcType type)
{
    return type == PARC_I32 || type == PARC_I64;
}

/* The address of element i. */
static inline const void *rt_element(ParcType type, const void *base, int64_t i)
{
    return (const char *)base + i * rt_type_size(type);
}

static inline void *rt_element_out(ParcType type, void *base, int64_t i)
{
    return (char *)base + i * rt_type_size(type);
}

/* Convert n elements of a float type to f32 and back, to nearest, ties to
 * even. The buffers must not overlap. */
void rt_widen(float *to, ParcType type, const void *from, int64_t n);
void rt_narrow(ParcType type, void *to, const float *from, int64_t n);

/* n elements as f32: `from` itself if it has f32, else converted in `scratch`.
 */
static inline const float *rt_as_floats(ParcType type, const void *from,
                                        int64_t n, float *scratch)
{
    if (type == PARC_F32)
        return from;
    rt_widen(scratch, type, from, n);
    return scratch;
}

/* The valid elements of run j: the last run of a flat shard has padding. */
static inline int64_t rt_valid_run(const ParcPart *p, int64_t j)
{
    int64_t left = p->valid - j * p->inner;
    return p->valid == 0 || left > p->inner ? p->inner : left < 0 ? 0 : left;
}

/* The index among all of element i of member `at` of k, which has `part` elements, in
 * zigzag order: pieces `at` and 2k - 1 - at of 2k. */
static inline int64_t rt_zigzag(int64_t k, int64_t at, int64_t part, int64_t i)
{
    int64_t piece = part / 2;
    return (i >= piece ? 2 * k - 1 - at : at) * piece + i % piece;
}

/* The contiguous pieces of a member's row, and where in the row of all k members piece i
 * of member j begins. */
static inline int rt_part_pieces(const ParcPart *p)
{
    return p->zigzag ? 2 : 1;
}

static inline int64_t rt_piece_begin(const ParcPart *p, int64_t k, int64_t j, int i)
{
    return (i ? 2 * k - 1 - j : j) * (p->inner / rt_part_pieces(p));
}

/* What parc_set_pieces writes. */
static inline void rt_set_pieces(int64_t *to, int64_t parts, int64_t dim, int64_t held,
                                 int64_t first, int64_t second, int64_t part)
{
    int64_t half = held / 2;
    for (int64_t i = 0; i < parts; i++)
        for (int64_t j = 0; j < held; j++)
            to[i * held + j] =
                (i * dim + (j < half ? first + j : second + j - half)) * part;
}

/* The distance between two rows of the gathered tensor, which excludes padding
 * unless `inside`. */
static inline int64_t rt_whole_row(const ParcPart *p, int64_t ranks)
{
    return p->valid == 0 || p->inside ? ranks * p->inner : p->valid;
}

#endif
