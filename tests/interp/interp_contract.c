/* interp_contract.c: evaluates einsum, attention and its gradient on one rank's
 * part, by their definitions. */
#include "ir/analysis/attention.h"
#include "ir/rules/rule_text.h"
#include "tests/interp/interp_impl.h"

#include <math.h>
#include <string.h>

/* ---- einsum ------------------------------------------------------------ */

/* The letters of 'bsk,fk->bsf': the result's first, then the summed ones. */
typedef struct Letters {
    int n;
    char letter[MAX_WALK_DIMS];
    int64_t size[MAX_WALK_DIMS];
    int64_t stride[3][MAX_WALK_DIMS]; /* operand 0, operand 1, result */
} Letters;

static int find_letter(Letters *l, char c)
{
    for (int i = 0; i < l->n; i++)
        if (l->letter[i] == c)
            return i;
    l->letter[l->n] = c;
    l->size[l->n] = -1;
    return l->n++;
}

/* Enters one tensor's letters; false if sizes differ. */
static bool enter_tensor(Letters *l, const RuleTensor *t, const Shape *shape,
                         int tensor)
{
    int64_t stride[MAX_SHAPE];
    interp_strides(shape, stride);
    if (t->n != shape->ndim || shape->nstack != 0)
        return false;
    for (int d = 0; d < t->n; d++) {
        int i = find_letter(l, t->dim[d].letter[0]);
        if (l->size[i] >= 0 && l->size[i] != shape->dim[d])
            return false;
        l->size[i] = shape->dim[d];
        l->stride[tensor][i] += stride[d];
    }
    return true;
}

static bool read_spec(const char *spec, const Shape *a, const Shape *b,
                      const Shape *out, Letters *l)
{
    RuleText t;
    memset(l, 0, sizeof *l);
    return !spec_text_parse(spec, &t) && t.nargs >= 2 &&
           enter_tensor(l, &t.tensor[t.nargs], out, 2) &&
           enter_tensor(l, &t.tensor[0], a, 0) &&
           enter_tensor(l, &t.tensor[1], b, 1);
}

/* Computes the product into result `result`. */
void interp_product(Interp *in, const Op *op, int64_t rank, int result)
{
    Local a = interp_local(in, op->arg[0], rank);
    Local b = interp_local(in, op->arg[1], rank);
    Local out = interp_local(in, op->out[result], rank);
    Letters l;
    if (!read_spec(attr_spec(op), a.shape, b.shape, out.shape, &l)) {
        interp_fail(in, op, "operands do not fit '%s'", attr_spec(op));
        return;
    }
    /* The last letter is the inner loop. */
    int last = l.n - 1;
    int64_t n = last >= 0 ? l.size[last] : 1;
    int64_t da = last >= 0 ? l.stride[0][last] : 0;
    int64_t db = last >= 0 ? l.stride[1][last] : 0;
    int64_t dout = last >= 0 ? l.stride[2][last] : 0;
    Walk w;
    interp_walk_start(&w, last >= 0 ? last : 0, l.size, 3);
    memcpy(w.stride, l.stride, sizeof w.stride);
    for (; w.left > 0; interp_walk_next(&w))
        for (int64_t i = 0; i < n; i++)
            out.at[w.at[2] + i * dout] +=
                a.at[w.at[0] + i * da] * b.at[w.at[1] + i * db];
}

void interp_einsum(Interp *in, const Op *op, int64_t rank)
{
    interp_product(in, op, rank, 0);
}

/* ---- attention --------------------------------------------------------- */

typedef struct Sizes {
    int64_t b, s, heads, t, kv, group, d, e;
    int64_t all_s; /* all queries */
    const double *first_s; /* the index of the first of each piece here; NULL: all */
    int64_t pieces;
    bool causal;
    int64_t window; /* 0: none */
    double scale, softcap;
    /* dropout: what determines the random numbers */
    double rate, key;
    int64_t site, first_b, first_head, all_heads;
    const double *query_segment, *key_segment; /* NULL: none */
    const double *bias; /* NULL: none */
    int64_t bias_dims;  /* bits for b, heads, s, t */
} Sizes;

static Sizes sizes_of(const Op *op, const Shape *q, const Shape *k,
                      const Shape *v)
{
    return (Sizes){.b = q->dim[0],
                   .s = q->dim[1],
                   .all_s = op->arg[attention_operands(op).q]->type.dim[1],
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
    if (x.query_segment >= 0) {
        z->query_segment = interp_local(in, op->arg[x.query_segment], rank).at;
        z->key_segment = interp_local(in, op->arg[x.key_segment], rank).at;
    }
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

/* The index of query s of this rank among all. */
static int64_t query_index(const Sizes *z, int64_t s)
{
    int64_t piece = z->first_s ? z->s / z->pieces : z->s;
    return z->first_s ? (int64_t)z->first_s[s / piece] + s % piece : s;
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
    int64_t at = (row * z->all_s + query_index(z, s)) * ((z->t + 63) / 64 * 64) + t;
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

/* Query s attends to the keys from first_key to end_key - 1. */
static int64_t first_key(const Sizes *z, int64_t s)
{
    s = query_index(z, s);
    return z->window > 0 && s >= z->window ? s - z->window + 1 : 0;
}

static int64_t end_key(const Sizes *z, int64_t s)
{
    s = query_index(z, s);
    int64_t end = z->causal ? s + 1 : z->window > 0 ? s + z->window : z->t;
    return end < z->t ? end : z->t;
}

static bool attends(const Sizes *z, int64_t b, int64_t s, int64_t t)
{
    return !z->key_segment ||
           z->query_segment[b * z->s + s] == z->key_segment[b * z->t + t];
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

void interp_attention(Interp *in, const Op *op, int64_t rank)
{
    Local q = interp_local(in, op->arg[0], rank);
    Local k = interp_local(in, op->arg[1], rank);
    Local v = interp_local(in, op->arg[2], rank);
    Local o = interp_local(in, op->out[0], rank);
    Local lse = interp_local(in, op->out[1], rank);
    Sizes z = sizes_of(op, q.shape, k.shape, v.shape);
    if (!sizes_fit(in, op, &z))
        return;
    set_options(in, op, rank, &z);
    double *score = NEW_ARRAY(in->arena, double, z.t);
    for (int64_t at = 0; at < z.b * z.s * z.heads; at++) {
        int64_t h = at % z.heads, s = at / z.heads % z.s;
        int64_t b = at / z.heads / z.s;
        int64_t first = first_key(&z, s), end = end_key(&z, s);
        double most = -INFINITY, sum = 0, slope;
        for (int64_t t = first; t < end; t++) {
            const double *key = k.at + row(b, z.t, t, z.kv, h / z.group) * z.d;
            score[t] = score_of(&z, dot(q.at + at * z.d, key, z.d), &slope) +
                       bias_of(&z, b, h, s, t);
            if (!attends(&z, b, s, t))
                score[t] = -INFINITY;
            most = score[t] > most ? score[t] : most;
        }
        for (int64_t t = first; t < end && most > -INFINITY; t++)
            sum += exp(score[t] - most);
        double logsum = sum > 0 ? most + log(sum) : 0;
        lse.at[(b * z.heads + h) * z.s + s] = logsum;
        for (int64_t t = first; t < end; t++) {
            const double *val = v.at + row(b, z.t, t, z.kv, h / z.group) * z.e;
            double p = exp(score[t] - logsum) * keep_factor(&z, b, h, s, t);
            for (int64_t e = 0; e < z.e; e++)
                o.at[at * z.e + e] += p * val[e];
        }
    }
}

/* The operands and sizes of a gradient. */
typedef struct Backward {
    Local d_o, q, k, v, o, lse;
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
    y.key = row(y.b, z->t, t, z->kv, y.h / z->group);
    const double *grad = x->d_o.at + at * z->e;
    double logsum = x->lse.at[(y.b * z->heads + y.h) * z->s + y.s];
    double score = score_of(z, dot(x->q.at + at * z->d, x->k.at + y.key * z->d, z->d), &y.slope);
    y.p = exp(score + bias_of(z, y.b, y.h, y.s, t) - logsum);
    y.keep = keep_factor(z, y.b, y.h, y.s, t);
    y.ds = y.p * (y.keep * dot(grad, x->v.at + y.key * z->e, z->e) - all);
    return y;
}

/* dv = p' do; dq and dk are the scores' gradients times k and q. */
void interp_attention_grad(Interp *in, const Op *op, int64_t rank)
{
    double *dq = interp_local(in, op->out[0], rank).at;
    double *dk = interp_local(in, op->out[1], rank).at;
    double *dv = interp_local(in, op->out[2], rank).at;
    Backward x;
    if (!backward_of(in, op, rank, &x))
        return;
    const Sizes *z = &x.z;
    for (int64_t at = 0; at < z->b * z->s * z->heads; at++) {
        int64_t s = at / z->heads % z->s, b = at / z->heads / z->s;
        const double *grad = x.d_o.at + at * z->e;
        double all = dot(grad, x.o.at + at * z->e, z->e);
        for (int64_t t = first_key(z, s); t < end_key(z, s); t++) {
            if (!attends(z, b, s, t))
                continue;
            Pair y = pair_of(&x, at, t, all);
            for (int64_t e = 0; e < z->e; e++)
                dv[y.key * z->e + e] += y.p * y.keep * grad[e];
            for (int64_t d = 0; d < z->d; d++) {
                dq[at * z->d + d] += y.ds * y.slope * x.k.at[y.key * z->d + d];
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
        for (int64_t t = first_key(z, s); t < end_key(z, s); t++)
            if (attends(z, b, s, t))
                to[bias_element(z, b, h, s, t)] += pair_of(&x, at, t, all).ds;
    }
}
