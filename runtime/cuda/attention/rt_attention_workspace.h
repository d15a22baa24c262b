/* rt_attention_workspace.h: computes the workspace of attention. parc plans it,
 * the runtime divides it.
 *
 * In the backward pass parc's own kernels need delta = rowsum(d_o * o), and
 * cuDNN a large workspace; in the forward pass cuDNN needs a small one. cuDNN's
 * deterministic backward pass stores ds, the gradient of the scores, which has
 * s by t elements (queries by keys) for each head. Any other accumulates dq in
 * f32, in a tensor that parc allocates, and some engines (cuDNN's kernels) in a
 * further copy. To limit the workspace, a call runs in pieces of some
 * sequences, or of some heads of one sequence. A piece has enough blocks for a
 * few waves on a large GPU.
 */
#ifndef PARC_RT_ATTENTION_WORKSPACE_H
#define PARC_RT_ATTENTION_WORKSPACE_H

#include "../../parc_rt.h"
#include "rt_attention_plan.h"

enum {
    ATTENTION_OWN_WORKSPACE = 1024, /* bytes for cuDNN's own use */
    ATTENTION_ENGINE_ROWS = 128,    /* multiple that rows and columns of ds are
                                       padded to */
    ATTENTION_ENGINE_COLUMNS = 64,  /* multiple that columns of an engine's sum
                                       of dq are padded to */
    ATTENTION_TILE = 64,   /* rows of a block of the library's kernel */
    ATTENTION_FULL = 1024, /* blocks of a piece, for a few waves on a GPU */
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
 * 8, no dropout (whose random numbers would differ from parc's). */
static inline bool rt_attention_library(const ParcAttention *a)
{
    return a->type != PARC_F32 && a->drop <= 0 && a->d % 8 == 0 &&
           a->e % 8 == 0 && a->d <= 256 && a->e <= 256 && a->s > 1 && a->t > 1;
}

/* Bytes of the sum of dq for `kv` KV heads, f32 [heads, s, d]; 0 for a
 * deterministic backward pass. It is at the start of the library's
 * workspace. */
static inline int64_t rt_attention_sum_bytes(const ParcAttention *a, int64_t kv)
{
    int64_t bytes = kv * a->g * a->s * a->d * (int64_t)sizeof(float);
    return a->deterministic ? 0 : rt_attention_up(bytes, RT_CUDA_ALIGNMENT);
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

static inline int64_t rt_attention_divisor_below(int64_t n, int64_t most)
{
    int64_t d = most - 1;
    while (d > 0 && n % d)
        d--;
    return d;
}

/* The next smaller piece: fewer sequences, then fewer KV heads of one sequence.
 * All pieces of a call are equal. b is 0 after the smallest piece. */
static inline AttentionPiece rt_attention_smaller(const ParcAttention *a,
                                                  AttentionPiece p)
{
    if (p.b > 1)
        return (AttentionPiece){rt_attention_divisor_below(a->b, p.b), p.kv};
    int64_t kv = rt_attention_divisor_below(a->kv, p.kv);
    return (AttentionPiece){kv > 0, kv};
}

/* The largest piece whose workspace is at most `bytes`. b is 0 if no piece
 * fits. */
static inline AttentionPiece rt_attention_piece(const ParcAttention *a,
                                                int64_t bytes)
{
    AttentionPiece p = {a->b, a->kv};
    while (p.b > 0 && rt_attention_piece_bytes(a, p.b * p.kv) > bytes)
        p = rt_attention_smaller(a, p);
    return p;
}

/* Blocks of the library's main kernel for a piece. */
static inline int64_t rt_attention_blocks(const ParcAttention *a,
                                          AttentionPiece p)
{
    return p.b * p.kv * a->g * ((a->s + ATTENTION_TILE - 1) / ATTENTION_TILE);
}

/* The piece whose workspace is planned: the smallest that fills a GPU, or a
 * smaller one if that needs more than ATTENTION_MOST_WORKSPACE. */
static inline AttentionPiece rt_attention_planned_piece(const ParcAttention *a)
{
    AttentionPiece p = {a->b, a->kv}, next = rt_attention_smaller(a, p);
    while (next.b > 0 && (rt_attention_blocks(a, next) >= ATTENTION_FULL ||
                          rt_attention_piece_bytes(a, p.b * p.kv) >
                              ATTENTION_MOST_WORKSPACE)) {
        p = next;
        next = rt_attention_smaller(a, p);
    }
    return p;
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
    own = rt_attention_up(own, RT_CUDA_ALIGNMENT);
    if (!backward)
        return own + ATTENTION_OWN_WORKSPACE;
    AttentionPiece p = rt_attention_planned_piece(a);
    int64_t workspace = rt_attention_piece_bytes(a, p.b * p.kv);
    return own + (workspace <= ATTENTION_LIMIT_WORKSPACE ? workspace : 0);
}

#endif
