/* hang.c: a handwritten program whose ranks wait for each other, for the tests
 * of the watchdog. Each of three iterations runs a kernel, then an all-reduce
 * over tp of its result, and an all-gather over dp that nothing waits for
 * before the next iteration. On a stand-in in which one kernel never ends
 * (STANDIN_STALL) the program must report which collective hangs, and why.
 */
#include "parc_rt.h"

enum {
    N = 64, ITERATIONS = 3, TP = 2, DP = 2,
    AT_w = 0,
    AT_dw = AT_w + 4 * N,
    AT_sum = AT_dw + 4 * N,
    AT_all = AT_sum + 4 * N,
    AT_lr = AT_all + DP * 4 * N,
    ARENA_BYTES = AT_lr + 256,
    OVER_dp = 1, OVER_tp = 2,
    SHARED = 256,
};

static const char *const kernel[] = {"line_update"};
/* The first bytes of a cubin of CUDA 13. */
static const char cubin[16] = "\177ELF\2\1\1\101\10";
static const ParcImage image[] = {{"sm_90", cubin, sizeof cubin}};

static void step(ParcRt *rt)
{
    char *A = parc_arena(rt);
    float *w = (float *)(void *)(A + AT_w), *dw = (float *)(void *)(A + AT_dw);
    float *lr = (float *)(void *)(A + AT_lr);
    int64_t n = N;
    for (int64_t iteration = 0; iteration < ITERATIONS; iteration++) {
        parc_mark(rt, 0, iteration);
        parc_launch(rt, PARC_COMPUTE, 0, 1, N, SHARED, (void *[]){&w, &dw, &lr, &n});
        parc_record(rt, PARC_COMPUTE, 0);
        parc_wait(rt, PARC_DATA, 0);
        parc_mark(rt, 1, iteration);
        parc_all_gather(rt, 0, OVER_dp, 1,
                        &(ParcPart){.src = AT_w, .dst = AT_all, .outer = 1,
                                    .inner = N});
        parc_record(rt, PARC_DATA, 1);
        parc_wait(rt, PARC_TENSOR, 0);
        parc_mark(rt, 2, iteration);
        parc_all_reduce(rt, 1, OVER_tp, PARC_SUM, 1,
                        &(ParcPart){.src = AT_w, .dst = AT_sum, .outer = 1,
                                    .inner = N});
        parc_record(rt, PARC_TENSOR, 2);
        parc_wait(rt, PARC_COMPUTE, 1);
        parc_wait(rt, PARC_COMPUTE, 2);
    }
}

static void init(ParcRt *rt)
{
    (void)rt;
}

static const ParcParam param[] = {
    {.name = "w", .ndim = 1, .dim = {N}, .split = {{-1}}, .offset = AT_w,
     .local_elements = N, .init = PARC_NORMAL, .a = 0.5},
};

#define WORK(name, sort, where)                                                \
    {.id = name, .kind = sort, .phase = "forward", .path = "",                 \
     .source = where, .bytes = 4, .count = ITERATIONS, .nloops = 1,            \
     .loop = {{"layer", ITERATIONS}}}
static const ParcWork work[] = {
    WORK("update", "kernel", "hang.pdl:1:5"),
    WORK("ag0", "collective", "hang.pdl:2:5"),
    WORK("ar1", "collective", "hang.pdl:3:5"),
};

static const char *const collective[] = {"ag0 dp w (hang.pdl:2)",
                                         "ar1 tp w (hang.pdl:3)"};
static const uint32_t axes[] = {OVER_dp, OVER_tp};
static const int8_t streams[] = {PARC_DATA, PARC_TENSOR};

static const ParcModel model = {
    .rt_version = PARC_RT_VERSION,
    .name = "Hang", .parc_version = "0", .source = "hang.pdl", .info = "",
    .naxes = 2, .axis = {{"dp", DP}, {"tp", TP}},
    .param = param, .nparams = 1,
    .arena_bytes = ARENA_BYTES, .threads = 1, .batch = 4, .seq = 1,
    .flops = 4.0 * N, .optimizer = "SGD", .lr = 0,
    .at = {.loss = AT_sum, .grad_norm = -1, .overflow = -1, .dropped = -1,
           .dropped_256 = -1, .lr = AT_lr, .bias1 = -1, .bias2 = -1, .clip = -1,
           .loss_scale = -1, .random = -1},
    .work = work, .nwork = sizeof work / sizeof *work,
    .collective = collective, .ncollectives = 2,
    .collective_axes = axes, .collective_stream = streams, .nevents = 3,
    .kernel = kernel, .nkernels = 1, .image = image, .nimages = 1,
    .init = init, .step = step,
};

int main(int argc, char **argv)
{
    return parc_main(argc, argv, &model);
}
