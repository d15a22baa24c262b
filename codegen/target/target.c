/* target.c: computes the properties of a target that passes query: workspace of
 * ops, einsums and epilogues that a library call computes, results that may
 * overwrite an operand, products that are computed as shards.
 *
 * The workspace of a fused op is that of its kernel. Matmuls (oneDNN, cuBLASLt),
 * convolutions (oneDNN, cuDNN) and attention need workspace, and on CUDA the collectives
 * that NCCL supports only packed. On the CPU, only the level `native` uses the size that oneDNN
 * requests on this machine; other levels have a bound (rt_matmul.c).
 */
#include "codegen/experts_call.h"
#include "codegen/target/target.h"

#include <string.h>

#include "codegen/attention_call.h"
#include "codegen/contraction.h"
#include "codegen/conv_call.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/machine.h"
#include "codegen/move_block.h"
#include "ir/analysis/attention.h"
#include "ir/analysis/alias.h"
#include "runtime/cuda/attention/rt_attention_workspace.h"
#include "runtime/cuda/conv/rt_conv_workspace.h"
#include "runtime/cuda/core/rt_experts_plan.h"

/* Bytes: a cache line; what CUDA's allocator guarantees. */
enum { CPU_ALIGNMENT = 64, CUDA_ALIGNMENT = 256, CUDA_PAGE = 2 << 20 };

static int64_t matmul_scratch(const Program *p, const Op *op,
                              const TargetInfo *t)
{
    Contraction c;
    return contraction_of(p, op, &c)
               ? parc_matmul_scratch(&c.spec, t->threads, t->cpu->level)
               : 0;
}

static bool is_matmul(const Program *p, const Op *op)
{
    Contraction c;
    return contraction_of(p, op, &c);
}

static int64_t attention_scratch(const Program *p, const Op *op, int threads)
{
    ParcAttention a = attention_call(p, op);
    return parc_attention_scratch(&a, attention_is_backward(op->kind), threads);
}

/* The workspace of a matmul on CUDA. cuBLASLt splits a long sum into parts, to
 * use all of a large device for a small result, and adds them in f32. It gets
 * workspace for a few parts, at most what NVIDIA recommends, and none if the
 * whole product is short. */
static int64_t cuda_matmul_scratch(const Program *p, const Op *op)
{
    enum { PARTS = 8, MOST = 32 << 20 };
    Contraction c;
    bool fits = contraction_of(p, op, &c);
    const ParcMatmulSpec *s = &c.spec;
    const double moment = 1 << 28; /* flops */
    double result = (double)s->batch * (double)s->m * (double)s->n;
    if (!fits || 2 * result * (double)s->k < moment)
        return 0;
    double bytes = 4 * PARTS * result;
    int64_t bounded = bytes < MOST ? (int64_t)bytes : MOST;
    return (bounded + CUDA_ALIGNMENT - 1) / CUDA_ALIGNMENT * CUDA_ALIGNMENT;
}

/* Whether cublasLtMatmul is documented for these types of a product. An addend
 * or a sum of an operand has the type of the result. */
static bool cuda_has_types(const ParcTypes *t)
{
    return t->a == t->b && (t->c == t->a || t->c == PARC_F32);
}

/* Whether v, an additional operand or result, has the result's type and this
 * number of elements. */
static bool is_beside(const Program *p, const Op *op, const Value *v,
                      int64_t elements)
{
    return v->type.dtype == op->out[0]->type.dtype &&
           type_local_elements(&v->type, &p->mesh) == elements;
}

/* The library's GELU is meant for 16 bits: the accuracy of its tanh in f32 is
 * not documented. Rows must begin at multiples of 8 elements. */
static bool cuda_has_gelu(const ParcMatmulSpec *s)
{
    enum { ROW_MULTIPLE = 8 };
    return s->type.c != PARC_F32 && s->sc[1] % ROW_MULTIPLE == 0;
}

/* The library sums an operand over exactly the letters that the product sums:
 * the letters of the second result are all letters of the first. */
static bool cuda_sums(const Op *op)
{
    int n, nkept;
    const char *result = spec_letters(attr_spec(op), op->nargs, &n);
    const char *kept = spec_letters(attr_spec(op), op->nargs + 1, &nkept);
    for (int i = 0; i < nkept; i++)
        if (!memchr(result, kept[i], (size_t)n))
            return false;
    return true;
}

/* oneDNN has any types. */
static bool cpu_multiplies(const Program *p, const Op *op)
{
    (void)p;
    return op->kind == OP_einsum;
}

static bool cuda_multiplies(const Program *p, const Op *op)
{
    Contraction c;
    bool fits = contraction_of(p, op, &c);
    const ParcMatmulSpec *s = &c.spec;
    if (op->kind == OP_einsum)
        return cuda_has_types(&s->type);
    if (!fits || c.nletters || s->batch != 1 || !cuda_has_types(&s->type) ||
        (op->kind == OP_einsum_bias_grad && !cuda_sums(op)))
        return false;
    const EpilogueInfo *e = epilogue_info(s->epilogue);
    const Value *vector = epilogue_value(op, e->vector);
    const Value *tensor = epilogue_value(op, e->tensor);
    bool of_a = s->epilogue == PARC_SUM_A || s->epilogue == PARC_SUM_A_ADD;
    bool gelu = s->epilogue == PARC_GELU || s->epilogue == PARC_GELU_BIAS ||
                s->epilogue == PARC_GELU_GRAD;
    return (!vector || is_beside(p, op, vector, of_a ? s->m : s->n)) &&
           (!tensor || is_beside(p, op, tensor, s->m * s->n)) &&
           (!gelu || cuda_has_gelu(s));
}

/* The rows of a rank's part of the operand. */
static int64_t topk_rows(const Program *p, const Op *op)
{
    const Type *x = &op->arg[0]->type;
    return type_local_elements(x, &p->mesh) / x->dim[x->ndim - 1];
}

static int64_t cuda_scratch(const Program *p, const Op *op,
                            const TargetInfo *t)
{
    (void)t;
    if (op_is_einsum(op->kind))
        return cuda_matmul_scratch(p, op);
    if (op_is_attention(op->kind)) {
        ParcAttention a = attention_call(p, op);
        return rt_attention_bytes(&a, attention_is_backward(op->kind));
    }
    if (op_is_conv(op->kind)) {
        ParcConvSpec s = conv_call(p, op);
        return rt_conv_bytes(&s);
    }
    switch ((int)op->kind) {
    case OP_all_gather:
    case OP_reduce_scatter:
    case OP_all_to_all: return move_staging(p, op);
    case OP_limit_choices: {
        ParcChoices c = choices_call(p, op);
        return rt_limit_bytes(&c);
    }
    case OP_group_rows: {
        ParcGroups of = groups_call(p, op);
        const int64_t *shape = attr_shape(op)->v;
        return rt_group_bytes(&of, shape[2], shape[4]);
    }
    case OP_topk: return rt_topk_bytes(topk_rows(p, op), attr_n(op));
    }
    return op->kind == OP_fused ? cuda_kernel_workspace(p, op) : 0;
}

static int64_t topk_scratch(const Op *op, int threads)
{
    const Type *x = &op->arg[0]->type;
    return parc_topk_scratch(x->dim[x->ndim - 1], attr_n(op), threads);
}

static int64_t cpu_scratch(const Program *p, const Op *op, const TargetInfo *t)
{
    if (op_is_attention(op->kind))
        return attention_scratch(p, op, t->threads);
    if (op->kind == OP_einsum)
        return matmul_scratch(p, op, t);
    if (op->kind == OP_topk)
        return topk_scratch(op, t->threads);
    if (op_is_of_experts(op->kind))
        return experts_scratch(p, op, t->threads, t->cpu->level);
    if (op_is_conv(op->kind)) {
        ParcConvSpec s = conv_call(p, op);
        return parc_conv_scratch(&s, t->threads, t->cpu->level);
    }
    return op->kind == OP_fused ? kernel_build(p, op)->workspace : 0;
}

/* Whether the result of a step of a ring continues the operand. */
static bool continues(const Op *op, int out, int arg)
{
    int state = attention_operands(op).state, states = op->kind == OP_attention_step ? 2 : 1;
    return state >= 0 && out < states && arg == state + out;
}

static bool moves_in_place(const Op *op, int out, int arg)
{
    switch ((int)op->kind) {
    case OP_all_reduce: return out == arg;
    case OP_embedding_add: return arg == 0;
    case OP_attention_step:
    case OP_attention_grad_step: return continues(op, out, arg);
    case OP_receive:
    case OP_send:
    case OP_move: return out == arg;
    case OP_mask_to_partial:
    case OP_copy: return true;
    case OP_einsum_add:
    case OP_einsum_bias_grad: return out == 0 && arg == 2;
    }
    return false;
}

static bool cpu_in_place(const Program *p, const Op *op, int out, int arg)
{
    return op->kind == OP_fused
               ? kernel_in_place(kernel_build(p, op), out, arg)
               : moves_in_place(op, out, arg);
}

static bool cuda_in_place(const Program *p, const Op *op, int out, int arg)
{
    return op->kind == OP_fused ? cuda_kernel_in_place(p, op, out, arg)
                                : moves_in_place(op, out, arg);
}

TargetInfo target_info(Target target, int threads)
{
    bool cpu = target == TARGET_CPU;
    return (TargetInfo){.target = target,
                        .threads = threads,
                        .cpu = cpu ? &cpu_level[PARC_CPU_NATIVE] : NULL,
                        .streams = cpu ? 1 : STREAMS,
                        .default_prefetch = cpu ? 0 : 1,
                        .alignment = cpu ? CPU_ALIGNMENT : CUDA_ALIGNMENT,
                        .page = cpu ? CPU_ALIGNMENT : CUDA_PAGE,
                        .aligns_rows = !cpu,
                        .shares_memory = cpu,
                        .adds_rows = cpu,
                        .has_epilogues = !cpu,
                        .workspace = cpu ? cpu_scratch : cuda_scratch,
                        .is_matmul = is_matmul,
                        .multiplies = cpu ? cpu_multiplies : cuda_multiplies,
                        .in_place = cpu ? cpu_in_place : cuda_in_place};
}
