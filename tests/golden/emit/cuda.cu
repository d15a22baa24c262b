/* train.c: one training step of Net
 *
 * Written by parc 0.1.0 from cuda.pdl:
 *   parc cuda.pdl --target cuda --threads 1 --mesh 2x2 --arch sm_90a
 * Edit it freely; the next run of parc overwrites it.
 *
 * Mesh: dp=2 tp=2
 */
#include "model.h"

/* Descriptors of the matmuls in matmul_spec. */
static ParcMatmul *matmul[6];

void forward(ParcRt *rt)
{
    parc_record(rt, PARC_COMPUTE, 0);
    forward_Net(rt);

    for (int64_t layer = 0; layer <= 3; layer++) {
        forward_up(rt, layer);
        forward_down(rt, layer);
    }

    forward_Net_2(rt);
}

void backward(ParcRt *rt)
{
    backward_Net(rt);

    for (int64_t layer = 3; layer >= 0; layer--) {
        backward_down(rt, layer);
        backward_up(rt, layer);
    }
}

void optimizer(ParcRt *rt)
{
    optimizer_layers(rt);
}

void step(ParcRt *rt)
{
    forward(rt);
    backward(rt);
    optimizer(rt);
}

/* The matmuls c = a b: name; batch, m, n, k; strides of a batch, a row and a
 * column of a, of b and of c; scratch memory. */
static const ParcMatmulSpec matmul_spec[] = {
    {"up_out",        1,   8, 128,  64, {0, 64, 1},  {0, 1, 64},  {0, 128, 1}, .type = {PARC_BF16, PARC_BF16, PARC_BF16}},
    {"down_out",      1,   8,  64, 128, {0, 128, 1}, {0, 1, 128}, {0, 64, 1},  .type = {PARC_BF16, PARC_BF16, PARC_BF16}},
    {"d_down_x",      1,   8, 128,  64, {0, 64, 1},  {0, 128, 1}, {0, 128, 1}, .type = {PARC_BF16, PARC_BF16, PARC_BF16}},
    {"d_down.weight", 1,  64, 128,   8, {0, 1, 64},  {0, 128, 1}, {0, 128, 1}, .type = {PARC_BF16, PARC_BF16, PARC_F32}},
    {"d_layers_x",    1,   8,  64, 128, {0, 128, 1}, {0, 64, 1},  {0, 64, 1},  .type = {PARC_BF16, PARC_BF16, PARC_BF16}, .epilogue = PARC_ADD},
    {"d_up.weight",   1, 128,  64,   8, {0, 1, 128}, {0, 64, 1},  {0, 64, 1},  .type = {PARC_BF16, PARC_BF16, PARC_F32}},
};

void init_constants(ParcRt *rt)
{
    for (int i = 0; i < 6; i++)
        matmul[i] = parc_matmul_new(rt, &matmul_spec[i]);
}

/* Net */
void forward_Net(ParcRt *rt)
{
    char *A = parc_arena(rt);
    {
        const int64_t layer = 0;
        parc_wait(rt, PARC_DATA, 0); /* after: step start */
        parc_mark(rt, 2, layer);
        /* ag0 all_gather over dp: layers.*
         * parameters of unit layers.*
         * 32.00 KiB, cuda.pdl:24:22 */
        parc_all_gather(rt, 0, AXIS_dp, 2, (ParcPart[]){
            {.src = AT_layers_up_weight_bf16 + layer * 8192,
                .dst = AT_up_weight_bf16_3 + layer % 2 * 16384, .outer = 1,
                .inner = 4096, .type = PARC_BF16},
            {.src = AT_layers_down_weight_bf16 + layer * 8192,
                .dst = AT_down_weight_bf16_3 + layer % 2 * 16384, .outer = 1,
                .inner = 4096, .type = PARC_BF16},
        });
        parc_record(rt, PARC_DATA, 1 + layer % 2);
    }
    float *x = (float *)(A + AT_x);
    parc_bf16 *Net_x_bf16 = (parc_bf16 *)(A + AT_Net_x_bf16);
    parc_mark(rt, 0, 0);
    k00_cast(rt, Net_x_bf16, x);
}

/* layers.*.up */
void forward_up(ParcRt *rt, int64_t layer)
{
    char *A = parc_arena(rt);
    parc_bf16 *x = (parc_bf16 *)(A + AT_Net_x_bf16);
    parc_bf16 *x_2 = (parc_bf16 *)(A + AT_up_x_2 + layer * 1024);
    parc_mark(rt, 1, layer);
    parc_move(rt, x_2, x, 1024);
    if (layer + 1 <= 3) {
        const int64_t next = layer + 1;
        parc_wait(rt, PARC_DATA, 3); /* after: read of down.weight.bf16.3 */
        parc_mark(rt, 2, next);
        /* ag0 all_gather over dp: layers.*
         * parameters of unit layers.*
         * 32.00 KiB, cuda.pdl:24:22 */
        parc_all_gather(rt, 0, AXIS_dp, 2, (ParcPart[]){
            {.src = AT_layers_up_weight_bf16 + next * 8192,
                .dst = AT_up_weight_bf16_3 + next % 2 * 16384, .outer = 1,
                .inner = 4096, .type = PARC_BF16},
            {.src = AT_layers_down_weight_bf16 + next * 8192,
                .dst = AT_down_weight_bf16_3 + next % 2 * 16384, .outer = 1,
                .inner = 4096, .type = PARC_BF16},
        });
        parc_record(rt, PARC_DATA, 1 + next % 2);
    }
    parc_wait(rt, PARC_COMPUTE, 1 + layer % 2); /* after: up.weight.bf16.3 */
    parc_bf16 *up_weight_bf16 =
        (parc_bf16 *)(A + AT_up_weight_bf16_3 + layer % 2 * 16384);
    parc_bf16 *up_out = (parc_bf16 *)(A + AT_up_out);
    parc_mark(rt, 3, layer);
    /* layers.*.up: einsum ak,fk->af (cuda.pdl:7:39)
     * bf16[16/dp, 256/tp] */
    parc_matmul(rt, matmul[0], x, up_weight_bf16, up_out);
    parc_bf16 *relu = (parc_bf16 *)(A + AT_down_x_2 + layer * 2048);
    parc_mark(rt, 4, layer);
    k01_layers_relu(rt, relu, up_out);
}

/* layers.*.down */
void forward_down(ParcRt *rt, int64_t layer)
{
    char *A = parc_arena(rt);
    parc_bf16 *relu = (parc_bf16 *)(A + AT_down_x_2 + layer * 2048);
    parc_bf16 *down_weight_bf16 =
        (parc_bf16 *)(A + AT_down_weight_bf16_3 + layer % 2 * 16384);
    parc_bf16 *down_out = (parc_bf16 *)(A + AT_down_out);
    parc_mark(rt, 5, layer);
    /* layers.*.down: einsum ak,fk->af (cuda.pdl:7:29)
     * bf16[16/dp, 64]+tp */
    parc_matmul(rt, matmul[1], relu, down_weight_bf16, down_out);
    parc_record(rt, PARC_COMPUTE, 3);
    parc_wait(rt, PARC_TENSOR, 3); /* after: down_out */
    parc_mark(rt, 6, layer);
    /* ar1 all_reduce over tp: down_out
     * RowwiseParallel on layers.*.down: tp P -> R
     * 1.00 KiB, cuda.pdl:22:24 */
    parc_all_reduce(rt, 1, AXIS_tp, PARC_SUM, 1, (ParcPart[]){
        {.src = AT_down_out, .dst = AT_down_out, .outer = 1, .inner = 512,
            .type = PARC_BF16},
    });
    parc_record(rt, PARC_TENSOR, 4);
    parc_wait(rt, PARC_COMPUTE, 4); /* after: down_out.2 */
    parc_bf16 *x = (parc_bf16 *)(A + AT_Net_x_bf16);
    parc_bf16 *down_out_2 = (parc_bf16 *)(A + AT_down_out);
    parc_bf16 *add = (parc_bf16 *)(A + AT_Net_x_bf16);
    parc_mark(rt, 7, layer);
    k02_layers_add(rt, add, x, down_out_2);
}

/* Net */
void forward_Net_2(ParcRt *rt)
{
    char *A = parc_arena(rt);
    {
        const int64_t layer = 3;
        parc_mark(rt, 13, layer);
        /* ag4 all_gather over dp: layers.*
         * parameters of unit layers.*
         * 32.00 KiB, cuda.pdl:24:22 */
        parc_all_gather(rt, 4, AXIS_dp, 2, (ParcPart[]){
            {.src = AT_layers_up_weight_bf16 + layer * 8192,
                .dst = AT_up_weight_bf16_4 + layer % 2 * 16384, .outer = 1,
                .inner = 4096, .type = PARC_BF16},
            {.src = AT_layers_down_weight_bf16 + layer * 8192,
                .dst = AT_down_weight_bf16_4 + layer % 2 * 16384, .outer = 1,
                .inner = 4096, .type = PARC_BF16},
        });
        parc_record(rt, PARC_DATA, 5 + layer % 2);
    }
    parc_bf16 *x = (parc_bf16 *)(A + AT_Net_x_bf16);
    float *scale = (float *)(A + AT_scale);
    parc_mark(rt, 8, 0);
    k03_mul_sum_scale(rt, scale, x);
    parc_record(rt, PARC_COMPUTE, 7);
    parc_wait(rt, PARC_DATA, 7); /* after: scale */
    parc_mark(rt, 9, 0);
    /* ar2 all_reduce over dp: scale
     * the model's result loss: dp P -> R
     * 4 B, cuda.pdl:13:5 */
    parc_all_reduce(rt, 2, AXIS_dp, PARC_SUM, 1, (ParcPart[]){
        {.src = AT_scale, .dst = AT_scale, .outer = 1, .inner = 1},
    });
}

/* Net */
void backward_Net(ParcRt *rt)
{
    char *A = parc_arena(rt);
    parc_bf16 *x = (parc_bf16 *)(A + AT_Net_x_bf16);
    parc_bf16 *d_x = (parc_bf16 *)(A + AT_Net_x_bf16);
    parc_mark(rt, 10, 0);
    k04_scale_cast_mul_grad(rt, d_x, x);
    parc_mark(rt, 11, 0);
    /* mask_to_partial: the next layer needs d_x.2 in another placement: tp R -> P */
    parc_mask_to_partial(rt, AXIS_tp, 0, &(ParcPart){.src = AT_Net_x_bf16,
        .dst = AT_Net_x_bf16, .outer = 1, .inner = 512, .type = PARC_BF16});
    parc_record(rt, PARC_COMPUTE, 8);
}

/* layers.*.down */
void backward_down(ParcRt *rt, int64_t layer)
{
    char *A = parc_arena(rt);
    /* after: d_x.5 */
    if (layer == 3)
        parc_wait(rt, PARC_TENSOR, 8);
    parc_wait(rt, PARC_TENSOR, 10); /* after: d_layers_x */
    parc_mark(rt, 12, layer);
    /* ar3 all_reduce over tp: d_x.2
     * gradient of RowwiseParallel on layers.*.down: tp P -> R
     * 1.00 KiB, cuda.pdl:22:24 */
    parc_all_reduce(rt, 3, AXIS_tp, PARC_SUM, 1, (ParcPart[]){
        {.src = AT_Net_x_bf16, .dst = AT_d_x_4, .outer = 1, .inner = 512,
            .type = PARC_BF16},
    });
    parc_record(rt, PARC_TENSOR, 9);
    if (layer >= 1) {
        const int64_t next = layer - 1;
        parc_mark(rt, 13, next);
        /* ag4 all_gather over dp: layers.*
         * parameters of unit layers.*
         * 32.00 KiB, cuda.pdl:24:22 */
        parc_all_gather(rt, 4, AXIS_dp, 2, (ParcPart[]){
            {.src = AT_layers_up_weight_bf16 + next * 8192,
                .dst = AT_up_weight_bf16_4 + next % 2 * 16384, .outer = 1,
                .inner = 4096, .type = PARC_BF16},
            {.src = AT_layers_down_weight_bf16 + next * 8192,
                .dst = AT_down_weight_bf16_4 + next % 2 * 16384, .outer = 1,
                .inner = 4096, .type = PARC_BF16},
        });
        parc_record(rt, PARC_DATA, 5 + next % 2);
    }
    parc_wait(rt, PARC_COMPUTE, 9); /* after: d_x.4 */
    parc_wait(rt, PARC_COMPUTE, 5 + layer % 2); /* after: down.weight.bf16.4 */
    parc_bf16 *d_x = (parc_bf16 *)(A + AT_d_x_4);
    parc_bf16 *down_weight_bf16 =
        (parc_bf16 *)(A + AT_down_weight_bf16_4 + layer % 2 * 16384);
    parc_bf16 *d_down_x = (parc_bf16 *)(A + AT_d_down_x);
    parc_mark(rt, 14, layer);
    /* layers.*.down: einsum af,fk->ak (cuda.pdl:7:29)
     * bf16[16/dp, 256/tp] */
    parc_matmul(rt, matmul[2], d_x, down_weight_bf16, d_down_x);
    parc_bf16 *down_x = (parc_bf16 *)(A + AT_down_x_2 + layer * 2048);
    float *d_down_weight = (float *)(A + AT_d_down_weight + layer % 2 * 32768);
    parc_mark(rt, 15, layer);
    /* layers.*.down: einsum af,ak->fk (cuda.pdl:7:29)
     * f32[64, 256/tp]+dp */
    parc_matmul(rt, matmul[3], d_x, down_x, d_down_weight);
    parc_bf16 *d_up_out = (parc_bf16 *)(A + AT_d_down_x);
    parc_mark(rt, 16, layer);
    k05_layers_relu_grad(rt, d_up_out, down_x, d_down_x);
}

/* layers.*.up */
void backward_up(ParcRt *rt, int64_t layer)
{
    char *A = parc_arena(rt);
    parc_bf16 *d_up_out = (parc_bf16 *)(A + AT_d_down_x);
    parc_bf16 *up_weight_bf16 =
        (parc_bf16 *)(A + AT_up_weight_bf16_4 + layer % 2 * 16384);
    parc_bf16 *d_x = (parc_bf16 *)(A + AT_Net_x_bf16);
    parc_bf16 *d_layers_x = (parc_bf16 *)(A + AT_Net_x_bf16);
    parc_mark(rt, 17, layer);
    /* layers.*.up: einsum_add af,fk,ak->ak (cuda.pdl:7:39)
     * bf16[16/dp, 64]+tp */
    parc_matmul_with(rt, matmul[4], d_up_out, up_weight_bf16, d_layers_x, NULL,
        d_x);
    parc_record(rt, PARC_COMPUTE, 10);
    parc_bf16 *up_x = (parc_bf16 *)(A + AT_up_x_2 + layer * 1024);
    float *d_up_weight = (float *)(A + AT_d_up_weight + layer % 2 * 32768);
    parc_mark(rt, 18, layer);
    /* layers.*.up: einsum af,ak->fk (cuda.pdl:7:39)
     * f32[256/tp, 64]+dp */
    parc_matmul(rt, matmul[5], d_up_out, up_x, d_up_weight);
    parc_record(rt, PARC_COMPUTE, 11);
    parc_wait(rt, PARC_DATA, 11); /* after: d_up.weight */
    parc_mark(rt, 19, layer);
    /* rs5 reduce_scatter over dp: layers.*
     * gradients of unit layers.*
     * 64.00 KiB, cuda.pdl:24:22 */
    parc_reduce_scatter(rt, 5, AXIS_dp, 2, (ParcPart[]){
        {.src = AT_d_up_weight + layer % 2 * 32768,
            .dst = AT_d_up_weight_2 + layer * 16384, .outer = 1, .inner = 4096},
        {.src = AT_d_down_weight + layer % 2 * 32768,
            .dst = AT_d_down_weight_2 + layer * 16384, .outer = 1,
            .inner = 4096},
    });
    parc_record(rt, PARC_DATA, 12);
}

/* layers.* */
void optimizer_layers(ParcRt *rt)
{
    char *A = parc_arena(rt);
    parc_wait(rt, PARC_COMPUTE, 12); /* after: d_down.weight.4 */
    float *d_down_weight = (float *)(A + AT_d_down_weight_2);
    float *lr = (float *)(A + AT_lr);
    float *down_weight = (float *)(A + AT_layers_down_weight);
    float *sumsq = (float *)(A + AT_sumsq_2);
    parc_bf16 *down_weight_bf16_new =
        (parc_bf16 *)(A + AT_layers_down_weight_bf16);
    parc_mark(rt, 20, 0);
    k06_sgd_layers_down_weight(rt, sumsq, down_weight, down_weight_bf16_new,
        d_down_weight, lr, down_weight, (float *)(A + AT_sumsq_2_2));
    float *d_up_weight = (float *)(A + AT_d_up_weight_2);
    float *up_weight = (float *)(A + AT_layers_up_weight);
    float *add = (float *)(A + AT_add_3);
    parc_bf16 *up_weight_bf16_new = (parc_bf16 *)(A + AT_layers_up_weight_bf16);
    parc_mark(rt, 21, 0);
    k07_sgd_layers_up_weight(rt, add, up_weight, up_weight_bf16_new,
        d_up_weight, sumsq, lr, up_weight, (float *)(A + AT_add_3_2));
    parc_record(rt, PARC_COMPUTE, 13);
    parc_wait(rt, PARC_TENSOR, 13); /* after: add.3 */
    parc_mark(rt, 22, 0);
    /* ar6 all_reduce over dp,tp: add.3
     * sqrt needs the full sum: dp P -> R, tp P -> R
     * 4 B, cuda.pdl:27:1 */
    parc_all_reduce(rt, 6, AXIS_dp | AXIS_tp, PARC_SUM, 1, (ParcPart[]){
        {.src = AT_add_3, .dst = AT_add_3, .outer = 1, .inner = 1},
    });
    parc_record(rt, PARC_TENSOR, 14);
    parc_wait(rt, PARC_COMPUTE, 14); /* after: add.2 */
    float *add_2 = (float *)(A + AT_add_3);
    float *grad_norm = (float *)(A + AT_add_3);
    parc_mark(rt, 23, 0);
    k08_sqrt(rt, grad_norm, add_2);
}
/* model.c: describes Net to the runtime.
 *
 * Collectives: calls per step x bytes per call on each rank:
 *   ag0   all_gather     over dp        4 x        32768  layers.*
 *   ar1   all_reduce     over tp        4 x         1024  down_out
 *   ar2   all_reduce     over dp        1 x            4  scale
 *   ar3   all_reduce     over tp        4 x         1024  d_x.2
 *   ag4   all_gather     over dp        4 x        32768  layers.*
 *   rs5   reduce_scatter over dp        4 x        65536  layers.*
 *   ar6   all_reduce     over dp,tp     1 x            4  add.3
 */
#include "model.h"

static const ParcParam param[] = {
    {.name = "layers.*.up.weight",
     .nstack = 1, .ndim = 2, .stack = {4}, .dim = {256, 64},
     .split = {{1, -1}, {-1}},
     .flat_axes = AXIS_dp,
     .offset = AT_layers_up_weight, .local_elements = 16384,
     .init = PARC_UNIFORM, .a = -0.125, .b = 0.125,
     .placement = "dp=S(0) tp=S(0)"},
    {.name = "layers.*.down.weight",
     .nstack = 1, .ndim = 2, .stack = {4}, .dim = {64, 256},
     .split = {{-1}, {1, -1}},
     .flat_axes = AXIS_dp,
     .offset = AT_layers_down_weight, .local_elements = 16384,
     .init = PARC_UNIFORM, .a = -0.0625, .b = 0.0625,
     .placement = "dp=S(0) tp=S(1)"},
    {.name = "layers.*.up.weight.bf16", .state = "bf16",
     .nstack = 1, .ndim = 2, .stack = {4}, .dim = {256, 64},
     .split = {{1, -1}, {-1}},
     .flat_axes = AXIS_dp,
     .offset = AT_layers_up_weight_bf16, .local_elements = 16384,
     .type = PARC_BF16, .copy_of = 0,
     .init = PARC_COPY, .a = 0, .b = 0,
     .placement = "dp=S(0) tp=S(0)"},
    {.name = "layers.*.down.weight.bf16", .state = "bf16",
     .nstack = 1, .ndim = 2, .stack = {4}, .dim = {64, 256},
     .split = {{-1}, {1, -1}},
     .flat_axes = AXIS_dp,
     .offset = AT_layers_down_weight_bf16, .local_elements = 16384,
     .type = PARC_BF16, .copy_of = 1,
     .init = PARC_COPY, .a = 0, .b = 0,
     .placement = "dp=S(0) tp=S(1)"},
};

static const ParcInput input[] = {
    {.name = "x", .type = PARC_F32, .is_labels = false,
     .below = 0, .ndim = 2, .dim = {16, 64},
     .batch_axes = AXIS_dp, .offset = AT_x},
};

/* The names of collectives in messages. */
static const char *const collective[] = {
    "ag0 all_gather over dp: layers.* (cuda.pdl:24:22)",
    "ar1 all_reduce over tp: down_out (cuda.pdl:22:24)",
    "ar2 all_reduce over dp: scale (cuda.pdl:13:5)",
    "ar3 all_reduce over tp: d_x.2 (cuda.pdl:22:24)",
    "ag4 all_gather over dp: layers.* (cuda.pdl:24:22)",
    "rs5 reduce_scatter over dp: layers.* (cuda.pdl:24:22)",
    "ar6 all_reduce over dp,tp: add.3 (cuda.pdl:27:1)",
    0
};

static const int8_t collective_stream[] = {
    PARC_DATA, /* ag0 */
    PARC_TENSOR, /* ar1 */
    PARC_DATA, /* ar2 */
    PARC_TENSOR, /* ar3 */
    PARC_DATA, /* ag4 */
    PARC_DATA, /* rs5 */
    PARC_TENSOR, /* ar6 */
    0
};

static const uint32_t collective_axes[] = {
    AXIS_dp, /* ag0 */
    AXIS_tp, /* ar1 */
    AXIS_dp, /* ar2 */
    AXIS_tp, /* ar3 */
    AXIS_dp, /* ag4 */
    AXIS_dp, /* rs5 */
    AXIS_dp | AXIS_tp, /* ar6 */
    0
};

/* The statements, by the number in parc_mark: for --trace, messages, PARC_NANCHECK. */
static const ParcWork work[] = {
    [0] = {.id = "k00_cast", .kind = "kernel", .phase = "forward",
     .path = "", .source = "cuda.pdl:13:5",
     .bytes = 3072, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "Net_x.bf16",
          .offset = AT_Net_x_bf16, .elements = 512, .type = PARC_BF16}},
     .nresults = 1},
    [1] = {.id = "x.8", .kind = "copy", .phase = "forward",
     .path = "", .source = "cuda.pdl:13:5",
     .bytes = 2048, .flops = 0, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "x.8",
          .offset = AT_up_x_2, .elements = 512, .type = PARC_BF16, .stride = {1024}}},
     .nresults = 1},
    [2] = {.id = "ag0", .kind = "collective", .phase = "forward",
     .path = "", .source = "cuda.pdl:24:22",
     .detail = "all_gather over dp: layers.*",
     .bytes = 32768, .flops = 0, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "up.weight.bf16.3",
          .offset = AT_up_weight_bf16_3, .elements = 8192, .type = PARC_BF16, .stride = {16384}, .modulo = {2}},
         {.name = "down.weight.bf16.3",
          .offset = AT_down_weight_bf16_3, .elements = 8192, .type = PARC_BF16, .stride = {16384}, .modulo = {2}}},
     .nresults = 2},
    [3] = {.id = "up_out", .kind = "matmul", .phase = "forward",
     .path = "layers.*.up", .source = "cuda.pdl:7:39",
     .detail = "ak,fk->af",
     .bytes = 19456, .flops = 131072, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "up_out",
          .offset = AT_up_out, .elements = 1024, .type = PARC_BF16}},
     .nresults = 1},
    [4] = {.id = "k01_layers_relu", .kind = "kernel", .phase = "forward",
     .path = "layers.*", .source = "cuda.pdl:7:34",
     .bytes = 4096, .flops = 0, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "relu",
          .offset = AT_down_x_2, .elements = 1024, .type = PARC_BF16, .stride = {2048}}},
     .nresults = 1},
    [5] = {.id = "down_out", .kind = "matmul", .phase = "forward",
     .path = "layers.*.down", .source = "cuda.pdl:7:29",
     .detail = "ak,fk->af",
     .bytes = 19456, .flops = 131072, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "down_out",
          .offset = AT_down_out, .elements = 512, .type = PARC_BF16}},
     .nresults = 1},
    [6] = {.id = "ar1", .kind = "collective", .phase = "forward",
     .path = "layers.*.down", .source = "cuda.pdl:22:24",
     .detail = "all_reduce over tp: down_out",
     .bytes = 1024, .flops = 0, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "down_out.2",
          .offset = AT_down_out, .elements = 512, .type = PARC_BF16}},
     .nresults = 1},
    [7] = {.id = "k02_layers_add", .kind = "kernel", .phase = "forward",
     .path = "layers.*", .source = "cuda.pdl:7:27",
     .bytes = 3072, .flops = 0, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "add",
          .offset = AT_Net_x_bf16, .elements = 512, .type = PARC_BF16}},
     .nresults = 1},
    [8] = {.id = "k03_mul_sum_scale", .kind = "kernel", .phase = "forward",
     .path = "", .source = "cuda.pdl:15:16",
     .bytes = 1028, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "scale",
          .offset = AT_scale, .elements = 1}},
     .nresults = 1},
    [9] = {.id = "ar2", .kind = "collective", .phase = "forward",
     .path = "", .source = "cuda.pdl:13:5",
     .detail = "all_reduce over dp: scale",
     .bytes = 4, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "scale.2",
          .offset = AT_scale, .elements = 1}},
     .nresults = 1},
    [10] = {.id = "k04_scale_cast_mul_grad", .kind = "kernel", .phase = "backward",
     .path = "", .source = "cuda.pdl:15:23",
     .bytes = 2048, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "d_x",
          .offset = AT_Net_x_bf16, .elements = 512, .type = PARC_BF16}},
     .nresults = 1},
    [11] = {.id = "d_x.5", .kind = "copy", .phase = "backward",
     .path = "", .source = "cuda.pdl:14:9",
     .bytes = 2048, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "d_x.5",
          .offset = AT_Net_x_bf16, .elements = 512, .type = PARC_BF16}},
     .nresults = 1},
    [12] = {.id = "ar3", .kind = "collective", .phase = "backward",
     .path = "layers.*.down", .source = "cuda.pdl:22:24",
     .detail = "all_reduce over tp: d_x.2",
     .bytes = 1024, .flops = 0, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "d_x.4",
          .offset = AT_d_x_4, .elements = 512, .type = PARC_BF16}},
     .nresults = 1},
    [13] = {.id = "ag4", .kind = "collective", .phase = "backward",
     .path = "", .source = "cuda.pdl:24:22",
     .detail = "all_gather over dp: layers.*",
     .bytes = 32768, .flops = 0, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "up.weight.bf16.4",
          .offset = AT_up_weight_bf16_4, .elements = 8192, .type = PARC_BF16, .stride = {16384}, .modulo = {2}},
         {.name = "down.weight.bf16.4",
          .offset = AT_down_weight_bf16_4, .elements = 8192, .type = PARC_BF16, .stride = {16384}, .modulo = {2}}},
     .nresults = 2},
    [14] = {.id = "d_down_x", .kind = "matmul", .phase = "backward",
     .path = "layers.*.down", .source = "cuda.pdl:7:29",
     .detail = "af,fk->ak",
     .bytes = 19456, .flops = 131072, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "d_down_x",
          .offset = AT_d_down_x, .elements = 1024, .type = PARC_BF16}},
     .nresults = 1},
    [15] = {.id = "d_down.weight", .kind = "matmul", .phase = "backward",
     .path = "layers.*.down", .source = "cuda.pdl:7:29",
     .detail = "af,ak->fk",
     .bytes = 35840, .flops = 131072, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "d_down.weight",
          .offset = AT_d_down_weight, .elements = 8192, .stride = {32768}, .modulo = {2}}},
     .nresults = 1},
    [16] = {.id = "k05_layers_relu_grad", .kind = "kernel", .phase = "backward",
     .path = "layers.*", .source = "cuda.pdl:7:34",
     .bytes = 6144, .flops = 0, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "d_up_out",
          .offset = AT_d_down_x, .elements = 1024, .type = PARC_BF16}},
     .nresults = 1},
    [17] = {.id = "d_layers_x", .kind = "matmul", .phase = "backward",
     .path = "layers.*.up", .source = "cuda.pdl:7:39",
     .detail = "af,fk,ak->ak with add",
     .bytes = 20480, .flops = 131072, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "d_layers_x",
          .offset = AT_Net_x_bf16, .elements = 512, .type = PARC_BF16}},
     .nresults = 1},
    [18] = {.id = "d_up.weight", .kind = "matmul", .phase = "backward",
     .path = "layers.*.up", .source = "cuda.pdl:7:39",
     .detail = "af,ak->fk",
     .bytes = 35840, .flops = 131072, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "d_up.weight",
          .offset = AT_d_up_weight, .elements = 8192, .stride = {32768}, .modulo = {2}}},
     .nresults = 1},
    [19] = {.id = "rs5", .kind = "collective", .phase = "backward",
     .path = "", .source = "cuda.pdl:24:22",
     .detail = "reduce_scatter over dp: layers.*",
     .bytes = 65536, .flops = 0, .count = 4,
     .nloops = 1, .loop = {{"layer", 4}},
     .result = (const ParcResult[]){
         {.name = "d_up.weight.4",
          .offset = AT_d_up_weight_2, .elements = 4096, .stride = {16384}},
         {.name = "d_down.weight.4",
          .offset = AT_d_down_weight_2, .elements = 4096, .stride = {16384}}},
     .nresults = 2},
    [20] = {.id = "k06_sgd_layers_down_weight", .kind = "kernel", .phase = "optimizer",
     .path = "layers.*.down", .source = "cuda.pdl:5:11",
     .bytes = 229384, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "sumsq.2",
          .offset = AT_sumsq_2, .elements = 1},
         {.name = "down.weight.new",
          .offset = AT_layers_down_weight, .elements = 16384},
         {.name = "down.weight.bf16.5.new",
          .offset = AT_layers_down_weight_bf16, .elements = 16384, .type = PARC_BF16}},
     .nresults = 3},
    [21] = {.id = "k07_sgd_layers_up_weight", .kind = "kernel", .phase = "optimizer",
     .path = "layers.*.up", .source = "cuda.pdl:4:9",
     .bytes = 229388, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "add.3",
          .offset = AT_add_3, .elements = 1},
         {.name = "up.weight.new",
          .offset = AT_layers_up_weight, .elements = 16384},
         {.name = "up.weight.bf16.5.new",
          .offset = AT_layers_up_weight_bf16, .elements = 16384, .type = PARC_BF16}},
     .nresults = 3},
    [22] = {.id = "ar6", .kind = "collective", .phase = "optimizer",
     .path = "", .source = "cuda.pdl:27:1",
     .detail = "all_reduce over dp,tp: add.3",
     .bytes = 4, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "add.2",
          .offset = AT_add_3, .elements = 1}},
     .nresults = 1},
    [23] = {.id = "k08_sqrt", .kind = "kernel", .phase = "optimizer",
     .path = "", .source = "cuda.pdl:27:1",
     .bytes = 8, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "grad_norm",
          .offset = AT_add_3, .elements = 1}},
     .nresults = 1},
};

/* The kernels' symbols, by number. */
static const char *const kernel[] = {
    "k00_cast",
    "k01_layers_relu",
    "k02_layers_add",
    "k03_mul_sum_scale",
    "k04_scale_cast_mul_grad",
    "k05_layers_relu_grad",
    "k06_sgd_layers_down_weight",
    "k06_sgd_layers_down_weight_combine",
    "k07_sgd_layers_up_weight",
    "k07_sgd_layers_up_weight_combine",
    "k08_sqrt",
    "copy_strided",
    "copy_transposed",
};
extern const ParcImage images[]; /* images.c */

/* The text that --info prints. */
static const char info[] =
    "Net under plan both on dp=2 x tp=2 (4 ranks), bf16, CUDA\n"
    "\n"
    "parameters  131.07 K in the model, 32.77 K per rank\n"
    "batch       16, whole mesh\n"
    "optimizer   SGD, lr 0.1\n"
    "memory      529.00 KiB per rank at the peak; the tensors that are live then have 529.00 KiB\n"
    "            params      192.00 KiB\n"
    "            grads       256.00 KiB\n"
    "            gathered     64.00 KiB\n"
    "            activations  17.00 KiB\n"
    "            128.00 KiB per rank of staging in host memory, only with --save-async\n"
    "work        13.11 Mflop per step, whole mesh (forward 4.19 M, backward 8.39 M)\n"
    "traffic     dp: 13 calls, 512.00 KiB per rank and step; a rank sends 256.00 KiB\n"
    "            tp: 8 calls, 8.00 KiB per rank and step; a rank sends 8.00 KiB\n"
    "            dp,tp: 1 call, 4 B per rank and step; a rank sends 6 B\n"
    "\n"
    "Parameters (global shape, placement on each axis)\n"
    "  layers.*.up.weight    f32[4 x 256/tp, 64]~dp             dp=S(0) tp=S(0) unit layers.*  cuda.pdl:4:9\n"
    "  layers.*.down.weight  f32[4 x 64, 256/tp]~dp             dp=S(0) tp=S(1) unit layers.*  cuda.pdl:5:11\n"
    "\n"
    "Collectives, in order (calls per step x bytes per call, on each rank)\n"
    " forward\n"
    "  ag0   all_gather     dp       4 x 32.00 KiB   layers.*\n"
    "        parameters of unit layers.*, in bf16  (cuda.pdl:24:22)\n"
    "  ar1   all_reduce     tp       4 x 1.00 KiB    down_out\n"
    "        RowwiseParallel on layers.*.down: tp P -> R, in bf16  (cuda.pdl:22:24)\n"
    "  ar2   all_reduce     dp       1 x 4 B         scale\n"
    "        the model's result loss: dp P -> R  (cuda.pdl:13:5)\n"
    " backward\n"
    "  ar3   all_reduce     tp       4 x 1.00 KiB    d_x.2\n"
    "        gradient of RowwiseParallel on layers.*.down: tp P -> R, in bf16  (cuda.pdl:22:24)\n"
    "  ag4   all_gather     dp       4 x 32.00 KiB   layers.*\n"
    "        parameters of unit layers.*, in bf16  (cuda.pdl:24:22)\n"
    "  rs5   reduce_scatter dp       4 x 64.00 KiB   layers.*\n"
    "        gradients of unit layers.*  (cuda.pdl:24:22)\n"
    " optimizer\n"
    "  ar6   all_reduce     dp,tp    1 x 4 B         add.3\n"
    "        sqrt needs the full sum: dp P -> R, tp P -> R  (cuda.pdl:27:1)\n"
    "\n"
    "Process groups (rank = 2 dp + tp)\n"
    "  dp     2 groups of 2: {0, 2}, {1, 3}\n"
    "  tp     2 groups of 2: {0-1}, {2-3}\n"
    "  dp,tp  1 group of 4: {0-3}\n"
    "\n"
    "Streams: compute, tensor, data (15 events)\n"
    "  ag0   data    after: step start, read of down.weight.bf16.3; prefetched 1 iteration ahead\n"
    "                first issued before Net_x.bf16\n"
    "                before: up_out\n"
    "  ar1   tensor  after: down_out\n"
    "                before: add\n"
    "  ar2   data    after: scale\n"
    "  ar3   tensor  after: d_x.5, d_layers_x\n"
    "                before: d_down_x\n"
    "  ag4   data    issued immediately; prefetched 1 iteration ahead\n"
    "                first issued before scale\n"
    "                before: d_down_x\n"
    "  rs5   data    after: d_up.weight\n"
    "                before: sumsq.2\n"
    "  ar6   tensor  after: add.3\n"
    "                before: grad_norm\n"
    "\n"
    "Copies of parameters in bf16, written by the optimizer (bytes per rank)\n"
    "  layers.*.up.weight               bf16[4 x 256/tp, 64]~dp            32.00 KiB\n"
    "  layers.*.down.weight             bf16[4 x 64, 256/tp]~dp            32.00 KiB\n"
    "\n"
    "Saved by the forward pass for the backward pass (bytes per rank)\n"
    "  x.5                          bf16[16/dp, 64]                    1.00 KiB\n"
    "  down_x.2                     bf16[4 x 16/dp, 256/tp]            8.00 KiB\n"
    "  up_x.2                       bf16[4 x 16/dp, 64]                4.00 KiB\n"
    "\n"
    "Matmuls (calls per step x minimum bytes per call, on each rank; m x n x k; result;\n"
    "epilogue)\n"
    "     4 x 19.00 KiB   8 x 128 x 64             up_out\n"
    "     4 x 19.00 KiB   8 x 64 x 128             down_out\n"
    "     4 x 19.00 KiB   8 x 128 x 64             d_down_x\n"
    "     4 x 35.00 KiB   64 x 128 x 8             d_down.weight\n"
    "     4 x 20.00 KiB   8 x 64 x 128             d_layers_x  with add\n"
    "     4 x 35.00 KiB   128 x 64 x 8             d_up.weight\n"
    "\n"
    "Kernels (calls per step x bytes read, bytes written, minimum of their sum, per call on\n"
    "each rank; where a row is kept between two loops over it; 0 calls: runs once, before\n"
    "the first step)\n"
    "     1 x 2.00 KiB    1.00 KiB    3.00 KiB               k00_cast\n"
    "     4 x 2.00 KiB    2.00 KiB    4.00 KiB               k01_layers_relu\n"
    "     4 x 2.00 KiB    1.00 KiB    3.00 KiB               k02_layers_add\n"
    "     1 x 1.00 KiB    4 B         1.00 KiB    registers  k03_mul_sum_scale\n"
    "     1 x 1.00 KiB    1.00 KiB    2.00 KiB               k04_scale_cast_mul_grad\n"
    "     4 x 4.00 KiB    2.00 KiB    6.00 KiB               k05_layers_relu_grad\n"
    "     1 x 128.02 KiB  96.02 KiB   224.01 KiB             k06_sgd_layers_down_weight; partial sums of 2 blocks: 32 B\n"
    "     1 x 128.02 KiB  96.02 KiB   224.01 KiB             k07_sgd_layers_up_weight; partial sums of 2 blocks: 32 B\n"
    "     1 x 4 B         4 B         8 B                    k08_sqrt\n"
    "\n"
    "Tensors that only kernels read and write (bytes per call, on each rank)\n"
    "  4 B          sumsq.2, from k06 to sgd_layers_up_weight\n"
    "\n"
    "Live at the memory peak, largest first (bytes per rank)\n"
    "   64.00 KiB  grads       d_down.weight              cuda.pdl:7:29\n"
    "   64.00 KiB  grads       d_down.weight.2            cuda.pdl:7:29\n"
    "   64.00 KiB  grads       d_up.weight                cuda.pdl:7:39\n"
    "   64.00 KiB  grads       d_up.weight.2              cuda.pdl:7:39\n"
    "   64.00 KiB  params      layers.*.down.weight       cuda.pdl:5:11\n"
    "   64.00 KiB  params      layers.*.up.weight         cuda.pdl:4:9\n"
    "   32.00 KiB  gathered    down.weight.bf16.4         cuda.pdl:7:29\n"
    "   32.00 KiB  params      layers.*.down.weight.bf16  cuda.pdl:5:11\n"
    "   32.00 KiB  params      layers.*.up.weight.bf16    cuda.pdl:4:9\n"
    "   32.00 KiB  gathered    up.weight.bf16.4           cuda.pdl:7:39\n"
    "    8.00 KiB  activations down_x.2                   cuda.pdl:7:29\n"
    "    4.00 KiB  activations up_x.2                     cuda.pdl:7:39\n"
    "    2.00 KiB  activations d_down_x                   cuda.pdl:7:29\n"
    "    1.00 KiB  activations Net_x.bf16                 cuda.pdl:13:5\n"
    "    1.00 KiB  activations d_x.4                      cuda.pdl:7:29\n"
    "       256 B  activations bias1                      cuda.pdl:27:1\n"
    "       768 B  in 3 smaller buffers\n";

static const ParcModel model = {
    .rt_version = PARC_RT_VERSION,
    .name = "Net", .parc_version = "0.1.0",
    .source = "cuda.pdl", .info = info,
    .plan_hash = 0xf50bc78246812ae7u,
    .naxes = 2,
    .axis = {{"dp", 2}, {"tp", 2}},
    .param = param, .nparams = 4,
    .input = input, .ninputs = 1,
    .arena_bytes = ARENA_BYTES, .threads = 1,
    .batch = 16, .seq = 1,
    .flops = 13107202, .executed_flops = 13107202,
    .optimizer = "SGD", .lr = 0.1, .beta1 = 0.9, .beta2 = 0.999,
    .options = "batch seq precision optimizer reduce loss_scale ema schedule warmup head_chunk async_tp recompute epilogues accumulate copy_engines deterministic optimizer.momentum optimizer.nesterov optimizer.betas optimizer.eps optimizer.weight_decay optimizer.ns_coefficients optimizer.ns_steps optimizer.adjust_lr_fn optimizer.adamw_eps optimizer.beta2_decay optimizer.eps1 optimizer.eps2 optimizer.clip_threshold optimizer.no_decay optimizer.groups schedule.after schedule.rates schedule.shape",
    .at = {.loss = AT_scale, .grad_norm = AT_add_3, .overflow = -1,
           .dropped = -1, .dropped_256 = -1, .lr = AT_lr,
           .bias1 = AT_bias1, .bias2 = AT_bias2, .clip = -1,
           .loss_scale = -1, .random = -1},
    .collective = collective, .ncollectives = 7,
    .collective_stream = collective_stream,
    .nevents = 15,
    .collective_axes = collective_axes,
    .work = work, .nwork = 24,
    .kernel = kernel, .nkernels = 13,
    .image = images, .nimages = 4,
    .init = init_constants, .step = step,
};

int main(int argc, char **argv)
{
    return parc_main(argc, argv, &model);
}
/* model.h: the memory map of Net, and the functions of train.c. */
#ifndef MODEL_H
#define MODEL_H

#include "kernels.h"

#include <stddef.h>

#if PARC_RT_VERSION != 23
#error "the runtime is of another version of parc; rerun parc"
#endif

/* Sets of mesh axes. */
enum {
    AXIS_dp = 1 << 0,
    AXIS_tp = 1 << 1,
};

/* The offset of each buffer in a rank's arena. The comment above an offset has
 * the buffer's bytes, its category, and its live range: the parc_mark numbers of
 * the first and last statement that need it. Buffers may share addresses if their
 * live ranges do not overlap. */
#define ARENA_BYTES INT64_C(541696)
/* 65536 bytes, params, the whole run */
#define AT_layers_up_weight INT64_C(0)
/* 65536 bytes, params, the whole run */
#define AT_layers_down_weight INT64_C(65536)
/* 32768 bytes, params, the whole run */
#define AT_layers_up_weight_bf16 INT64_C(131072)
/* 32768 bytes, params, the whole run */
#define AT_layers_down_weight_bf16 INT64_C(163840)
/* 2048 bytes, activations, mark 0 */
#define AT_x INT64_C(262912)
/* 1024 bytes, activations, marks 0 to 19 */
#define AT_Net_x_bf16 INT64_C(539392)
/* 8192 bytes, activations, marks 1 to 19 */
#define AT_down_x_2 INT64_C(525056)
/* 4096 bytes, activations, marks 1 to 19 */
#define AT_up_x_2 INT64_C(533248)
/* 32768 bytes, gathered, marks 0 to 7 */
#define AT_up_weight_bf16_3 INT64_C(197376)
/* 32768 bytes, gathered, marks 0 to 7 */
#define AT_down_weight_bf16_3 INT64_C(230144)
/* 2048 bytes, activations, marks 3 to 4 */
#define AT_up_out INT64_C(262912)
/* 1024 bytes, activations, marks 5 to 7 */
#define AT_down_out INT64_C(262912)
/* 256 bytes, activations, marks 8 to 23 */
#define AT_scale INT64_C(541440)
/* 65536 bytes, grads, marks 12 to 21 */
#define AT_d_up_weight_2 INT64_C(197376)
/* 65536 bytes, grads, marks 12 to 20 */
#define AT_d_down_weight_2 INT64_C(262912)
/* 1024 bytes, activations, marks 12 to 15 */
#define AT_d_x_4 INT64_C(540416)
/* 32768 bytes, gathered, marks 8 to 19 */
#define AT_up_weight_bf16_4 INT64_C(459520)
/* 32768 bytes, gathered, marks 8 to 19 */
#define AT_down_weight_bf16_4 INT64_C(492288)
/* 2048 bytes, activations, marks 14 to 18 */
#define AT_d_down_x INT64_C(537344)
/* 65536 bytes, grads, marks 12 to 20 */
#define AT_d_down_weight INT64_C(328448)
/* 65536 bytes, grads, marks 12 to 20 */
#define AT_d_up_weight INT64_C(393984)
/* 256 bytes, activations, the whole run */
#define AT_lr INT64_C(196608)
/* 256 bytes, activations, the whole run */
#define AT_bias1 INT64_C(196864)
/* 256 bytes, activations, the whole run */
#define AT_bias2 INT64_C(197120)
/* 256 bytes, activations, marks 20 to 21 */
#define AT_sumsq_2 INT64_C(459520)
/* 256 bytes, workspace, mark 20 */
#define AT_sumsq_2_2 INT64_C(459776)
/* 256 bytes, activations, marks 21 to 23 */
#define AT_add_3 INT64_C(262912)
/* 256 bytes, workspace, mark 21 */
#define AT_add_3_2 INT64_C(263168)

/* Functions of train.c. */
void forward_Net(ParcRt *rt);
void forward_up(ParcRt *rt, int64_t layer);
void forward_down(ParcRt *rt, int64_t layer);
void forward_Net_2(ParcRt *rt);
void forward(ParcRt *rt);
void backward_Net(ParcRt *rt);
void backward_down(ParcRt *rt, int64_t layer);
void backward_up(ParcRt *rt, int64_t layer);
void backward(ParcRt *rt);
void optimizer_layers(ParcRt *rt);
void optimizer(ParcRt *rt);
void step(ParcRt *rt);
void init_constants(ParcRt *rt);

#endif
/* launch.c: the functions of kernels.h, which launch the kernels of kernels.cu. */
#include "kernels.h"

void k00_cast(ParcRt *rt, parc_bf16 *Net_x_bf16, const float *x)
{
    parc_launch(rt, PARC_COMPUTE, 0, 1, 64, 0, (void *[]){&Net_x_bf16, &x});
}

void k01_layers_relu(ParcRt *rt, parc_bf16 *relu, const parc_bf16 *up_out)
{
    parc_launch(rt, PARC_COMPUTE, 1, 1, 128, 0, (void *[]){&relu, &up_out});
}

void k02_layers_add(ParcRt *rt, parc_bf16 *add, const parc_bf16 *x,
                    const parc_bf16 *down_out)
{
    parc_launch(rt, PARC_COMPUTE, 2, 1, 64, 0, (void *[]){&add, &x, &down_out});
}

void k03_mul_sum_scale(ParcRt *rt, float *scale, const parc_bf16 *x)
{
    parc_launch(rt, PARC_COMPUTE, 3, 1, 64, 0, (void *[]){&scale, &x});
}

void k04_scale_cast_mul_grad(ParcRt *rt, parc_bf16 *d_x, const parc_bf16 *x)
{
    parc_launch(rt, PARC_COMPUTE, 4, 1, 64, 0, (void *[]){&d_x, &x});
}

void k05_layers_relu_grad(ParcRt *rt, parc_bf16 *d_up_out,
                          const parc_bf16 *down_x, const parc_bf16 *d_down_x)
{
    parc_launch(rt, PARC_COMPUTE, 5, 1, 128, 0,
        (void *[]){&d_up_out, &down_x, &d_down_x});
}

void k06_sgd_layers_down_weight(ParcRt *rt, float *sumsq,
                                float *down_weight_new,
                                parc_bf16 *down_weight_bf16_new,
                                const float *d_down_weight, const float *lr,
                                const float *down_weight_2, float *workspace)
{
    parc_launch(rt, PARC_COMPUTE, 6, 2, 512, 0, (void *[]){&down_weight_new,
        &down_weight_bf16_new, &d_down_weight, &lr, &down_weight_2,
        &workspace});
    parc_launch(rt, PARC_COMPUTE, 7, 1, 32, 0, (void *[]){&sumsq, &workspace});
}

void k07_sgd_layers_up_weight(ParcRt *rt, float *add, float *up_weight_new,
                              parc_bf16 *up_weight_bf16_new,
                              const float *d_up_weight, const float *sumsq,
                              const float *lr, const float *up_weight_2,
                              float *workspace)
{
    parc_launch(rt, PARC_COMPUTE, 8, 2, 512, 0, (void *[]){&up_weight_new,
        &up_weight_bf16_new, &d_up_weight, &lr, &up_weight_2, &workspace});
    parc_launch(rt, PARC_COMPUTE, 9, 1, 32, 0,
        (void *[]){&add, &sumsq, &workspace});
}

void k08_sqrt(ParcRt *rt, float *grad_norm, const float *add)
{
    parc_launch(rt, PARC_COMPUTE, 10, 1, 32, 0, (void *[]){&grad_norm, &add});
}
/* kernels.cu: the kernels of Net, written by parc 0.1.0.
 *
 * Each fused kernel is a group of elementwise ops and reductions that accesses
 * memory once. The comment above a kernel has the lines of the model that it
 * computes, and its tensors: a rank's part `of` the type of the global tensor.
 * launch.c launches the kernels. */
#include "parc_device.h"

/* k00_cast
 * from     cuda.pdl:13
 * fused    cast
 * writes   Net_x_bf16: [8, 64] of bf16[16/dp, 64]
 * reads    x: [8, 64] of f32[16/dp, 64]
 * moves    3.0 KiB
 * launch   1 block of 64, vectors of 8
 */
PARC_KERNEL(64, 1)
k00_cast(parc_bf16 *__restrict__ Net_x_bf16, const float *__restrict__ x)
{
    const int at = thread_index();
    const int j = at * 8;
    float in0[8];
    parc_read_f32(in0, x + j, 8);
    float out0[8];
    PARC_UNROLL
    for (int e = 0; e < 8; e++) {
        const float t0 = in0[e];
        out0[e] = t0;
    }
    parc_write_bf16(Net_x_bf16 + j, out0, 8);
}

/* k01_layers_relu
 * from     cuda.pdl:7
 * fused    relu
 * writes   relu: [8, 128] of bf16[16/dp, 256/tp]
 * reads    up_out: [8, 128] of bf16[16/dp, 256/tp]
 * moves    4.0 KiB
 * launch   1 block of 128, vectors of 8
 */
PARC_KERNEL(128, 1)
k01_layers_relu(parc_bf16 *relu, const parc_bf16 *up_out)
{
    const int at = thread_index();
    const int j = at * 8;
    float in0[8];
    parc_read_bf16(in0, up_out + j, 8);
    float out0[8];
    PARC_UNROLL
    for (int e = 0; e < 8; e++) {
        const float t0 = in0[e];
        const float t1 = parc_max(t0, 0.0f); /* cuda.pdl:7 relu */
        out0[e] = t1;
    }
    parc_write_bf16(relu + j, out0, 8);
}

/* k02_layers_add
 * from     cuda.pdl:7
 * fused    add
 * writes   add: [8, 64] of bf16[16/dp, 64]
 * reads    x: [8, 64] of bf16[16/dp, 64]
 * reads    down_out: [8, 64] of bf16[16/dp, 64]
 * moves    3.0 KiB
 * launch   1 block of 64, vectors of 8
 */
PARC_KERNEL(64, 1)
k02_layers_add(parc_bf16 *add, const parc_bf16 *x, const parc_bf16 *down_out)
{
    const int at = thread_index();
    const int j = at * 8;
    float in0[8];
    parc_read_bf16(in0, x + j, 8);
    float in1[8];
    parc_read_bf16(in1, down_out + j, 8);
    float out0[8];
    PARC_UNROLL
    for (int e = 0; e < 8; e++) {
        const float t0 = in0[e];
        const float t1 = in1[e];
        const float t2 = t0 + t1; /* cuda.pdl:7 add */
        out0[e] = t2;
    }
    parc_write_bf16(add + j, out0, 8);
}

/* k03_mul_sum_scale
 * from     cuda.pdl:15
 * fused    mul, sum, scale
 * writes   scale: [] of f32[]+dp
 * reads    x: [8, 64] of bf16[16/dp, 64]
 * moves    1.0 KiB
 * launch   1 block of 64, vectors of 8, rows in registers
 */
PARC_KERNEL(64)
k03_mul_sum_scale(float *__restrict__ scale, const parc_bf16 *__restrict__ x)
{
    PARC_SHARED float sum2[32];
    const int t = thread_index();
    float r2 = 0.0f;
    {
        const int j = t * 8;
        float in0[8];
        parc_read_bf16(in0, x + j, 8);
        PARC_UNROLL
        for (int e = 0; e < 8; e++) {
            const float t0 = in0[e];
            const float t1 = t0 * t0; /* cuda.pdl:15 mul */
            r2 += t1; /* cuda.pdl:15 sum */
        }
    }
    block_put(warp_sum(r2), sum2);
    block_barrier();
    r2 = block_get_sum(sum2);
    const float r3 = r2 * 0.0009765625f; /* cuda.pdl:15 scale */
    if (t == 0) {
        scale[0] = r3;
    }
}

/* k04_scale_cast_mul_grad
 * from     cuda.pdl:13-15
 * fused    full, scale, cast, reshape, broadcast, mul, scale
 * writes   d_x: [8, 64] of bf16[16/dp, 64]
 * reads    x: [8, 64] of bf16[16/dp, 64]
 * moves    2.0 KiB
 * launch   1 block of 64, vectors of 8
 */
PARC_KERNEL(64, 1)
k04_scale_cast_mul_grad(parc_bf16 *d_x, const parc_bf16 *x)
{
    const int at = thread_index();
    const int j = at * 8;
    const float r1 = 1.0f * 0.0009765625f; /* cuda.pdl:15 scale */
    float in2[8];
    parc_read_bf16(in2, x + j, 8);
    float out0[8];
    PARC_UNROLL
    for (int e = 0; e < 8; e++) {
        const float t2 = in2[e];
        const float t3 = r1 * t2; /* cuda.pdl:15 mul */
        const float t4 = t3 * 2.0f; /* cuda.pdl:15 scale */
        out0[e] = t4;
    }
    parc_write_bf16(d_x + j, out0, 8);
}

/* k05_layers_relu_grad
 * from     cuda.pdl:7
 * fused    step, mul
 * writes   d_up_out: [8, 128] of bf16[16/dp, 256/tp]
 * reads    down_x: [8, 128] of bf16[16/dp, 256/tp]
 * reads    d_down_x: [8, 128] of bf16[16/dp, 256/tp]
 * moves    6.0 KiB
 * launch   1 block of 128, vectors of 8
 */
PARC_KERNEL(128, 1)
k05_layers_relu_grad(parc_bf16 *d_up_out, const parc_bf16 *down_x,
                     const parc_bf16 *d_down_x)
{
    const int at = thread_index();
    const int j = at * 8;
    float in2[8];
    parc_read_bf16(in2, d_down_x + j, 8);
    float in0[8];
    parc_read_bf16(in0, down_x + j, 8);
    float out0[8];
    PARC_UNROLL
    for (int e = 0; e < 8; e++) {
        const float t2 = in2[e];
        const float t0 = in0[e];
        /* cuda.pdl:7 step */
        const float t1 = parc_select(t0 > 0.0f, 1.0f, 0.0f);
        const float t3 = t2 * t1; /* cuda.pdl:7 mul */
        out0[e] = t3;
    }
    parc_write_bf16(d_up_out + j, out0, 8);
}

/* k06_sgd_layers_down_weight
 * from     cuda.pdl:5-27
 * fused    sumsq, mul, sub, cast
 * writes   sumsq: [] of f32[]+dp+tp
 * writes   down_weight_new: [4, 4096] of f32[4 x 64, 256/tp]~dp
 * writes   down_weight_bf16_new: [4, 4096] of bf16[4 x 64, 256/tp]~dp
 * reads    d_down_weight: [4, 4096] of f32[4 x 64, 256/tp]~dp
 * reads    lr: [] of f32[]
 * reads    down_weight_2: [4, 4096] of f32[4 x 64, 256/tp]~dp
 * moves    224.0 KiB
 * launch   2 blocks of 512, vectors of 8; 1 of 32
 */
PARC_KERNEL(512, 2)
k06_sgd_layers_down_weight(float *down_weight_new,
                           parc_bf16 *__restrict__ down_weight_bf16_new,
                           const float *d_down_weight,
                           const float *__restrict__ lr,
                           const float *down_weight_2,
                           float *__restrict__ workspace)
{
    PARC_SHARED float sum3[32];
    const int64_t part = block_index();
    float a3 = 0.0f;
    const float r4 = lr[0];
    for (int at = (int)part * 512 + thread_index(); at < 2048; at += 1024) {
        const int j = at * 8;
        float in0[8];
        parc_read_f32(in0, d_down_weight + j, 8);
        float in6[8];
        parc_read_f32(in6, down_weight_2 + j, 8);
        float out1[8];
        float out2[8];
        PARC_UNROLL
        for (int e = 0; e < 8; e++) {
            const float t0 = in0[e];
            const float t1 = t0 * t0; /* cuda.pdl:27 sumsq */
            const float t6 = in6[e];
            const float t5 = t0 * r4; /* cuda.pdl:5 mul */
            const float t7 = t6 - t5; /* cuda.pdl:5 sub */
            a3 += t1; /* cuda.pdl:27 sumsq */
            out1[e] = t7;
            out2[e] = t7;
        }
        parc_write_f32(down_weight_new + j, out1, 8);
        parc_write_bf16(down_weight_bf16_new + j, out2, 8);
    }
    block_put(warp_sum(a3), sum3);
    block_barrier();
    a3 = block_get_sum(sum3);
    if (thread_index() == 0) {
        workspace[block_index()] = a3;
    }
}

PARC_KERNEL(32)
k06_sgd_layers_down_weight_combine(float *__restrict__ sumsq,
                                   const float *__restrict__ workspace)
{
    float a3 = 0.0f;
    for (int part = lane_index(); part < 2; part += 32)
        a3 += workspace[part];
    const float e3 = warp_sum(a3); /* cuda.pdl:27 sumsq */
    if (thread_index() == 0) {
        sumsq[0] = e3;
    }
}

/* k07_sgd_layers_up_weight
 * from     cuda.pdl:4-27
 * fused    sumsq, add, mul, sub, cast
 * writes   add: [] of f32[]+dp+tp
 * writes   up_weight_new: [4, 4096] of f32[4 x 256/tp, 64]~dp
 * writes   up_weight_bf16_new: [4, 4096] of bf16[4 x 256/tp, 64]~dp
 * reads    d_up_weight: [4, 4096] of f32[4 x 256/tp, 64]~dp
 * reads    sumsq: [] of f32[]+dp+tp
 * reads    lr: [] of f32[]
 * reads    up_weight_2: [4, 4096] of f32[4 x 256/tp, 64]~dp
 * moves    224.0 KiB
 * launch   2 blocks of 512, vectors of 8; 1 of 32
 */
PARC_KERNEL(512, 2)
k07_sgd_layers_up_weight(float *up_weight_new,
                         parc_bf16 *__restrict__ up_weight_bf16_new,
                         const float *d_up_weight,
                         const float *__restrict__ lr,
                         const float *up_weight_2,
                         float *__restrict__ workspace)
{
    PARC_SHARED float sum3[32];
    const int64_t part = block_index();
    float a3 = 0.0f;
    const float r6 = lr[0];
    for (int at = (int)part * 512 + thread_index(); at < 2048; at += 1024) {
        const int j = at * 8;
        float in0[8];
        parc_read_f32(in0, d_up_weight + j, 8);
        float in8[8];
        parc_read_f32(in8, up_weight_2 + j, 8);
        float out1[8];
        float out2[8];
        PARC_UNROLL
        for (int e = 0; e < 8; e++) {
            const float t0 = in0[e];
            const float t1 = t0 * t0; /* cuda.pdl:27 sumsq */
            const float t8 = in8[e];
            const float t7 = t0 * r6; /* cuda.pdl:4 mul */
            const float t9 = t8 - t7; /* cuda.pdl:4 sub */
            a3 += t1; /* cuda.pdl:27 sumsq */
            out1[e] = t9;
            out2[e] = t9;
        }
        parc_write_f32(up_weight_new + j, out1, 8);
        parc_write_bf16(up_weight_bf16_new + j, out2, 8);
    }
    block_put(warp_sum(a3), sum3);
    block_barrier();
    a3 = block_get_sum(sum3);
    if (thread_index() == 0) {
        workspace[block_index()] = a3;
    }
}

PARC_KERNEL(32)
k07_sgd_layers_up_weight_combine(float *__restrict__ add,
                                 const float *__restrict__ sumsq,
                                 const float *__restrict__ workspace)
{
    float a3 = 0.0f;
    for (int part = lane_index(); part < 2; part += 32)
        a3 += workspace[part];
    const float e3 = warp_sum(a3); /* cuda.pdl:27 sumsq */
    const float e4 = sumsq[0];
    const float e5 = e3 + e4; /* cuda.pdl:27 add */
    if (thread_index() == 0) {
        add[0] = e5;
    }
}

/* k08_sqrt
 * from     cuda.pdl:27
 * fused    sqrt
 * writes   grad_norm: [] of f32[]
 * reads    add: [] of f32[]
 * moves    8 bytes
 * launch   1 block of 32
 */
PARC_KERNEL(32, 1)
k08_sqrt(float *grad_norm, const float *add)
{
    const int at = thread_index();
    if (at >= 1)
        return;
    const float r0 = add[0];
    const float r1 = parc_sqrt(r0); /* cuda.pdl:27 sqrt */
    grad_norm[0] = r1;
}
/* instances.cu: the hand-written kernels of Net, as parc 0.1.0
 * instantiates them for its types and sizes. The runtime launches them. */

#include "copy.cuh"
