/* train.c: one training step of Toy
 *
 * Written by parc 0.1.0 from toy.pdl:
 *   parc toy.pdl --target cpu --threads 1 --cpu x86-64-v3 --mesh 2x2
 * Edit it freely; the next run of parc overwrites it.
 *
 * Mesh: fsdp=2 tp=2
 */
#include "model.h"

/* Descriptors of the matmuls in matmul_spec. */
static ParcMatmul *matmul[2];

void forward(ParcRt *rt)
{
    forward_net1(rt);
    forward_loss(rt);
}

void backward(ParcRt *rt)
{
    backward_net1(rt);
}

void optimizer(ParcRt *rt)
{
    optimizer_net1(rt);
}

void step(ParcRt *rt)
{
    forward(rt);
    backward(rt);
    if (parc_goes_on(rt, AT_scale)) /* the loss is finite */
        optimizer(rt);
}

/* The matmuls c = a b: name; batch, m, n, k; strides of a batch, a row and a
 * column of a, of b and of c; scratch memory. */
static const ParcMatmulSpec matmul_spec[] = {
    {"net1_out",      1, 12,  6, 12, {0, 12, 1}, {0, 1, 12}, {0, 6, 1},  .scratch = AT_net1_out_2,      .scratch_bytes = 2816},
    {"d_net1.weight", 1,  6, 12, 12, {0, 1, 6},  {0, 12, 1}, {0, 12, 1}, .scratch = AT_d_net1_weight_2, .scratch_bytes = 2432},
};

void init_constants(ParcRt *rt)
{
    for (int i = 0; i < 2; i++)
        matmul[i] = parc_matmul_new(rt, &matmul_spec[i]);
}

/* net1 */
void forward_net1(ParcRt *rt)
{
    char *A = parc_arena(rt);
    parc_mark(rt, 0, 0);
    /* ag0 all_gather over fsdp: net1
     * parameters of unit net1
     * 288 B, in place: no data moves, toy.pdl:15:24 */
    /* barrier: all ranks have written net1.weight */
    parc_synchronize(rt, 0, AXIS_fsdp);
    float *x = (float *)(A + AT_x);
    float *net1_weight = (float *)(A + AT_net1_weight);
    float *net1_out = (float *)(A + AT_net1_out);
    parc_mark(rt, 1, 0);
    /* net1: einsum ak,fk->af (toy.pdl:7:26)
     * f32[24/fsdp, 12/tp] */
    parc_matmul(rt, matmul[0], x, net1_weight, net1_out);
}

/* loss */
void forward_loss(ParcRt *rt)
{
    char *A = parc_arena(rt);
    float *net1_out = (float *)(A + AT_net1_out);
    float *scale = (float *)(A + AT_scale);
    parc_mark(rt, 2, 0);
    k00_relu(rt, scale, net1_out);
    parc_mark(rt, 3, 0);
    /* ar1 all_reduce over fsdp,tp: scale
     * the model's result loss: fsdp P -> R, tp P -> R
     * 4 B, toy.pdl:6:5 */
    parc_all_reduce(rt, 1, AXIS_fsdp | AXIS_tp, PARC_SUM, 1, (ParcPart[]){
        {.src = AT_scale, .dst = AT_scale, .outer = 1, .inner = 1},
    });
}

/* net1 */
void backward_net1(ParcRt *rt)
{
    char *A = parc_arena(rt);
    float *net1_out = (float *)(A + AT_net1_out);
    float *d_net1_out = (float *)(A + AT_net1_out);
    parc_mark(rt, 4, 0);
    k01_relu_grad(rt, d_net1_out, net1_out);
    float *x = (float *)(A + AT_x);
    float *d_net1_weight = (float *)(A + AT_d_net1_weight);
    parc_mark(rt, 5, 0);
    /* net1: einsum af,ak->fk (toy.pdl:7:26)
     * f32[12/tp, 12]+fsdp */
    parc_matmul(rt, matmul[1], d_net1_out, x, d_net1_weight);
    parc_mark(rt, 6, 0);
    /* rs2 reduce_scatter over fsdp: net1
     * gradients of unit net1
     * 288 B, toy.pdl:15:24 */
    parc_reduce_scatter(rt, 2, AXIS_fsdp, 1, (ParcPart[]){
        {.src = AT_d_net1_weight, .dst = AT_d_net1_weight_3, .outer = 1,
            .inner = 36},
    });
}

/* net1 */
void optimizer_net1(ParcRt *rt)
{
    char *A = parc_arena(rt);
    float *d_net1_weight = (float *)(A + AT_d_net1_weight_3);
    float *sumsq = (float *)(A + AT_sumsq);
    parc_mark(rt, 7, 0);
    k02_sumsq(rt, sumsq, d_net1_weight);
    parc_mark(rt, 8, 0);
    /* ar3 all_reduce over fsdp,tp: sumsq
     * sqrt needs the full sum: fsdp P -> R, tp P -> R
     * 4 B, toy.pdl:18:1 */
    parc_all_reduce(rt, 3, AXIS_fsdp | AXIS_tp, PARC_SUM, 1, (ParcPart[]){
        {.src = AT_sumsq, .dst = AT_sumsq, .outer = 1, .inner = 1},
    });
    float *sumsq_2 = (float *)(A + AT_sumsq);
    float *grad_norm = (float *)(A + AT_sumsq);
    parc_mark(rt, 9, 0);
    k03_sqrt(rt, grad_norm, sumsq_2);
    float *lr = (float *)(A + AT_lr);
    float *net1_weight =
        (float *)(A + AT_net1_weight + parc_index(rt, AXIS_fsdp) * 144);
    parc_mark(rt, 10, 0);
    k04_sgd_net1_weight(rt, net1_weight, d_net1_weight, lr, net1_weight);
}
/* model.c: describes Toy to the runtime.
 *
 * Collectives: calls per step x bytes per call on each rank:
 *   ag0   all_gather     over fsdp      1 x          288  net1; in place: the ranks share the memory
 *   ar1   all_reduce     over fsdp,tp    1 x            4  scale
 *   rs2   reduce_scatter over fsdp      1 x          288  net1
 *   ar3   all_reduce     over fsdp,tp    1 x            4  sumsq
 */
#include "model.h"

static const ParcParam param[] = {
    {.name = "net1.weight",
     .nstack = 0, .ndim = 2, .dim = {12, 12},
     .split = {{1, -1}, {-1}},
     .flat_axes = AXIS_fsdp,
     .offset = AT_net1_weight, .local_elements = 36,
     .inside = true,
     .init = PARC_ARANGE, .a = 101, .b = 0,
     .placement = "fsdp=S(0) tp=S(0)"},
};

static const ParcInput input[] = {
    {.name = "x", .type = PARC_F32, .is_labels = false,
     .below = 0, .ndim = 2, .dim = {24, 12},
     .batch_axes = AXIS_fsdp, .offset = AT_x},
};

/* The names of collectives in messages. */
static const char *const collective[] = {
    "ag0 all_gather over fsdp: net1 (toy.pdl:15:24)",
    "ar1 all_reduce over fsdp,tp: scale (toy.pdl:6:5)",
    "rs2 reduce_scatter over fsdp: net1 (toy.pdl:15:24)",
    "ar3 all_reduce over fsdp,tp: sumsq (toy.pdl:18:1)",
    0
};

/* The statements, by the number in parc_mark: for --trace, messages, PARC_NANCHECK. */
static const ParcWork work[] = {
    [0] = {.id = "ag0", .kind = "collective", .phase = "forward",
     .path = "", .source = "toy.pdl:15:24",
     .detail = "all_gather over fsdp: net1, in place",
     .bytes = 0, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "net1.weight.2",
          .offset = AT_net1_weight, .elements = 72}},
     .nresults = 1},
    [1] = {.id = "net1_out", .kind = "matmul", .phase = "forward",
     .path = "net1", .source = "toy.pdl:7:26",
     .detail = "ak,fk->af",
     .bytes = 1152, .flops = 1728, .count = 1,
     .result = (const ParcResult[]){
         {.name = "net1_out",
          .offset = AT_net1_out, .elements = 72}},
     .nresults = 1},
    [2] = {.id = "k00_relu", .kind = "kernel", .phase = "forward",
     .path = "", .source = "toy.pdl:7:16",
     .bytes = 292, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "scale",
          .offset = AT_scale, .elements = 1}},
     .nresults = 1},
    [3] = {.id = "ar1", .kind = "collective", .phase = "forward",
     .path = "", .source = "toy.pdl:6:5",
     .detail = "all_reduce over fsdp,tp: scale",
     .bytes = 4, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "scale.2",
          .offset = AT_scale, .elements = 1}},
     .nresults = 1},
    [4] = {.id = "k01_relu_grad", .kind = "kernel", .phase = "backward",
     .path = "", .source = "toy.pdl:7:21",
     .bytes = 576, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "d_net1_out",
          .offset = AT_net1_out, .elements = 72}},
     .nresults = 1},
    [5] = {.id = "d_net1.weight", .kind = "matmul", .phase = "backward",
     .path = "net1", .source = "toy.pdl:7:26",
     .detail = "af,ak->fk",
     .bytes = 1152, .flops = 1728, .count = 1,
     .result = (const ParcResult[]){
         {.name = "d_net1.weight",
          .offset = AT_d_net1_weight, .elements = 72}},
     .nresults = 1},
    [6] = {.id = "rs2", .kind = "collective", .phase = "backward",
     .path = "", .source = "toy.pdl:15:24",
     .detail = "reduce_scatter over fsdp: net1",
     .bytes = 288, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "d_net1.weight.3",
          .offset = AT_d_net1_weight_3, .elements = 36}},
     .nresults = 1},
    [7] = {.id = "k02_sumsq", .kind = "kernel", .phase = "optimizer",
     .path = "", .source = "toy.pdl:18:1",
     .bytes = 148, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "sumsq",
          .offset = AT_sumsq, .elements = 1}},
     .nresults = 1},
    [8] = {.id = "ar3", .kind = "collective", .phase = "optimizer",
     .path = "", .source = "toy.pdl:18:1",
     .detail = "all_reduce over fsdp,tp: sumsq",
     .bytes = 4, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "sumsq.2",
          .offset = AT_sumsq, .elements = 1}},
     .nresults = 1},
    [9] = {.id = "k03_sqrt", .kind = "kernel", .phase = "optimizer",
     .path = "", .source = "toy.pdl:18:1",
     .bytes = 8, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "grad_norm",
          .offset = AT_sumsq, .elements = 1}},
     .nresults = 1},
    [10] = {.id = "k04_sgd_net1_weight", .kind = "kernel", .phase = "optimizer",
     .path = "net1", .source = "toy.pdl:4:11",
     .bytes = 436, .flops = 0, .count = 1,
     .result = (const ParcResult[]){
         {.name = "net1.weight.new",
          .offset = AT_net1_weight, .elements = 36,
          .cut = AXIS_fsdp, .run = 144}},
     .nresults = 1},
};

/* The text that --info prints. */
static const char info[] =
    "Toy under plan two_axes on fsdp=2 x tp=2 (4 ranks), f32, CPU\n"
    "\n"
    "parameters  144 in the model, 36 per rank\n"
    "batch       24, whole mesh\n"
    "optimizer   SGD, lr 0.01\n"
    "cpu         x86-64-v3, 1 thread per rank\n"
    "memory      4.00 KiB per rank at the peak; the tensors that are live then have 4.00 KiB\n"
    "            params           192 B\n"
    "            activations   1.06 KiB\n"
    "            workspace     2.75 KiB\n"
    "            144 B per rank of staging in host memory, only with --save-async\n"
    "work        14.40 Kflop per step, whole mesh (forward 6.91 K, backward 6.91 K)\n"
    "traffic     fsdp: 1 call, 288 B per rank and step; a rank sends 144 B; 1 gather in place\n"
    "            fsdp,tp: 2 calls, 8 B per rank and step; a rank sends 12 B\n"
    "\n"
    "Parameters (global shape, placement on each axis)\n"
    "  net1.weight  f32[12/tp, 12]~fsdp                fsdp=S(0) tp=S(0) unit net1  toy.pdl:4:11\n"
    "\n"
    "Collectives, in order (calls per step x bytes per call, on each rank;\n"
    "in place: the ranks share the memory, no data is copied)\n"
    " forward\n"
    "  ag0   all_gather     fsdp       1 x in place    net1\n"
    "        parameters of unit net1  (toy.pdl:15:24)\n"
    "  ar1   all_reduce     fsdp,tp    1 x 4 B         scale\n"
    "        the model's result loss: fsdp P -> R, tp P -> R  (toy.pdl:6:5)\n"
    " backward\n"
    "  rs2   reduce_scatter fsdp       1 x 288 B       net1\n"
    "        gradients of unit net1  (toy.pdl:15:24)\n"
    " optimizer\n"
    "  ar3   all_reduce     fsdp,tp    1 x 4 B         sumsq\n"
    "        sqrt needs the full sum: fsdp P -> R, tp P -> R  (toy.pdl:18:1)\n"
    "\n"
    "Process groups (rank = 2 fsdp + tp)\n"
    "  fsdp     2 groups of 2: {0, 2}, {1, 3}\n"
    "  fsdp,tp  1 group of 4: {0-3}\n"
    "\n"
    "Saved by the forward pass for the backward pass (bytes per rank)\n"
    "  net1_out                     f32[24/fsdp, 12/tp]                288 B\n"
    "\n"
    "Live at the memory peak, largest first (bytes per rank)\n"
    "    2.75 KiB  workspace   net1_out     toy.pdl:7:26\n"
    "       576 B  activations x            toy.pdl:6:13\n"
    "       320 B  activations net1_out     toy.pdl:7:26\n"
    "       192 B  params      net1.weight  toy.pdl:4:11\n"
    "        64 B  activations bias1        toy.pdl:18:1\n"
    "        64 B  activations bias2        toy.pdl:18:1\n"
    "        64 B  activations lr           toy.pdl:18:1\n";

static const ParcModel model = {
    .rt_version = PARC_RT_VERSION,
    .name = "Toy", .parc_version = "0.1.0",
    .source = "toy.pdl", .info = info,
    .plan_hash = 0x4f155c78dadf8492u,
    .naxes = 2,
    .axis = {{"fsdp", 2}, {"tp", 2}},
    .param = param, .nparams = 1,
    .input = input, .ninputs = 1,
    .arena_bytes = ARENA_BYTES, .threads = 1,
    .nshared = 1, .shared = (const ParcShared[]){
        {.axes = AXIS_fsdp, .offset = SHARED_fsdp, .bytes = 384}},
    .batch = 24, .seq = 1,
    .flops = 14401, .executed_flops = 14401,
    .optimizer = "SGD", .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999,
    .options = "batch seq precision optimizer reduce loss_scale ema schedule warmup head_chunk async_tp recompute epilogues accumulate copy_engines deterministic optimizer.momentum optimizer.nesterov optimizer.betas optimizer.eps optimizer.weight_decay optimizer.ns_coefficients optimizer.ns_steps optimizer.adjust_lr_fn optimizer.adamw_eps optimizer.beta2_decay optimizer.eps1 optimizer.eps2 optimizer.clip_threshold optimizer.no_decay optimizer.groups schedule.after schedule.rates schedule.shape",
    .at = {.loss = AT_scale, .grad_norm = AT_sumsq, .overflow = -1,
           .dropped = -1, .dropped_256 = -1, .lr = AT_lr,
           .bias1 = AT_bias1, .bias2 = AT_bias2, .clip = -1,
           .loss_scale = -1, .random = -1},
    .collective = collective, .ncollectives = 4,
    .work = work, .nwork = 11,
    .init = init_constants, .step = step,
};

int main(int argc, char **argv)
{
    parc_cpu_check(argv[0], &(ParcCpu){"x86-64-v3", PARC_CPU_FEATURES});
    return parc_main(argc, argv, &model);
}
/* model.h: the memory map of Toy, and the functions of train.c. */
#ifndef MODEL_H
#define MODEL_H

#include "kernels.h"
#include "parc_cpu.h"

#include <stddef.h>

#if PARC_RT_VERSION != 23
#error "the runtime is of another version of parc; rerun parc"
#endif

/* Sets of mesh axes. */
enum {
    AXIS_fsdp = 1 << 0,
    AXIS_tp = 1 << 1,
};

/* The offset of each buffer in a rank's arena. The comment above an offset has
 * the buffer's bytes, its category, and its live range: the parc_mark numbers of
 * the first and last statement that need it. Buffers may share addresses if their
 * live ranges do not overlap. */
#define ARENA_BYTES INT64_C(3904)
/* 384 bytes that the ranks along fsdp share. */
#define SHARED_fsdp INT64_C(2097152)
/* 384 bytes, params, the whole run */
#define AT_net1_weight (SHARED_fsdp + INT64_C(0))
/* 576 bytes, activations, marks 0 to 5 */
#define AT_x INT64_C(3008)
/* 320 bytes, activations, marks 1 to 5 */
#define AT_net1_out INT64_C(3584)
/* 2816 bytes, workspace, mark 1 */
#define AT_net1_out_2 INT64_C(192)
/* 64 bytes, activations, marks 2 to 10 */
#define AT_scale INT64_C(2944)
/* 320 bytes, grads, marks 5 to 6 */
#define AT_d_net1_weight INT64_C(2624)
/* 2432 bytes, workspace, mark 5 */
#define AT_d_net1_weight_2 INT64_C(192)
/* 192 bytes, grads, marks 6 to 10 */
#define AT_d_net1_weight_3 INT64_C(192)
/* 64 bytes, activations, marks 7 to 10 */
#define AT_sumsq INT64_C(384)
/* 64 bytes, activations, the whole run */
#define AT_lr INT64_C(0)
/* 64 bytes, activations, the whole run */
#define AT_bias1 INT64_C(64)
/* 64 bytes, activations, the whole run */
#define AT_bias2 INT64_C(128)

/* Functions of train.c. */
void forward_net1(ParcRt *rt);
void forward_loss(ParcRt *rt);
void forward(ParcRt *rt);
void backward_net1(ParcRt *rt);
void backward(ParcRt *rt);
void optimizer_net1(ParcRt *rt);
void optimizer(ParcRt *rt);
void step(ParcRt *rt);
void init_constants(ParcRt *rt);

#endif
/* kernels.c: the fused kernels of Toy, written by parc 0.1.0.
 *
 * Each is a group of elementwise ops and reductions that accesses memory once.
 * The comment above a kernel has the lines of the model that it computes, and
 * its tensors: a rank's part `of` the type of the global tensor. */
#include "kernels.h"

#include "parc_math.h"

/* k00_relu
 * from     toy.pdl:7
 * fused    relu, sum, scale
 * writes   scale: [] of f32[]+fsdp+tp
 * reads    net1_out: [12, 6] of f32[24/fsdp, 12/tp]
 * moves    292 bytes
 */
void k00_relu(ParcRt *rt, float *restrict scale,
              const float *restrict net1_out)
{
    (void)rt;
    float r2 = 0.0f;
    #pragma omp simd reduction(+ : r2)
    for (int j = 0; j < 72; j++) {
        const float t0 = net1_out[j];
        const float t1 = parc_max(t0, 0.0f); /* toy.pdl:7 relu */
        r2 += t1; /* toy.pdl:7 sum */
    }
    const float r3 = r2 * 0.00347222225f; /* toy.pdl:7 scale */
    scale[0] = r3;
}

/* k01_relu_grad
 * from     toy.pdl:6-7
 * fused    full, scale, reshape, broadcast, relu, step, mul
 * writes   d_net1_out: [12, 6] of f32[24/fsdp, 12/tp]
 * reads    net1_out: [12, 6] of f32[24/fsdp, 12/tp]
 * moves    576 bytes
 */
void k01_relu_grad(ParcRt *rt, float *d_net1_out, const float *net1_out)
{
    (void)rt;
    const float r1 = 1.0f * 0.00347222225f; /* toy.pdl:7 scale */
    #pragma omp simd
    for (int j = 0; j < 72; j++) {
        const float t2 = net1_out[j];
        const float t3 = parc_max(t2, 0.0f); /* toy.pdl:7 relu */
        /* toy.pdl:7 step */
        const float t4 = parc_select(t3 > 0.0f, 1.0f, 0.0f);
        const float t5 = r1 * t4; /* toy.pdl:7 mul */
        d_net1_out[j] = t5;
    }
}

/* k02_sumsq
 * from     toy.pdl:18
 * fused    sumsq
 * writes   sumsq: [] of f32[]+fsdp+tp
 * reads    d_net1_weight: [36] of f32[12/tp, 12]~fsdp
 * moves    148 bytes
 */
void k02_sumsq(ParcRt *rt, float *restrict sumsq,
               const float *restrict d_net1_weight)
{
    (void)rt;
    float r2 = 0.0f;
    #pragma omp simd reduction(+ : r2)
    for (int j = 0; j < 36; j++) {
        const float t0 = d_net1_weight[j];
        const float t1 = t0 * t0; /* toy.pdl:18 sumsq */
        r2 += t1; /* toy.pdl:18 sumsq */
    }
    sumsq[0] = r2;
}

/* k03_sqrt
 * from     toy.pdl:18
 * fused    sqrt
 * writes   grad_norm: [] of f32[]
 * reads    sumsq: [] of f32[]
 * moves    8 bytes
 */
void k03_sqrt(ParcRt *rt, float *grad_norm, const float *sumsq)
{
    (void)rt;
    const float r0 = sumsq[0];
    const float r1 = parc_sqrt(r0); /* toy.pdl:18 sqrt */
    grad_norm[0] = r1;
}

/* k04_sgd_net1_weight
 * from     toy.pdl:4
 * fused    mul, sub
 * writes   net1_weight_new: [36] of f32[12/tp, 12]~fsdp
 * reads    d_net1_weight: [36] of f32[12/tp, 12]~fsdp
 * reads    lr: [] of f32[]
 * reads    net1_weight_2: [36] of f32[12/tp, 12]~fsdp
 * moves    436 bytes
 */
void k04_sgd_net1_weight(ParcRt *rt, float *net1_weight_new,
                         const float *d_net1_weight, const float *restrict lr,
                         const float *net1_weight_2)
{
    (void)rt;
    const float r1 = lr[0];
    #pragma omp simd
    for (int j = 0; j < 36; j++) {
        const float t3 = net1_weight_2[j];
        const float t0 = d_net1_weight[j];
        const float t2 = t0 * r1; /* toy.pdl:4 mul */
        const float t4 = t3 - t2; /* toy.pdl:4 sub */
        net1_weight_new[j] = t4;
    }
}
