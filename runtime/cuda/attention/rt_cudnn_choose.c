/* rt_cudnn_choose.c: chooses between cuDNN and parc's own kernels for
 * attention.
 *
 * As for matrix products (rt_cuda_choose.c), rank 0 measures both once before
 * the first step, and all ranks follow its choice, because values that must be
 * equal on several ranks need equal kernels. The file of rt_cuda_cache.c saves
 * the result. cuDNN runs the call without a measurement if the arena is too
 * small for one, or with PARC_CUDNN=1.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cuda/attention/rt_cudnn.h"
#include "cuda/core/rt_cuda_cache.h"
#include "launch/world.h"
#include "rt.h"

enum { RUNS = 2, ROUNDS = 3 };

/* Rank 0's choice, which it sends to the others. */
typedef struct Decision {
    int64_t library, version, engine;
} Decision;

/* ---- measurement --------------------------------------------------------- */

static int64_t bytes_of(const ParcAttention *a, int tensor)
{
    int64_t queries = a->b * a->s * a->kv * a->g, keys = a->b * a->t * a->kv;
    switch (tensor) {
    case DNN_Q:
    case DNN_DQ: return queries * a->d * 2;
    case DNN_K:
    case DNN_DK: return keys * a->d * 2;
    case DNN_O:
    case DNN_DO: return queries * a->e * 2;
    case DNN_V:
    case DNN_DV: return keys * a->e * 2;
    case DNN_LSE: return queries * 4;
    }
    return 0;
}

static bool is_of(const CudnnUse *u, int tensor)
{
    return bytes_of(&u->shape, tensor) > 0 &&
           (u->backward || tensor <= DNN_LSE);
}

/* Places a call's tensors in the arena. Returns their bytes; -1 if the arena
 * is too small. */
static int64_t lay_out(ParcRt *rt, const CudnnUse *u, DnnCall *c)
{
    int64_t bytes = 0;
    memset(c, 0, sizeof *c);
    for (int i = 0; i < DNN_NAMED; i++)
        if (is_of(u, i)) {
            c->at[i] = parc_arena(rt) + bytes;
            bytes += rt_cuda_aligned(bytes_of(&u->shape, i));
        }
    c->scratch = parc_arena(rt) + bytes;
    bytes += u->scratch_bytes;
    return bytes <= rt->model->arena_bytes ? bytes : -1;
}

static float time_of(ParcRt *rt, const CudnnUse *u, const DnnCall *c,
                     bool library)
{
    rt_cuda_time_begin(rt);
    for (int i = 0; i < RUNS; i++)
        if (library)
            rt_cudnn_call(rt, u, c);
        else
            rt_attention_own(rt, &u->shape, u->backward, c);
    return rt_cuda_time_end(rt, "attention") / RUNS;
}

/* Whether the library is faster, or cannot be measured. After a first run of
 * each, the two are measured alternately, at the same clock rate. */
static bool measure(ParcRt *rt, const CudnnUse *u)
{
    DnnCall c;
    int64_t bytes = lay_out(rt, u, &c);
    if (bytes < 0)
        return true;
    rt_cuda_fill_random(rt, bytes, u->shape.type);
    float least[2] = {INFINITY, INFINITY};
    for (int round = -1; round < ROUNDS; round++)
        for (int library = 0; library < 2; library++) {
            float ms = time_of(rt, u, &c, library);
            least[library] =
                round >= 0 && ms < least[library] ? ms : least[library];
        }
    rt_cuda_fill_zeros(rt, bytes);
    return least[1] <= least[0];
}

/* ---- choice -------------------------------------------------------------- */

static void write_key(const ParcRt *rt, const CudnnUse *u, char key[CUDA_KEY])
{
    const ParcAttention *a = &u->shape;
    snprintf(key, CUDA_KEY,
             "attention %s %s b %lld s %lld t %lld kv %lld g %lld d %lld e "
             "%lld%s%s workspace %lld cudnn %zu engine %lld fill "
             CUDA_FILLING,
             u->backward ? "backward" : "forward",
             a->type == PARC_BF16 ? "bf16" : "f16", (long long)a->b,
             (long long)a->s, (long long)a->t, (long long)a->kv,
             (long long)a->g, (long long)a->d, (long long)a->e,
             a->causal ? " causal" : "",
             a->deterministic ? " deterministic" : "", (long long)u->scratch_bytes,
             rt->device->cudnn->version,
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

/* Applies rank 0's choice on this rank. */
static void apply_decision(ParcRt *rt, CudnnUse *u, const Decision *d)
{
    const Cudnn *x = rt->device->cudnn;
    if (!d->library) {
        if (u->plan)
            forget(u, "as rank 0");
        return;
    }
    int64_t engine = u->plan ? rt_cudnn_plan_engine(u->plan) : -1;
    if ((int64_t)x->version != d->version || engine != d->engine) {
        char other[64];
        snprintf(other, sizeof other, "cuDNN %zu takes engine %lld", x->version,
                 (long long)engine);
        rt_fail(rt,
                "rank %d: attention runs on cuDNN %lld's engine %lld on rank "
                "0, and cannot here (%s): equal values come from equal kernels. "
                "Install the same cuDNN everywhere, or set PARC_CUDNN=0",
                rt->rank, (long long)d->version, (long long)d->engine,
                u->plan ? other : u->reason);
    }
}

/* Appends the implementation to the file of measurements. */
static void log_choice(ParcRt *rt, const CudnnUse *u)
{
    char text[CUDNN_TEXT];
    FILE *f = rt_cuda_times(rt);
    if (!f)
        return;
    rt_cudnn_text(rt->device->cudnn, u, text);
    for (char *p = text; *p; p++) /* no character that JSON escapes */
        *p = *p == '"' || *p == '\\' ? '\'' : *p < ' ' ? ' ' : *p;
    fprintf(f, "{\"attention\": \"%s\"}\n", text);
    fclose(f);
}

void rt_cudnn_choose(ParcRt *rt, CudnnUse *u)
{
    Decision d = {0, 0, 0};
    if (rt->rank == 0 && u->plan) {
        d = (Decision){library_is_faster(rt, u),
                       (int64_t)rt->device->cudnn->version,
                       rt_cudnn_plan_engine(u->plan)};
        if (!d.library)
            forget(u, "they are faster here");
    }
    rt_share(rt, RT_AT_MATMULS, &d, sizeof d);
    if (rt->rank == 0)
        log_choice(rt, u);
    else
        apply_decision(rt, u, &d);
}
