/* interp_attention.c: evaluates attention, its gradients, and their steps in a ring on one
 * rank's part, by their definitions. Where keys are split over ranks, a rank reads those of
 * all. */
#include "ir/analysis/attention.h"
#include "tests/interp/interp_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The keys and values of one rank. */
typedef struct KeySource {
    Local k, v;
    int64_t rank;
    const double *first_t; /* the index of the first of each piece; NULL: all are here */
    int64_t pieces;
    const double *segment; /* NULL: none */
} KeySource;

typedef struct Sizes {
    int64_t b, s, heads, t, kv, group, d, e;
    int64_t all_s; /* all queries */
    const double *first_s; /* the index of the first of each piece here; NULL: all */
    int64_t pieces;
    int64_t all_t; /* all keys */
    int64_t nsources;
    const KeySource *source; /* the ranks whose keys the rank's queries attend to */
    bool causal;
    int64_t window; /* 0: none */
    double scale, softcap;
    /* dropout: what determines the random numbers */
    double rate, key;
    int64_t site, first_b, first_head, all_heads;
    const double *query_segment; /* NULL: none */
    const double *bias; /* NULL: none */
    int64_t bias_dims;  /* bits for b, heads, s, t */
} Sizes;

static Sizes sizes_of(const Op *op, const Shape *q, const Shape *k,
                      const Shape *v)
{
    return (Sizes){.b = q->dim[0],
                   .s = q->dim[1],
                   .all_s = op->arg[attention_operands(op).q]->type.dim[1],
                   .all_t = op->arg[attention_operands(op).q + 1]->type.dim[1],
                   .heads = q->dim[2],
                   .d = q->dim[3],
                   .t = k->dim[1],
                   .kv = k->dim[2],
                   .group = q->dim[2] / k->dim[2],
                   .e = v->dim[3],
                   .causal = attr_causal(op),
                   .window = attr_window(op),
                   .scale = attr_scale(op),
                   .softcap = attr_softcap(op)};
}

/* The operands that only some attributes give. */
static void set_options(Interp *in, const Op *op, int64_t rank, Sizes *z)
{
    AttentionOperands x = attention_operands(op);
    if (x.query_segment >= 0)
        z->query_segment = interp_local(in, op->arg[x.query_segment], rank).at;
    if (x.bias >= 0) {
        z->bias = interp_local(in, op->arg[x.bias], rank).at;
        z->bias_dims = attr_bias(op);
    }
    if (x.query_base >= 0) {
        Local first = interp_local(in, op->arg[x.query_base], rank);
        z->first_s = first.at;
        z->pieces = first.shape->n;
    }
    if (x.key < 0)
        return;
    const AttrList *of = attr_global(op);
    int64_t first[3] = {0};
    for (int i = 0, at = x.base; i < 3 && at >= 0 && at < op->nargs; i++)
        if (of->v[i] != 1)
            first[i] = (int64_t)interp_local(in, op->arg[at++], rank).at[0];
    z->rate = attr_rate(op);
    z->site = attr_site(op);
    z->key = interp_local(in, op->arg[x.key], rank).at[0];
    z->all_heads = of->v[1] * of->v[2];
    z->first_b = first[0];
    z->first_head = first[1] * of->v[2] + first[2];
}

/* The index among all of element i of n that a rank has in pieces. */
static int64_t index_of(const double *first, int64_t pieces, int64_t n, int64_t i)
{
    int64_t piece = first ? n / pieces : n;
    return first ? (int64_t)first[i / piece] + i % piece : i;
}

static int64_t query_index(const Sizes *z, int64_t s)
{
    return index_of(z->first_s, z->pieces, z->s, s);
}

/* Keys are numbered source by source. */
static const KeySource *source_of(const Sizes *z, int64_t t)
{
    return &z->source[t / z->t];
}

static int64_t key_index(const Sizes *z, int64_t t)
{
    const KeySource *of = source_of(z, t);
    return index_of(of->first_t, of->pieces, z->t, t % z->t);
}

/* Whether the rank is in the ring of `of`: they differ only along its axes. */
static bool in_ring(const Interp *in, uint32_t ring, int64_t rank, int64_t of)
{
    for (int a = 0; a < in->mesh.n; a++)
        if (!(ring >> a & 1) &&
            mesh_coord(&in->mesh, rank, a) != mesh_coord(&in->mesh, of, a))
            return false;
    return true;
}

/* The keys of a rank: those of a step, or of all ranks of the ring. */
static void find_sources(Interp *in, const Op *op, int64_t rank, Sizes *z)
{
    AttentionOperands x = attention_operands(op);
    uint32_t ring = x.key_base >= 0 ? 0 : attention_ring(in->p, op);
    KeySource *found = NEW_ARRAY(in->arena, KeySource, in->ranks);
    for (int64_t r = 0; r < in->ranks; r++) {
        if (!in_ring(in, ring, r, rank))
            continue;
        KeySource of = {.k = interp_local(in, op->arg[x.q + 1], r),
                     .v = interp_local(in, op->arg[x.q + 2], r), .rank = r};
        int base = x.key_base >= 0 ? x.key_base : ring && in->mesh.n ? x.query_base : -1;
        if (base >= 0) {
            Local first = interp_local(in, op->arg[base], r);
            of.first_t = first.at;
            of.pieces = first.shape->n;
        }
        if (x.key_segment >= 0)
            of.segment = interp_local(in, op->arg[x.key_segment], r).at;
        found[z->nsources++] = of;
    }
    z->source = found;
}

/* The element of the bias for a score, in a tensor of the dims that it has. */
static int64_t bias_element(const Sizes *z, int64_t b, int64_t h, int64_t s, int64_t t)
{
    const int64_t index[BIAS_DIMS] = {b, h, s, t}, size[BIAS_DIMS] = {z->b, z->heads, z->s, z->t};
    int64_t at = 0;
    for (int i = 0; i < BIAS_DIMS; i++)
        if (z->bias_dims >> i & 1)
            at = at * size[i] + index[i];
    return at;
}

static double bias_of(const Sizes *z, int64_t b, int64_t h, int64_t s, int64_t t)
{
    return z->bias ? z->bias[bias_element(z, b, h, s, t)] : 0;
}

/* The dropout factor of the weight of key t. Rows of weights are numbered as if
 * they were padded to multiples of 64. */
static double keep_factor(const Sizes *z, int64_t b, int64_t h, int64_t s,
                          int64_t t)
{
    if (z->rate <= 0)
        return 1;
    int64_t row = (z->first_b + b) * z->all_heads + z->first_head + h;
    int64_t at = (row * z->all_s + query_index(z, s)) * ((z->all_t + 63) / 64 * 64) +
                 key_index(z, t);
    return interp_uniform(z->key, z->site, at) < (double)(float)z->rate
               ? 0
               : 1 / (1 - z->rate);
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* The row of position i and head h. */
static int64_t row(int64_t b, int64_t positions, int64_t i, int64_t heads,
                   int64_t h)
{
    return (b * positions + i) * heads + h;
}

static bool attends(const Sizes *z, int64_t b, int64_t s, int64_t t)
{
    const KeySource *of = source_of(z, t);
    int64_t query = query_index(z, s), key = key_index(z, t), far = query - key;
    return !(z->causal && far < 0) && !(z->window > 0 && llabs(far) >= z->window) &&
           (!of->segment ||
            z->query_segment[b * z->s + s] == of->segment[b * z->t + t % z->t]);
}

static bool sizes_fit(Interp *in, const Op *op, const Sizes *z)
{
    if (z->kv > 0 && z->group * z->kv == z->heads)
        return true;
    interp_fail(in, op, "%lld query heads on %lld heads of keys",
                (long long)z->heads, (long long)z->kv);
    return false;
}

/* The score of a product of q and k, and the derivative of it. */
static double score_of(const Sizes *z, double product, double *slope)
{
    if (z->softcap <= 0) {
        *slope = z->scale;
        return z->scale * product;
    }
    double x = tanh(z->scale * product / z->softcap);
    *slope = z->scale * (1 - x * x);
    return z->softcap * x;
}

/* The row of k and v of key t for head h. */
static int64_t key_row(const Sizes *z, int64_t b, int64_t h, int64_t t)
{
    return row(b, z->t, t % z->t, z->kv, h / z->group);
}

/* The lse of a query that has seen no key in the steps of a ring. */
static const double unseen = -1e30;

/* One query: number `at` of all heads. o and lse are those before, or zeros and -infinity. */
static void attend(const Sizes *z, const double *q, int64_t at, double *score, double *o,
                   double *lse)
{
    int64_t h = at % z->heads, s = at / z->heads % z->s, b = at / z->heads / z->s;
    int64_t keys = z->nsources * z->t;
    double most = *lse, sum = 0, slope, before = *lse;
    for (int64_t t = 0; t < keys; t++) {
        score[t] = -INFINITY;
        if (!attends(z, b, s, t))
            continue;
        const double *key = source_of(z, t)->k.at + key_row(z, b, h, t) * z->d;
        score[t] = score_of(z, dot(q + at * z->d, key, z->d), &slope) + bias_of(z, b, h, s, t);
        most = score[t] > most ? score[t] : most;
    }
    if (most == -INFINITY)
        return;
    for (int64_t t = 0; t < keys; t++)
        sum += exp(score[t] - most);
    sum += exp(before - most);
    *lse = most + log(sum);
    for (int64_t e = 0; e < z->e; e++)
        o[e] *= exp(before - *lse);
    for (int64_t t = 0; t < keys; t++) {
        if (score[t] == -INFINITY)
            continue;
        const double *value = source_of(z, t)->v.at + key_row(z, b, h, t) * z->e;
        double p = exp(score[t] - *lse) * keep_factor(z, b, h, s, t);
        for (int64_t e = 0; e < z->e; e++)
            o[e] += p * value[e];
    }
}

void interp_attention(Interp *in, const Op *op, int64_t rank)
{
    AttentionOperands x = attention_operands(op);
    Local q = interp_local(in, op->arg[0], rank);
    Local k = interp_local(in, op->arg[1], rank);
    Local v = interp_local(in, op->arg[2], rank);
    Local o = interp_local(in, op->out[0], rank);
    Local lse = interp_local(in, op->out[1], rank);
    Sizes z = sizes_of(op, q.shape, k.shape, v.shape);
    if (!sizes_fit(in, op, &z))
        return;
    set_options(in, op, rank, &z);
    find_sources(in, op, rank, &z);
    const double *o_before = NULL, *lse_before = NULL;
    if (x.state >= 0) {
        o_before = interp_local(in, op->arg[x.state], rank).at;
        lse_before = interp_local(in, op->arg[x.state + 1], rank).at;
    }
    double *score = NEW_ARRAY(in->arena, double, z.nsources * z.t);
    for (int64_t at = 0; at < z.b * z.s * z.heads; at++) {
        int64_t h = at % z.heads, s = at / z.heads % z.s, b = at / z.heads / z.s;
        int64_t of = (b * z.heads + h) * z.s + s;
        double logsum = lse_before && lse_before[of] > unseen ? lse_before[of] : -INFINITY;
        for (int64_t e = 0; o_before && e < z.e; e++)
            o.at[at * z.e + e] = o_before[at * z.e + e];
        attend(&z, q.at, at, score, o.at + at * z.e, &logsum);
        lse.at[of] = logsum > -INFINITY ? logsum : op_is_attention_step(op->kind) ? unseen : 0;
    }
}

/* The operands and sizes of a gradient. */
typedef struct Backward {
    Local d_o, q, k, v, o, lse; /* k and v: for their sizes; Sizes has the sources */
    Sizes z;
} Backward;

static bool backward_of(Interp *in, const Op *op, int64_t rank, Backward *x)
{
    Local *const operand[] = {&x->d_o, &x->q, &x->k, &x->v, &x->o, &x->lse};
    for (int i = 0; i < 6; i++)
        *operand[i] = interp_local(in, op->arg[i], rank);
    x->z = sizes_of(op, x->q.shape, x->k.shape, x->v.shape);
    if (!sizes_fit(in, op, &x->z))
        return false;
    set_options(in, op, rank, &x->z);
    find_sources(in, op, rank, &x->z);
    return true;
}

/* A pair of a query, number `at` of all heads, and key t. */
typedef struct Pair {
    int64_t b, s, h, key; /* key: the row of k and v */
    double p, keep, ds, slope; /* slope: of the score by the product */
} Pair;

/* With weights p = exp(score - lse), the gradient of a score is p (do v - do o). */
static Pair pair_of(const Backward *x, int64_t at, int64_t t, double all)
{
    const Sizes *z = &x->z;
    Pair y = {.b = at / z->heads / z->s, .s = at / z->heads % z->s, .h = at % z->heads};
    const KeySource *of = source_of(z, t);
    y.key = key_row(z, y.b, y.h, t);
    const double *grad = x->d_o.at + at * z->e;
    double logsum = x->lse.at[(y.b * z->heads + y.h) * z->s + y.s];
    double score = score_of(z, dot(x->q.at + at * z->d, of->k.at + y.key * z->d, z->d), &y.slope);
    y.p = exp(score + bias_of(z, y.b, y.h, y.s, t) - logsum);
    y.keep = keep_factor(z, y.b, y.h, y.s, t);
    y.ds = y.p * (y.keep * dot(grad, of->v.at + y.key * z->e, z->e) - all);
    return y;
}

/* dv = p' do; dq and dk are the scores' gradients times k and q. In a ring each rank adds to
 * dk and dv of all. */
void interp_attention_grad(Interp *in, const Op *op, int64_t rank)
{
    Local dq = interp_local(in, op->out[0], rank);
    int state = attention_operands(op).state;
    Backward x;
    if (!backward_of(in, op, rank, &x))
        return;
    if (state >= 0)
        memcpy(dq.at, interp_local(in, op->arg[state], rank).at,
               sizeof *dq.at * (size_t)dq.shape->n);
    const Sizes *z = &x.z;
    for (int64_t at = 0; at < z->b * z->s * z->heads; at++) {
        int64_t s = at / z->heads % z->s, b = at / z->heads / z->s;
        const double *grad = x.d_o.at + at * z->e;
        double all = dot(grad, x.o.at + at * z->e, z->e);
        for (int64_t t = 0; t < z->nsources * z->t; t++) {
            if (!attends(z, b, s, t))
                continue;
            Pair y = pair_of(&x, at, t, all);
            const KeySource *of = source_of(z, t);
            double *dk = interp_local(in, op->out[1], of->rank).at;
            double *dv = interp_local(in, op->out[2], of->rank).at;
            for (int64_t e = 0; e < z->e; e++)
                dv[y.key * z->e + e] += y.p * y.keep * grad[e];
            for (int64_t d = 0; d < z->d; d++) {
                dq.at[at * z->d + d] += y.ds * y.slope * of->k.at[y.key * z->d + d];
                dk[y.key * z->d + d] += y.ds * y.slope * x.q.at[at * z->d + d];
            }
        }
    }
}

void interp_attention_bias_grad(Interp *in, const Op *op, int64_t rank)
{
    double *to = interp_local(in, op->out[0], rank).at;
    Backward x;
    if (!backward_of(in, op, rank, &x))
        return;
    const Sizes *z = &x.z;
    for (int64_t at = 0; at < z->b * z->s * z->heads; at++) {
        int64_t s = at / z->heads % z->s, b = at / z->heads / z->s, h = at % z->heads;
        double all = dot(x.d_o.at + at * z->e, x.o.at + at * z->e, z->e);
        for (int64_t t = 0; t < z->t; t++)
            if (attends(z, b, s, t))
                to[bias_element(z, b, h, s, t)] += pair_of(&x, at, t, all).ds;
    }
}

void interp_attention_sinks(Interp *in, const Op *op, int64_t rank)
{
    Local o = interp_local(in, op->arg[0], rank), lse = interp_local(in, op->arg[1], rank);
    const double *x = interp_local(in, op->arg[2], rank).at;
    double *y = interp_local(in, op->out[0], rank).at;
    double *all = interp_local(in, op->out[1], rank).at;
    const int64_t *dim = o.shape->dim, heads = dim[2];
    for (int64_t at = 0; at < dim[0] * dim[1] * heads; at++) {
        int64_t h = at % heads, s = at / heads % dim[1], b = at / heads / dim[1];
        int64_t row = (b * heads + h) * dim[1] + s;
        double low = lse.at[row] - x[h];
        all[row] = x[h] + (low > 0 ? low : 0) + log1p(exp(-fabs(low)));
        for (int64_t e = 0; e < dim[3]; e++)
            y[at * dim[3] + e] = o.at[at * dim[3] + e] / (1 + exp(-low));
    }
}
