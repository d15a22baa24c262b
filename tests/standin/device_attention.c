/* device_attention.c: compares the device code of attention with the CPU's functions, and
 * counts what it computes for windows. */
#include <math.h>
#include <stdio.h>

#include "common/type.h"
#include "cuda/attention/rt_attention_workspace.h"
#include "cuda/attention/rt_cudnn.h"
#include "device_attention.h"
#include "device_cases.h"
#include "engine.h"
#include "rt.h"
#include "test_numbers.h"

typedef struct Tensors {
    void *q, *k, *v, *d_o, *o, *dq, *dk, *dv;
    float *lse, *scratch;
} Tensors;

static Tensors tensors(const ParcAttention *a, const Tensors *inputs)
{
    int64_t heads = a->kv * a->g, q = a->b * a->s * heads;
    int64_t k = a->b * a->t * a->kv;
    ParcType t = a->type;
    int64_t scratch = parc_attention_scratch(a, true, 1);
    int64_t more = parc_attention_scratch(a, false, 1);
    Tensors x = {
        .o = test_numbers(t, q * a->e, 0),
        .dq = test_numbers(t, q * a->d, 0),
        .dk = test_numbers(t, k * a->d, 0),
        .dv = test_numbers(t, k * a->e, 0),
        .lse = test_numbers(PARC_F32, q, 0),
        .scratch = standin_alloc(scratch > more ? scratch : more),
    };
    if (inputs) {
        x.q = inputs->q, x.k = inputs->k, x.v = inputs->v, x.d_o = inputs->d_o;
        return x;
    }
    x.q = test_numbers(t, q * a->d, 1), x.k = test_numbers(t, k * a->d, 2);
    x.v = test_numbers(t, k * a->e, 3), x.d_o = test_numbers(t, q * a->e, 4);
    return x;
}

static DnnCall call_of(const ParcAttention *a, const Tensors *x)
{
    return (DnnCall){.at = {[DNN_Q] = x->q, [DNN_K] = x->k, [DNN_V] = x->v, [DNN_O] = x->o,
                            [DNN_LSE] = x->lse, [DNN_DO] = x->d_o, [DNN_DQ] = x->dq,
                            [DNN_DK] = x->dk, [DNN_DV] = x->dv},
                     .scratch = standin_alloc(rt_attention_own_bytes(a, true))};
}

static ParcAttention attention_of(const AttentionCase *c, const int64_t *draws)
{
    ParcAttention a = {.b = c->b,
                       .s = c->s,
                       .t = c->t,
                       .kv = c->kv,
                       .g = c->g,
                       .d = c->d,
                       .e = c->e,
                       .causal = c->causal,
                       .scale = (c->negative ? -1.5f : 1.5f) / sqrtf((float)c->d),
                       .type = (ParcType)c->type,
                       .window = c->window,
                       .softcap = (float)c->softcap,
                       .all_s = all_queries(c),
                       .first_s = c->first_s,
                       .second_s = c->second_s};
    if (c->segments > 0) {
        int32_t *query = standin_alloc(c->b * c->s * (int64_t)sizeof *query);
        int32_t *key = standin_alloc(c->b * c->t * (int64_t)sizeof *key);
        for (int64_t i = 0; i < c->b * c->s; i++)
            query[i] = query_segment(c->segments, i / c->s, i % c->s);
        for (int64_t i = 0; i < c->b * c->t; i++)
            key[i] = key_segment(c->segments, i / c->t, i % c->t);
        a.segments = true;
        a.query_segment = query;
        a.key_segment = key;
    }
    if (c->bias) {
        const int64_t size[] = {c->b, c->kv * c->g, c->s, c->t};
        int64_t n = 1;
        for (int i = 0; i < 4; i++)
            n *= c->bias >> i & 1 ? size[i] : 1;
        float *bias = standin_alloc(n * (int64_t)sizeof *bias);
        for (int64_t i = 0; i < n; i++)
            bias[i] = bias_number(i);
        a.bias_dims = c->bias;
        a.bias = bias;
    }
    if (c->drop) {
        a.drop = 0.25f;
        a.site = 3;
        a.key = draws;
        a.first_b = draws + 1;
        a.first_kv = draws + 2;
        a.groups = c->g;
        a.heads = 3 * c->kv * c->g;
    }
    return a;
}

/* Compares the gradients of the bias. */
static void bias_grad(const Device *d, ParcRt *rt, const ParcAttention *a, const Tensors *cpu,
                      const DnnCall *call, const char *what)
{
    int64_t n = (a->bias_dims & 1 ? a->b : 1) * (a->bias_dims & 2 ? a->kv * a->g : 1) *
                a->s * a->t;
    float *is = test_numbers(PARC_F32, n, 0), *should = test_numbers(PARC_F32, n, 0);
    char text[200];
    parc_attention_bias_grad(rt, a, should, cpu->d_o, cpu->q, cpu->k, cpu->v, cpu->o,
                             cpu->lse, cpu->scratch);
    rt_attention_own_bias(rt, a, is, call);
    double off = test_distance(PARC_F32, is, should, n);
    snprintf(text, sizeof text, "%s: the bias's gradient is off by %g of its largest", what,
             off);
    d->check(off <= (a->type == PARC_F32 ? 8e-6 : a->type == PARC_F16 ? 0x1p-9 : 0x1p-6), text);
}

/* Compares attention on a device whose blocks may have `block_memory` bytes of
 * shared memory. */
static void attention(const Device *d, const AttentionCase *c, int64_t block_memory)
{
    int64_t *draws = standin_alloc(3 * sizeof *draws);
    draws[0] = 0x123456789abc, draws[1] = 2, draws[2] = c->kv;
    ParcAttention a = attention_of(c, draws);
    ParcRt rt = {.threads = 1};
    Tensors cpu = tensors(&a, NULL), x = tensors(&a, &cpu);
    char what[100];
    snprintf(what, sizeof what,
             "attention %d: type %d, %dx%d, d %d, e %d, %d KiB",
             (int)(c - attention_cases), c->type, (int)c->s, (int)c->t,
             (int)c->d, (int)c->e, (int)(block_memory >> 10));
    parc_attention(&rt, &a, cpu.o, cpu.lse, cpu.q, cpu.k, cpu.v, cpu.scratch);
    parc_attention_grad(&rt, &a, cpu.dq, cpu.dk, cpu.dv, cpu.d_o, cpu.q, cpu.k,
                        cpu.v, cpu.o, cpu.lse, cpu.scratch);
    *d->errors = 0;
    *d->block_memory = block_memory;
    DnnCall call = call_of(&a, &x);
    rt_attention_own(&rt, &a, false, &call);
    rt_attention_own(&rt, &a, true, &call);
    if (a.bias_dims >> 2 == 3)
        bias_grad(d, &rt, &a, &cpu, &call, what);
    d->check(*d->errors == 0, what);
    const void *const is[] = {x.o, x.lse, x.dq, x.dk, x.dv};
    const void *const should[] = {cpu.o, cpu.lse, cpu.dq, cpu.dk, cpu.dv};
    test_attention(d->check, what, &a, is, should);
}

/* ---- rings --------------------------------------------------------------- */

/* Results of a step in f32. */
typedef struct Sums {
    float *o, *lse, *dq, *dk, *dv;
} Sums;

static Sums sums_of(const ParcAttention *a)
{
    int64_t q = a->b * a->s * a->kv * a->g, k = a->b * a->t * a->kv;
    return (Sums){test_numbers(PARC_F32, q * a->e, 0), test_numbers(PARC_F32, q, 0),
                  test_numbers(PARC_F32, q * a->d, 0), test_numbers(PARC_F32, k * a->d, 0),
                  test_numbers(PARC_F32, k * a->e, 0)};
}

static void compare_sums(const Device *d, const ParcAttention *a, const Sums *is,
                         const Sums *should, const char *what)
{
    static const double rounded[] = {
        [PARC_F32] = 4e-6, [PARC_BF16] = 0x1p-7, [PARC_F16] = 0x1p-10};
    int64_t q = a->b * a->s * a->kv * a->g, k = a->b * a->t * a->kv;
    float *const x[] = {is->o, is->lse, is->dq, is->dk, is->dv};
    float *const y[] = {should->o, should->lse, should->dq, should->dk, should->dv};
    const int64_t n[] = {q * a->e, q, q * a->d, k * a->d, k * a->e};
    int differ = 0; /* in the queries that have seen no key */
    for (int64_t i = 0; i < q; i++)
        differ += (is->lse[i] <= -1e29f) != (should->lse[i] <= -1e29f);
    d->check(differ == 0, what);
    for (int i = 0; i < 5; i++) {
        float *own = test_numbers(PARC_F32, n[i], 0), *want = test_numbers(PARC_F32, n[i], 0);
        char text[200];
        for (int64_t j = 0; j < n[i]; j++) {
            own[j] = x[i][j] <= -1e29f ? 0 : x[i][j];
            want[j] = y[i][j] <= -1e29f ? 0 : y[i][j];
        }
        double off = test_distance(PARC_F32, own, want, n[i]);
        snprintf(text, sizeof text, "%s: result %d is off by %g of its largest", what, i, off);
        d->check(off <= rounded[a->type] * 2, text);
    }
}

/* Both targets read the CPU's o and lse in the backward pass. */
static void ring_step(const Device *d, ParcRt *rt, const ParcAttention *a, const Tensors *x,
                      const Sums *cpu, const Sums *gpu, bool first, const char *what)
{
    int64_t o = a->b * a->s * a->kv * a->g * a->e;
    void *typed = test_numbers(a->type, o, 0);
    DnnCall call = {.at = {[DNN_Q] = x->q, [DNN_K] = x->k, [DNN_V] = x->v, [DNN_O] = gpu->o,
                           [DNN_LSE] = gpu->lse, [DNN_DO] = x->d_o, [DNN_DQ] = gpu->dq,
                           [DNN_DK] = gpu->dk, [DNN_DV] = gpu->dv},
                    .scratch = standin_alloc(rt_attention_own_bytes(a, true))};
    *d->errors = 0;
    parc_attention_step(rt, a, cpu->o, cpu->lse, x->q, x->k, x->v, first ? NULL : cpu->o,
                        first ? NULL : cpu->lse, x->scratch);
    rt_attention_own_step(rt, a, false, &call, first ? NULL : gpu->o, first ? NULL : gpu->lse);
    rt_narrow(a->type, typed, cpu->o, o);
    parc_attention_grad_step(rt, a, cpu->dq, cpu->dk, cpu->dv, x->d_o, x->q, x->k, x->v, typed,
                             cpu->lse, first ? NULL : cpu->dq, x->scratch);
    call.at[DNN_O] = typed;
    call.at[DNN_LSE] = cpu->lse;
    rt_attention_own_step(rt, a, true, &call, first ? NULL : gpu->dq, NULL);
    d->check(*d->errors == 0, what);
    compare_sums(d, a, gpu, cpu, what);
}

static void ring(const Device *d, const RingCase *c, int64_t block_memory)
{
    int64_t *draws = standin_alloc(3 * sizeof *draws);
    int64_t *first_t = standin_alloc(4 * sizeof *first_t);
    draws[0] = 0x123456789abc, draws[1] = 2, draws[2] = c->of.kv;
    first_t[0] = c->first_t, first_t[1] = c->second_t;
    first_t[2] = c->of.first_s, first_t[3] = c->of.second_s;
    ParcAttention a = attention_of(&c->of, draws);
    ParcRt rt = {.threads = 1};
    a.all_t = 2 * a.t;
    a.key_pieces = c->second_t ? 2 : 1;
    a.first_t = first_t;
    Tensors x = tensors(&a, NULL);
    Sums cpu = sums_of(&a), gpu = sums_of(&a);
    char what[100];
    snprintf(what, sizeof what, "ring %d, %d KiB", (int)(c - ring_cases),
             (int)(block_memory >> 10));
    *d->block_memory = block_memory;
    ring_step(d, &rt, &a, &x, &cpu, &gpu, true, what);
    a.first_t = first_t + 2;
    ring_step(d, &rt, &a, &x, &cpu, &gpu, false, what);
}

void device_attention(const Device *d, int only)
{
    for (int i = 0; i < ATTENTION_CASES; i++) {
        if (only < 0 || i == only) {
            attention(d, &attention_cases[i], RT_SHARED_MAX);
            attention(d, &attention_cases[i], RT_SHARED_MIN);
        }
    }
    for (int i = 0; i < RING_CASES && only < 0; i++) {
        ring(d, &ring_cases[i], RT_SHARED_MAX);
        ring(d, &ring_cases[i], RT_SHARED_MIN);
    }
}

/* ---- windows ------------------------------------------------------------- */

/* The products on tensor cores of attention and its gradient with a window, the least that
 * they need, and the most that they may be: with a warp's tile at the edges of the window. */
typedef struct Work {
    int64_t is, least, most;
} Work;

static Work window_work(const Device *d, const AttentionCase *like, int64_t window)
{
    enum { SEQ = 1024, PRODUCT = 16 * 8 * 16 };
    static const int products[] = {
        [ATTENTION_FORWARD] = 2, [ATTENTION_QUERY] = 3, [ATTENTION_KEY] = 4};
    AttentionCase c = *like;
    ParcRt rt = {.threads = 1};
    AttentionPlan plan;
    c.s = c.t = SEQ;
    c.window = window;
    ParcAttention a = attention_of(&c, NULL);
    Tensors x = tensors(&a, NULL);
    DnnCall call = call_of(&a, &x);
    Work w = {.is = -standin_products()};
    rt_attention_own(&rt, &a, false, &call);
    rt_attention_own(&rt, &a, true, &call);
    w.is += standin_products();
    rt_attention_plan(&plan, &a, "bf16", *d->block_memory);
    for (int i = 0; i < ATTENTION_BIAS; i++) {
        const AttentionTiles *t = &plan.tiles[i];
        w.least += products[i] * window * (2 * SEQ - window) / (2 * SEQ);
        w.most += products[i] * (window + t->rows + t->step);
    }
    w.least *= a.b * a.kv * a.g * SEQ * a.d / PRODUCT;
    w.most *= a.b * a.kv * a.g * SEQ * a.d / PRODUCT;
    return w;
}

void device_windows(const Device *d)
{
    enum { NARROW = 64, WIDE = NARROW + 192 }; /* 192: a multiple of all steps */
    const AttentionCase *like = attention_cases, *end = like + ATTENTION_CASES;
    char what[150];
    while (like < end &&
           (like->type != PARC_BF16 || like->d != 64 || like->e != 64 || !like->causal ||
            !like->window || like->drop || like->segments || like->bias || like->softcap > 0))
        like++;
    d->check(like < end, "a case with a window");
    if (like == end)
        return;
    *d->errors = 0;
    *d->block_memory = RT_SHARED_MAX;
    Work narrow = window_work(d, like, NARROW), wide = window_work(d, like, WIDE);
    snprintf(what, sizeof what,
             "windows of %d and %d need %lld and %lld products, at most %lld and %lld", NARROW,
             WIDE, (long long)narrow.is, (long long)wide.is, (long long)narrow.most,
             (long long)wide.most);
    d->check(*d->errors == 0, "windows");
    d->check(narrow.is >= narrow.least && wide.is >= wide.least &&
                 narrow.is <= narrow.most && wide.is <= wide.most &&
                 wide.is - narrow.is <= wide.most - narrow.most, what);
}
