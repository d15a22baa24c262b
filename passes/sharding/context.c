/* context.c: splits attention over the axis of a context; see context.h. */
#include "passes/sharding/context.h"

#include "ir/analysis/attention.h"
#include "ir/options.h"
#include "ir/plan/user_axes.h"

bool context_exchanges(const Program *p, const Op *op, int axis)
{
    return op_is_attention(op->kind) && p->plan.context.axes >> axis & 1;
}

enum { SEQUENCE = 1, HEADS = 2 }; /* dims of queries, keys, values and results */

AxisPlace context_place(const Program *p, const Value *v, int axis)
{
    AxisPlace place = v->type.place.ax[axis];
    bool given = (place.kind == AX_S && place.dim == HEADS) || place.kind == AX_P;
    bool result = v->def && context_exchanges(p, v->def, axis) && v->type.ndim == 4;
    return given && result && v->def->kind != OP_attention_bias_grad
               ? (AxisPlace){AX_S, SEQUENCE, 0} : place;
}

static int query_factor(const Op *op, const Rule *r)
{
    const DimFactors *d = &r->dim[attention_operands(op).q][SEQUENCE];
    return d->n ? d->f[0] : -1;
}

/* Of the heads that of the KV heads: a rank has whole groups of query heads. */
int context_factor(const Program *p, const Op *op, const Rule *r)
{
    const DimFactors *d = &r->dim[attention_operands(op).q + 1][HEADS];
    if (p->plan.context.exchange != EXCHANGE_HEADS)
        return query_factor(op, r);
    return d->n ? d->f[0] : -1;
}

bool context_allows(const Program *p, const Op *op, const Rule *r, int axis, int factor)
{
    return !op_is_attention(op->kind) || factor != query_factor(op, r) ||
           context_exchanges(p, op, axis);
}

bool context_converts(const Program *p, const Op *op, const Value *v, int axis)
{
    return (op && context_exchanges(p, op, axis)) ||
           !axis_place_equal(context_place(p, v, axis), v->type.place.ax[axis]);
}

const char *context_text(const Program *p)
{
    const Context *c = &p->plan.context;
    return arena_printf(p->arena, "%s %s: %s=%s", clause_name(CL_CONTEXT),
                        user_axes_text(p, c->axes), option_name(OPTION_exchange),
                        option_word(OPTION_exchange, c->exchange));
}

static bool splits_heads(AxisPlace place)
{
    return place.kind == AX_S && place.dim == HEADS;
}

/* Reports that the ranks on the other axes have too few heads. */
static void refuse(const Program *p, const Op *op)
{
    const Context *c = &p->plan.context;
    const Type *k = &op->arg[attention_operands(op).q + 1]->type;
    int64_t heads = k->dim[HEADS], parts = 1;
    for (int a = 0; a < p->mesh.n; a++)
        if (splits_heads(k->place.ax[a]))
            parts *= p->mesh.size[a];
    const char *name = user_axes_text(p, c->axes);
    diag_error(p->diag, c->loc, "'%s' cannot split heads over %lld ranks: each has %lld "
               "of the %lld key and value heads of the attention in '%s'", name,
               (long long)mesh_group(&p->mesh, c->axes), (long long)(heads / parts),
               (long long)heads, *op->path ? op->path : "model");
    diag_note(p->diag, op->loc, "the attention is here");
    diag_help(p->diag, "with %s=%s the size of '%s', times those of the axes that split "
              "heads in '%s', divides the number of key and value heads",
              option_name(OPTION_exchange), option_word(OPTION_exchange, c->exchange), name,
              clause_name(CL_PARALLELIZE));
}

/* Whether the attention's heads are split over the axis of the context, and stay split
 * over the axes of the operand. */
static bool is_split(const Program *p, const Op *op)
{
    int i = attention_operands(op).q + 1;
    for (int a = 0; a < p->mesh.n; a++) {
        bool should = splits_heads(op->arg[i]->type.place.ax[a]) ||
                      (context_exchanges(p, op, a) && p->mesh.size[a] > 1);
        if (should && !splits_heads(op->needs[i].ax[a]))
            return false;
    }
    return true;
}

/* Reports an attention whose keys ranks cannot pass on. */
static void refuse_ring(const Program *p, const Op *op)
{
    const Context *c = &p->plan.context;
    const Type *q = &op->arg[0]->type, *k = &op->arg[1]->type;
    const char *ring = option_word(OPTION_exchange, EXCHANGE_RING);
    const char *why = attr_bias(op) ? "it has a bias, whose columns are all keys"
                      : arena_printf(p->arena, "it has %lld queries and %lld keys: a rank "
                                     "needs as many of both", (long long)q->dim[SEQUENCE],
                                     (long long)k->dim[SEQUENCE]);
    diag_error(p->diag, c->loc, "the attention in '%s' cannot be a %s: %s",
               *op->path ? op->path : "model", ring, why);
    diag_note(p->diag, op->loc, "the attention is here");
    diag_help(p->diag, "choose %s=%s, or %s=%s if heads can be split", option_name(OPTION_exchange),
              option_word(OPTION_exchange, EXCHANGE_GATHER), option_name(OPTION_exchange),
              option_word(OPTION_exchange, EXCHANGE_HEADS));
}

static bool rings(const Program *p, const Op *op)
{
    Rule r;
    rule_of(p, op, &r);
    const DimFactors *keys = &r.dim[attention_operands(op).q + 1][SEQUENCE];
    return keys->n && keys->f[0] == query_factor(op, &r);
}

void context_check(const Program *p)
{
    const Context *c = &p->plan.context;
    if (!c->axes || mesh_group(&p->mesh, c->axes) == 1)
        return;
    for_ops(op, p->step) {
        if (op->kind != OP_attention)
            continue;
        if (c->exchange == EXCHANGE_HEADS && !is_split(p, op))
            refuse(p, op);
        if (c->exchange == EXCHANGE_RING && !rings(p, op))
            refuse_ring(p, op);
    }
}
