/* flops.c: counts floating-point operations; see flops.h. */
#include "ir/analysis/flops.h"

#include "ir/analysis/attention.h"
#include "ir/analysis/conv.h"
#include "ir/analysis/statement.h"
#include "ir/analysis/expert_items.h"
#include "ir/rules/rules.h"

static double all_factors(const Program *p, const Op *op)
{
    Rule r;
    double n = 1;
    rule_of(p, op, &r);
    for (int f = 0; f < r.nfactors; f++)
        n *= (double)r.factor[f].size;
    return n;
}

/* q[b,s,h,d], k[b,t,·,d], v[b,t,·,e]: the scores and their product with v. A step of a ring
 * has its part of them: each rank has the keys of one other. */
static double attention_flops(const Program *p, const Op *op)
{
    Value *const *qkv = op->arg + attention_operands(op).q;
    const Type *q = &qkv[0]->type, *k = &qkv[1]->type, *v = &qkv[2]->type;
    double pairs = (double)q->dim[1] * (double)k->dim[1], w = (double)attr_window(op);
    if (w > 0) /* a band of 2 w diagonals, less its corners */
        pairs = 2 * w * (double)k->dim[1] - w * w;
    double n = 2 * pairs * (double)q->dim[0] * (double)q->dim[2] *
               (double)(q->dim[3] + v->dim[3]);
    if (op_is_attention_step(op->kind))
        n /= (double)mesh_group(&p->mesh, attention_ring(p, op));
    return attr_causal(op) ? n / 2 : n;
}

/* The pairs of a causal mask for the first n queries. */
static double causal_pairs(double n, double window)
{
    return window > 0 && n > window ? window * window / 2 + (n - window) * window : n * n / 2;
}

/* The first rank, along other axes, that has part number `part` of dim d. */
static int64_t rank_of_part(const Mesh *m, const Type *t, int d, int64_t part)
{
    int axes[MAX_AXES];
    int64_t rank = 0;
    for (int n = type_dim_axes(t, m, d, axes); n-- > 0; part /= m->size[axes[n]])
        rank += part % m->size[axes[n]] * mesh_step(m, axes[n]);
    return rank;
}

/* The pairs of the queries of a rank: it has one run of them, or in zigzag order two. */
static double rank_pairs(const Mesh *m, const Type *q, double window, int64_t rank)
{
    int64_t runs = type_pieces(q, m, 1) / type_parts(q, m, 1);
    int64_t n = type_local_dim(q, m, 1) / runs;
    double pairs = 0;
    for (int64_t i = 0; i < runs; i++) {
        double first = (double)type_local_index(q, m, 1, rank, i * n);
        pairs += causal_pairs(first + (double)n, window) - causal_pairs(first, window);
    }
    return pairs;
}

/* The pairs of a causal mask for the first x queries and y keys. */
static double first_pairs(double x, double y, double window)
{
    double all = x <= 0 || y <= 0 ? 0 : y >= x ? x * x / 2 : y * y / 2 + (x - y) * y;
    return window > 0 ? all - first_pairs(x - window, y, 0) : all;
}

/* The pairs of the queries of one rank and the keys of another. */
static double pairs_between(const Mesh *m, const Type *q, double window, int64_t rank,
                            int64_t other)
{
    int64_t runs = type_pieces(q, m, 1) / type_parts(q, m, 1);
    double n = (double)(type_local_dim(q, m, 1) / runs), pairs = 0;
    for (int64_t i = 0; i < runs * runs; i++) {
        double x = (double)type_local_index(q, m, 1, rank, i / runs * (int64_t)n);
        double y = (double)type_local_index(q, m, 1, other, i % runs * (int64_t)n);
        pairs += first_pairs(x + n, y + n, window) - first_pairs(x, y + n, window) -
                 first_pairs(x + n, y, window) + first_pairs(x, y, window);
    }
    return pairs;
}

/* Of a step of a ring: the most pairs of a rank's queries with its own keys, if it is the first
 * step, else with those of another rank; by the average of all steps. */
static double step_imbalance(const Program *p, const Op *op)
{
    const Type *q = &op->arg[attention_operands(op).q]->type;
    const Mesh *m = &p->mesh;
    double w = (double)attr_window(op), most = 0;
    int64_t n = type_parts(q, m, 1);
    for (int64_t i = 0; i < n * n; i++) {
        if ((i / n == i % n) != attr_first(op))
            continue;
        double pairs = pairs_between(m, q, w, rank_of_part(m, q, 1, i / n),
                                     rank_of_part(m, q, 1, i % n));
        most = pairs > most ? pairs : most;
    }
    return most * (double)(n * n) / causal_pairs((double)q->dim[1], w);
}

double op_flops_imbalance(const Program *p, const Op *op)
{
    if (!op_is_attention(op->kind) || !attr_causal(op))
        return 1;
    if (op_is_attention_step(op->kind))
        return step_imbalance(p, op);
    const Type *q = &op->arg[attention_operands(op).q]->type;
    const Mesh *m = &p->mesh;
    double w = (double)attr_window(op), most = 0;
    int64_t parts = type_parts(q, m, 1);
    for (int64_t part = 0; parts > 1 && part < parts; part++) {
        double pairs = rank_pairs(m, q, w, rank_of_part(m, q, 1, part));
        most = pairs > most ? pairs : most;
    }
    return parts > 1 ? most * (double)parts / causal_pairs((double)q->dim[1], w) : 1;
}

/* Each element of y is a sum over those of the weight of one of its channels. */
static double conv_flops(const Op *op)
{
    ConvTensors t = conv_tensors(op);
    return 2 * (double)type_elements(&t.y->type) * (double)type_elements(&t.weight->type) /
           (double)t.weight->type.dim[0];
}

/* Each row that has a pair is multiplied by the matrix of one expert. */
static double grouped_flops(const Program *p, const Op *op)
{
    bool weight = op->kind == OP_grouped_matmul_grad_weight;
    const Type *rows = &op->arg[0]->type, *other = &(weight ? op->arg[1] : op->out[0])->type;
    double used = (double)type_elements(rows) / (double)rows->dim[3] *
                  expert_rows_used(p, op, rows->dim[3], rows->dim[2]);
    return 2 * used * (double)other->dim[other->ndim - 1];
}

/* Every arithmetic op of the optimizer counts, one for each element; Muon's
 * contractions as others. */
static double update_flops(const Program *p, const Op *op)
{
    if (op_is_einsum(op->kind))
        return 2 * all_factors(p, op);
    bool arithmetic = op_is_elementwise(op->kind) && op->nouts == 1 &&
                      op->kind != OP_cast && op->kind != OP_broadcast &&
                      op->kind != OP_copy;
    if (op->kind == OP_sumsq)
        return 2 * (double)type_elements(&op->arg[0]->type);
    return arithmetic ? (double)type_elements(&op->out[0]->type) : 0;
}

/* The matrix products of attention, or of the gradient of its bias; and of its gradient. */
enum { FORWARD_PRODUCTS = 2, GRADIENT_PRODUCTS = 5 };

/* Whether it is the gradient of q, k and v. */
static bool is_gradient(const Op *op)
{
    return op->kind == OP_attention_grad || op->kind == OP_attention_grad_step;
}

double op_flops(const Program *p, const Op *op)
{
    if (op->phase == PH_OPTIMIZER)
        return update_flops(p, op);
    if (op_is_einsum(op->kind))
        return 2 * all_factors(p, op);
    if (op_is_conv(op->kind))
        return conv_flops(op);
    if (op_is_grouped_matmul(op->kind))
        return grouped_flops(p, op);
    if (!op_is_attention(op->kind))
        return 0;
    return is_gradient(op) ? attention_flops(p, op) * GRADIENT_PRODUCTS / FORWARD_PRODUCTS
                           : attention_flops(p, op);
}

/* One of the products of attention's gradient recomputes the scores, and so does one of
 * the gradient of its bias; the other one of these is also a product of the former. */
static double repeated_flops(const Program *p, const Op *op)
{
    if (op->kind == OP_attention_bias_grad)
        return op_flops(p, op);
    return is_gradient(op) ? op_flops(p, op) / GRADIENT_PRODUCTS : 0;
}

/* The flops of an op that a total includes. */
typedef enum Count {
    EXECUTED,   /* all */
    RECOMPUTED, /* all, if the op only repeats a forward op; else none */
    REPEATED,   /* the part of any other op that repeats a forward op */
    UPDATING,   /* contractions of the optimizer */
} Count;

static double counted_flops(const Program *p, const Op *op, Count count)
{
    switch (count) {
    case EXECUTED: return op_flops(p, op);
    case RECOMPUTED:
        return op->recomputed ? op_flops(p, op) : 0;
    case REPEATED:
        return op->recomputed ? 0 : repeated_flops(p, op);
    case UPDATING:
        return op_is_einsum(op->kind) ? op_flops(p, op) : 0;
    }
    return 0;
}

static double region_flops(const Program *p, const Region *r, Phase phase,
                           Count count)
{
    double n = 0;
    for (const Op *op = r->first; op; op = op->next) {
        if (phase == PH_BACKWARD ? op_is_backward(op) : op->phase == phase)
            n += counted_flops(p, op, count);
        if (!op->body)
            continue;
        double trips = op->kind == OP_loop ? (double)loop_usual_trips(op) : 1;
        n += trips * region_flops(p, op->body, phase, count);
    }
    return n;
}

double program_flops(const Program *p, Phase phase)
{
    return region_flops(p, p->step, phase, EXECUTED);
}

double program_flops_recomputed(const Program *p)
{
    return region_flops(p, p->step, PH_BACKWARD, RECOMPUTED);
}

double program_flops_executed(const Program *p)
{
    return program_flops(p, PH_FORWARD) + program_flops(p, PH_BACKWARD) +
           program_flops(p, PH_OPTIMIZER);
}

double program_flops_model(const Program *p)
{
    return program_flops_executed(p) - program_flops_recomputed(p) -
           region_flops(p, p->step, PH_BACKWARD, REPEATED) -
           region_flops(p, p->step, PH_OPTIMIZER, UPDATING);
}
