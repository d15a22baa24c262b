/* emit_experts.c: emits the calls of the ops of a mixture of experts.
 *
 *   parc_gather_rows(rt, &(ParcGroups){1, 1, 8, 128, 2, 1, 2048}, PARC_F32, 64, rows, x, pair);
 */
#include "codegen/emit/emitter.h"
#include "codegen/experts_call.h"

static const char *groups_text(Emitter *e, const Op *op)
{
    ParcGroups x = groups_call(e->p, op);
    return arena_printf(e->p->arena, "&(ParcGroups){%lld, %lld, %lld, %lld, %lld, %lld, %lld}",
                        (long long)x.g, (long long)x.h, (long long)x.b, (long long)x.s,
                        (long long)x.k, (long long)x.x, (long long)x.r);
}

/* The base operand after the op's own ones. */
static const char *base_text(Emitter *e, const Op *op, int own)
{
    return op->nargs > own ? value_variable(e, op->arg[own]) : "NULL";
}

static void emit_limit_choices(Emitter *e, const Op *op)
{
    ParcChoices c = choices_call(e->p, op);
    out_code(e->o,
             "parc_limit_choices(rt, &(ParcChoices){%lld, %lld, %lld, %lld, %lld, %lld, %lld}, "
             "%s, %s, %s, %s, %s, %s);",
             (long long)c.sequences, (long long)c.length, (long long)c.own, (long long)c.pieces,
             (long long)c.k, (long long)c.experts, (long long)c.limit,
             value_variable(e, op->out[0]), value_variable(e, op->out[1]),
             value_variable(e, op->out[2]), value_variable(e, op->arg[0]), base_text(e, op, 2), workspace_variable(e, op));
}

static void emit_group_rows(Emitter *e, const Op *op)
{
    const int64_t *shape = attr_shape(op)->v;
    out_code(e->o, "parc_group_rows(rt, %s, %lld, %lld, %s, %s, %s, %s, %s, %s, %s, %s);",
             groups_text(e, op), (long long)shape[2], (long long)shape[4],
             value_variable(e, op->out[0]), value_variable(e, op->out[1]),
             value_variable(e, op->out[2]), value_variable(e, op->out[3]),
             value_variable(e, op->arg[0]), value_variable(e, op->arg[1]), base_text(e, op, 2),
             workspace_variable(e, op));
}

static void emit_rows(Emitter *e, const Op *op)
{
    bool pairs = op->kind == OP_gather_pairs || op->kind == OP_scatter_pairs;
    bool combines = op->kind == OP_combine_rows || op->kind == OP_scatter_pairs;
    const Type *t = &op->out[0]->type;
    int64_t width = type_local_dim(t, &e->p->mesh, t->ndim - 1);
    const char *of_rows = pairs ? "" : arena_printf(e->p->arena, ", %lld", (long long)width);
    out_code(e->o, "parc_%s(rt, %s, %s%s, %s, %s, %s%s%s);", op_info(op->kind)->name,
             groups_text(e, op), c_parc_type(t->dtype), of_rows, value_variable(e, op->out[0]),
             value_variable(e, op->arg[0]), value_variable(e, op->arg[combines ? 2 : 1]),
             combines ? ", " : "", combines ? base_text(e, op, 3) : "");
}

static void emit_product(Emitter *e, const Op *op)
{
    static const char *const computes[] = {[PARC_GROUPED_Y] = "PARC_GROUPED_Y",
                                           [PARC_GROUPED_ROWS] = "PARC_GROUPED_ROWS",
                                           [PARC_GROUPED_WEIGHT] = "PARC_GROUPED_WEIGHT"};
    ParcGrouped s = grouped_call(e->p, op);
    int64_t bytes = op->workspace < 0 ? 0 : e->memory->block[op->workspace].bytes;
    out_code(e->o,
             "parc_grouped_matmul(rt, &(ParcGrouped){%s, %lld, %lld, %lld, %lld, %lld, %lld, %lld, "
             "%s, %s}, %s, %s, %s, %s, %s, %lld);",
             computes[s.computes], (long long)s.groups, (long long)s.x, (long long)s.used,
             (long long)s.r,
             (long long)s.experts, (long long)s.f, (long long)s.d,
             c_parc_type(op->arg[0]->type.dtype), c_parc_type(op->out[0]->type.dtype),
             value_variable(e, op->out[0]), value_variable(e, op->arg[0]),
             value_variable(e, op->arg[1]), value_variable(e, op->arg[2]), workspace_variable(e, op),
             (long long)bytes);
}

void emit_of_experts(Emitter *e, const Op *op)
{
    emit_comment(e, op, "");
    if (op->kind == OP_group_rows)
        emit_group_rows(e, op);
    else if (op->kind == OP_limit_choices)
        emit_limit_choices(e, op);
    else if (op_is_grouped_matmul(op->kind))
        emit_product(e, op);
    else
        emit_rows(e, op);
}
