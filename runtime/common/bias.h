/* bias.h: where the elements of attention's bias are. */
#ifndef PARC_RT_BIAS_H
#define PARC_RT_BIAS_H

#include "parc_attention.h"

enum { RT_BIAS_DIMS = 4 };

/* The elements between two sequences, heads, queries and keys; 0 for a dim that the bias
 * does not have. */
static inline void rt_bias_steps(const ParcAttention *a, int64_t step[RT_BIAS_DIMS])
{
    const int64_t size[RT_BIAS_DIMS] = {a->b, a->kv * a->g, a->s, a->t};
    int64_t n = 1;
    for (int i = RT_BIAS_DIMS - 1; i >= 0; i--) {
        bool has = a->bias_dims >> i & 1;
        step[i] = has ? n : 0;
        n *= has ? size[i] : 1;
    }
}

#endif
