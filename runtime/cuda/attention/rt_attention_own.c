/* rt_attention_own.c: runs calls of attention on parc's own kernels
 * (attention.cuh, attention_grad.cuh). */
#include "common/bias.h"
#include "common/type.h"
#include "cuda/attention/rt_attention_plan.h"
#include "cuda/attention/rt_cudnn.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"
#include "rt.h"

enum { SHAPE = 31 };

/* Of a step of a ring: which piece of the keys, and what it adds to. */
typedef struct StepOf {
    int64_t t_row; /* keys of a sequence in memory */
    const int64_t *first_t;
    const float *before, *lse_before;
} StepOf;

static StepOf no_step(const ParcAttention *a)
{
    return (StepOf){a->t, NULL, NULL, NULL};
}

static AttentionPlan plan_of(const ParcRt *rt, const ParcAttention *a)
{
    AttentionPlan p;
    rt_attention_plan(&p, a, rt_float_name(a->type), rt_cuda_block_memory(rt));
    return p;
}

/* Launches a kernel of the plan. The arguments are the pointers, then those of
 * ATTENTION_ARGUMENTS. */
static void launch(ParcRt *rt, const ParcAttention *a, const StepOf *of,
                   const AttentionPlan *p, int kernel, int64_t grid, int npointers,
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
        step[2], step[3], a->all_s, a->first_s, a->second_s, of->t_row, a->all_t,
        rt_pointer_bits(of->first_t), rt_pointer_bits(of->before),
        rt_pointer_bits(of->lse_before)};
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

static void forward(ParcRt *rt, const ParcAttention *a, const StepOf *of, const AttentionPlan *p,
                    const DnnCall *c)
{
    void *const *at = c->at;
    launch(rt, a, of, p, ATTENTION_FORWARD,
           a->b * a->kv * a->g * blocks_of(p, ATTENTION_FORWARD, a->s, pieces_of(a)),
           POINTERS(at[DNN_O], at[DNN_LSE], at[DNN_Q], at[DNN_K], at[DNN_V]));
}

/* After launch_delta. */
static void backward(ParcRt *rt, const ParcAttention *a, const StepOf *of,
                     const AttentionPlan *p, const DnnCall *c)
{
    void *const *at = c->at, *delta = c->scratch;
    launch(rt, a, of, p, ATTENTION_QUERY,
           a->b * a->kv * a->g * blocks_of(p, ATTENTION_QUERY, a->s, pieces_of(a)),
           POINTERS(at[DNN_DQ], at[DNN_DO], at[DNN_Q], at[DNN_K], at[DNN_V],
                    at[DNN_LSE], delta));
    launch(rt, a, of, p, ATTENTION_KEY,
           a->b * a->kv * blocks_of(p, ATTENTION_KEY, a->t, 1),
           POINTERS(at[DNN_DK], at[DNN_DV], at[DNN_DO], at[DNN_Q], at[DNN_K],
                    at[DNN_V], at[DNN_LSE], delta));
}

void rt_attention_own(ParcRt *rt, const ParcAttention *a, bool is_backward,
                      const DnnCall *c)
{
    AttentionPlan p = plan_of(rt, a);
    StepOf none = no_step(a);
    if (is_backward)
        launch_delta(rt, a, "", &p, c->scratch, c->at[DNN_DO], c->at[DNN_O]);
    if (is_backward)
        backward(rt, a, &none, &p, c);
    else
        forward(rt, a, &none, &p, c);
}

static void *moved(void *at, int64_t elements, int64_t size)
{
    return (char *)at + elements * size;
}

/* Keys of two pieces are two calls, of which the second one continues the first. */
void rt_attention_own_step(ParcRt *rt, const ParcAttention *a, bool is_backward,
                           const DnnCall *c, const float *before, const float *lse_before)
{
    AttentionPlan p = plan_of(rt, a);
    int64_t n = a->t / a->key_pieces, size = rt_type_size(a->type), f32 = sizeof(float);
    if (is_backward)
        launch_delta(rt, a, "", &p, c->scratch, c->at[DNN_DO], c->at[DNN_O]);
    for (int64_t i = 0; i < a->key_pieces; i++) {
        ParcAttention piece = *a;
        DnnCall call = *c;
        StepOf of = {a->t, a->first_t + i, before, lse_before};
        int64_t k = i * n * a->kv * a->d, v = i * n * a->kv * a->e;
        piece.t = n;
        piece.key_segment = a->segments ? a->key_segment + i * n : NULL;
        call.at[DNN_K] = moved(c->at[DNN_K], k, size);
        call.at[DNN_V] = moved(c->at[DNN_V], v, size);
        if (is_backward) {
            call.at[DNN_DK] = moved(c->at[DNN_DK], k, f32);
            call.at[DNN_DV] = moved(c->at[DNN_DV], v, f32);
            backward(rt, &piece, &of, &p, &call);
            before = c->at[DNN_DQ];
        } else {
            forward(rt, &piece, &of, &p, &call);
            before = c->at[DNN_O];
            lse_before = c->at[DNN_LSE];
        }
    }
}

void rt_attention_own_bias(ParcRt *rt, const ParcAttention *a, float *dbias,
                           const DnnCall *c)
{
    void *const *at = c->at;
    AttentionPlan p = plan_of(rt, a);
    StepOf none = no_step(a);
    const AttentionTiles *t = &p.tiles[ATTENTION_BIAS];
    int64_t tiles = blocks_of(&p, ATTENTION_BIAS, a->s, pieces_of(a)) *
                    rt_blocks(a->t, t->step);
    int64_t step[RT_BIAS_DIMS];
    rt_bias_steps(a, step);
    int64_t b = step[0] ? a->b : 1, h = step[1] ? a->kv * a->g : 1;
    launch_delta(rt, a, "_bias", &p, c->scratch, at[DNN_DO], at[DNN_O]);
    launch(rt, a, &none, &p, ATTENTION_BIAS, b * h * tiles,
           POINTERS(dbias, at[DNN_DO], at[DNN_Q], at[DNN_K], at[DNN_V], at[DNN_LSE],
                    c->scratch));
}
