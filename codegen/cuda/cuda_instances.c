/* cuda_instances.c: instantiates the hand-written kernels that a program needs
 * (attention, convolutions, embedding, orders, experts, copies; runtime/cuda, files *.cuh).
 *
 * A file of device code is included once for each instance, after the macros
 * that parameterize it, if any: sizes that should be constants, types, names.
 * Instances depend on types and sizes of ops only; layers of a model and ranks of a
 * mesh share them.
 *
 *   #define EMBEDDING_BYTES 16
 *   #define EMBEDDING_NAME(kernel) kernel##_16
 *   #include "embedding.cuh"
 *   #undef EMBEDDING_BYTES
 *   #undef EMBEDDING_NAME
 */
#include <stdarg.h>
#include <string.h>

#include "base/version.h"
#include "codegen/attention_call.h"
#include "codegen/conv_call.h"
#include "codegen/c_text.h"
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/experts_call.h"
#include "codegen/numbers.h"
#include "ir/analysis/attention.h"
#include "runtime/cuda/attention/rt_attention_plan.h"
#include "runtime/cuda/core/rt_experts_plan.h"

typedef struct Macro {
    const char *name, *value;
} Macro;

enum { MAX_MACROS = 32 };

typedef struct Instances {
    Out *o;
    const Program *p;
    CudaKernels *kernels;
    Arena *arena;
    VEC(const char *) done; /* instances written so far */
    int nmacros;
    Macro macro[MAX_MACROS]; /* macros of the instance being written */
} Instances;

/* The names of a float type in device code. */
typedef struct FloatName {
    const char *name, *element, *tile;
    int bytes;
} FloatName;

static FloatName float_name(DType t)
{
    static const FloatName of[] = {
        [DT_F32] = {"f32", "float", "TILE_F32", 4},
        [DT_BF16] = {"bf16", "parc_bf16", "TILE_BF16", 2},
        [DT_F16] = {"f16", "parc_f16", "TILE_F16", 2},
        [DT_I32] = {0},
        [DT_I64] = {0},
    };
    return of[t];
}

/* ---- one instance -------------------------------------------------------- */

/* Begins an instance. Returns false if the file already contains it. */
static bool begin_instance(Instances *in, const char *name)
{
    for (int i = 0; i < in->done.n; i++)
        if (!strcmp(in->done.at[i], name))
            return false;
    vec_push(in->arena, &in->done, name);
    in->nmacros = 0;
    return true;
}

__attribute__((format(printf, 3, 4)))
static void define(Instances *in, const char *name, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    in->macro[in->nmacros++] = (Macro){name, arena_vprintf(in->arena, fmt, ap)};
    va_end(ap);
}

static void define_number(Instances *in, const char *name, int64_t value)
{
    define(in, name, "%lld", (long long)value);
}

static void include(Instances *in, const char *file)
{
    if (in->o->size == 0) {
        out_line(in->o, "/* instances.cu: the hand-written kernels of %s, as "
                        "parc " PARC_VERSION, c_comment(in->arena, in->p->model));
        out_line(in->o, " * instantiates them for its types and sizes. The "
                        "runtime launches them. */");
    }
    out_line(in->o, "");
    for (int i = 0; i < in->nmacros; i++)
        out_line(in->o, "#define %s %s", in->macro[i].name, in->macro[i].value);
    out_line(in->o, "#include \"%s\"", file);
    for (int i = 0; i < in->nmacros; i++) {
        const char *name = in->macro[i].name;
        out_line(in->o, "#undef %.*s", (int)strcspn(name, "("), name);
    }
}

static void kernel(Instances *in, const char *name, const char *suffix)
{
    cuda_kernel_number(in->kernels,
                       arena_printf(in->arena, "%s_%s", name, suffix));
}

/* ---- kinds of instances -------------------------------------------------- */

/* A call of attention, and the type of its elements. */
typedef struct AttentionKind {
    ParcAttention call;
    DType dtype;
} AttentionKind;

static AttentionPlan attention_plan(const AttentionKind *k,
                                    int64_t block_memory)
{
    AttentionPlan p;
    rt_attention_plan(&p, &k->call, float_name(k->dtype).name, block_memory);
    return p;
}

/* `variant`: "_low_shared" for the variant with less shared memory, or "". */
static void attention_macros(Instances *in, const char *suffix,
                             const char *variant, const AttentionKind *k)
{
    FloatName f = float_name(k->dtype);
    define(in, "ATTENTION_NAME(kernel)", "attention_##kernel##%s_%s", variant,
           suffix);
    define(in, "ATTENTION_TYPE", "%s", f.tile);
    define(in, "ATTENTION_ELEMENT", "%s", f.element);
    if (k->call.all_t > 0)
        define(in, "ATTENTION_RESULT", "float *");
    else
        define(in, "ATTENTION_RESULT", "%s *__restrict__", f.element);
    define(in, "ATTENTION_READ", "parc_read_%s", f.name);
    define_number(in, "ATTENTION_D", k->call.d);
    define_number(in, "ATTENTION_E", k->call.e);
    define_number(in, "ATTENTION_CAUSAL", k->call.causal);
    define_number(in, "ATTENTION_WINDOW", k->call.window > 0);
    define_number(in, "ATTENTION_SOFTCAP", k->call.softcap > 0);
    define_number(in, "ATTENTION_SEGMENTS", k->call.segments);
    define_number(in, "ATTENTION_BIAS", k->call.bias_dims != 0);
    define_number(in, "ATTENTION_DROP", k->call.drop > 0);
    define_number(in, "ATTENTION_PARTS", rt_attention_parts(&k->call));
    define_number(in, "ATTENTION_RING", k->call.all_t > 0);
}

/* The macros for the tile sizes of a kernel; defining them also selects it. The kernel for
 * the bias owns queries. */
static void tile_macros(Instances *in, int which, const AttentionPlan *p)
{
    static const char *const name[][2] = {
        {"FORWARD", "KEYS"}, {"QUERY", "KEYS"}, {"KEY", "QUERIES"}, {"QUERY", "KEYS"}};
    const AttentionTiles *t = &p->tiles[which];
    const char *prefix = name[which][0];
    Arena *a = in->arena;
    define_number(in, arena_printf(a, "%s_ROWS", prefix), t->rows);
    define_number(in, arena_printf(a, "%s_WARPS", prefix), t->warps);
    define_number(in, arena_printf(a, "%s_THREADS", prefix),
                  t->warps * CUDA_WARP);
    define_number(in, arena_printf(a, "%s_BLOCKS", prefix), t->blocks);
    define_number(in, arena_printf(a, "%s_%s", prefix, name[which][1]),
                  t->step);
    if (which == ATTENTION_KEY)
        define_number(in, "KEY_PARTS", t->parts);
}

static void attention_kernel(Instances *in, int which, const AttentionPlan *p)
{
    char symbol[RT_SYMBOL];
    rt_attention_symbol(symbol, sizeof symbol, which, p);
    cuda_kernel_number(in->kernels, arena_strdup(in->arena, symbol));
}

static void attention_forward(Instances *in, const AttentionKind *k)
{
    AttentionPlan p = attention_plan(k, RT_SHARED_MAX);
    const char *suffix = arena_strdup(in->arena, p.suffix);
    if (!begin_instance(in, suffix))
        return;
    attention_macros(in, suffix, "", k);
    tile_macros(in, ATTENTION_FORWARD, &p);
    include(in, "attention.cuh");
    attention_kernel(in, ATTENTION_FORWARD, &p);
}

/* The backward pass is an instance of its own, since a program without
 * gradients does not need it. */
static void attention_grad(Instances *in, const AttentionKind *k)
{
    AttentionPlan p = attention_plan(k, RT_SHARED_MAX);
    AttentionPlan least = attention_plan(k, RT_SHARED_MIN);
    const char *suffix = arena_strdup(in->arena, p.suffix);
    if (!begin_instance(in, arena_printf(in->arena, "%s grad", suffix)))
        return;
    attention_macros(in, suffix, "", k);
    define_number(in, "DELTA_THREADS", ATTENTION_DELTA_THREADS);
    tile_macros(in, ATTENTION_QUERY, &p);
    tile_macros(in, ATTENTION_KEY, &p);
    include(in, "attention_grad.cuh");
    kernel(in, "attention_delta", suffix);
    attention_kernel(in, ATTENTION_QUERY, &p);
    attention_kernel(in, ATTENTION_KEY, &p);
    if (!least.low_shared[ATTENTION_QUERY] && !least.low_shared[ATTENTION_KEY])
        return;
    in->nmacros = 0;
    attention_macros(in, suffix, "_low_shared", k);
    for (int i = ATTENTION_QUERY; i <= ATTENTION_KEY; i++)
        if (least.low_shared[i])
            tile_macros(in, i, &least);
    include(in, "attention_grad.cuh");
    for (int i = ATTENTION_QUERY; i <= ATTENTION_KEY; i++)
        if (least.low_shared[i])
            attention_kernel(in, i, &least);
}

static void attention_bias(Instances *in, const AttentionKind *k)
{
    AttentionPlan p = attention_plan(k, RT_SHARED_MAX);
    const char *suffix = arena_strdup(in->arena, p.suffix);
    if (!begin_instance(in, arena_printf(in->arena, "%s of bias", suffix)))
        return;
    attention_macros(in, suffix, "_bias", k);
    define_number(in, "DELTA_THREADS", ATTENTION_DELTA_THREADS);
    tile_macros(in, ATTENTION_BIAS, &p);
    include(in, "attention_bias.cuh");
    kernel(in, "attention_delta_bias", suffix);
    attention_kernel(in, ATTENTION_BIAS, &p);
}

static void attention_op(Instances *in, const Op *op)
{
    const Type *q = &op->arg[attention_operands(op).q]->type;
    AttentionKind kind = {attention_call(in->p, op), q->dtype};
    if (op->kind == OP_attention_bias_grad)
        attention_bias(in, &kind);
    else if (attention_is_backward(op->kind))
        attention_grad(in, &kind);
    else
        attention_forward(in, &kind);
}

static void embedding(Instances *in, int64_t row_bytes)
{
    const char *width =
        arena_printf(in->arena, "%d", rt_instance_vector(row_bytes));
    if (!begin_instance(in, arena_printf(in->arena, "embedding %s", width)))
        return;
    define(in, "EMBEDDING_BYTES", "%s", width);
    define(in, "EMBEDDING_NAME(kernel)", "kernel##_%s", width);
    include(in, "embedding.cuh");
    kernel(in, "embedding", width);
}

static void embedding_grad(Instances *in, DType dtype, int64_t width)
{
    FloatName f = float_name(dtype);
    int columns = rt_instance_columns(width, f.bytes);
    const char *suffix = arena_printf(in->arena, "%s_%d", f.name, columns);
    if (!begin_instance(in,
                        arena_printf(in->arena, "embedding_grad %s", suffix)))
        return;
    define(in, "EMBEDDING_NAME(kernel)", "kernel##_%s", suffix);
    define(in, "EMBEDDING_ELEMENT", "%s", f.element);
    define(in, "EMBEDDING_READ", "parc_read_%s", f.name);
    define_number(in, "EMBEDDING_COLUMNS", columns);
    include(in, "embedding_grad.cuh");
    kernel(in, "embedding_grad", suffix);
}

/* `kind` is the file's TOPK_KIND. */
static void topk(Instances *in, DType dtype, int kind)
{
    static const char *const name[] = {"topk_few", "topk", "topk_grad"};
    FloatName f = float_name(dtype);
    if (!begin_instance(in, arena_printf(in->arena, "%s %s", name[kind], f.name)))
        return;
    define(in, "TOPK_NAME(kernel)", "kernel##_%s", f.name);
    define(in, "TOPK_ELEMENT", "%s", f.element);
    define(in, "TOPK_READ", "parc_read_%s", f.name);
    define_number(in, "TOPK_KIND", kind);
    include(in, "topk.cuh");
    kernel(in, name[kind], f.name);
}

static void conv_kernel(Instances *in, const Op *op, int kind)
{
    char symbol[RT_SYMBOL];
    FloatName f = float_name(op->arg[0]->type.dtype), out = float_name(op->out[0]->type.dtype);
    rt_conv_symbol(symbol, sizeof symbol, kind, f.name, out.name);
    if (!begin_instance(in, arena_strdup(in->arena, symbol)))
        return;
    define(in, "CONV_NAME(kernel)", "kernel##_%s_%s", f.name, out.name);
    define(in, "CONV_ELEMENT", "%s", f.element);
    define(in, "CONV_READ", "parc_read_%s", f.name);
    define(in, "CONV_RESULT", "%s", out.element);
    define(in, "CONV_WRITE", "parc_write_%s", out.name);
    define_number(in, "CONV_KIND", kind);
    include(in, "conv.cuh");
    cuda_kernel_number(in->kernels, arena_strdup(in->arena, symbol));
}

/* The kind of kernel has the number of ParcConvResult. */
static void conv(Instances *in, const Op *op)
{
    ParcConvSpec s = conv_call(in->p, op);
    conv_kernel(in, op, (int)s.computes);
    if (s.type != s.out)
        conv_kernel(in, op, RT_CONV_WIDEN);
}

/* Kernels that exist once: `file` has them, `name` is a NULL-terminated list. */
static void single(Instances *in, const char *file, const char *const *name)
{
    if (!begin_instance(in, file))
        return;
    include(in, file);
    for (; *name; name++)
        cuda_kernel_number(in->kernels, *name);
}

static void group_rows(Instances *in)
{
    static const char *const name[] = {"group_rank", "group_part_sums", "group_ends",
                                       "group_place", NULL};
    single(in, "group_rows.cuh", name);
}

static void limit_choices(Instances *in)
{
    static const char *const name[] = {"group_rank", "group_part_sums", "limit_keep",
                                       "limit_count", NULL};
    single(in, "limit_choices.cuh", name);
}

static void gather_rows(Instances *in, DType dtype, int64_t width)
{
    int bytes = rt_instance_vector(width * dtype_size(dtype));
    const char *suffix = arena_printf(in->arena, "%d", bytes);
    if (!begin_instance(in, arena_printf(in->arena, "gather_rows %s", suffix)))
        return;
    define(in, "EXPERT_NAME(kernel)", "kernel##_%s", suffix);
    define_number(in, "EXPERT_BYTES", bytes);
    include(in, "expert_rows.cuh");
    kernel(in, "gather_rows", suffix);
}

static void combine_rows(Instances *in, DType dtype, int64_t width)
{
    FloatName f = float_name(dtype);
    int columns = rt_instance_columns(width, f.bytes);
    const char *suffix = arena_printf(in->arena, "%s_%d", f.name, columns);
    if (!begin_instance(in, arena_printf(in->arena, "combine_rows %s", suffix)))
        return;
    define(in, "EXPERT_NAME(kernel)", "kernel##_%s", suffix);
    define(in, "EXPERT_ELEMENT", "%s", f.element);
    define(in, "EXPERT_READ", "parc_read_%s", f.name);
    define(in, "EXPERT_WRITE", "parc_write_%s", f.name);
    define_number(in, "EXPERT_COLUMNS", columns);
    include(in, "expert_rows.cuh");
    kernel(in, "combine_rows", suffix);
}

static void grouped_matmul(Instances *in, const Op *op)
{
    GroupedPlan plan;
    ParcGrouped s = grouped_call(in->p, op);
    FloatName f = float_name(op->arg[0]->type.dtype), out = float_name(op->out[0]->type.dtype);
    rt_grouped_plan(&plan, &s);
    const char *symbol = arena_strdup(in->arena, plan.symbol);
    if (!begin_instance(in, symbol))
        return;
    define(in, "GROUPED_NAME(kernel)", "%s", symbol);
    define_number(in, "GROUPED_KIND", plan.kind);
    define(in, "GROUPED_TYPE", "%s", f.tile);
    define(in, "GROUPED_ELEMENT", "%s", f.element);
    define(in, "GROUPED_RESULT", "%s", out.element);
    define(in, "GROUPED_WRITE", "parc_write_%s", out.name);
    define_number(in, "GROUPED_ROWS", plan.rows);
    define_number(in, "GROUPED_VECTORS", plan.vectors);
    include(in, "grouped_matmul.cuh");
    cuda_kernel_number(in->kernels, symbol);
}

/* The elements of pairs are rows of one. */
static void experts(Instances *in, const Op *op)
{
    bool pairs = op->kind == OP_gather_pairs || op->kind == OP_scatter_pairs;
    const Type *t = &op->out[0]->type;
    int64_t width = pairs ? 1 : type_local_dim(t, &in->p->mesh, t->ndim - 1);
    if (op_is_grouped_matmul(op->kind))
        grouped_matmul(in, op);
    else if (op->kind == OP_group_rows)
        group_rows(in);
    else if (op->kind == OP_limit_choices)
        limit_choices(in);
    else if (op->kind == OP_gather_rows || op->kind == OP_gather_pairs)
        gather_rows(in, t->dtype, width);
    else
        combine_rows(in, t->dtype, width);
}

static void copies(Instances *in)
{
    static const char *const name[] = {"copy_strided", "copy_transposed", NULL};
    single(in, "copy.cuh", name);
}

static void split_key(Instances *in)
{
    static const char *const name[] = {"split_key", NULL};
    single(in, "split_key.cuh", name);
}

/* ---- all instances of a program ------------------------------------------ */

static void instances_of(Instances *in, const Op *op)
{
    const Mesh *m = &in->p->mesh;
    if (op_is_attention(op->kind)) {
        attention_op(in, op);
        return;
    }
    if (op_is_conv(op->kind)) {
        conv(in, op);
        return;
    }
    if (op_is_of_experts(op->kind)) {
        experts(in, op);
        return;
    }
    switch ((int)op->kind) {
    case OP_embedding: {
        const Type *table = &op->arg[0]->type;
        embedding(in, type_local_dim(table, m, 1) * dtype_size(table->dtype));
        return;
    }
    case OP_embedding_grad:
        embedding_grad(in, op->arg[0]->type.dtype,
                       type_local_dim(&op->out[0]->type, m, 1));
        return;
    case OP_topk: {
        const Type *x = &op->arg[0]->type;
        topk(in, x->dtype, !rt_topk_few(x->dim[x->ndim - 1], attr_n(op)));
        return;
    }
    case OP_topk_grad:
        topk(in, op->arg[0]->type.dtype, 2);
        return;
    case OP_split_key:
        split_key(in);
        return;
    case OP_copy:
    case OP_transpose:
    case OP_slice:
    case OP_pad:
    case OP_concat:
    case OP_local_slice:
    case OP_mask_to_partial:
        copies(in);
        return;
    }
    if (op_is_collective(op->kind))
        copies(in); /* parts that are not contiguous are packed */
}

static void region(Instances *in, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next)
        if (op->kind == OP_loop)
            region(in, op->body);
        else
            instances_of(in, op);
}

void cuda_instances_emit(Out *instances, const Program *p, CudaKernels *k)
{
    Instances in = {.o = instances, .kernels = k, .arena = p->arena};
    for (in.p = p; in.p; in.p = program_next(in.p))
        region(&in, in.p->step);
}
