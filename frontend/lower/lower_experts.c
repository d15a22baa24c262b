/* lower_experts.c: lowers the builtins of a mixture of experts.
 *
 *   pair, row, ends, needed = group_rows(ids, experts)
 *   h = grouped_matmul(gather_rows(x, pair, row), weight, ends)
 *   y = combine_rows(h, pair, row)
 *
 * The plan says how many groups of tokens and shards of experts there are, and how many rows a
 * shard has for the pairs of a token of the group and a choice.
 */
#include "frontend/lower/lower.h"

/* group_rows(ids, experts), of ids [batch, seq, choices]: four tensors. */
Datum builtin_group_rows(const BuiltinCall *c)
{
    Value *ids;
    int64_t experts = c->arg[1].kind == DATUM_INT ? c->arg[1].integer : 0;
    if (experts < 1)
        return lower_poison(c->l, builtin_loc(c, 1), NULL, "'group_rows' needs the number of "
                            "experts: group_rows(ids, experts)");
    if (!builtin_ids(c, 0, experts, NULL) || !builtin_tensor(c, 0, &ids))
        return datum_poison();
    if (ids->type.ndim != 3)
        return lower_poison(c->l, builtin_loc(c, 0), NULL, "'group_rows' takes integers [batch, "
                            "seq, choices], not %s", builtin_shape(c, ids));
    ExpertGroups g = lower_expert_groups(c->l, c->l->b.path, &ids->type);
    int64_t pairs = type_elements(&ids->type) / (g.batch * g.sequence);
    if (experts % g.shards)
        return lower_poison(c->l, g.loc, NULL, "%lld ranks cannot split %lld experts",
                            (long long)g.shards, (long long)experts);
    int64_t rows = lower_expert_rows(&g, pairs);
    Attr attr[MAX_ATTRS] = {{.l = {5, {g.batch, g.sequence, g.shards, rows, experts / g.shards}}}};
    Datum *item = NEW_ARRAY(c->l->arena, Datum, 4);
    Datum args[] = {c->arg[0], datum_tensor(ir_full(&c->l->b, 0, DT_I32, 0, NULL))};
    item[0] = lower_op(c->l, c->call->loc, "group rows by", OP_group_rows, 2, args, attr);
    if (item[0].kind == DATUM_POISON)
        return item[0];
    const Op *op = item[0].tensor->def;
    for (int i = 1; i < op->nouts; i++)
        item[i] = datum_tensor(op->out[i]);
    item[0].below = pairs;
    item[1].below = rows * g.shards;
    item[2].below = rows + 1;
    return (Datum){.kind = DATUM_TUPLE, .item = item, .nitems = op->nouts};
}

/* Rows and tokens, rows and pairs: of (x, pair, row). The results of group_rows fit together; the
 * op reports others. */
Datum builtin_rows(const BuiltinCall *c)
{
    return lower_op(c->l, c->call->loc, "move rows of", c->self->op, 3, c->arg, NULL);
}

/* grouped_matmul(rows, weight, ends): weight [experts, out, in]. */
Datum builtin_grouped_matmul(const BuiltinCall *c)
{
    Value *rows, *weight;
    if (!builtin_tensor(c, 0, &rows) || !builtin_tensor(c, 1, &weight))
        return datum_poison();
    Datum args[] = {c->arg[0], c->arg[1], c->arg[2]};
    Attr attr[MAX_ATTRS] = {{.i = lower_common(c->l, c->call->loc, 2, args)}};
    return lower_op(c->l, c->call->loc, "multiply", OP_grouped_matmul, 3, args, attr);
}
