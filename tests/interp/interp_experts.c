/* interp_experts.c: evaluates the ops of a mixture of experts on one rank's part. Rows
 * without a pair are NaN, so that a test fails where an op reads one. */
#include "tests/interp/interp_impl.h"

#include <math.h>
#include <string.h>

#include "tests/interp/routing.h"

/* ---- the groups of a rank's tokens ---- */

typedef struct Groups {
    int64_t g, h, b, s; /* groups, and the tokens of one */
    int64_t k;
} Groups;

static int64_t dim_of(Local x, int d)
{
    return x.shape->dim[x.shape->nstack + d];
}

/* Of a tensor [b, s, k] in g h groups. */
static Groups groups_of(Local tokens, int64_t g, int64_t h)
{
    return (Groups){g, h, dim_of(tokens, 0) / g, dim_of(tokens, 1) / h, dim_of(tokens, 2)};
}

static int64_t pairs_of(const Groups *x)
{
    return x->b * x->s * x->k;
}

/* The index in [b, s] of the token of a pair of group i. */
static int64_t token_of(const Groups *x, int64_t i, int64_t pair)
{
    int64_t token = pair / x->k, b = i / x->h * x->b + token / x->s;
    return b * (x->h * x->s) + i % x->h * x->s + token % x->s;
}

/* The same of the pair in [b, s, k]. */
static int64_t place_of(const Groups *x, int64_t i, int64_t pair)
{
    return token_of(x, i, pair) * x->k + pair % x->k;
}

/* The first shard that a rank holds, by the base operand after the op's own ones. */
static int64_t first_shard(Interp *in, const Op *op, int own, int64_t rank)
{
    return op->nargs > own ? (int64_t)interp_local(in, op->arg[own], rank).at[0] : 0;
}

/* ---- routing ---- */

void interp_limit_choices(Interp *in, const Op *op, int64_t rank)
{
    Local ids = interp_local(in, op->arg[0], rank), kept = interp_local(in, op->out[0], rank);
    Local rest = interp_local(in, op->out[1], rank), blocks = interp_local(in, op->out[2], rank);
    Local base = op->nargs > 2 ? interp_local(in, op->arg[2], rank) : ids;
    int64_t k = dim_of(ids, 2), all = dim_of(ids, 1) * k, own = dim_of(kept, 1) * k;
    int64_t piece = op->nargs > 2 ? own / dim_of(base, 0) : own;
    for (int64_t i = 0; i < dim_of(ids, 0) * own; i++) {
        int64_t at = i % own, before = 0;
        const double *row = ids.at + i / own * all;
        if (op->nargs > 2)
            at = (int64_t)base.at[at / piece] * k + at % piece;
        double id = row[at];
        for (int64_t j = 0; j < at; j++)
            before += row[j] == id;
        bool valid = id >= 0 && id < (double)attr_n(op), fits = before < attr_limit(op);
        kept.at[i] = isnan(id) ? NAN : valid && fits ? id : -1;
        rest.at[i / own] += isnan(id) ? NAN : valid && !fits;
    }
    for (int64_t q = 0; q < dim_of(ids, 0); q++) {
        blocks.at[q] = floor(rest.at[q] / 256);
        rest.at[q] -= 256 * blocks.at[q];
    }
}

void interp_group_rows(Interp *in, const Op *op, int64_t rank)
{
    Local ids = interp_local(in, op->arg[0], rank), pair = interp_local(in, op->out[0], rank);
    Local row = interp_local(in, op->out[1], rank), ends = interp_local(in, op->out[2], rank);
    Local needed = interp_local(in, op->out[3], rank);
    double round = interp_local(in, op->arg[1], rank).at[0];
    Groups of = groups_of(ids, dim_of(pair, 0), dim_of(pair, 1));
    Routing r = {.pairs = pairs_of(&of), .shards = dim_of(pair, 2), .rows = dim_of(pair, 3),
                 .experts = dim_of(ends, 3), .first = first_shard(in, op, 2, rank),
                 .all = attr_shape(op)->v[2]};
    r.round = isnan(round) ? 0 : (int64_t)round; /* NaN: of another stage's rank */
    double *chosen = NEW_ARRAY(in->arena, double, r.pairs), *at = NEW_ARRAY(in->arena, double, r.pairs);
    for (int64_t i = 0; i < of.g * of.h; i++) {
        for (int64_t p = 0; p < r.pairs; p++)
            chosen[p] = ids.at[place_of(&of, i, p)];
        route(&r, chosen, pair.at + i * r.shards * r.rows, at, ends.at + i * r.shards * r.experts,
              needed.at + i * r.shards);
        for (int64_t p = 0; p < r.pairs; p++)
            row.at[place_of(&of, i, p)] = at[p];
    }
}

/* ---- rows and tokens ---- */

void interp_gather_rows(Interp *in, const Op *op, int64_t rank)
{
    bool pairs = op->kind == OP_gather_pairs;
    Local x = interp_local(in, op->arg[0], rank), pair = interp_local(in, op->arg[1], rank);
    Local row = interp_local(in, op->arg[2], rank), out = interp_local(in, op->out[0], rank);
    Groups of = groups_of(row, dim_of(pair, 0), dim_of(pair, 1));
    int64_t width = pairs ? 1 : dim_of(x, 2), rows = dim_of(pair, 2) * dim_of(pair, 3);
    for (int64_t i = 0; i < of.g * of.h * rows; i++) {
        double p = pair.at[i];
        int64_t group = i / rows;
        bool used = p >= 0; /* false for NaN, of another stage's rank */
        int64_t from = !used ? 0 : pairs ? place_of(&of, group, (int64_t)p)
                                         : token_of(&of, group, (int64_t)p);
        for (int64_t j = 0; j < width; j++)
            out.at[i * width + j] = used ? x.at[from * width + j] : NAN;
    }
}

void interp_combine_rows(Interp *in, const Op *op, int64_t rank)
{
    bool pairs = op->kind == OP_scatter_pairs;
    Local y = interp_local(in, op->arg[0], rank), row = interp_local(in, op->arg[2], rank);
    Local out = interp_local(in, op->out[0], rank);
    Groups of = groups_of(row, dim_of(y, 0), dim_of(y, 1));
    int64_t width = pairs ? 1 : dim_of(y, 4), rows = dim_of(y, 2) * dim_of(y, 3);
    int64_t first = first_shard(in, op, 3, rank) * dim_of(y, 3), n = pairs_of(&of);
    for (int64_t i = 0; i < of.g * of.h; i++)
        for (int64_t p = 0; p < n; p++) {
            double at = row.at[place_of(&of, i, p)];
            double *to = out.at + (pairs ? place_of(&of, i, p) : token_of(&of, i, p)) * width;
            int64_t from = isnan(at) ? -1 : (int64_t)at - first;
            for (int64_t j = 0; j < width; j++)
                to[j] += isnan(at) ? NAN
                         : from >= 0 && from < rows && at >= 0
                             ? y.at[(i * rows + from) * width + j]
                             : 0;
        }
}

/* ---- products ---- */

typedef struct Product {
    OpKind kind;
    int64_t f, d;
} Product;

/* One row x [d], the matrix w [f, d] of its expert, and y [f]: the one that the op computes
 * gets the product of the others. */
static void multiply(const Product *p, double *x, double *w, double *y)
{
    for (int64_t f = 0; f < p->f; f++)
        for (int64_t d = 0; d < p->d; d++)
            if (p->kind == OP_grouped_matmul)
                y[f] += x[d] * w[f * p->d + d];
            else if (p->kind == OP_grouped_matmul_grad_rows)
                x[d] += y[f] * w[f * p->d + d];
            else
                w[f * p->d + d] += y[f] * x[d];
}

static void undefine(double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = NAN;
}

void interp_grouped_matmul(Interp *in, const Op *op, int64_t rank)
{
    bool forward = op->kind == OP_grouped_matmul;
    bool weight = op->kind == OP_grouped_matmul_grad_weight;
    Local ends = interp_local(in, op->arg[2], rank), out = interp_local(in, op->out[0], rank);
    Local a = interp_local(in, op->arg[0], rank), b = interp_local(in, op->arg[1], rank);
    Local x = forward ? a : weight ? b : out, y = forward ? out : a, w = weight ? out : b;
    Product p = {op->kind, dim_of(y, 4), dim_of(x, 4)};
    int64_t shards = dim_of(x, 2), rows = dim_of(x, 3), experts = dim_of(ends, 3);
    int64_t groups = dim_of(x, 0) * dim_of(x, 1), width = forward ? p.f : p.d;
    for (int64_t i = 0; i < groups * shards; i++) {
        int64_t at = 0;
        for (int64_t e = 0; e < experts; e++) {
            double end = ends.at[i * experts + e];
            for (; at < (int64_t)(isnan(end) ? 0 : end); at++)
                multiply(&p, x.at + (i * rows + at) * p.d,
                         w.at + (i % shards * experts + e) * p.f * p.d,
                         y.at + (i * rows + at) * p.f);
        }
        if (!weight)
            undefine(out.at + (i * rows + at) * width, (rows - at) * width);
    }
}
