/* rt_attention.c: implements the attention functions that train.c calls
 * (parc_rt.h), on cuDNN (rt_cudnn.c) or parc's own kernels
 * (rt_attention_own.c).
 *
 * init announces the shapes of the calls (parc_attention_ready). As for matrix
 * products (rt_cuda_choose.c), rank 0 measures both once before the first step,
 * and all ranks follow its choice, because values that must be equal on several
 * ranks need equal kernels. The file of rt_cuda_cache.c saves the result. cuDNN
 * runs the call without a measurement if the arena is too small for one, or
 * with PARC_CUDNN=1.
 */
#include <stdio.h>
#include <string.h>

#include "common/json.h"
#include "cuda/attention/rt_attention_workspace.h"
#include "cuda/attention/rt_cudnn.h"
#include "cuda/core/rt_cuda_launch.h"
#include "launch/world.h"
#include "rt.h"

/* ---- measurement --------------------------------------------------------- */

/* A use, and a call of its shape with tensors in the arena. */
typedef struct Trial {
    const CudnnUse *use;
    DnnCall call;
} Trial;

static bool is_of(const CudnnUse *u, int tensor)
{
    bool number = tensor >= DNN_SCALE && tensor <= DNN_ONE;
    return u->backward ? !number && tensor != DNN_DELTA : tensor <= DNN_LSE;
}

/* Places a call's tensors in the arena. Returns their bytes; -1 if the arena
 * is too small. */
static int64_t lay_out(ParcRt *rt, const CudnnUse *u, DnnCall *c)
{
    int64_t bytes = 0;
    for (int i = 0; i < DNN_NAMED; i++)
        if (is_of(u, i)) {
            c->at[i] = rt_cuda_spare(rt) + bytes;
            bytes += rt_cuda_aligned(
                rt_cudnn_offset(&u->shape, i, u->shape.b, 0));
        }
    c->scratch = rt_cuda_spare(rt) + bytes;
    bytes += u->scratch_bytes;
    return bytes <= rt->device->spare_bytes ? bytes : -1;
}

enum { ON_LIBRARY, ON_OWN_KERNELS, IMPLEMENTATIONS };

static bool run_candidate(ParcRt *rt, const void *trial, int implementation)
{
    const Trial *t = trial;
    if (implementation == ON_LIBRARY)
        rt_cudnn_call(rt, t->use, &t->call);
    else
        rt_attention_own(rt, &t->use->shape, t->use->backward, &t->call);
    return true;
}

/* Whether the library is faster, or cannot be measured. */
static bool measure(ParcRt *rt, const CudnnUse *u)
{
    CudaTime time[CUDA_CANDIDATES];
    Trial trial = {.use = u};
    int64_t bytes = lay_out(rt, u, &trial.call);
    return bytes < 0 ||
           rt_cuda_fastest(rt, &(CudaTrial){"attention", IMPLEMENTATIONS, bytes,
                                            u->shape.type, run_candidate,
                                            &trial}, time) == ON_LIBRARY;
}

/* ---- choice -------------------------------------------------------------- */

static void write_key(const ParcRt *rt, const CudnnUse *u, char key[CUDA_KEY])
{
    const ParcAttention *a = &u->shape;
    snprintf(key, CUDA_KEY,
             "attention %s %s b %lld s %lld t %lld kv %lld g %lld d %lld e "
             "%lld%s%s workspace %lld cudnn %zu engine %lld fill "
             CUDA_FILLING,
             u->backward ? "backward" : "forward", rt_float_name(a->type),
             (long long)a->b, (long long)a->s, (long long)a->t,
             (long long)a->kv, (long long)a->g, (long long)a->d,
             (long long)a->e, a->causal ? " causal" : "",
             a->deterministic ? " deterministic" : "",
             (long long)u->scratch_bytes, rt->device->cudnn->version,
             (long long)rt_cudnn_plan_engine(u->plan));
}

static bool library_is_faster(ParcRt *rt, const CudnnUse *u)
{
    CudaCache *cache = rt->device->cache;
    BlasAlgorithm words;
    char key[CUDA_KEY];
    if (rt->device->cudnn->always)
        return true;
    write_key(rt, u, key);
    if (cache && rt_cuda_cache_find(cache, key, &words))
        return words.data[0] == 1;
    memset(&words, 0, sizeof words);
    words.data[0] = measure(rt, u);
    if (cache)
        rt_cuda_cache_add(cache, key, &words);
    return words.data[0] == 1;
}

static void forget(CudnnUse *u, const char *why)
{
    rt_cudnn_plan_free(u->plan);
    u->plan = NULL;
    snprintf(u->reason, sizeof u->reason, "%s", why);
}

/* Appends the implementation to the file of measurements. */
static void log_choice(ParcRt *rt, const CudnnUse *u)
{
    char text[CUDNN_TEXT];
    FILE *f = rt_cuda_times(rt);
    if (!f)
        return;
    rt_cudnn_text(rt->device->cudnn, u, text);
    fputs("{\"attention\": ", f);
    rt_json_print(f, text);
    fputs("}\n", f);
    fclose(f);
}

/* Keeps or frees u->plan, according to rank 0's measurement, on all ranks. */
static void choose(ParcRt *rt, CudnnUse *u)
{
    if (rt->rank == 0 && u->plan && !library_is_faster(rt, u))
        forget(u, "they are faster here");
    rt_cudnn_agree(rt, "attention", &u->plan, u->reason);
    if (rt->rank == 0)
        log_choice(rt, u);
}

void parc_attention_ready(ParcRt *rt, const ParcAttention *a, bool backward,
                          int64_t scratch_bytes)
{
    if (rt_attention_library(a) && !rt_cudnn_find(rt, a, backward))
        choose(rt, rt_cudnn_use(rt, a, backward, scratch_bytes));
}

/* ---- calls --------------------------------------------------------------- */

/* Removes const: a graph's table lists inputs and outputs. */
static void *address(const void *p)
{
    return (void *)(uintptr_t)p;
}

static void run(ParcRt *rt, const ParcAttention *a, bool backward,
                const DnnCall *c)
{
    const CudnnUse *u = rt_cudnn_find(rt, a, backward);
    if (u && rt_cudnn_takes(u, c))
        rt_cudnn_call(rt, u, c);
    else
        rt_attention_own(rt, a, backward, c);
}

void parc_attention(ParcRt *rt, const ParcAttention *a, void *o, float *lse,
                    const void *q, const void *k, const void *v, float *scratch)
{
    DnnCall c = {.at = {[DNN_Q] = address(q), [DNN_K] = address(k),
                        [DNN_V] = address(v), [DNN_O] = o, [DNN_LSE] = lse},
                 .scratch = (char *)scratch};
    run(rt, a, false, &c);
}

/* The operands of a gradient, without its results. */
static DnnCall backward_call(const void *d_o, const void *q, const void *k, const void *v,
                             const void *o, const float *lse, float *scratch)
{
    return (DnnCall){.at = {[DNN_Q] = address(q), [DNN_K] = address(k), [DNN_V] = address(v),
                            [DNN_O] = address(o), [DNN_LSE] = address(lse),
                            [DNN_DO] = address(d_o)},
                     .scratch = (char *)scratch};
}

void parc_attention_grad(ParcRt *rt, const ParcAttention *a, void *dq, void *dk,
                         void *dv, const void *d_o, const void *q,
                         const void *k, const void *v, const void *o,
                         const float *lse, float *scratch)
{
    DnnCall c = backward_call(d_o, q, k, v, o, lse, scratch);
    c.at[DNN_DQ] = dq;
    c.at[DNN_DK] = dk;
    c.at[DNN_DV] = dv;
    run(rt, a, true, &c);
}

void parc_attention_step(ParcRt *rt, const ParcAttention *a, float *o, float *lse,
                         const void *q, const void *k, const void *v, const float *o_before,
                         const float *lse_before, float *scratch)
{
    DnnCall c = {.at = {[DNN_Q] = address(q), [DNN_K] = address(k), [DNN_V] = address(v),
                        [DNN_O] = o, [DNN_LSE] = lse},
                 .scratch = (char *)scratch};
    rt_attention_own_step(rt, a, false, &c, o_before, lse_before);
}

void parc_attention_grad_step(ParcRt *rt, const ParcAttention *a, float *dq, float *dk,
                              float *dv, const void *d_o, const void *q, const void *k,
                              const void *v, const void *o_all, const float *lse_all,
                              const float *dq_before, float *scratch)
{
    DnnCall c = backward_call(d_o, q, k, v, o_all, lse_all, scratch);
    c.at[DNN_DQ] = dq;
    c.at[DNN_DK] = dk;
    c.at[DNN_DV] = dv;
    rt_attention_own_step(rt, a, true, &c, dq_before, NULL);
}

void parc_attention_bias_grad(ParcRt *rt, const ParcAttention *a, float *dbias,
                              const void *d_o, const void *q, const void *k,
                              const void *v, const void *o, const float *lse,
                              float *scratch)
{
    DnnCall c = backward_call(d_o, q, k, v, o, lse, scratch);
    rt_attention_own_bias(rt, a, dbias, &c);
}
