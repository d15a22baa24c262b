/* lower_experts.c: lowers the builtins of a mixture of experts.
 *
 *   ids = limit_choices(ids, experts, capacity)
 *   pair, row, ends, needed = group_rows(ids, experts)
 *   h = grouped_matmul(gather_rows(x, pair, row), weight, ends)
 *   y = combine_rows(h, pair, row)
 *
 * The plan says how many groups of tokens and shards of experts there are, and how many rows a
 * shard has for the pairs of a token of the group and a choice.
 */
#include <math.h>

#include "frontend/lower/lower.h"

enum { DROPPED = -1 }; /* a choice that has no expert */

/* Whether argument 0 is choices [batch, seq, choices] of these experts, or -1. */
static bool chosen(const BuiltinCall *c, int64_t experts, Value **ids)
{
    Datum dropped = datum_int(DROPPED);
    if (!builtin_ids(c, 0, experts, &dropped) || !builtin_tensor(c, 0, ids))
        return false;
    if ((*ids)->type.ndim == 3)
        return true;
    return lower_error(c->l, builtin_loc(c, 0), NULL, "'%s' takes integers [batch, seq, choices], "
                       "not %s", c->call->name, builtin_shape(c, *ids));
}

/* limit_choices(ids, experts, capacity): ids, but -1 for those of an expert in a sequence that
 * are beyond `capacity` times the mean of the experts. */
Datum builtin_limit_choices(const BuiltinCall *c)
{
    Value *ids;
    int64_t experts = c->arg[1].kind == DATUM_INT ? c->arg[1].integer : 0;
    double capacity = datum_is_number(c->arg[2]) ? datum_number(c->arg[2]) : 0;
    if (experts < 1)
        return lower_poison(c->l, builtin_loc(c, 1), NULL, "'limit_choices' needs the number of "
                            "experts: limit_choices(ids, experts, capacity)");
    if (!(capacity > 0))
        return lower_poison(c->l, builtin_loc(c, 2), "capacity=1.25 lets an expert take 1.25 times "
                            "the mean of the experts", "the capacity of experts must be a number "
                            "above 0, not %s", datum_text(c->l->arena, c->arg[2]));
    if (!chosen(c, experts, &ids))
        return datum_poison();
    double all = (double)(ids->type.dim[1] * ids->type.dim[2]);
    double limit = fmin(ceil(capacity * all / (double)experts), all);
    Attr attr[MAX_ATTRS] = {{.i = experts}, {.i = (int64_t)limit}};
    Datum args[] = {c->arg[0], c->arg[0]};
    Datum kept = lower_op(c->l, c->call->loc, "limit", OP_limit_choices, 2, args, attr);
    if (kept.kind == DATUM_POISON)
        return kept;
    kept.below = experts;
    kept.has_ignored = true;
    kept.ignored = DROPPED;
    return kept;
}

/* Choices in one group and shard, which limit_choices may have limited. */
static Choices choices_of(const Value *ids, int64_t experts)
{
    const int64_t *dim = ids->type.dim;
    bool limited = ids->def && ids->def->kind == OP_limit_choices && attr_n(ids->def) == experts;
    return (Choices){.batch = dim[0], .length = dim[1], .k = dim[2], .g = 1, .h = 1, .shards = 1,
                     .experts = experts, .limit = limited ? attr_limit(ids->def) : 0};
}

/* group_rows(ids, experts), of ids [batch, seq, choices]: four tensors. */
Datum builtin_group_rows(const BuiltinCall *c)
{
    Value *ids;
    int64_t experts = c->arg[1].kind == DATUM_INT ? c->arg[1].integer : 0;
    if (experts < 1)
        return lower_poison(c->l, builtin_loc(c, 1), NULL, "'group_rows' needs the number of "
                            "experts: group_rows(ids, experts)");
    if (!chosen(c, experts, &ids))
        return datum_poison();
    Choices of = choices_of(ids, experts);
    ExpertGroups g = lower_expert_groups(c->l, c->l->b.path, &of);
    if (experts % g.shards)
        return lower_poison(c->l, g.loc, "the product of the sizes of expert_parallel's axes must "
                            "divide the number of experts: change --mesh, or name other axes",
                            "%lld ranks cannot split %lld expert%s", (long long)g.shards,
                            (long long)experts, experts == 1 ? "" : "s");
    of.g = g.batch, of.h = g.sequence, of.shards = g.shards, of.experts = experts / g.shards;
    int64_t rows = lower_expert_rows(&g, &of);
    Attr attr[MAX_ATTRS] = {{.l = {5, {of.g, of.h, of.shards, rows, of.experts}}}, {.i = of.limit}};
    Datum *item = NEW_ARRAY(c->l->arena, Datum, 4);
    Datum args[] = {c->arg[0], datum_tensor(ir_full(&c->l->b, 0, DT_I32, 0, NULL))};
    item[0] = lower_op(c->l, c->call->loc, "group rows by", OP_group_rows, 2, args, attr);
    if (item[0].kind == DATUM_POISON)
        return item[0];
    const Op *op = item[0].tensor->def;
    for (int i = 1; i < op->nouts; i++)
        item[i] = datum_tensor(op->out[i]);
    item[0].below = choices_pairs(&of);
    item[1].below = rows * g.shards;
    item[2].below = rows + 1;
    return (Datum){.kind = DATUM_TUPLE, .item = item, .nitems = op->nouts};
}

/* Rows and tokens, rows and pairs: of (x, pair, row). The results of group_rows fit together; the
 * op reports others. */
Datum builtin_rows(const BuiltinCall *c)
{
    Value *pair, *row;
    if (!builtin_tensor(c, 1, &pair) || !builtin_tensor(c, 2, &row))
        return datum_poison();
    if (pair->type.ndim != 4 || row->type.ndim != 3)
        return lower_poison(c->l, builtin_loc(c, pair->type.ndim != 4 ? 1 : 2),
                            "the results of group_rows are pair, row, ends and needed, in this order",
                            "'%s' takes pair [groups, groups, shards, rows] and row [batch, seq, "
                            "choices], not %s and %s", c->call->name, builtin_shape(c, pair),
                            builtin_shape(c, row));
    return lower_op(c->l, c->call->loc, "move rows of", c->self->op, 3, c->arg, NULL);
}

/* grouped_matmul(rows, weight, ends): weight [experts, out, in]. */
Datum builtin_grouped_matmul(const BuiltinCall *c)
{
    Value *rows, *weight, *ends;
    if (!builtin_tensor(c, 0, &rows) || !builtin_tensor(c, 1, &weight) ||
        !builtin_tensor(c, 2, &ends))
        return datum_poison();
    const int64_t *dim = ends->type.dim;
    if (weight->type.ndim == 3 && ends->type.ndim == 4 && weight->type.dim[0] != dim[2] * dim[3])
        return lower_poison(c->l, builtin_loc(c, 1), "the number of experts in group_rows and dim 0 "
                            "of the weight must be equal", "the weight %s has %lld experts, the "
                            "rows have %lld", builtin_shape(c, weight),
                            (long long)weight->type.dim[0], (long long)(dim[2] * dim[3]));
    Datum args[] = {c->arg[0], c->arg[1], c->arg[2]};
    Attr attr[MAX_ATTRS] = {{.i = lower_common(c->l, c->call->loc, 2, args)}};
    return lower_op(c->l, c->call->loc, "multiply", OP_grouped_matmul, 3, args, attr);
}
