/* cudnn_test.c: compares attention by the stand-in cuDNN, as
 * runtime/cuda/rt_cudnn*.c describes it, with the CPU's function. The stand-in
 * follows the descriptors, so a wrong stride, name or address gives a wrong
 * number.
 */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/attention/rt_attention_workspace.h"
#include "cuda/attention/rt_cudnn.h"
#include "engine.h"
#include "test_numbers.h"

#define CALL(result, name, suffix, arguments)                                  \
    result name arguments __asm__(#name #suffix);
#include "cuda/api/calls_driver.h"

static int passed, failed, queued;

static void check(bool fine, const char *what)
{
    passed += fine;
    failed += !fine;
    if (!fine)
        printf("FAILED %s\n", what);
}

/* ---- runtime functions that this test does not need ---------------------- */

void rt_nvtx_push(const char *name)
{
    (void)name;
}

void rt_nvtx_pop(void)
{
}

void rt_cuda_queued(ParcRt *rt, int stream, const char *what)
{
    (void)rt, (void)stream, (void)what;
    queued++;
}

const char *rt_cuda_where(const ParcRt *rt, char text[RT_WHERE])
{
    (void)rt;
    text[0] = 0;
    return text;
}

static void must(CuResult r, const char *what)
{
    if (r) {
        fprintf(stderr, "%s: error %u\n", what, r);
        exit(3);
    }
}
#define MUST(call) must(call, #call)

static CuStream open_stream(void)
{
    CuDevice device;
    CuContext context;
    CuStream stream;
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreateWithPriority(&stream, RT_CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

static void wait_for(CuStream stream)
{
    CuResult r;
    do {
        r = cuStreamQuery(stream);
    } while (r == RT_CU_NOT_READY);
    must(r, "cuStreamQuery");
}

/* ---- numbers ------------------------------------------------------------- */

typedef struct Case {
    ParcAttention a;
    AttentionPiece piece; /* that the workspace of the backward pass holds; b 0:
                           * all of it */
    int64_t pieces;
} Case;

/* Run as they are, and with a deterministic backward pass. */
#define SHAPE(B, S, T, KV, G, D, E, CAUSAL, TYPE)                              \
    {.b = B, .s = S, .t = T, .kv = KV, .g = G, .d = D, .e = E,                 \
     .causal = CAUSAL, .scale = 0.21f, .type = TYPE}

static const Case cases[] = {
    {SHAPE(2, 16, 16, 2, 2, 8, 8, true, PARC_BF16), {0, 0}, 1},
    {SHAPE(1, 40, 40, 3, 1, 16, 16, true, PARC_F16), {0, 0}, 1},
    {SHAPE(2, 24, 12, 1, 3, 8, 16, true, PARC_BF16), {0, 0}, 1},
    {SHAPE(2, 12, 36, 2, 1, 24, 8, false, PARC_F16), {0, 0}, 1},
    {SHAPE(1, 20, 28, 2, 2, 64, 64, false, PARC_BF16), {0, 0}, 1},
    {SHAPE(4, 16, 16, 2, 2, 8, 8, true, PARC_F16), {2, 2}, 2},
    {SHAPE(3, 16, 16, 2, 2, 8, 8, true, PARC_BF16), {1, 2}, 3},
    {SHAPE(2, 16, 20, 4, 2, 8, 16, false, PARC_BF16), {1, 2}, 4},
    {SHAPE(2, 16, 16, 3, 2, 16, 8, true, PARC_F16), {1, 2}, 6},
};

/* All tensors of a call, by DNN_Q …. */
static void fill(const ParcAttention *a, void *at[DNN_NAMED], void *const *in)
{
    int64_t q = a->b * a->s * a->kv * a->g, k = a->b * a->t * a->kv;
    const int64_t size[DNN_NAMED] = {
        [DNN_Q] = q * a->d,  [DNN_K] = k * a->d,  [DNN_V] = k * a->e,
        [DNN_O] = q * a->e,  [DNN_LSE] = q,       [DNN_DO] = q * a->e,
        [DNN_DQ] = q * a->d, [DNN_DK] = k * a->d, [DNN_DV] = k * a->e};
    for (int i = 0; i < DNN_NAMED; i++) {
        bool given = i == DNN_Q || i == DNN_K || i == DNN_V || i == DNN_DO;
        if (given && in)
            at[i] = in[i];
        else if (size[i])
            at[i] = test_numbers(i == DNN_LSE ? PARC_F32 : a->type, size[i],
                            given ? i + 1 : 0);
    }
}

static int64_t scratch_of(const Case *c, bool backward)
{
    const ParcAttention *a = &c->a;
    int64_t own = rt_attention_own_bytes(a, backward);
    if (!backward || !c->piece.b)
        return rt_attention_bytes(a, backward);
    return rt_cuda_aligned(own) +
           rt_attention_piece_bytes(a, c->piece.b * c->piece.kv);
}

static void pass(ParcRt *rt, const Case *c, void *const at[DNN_NAMED],
                 bool backward)
{
    int64_t bytes = scratch_of(c, backward);
    CudnnUse *u = rt_cudnn_use(rt, &c->a, backward, bytes);
    DnnCall call = {.scratch = standin_alloc(bytes)};
    int last = backward ? DNN_DV : DNN_LSE;
    for (int i = 0; i <= last; i++)
        call.at[i] = at[i];
    check(rt_cudnn_find(rt, &c->a, backward) == u, "the use is found");
    ParcAttention window = c->a;
    window.window = 1;
    check(!rt_cudnn_find(rt, &window, backward), "a window: own kernels");
    check(rt_cudnn_takes(u, &call), u->plan ? "its tensors are aligned"
                                            : u->reason);
    if (!u->plan)
        return;
    check(backward ? c->a.b / u->piece_b * (c->a.kv / u->piece_kv) == c->pieces
                   : u->piece_b == c->a.b,
          "the workspace determines the number of pieces");
    check(!backward || (rt_cudnn_plan_engine(u->plan) == 0) !=
                           c->a.deterministic,
          "an engine whose results vary, unless it must be deterministic");
    rt_cudnn_call(rt, u, &call);
    wait_for(rt->device->stream[PARC_COMPUTE]);
    call.at[DNN_Q] = (char *)at[DNN_Q] + 2;
    check(!rt_cudnn_takes(u, &call), "a tensor that is not aligned");
}

static void run(ParcRt *rt, const Case *c, int number)
{
    static const int result[TEST_RESULTS] = {DNN_O, DNN_LSE, DNN_DQ, DNN_DK,
                                             DNN_DV};
    const ParcAttention *a = &c->a;
    void *cpu[DNN_NAMED] = {0}, *x[DNN_NAMED] = {0};
    fill(a, cpu, NULL);
    fill(a, x, cpu);
    int64_t workspace = parc_attention_scratch(a, true, 1);
    int64_t less = parc_attention_scratch(a, false, 1);
    float *scratch = standin_alloc(workspace > less ? workspace : less);
    parc_attention(rt, a, cpu[DNN_O], cpu[DNN_LSE], cpu[DNN_Q], cpu[DNN_K],
                   cpu[DNN_V], scratch);
    parc_attention_grad(rt, a, cpu[DNN_DQ], cpu[DNN_DK], cpu[DNN_DV],
                        cpu[DNN_DO], cpu[DNN_Q], cpu[DNN_K], cpu[DNN_V],
                        cpu[DNN_O], cpu[DNN_LSE], scratch);
    pass(rt, c, x, false);
    pass(rt, c, x, true);
    const void *is[TEST_RESULTS], *should[TEST_RESULTS];
    for (int i = 0; i < TEST_RESULTS; i++) {
        is[i] = x[result[i]];
        should[i] = cpu[result[i]];
    }
    char what[60];
    snprintf(what, sizeof what, "case %d%s", number,
             a->deterministic ? ", deterministic" : "");
    test_attention(check, what, a, is, should);
}

/* ---- calls that cuDNN does not get --------------------------------------- */

static void refusals(ParcRt *rt)
{
    ParcAttention a = SHAPE(1, 16, 16, 1, 1, 8, 8, true, PARC_BF16);
    check(rt_attention_library(&a), "16 bits");
    a.drop = 0.1f;
    check(!rt_attention_library(&a), "dropout: own kernels");
    a.drop = 0;
    a.window = 4;
    check(!rt_attention_library(&a), "a window: own kernels");
    a.window = 0;
    a.softcap = 5;
    check(!rt_attention_library(&a), "a softcap: own kernels");
    a.softcap = 0;
    a.type = PARC_F32;
    check(!rt_attention_library(&a), "f32: own kernels");
    a.type = PARC_F16;
    a.d = 12;
    check(!rt_attention_library(&a), "columns that are no multiple of 8");
    a.d = 8;
    a.scale = 0.5f;
    CudnnUse *u = rt_cudnn_use(rt, &a, true, 0);
    check(!u->plan && strstr(u->reason, "no workspace"), "a plan without workspace");
    u = rt_cudnn_use(rt, &a, false, 0);
    check(!u->plan && strstr(u->reason, "bytes of workspace"),
          "a workspace that is too small");
    a.b = 2;
    a.s = 18;
    u = rt_cudnn_use(rt, &a, true,
                     rt_cuda_aligned(rt_attention_own_bytes(&a, true)) +
                         rt_attention_piece_bytes(&a, 1));
    check(!u->plan && strstr(u->reason, "multiples of 16"),
          "pieces that are not aligned");
}

int main(void)
{
    omp_set_num_threads(1); /* as the scratch was planned */
    RtDevice device = {0};
    ParcRt rt = {.threads = 1, .device = &device};
    device.stream[PARC_COMPUTE] = open_stream();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Case c = cases[i];
        run(&rt, &c, (int)i);
        c.a.deterministic = true;
        run(&rt, &c, (int)i);
    }
    refusals(&rt);
    check(queued == 4 * sizeof cases / sizeof *cases, "each call is queued");
    rt_cudnn_attention_close(&rt);
    rt_cudnn_close(&rt);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
