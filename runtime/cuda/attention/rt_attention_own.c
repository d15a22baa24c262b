/* rt_attention_own.c: runs calls of attention on parc's own kernels
 * (attention.cuh, attention_grad.cuh). */
#include "cuda/attention/rt_attention_plan.h"
#include "cuda/attention/rt_cudnn.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"
#include "rt.h"

enum { SHAPE = 17 };

static AttentionPlan plan_of(const ParcRt *rt, const ParcAttention *a)
{
    AttentionPlan p;
    rt_attention_plan(&p, a, rt_float_name(a->type), rt_cuda_block_memory(rt));
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
        rt_pointer_bits(a->first_g), a->groups, a->heads,
        a->window, rt_float_bits(a->softcap), rt_pointer_bits(a->query_segment),
        rt_pointer_bits(a->key_segment)};
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

void rt_attention_own(ParcRt *rt, const ParcAttention *a, bool backward,
                      const DnnCall *c)
{
    AttentionPlan p = plan_of(rt, a);
    void *const *at = c->at, *delta = c->scratch;
    int64_t heads = a->kv * a->g, rows = a->b * a->s * heads;
    char symbol[RT_SYMBOL];
    if (!backward) {
        launch(rt, a, &p, ATTENTION_FORWARD,
               a->b * heads * blocks_of(&p, ATTENTION_FORWARD, a->s),
               POINTERS(at[DNN_O], at[DNN_LSE], at[DNN_Q], at[DNN_K],
                        at[DNN_V]));
        return;
    }
    snprintf(symbol, sizeof symbol, "attention_delta_%s", p.suffix);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(rows, ATTENTION_DELTA_ROWS),
                   ATTENTION_DELTA_THREADS, 0, rt_pointer_bits(delta),
                   rt_pointer_bits(at[DNN_DO]), rt_pointer_bits(at[DNN_O]),
                   rows, a->s, heads);
    launch(rt, a, &p, ATTENTION_QUERY,
           a->b * heads * blocks_of(&p, ATTENTION_QUERY, a->s),
           POINTERS(at[DNN_DQ], at[DNN_DO], at[DNN_Q], at[DNN_K], at[DNN_V],
                    at[DNN_LSE], delta));
    launch(rt, a, &p, ATTENTION_KEY,
           a->b * a->kv * blocks_of(&p, ATTENTION_KEY, a->t),
           POINTERS(at[DNN_DK], at[DNN_DV], at[DNN_DO], at[DNN_Q], at[DNN_K],
                    at[DNN_V], at[DNN_LSE], delta));
}
