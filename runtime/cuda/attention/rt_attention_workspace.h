/* rt_attention_workspace.h: computes the workspace of attention. parc plans it,
 * the runtime divides it.
 *
 * In the backward pass parc's own kernels need delta = rowsum(d_o * o), and
 * cuDNN a large workspace; in the forward pass cuDNN needs a small one. cuDNN's
 * deterministic backward pass stores ds, the gradient of the scores, which has
 * s by t elements (queries by keys) for each head. Any other accumulates dq in
 * f32, in a tensor that parc allocates, and some engines (cuDNN's kernels) in a
 * further copy. A call whose workspace would exceed a limit runs in pieces of
 * some sequences, or of some heads of one sequence. Pieces are as large as
 * possible, because the last blocks of each leave a part of the GPU idle.
 */
#ifndef PARC_RT_ATTENTION_WORKSPACE_H
#define PARC_RT_ATTENTION_WORKSPACE_H

#include "../../parc_attention.h"
#include "rt_attention_plan.h"

enum {
    ATTENTION_OWN_WORKSPACE = 1024, /* bytes for cuDNN's own use */
    ATTENTION_ENGINE_ROWS = 128,    /* multiple that rows and columns of ds are
                                       padded to */
    ATTENTION_ENGINE_COLUMNS = 64,  /* multiple that columns of an engine's sum
                                       of dq are padded to */
};
/* Limits of a piece's workspace. Pieces have fewer heads if they would exceed
 * MOST; one group of heads that share keys may use up to LIMIT. */
#define ATTENTION_MOST_WORKSPACE ((int64_t)576 << 20)
#define ATTENTION_LIMIT_WORKSPACE ((int64_t)4 << 30)

/* A piece of a call: the number of sequences, and of KV heads of each. */
typedef struct AttentionPiece {
    int64_t b, kv;
} AttentionPiece;

static inline int64_t rt_attention_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Whether cuDNN supports the call: 16 bits, head sizes that are a multiple of
 * 8, no dropout (whose random numbers would differ from parc's), no window,
 * no softcap, no segments, no bias, no part of the queries and no step of a ring. */
static inline bool rt_attention_library(const ParcAttention *a)
{
    return a->type != PARC_F32 && a->drop <= 0 && a->window <= 0 && a->softcap <= 0 &&
           !a->segments && !a->bias_dims && !rt_attention_parts(a) && !a->all_t && a->d % 8 == 0 &&
           a->e % 8 == 0 && a->d <= 256 && a->e <= 256 && a->s > 1 && a->t > 1;
}

/* Bytes of the sum of dq for `kv` KV heads, f32 [heads, s, d]; 0 for a
 * deterministic backward pass. It is at the start of the library's
 * workspace. */
static inline int64_t rt_attention_sum_bytes(const ParcAttention *a, int64_t kv)
{
    int64_t bytes = kv * a->g * a->s * a->d * (int64_t)sizeof(float);
    return a->deterministic ? 0 : rt_cuda_aligned(bytes);
}

/* Workspace of the library's backward pass for `kv` KV heads: ds or the sums
 * of dq, and, if several query heads share a KV head, dk and dv of each query
 * head. */
static inline int64_t rt_attention_piece_bytes(const ParcAttention *a,
                                               int64_t kv)
{
    int64_t rows = rt_attention_up(a->s, ATTENTION_ENGINE_ROWS);
    int64_t columns = a->deterministic
                          ? rt_attention_up(a->t, ATTENTION_ENGINE_ROWS)
                          : rt_attention_up(a->d, ATTENTION_ENGINE_COLUMNS);
    int64_t kept = rows * columns * (a->deterministic ? 2 : 4);
    int64_t shared = a->g > 1 ? a->t * (a->d + a->e) * 2 : 0;
    return rt_attention_sum_bytes(a, kv) + ATTENTION_OWN_WORKSPACE +
           kv * a->g * (kept + shared);
}

/* The largest piece whose workspace is at most `bytes`: all KV heads of some
 * sequences, or else some KV heads of one. All pieces of a call are equal. b is
 * 0 if no piece fits. */
static inline AttentionPiece rt_attention_piece(const ParcAttention *a,
                                                int64_t bytes)
{
    for (int64_t b = a->b; b > 0; b--)
        if (a->b % b == 0 && rt_attention_piece_bytes(a, b * a->kv) <= bytes)
            return (AttentionPiece){b, a->kv};
    for (int64_t kv = a->kv - 1; kv > 0; kv--)
        if (a->kv % kv == 0 && rt_attention_piece_bytes(a, kv) <= bytes)
            return (AttentionPiece){1, kv};
    return (AttentionPiece){0, 0};
}

/* Bytes of delta, f32 [b, heads, s], at the start of the backward pass's
 * workspace. */
static inline int64_t rt_attention_own_bytes(const ParcAttention *a,
                                             bool backward)
{
    int64_t delta = a->b * a->kv * a->g * a->s * (int64_t)sizeof(float);
    return backward ? delta : 0;
}

/* The workspace that parc plans: delta and the library's workspace. */
static inline int64_t rt_attention_bytes(const ParcAttention *a, bool backward)
{
    int64_t own = rt_attention_own_bytes(a, backward);
    if (!rt_attention_library(a))
        return own;
    own = rt_cuda_aligned(own);
    if (!backward)
        return own + ATTENTION_OWN_WORKSPACE;
    AttentionPiece p = rt_attention_piece(a, ATTENTION_MOST_WORKSPACE);
    int64_t heads = p.b > 0 ? p.b * p.kv : 1;
    int64_t workspace = rt_attention_piece_bytes(a, heads);
    return own + (workspace <= ATTENTION_LIMIT_WORKSPACE ? workspace : 0);
}

#endif
