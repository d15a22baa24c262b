/* rt_attention_own.c: runs calls of attention on parc's own kernels
 * (attention.cuh, attention_grad.cuh). */
#include "common/bias.h"
#include "cuda/attention/rt_attention_plan.h"
#include "cuda/attention/rt_cudnn.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"
#include "rt.h"

enum { SHAPE = 26 };

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
    int64_t step[RT_BIAS_DIMS];
    rt_bias_steps(a, step);
    for (int i = 0; i < npointers; i++)
        argument[i] = rt_pointer_bits(pointer[i]);
    const int64_t own[SHAPE] = {
        a->b, a->s, a->t, a->kv, a->g, rt_float_bits(a->scale),
        rt_float_bits(a->drop), (int64_t)a->site, rt_pointer_bits(a->key),
        rt_pointer_bits(a->first_b), rt_pointer_bits(a->first_kv),
        rt_pointer_bits(a->first_g), a->groups, a->heads,
        a->window, rt_float_bits(a->softcap), rt_pointer_bits(a->query_segment),
        rt_pointer_bits(a->key_segment), rt_pointer_bits(a->bias), step[0], step[1],
        step[2], step[3], a->all_s, a->first_s, a->second_s};
    memcpy(shape, own, sizeof own);
    rt_attention_symbol(symbol, sizeof symbol, kernel, p);
    rt_cuda_launch(rt, symbol, grid, t->warps * PARC_WARP, p->shared[kernel],
                   npointers + SHAPE, argument);
}

/* The last arguments of launch(). */
#define POINTERS(...)                                                          \
    (int)(sizeof((const void *[]){__VA_ARGS__}) / sizeof(void *)),             \
        (const void *[]){__VA_ARGS__}

/* The number of blocks of one head that own its rows: all, or each piece of the queries. */
static int64_t blocks_of(const AttentionPlan *p, int kernel, int64_t rows, int64_t pieces)
{
    const AttentionTiles *t = &p->tiles[kernel];
    return rt_blocks(rows / pieces, t->rows * t->warps) * t->parts * pieces;
}

static int64_t pieces_of(const ParcAttention *a)
{
    return rt_attention_parts(a) && a->second_s ? 2 : 1;
}

/* `variant`: of the instance that has the kernel. */
static void launch_delta(ParcRt *rt, const ParcAttention *a, const char *variant,
                         const AttentionPlan *p, void *delta, const void *d_o, const void *o)
{
    int64_t heads = a->kv * a->g, rows = a->b * a->s * heads;
    char symbol[RT_SYMBOL];
    snprintf(symbol, sizeof symbol, "attention_delta%s_%s", variant, p->suffix);
    RT_CUDA_LAUNCH(rt, symbol, rt_blocks(rows, ATTENTION_DELTA_ROWS),
                   ATTENTION_DELTA_THREADS, 0, rt_pointer_bits(delta),
                   rt_pointer_bits(d_o), rt_pointer_bits(o), rows, a->s, heads);
}

void rt_attention_own(ParcRt *rt, const ParcAttention *a, bool backward,
                      const DnnCall *c)
{
    AttentionPlan p = plan_of(rt, a);
    void *const *at = c->at, *delta = c->scratch;
    int64_t heads = a->kv * a->g;
    if (!backward) {
        launch(rt, a, &p, ATTENTION_FORWARD,
               a->b * heads * blocks_of(&p, ATTENTION_FORWARD, a->s, pieces_of(a)),
               POINTERS(at[DNN_O], at[DNN_LSE], at[DNN_Q], at[DNN_K],
                        at[DNN_V]));
        return;
    }
    launch_delta(rt, a, "", &p, delta, at[DNN_DO], at[DNN_O]);
    launch(rt, a, &p, ATTENTION_QUERY,
           a->b * heads * blocks_of(&p, ATTENTION_QUERY, a->s, pieces_of(a)),
           POINTERS(at[DNN_DQ], at[DNN_DO], at[DNN_Q], at[DNN_K], at[DNN_V],
                    at[DNN_LSE], delta));
    launch(rt, a, &p, ATTENTION_KEY,
           a->b * a->kv * blocks_of(&p, ATTENTION_KEY, a->t, 1),
           POINTERS(at[DNN_DK], at[DNN_DV], at[DNN_DO], at[DNN_Q], at[DNN_K],
                    at[DNN_V], at[DNN_LSE], delta));
}

void rt_attention_own_bias(ParcRt *rt, const ParcAttention *a, float *dbias,
                           const DnnCall *c)
{
    void *const *at = c->at;
    AttentionPlan p = plan_of(rt, a);
    const AttentionTiles *t = &p.tiles[ATTENTION_BIAS];
    int64_t tiles = blocks_of(&p, ATTENTION_BIAS, a->s, pieces_of(a)) *
                    rt_blocks(a->t, t->step);
    int64_t step[RT_BIAS_DIMS];
    rt_bias_steps(a, step);
    int64_t b = step[0] ? a->b : 1, h = step[1] ? a->kv * a->g : 1;
    launch_delta(rt, a, "_bias", &p, c->scratch, at[DNN_DO], at[DNN_O]);
    launch(rt, a, &p, ATTENTION_BIAS, b * h * tiles,
           POINTERS(dbias, at[DNN_DO], at[DNN_Q], at[DNN_K], at[DNN_V], at[DNN_LSE],
                    c->scratch));
}
