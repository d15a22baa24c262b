/* sequence.c: finds what sequence parallelism splits.
 *
 * Between the modules that the tensor axis splits, activations would be the same on all of
 * its ranks. Split along the sequence instead, each rank holds a part of them, and an
 * all-gather and a reduce-scatter replace each all-reduce. The dim is that of the results of
 * the weights that are split by rows; it becomes whole where modules read it that are split
 * by columns: at the outermost module for which this is so.
 *
 *   attention(attention_norm(x))    layers.*.attention: PrepareModuleInput(Shard(1) -> …)
 *     wq(x), wk(x), wv(x)           not at wq, wk and wv, which would gather x three times
 */
#include "autoplan/flow.h"

void flow_find_sequence(Flow *f)
{
    for (int i = 0; i < f->weight.n; i++) {
        const FlowWeight *w = &f->weight.at[i];
        const Value *v = w->op->out[0];
        int longest = -1;
        if (op_is_grouped_matmul(w->op->kind)) /* its rows are in no order of a sequence */
            continue;
        for (int d = 1; d < v->type.ndim - 1; d++)
            if (longest < 0 || v->type.dim[d] > v->type.dim[longest])
                longest = d;
        if (flow_split_of(f, w->in) >= 0 && longest >= 0 && v->type.dim[longest] > 1)
            f->sequence[flow_class(f, v, longest)] = true;
    }
}

int flow_sequence_dim(const Flow *f, const PlanDraft *d, const Value *v)
{
    int found = -1;
    for (int k = 0; k < v->type.ndim; k++) {
        int id = flow_class(f, v, k);
        if (draft_splits(f, d, id))
            return -1;
        if (found < 0 && f->sequence[id])
            found = k;
    }
    return d->sequence ? found : -1;
}

/* Whether the op contracts v with a weight that the draft splits by columns. */
static bool is_column(const Flow *f, const PlanDraft *d, const Op *op, const Value *v)
{
    for (int i = 0; i < f->weight.n; i++) {
        const FlowWeight *w = &f->weight.at[i];
        if (w->op == op && op->kind != OP_embedding)
            return op->arg[!w->operand] == v && draft_splits(f, d, w->out);
    }
    return false;
}

static bool is_input_port(const Op *op)
{
    return op && op->kind == OP_boundary && attr_port(op).input;
}

/* Whether all that reads v, through ports of modules and casts, is split by columns. */
static bool columns_read(const Flow *f, const PlanDraft *d, const Value *v)
{
    int n;
    Op *const *reader = uses_readers(&f->uses, v, &n);
    for (int i = 0; i < n; i++) {
        bool passes = is_input_port(reader[i]) || reader[i]->kind == OP_cast;
        if (passes ? !columns_read(f, d, reader[i]->out[0])
                   : !is_column(f, d, reader[i], v))
            return false;
    }
    return n > 0;
}

const Op *flow_entry(const Flow *f, const PlanDraft *d, const FlowWeight *w)
{
    const Op *entry = NULL;
    const Op *op = w->op->arg[!w->operand]->def;
    while (op && (is_input_port(op) || op->kind == OP_cast) &&
           columns_read(f, d, op->out[0])) {
        if (is_input_port(op) && *attr_path(op))
            entry = op;
        op = op->arg[0]->def;
    }
    return entry;
}
