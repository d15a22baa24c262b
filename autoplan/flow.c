/* flow.c: finds the classes of dims that a tensor axis can split; see autoplan.h.
 *
 *   %w1_out = einsum{spec="abk,fk->abf"} %x, %w1       f: dim 2 of %w1_out, dim 0 of %w1
 *   %h = mul %w1_out, %w3_out                          f: dim 2 of all three
 *   %w2_out = einsum{spec="abk,fk->abf"} %h, %w2       f of %h is k here: dim 1 of %w2
 *
 *   class f: w1 and w3 by columns, w2 by rows; ranks add %w2_out and the gradient of %x
 *
 * A dim that is a product of factors belongs to the class of the major factor, which is
 * the one that an axis splits: of [batch, seq, heads * head_dim] the heads.
 *
 * Weights of experts [experts, out, in] are split like others, by `out` or `in`, but not in a
 * class that has other weights too: most elements of a model are theirs.
 */
#include "autoplan/flow.h"

#include <stdlib.h>

#include "ir/analysis/producer.h"

/* ---- classes ------------------------------------------------------------- */

static void join_by_rule(Flow *f, const Op *op)
{
    Rule r;
    int first[MAX_FACTORS];
    rule_of(f->p, op, &r);
    for (int k = 0; k < r.nfactors; k++)
        first[k] = -1;
    for (int i = 0; i < r.nargs + r.nouts; i++) {
        const Value *v = rule_tensor(op, &r, i);
        for (int d = 0; d < v->type.ndim; d++) {
            int k = rule_split_factor(&r, i, d, 1), dim = dim_of_value(v, d);
            if (k < 0 || r.factor[k].whole)
                continue;
            if (first[k] < 0)
                first[k] = dim;
            else
                dim_classes_join(&f->dims, first[k], dim);
        }
    }
}

static void block_whole_dims(Flow *f, const Op *op)
{
    Rule r;
    rule_of(f->p, op, &r);
    for (int i = 0; i < r.nargs + r.nouts; i++) {
        const Value *v = rule_tensor(op, &r, i);
        for (int d = 0; d < v->type.ndim; d++) {
            int k = rule_split_factor(&r, i, d, 1);
            if (k >= 0 && r.factor[k].whole)
                f->blocked[flow_class(f, v, d)] = true;
        }
    }
}

static bool is_forward(const Op *op)
{
    return op->phase == PH_FORWARD;
}

static void find_classes(Flow *f)
{
    dim_classes_begin(&f->dims, f->arena, f->p);
    for_ops(op, f->p->step) {
        dim_classes_join_structure(&f->dims, op);
        if (op_info(op->kind)->rule)
            join_by_rule(f, op);
    }
    f->blocked = NEW_ARRAY(f->arena, bool, f->dims.n + 1);
    f->sequence = NEW_ARRAY(f->arena, bool, f->dims.n + 1);
    for_ops(op, f->p->step) {
        if (is_forward(op) && op_info(op->kind)->rule)
            block_whole_dims(f, op);
        if (op->kind == OP_input) /* the data's dims: those of the batch and sequences */
            for (int d = 0; d < op->out[0]->type.ndim; d++)
                f->blocked[flow_class(f, op->out[0], d)] = true;
    }
}

/* ---- weights ------------------------------------------------------------- */

/* Whether the module's only output has the dims of v, so that a style can place v. */
static bool is_output(const Flow *f, const Module *m, const Value *v)
{
    const ModulePorts *port = &f->port[m - f->p->module.at];
    for (int i = 0; i < port->n; i++) {
        const Value *out = port->at[i]->out[0];
        if (attr_port(port->at[i]).input)
            continue;
        if (m->nout != 1 || out->type.ndim != v->type.ndim)
            return false;
        for (int d = 0; d < v->type.ndim; d++)
            if (flow_class(f, out, d) != flow_class(f, v, d))
                return false;
        return true;
    }
    return false;
}

/* The class of the operand's first dim that the op sums over or looks up (`summed`), or that
 * its result has; -1: none. That of experts is left out. */
static int operand_class(const Flow *f, const Op *op, int operand, bool summed)
{
    Rule r;
    rule_of(f->p, op, &r);
    for (int d = op_is_grouped_matmul(op->kind); d < op->arg[operand]->type.ndim; d++) {
        int k = rule_split_factor(&r, operand, d, 1);
        if (k >= 0 && (rule_factor_dim(&r, r.nargs, k) < 0) == summed)
            return flow_class(f, op->arg[operand], d);
    }
    return -1;
}

static void add_weight(Flow *f, const Op *op, int operand, int param)
{
    const Module *m = ir_module(f->p, op->path);
    const Weight *w = module_weight(m);
    FlowWeight new = {.op = op, .param = param, .operand = operand};
    new.in = operand_class(f, op, operand, true);
    new.out = operand_class(f, op, operand, false);
    if (new.in < 0 || new.out < 0)
        return;
    if (w && w->param == param && flow_can_name(m->path) &&
        !op_is_grouped_matmul(op->kind) && is_output(f, m, op->out[0]) &&
        new.out == dim_class(&f->dims, dim_of_param(&f->dims, param, w->out_dim)))
        new.path = m->path;
    vec_push(f->arena, &f->weight, new);
}

static void find_ports(Flow *f)
{
    f->port = NEW_ARRAY(f->arena, ModulePorts, f->p->module.n + 1);
    for_ops(op, f->p->step) {
        const Module *m = op->kind == OP_boundary ? ir_module(f->p, attr_path(op)) : NULL;
        if (m)
            vec_push(f->arena, &f->port[m - f->p->module.at], op);
    }
}

static void find_weights(Flow *f)
{
    for_ops(op, f->p->step) {
        bool experts = op_is_grouped_matmul(op->kind);
        if (!is_forward(op) || !op_contracts(op) || (op->nargs != 2 && !experts))
            continue;
        for (int i = experts; i < 2; i++) {
            const Op *by = op->arg[i]->def;
            bool transposed = experts && by && by->kind == OP_transpose;
            int param = value_param(transposed ? by->arg[0] : op->arg[i]);
            if (param >= 0)
                add_weight(f, op, i, param);
        }
    }
}

static void find_experts(Flow *f)
{
    for_ops(op, f->p->step) {
        bool known = !is_forward(op) || !op_is_grouped_matmul(op->kind);
        for (int i = 0; i < f->experts.n && !known; i++)
            known = strcmp(f->experts.at[i], op->path) == 0;
        if (!known)
            vec_push(f->arena, &f->experts, op->path);
    }
}

/* ---- costs --------------------------------------------------------------- */

static double bytes_of(const Value *v, const Op *op)
{
    return (double)type_elements(&v->type) * dtype_size(v->type.dtype) *
           (double)ir_trip_count(op);
}

/* Whether an earlier weight with its outputs in the class reads the same value. */
static bool is_read_before(const Flow *f, int at, const Value *v)
{
    const FlowWeight *w = &f->weight.at[at];
    for (int i = 0; i < at; i++) {
        const FlowWeight *x = &f->weight.at[i];
        if (x->out == w->out && producer_of(x->op->arg[!x->operand]) == producer_of(v))
            return true;
    }
    return false;
}

/* The sums over factors: of each, the first result has a partial sum. */
static void cost_sums(Flow *f, double *bytes, const Op *op)
{
    Rule r;
    rule_of(f->p, op, &r);
    if (r.nouts == 0)
        return;
    for (int i = 0; i < r.nargs; i++)
        for (int d = 0; d < op->arg[i]->type.ndim; d++) {
            int k = rule_split_factor(&r, i, d, 1);
            bool kept = k < 0;
            for (int o = 0; o < r.nouts && !kept; o++)
                kept = rule_factor_dim(&r, r.nargs + o, k) >= 0;
            bool counted = false; /* of another operand */
            for (int o = 0; o < i && !kept; o++)
                counted |= rule_factor_dim(&r, o, k) >= 0;
            if (!kept && !counted)
                bytes[flow_class(f, op->arg[i], d)] += bytes_of(op->out[0], op);
        }
}

/* The bytes that ranks exchange if a class is split, by class: partial results, and in the
 * backward pass the gradients of what its columns read. */
static double *exchanged_bytes(Flow *f)
{
    double *bytes = NEW_ARRAY(f->arena, double, f->dims.n + 1);
    for_ops(op, f->p->step)
        if (is_forward(op) && op_info(op->kind)->rule)
            cost_sums(f, bytes, op);
    for (int i = 0; i < f->weight.n; i++) {
        const FlowWeight *w = &f->weight.at[i];
        const Value *x = w->op->arg[!w->operand];
        if (w->op->kind != OP_embedding && !is_read_before(f, i, x))
            bytes[w->out] += bytes_of(x, w->op);
    }
    return bytes;
}

/* ---- the choice ---------------------------------------------------------- */

static bool is_of_experts(const FlowWeight *w)
{
    return op_is_grouped_matmul(w->op->kind);
}

/* Whether the parameter has a matrix for each expert. */
static bool has_experts(const Flow *f, int param)
{
    for (int i = 0; i < f->weight.n; i++)
        if (f->weight.at[i].param == param && is_of_experts(&f->weight.at[i]))
            return true;
    return false;
}

/* Whether weights that are not of experts have the class. */
static bool has_other_weights(const Flow *f, int id)
{
    for (int i = 0; i < f->weight.n; i++) {
        const FlowWeight *w = &f->weight.at[i];
        if (!is_of_experts(w) && (w->in == id || w->out == id))
            return true;
    }
    return false;
}

static void add_to_class(Flow *f, const double *bytes, int id, int weight)
{
    bool experts = is_of_experts(&f->weight.at[weight]);
    if (f->blocked[id] || (experts && has_other_weights(f, id)))
        return;
    int at = flow_split_of(f, id);
    if (at < 0) {
        SplitClass new = {.id = id, .bytes = bytes[id], .experts = experts};
        vec_push(f->arena, &f->split, new);
        at = f->split.n - 1;
    }
    SplitClass *c = &f->split.at[at];
    const Type *t = &f->p->param.at[f->weight.at[weight].param].type;
    c->elements += (double)type_elements(t);
    vec_push(f->arena, &c->weight, weight);
}

int flow_split_of(const Flow *f, int id)
{
    for (int i = 0; i < f->split.n; i++)
        if (f->split.at[i].id == id)
            return i;
    return -1;
}

int flow_split_dim(const Flow *f, const PlanDraft *d, int param)
{
    bool experts = has_experts(f, param);
    for (int k = 0; k < f->p->param.at[param].type.ndim; k++) {
        int id = dim_class(&f->dims, dim_of_param(&f->dims, param, k));
        if (draft_splits(f, d, id) && (!experts || f->split.at[flow_split_of(f, id)].experts))
            return k;
    }
    return -1;
}

/* A class with fewer bytes for each element of its weights comes first. */
static int fewer_bytes_first(const void *x, const void *y)
{
    const SplitClass *a = x, *b = y;
    double s = a->bytes * b->elements, t = b->bytes * a->elements;
    return s != t ? (s > t) - (s < t) : (a->id > b->id) - (a->id < b->id);
}

static bool shares_weight(const Flow *f, const SplitClass *a, const SplitClass *b)
{
    for (int i = 0; i < a->weight.n; i++)
        for (int k = 0; k < b->weight.n; k++)
            if (f->weight.at[a->weight.at[i]].param == f->weight.at[b->weight.at[k]].param)
                return true;
    return false;
}

/* Keeps the best classes of which no two share a weight. */
static void choose_classes(Flow *f)
{
    int kept = 0;
    qsort(f->split.at, (size_t)f->split.n, sizeof *f->split.at, fewer_bytes_first);
    for (int i = 0; i < f->split.n && kept < MAX_SPLIT_CLASSES; i++) {
        bool excluded = false;
        for (int k = 0; k < kept; k++)
            excluded |= shares_weight(f, &f->split.at[i], &f->split.at[k]);
        if (!excluded)
            f->split.at[kept++] = f->split.at[i];
    }
    f->split.n = kept;
}

void flow_find_classes(Flow *f)
{
    f->uses = uses_find(f->p);
    find_classes(f);
    find_ports(f);
    find_weights(f);
    find_experts(f);
    const double *bytes = exchanged_bytes(f);
    for (int i = 0; i < f->weight.n; i++) {
        add_to_class(f, bytes, f->weight.at[i].in, i);
        add_to_class(f, bytes, f->weight.at[i].out, i);
    }
    choose_classes(f);
}
