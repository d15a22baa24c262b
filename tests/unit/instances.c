/* instances.c: checks which instances of hand-written device code a program
 * needs: copies of the code for constant types and sizes, which
 * codegen/cuda/cuda_instances.c makes.
 *
 *   instances              checks
 *   instances --text       prints the instances that tests/standin/
 *                          device_cases.h needs, for device_test.c
 */
#include "codegen/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

#include "runtime/cuda/attention/rt_attention_plan.h"
#include "tests/standin/device_cases.h"
#include "tests/unit/check.h"

typedef struct Text {
    Program *p;
    Build b;
    Out cu;
    CudaKernels kernels;
} Text;

static void begin(Text *t, Arena *a)
{
    *t = (Text){.p = ir_program(a, diag_new(a, COLOR_NEVER)),
                .kernels = {.arena = a}};
    t->b = (Build){
        .p = t->p, .region = t->p->step, .phase = PH_FORWARD, .path = ""};
    out_init(&t->cu, a);
}

static const DType dtype_of[] = {DT_F32, DT_BF16, DT_F16};

/* The list of dims ends with a 0. */
static Value *tensor(Text *t, DType dtype, const int64_t *dim)
{
    int n = 0;
    Type type = {.dtype = dtype};
    for (; n < MAX_DIMS && dim[n]; n++)
        type.dim[n] = dim[n];
    type.ndim = n;
    Attr attr[MAX_ATTRS] = {{.i = t->p->input.n}};
    const char *name = "x";
    Op *op = ir_op_typed(&t->b, OP_input, 0, NULL, attr, 1, &type, &name);
    vec_push(t->p->arena, &t->p->input,
             ((Input){.name = name, .type = type, .value = op->out[0]}));
    return op->out[0];
}

static void attention(Text *t, const AttentionCase *c)
{
    DType type = dtype_of[c->type];
    int64_t all = all_queries(c);
    Value *q = tensor(t, type, (int64_t[]){c->b, all, c->kv * c->g, c->d, 0});
    t->p->mesh = (Mesh){.n = 1, .name = {"cp"}, .size = {2}};
    if (all > c->s)
        q->type.place.ax[0] = (AxisPlace){AX_S, 1, 0};
    Value *k = tensor(t, type, (int64_t[]){c->b, c->t, c->kv, c->d, 0});
    Value *v = tensor(t, type, (int64_t[]){c->b, c->t, c->kv, c->e, 0});
    Attr attr[MAX_ATTRS] = {{.i = c->causal}, {.f = 0.5}, {.i = c->window}, {.f = c->softcap},
                            {.i = c->segments > 0}};
    attr[8].i = c->bias;
    Value *forward[7] = {q, k, v};
    int n = 3;
    if (c->drop) {
        attr[5].f = 0.25;
        attr[6].i = 3;
        attr[7].l = (AttrList){.n = 3, .v = {1, 1, 1}};
        forward[n++] = tensor(t, DT_I64, (int64_t[]){0});
    }
    if (c->segments > 0) {
        forward[n++] = tensor(t, DT_I32, (int64_t[]){c->b, all, 0});
        forward[n++] = tensor(t, DT_I32, (int64_t[]){c->b, c->t, 0});
    }
    if (c->bias) {
        const int64_t size[4] = {c->b, c->kv * c->g, all, c->t};
        int64_t dim[5] = {0};
        for (int i = 0, d = 0; i < 4; i++)
            if (c->bias >> i & 1)
                dim[d++] = size[i];
        forward[n++] = tensor(t, DT_F32, dim);
    }
    Op *op = ir_op(&t->b, OP_attention, n, forward, attr, "o");
    Value *o = op->out[0];
    Value *backward[10] = {o, q, k, v, o, op->out[1]};
    for (int i = 3; i < n; i++)
        backward[3 + i] = forward[i];
    ir_op(&t->b, OP_attention_grad, 3 + n, backward, attr, "d");
    if (c->bias >> 2 == 3)
        ir_op(&t->b, OP_attention_bias_grad, 3 + n, backward, attr, "dbias");
}

/* A value of a type that is split over the ranks of the ring along a dim. */
static Value *part(Text *t, DType type, const int64_t *dim, int split)
{
    Value *v = tensor(t, type, dim);
    v->type.place.ax[0] = (AxisPlace){AX_S, (uint8_t)split, 0};
    return v;
}

static void ring(Text *t, const RingCase *r)
{
    const AttentionCase *c = &r->of;
    DType type = dtype_of[c->type];
    int64_t all = 2 * c->t, heads = c->kv * c->g;
    t->p->mesh = (Mesh){.n = 1, .name = {"cp"}, .size = {2}};
    Value *q = part(t, type, (int64_t[]){c->b, all, heads, c->d, 0}, 1);
    Value *k = part(t, type, (int64_t[]){c->b, all, c->kv, c->d, 0}, 1);
    Value *v = part(t, type, (int64_t[]){c->b, all, c->kv, c->e, 0}, 1);
    Attr attr[MAX_ATTRS] = {{.i = c->causal}, {.f = 0.5}, {.i = c->window}, {.f = c->softcap},
                            {.i = c->segments > 0}};
    attr[9].i = true;
    Value *forward[9] = {q, k, v};
    int n = 3;
    if (c->drop) {
        attr[5].f = 0.25;
        attr[6].i = 3;
        attr[7].l = (AttrList){.n = 3, .v = {1, 1, 1}};
        forward[n++] = tensor(t, DT_I64, (int64_t[]){0});
    }
    for (int i = 0; i < 2 && c->segments > 0; i++)
        forward[n++] = part(t, DT_I32, (int64_t[]){c->b, all, 0}, 1);
    forward[n++] = part(t, DT_I64, (int64_t[]){r->second_t ? 4 : 2, 0}, 0);
    forward[n] = forward[n - 1];
    n++;
    Op *op = ir_op(&t->b, OP_attention_step, n, forward, attr, "o");
    Value *o = ir_cast(&t->b, op->out[0], type), *backward[12] = {o, q, k, v, o, op->out[1]};
    for (int i = 3; i < n; i++)
        backward[3 + i] = forward[i];
    ir_op(&t->b, OP_attention_grad_step, 3 + n, backward, attr, "d");
}

static void embedding(Text *t, const EmbeddingCase *c)
{
    DType type = dtype_of[c->type];
    Value *ids = tensor(t, DT_I32, (int64_t[]){c->n, 0});
    Value *table = tensor(t, type, (int64_t[]){c->rows, c->width, 0});
    Value *dy = tensor(t, type, (int64_t[]){c->n, c->width, 0});
    Attr attr[MAX_ATTRS] = {{.i = c->rows}};
    ir_op(&t->b, OP_embedding, 2, (Value *[]){table, ids}, attr, "y");
    ir_op(&t->b, OP_embedding_grad, 2, (Value *[]){dy, ids}, attr, "d");
}

static void topk(Text *t, const TopkCase *c)
{
    DType type = dtype_of[c->type];
    Value *x = tensor(t, type, (int64_t[]){c->rows, c->width, 0});
    Attr attr[MAX_ATTRS] = {{.i = c->n}, {.i = c->largest}};
    Op *op = ir_op(&t->b, OP_topk, 1, &x, attr, "v");
    attr[0].i = c->width;
    ir_op(&t->b, OP_topk_grad, 2, op->out, attr, "d");
}

/* conv_grad_x has the result's type `out` as well. */
static void conv(Text *t, const ConvCase *c)
{
    DType type = dtype_of[c->type];
    int64_t result = (c->image + 2 * c->padding - c->dilation * (c->kernel - 1) - 1) / c->stride + 1;
    Value *x = tensor(t, type, (int64_t[]){c->n, c->g * c->c, c->image, c->image, 0});
    Value *w = tensor(t, type, (int64_t[]){c->g * c->k, c->c, c->kernel, c->kernel, 0});
    Value *dy = tensor(t, type, (int64_t[]){c->n, c->g * c->k, result, result, 0});
    Attr attr[MAX_ATTRS] = {{.i = dtype_of[c->out]}, {.l = {2, {c->stride, c->stride}}},
                            {.l = {2, {c->padding, c->padding}}},
                            {.l = {2, {c->dilation, c->dilation}}}, {.i = c->g},
                            {.l = {2, {result, result}}}};
    ir_op(&t->b, OP_conv, 2, (Value *[]){x, w}, attr, "y");
    attr[5].l = (AttrList){2, {c->image, c->image}};
    ir_op(&t->b, OP_conv_grad_x, 2, (Value *[]){dy, w}, attr, "dx");
    attr[5].l = (AttrList){2, {c->kernel, c->kernel}};
    ir_op(&t->b, OP_conv_grad_weight, 2, (Value *[]){dy, x}, attr, "dw");
}

/* The rank's shards are all of a program without a mesh. */
static void experts(Text *t, const ExpertsCase *c)
{
    DType type = dtype_of[c->type];
    int64_t b = c->g * c->b, s = c->h * c->s, all = c->x * c->experts;
    Value *ids = tensor(t, DT_I32, (int64_t[]){b, s, c->k, 0});
    Value *by = tensor(t, type, (int64_t[]){b, s, c->k, 0});
    Value *x = tensor(t, type, (int64_t[]){b, s, c->d, 0});
    Value *w = tensor(t, type, (int64_t[]){all, c->f, c->d, 0});
    Value *y = tensor(t, type, (int64_t[]){c->g, c->h, c->x, c->r, c->f, 0});
    Attr none[MAX_ATTRS] = {{0}}, out[MAX_ATTRS] = {{.i = dtype_of[c->out]}};
    AttrList shape = {5, {c->g, c->h, c->x, c->r, c->experts}};
    Attr limit[MAX_ATTRS] = {{.i = all}, {.i = 1}};
    ir_op(&t->b, OP_limit_choices, 2, (Value *[]){ids, ids}, limit, "l");
    Op *group = ir_group_rows(&t->b, ids, shape, 0, "g");
    Value *pair = group->out[0], *row = group->out[1], *ends = group->out[2];
    Value *rows = ir_value(&t->b, OP_gather_rows, 3, (Value *[]){x, pair, row}, none, "r");
    ir_op(&t->b, OP_combine_rows, 3, (Value *[]){rows, pair, row}, none, "c");
    by = ir_value(&t->b, OP_gather_pairs, 3, (Value *[]){by, pair, row}, none, "p");
    ir_op(&t->b, OP_scatter_pairs, 3, (Value *[]){by, pair, row}, none, "s");
    ir_op(&t->b, OP_grouped_matmul, 3, (Value *[]){rows, w, ends}, out, "y");
    ir_op(&t->b, OP_grouped_matmul_grad_rows, 3, (Value *[]){y, w, ends}, out, "dx");
    ir_op(&t->b, OP_grouped_matmul_grad_weight, 3, (Value *[]){y, rows, ends}, out, "dw");
}

static void others(Text *t)
{
    Value *x = tensor(t, DT_F32, (int64_t[]){3, 4, 0});
    Value *key = tensor(t, DT_I64, (int64_t[]){0});
    Attr attr[MAX_ATTRS] = {{.i = 4}, {.i = 0}, {.i = 1}};
    ir_transpose(&t->b, x, (AttrList){.n = 2, .v = {1, 0}});
    ir_op(&t->b, OP_split_key, 1, &key, attr, "keys");
}

static void every_case(Text *t)
{
    for (int i = 0; i < ATTENTION_CASES; i++)
        attention(t, &attention_cases[i]);
    for (int i = 0; i < RING_CASES; i++)
        ring(t, &ring_cases[i]);
    for (int i = 0; i < EMBEDDING_CASES; i++)
        embedding(t, &embedding_cases[i]);
    for (int i = 0; i < TOPK_CASES; i++)
        topk(t, &topk_cases[i]);
    for (int i = 0; i < CONV_CASES; i++)
        conv(t, &conv_cases[i]);
    for (int i = 0; i < EXPERTS_CASES; i++)
        experts(t, &experts_cases[i]);
    others(t);
    cuda_instances_emit(&t->cu, t->p, &t->kernels);
}

static int count(const char *text, const char *word)
{
    int n = 0;
    while ((text = strstr(text, word))) {
        n++;
        text++;
    }
    return n;
}

/* Heads of every size fit a device with `block_memory` bytes of shared memory.
 */
static void every_size_fits(Check *c, int64_t block_memory)
{
    AttentionPlan p;
    int64_t most = 0;
    for (int kind = 0; kind < 4; kind++)
        for (int64_t d = 1; d <= 256; d++)
            for (int64_t e = 1; e <= 256; e++) {
                ParcAttention a = {.type = kind & 1 ? PARC_BF16 : PARC_F32, .d = d, .e = e,
                                   .causal = true, .drop = kind & 2 ? 0.5f : 0};
                rt_attention_plan(&p, &a, "f32", block_memory);
                for (int i = 0; i < ATTENTION_KERNELS; i++)
                    most = p.shared[i] > most ? p.shared[i] : most;
            }
    CHECK(c, most <= block_memory);
}

int main(int argc, char **argv)
{
    Arena *a = arena_new();
    Check c = {0};
    Text t;
    begin(&t, a);
    if (argc > 1 && !strcmp(argv[1], "--text")) {
        every_case(&t);
        fwrite(t.cu.text, 1, t.cu.size, stdout);
        arena_free(a);
        return 0;
    }
    cuda_instances_emit(&t.cu, t.p, &t.kernels);
    CHECK(&c, t.cu.size == 0 && t.kernels.symbol.n == 0);

    /* Layers share equal instances; sizes that are not constants do not
     * matter. A kernel of the backward pass has a low-shared-memory variant. */
    AttentionCase shape = {1, 1, 8, 8, 1, 1, 128, 128, true, false, 0, false, 0, 0, 0, 0, 0};
    attention(&t, &shape);
    shape.s = shape.t = 64;
    attention(&t, &shape);
    cuda_instances_emit(&t.cu, t.p, &t.kernels);
    CHECK(&c, count(t.cu.text, "#include \"attention.cuh\"") == 1);
    CHECK(&c, count(t.cu.text, "#include \"attention_grad.cuh\"") == 2);
    CHECK(&c, count(t.cu.text, "#define ATTENTION_D 128\n") == 3);
    CHECK(&c, t.kernels.symbol.n == 5);
    CHECK(&c, count(t.cu.text, "#define KEY_ROWS") == 2);
    CHECK(&c, count(t.cu.text, "#define QUERY_ROWS") == 1);
    CHECK(&c, !strcmp(t.kernels.symbol.at[0],
                      "attention_forward_bf16_d128_e128_causal"));
    CHECK(&c, !strcmp(t.kernels.symbol.at[4],
                      "attention_key_low_shared_bf16_d128_e128_causal"));
    every_size_fits(&c, RT_SHARED_MIN);
    every_size_fits(&c, RT_SHARED_MAX);

    /* Every macro is emitted with its instance. */
    begin(&t, a);
    every_case(&t);
    CHECK(&c, count(t.cu.text, "#define ") == count(t.cu.text, "#undef "));
    Text again;
    begin(&again, a);
    every_case(&again);
    CHECK(&c, !strcmp(t.cu.text, again.cu.text));
    arena_free(a);
    return check_end(&c);
}
