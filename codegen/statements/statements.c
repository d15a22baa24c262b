/* statements.c: lists the statements of a step with their names, bytes, flops
 * and calls per step. */
#include "codegen/statements/statements.h"

#include "codegen/contraction.h"
#include "codegen/conv_call.h"
#include "codegen/experts_call.h"
#include "codegen/kernel/kernel.h"
#include "codegen/numbers.h"
#include "ir/analysis/flops.h"
#include "ir/analysis/repeat.h"
#include "ir/analysis/statement.h"
#include "ir/plan/pipeline.h"
#include "ir/plan/user_axes.h"

static const char *kind_of(OpKind op)
{
    if (op_is_collective(op))
        return "collective";
    if (op_is_attention(op))
        return "attention";
    if (op_is_einsum(op)) /* with an epilogue or without */
        return "matmul";
    if (op_is_conv(op))
        return "convolution";
    if (op_is_grouped_matmul(op))
        return "matmul";
    switch ((int)op) {
    case OP_fused: return "kernel";
    case OP_embedding:
    case OP_embedding_grad:
    case OP_embedding_add: return "embedding";
    case OP_topk:
    case OP_topk_grad: return "order";
    case OP_limit_choices:
    case OP_group_rows:
    case OP_gather_rows:
    case OP_combine_rows:
    case OP_gather_pairs:
    case OP_scatter_pairs: return "experts";
    case OP_zeros: return "fill";
    case OP_fetch:
    case OP_store: return "transfer";
    case OP_local_slice:
    case OP_mask_to_partial:
    case OP_copy:
    case OP_transpose:
    case OP_slice:
    case OP_pad:
    case OP_concat: return "copy";
    }
    return op_info(op)->name;
}

Loc statement_loc(const Op *op)
{
    return op_is_collective(op->kind) && op->why.loc.line ? op->why.loc
                                                          : op->loc;
}

/* Counts every operand and result once; if only a part of an operand is read,
 * counts the size of the result instead. */
static int64_t touched_bytes(const Program *p, const Op *op)
{
    int64_t bytes = 0, written = 0;
    if (op->kind == OP_embedding_add) /* the rows are read and written */
        return 3 * type_local_bytes(&op->arg[1]->type, &p->mesh) +
               type_local_bytes(&op->arg[2]->type, &p->mesh);
    bool part = op->kind == OP_slice || op->kind == OP_local_slice ||
                op->kind == OP_embedding;
    for (int i = 0; i < op->nouts; i++)
        written += type_local_bytes(&op->out[i]->type, &p->mesh);
    for (int i = 0; i < op->nargs; i++) {
        int64_t n = type_local_bytes(&op->arg[i]->type, &p->mesh);
        bytes += part && n > written ? written : n;
    }
    return bytes + written;
}

static void describe_matmul(const Program *p, const Op *op, Statement *x)
{
    Contraction c;
    contraction_of(p, op, &c);
    x->batch = c.spec.batch;
    x->m = c.spec.m;
    x->n = c.spec.n;
    x->k = c.spec.k;
    x->calls = 1;
    for (int i = 0; i < c.nletters; i++)
        x->calls *= c.letter[i].size;
    for (int i = 0; i < 3; i++)
        x->type[i] = c.type[i];
    x->flops = 2 * (double)x->calls * (double)x->batch * (double)x->m * (double)x->n *
               (double)x->k;
}

/* A convolution as the products of its groups: y has a row for each of its elements in a
 * channel, and a sum over the elements of a kernel. */
static void describe_conv(const Program *p, const Op *op, Statement *x)
{
    ParcConvSpec s = conv_call(p, op);
    const int64_t size[] = {s.n * s.result[0] * s.result[1], s.k,
                            s.c * s.kernel[0] * s.kernel[1]};
    bool data = s.computes == PARC_CONV_X, weight = s.computes == PARC_CONV_WEIGHT;
    x->batch = s.g;
    x->m = size[weight];
    x->n = size[data || weight ? 2 : 1];
    x->k = size[data ? 1 : weight ? 0 : 2];
    x->calls = 1;
    for (int i = 0; i < 3; i++)
        x->type[i] = (i < 2 ? op->arg[i] : op->out[0])->type.dtype;
    x->flops = 2 * (double)s.g * (double)size[0] * (double)size[1] * (double)size[2];
    x->detail = arena_printf(p->arena, "%lld x %lld, stride %lld x %lld, %lld group%s",
                             (long long)s.kernel[0], (long long)s.kernel[1],
                             (long long)s.stride[0], (long long)s.stride[1], (long long)s.g,
                             s.g > 1 ? "s" : "");
}

/* A product for each expert, if all have equally many rows. */
static void describe_grouped(const Program *p, const Op *op, Statement *x)
{
    ParcGrouped s = grouped_call(p, op);
    GroupedSizes z = grouped_sizes(&s);
    x->batch = z.batch;
    x->m = z.m;
    x->n = z.n;
    x->k = z.k;
    x->calls = 1;
    for (int i = 0; i < 3; i++)
        x->type[i] = (i < 2 ? op->arg[i] : op->out[0])->type.dtype;
    x->flops = 2 * (double)(s.groups * s.x * s.used) * (double)s.f * (double)s.d;
    x->detail = arena_printf(p->arena, "%lld experts", (long long)z.batch);
}

/* Operations of an op that is no matmul, on the rank that has most. */
static double local_flops(const Program *p, const Op *op)
{
    if (op->phase == PH_OPTIMIZER || !op->nouts)
        return 0;
    const Type *t = &op->out[0]->type;
    return op_flops(p, op) * op_flops_imbalance(p, op) *
           (double)type_local_elements(t, &p->mesh) / (double)type_elements(t);
}

bool loop_has_forward_and_backward(const Op *op)
{
    if (op->kind != OP_loop || op->phase != PH_FORWARD)
        return false;
    for (const Op *in = op->body->first; in; in = in->next)
        if (in->phase == PH_BACKWARD)
            return true;
    return false;
}

/* "abk,fk,f->abf with bias" */
static const char *einsum_detail(const Program *p, const Op *op)
{
    Contraction c;
    contraction_of(p, op, &c);
    const char *with = epilogue_info(c.spec.epilogue)->name;
    return *with ? arena_printf(p->arena, "%s with %s", attr_spec(op), with)
                 : attr_spec(op);
}

/* Lists the loops around an op, outermost first; returns their number. */
static int list_loops(const Op *op, const Op **loop)
{
    const Op *around = op_loop(op);
    int n = around ? list_loops(around, loop) : 0;
    if (around)
        loop[n++] = around;
    return n;
}

typedef struct Walk {
    const Program *p;
    CollectiveInfo *collective;
    TransferInfo *transfer;
    int next, nkernels; /* numbers of the next collective and kernel */
    int ntransfers;     /* number of the next transfer */
} Walk;

static Statement statement_of(Walk *w, const Op *op)
{
    const Program *p = w->p;
    Statement x = {.op = op, .kind = kind_of(op->kind), .detail = "",
                   .count = op_rank_count(p, op)};
    x.nloops = list_loops(op, x.loop);
    if (op->kind == OP_fused) {
        x.id = kernel_name(p, op, w->nkernels++);
        x.bytes = kernel_bytes(kernel_build(p, op));
    } else if (op_is_collective(op->kind)) {
        const CollectiveInfo *c = &w->collective[w->next++];
        x.id = c->label;
        x.detail = arena_printf(p->arena, "%s over %s: %s%s", c->kind, c->axis,
                                c->tensor, c->in_place ? ", in place" : "");
        x.bytes = c->in_place ? 0 : c->bytes;
    } else if (op->kind == OP_fetch || op->kind == OP_store) {
        const TransferInfo *to = &w->transfer[w->ntransfers++];
        x.id = to->label;
        x.detail = arena_printf(p->arena, "%s: %s",
                                to->to_host ? "to host" : "to device",
                                to->param->name);
        x.bytes = to->bytes;
    } else {
        x.id = op->nouts ? op->out[0]->name : op_info(op->kind)->name;
        x.bytes = touched_bytes(p, op);
        if (op_is_einsum(op->kind)) {
            describe_matmul(p, op, &x);
            x.detail = einsum_detail(p, op);
        } else if (op_is_conv(op->kind)) {
            describe_conv(p, op, &x);
        } else if (op_is_grouped_matmul(op->kind)) {
            describe_grouped(p, op, &x);
        } else {
            x.flops = local_flops(p, op);
        }
    }
    return x;
}

Statement *statements_of(const Program *p, int *n)
{
    int ncollectives, ntransfers;
    const Program *of = p->repeats ? p->repeats : p;
    const Repeat *repeat = p->repeats ? repeat_of(p) : NULL;
    Walk w = {.p = of, .collective = collectives_of(of, &ncollectives),
              .transfer = transfers_of(of, &ntransfers)};
    VEC(Statement) found = {0};
    w.nkernels = numbers_first(of).kernels;
    for_ops(op, of->step) {
        if (!op_is_statement(op))
            continue;
        Statement x = statement_of(&w, op);
        if (op_is_step_statement(op) && repeat_has(repeat, op))
            vec_push(p->arena, &found, x);
    }
    *n = found.n;
    return found.at;
}
