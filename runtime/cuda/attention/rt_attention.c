/* rt_attention.c: implements the attention functions that train.c calls
 * (parc_rt.h). A call runs on cuDNN or on parc's own kernels (attention.cuh,
 * attention_grad.cuh), as init has chosen for its shape
 * (parc_attention_ready). */
#include "cuda/attention/rt_attention_workspace.h"
#include "cuda/attention/rt_cudnn.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"
#include "rt.h"

/* ---- parc's own kernels -------------------------------------------------- */

enum { SHAPE = 13 };

static AttentionPlan plan_of(const ParcRt *rt, const ParcAttention *a)
{
    AttentionPlan p;
    rt_attention_plan(&p, a->type != PARC_F32, rt_float_name(a->type), a->d,
                      a->e, a->causal, a->drop > 0, rt_cuda_block_memory(rt));
    return p;
}

/* Launches a kernel of the plan. The arguments are the pointers, then those of
 * ATTENTION_ARGUMENTS. */
static void launch(ParcRt *rt, const ParcAttention *a, const AttentionPlan *p,
                   int kernel, int64_t grid, int npointers,
                   const void *const *pointer)
{
    const AttentionTiles *t = &p->tiles[kernel];
    int64_t argument[RT_MOST_ARGUMENTS] = {0}, *shape = argument + npointers;
    char symbol[RT_SYMBOL];
    for (int i = 0; i < npointers; i++)
        argument[i] = rt_pointer_bits(pointer[i]);
    const int64_t own[SHAPE] = {
        a->s, a->t, a->kv, a->g, rt_float_bits(a->scale),
        rt_float_bits(a->drop), (int64_t)a->site, rt_pointer_bits(a->key),
        rt_pointer_bits(a->first_b), rt_pointer_bits(a->first_kv),
        rt_pointer_bits(a->first_g), a->groups, a->heads};
    memcpy(shape, own, sizeof own);
    rt_attention_symbol(symbol, sizeof symbol, kernel, p);
    rt_cuda_launch(rt, symbol, grid, t->warps * PARC_WARP, p->shared[kernel],
                   npointers + SHAPE, argument);
}

/* The last arguments of launch(). */
#define POINTERS(...)                                                          \
    (int)(sizeof((const void *[]){__VA_ARGS__}) / sizeof(void *)),             \
        (const void *[]){__VA_ARGS__}

/* The number of blocks of one head. */
static int64_t blocks_of(const AttentionPlan *p, int kernel, int64_t rows)
{
    const AttentionTiles *t = &p->tiles[kernel];
    return rt_blocks(rows, t->rows * t->warps) * t->parts;
}

static void attention(ParcRt *rt, const ParcAttention *a, void *o, float *lse,
                      const void *q, const void *k, const void *v)
{
    AttentionPlan p = plan_of(rt, a);
    int64_t heads = a->b * a->kv * a->g;
    launch(rt, a, &p, ATTENTION_FORWARD,
           heads * blocks_of(&p, ATTENTION_FORWARD, a->s),
           POINTERS(o, lse, q, k, v));
}

static void attention_grad(ParcRt *rt, const ParcAttention *a, void *dq,
                           void *dk, void *dv, const void *d_o, const void *q,
                           const void *k, const void *v, const void *o,
                           const float *lse, float *scratch)
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
           a->b * heads * blocks_of(&p, ATTENTION_QUERY, a->s),
           POINTERS(dq, d_o, q, k, v, lse, scratch));
    launch(rt, a, &p, ATTENTION_KEY,
           a->b * a->kv * blocks_of(&p, ATTENTION_KEY, a->t),
           POINTERS(dk, dv, d_o, q, k, v, lse, scratch));
}

/* ---- calls --------------------------------------------------------------- */

/* Removes const: a graph's table lists inputs and outputs. */
static void *address(const void *p)
{
    return (void *)(uintptr_t)p;
}

void rt_cudnn_own(ParcRt *rt, const CudnnUse *u, const DnnCall *c)
{
    void *const *at = c->at;
    if (u->backward)
        attention_grad(rt, &u->shape, at[DNN_DQ], at[DNN_DK], at[DNN_DV],
                       at[DNN_DO], at[DNN_Q], at[DNN_K], at[DNN_V], at[DNN_O],
                       at[DNN_LSE], (float *)(void *)c->scratch);
    else
        attention(rt, &u->shape, at[DNN_O], at[DNN_LSE], at[DNN_Q], at[DNN_K],
                  at[DNN_V]);
}

void parc_attention_ready(ParcRt *rt, const ParcAttention *a, bool backward,
                          int64_t scratch_bytes)
{
    if (rt_attention_library(a) && !rt_cudnn_find(rt, a, backward))
        rt_cudnn_choose(rt, rt_cudnn_use(rt, a, backward, scratch_bytes));
}

void parc_attention(ParcRt *rt, const ParcAttention *a, void *o, float *lse,
                    const void *q, const void *k, const void *v, float *scratch)
{
    const CudnnUse *u = rt_cudnn_find(rt, a, false);
    DnnCall c = {.at = {[DNN_Q] = address(q), [DNN_K] = address(k),
                        [DNN_V] = address(v), [DNN_O] = o, [DNN_LSE] = lse},
                 .scratch = (char *)scratch};
    if (u && rt_cudnn_takes(u, &c))
        rt_cudnn_call(rt, u, &c);
    else
        attention(rt, a, o, lse, q, k, v);
}

void parc_attention_grad(ParcRt *rt, const ParcAttention *a, void *dq, void *dk,
                         void *dv, const void *d_o, const void *q,
                         const void *k, const void *v, const void *o,
                         const float *lse, float *scratch)
{
    const CudnnUse *u = rt_cudnn_find(rt, a, true);
    DnnCall c = {.at = {[DNN_Q] = address(q), [DNN_K] = address(k),
                        [DNN_V] = address(v), [DNN_O] = address(o),
                        [DNN_LSE] = address(lse), [DNN_DO] = address(d_o),
                        [DNN_DQ] = dq, [DNN_DK] = dk, [DNN_DV] = dv},
                 .scratch = (char *)scratch};
    if (u && rt_cudnn_takes(u, &c))
        rt_cudnn_call(rt, u, &c);
    else
        attention_grad(rt, a, dq, dk, dv, d_o, q, k, v, o, lse, scratch);
}
