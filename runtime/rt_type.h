/* rt_type.h: tensors of any element type.
 *
 * What only moves elements counts bytes; what computes widens a piece to f32,
 * works there, and narrows the result.
 */
#ifndef PARC_RT_TYPE_H
#define PARC_RT_TYPE_H

#include <stdbool.h>
#include <stdint.h>

#include "parc_rt.h"

static inline int64_t rt_type_size(ParcType type)
{
    static const int8_t size[] = {[PARC_F32] = 4, [PARC_BF16] = 2,
                                  [PARC_F16] = 2, [PARC_I32] = 4,
                                  [PARC_I64] = 8};
    return size[type];
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

/* n floats from elements of a float type, and back, rounded to nearest even.
 * The two do not overlap. */
void rt_widen(float *to, ParcType type, const void *from, int64_t n);
void rt_narrow(ParcType type, void *to, const float *from, int64_t n);

/* n elements as floats: where they lie if they are f32, else widened into
 * `room`. */
static inline const float *rt_as_floats(ParcType type, const void *from,
                                        int64_t n, float *room)
{
    if (type == PARC_F32)
        return from;
    rt_widen(room, type, from, n);
    return room;
}

#endif
