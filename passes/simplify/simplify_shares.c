/* simplify_shares.c: masks the scalar terms of a sum to partial in one op.
 *
 * before   %a.2 = mask_to_partial{axes={tp}} %a : f32[]+dp+tp
 *          %s = add %x, %a.2 : f32[]+dp+tp
 *          %t = add %s, %y : f32[]+dp+tp
 *          %b.2 = mask_to_partial{axes={tp}} %b : f32[]+dp+tp
 *          %u = add %t, %b.2 : f32[]+dp+tp
 * after    %s = add %a, %b : f32[]+dp
 *          %s.2 = mask_to_partial{axes={tp}} %s : f32[]+dp+tp
 *          %t = add %x, %y : f32[]+dp+tp
 *          %u = add %t, %s.2 : f32[]+dp+tp
 *
 * The gradient norm has such sums: the squares of gradients that are equal on
 * all ranks of tp count once. The other terms of a sum keep their order.
 */
#include "ir/analysis/uses.h"
#include "passes/simplify/simplify.h"

typedef VEC(Value *) ValueList;

typedef struct Shares {
    Program *p;
    int *uses; /* by id, of values that existed at the start */
    uint32_t nvalues;
} Shares;

static bool used_once(const Shares *s, const Value *v)
{
    return v->id >= s->nvalues || s->uses[v->id] == 1;
}

static bool is_scalar_sum(const Op *op)
{
    return op && op->kind == OP_add && op->out[0]->type.ndim == 0 &&
           op->out[0]->type.nstack == 0;
}

/* The terms of the sum `op`, from left to right. */
static void summands(Shares *s, const Op *op, ValueList *list)
{
    for (int i = 0; i < 2; i++) {
        Value *v = op->arg[i];
        if (is_scalar_sum(v->def) && v->region == op->region &&
            used_once(s, v)) {
            s->uses[v->id] = 0; /* belongs to the outer sum now */
            summands(s, v->def, list);
        } else {
            vec_push(s->p->arena, list, v);
        }
    }
}

static bool is_sole_share(const Shares *s, const Value *v)
{
    return v->def && v->def->kind == OP_mask_to_partial && used_once(s, v);
}

static bool same_share(const Value *v, const Value *w)
{
    return attr_axes(v->def) == attr_axes(w->def) &&
           type_equal(&v->def->arg[0]->type, &w->def->arg[0]->type);
}

/* Removes from the list the terms that are masked like `leader`, and returns
 * them. */
static ValueList take_alike(Shares *s, ValueList *list, const Value *leader)
{
    ValueList alike = {0};
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        Value *v = list->at[i];
        if (is_sole_share(s, v) && same_share(v, leader))
            vec_push(s->p->arena, &alike, v);
        else
            list->at[n++] = v;
    }
    list->n = n;
    return alike;
}

static Value *sum_up(Build *b, const ValueList *list)
{
    Value *sum = list->at[0];
    for (int i = 1; i < list->n; i++)
        sum = ir_binary(b, OP_add, sum, list->at[i]);
    return sum;
}

static Value *gather_shares(Shares *s, Build *b, ValueList list);

/* Sums the operands of these masks and masks the sum. */
static Value *join_shares(Shares *s, Build *b, const ValueList *alike)
{
    const Op *leader = alike->at[0]->def;
    ValueList whole = {0};
    for (int i = 0; i < alike->n; i++)
        vec_push(s->p->arena, &whole, alike->at[i]->def->arg[0]);
    Value *sum = gather_shares(s, b, whole);
    Op *op = ir_op_typed(b, OP_mask_to_partial, 1, &sum, leader->attr, 1,
                         &leader->out[0]->type, &leader->out[0]->name);
    op->why = leader->why;
    for (int a = 0; a < s->p->mesh.n; a++)
        op->out[0]->why[a] = leader->out[0]->why[a];
    return op->out[0];
}

/* The first term of the list that is masked like another one; -1: none. */
static int find_leader(const Shares *s, const ValueList *list)
{
    for (int i = 0; i < list->n; i++)
        for (int k = i + 1; k < list->n; k++)
            if (is_sole_share(s, list->at[i]) &&
                is_sole_share(s, list->at[k]) &&
                same_share(list->at[i], list->at[k]))
                return i;
    return -1;
}

/* Builds the sum of the list. */
static Value *gather_shares(Shares *s, Build *b, ValueList list)
{
    int leader = find_leader(s, &list);
    if (leader < 0)
        return sum_up(b, &list);
    ValueList alike = take_alike(s, &list, list.at[leader]);
    Value *joined = join_shares(s, b, &alike);
    vec_push(s->p->arena, &list, joined);
    return gather_shares(s, b, list);
}

void simplify_shares(Program *p)
{
    Shares s = {p, uses_find(p).count, p->nvalues};
    /* Last op first: an outer sum includes its inner ones. */
    for (Op *op = p->step->last, *prev; op; op = prev) {
        prev = op->prev;
        ValueList list = {0};
        if (!is_scalar_sum(op) || s.uses[op->out[0]->id] == 0)
            continue;
        summands(&s, op, &list);
        if (find_leader(&s, &list) < 0)
            continue;
        Build b = ir_build_at(p, op, op);
        Value *sum = gather_shares(&s, &b, list);
        ir_replace_uses(p->step, op->out[0], sum);
        ir_remove(op);
    }
    ir_eliminate_dead(p);
}
