/* line.c: the smallest handwritten training program that calls most of the
 * runtime: y = x w, the loss is the mean of y^2, w is trained. It computes the
 * same with either target's runtime.
 *
 * -DCUDA launches the kernels of line.cu; without it they are functions here.
 * -DFAULT makes one kernel write beyond the arena.
 */
#include "parc_rt.h"

enum { ROWS = 8, IN = 16, OUT = 24, ITERATIONS = 3 };

/* The arena. Each step moves the weights to `copy`, clears them and moves them
 * back. */
enum {
    AT_w = 0,
    AT_x = AT_w + 4 * IN * OUT,
    AT_y = AT_x + 4 * ROWS * IN + 4, /* aligned to 4 bytes only */
    AT_dy = AT_y + 4 * ROWS * OUT + 252,
    AT_dw = AT_dy + 4 * ROWS * OUT,
    AT_copy = AT_dw + 4 * IN * OUT,
    AT_scratch = AT_copy + 4 * IN * OUT,
    SCRATCH = 1 << 14,
    AT_loss = AT_scratch + SCRATCH,
    AT_lr = AT_loss + 256,
    AT_index = AT_lr + 256,
    ARENA_BYTES = AT_index + 256,
};

#ifdef CUDA
enum { MUCH_SHARED = 100 << 10 };
static const char *const kernel[] = {"line_loss", "line_update"};

static void line_loss(ParcRt *rt, float *loss, float *dy, const float *y)
{
    int64_t n = ROWS * OUT;
    parc_launch(rt, PARC_COMPUTE, 0, 1, 64, 0, (void *[]){&loss, &dy, &y, &n});
}

static void line_update(ParcRt *rt, float *w, const float *dw, const float *lr)
{
    int64_t n = IN * OUT;
#ifdef FAULT
    n += ARENA_BYTES / 4;
#endif
    parc_launch(rt, PARC_COMPUTE, 1, (n + 63) / 64, 64, MUCH_SHARED,
                (void *[]){&w, &dw, &lr, &n});
}

/* The first bytes of a cubin of CUDA 13. */
static const char cubin[16] = "\177ELF\2\1\1\101\10";
static const ParcImage image[] = {
    {"sm_80", cubin, sizeof cubin},
    {"sm_90", cubin, sizeof cubin},
};
#else
static void line_loss(ParcRt *rt, float *loss, float *dy, const float *y)
{
    float sum = 0;
    (void)rt;
    for (int i = 0; i < ROWS * OUT; i++) {
        sum += y[i] * y[i];
        dy[i] = 2.0f * y[i] / (ROWS * OUT);
    }
    *loss = sum / (ROWS * OUT);
}

static void line_update(ParcRt *rt, float *w, const float *dw, const float *lr)
{
    (void)rt;
    for (int i = 0; i < IN * OUT; i++)
        w[i] -= *lr * dw[i];
}
#endif

static ParcMatmul *matmul[2];

static void init(ParcRt *rt)
{
    matmul[0] = parc_matmul_new(
        rt, &(ParcMatmulSpec){.name = "y", .batch = 1, .m = ROWS, .n = OUT,
                              .k = IN, .sa = {0, IN, 1}, .sb = {0, OUT, 1},
                              .sc = {0, OUT, 1}, .scratch = AT_scratch,
                              .scratch_bytes = SCRATCH});
    matmul[1] = parc_matmul_new(
        rt, &(ParcMatmulSpec){.name = "dw", .batch = 1, .m = IN, .n = OUT,
                              .k = ROWS, .sa = {0, 1, IN}, .sb = {0, OUT, 1},
                              .sc = {0, OUT, 1}, .scratch = AT_scratch,
                              .scratch_bytes = SCRATCH});
}

static void step(ParcRt *rt)
{
    char *A = parc_arena(rt);
    parc_mark(rt, 0, 0);
    parc_matmul(rt, matmul[0], A + AT_x, A + AT_w, A + AT_y);
    parc_mark(rt, 1, 0);
    line_loss(rt, (float *)(void *)(A + AT_loss), (float *)(void *)(A + AT_dy),
              (float *)(void *)(A + AT_y));
    parc_mark(rt, 2, 0);
    parc_matmul(rt, matmul[1], A + AT_x, A + AT_dy, A + AT_dw);
    for (int64_t iteration = 0; iteration < ITERATIONS; iteration++) {
        parc_mark(rt, 3, iteration);
        parc_set_index(rt, (int64_t *)(void *)(A + AT_index), 4, 2, 1, 8);
        parc_move(rt, A + AT_copy, A + AT_w, 4 * IN * OUT);
        parc_zero(rt, A + AT_w, 4 * IN * OUT);
        parc_move(rt, A + AT_w, A + AT_copy, 4 * IN * OUT);
    }
    parc_mark(rt, 4, 0);
    line_update(rt, (float *)(void *)(A + AT_w), (float *)(void *)(A + AT_dw),
                (float *)(void *)(A + AT_lr));
}

static const ParcParam param[] = {
    {.name = "w", .ndim = 2, .dim = {IN, OUT}, .split = {{-1}, {-1}},
     .offset = AT_w, .local_elements = IN * OUT, .init = PARC_NORMAL, .a = 0.5},
};

static const ParcInput input[] = {
    {.name = "x", .ndim = 2, .dim = {ROWS, IN}, .offset = AT_x,
     .type = PARC_F32},
};

#define WORK(name, where, calls)                                                     \
    .id = name, .kind = "kernel", .phase = "forward", .path = "",              \
    .source = where, .bytes = 4, .flops = 0, .count = calls
static const ParcWork work[] = {
    {WORK("y", "line.pdl:1:5", 1),
     .result = (const ParcResult[]){
         {.name = "y", .offset = AT_y, .elements = ROWS * OUT}},
     .nresults = 1},
    {WORK("loss", "line.pdl:2:5", 1),
     .result = (const ParcResult[]){
         {.name = "loss", .offset = AT_loss, .elements = 1},
         {.name = "dy", .offset = AT_dy, .elements = ROWS * OUT}},
     .nresults = 2},
    {WORK("dw", "line.pdl:1:5", 1)},
    {WORK("moves", "line.pdl:3:5", ITERATIONS), .nloops = 1,
     .loop = {{"iteration", ITERATIONS}}},
    {WORK("update", "line.pdl:4:5", 1),
     .result = (const ParcResult[]){
         {.name = "w", .offset = AT_w, .elements = IN * OUT}},
     .nresults = 1},
};

static const ParcModel model = {
    .rt_version = PARC_RT_VERSION,
    .name = "Line", .parc_version = "0", .source = "line.pdl", .info = "",
    .naxes = 1, .axis = {{"dp", 1}},
    .param = param, .nparams = 1, .input = input, .ninputs = 1,
    .arena_bytes = ARENA_BYTES, .threads = 1, .batch = ROWS, .seq = 1,
    .flops = 4.0 * ROWS * IN * OUT, .optimizer = "SGD", .lr = 0.5,
    .at = {.loss = AT_loss, .grad_norm = -1, .overflow = -1, .dropped = -1,
           .dropped_256 = -1, .lr = AT_lr, .bias1 = -1, .bias2 = -1, .clip = -1,
           .loss_scale = -1, .random = -1},
    .work = work, .nwork = sizeof work / sizeof *work,
#ifdef CUDA
    .kernel = kernel, .nkernels = 2, .image = image, .nimages = 2,
#endif
    .init = init, .step = step,
};

int main(int argc, char **argv)
{
    return parc_main(argc, argv, &model);
}
