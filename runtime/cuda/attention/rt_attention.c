/* rt_attention.c: launches parc's own attention kernels (attention.cuh,
 * attention_grad.cuh) for the forward and backward pass. */
#include "cuda/attention/rt_attention_kernels.h"
#include "cuda/attention/rt_attention_plan.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"
#include "rt.h"

enum { SHAPE = 13 };

static AttentionPlan plan_of(const ParcRt *rt, const ParcAttention *a)
{
    AttentionPlan p;
    rt_attention_plan(&p, a->type != PARC_F32, rt_float_name(a->type), a->d,
                      a->e, a->causal, a->drop > 0, rt_cuda_block_memory(rt));
    return p;
}

int64_t parc_attention_scratch(const ParcAttention *a, bool backward,
                               int threads)
{
    (void)threads;
    return backward ? rt_attention_delta_bytes(a->b, a->kv * a->g, a->s) : 0;
}

/* Launches a kernel of the plan. The arguments are the pointers, then those of
 * ATTENTION_ARGUMENTS. */
static void launch(ParcRt *rt, const ParcAttention *a, const AttentionPlan *p,
                   int kernel, int64_t grid, int npointers,
                   const void *const *pointer)
{
    const AttentionTiles *t = &p->tiles[kernel];
    int64_t argument[24] = {0}, *shape = argument + npointers;
    char symbol[RT_SYMBOL];
    for (int i = 0; i < npointers; i++)
        argument[i] = rt_pointer_bits(pointer[i]);
    const int64_t own[SHAPE] = {a->s,
                                a->t,
                                a->kv,
                                a->g,
                                rt_float_bits(a->scale),
                                rt_float_bits(a->drop),
                                (int64_t)a->site,
                                rt_pointer_bits(a->key),
                                rt_pointer_bits(a->first_b),
                                rt_pointer_bits(a->first_kv),
                                rt_pointer_bits(a->first_g),
                                a->groups,
                                a->heads};
    memcpy(shape, own, sizeof own);
    rt_attention_symbol(symbol, sizeof symbol, kernel, p);
    rt_cuda_launch(rt, symbol, grid, t->warps * 32, p->shared[kernel],
                   npointers + SHAPE, argument);
}

/* The number of blocks of one head. */
static int64_t blocks_of(const AttentionPlan *p, int kernel, int64_t rows)
{
    const AttentionTiles *t = &p->tiles[kernel];
    return rt_blocks(rows, t->rows * t->warps) * t->parts;
}

void rt_attention_kernels(ParcRt *rt, const ParcAttention *a, void *o,
                          float *lse, const void *q, const void *k,
                          const void *v, float *scratch)
{
    AttentionPlan p = plan_of(rt, a);
    int64_t heads = a->b * a->kv * a->g;
    (void)scratch;
    launch(rt, a, &p, ATTENTION_FORWARD,
           heads * blocks_of(&p, ATTENTION_FORWARD, a->s), 5,
           (const void *[]){o, lse, q, k, v});
}

void rt_attention_grad_kernels(ParcRt *rt, const ParcAttention *a, void *dq,
                               void *dk, void *dv, const void *d_o,
                               const void *q, const void *k, const void *v,
                               const void *o, const float *lse, float *scratch)
{
    AttentionPlan p = plan_of(rt, a);
    int64_t heads = a->kv * a->g, rows = a->b * a->s * heads;
    char symbol[RT_SYMBOL];
    snprintf(symbol, sizeof symbol, "attention_delta_%s", p.suffix);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(rows, ATTENTION_DELTA_ROWS),
                   ATTENTION_DELTA_THREADS, 0,
                   rt_pointer_bits(scratch), rt_pointer_bits(d_o),
                   rt_pointer_bits(o), rows, a->s, heads);
    launch(rt, a, &p, ATTENTION_QUERY,
           a->b * heads * blocks_of(&p, ATTENTION_QUERY, a->s), 7,
           (const void *[]){dq, d_o, q, k, v, lse, scratch});
    launch(rt, a, &p, ATTENTION_KEY,
           a->b * a->kv * blocks_of(&p, ATTENTION_KEY, a->t), 8,
           (const void *[]){dk, dv, d_o, q, k, v, lse, scratch});
}
