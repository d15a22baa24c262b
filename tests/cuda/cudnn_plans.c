/* cudnn_plans.c: checks that the real cuDNN supports our attention graphs. It
 * makes plans for described GPUs, which need not be present.
 *
 *   cudnn_plans LIBCUDNN.so.9    with driver_stub.c as libcuda.so.1
 *
 * Requires a plan for each shape below in bf16 and f16 on A100 and H100 (few: in
 * bf16 on H100), for the piece that parc plans a workspace for, and within this workspace. Exits
 * with status 77 if the library does not support described devices (before 9.8).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/attention/rt_attention_workspace.h"
#include "cuda/attention/rt_cudnn_attention.h"
#include "cuda/conv/rt_conv_workspace.h"
#include "cuda/conv/rt_cuda_conv.h"

enum { SKIPPED = 77 };

static CudaDnn call;
#define CALL(result, name, suffix, arguments) #name #suffix,
static const char *const symbols[] = {
#include "cuda/api/calls_cudnn.h"
};

/* ---- devices ------------------------------------------------------------- */

static const struct Device {
    const char *name;
    int version, units, shared; /* shared memory of a block, in bytes */
} devices[] = {
    {"NVIDIA A100-SXM4-80GB", 800, 108, 166912},
    {"NVIDIA H100 80GB HBM3", 900, 132, 232448},
};

static DnnDescriptor describe(const struct Device *d)
{
    char text[1024];
    DnnDescriptor to = NULL;
    int n = snprintf(
        text, sizeof text,
        "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": "
        "[1024, 1024, 64], \"regsPerBlock\": 65536, \"multiProcessorCount\": "
        "%d, \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, "
        "\"maxSharedMemoryPerBlockOptin\": %d, "
        "\"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, "
        "\"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, "
        "\"maxThreadsPerSM\": 2048, \"pciDeviceId\": 0, \"isTccDriver\": 0, "
        "\"supportCoopLaunch\": 1, \"totalGlobalMem\": 85000000000, "
        "\"smClockRateKHz\": 1410000, \"memClockRateKHz\": 1593000, "
        "\"l2CacheSize\": 41943040, \"cudaDeviceId\": 0, \"deviceVer\": %d, "
        "\"driverVer\": 13000, \"deviceName\": \"%s\"}",
        d->units, d->shared, d->version, d->name);
    if (call.cudnnBackendCreateDescriptor(RT_DNN_DEVICE, &to) ||
        call.cudnnBackendSetAttribute(to, RT_DNN_DEVICE_JSON, RT_DNN_OF_CHAR, n,
                                      text) ||
        call.cudnnBackendFinalize(to))
        return NULL;
    return to;
}

/* ---- shapes -------------------------------------------------------------- */


static const struct Shape {
    const char *name;
    int64_t b, s, t, kv, g, d, e;
    bool causal;
} shapes[] = {
    {"llama 1b", 4, 2048, 2048, 8, 4, 64, 64, true},
    {"llama 7b on 8 x 8", 8, 2048, 2048, 4, 1, 128, 128, true},
    {"llama 8b", 1, 4096, 4096, 8, 4, 128, 128, true},
    {"gpt2 124m", 32, 1024, 1024, 12, 1, 64, 64, true},
    {"llama_bf16 of tests/gpu", 8, 128, 128, 2, 2, 64, 64, true},
    {"a decoder that looks at an encoder", 8, 35, 70, 4, 1, 16, 16, false},
};

static int failures;

static void try(const DnnContext *c, const struct Shape *x, ParcType type,
                bool backward, bool deterministic, const char *device)
{
    ParcAttention a = {.b = x->b, .s = x->s, .t = x->t, .kv = x->kv, .g = x->g,
                       .d = x->d, .e = x->e, .causal = x->causal,
                       .deterministic = deterministic,
                       .scale = 0.125f, .type = type};
    int64_t own = rt_attention_own_bytes(&a, backward);
    int64_t workspace_bytes = rt_attention_bytes(&a, backward) -
                              rt_cuda_aligned(own);
    AttentionPiece p = {a.b, a.kv};
    char reason[DNN_REASON];
    DnnGraph g;
    if (backward) {
        p = rt_attention_piece(&a, workspace_bytes);
        workspace_bytes -= rt_attention_sum_bytes(&a, p.b * p.kv);
    }
    rt_cudnn_attention_graph(&g, &a, p.b, p.kv, backward);
    DnnPlan *plan = rt_cudnn_plan(c, &g, workspace_bytes, reason);
    const char *of = !backward       ? "forward"
                     : deterministic ? "deterministic backward"
                                     : "backward";
    const char *in = type == PARC_BF16 ? "bf16" : "f16";
    if (plan) {
        printf("%s, %s %s, %s: engine %lld, %lld bytes planned\n", device, in,
               of, x->name, (long long)rt_cudnn_plan_engine(plan),
               (long long)workspace_bytes);
    } else {
        printf("FAILED %s, %s %s, %s: %s\n", device, in, of, x->name, reason);
        failures++;
    }
    rt_cudnn_plan_free(plan);
}

/* ---- convolutions -------------------------------------------------------- */

static const struct {
    const char *name;
    int64_t n, g, c, k, image, kernel, stride, padding;
} convs[] = {
    {"the first of a resnet", 32, 1, 3, 64, 224, 7, 2, 3},
    {"resnet", 32, 1, 64, 64, 56, 3, 1, 1},
    {"resnet with stride", 32, 1, 128, 256, 28, 3, 2, 1},
    {"channels that are no multiple of 8", 4, 1, 5, 7, 16, 3, 1, 1},
    {"convnext", 32, 96, 1, 1, 56, 7, 1, 3},
    {"groups", 16, 32, 4, 4, 28, 3, 1, 1},
};

/* `exact`: in f32 without TF32. */
static void try_conv(const DnnContext *c, size_t i, ParcConvResult computes, ParcType type,
                     bool exact, const char *device)
{
    static const char *const in[] = {"f32", "bf16", "f16"};
    static const char *const of[] = {"forward", "data", "weights"};
    ParcConvSpec s = {.computes = computes, .n = convs[i].n, .g = convs[i].g, .c = convs[i].c,
                      .k = convs[i].k, .type = type, .out = type};
    int64_t image = convs[i].image, kernel = convs[i].kernel, stride = convs[i].stride;
    for (int d = 0; d < 2; d++) {
        s.image[d] = image;
        s.kernel[d] = kernel;
        s.stride[d] = stride;
        s.padding[d] = convs[i].padding;
        s.dilation[d] = 1;
        s.result[d] = (image + 2 * s.padding[d] - kernel) / stride + 1;
    }
    char reason[DNN_REASON];
    DnnGraph g;
    rt_conv_graph(&g, &s, exact);
    DnnPlan *plan = rt_cudnn_plan(c, &g, rt_conv_bytes(&s), reason);
    printf("%s%s, %s%s, convolution %s of %s: ", plan ? "" : "FAILED ", device, in[type],
           exact ? " without TF32" : "", of[computes], convs[i].name);
    if (plan)
        printf("engine %lld, %lld bytes planned\n", (long long)rt_cudnn_plan_engine(plan),
               (long long)rt_conv_bytes(&s));
    else
        printf("%s\n", reason);
    failures += !plan;
    rt_cudnn_plan_free(plan);
}

static void try_convs(const DnnContext *c, const char *device)
{
    for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
        for (int k = PARC_CONV_Y; k <= PARC_CONV_WEIGHT; k++) {
            for (ParcType t = PARC_F32; t <= PARC_F16; t++)
                try_conv(c, i, (ParcConvResult)k, t, false, device);
            try_conv(c, i, (ParcConvResult)k, PARC_F32, true, device);
        }
}

static bool load(const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols && library; i++) {
        void *at = dlsym(library, symbols[i]);
        memcpy((char *)&call + i * sizeof at, &at, sizeof at);
        library = at ? library : NULL;
    }
    return library != NULL;
}

int main(int argc, char **argv)
{
    if (argc != 2 || !load(argv[1])) {
        const char *why = argc == 2 ? dlerror() : NULL;
        fprintf(stderr, "cudnn_plans: %s\n", why ? why : "no library");
        return 2;
    }
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        DnnContext c = {&call, NULL, describe(&devices[i])};
        if (!c.device) {
            fprintf(stderr, "cudnn_plans: cuDNN %zu takes no described device\n",
                    call.cudnnGetVersion());
            return SKIPPED;
        }
        for (size_t j = 0; j < sizeof shapes / sizeof *shapes; j++) {
            for (int k = 0; k < 6; k++)
                try(&c, &shapes[j], k & 1 ? PARC_F16 : PARC_BF16, k > 1, k > 3,
                    devices[i].name);
        }
        try_convs(&c, devices[i].name);
        call.cudnnBackendDestroyDescriptor(c.device);
    }
    printf("cuDNN %zu: %d without a plan\n", call.cudnnGetVersion(), failures);
    return failures > 0;
}
