/* emit_ops.c: emits the statement of an op: the calls of fused kernels,
 * attention, embeddings, orders and random keys. emit_matmul.c emits einsums, emit_conv.c
 * convolutions, emit_experts.c mixtures of experts, emit_moves.c copies and collectives.
 */
#include "codegen/emit/emitter.h"
#include "codegen/attention_call.h"
#include "codegen/cpu/cpu_kernel.h"
#include "codegen/experts_call.h"

#include "base/bug.h"
#include "ir/analysis/attention.h"
#include "ir/analysis/producer.h"
#include "ir/plan/pipeline.h"
#include "runtime/cuda/attention/rt_attention_workspace.h"

#include <string.h>

/* Whether v is a parameter or state, or a layer of one. */
static bool is_parameter(Value *v)
{
    v = value_root(v);
    const Op *loop = v->def ? NULL : v->region->owner;
    if (loop && loop->kind == OP_loop && loop_is_stack(loop, v->index))
        return is_parameter(loop->arg[v->index]);
    return v->def && v->def->kind == OP_param;
}

/* The operand of the op that the result v replaces, a parameter or state; NULL:
 * none. */
static Value *replaced(const Op *op, Value *v)
{
    for (int i = 0; i < op->nargs; i++) {
        Value *x = op->arg[i];
        if (is_parameter(x) && x->type.dtype == v->type.dtype &&
            address_equal(value_address(x), value_address(v)))
            return x;
    }
    return NULL;
}

/* The operand without a variable; -1: none. An embedding_add that accumulates in place
 * uses only the result's; where queries begin is a number in a call of attention. */
static int undeclared(const Op *op)
{
    if (op_is_attention(op->kind))
        return attention_operands(op).query_base;
    return op->kind == OP_embedding_add && value_in_place(op->out[0]) ? 0 : -1;
}

/* The new value of a parameter uses the variable of the parameter. */
static void declare_all(Emitter *e, const Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        if (i != undeclared(op))
            emit_declaration(e, op->arg[i]);
    for (int i = 0; i < op->nouts; i++) {
        Value *old = op->phase == PH_OPTIMIZER ? replaced(op, op->out[i])
                                               : NULL;
        if (old)
            use_variable(e, op->out[i], value_variable(e, old));
        else
            emit_declaration(e, op->out[i]);
    }
}

/* ---- kernels and library calls ------------------------------------------- */

static void emit_fused(Emitter *e, const Op *op)
{
    Arena *a = e->p->arena;
    const char *call = arena_printf(
        a, "%s(rt", kernel_name(e->p, op, e->number[op->id]));
    for (int i = 0; i < op->nouts; i++)
        call = arena_printf(a, "%s, %s", call, value_variable(e, op->out[i]));
    for (int i = 0; i < op->nargs; i++)
        call = arena_printf(a, "%s, %s", call, value_variable(e, op->arg[i]));
    if (op->workspace >= 0)
        call = arena_printf(a, "%s, %s", call, workspace_variable(e, op));
    if (op->stream != STREAM_COMPUTE)
        out_line(e->o, "/* on %s, see launch.c */", c_stream_name(op->stream));
    out_code(e->o, "%s);", call);
}

/* The index in dim 0 of element i of the rank's part, as an expression. */
static const char *index_in_dim(const Emitter *e, const Type *t, int64_t i)
{
    const Mesh *m = &e->p->mesh;
    Arena *a = e->p->arena;
    int axes[MAX_AXES];
    int64_t part = type_local_dim(t, m, 0); /* of the axes up to this one */
    const char *index = i || part > 1 ? arena_printf(a, "%lld", (long long)i) : NULL;
    for (int n = type_dim_axes(t, m, 0, axes); n-- > 0; part *= m->size[axes[n]]) {
        const char *axis = axes_expression(e, 1u << axes[n]);
        if (mesh_pieces(m, axes[n]) > 1)
            index = arena_printf(a, "parc_zigzag(rt, %s, %lld, %s)", axis,
                                 (long long)part, index ? index : "0");
        else if (index)
            index = arena_printf(a, "(parc_index(rt, %s) * %lld + %s)", axis,
                                 (long long)part, index);
        else
            index = arena_printf(a, "parc_index(rt, %s)", axis);
    }
    return index ? index : "0";
}

/* "(ParcAttention){…" with rank-local sizes. */
static const char *attention_shape(Emitter *e, const Op *op)
{
    ParcAttention at = attention_call(e->p, op);
    Out o;
    out_init(&o, e->p->arena);
    out(&o, "(ParcAttention){.b = %lld, .s = %lld, .t = %lld, .kv = %lld, "
            ".g = %lld, .d = %lld, .e = %lld, .causal = %s, .scale = %s",
        (long long)at.b, (long long)at.s, (long long)at.t, (long long)at.kv,
        (long long)at.g, (long long)at.d, (long long)at.e,
        at.causal ? "true" : "false", c_float(e->p->arena, at.scale));
    if (e->cuda && at.deterministic)
        out(&o, ", .deterministic = true");
    if (at.type != PARC_F32)
        out(&o, ", .type = %s", c_parc_type(op->arg[attention_operands(op).q]->type.dtype));
    if (at.window > 0)
        out(&o, ", .window = %lld", (long long)at.window);
    if (at.softcap > 0)
        out(&o, ", .softcap = %s", c_float(e->p->arena, at.softcap));
    if (at.all_t > 0)
        out(&o, ", .all_t = %lld, .key_pieces = %lld", (long long)at.all_t,
            (long long)at.key_pieces);
    return o.text;
}

/* ", .drop = …": the fields for dropout. The bases, if any, are index bases of the batch,
 * of the KV heads, and of the query heads within a KV head. A dim of global size 1 has no
 * base operand. */
static void attention_dropout(Emitter *e, const Op *op, AttentionOperands at, Out *o)
{
    const AttrList *of = attr_global(op);
    static const char *const first[3] = {"first_b", "first_kv", "first_g"};
    out(o, ", .drop = (float)");
    out_double(o, attr_rate(op));
    out(o, ", .site = %lld, .key = %s", (long long)attr_site(op),
        value_variable(e, op->arg[at.key]));
    for (int i = 0, base = at.base; i < 3 && base >= 0 && base < op->nargs; i++)
        if (of->v[i] != 1)
            out(o, ", .%s = %s", first[i], value_variable(e, op->arg[base++]));
    out(o, ", .groups = %lld, .heads = %lld", (long long)of->v[2],
        (long long)(of->v[1] * of->v[2]));
}

/* The fields for queries that are split over ranks. The base is also a value in the arena,
 * but the shape of a call is known to the host. */
static void attention_queries(Emitter *e, const Op *op, AttentionOperands at, Out *o)
{
    const Value *base = at.query_base < 0 ? NULL : value_outside(op->arg[at.query_base]);
    if (!base || type_elements(&base->type) == 1)
        return;
    int64_t all = op->arg[at.q]->type.dim[1];
    long long piece = (long long)(all / type_elements(&base->type));
    out(o, ", .all_s = %lld, .first_s = %s * %lld", (long long)all,
        index_in_dim(e, &base->type, 0), piece);
    if (type_local_dim(&base->type, &e->p->mesh, 0) > 1)
        out(o, ", .second_s = %s * %lld", index_in_dim(e, &base->type, 1), piece);
}

/* The fields of the operands that only some calls have. */
static const char *attention_options(Emitter *e, const Op *op)
{
    AttentionOperands at = attention_operands(op);
    Out o;
    out_init(&o, e->p->arena);
    attention_queries(e, op, at, &o);
    if (at.key_base >= 0)
        out(&o, ", .first_t = %s", value_variable(e, op->arg[at.key_base]));
    if (at.key >= 0)
        attention_dropout(e, op, at, &o);
    if (at.query_segment >= 0)
        out(&o, ", .segments = true, .query_segment = %s, .key_segment = %s",
            value_variable(e, op->arg[at.query_segment]),
            value_variable(e, op->arg[at.key_segment]));
    if (at.bias >= 0)
        out(&o, ", .bias_dims = %lld, .bias = %s", (long long)attr_bias(op),
            value_variable(e, op->arg[at.bias]));
    return o.text ? o.text : "";
}

static void emit_attention(Emitter *e, const Op *op)
{
    Arena *a = e->p->arena;
    AttentionOperands at = attention_operands(op);
    emit_comment(e, op, "");
    const char *call = arena_printf(a, "parc_%s(rt, &%s%s}", op_info(op->kind)->name,
                                    attention_shape(e, op), attention_options(e, op));
    for (int i = 0; i < op->nouts; i++)
        call = arena_printf(a, "%s, %s", call, value_variable(e, op->out[i]));
    for (int i = 0; i < at.own; i++)
        call = arena_printf(a, "%s, %s", call, value_variable(e, op->arg[i]));
    int states = op->kind == OP_attention_step ? 2 : op->kind == OP_attention_grad_step;
    for (int i = 0; i < states; i++) /* of a step of a ring */
        call = arena_printf(a, "%s, %s", call, at.state < 0 ? "NULL"
                                                            : value_variable(e, op->arg[at.state + i]));
    out_code(e->o, "%s, %s);", call, workspace_variable(e, op));
}

/* An embedding_add adds in place if x, its first operand, has the same memory,
 * else to a copy of x. */
static void emit_embedding(Emitter *e, const Op *op)
{
    bool add = op->kind == OP_embedding_add;
    const Mesh *m = &e->p->mesh;
    Value *out = op->out[0], *const *arg = op->arg + add;
    const Type *table = &(op->kind == OP_embedding ? arg[0] : out)->type;
    emit_comment(e, op, "");
    if (add && !value_in_place(out))
        out_code(e->o, "parc_move(rt, %s, %s, %lld);", value_variable(e, out),
                 value_variable(e, op->arg[0]),
                 (long long)type_local_bytes(table, m));
    out_code(e->o, "parc_%s(rt, %s, %s, %s, %s, %lld, %lld, %lld, %s);",
             op_info(op->kind)->name, c_parc_type(arg[0]->type.dtype),
             value_variable(e, out), value_variable(e, arg[0]),
             value_variable(e, arg[1]),
             (long long)type_local_elements(&arg[1]->type, m),
             (long long)type_local_dim(table, m, 0),
             (long long)type_local_dim(table, m, 1),
             op->nargs > 2 + add ? value_variable(e, arg[2]) : "NULL");
}

/* topk gets the workspace after whether the largest elements come first. */
static void emit_topk(Emitter *e, const Op *op)
{
    Arena *a = e->p->arena;
    bool grad = op->kind == OP_topk_grad;
    const Type *wide = &(grad ? op->out : op->arg)[0]->type;
    int64_t width = wide->dim[wide->ndim - 1];
    const Type *ids = &(grad ? op->arg : op->out)[1]->type;
    const char *call = arena_printf(a, "parc_%s(rt, %s", op_info(op->kind)->name,
                                    c_parc_type(wide->dtype));
    emit_comment(e, op, "");
    for (int i = 0; i < op->nouts; i++)
        call = arena_printf(a, "%s, %s", call, value_variable(e, op->out[i]));
    for (int i = 0; i < op->nargs; i++)
        call = arena_printf(a, "%s, %s", call, value_variable(e, op->arg[i]));
    call = arena_printf(a, "%s, %lld, %lld, %lld", call,
                        (long long)(type_local_elements(wide, &e->p->mesh) / width),
                        (long long)width, (long long)ids->dim[ids->ndim - 1]);
    if (!grad)
        call = arena_printf(a, "%s, %s, %s", call, attr_largest(op) ? "true" : "false",
                            workspace_variable(e, op));
    out_code(e->o, "%s);", call);
}

static void emit_zeros(Emitter *e, const Op *op)
{
    emit_comment(e, op, "");
    const Type *t = &op->out[0]->type;
    out_code(e->o, "parc_zero(rt, %s, %s);", value_variable(e, op->out[0]),
             own_rows_of(e, t, type_local_bytes(t, &e->p->mesh)));
}

/* Emits the op `base`: for each iteration of a loop over parts of a dim, the
 * index in the global dim at which this rank's part begins. */
static void emit_base(Emitter *e, const Op *op)
{
    const Type *t = &op->out[0]->type;
    long long parts = (long long)(type_elements(t) / t->dim[0]);
    long long part = (long long)(attr_size(op) / type_elements(t));
    int64_t held = type_local_dim(t, &e->p->mesh, 0);
    if (held == 1)
        out_code(e->o, "parc_set_index(rt, %s, %lld, %lld, %s, %lld);",
                 value_variable(e, op->out[0]), parts, (long long)t->dim[0],
                 index_in_dim(e, t, 0), part);
    else
        out_code(e->o, "parc_set_pieces(rt, %s, %lld, %lld, %lld, %s, %s, %lld);",
                 value_variable(e, op->out[0]), parts, (long long)t->dim[0],
                 (long long)held, index_in_dim(e, t, 0), index_in_dim(e, t, held / 2),
                 part);
}

static void emit_split_key(Emitter *e, const Op *op)
{
    emit_comment(e, op, "");
    out_code(e->o, "parc_split_key(rt, %s, %s, %lld, %lld, %lld);",
             value_variable(e, op->out[0]), value_variable(e, op->arg[0]),
             (long long)attr_start(op),
             (long long)attr_step(op), (long long)attr_n(op));
}

/* ---- statements ---------------------------------------------------------- */

/* "parc_mark(rt, 12, layer);": the next statement is work[12] in that
 * iteration; the iterations of nested loops are numbered consecutively. */
static void emit_mark(Emitter *e, const Op *op)
{
    Arena *a = e->p->arena;
    int at = e->statement_of[op->id];
    if (at < 0)
        return;
    const Statement *w = &e->statement[at];
    const char *iteration = "0";
    for (int i = 0; i < w->nloops; i++) {
        const char *name = e->loop_name[w->loop[i]->id];
        iteration = i ? arena_printf(a, "%s%s%s * %lld + %s", i > 1 ? "(" : "",
                                     iteration, i > 1 ? ")" : "",
                                     (long long)loop_rank_trips(e->p, w->loop[i]), name)
                      : name;
    }
    out_code(e->o, "parc_mark(rt, %d, %s);", e->first.work + at, iteration);
}

void emit_head(Emitter *e, const Op *op)
{
    bool moves = op_is_conversion(op->kind) || op->kind == OP_fetch ||
                 op->kind == OP_store;
    if (!moves)
        declare_all(e, op);
    emit_mark(e, op);
}

typedef void EmitOp(Emitter *e, const Op *op);

static EmitOp *body_of(OpKind kind)
{
    if (op_is_collective(kind))
        return emit_collective;
    if (op_is_conversion(kind))
        return emit_local_part;
    if (op_is_einsum(kind))
        return emit_matmul;
    if (op_is_attention(kind))
        return emit_attention;
    if (op_is_conv(kind))
        return emit_conv;
    if (op_is_of_experts(kind))
        return emit_of_experts;
    switch ((int)kind) {
    case OP_fetch:
    case OP_store: return emit_transfer;
    case OP_fused: return emit_fused;
    case OP_embedding:
    case OP_embedding_grad:
    case OP_embedding_add: return emit_embedding;
    case OP_topk:
    case OP_topk_grad: return emit_topk;
    case OP_zeros: return emit_zeros;
    case OP_base: return emit_base;
    case OP_split_key: return emit_split_key;
    }
    return emit_copy_op;
}

void emit_body(Emitter *e, const Op *op)
{
    body_of(op->kind)(e, op);
}

/* Announces the calls that a library may run. */
void emit_attentions(Emitter *e)
{
    for_ops(op, e->p->step) {
        if (!op_is_attention(op->kind) || op->workspace < 0)
            continue;
        ParcAttention a = attention_call(e->p, op);
        if (rt_attention_library(&a))
            out_code(e->o, "parc_attention_ready(rt, &%s}, %s, %lld);",
                     attention_shape(e, op), attention_is_backward(op->kind) ? "true" : "false",
                     (long long)e->memory->block[op->workspace].bytes);
    }
}
