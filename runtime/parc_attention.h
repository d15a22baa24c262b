/* parc_attention.h: attention, and its gradients.
 */
#ifndef PARC_ATTENTION_H
#define PARC_ATTENTION_H

#include "parc_rt.h"

/* Attention that does not store the scores. q [b, s, kv*g, d], k [b, t, kv,
 * d], v [b, t, kv, e] -> o [b, s, kv*g, e], lse [b, kv*g, s]. All are
 * contiguous and of one type, except lse, which is f32. `scratch` is workspace
 * in the arena: parc_attention_scratch bytes. */
typedef struct ParcAttention {
    int64_t b, s, t, kv, g, d, e;
    bool causal;
    bool deterministic; /* CUDA, backward: the terms of dq are added in a fixed order */
    float scale;
    ParcType type;
    /* Dropout of the weights with probability `drop` (0: none). A weight's
     * random number depends on key, site and the weight's index in the global
     * tensor: this rank's sequences begin at *first_b, its query heads (of
     * `heads`) at *first_kv * groups + *first_g. The pointers are into the
     * arena; NULL means 0. */
    float drop;
    uint32_t site;
    const int64_t *key, *first_b, *first_kv, *first_g;
    int64_t groups, heads;
    int64_t window; /* query i attends to keys j with |i - j| < window; 0: to all */
    float softcap;  /* scores x become softcap tanh(x / softcap); 0: they do not */
    bool segments; /* a query attends to the keys with its number; result 0 if none */
    const int32_t *query_segment, *key_segment; /* [b, s], [b, t] */
    int bias_dims; /* dims of bias: bits 0 to 3 for b, heads, s, t; 0: none */
    const float *bias; /* is added to the scores; where the sum is below -1e30, a query
                          does not attend to the key */
    /* This rank's queries are some of all_s (0: they are all): from first_s on, or if
     * second_s is not 0, the first half from first_s and the other half from second_s. */
    int64_t all_s, first_s, second_s;
    /* A step of a ring: the keys here are some of all_t (0: they are all, from 0 on). They are
     * key_pieces runs of equal length, which begin at first_t[0], first_t[1]. */
    int64_t all_t, key_pieces;
    const int64_t *first_t;
} ParcAttention;
int64_t parc_attention_scratch(const ParcAttention *a, bool backward,
                               int threads);
/* CUDA: init announces the calls before the first one, with the scratch that
 * they get, because the choice between implementations takes measurements. */
void parc_attention_ready(ParcRt *rt, const ParcAttention *a, bool backward,
                          int64_t scratch_bytes);
void parc_attention(ParcRt *rt, const ParcAttention *a, void *o, float *lse,
                    const void *q, const void *k, const void *v,
                    float *scratch);
void parc_attention_grad(ParcRt *rt, const ParcAttention *a, void *dq, void *dk,
                         void *dv, const void *d_o, const void *q,
                         const void *k, const void *v, const void *o,
                         const float *lse, float *scratch);
/* Steps of a ring. o, lse and dq are those of the keys of all steps so far, of which the steps
 * before have made o_before, lse_before and dq_before; NULL: this one is the first. They may
 * be the same memory. dk and dv are those of this step. o, dq, dk and dv are f32. lse is -1e30
 * for a query that has seen no key. o_all and lse_all are those of all steps. */
void parc_attention_step(ParcRt *rt, const ParcAttention *a, float *o, float *lse,
                         const void *q, const void *k, const void *v, const float *o_before,
                         const float *lse_before, float *scratch);
void parc_attention_grad_step(ParcRt *rt, const ParcAttention *a, float *dq, float *dk,
                              float *dv, const void *d_o, const void *q, const void *k,
                              const void *v, const void *o_all, const float *lse_all,
                              const float *dq_before, float *scratch);
/* The gradient of the bias, which has the dims s and t; same scratch. */
void parc_attention_bias_grad(ParcRt *rt, const ParcAttention *a, float *dbias,
                              const void *d_o, const void *q, const void *k,
                              const void *v, const void *o, const float *lse,
                              float *scratch);

#endif
