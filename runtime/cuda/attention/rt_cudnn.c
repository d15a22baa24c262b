/* rt_cudnn.c: runs attention on cuDNN, if it is available.
 *
 * init announces the calls; the first call that cuDNN could run opens the
 * library. Failures are not errors until a plan has been chosen: if the
 * library is missing, too old or has no engine, parc's own kernels run the
 * calls.
 *
 * A plan is a graph that cuDNN has compiled for one of its engines. It runs one
 * piece of a call, some of its sequences or heads (rt_attention_workspace.h).
 * The pieces of a call are consecutive parts of the same tensors and run one
 * after another.
 */
#include "cuda/attention/rt_cudnn.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "cuda/attention/rt_attention_workspace.h"
#include "launch/world.h"
#include "rt.h"

/* The last version that computes wrong gradients of keys of any number. */
enum { LAST_THAT_PADS_WRONG = 91500 };

/* ---- plans --------------------------------------------------------------- */

static int64_t workspace_of(const CudnnUse *u)
{
    int64_t own = rt_attention_own_bytes(&u->shape, u->backward);
    return u->scratch_bytes - rt_cuda_aligned(own);
}

/* Bytes of a piece's sum of dq, at the start of the library's workspace. */
static int64_t sum_bytes_of(const CudnnUse *u)
{
    int64_t heads = u->piece_b * u->piece_kv;
    return u->backward ? rt_attention_sum_bytes(&u->shape, heads) : 0;
}

/* The limit of a piece's workspace: as planned, or less with
 * PARC_ATTENTION_MIB, for measurements of smaller pieces. */
static int64_t piece_limit(const CudnnUse *u)
{
    const char *text = rt_variable("PARC_ATTENTION_MIB");
    int64_t most = text ? strtoll(text, NULL, 10) << 20 : INT64_MAX;
    int64_t one = rt_attention_piece_bytes(&u->shape, 1),
            workspace = workspace_of(u);
    most = most < one ? one : most;
    return workspace < most ? workspace : most;
}

/* A known error of a version; NULL: none. */
static const char *known_fault(const Cudnn *x, const CudnnUse *u)
{
    if (u->backward && x->version <= LAST_THAT_PADS_WRONG &&
        u->shape.t % ATTENTION_ENGINE_ROWS)
        return "this version's gradients are wrong unless the keys are a "
               "multiple of 128";
    return NULL;
}

/* Sets u->plan, or u->reason if there is no plan. */
static void make_plan(const Cudnn *x, CudnnUse *u)
{
    const char *fault = x->handle ? known_fault(x, u) : x->reason;
    AttentionPiece p = {u->shape.b, u->shape.kv};
    DnnGraph g;
    if (u->backward)
        p = rt_attention_piece(&u->shape, piece_limit(u));
    u->piece_b = p.b;
    u->piece_kv = p.kv;
    if (!fault && p.b == 0)
        fault = "the plan has no workspace for it";
    if (fault) {
        snprintf(u->reason, sizeof u->reason, "%.*s", DNN_REASON - 1, fault);
        return;
    }
    rt_cudnn_attention_graph(&g, &u->shape, p.b, p.kv, u->backward);
    u->plan = rt_cudnn_plan(&x->context, &g, workspace_of(u) - sum_bytes_of(u),
                            u->reason);
    if (u->plan && !rt_cudnn_takes(u, &(DnnCall){{0}, NULL})) {
        rt_cudnn_plan_free(u->plan);
        u->plan = NULL;
        snprintf(u->reason, sizeof u->reason,
                 "pieces would not begin at multiples of 16 bytes");
    }
}

/* ---- calls --------------------------------------------------------------- */

static bool same_shape(const ParcAttention *a, const ParcAttention *b)
{
    return a->b == b->b && a->s == b->s && a->t == b->t && a->kv == b->kv &&
           a->g == b->g && a->d == b->d && a->e == b->e &&
           a->causal == b->causal && a->deterministic == b->deterministic &&
           a->type == b->type &&
           memcmp(&a->scale, &b->scale, sizeof a->scale) == 0 &&
           a->drop <= 0 && b->drop <= 0 && a->window == b->window &&
           a->softcap <= 0 && b->softcap <= 0;
}

CudnnUse *rt_cudnn_find(ParcRt *rt, const ParcAttention *a, bool backward)
{
    const Cudnn *x = rt->device->cudnn;
    CudnnUse *u = x ? x->first : NULL;
    while (u && (u->backward != backward || !same_shape(&u->shape, a)))
        u = u->next;
    return u;
}

int64_t rt_cudnn_offset(const ParcAttention *a, int tensor, int64_t b,
                        int64_t kv)
{
    bool keys = tensor == DNN_K || tensor == DNN_V || tensor == DNN_DK ||
                tensor == DNN_DV;
    bool has_d = tensor == DNN_Q || tensor == DNN_K || tensor == DNN_DQ ||
                tensor == DNN_DK;
    int64_t heads = keys ? a->kv : a->kv * a->g, head = keys ? kv : kv * a->g;
    if (tensor == DNN_LSE || tensor == DNN_DELTA)
        return (b * heads + head) * a->s * 4;
    return (b * (keys ? a->t : a->s) * heads + head) *
           (has_d ? a->d : a->e) * 2;
}

bool rt_cudnn_takes(const CudnnUse *u, const DnnCall *c)
{
    enum { ALIGNMENT = 16 }; /* the alignment in make_tensor of
                                rt_cudnn_graph.c */
    const ParcAttention *a = &u->shape;
    uint64_t bits = 0;
    for (int i = 0; i < DNN_NAMED; i++) {
        bits |= (uint64_t)(uintptr_t)c->at[i];
        if (u->piece_b < a->b)
            bits |= (uint64_t)rt_cudnn_offset(a, i, u->piece_b, 0);
        if (u->piece_kv < a->kv)
            bits |= (uint64_t)rt_cudnn_offset(a, i, 0, u->piece_kv);
    }
    return u->plan && bits % ALIGNMENT == 0;
}

void rt_cudnn_call(ParcRt *rt, const CudnnUse *u, const DnnCall *c)
{
    static float one = 1, least = -INFINITY;
    const ParcAttention *a = &u->shape;
    float scale = a->scale;
    char *workspace = c->scratch + (u->scratch_bytes - workspace_of(u));
    void *base[DNN_NAMED];
    memcpy(base, c->at, sizeof base);
    base[DNN_DELTA] = u->backward ? c->scratch : NULL;
    rt_nvtx_push("cuDNN attention");
    for (int64_t b = 0; b < a->b; b += u->piece_b)
        for (int64_t kv = 0; kv < a->kv; kv += u->piece_kv) {
            void *at[DNN_TENSORS] = {0};
            for (int i = 0; i < DNN_NAMED; i++)
                at[i] = base[i] ? (char *)base[i] + rt_cudnn_offset(a, i, b, kv)
                                : NULL;
            at[DNN_DQ_SUM] = workspace;
            at[DNN_SCALE] = &scale;
            at[DNN_LEAST] = &least;
            at[DNN_ONE] = &one;
            rt_cudnn_must_run(rt, "attention", u->plan, at, workspace + sum_bytes_of(u));
        }
    rt_nvtx_pop();
    rt_cuda_queued(rt, PARC_COMPUTE, "cuDNN's attention");
}

CudnnUse *rt_cudnn_use(ParcRt *rt, const ParcAttention *a, bool backward,
                       int64_t scratch_bytes)
{
    Cudnn *x = rt_cudnn_open(rt);
    CudnnUse *u = rt_allocate(sizeof *u);
    u->shape = *a;
    u->backward = backward;
    u->scratch_bytes = scratch_bytes;
    *x->last = u;
    x->last = &u->next;
    make_plan(x, u);
    return u;
}

/* ---- close --------------------------------------------------------------- */

void rt_cudnn_text(const Cudnn *x, const CudnnUse *u, char text[CUDNN_TEXT])
{
    RtText t = {.at = text, .capacity = CUDNN_TEXT};
    rt_add(&t, "%s of [%lld, %lld, %lld, %lld]: ",
           u->backward ? "backward" : "forward", (long long)u->shape.b,
           (long long)u->shape.s, (long long)(u->shape.kv * u->shape.g),
           (long long)u->shape.d);
    if (!u->plan) {
        rt_add(&t, "own kernels (%s)", u->reason);
        return;
    }
    int64_t pieces = u->shape.b / u->piece_b * (u->shape.kv / u->piece_kv);
    rt_add(&t, "cuDNN %zu, engine %lld", x->version,
           (long long)rt_cudnn_plan_engine(u->plan));
    if (pieces > 1)
        rt_add(&t, ", %lld pieces", (long long)pieces);
}

void rt_cudnn_print(const ParcRt *rt)
{
    const Cudnn *x = rt->device->cudnn;
    char text[CUDNN_TEXT];
    for (const CudnnUse *u = x ? x->first : NULL; u; u = u->next) {
        rt_cudnn_text(x, u, text);
        printf("attention %s\n", text);
    }
}

void rt_cudnn_attention_close(ParcRt *rt)
{
    Cudnn *x = rt->device->cudnn;
    while (x && x->first) {
        CudnnUse *u = x->first;
        x->first = u->next;
        rt_cudnn_plan_free(u->plan);
        free(u);
    }
}
