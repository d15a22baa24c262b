    {"y",             1,  2, 16,  8, {0, 8, 1},  {0, 1, 8},  {0, 16, 1}, .scratch = AT_eval_y_2,        .scratch_bytes = 2432},
    {"y.3",           1,  2,  6, 16, {0, 16, 1}, {0, 1, 16}, {0, 6, 1},  .scratch = AT_eval_y_3_2,      .scratch_bytes = 2432},
    {"y",             1,  2, 16,  8, {0, 8, 1},  {0, 1, 8},  {0, 16, 1}, .scratch = AT_outputs_y_2,     .scratch_bytes = 2432},
    {"y.3",           1,  2,  6, 16, {0, 16, 1}, {0, 1, 16}, {0, 6, 1},  .scratch = AT_outputs_y_3_2,   .scratch_bytes = 2432},
void eval_run(ParcRt *rt)
    eval_Forward(rt);
        eval_wide(rt, micro);
        eval_head(rt, micro);
    eval_Forward_2(rt);
void eval_init(ParcRt *rt)
void eval_Forward(ParcRt *rt)
    float *scale = (float *)(A + AT_eval_scale_3);
void eval_wide(ParcRt *rt, int64_t micro)
    float *x = (float *)(A + AT_eval_x + micro * 64);
    float *y = (float *)(A + AT_eval_y);
    float *relu = (float *)(A + AT_eval_y);
void eval_head(ParcRt *rt, int64_t micro)
    float *relu = (float *)(A + AT_eval_y);
    float *y = (float *)(A + AT_eval_y_3);
    int32_t *labels = (int32_t *)(A + AT_eval_labels + micro * 8);
    float *scale = (float *)(A + AT_eval_scale_3);
    float *scale_2 = (float *)(A + AT_eval_scale_5);
        (float *)(A + AT_eval_scale_5_2));
    float *scale_3 = (float *)(A + AT_eval_scale_3);
void eval_Forward_2(ParcRt *rt)
        {.src = AT_eval_scale_3, .dst = AT_eval_scale_3, .outer = 1,
/* ---- The model's outputs for one microbatch. ---- */
void outputs_run(ParcRt *rt)
    outputs_wide(rt);
    outputs_head(rt);
void outputs_init(ParcRt *rt)
void outputs_wide(ParcRt *rt)
    float *x = (float *)(A + AT_outputs_x);
    float *y = (float *)(A + AT_outputs_y);
    float *relu = (float *)(A + AT_outputs_y);
void outputs_head(ParcRt *rt)
    float *relu = (float *)(A + AT_outputs_y);
    float *y = (float *)(A + AT_outputs_y_3);
    float *head_out = (float *)(A + AT_outputs_y_3);
    [31] = {.id = "scale.3", .kind = "fill", .phase = "evaluation",
          .offset = AT_eval_scale_3, .elements = 1}},
    [32] = {.id = "ag4", .kind = "collective", .phase = "evaluation",
    [33] = {.id = "y", .kind = "matmul", .phase = "evaluation",
          .offset = AT_eval_y, .elements = 32}},
    [34] = {.id = "k16_wide_relu", .kind = "kernel", .phase = "evaluation",
          .offset = AT_eval_y, .elements = 32}},
    [35] = {.id = "y.3", .kind = "matmul", .phase = "evaluation",
          .offset = AT_eval_y_3, .elements = 12}},
    [36] = {.id = "k17_cross_entropy", .kind = "kernel", .phase = "evaluation",
          .offset = AT_eval_scale_5, .elements = 1}},
    [37] = {.id = "scale.9", .kind = "copy", .phase = "evaluation",
          .offset = AT_eval_scale_3, .elements = 1}},
    [38] = {.id = "ar5", .kind = "collective", .phase = "evaluation",
          .offset = AT_eval_scale_3, .elements = 1}},
    [39] = {.id = "ag6", .kind = "collective", .phase = "outputs",
    [40] = {.id = "y", .kind = "matmul", .phase = "outputs",
          .offset = AT_outputs_y, .elements = 32}},
    [41] = {.id = "k18_wide_relu", .kind = "kernel", .phase = "outputs",
          .offset = AT_outputs_y, .elements = 32}},
    [42] = {.id = "y.3", .kind = "matmul", .phase = "outputs",
          .offset = AT_outputs_y_3, .elements = 12}},
    [43] = {.id = "k19_head_add", .kind = "kernel", .phase = "outputs",
          .offset = AT_outputs_y_3, .elements = 12}},
    "Side programs (they run between training steps, in the same memory)\n"
    "  evaluation  4.88 KiB per rank at the peak, 3.58 Kflop per run\n"
    "  outputs     4.62 KiB per rank at the peak, 1.79 Kflop per run\n"
    "              logits f32[4/dp, 6]\n"
static const ParcInput eval_input[] = {
     .batch_axes = AXIS_dp, .offset = AT_eval_x},
     .batch_axes = AXIS_dp, .offset = AT_eval_labels},
static const ParcProgram eval = {
    .init = eval_init, .begin = NULL, .run = eval_run,
    .at = {.loss = AT_eval_scale_3, .grad_norm = -1, .overflow = -1,
    .input = eval_input, .ninputs = 2,
static const ParcInput outputs_input[] = {
     .batch_axes = AXIS_dp, .offset = AT_outputs_x},
static const ParcOutput outputs_output[] = {
    {.name = "logits", .type = PARC_F32,
     .offset = AT_outputs_y_3},
static const ParcProgram outputs = {
    .init = outputs_init, .begin = NULL, .run = outputs_run,
    .input = outputs_input, .ninputs = 2,
    .output = outputs_output, .noutputs = 1,
    .eval = &eval,
    .outputs = &outputs,
/* Buffers of eval_run, after what the training step keeps. */
#define AT_eval_x INT64_C(3968)
#define AT_eval_labels INT64_C(4224)
#define AT_eval_scale_3 INT64_C(4288)
#define AT_eval_y INT64_C(4096)
#define AT_eval_y_2 INT64_C(1536)
#define AT_eval_y_3 INT64_C(4352)
#define AT_eval_y_3_2 INT64_C(1536)
#define AT_eval_scale_5 INT64_C(1536)
#define AT_eval_scale_5_2 INT64_C(1600)
/* Buffers of outputs_run, after what the training step keeps. */
#define AT_outputs_x INT64_C(4096)
#define AT_outputs_y INT64_C(3968)
#define AT_outputs_y_2 INT64_C(1536)
#define AT_outputs_y_3 INT64_C(4096)
#define AT_outputs_y_3_2 INT64_C(1536)
void eval_Forward(ParcRt *rt);
void eval_wide(ParcRt *rt, int64_t micro);
void eval_head(ParcRt *rt, int64_t micro);
void eval_Forward_2(ParcRt *rt);
void eval_run(ParcRt *rt);
void eval_init(ParcRt *rt);
void outputs_wide(ParcRt *rt);
void outputs_head(ParcRt *rt);
void outputs_run(ParcRt *rt);
void outputs_init(ParcRt *rt);
