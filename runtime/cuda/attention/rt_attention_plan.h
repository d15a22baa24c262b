/* rt_attention_plan.h: chooses the kernels of attention.cuh,
 * attention_grad.cuh and attention_bias.cuh for a call, their tiles, symbols and shared memory. parc
 * uses it to write instances.cu, the runtime to launch them.
 *
 * A block owns rows of one side, the queries or the keys, and loops over the
 * other side. Tiles are tuned for an H100: with head sizes up to 128, two
 * blocks of 4 warps fit a multiprocessor, with 255 registers per thread and no
 * spills. A warp of 32 rows uses each fragment of the other side twice, which
 * halves its reads of shared memory. All tiles fit RT_SHARED_MAX. A kernel that
 * does not fit RT_SHARED_MIN has a low-shared-memory variant with smaller
 * tiles (`_low_shared`).
 */
#ifndef PARC_RT_ATTENTION_PLAN_H
#define PARC_RT_ATTENTION_PLAN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "../../parc_attention.h"
#include "../core/rt_block_memory.h"
#include "../device/kernel_sizes.h"

/* A block owns rows * warps rows of one side and loops over the other side by
 * `step`. Sums that do not fit in registers are split in `parts`, with a block
 * each. */
typedef struct AttentionTiles {
    int rows, warps;
    int blocks; /* number of blocks that fit a multiprocessor's registers */
    int step, parts;
} AttentionTiles;

enum {
    ATTENTION_FORWARD,
    ATTENTION_QUERY,
    ATTENTION_KEY,
    ATTENTION_BIAS,
    ATTENTION_KERNELS
};

/* Each warp of the kernel that computes delta processes a row of o. */
enum {
    ATTENTION_DELTA_ROWS = 8,
    ATTENTION_DELTA_THREADS = PARC_WARP * ATTENTION_DELTA_ROWS
};

typedef struct AttentionPlan {
    char suffix[64]; /* suffix of symbols: "bf16_d128_e128_causal" */
    AttentionTiles tiles[ATTENTION_KERNELS];
    int64_t shared[ATTENTION_KERNELS]; /* bytes */
    bool low_shared[ATTENTION_KERNELS]; /* the low-shared-memory variant */
} AttentionPlan;

/* Bytes of a tile's row. */
static inline int64_t rt_attention_row(bool half, int64_t width, int64_t parts)
{
    int64_t columns = ATTENTION_COLUMNS(half, width, parts);
    return ATTENTION_ROW(half, columns) * (half ? 2 : 4);
}

static inline int64_t rt_attention_shared(int kernel, AttentionTiles t,
                                          bool half, int64_t d, int64_t e)
{
    int64_t k = rt_attention_row(half, d, t.parts);
    int64_t v = rt_attention_row(half, e, t.parts);
    int64_t own = (int64_t)t.rows * t.warps, bytes;
    if (kernel == ATTENTION_FORWARD)
        bytes = own * (k > v ? k : v) + t.step * (k + v);
    else
        bytes = (own + (kernel == ATTENTION_BIAS ? 1 : 2) * t.step) * (k + v);
    if (kernel == ATTENTION_BIAS)
        return bytes;
    int64_t floats = half ? 0 : own * ATTENTION_WEIGHT_ROW(t.step);
    if (kernel == ATTENTION_KEY)
        floats += 4 * t.step; /* lse and delta of two tiles */
    return bytes + floats * (int64_t)sizeof(float);
}

/* The tiles of the low-shared-memory variants, which only query and key have; the others
 * always fit. */
static inline AttentionTiles rt_attention_low_shared(int kernel, bool half,
                                                     bool large)
{
    static const AttentionTiles tiles[2][2][2] = {
        {{{8, 7, 2, 16, 1}, {8, 7, 2, 16, 1}},
         {{4, 4, 2, 16, 1}, {4, 4, 2, 16, 1}}},
        {{{32, 4, 2, 16, 1}, {16, 8, 1, 16, 1}},
         {{16, 4, 2, 16, 1}, {16, 3, 2, 16, 2}}},
    };
    return tiles[half][large][kernel == ATTENTION_KEY];
}

/* "attention_key_low_shared_bf16_d128_e128_causal" */
static inline void rt_attention_symbol(char *symbol, size_t size, int kernel,
                                       const AttentionPlan *p)
{
    static const char *const name[] = {"forward", "query", "key", "grad_bias"};
    snprintf(symbol, size, "attention_%s%s_%s", name[kernel],
             p->low_shared[kernel] ? "_low_shared" : "", p->suffix);
}

/* Whether the rank has a part of the queries, and their numbers among all matter. */
static inline bool rt_attention_parts(const ParcAttention *a)
{
    return a->all_s > a->s && (a->causal || a->window > 0 || a->drop > 0);
}

/* The plan of a call for a device whose blocks can have `block_memory` bytes of shared
 * memory, at least RT_SHARED_MIN. `type_name`: "bf16". Of the call only type, d, e and what
 * the instance's name says count. */
static inline void rt_attention_plan(AttentionPlan *p, const ParcAttention *a,
                                     const char *type_name, int64_t block_memory)
{
    const int64_t d = a->d, e = a->e;
    const bool half = a->type != PARC_F32, window = a->window > 0, drop = a->drop > 0;
    const bool masked = a->segments || a->bias_dims, parts = rt_attention_parts(a);
    /* A bias beside several others of these needs more registers. */
    const bool crowded = a->bias_dims && window + (a->softcap > 0) + a->segments + drop > 1;
    /* By head size: up to 64, up to 128, larger. */
    static const AttentionTiles tiles[2][3][ATTENTION_KERNELS] = {
        {{{8, 8, 2, 64, 1}, {8, 8, 2, 32, 1}, {8, 8, 2, 32, 1}, {8, 8, 2, 32, 1}},
         {{8, 8, 2, 32, 1}, {8, 8, 2, 16, 1}, {8, 8, 2, 16, 1}, {8, 8, 2, 16, 1}},
         {{4, 8, 2, 16, 1}, {4, 8, 2, 16, 1}, {4, 8, 2, 16, 1}, {4, 8, 2, 16, 1}}},
        {{{32, 4, 2, 64, 1}, {32, 4, 2, 48, 1}, {32, 4, 2, 32, 1}, {32, 4, 2, 32, 1}},
         {{32, 4, 2, 48, 1}, {32, 4, 2, 16, 1}, {16, 8, 1, 48, 1}, {32, 4, 2, 32, 1}},
         {{16, 4, 2, 32, 1}, {16, 4, 2, 32, 1}, {16, 4, 2, 32, 2}, {16, 4, 2, 16, 1}}},
    };
    /* Smaller steps with dropout, segments, a bias or parts of the queries, because these
     * need registers. */
    static const int less[2][ATTENTION_KERNELS] = {{64, 48, 16, 32}, {32, 16, 32, 16}};
    int64_t size = d > e ? d : e;
    snprintf(p->suffix, sizeof p->suffix, "%s_d%d_e%d%s%s%s%s%s%s%s%s", type_name, (int)d,
             (int)e, a->causal ? "_causal" : "", window ? "_window" : "",
             a->softcap > 0 ? "_softcap" : "", a->segments ? "_segments" : "",
             a->bias_dims ? "_bias" : "", drop ? "_drop" : "",
             parts ? "_parts" : "", a->all_t ? "_step" : "");
    for (int i = 0; i < ATTENTION_KERNELS; i++) {
        AttentionTiles *t = &p->tiles[i];
        *t = tiles[half][size <= 64 ? 0 : size <= 128 ? 1 : 2][i];
        /* sm_80 spills 12 bytes for a window and heads of 96 columns. */
        bool wide = i == ATTENTION_FORWARD && size > 64 &&
                    ((window && size <= 96) || masked);
        if (half && (drop || wide || (parts && i == ATTENTION_KEY)) && size <= 128)
            t->step = less[size > 64][i];
        if (half && crowded && i == ATTENTION_FORWARD)
            t->step /= 2;
        if (half && parts && size > 64 && i == ATTENTION_FORWARD)
            t->step = 16;
        if (half && drop && a->segments && size <= 64 && i == ATTENTION_QUERY)
            t->step = 32;
        bool more = (window || masked || parts) && size > 128 && i == ATTENTION_KEY;
        more |= parts && ((i == ATTENTION_KEY && size > 64) || (i == ATTENTION_FORWARD && crowded));
        if (!half && more)
            t->blocks = 1; /* the mask needs more than 128 registers */
        p->shared[i] = rt_attention_shared(i, *t, half, d, e);
        p->low_shared[i] =
            (i == ATTENTION_QUERY || i == ATTENTION_KEY) && p->shared[i] > block_memory;
        if (p->low_shared[i]) {
            *t = rt_attention_low_shared(i, half, size > 128);
            if (!half && parts)
                t->blocks = 1;
            p->shared[i] = rt_attention_shared(i, *t, half, d, e);
        }
    }
}

#endif
