/* lower_attention.c: lowers attention. */
#include <math.h>

#include "frontend/lower/lower.h"
#include "ir/analysis/attention.h"

static bool attention_fits(const Type *q, const Type *k, const Type *v)
{
    if (q->ndim != 4 || k->ndim != 4 || v->ndim != 4)
        return false;
    return q->dim[0] == k->dim[0] && k->dim[0] == v->dim[0] &&
           k->dim[1] == v->dim[1] && k->dim[2] == v->dim[2] &&
           q->dim[3] == k->dim[3] && q->dim[2] % k->dim[2] == 0;
}

/* Reads the argument window: 0 for none, or if it excludes no key. */
static bool read_window(const BuiltinCall *c, const Type *q, const Type *k, int64_t *window)
{
    enum { WINDOW = 6 };
    Datum d = c->arg[WINDOW];
    *window = 0;
    if (d.kind == DATUM_NONE || d.kind == DATUM_POISON)
        return d.kind == DATUM_NONE;
    if (d.kind != DATUM_INT || d.integer < 1)
        return lower_error(c->l, builtin_loc(c, WINDOW), NULL, "the window must be an integer "
                           "of at least 1, not %s", datum_text(c->l->arena, d));
    if (q->dim[1] != k->dim[1])
        return lower_error(c->l, builtin_loc(c, WINDOW), NULL, "a window needs as many queries "
                           "as keys, not %lld and %lld", (long long)q->dim[1],
                           (long long)k->dim[1]);
    *window = d.integer < k->dim[1] ? d.integer : 0;
    return true;
}

/* The numbers that keys and queries must have in common; NULL: none. */
typedef struct Segments {
    Value *query, *key; /* integers [b, s] and [b, t] */
} Segments;

static Value *ones(Lower *l, int64_t rows, int64_t columns)
{
    return ir_full(&l->b, 1, DT_I32, 2, (int64_t[]){rows, columns});
}

/* [b, t]: 1 where the key is before the end of its sequence, else 0. */
static Value *before_end(Lower *l, Value *lengths, int64_t keys)
{
    Build *b = &l->b;
    Attr n[MAX_ATTRS] = {{.i = keys}};
    Value *end = ir_cast(b, ir_reshape(b, lengths, 2, (int64_t[]){lengths->type.dim[0], 1}),
                         DT_F32);
    Value *key = ir_value(b, OP_iota, 0, NULL, n, NULL);
    return ir_cast(b, ir_binary(b, OP_less, key, end), DT_I32);
}

/* The documents of keys; -1 where `present` is 0. */
static Value *documents_of_keys(Lower *l, Value *documents, Value *present)
{
    Build *b = &l->b;
    Value *absent = ir_binary(b, OP_sub, present,
                              ones(l, present->type.dim[0], present->type.dim[1]));
    return ir_binary(b, OP_add, ir_binary(b, OP_mul, documents, present), absent);
}

static bool is_of(const Value *v, int ndim, int64_t rows, int64_t columns)
{
    const Type *t = &v->type;
    return !dtype_is_float(t->dtype) && t->ndim == ndim && t->dim[0] == rows &&
           (ndim < 2 || t->dim[1] == columns);
}

/* Reads the arguments documents and padding. */
static bool read_segments(const BuiltinCall *c, const Type *q, const Type *k, Segments *s)
{
    enum { DOCUMENTS = 8, PADDING = 9 };
    Value *documents = NULL, *padding = NULL;
    *s = (Segments){0};
    if (c->arg[DOCUMENTS].kind != DATUM_NONE && !builtin_tensor(c, DOCUMENTS, &documents))
        return false;
    if (c->arg[PADDING].kind != DATUM_NONE && !builtin_tensor(c, PADDING, &padding))
        return false;
    if (documents && (q->dim[1] != k->dim[1] || !is_of(documents, 2, q->dim[0], q->dim[1])))
        return lower_error(c->l, builtin_loc(c, DOCUMENTS), "queries and keys are of the same "
                           "sequence, and each has the number of its document",
                           "the documents must be integers [%lld, %lld], not %s, for %lld "
                           "keys", (long long)q->dim[0], (long long)q->dim[1],
                           builtin_shape(c, documents), (long long)k->dim[1]);
    if (padding && !is_of(padding, 1, k->dim[0], 0) && !is_of(padding, 2, k->dim[0], k->dim[1]))
        return lower_error(c->l, builtin_loc(c, PADDING), NULL, "the padding must be the lengths "
                           "of sequences, integers [%lld], or 1 for a key and 0 for padding, "
                           "integers [%lld, %lld], not %s", (long long)k->dim[0],
                           (long long)k->dim[0], (long long)k->dim[1],
                           builtin_shape(c, padding));
    s->query = s->key = documents;
    if (!padding)
        return true;
    if (padding->type.ndim == 1)
        padding = before_end(c->l, padding, k->dim[1]);
    s->key = documents ? documents_of_keys(c->l, documents, padding) : padding;
    s->query = documents ? documents : ones(c->l, q->dim[0], q->dim[1]);
    return true;
}

/* Reads the argument bias, a tensor that broadcasts to the scores [b, heads, s, t]: *bias is
 * it in f32 without dims of size 1, or NULL; *dims: the dims that it has. */
static bool read_bias(const BuiltinCall *c, const Type *q, const Type *k, Value **bias,
                      int64_t *dims)
{
    enum { BIAS = 10 };
    const int64_t size[BIAS_DIMS] = {q->dim[0], q->dim[2], q->dim[1], k->dim[1]};
    int64_t kept[BIAS_DIMS];
    Value *x;
    int n = 0;
    *bias = NULL;
    *dims = 0;
    if (c->arg[BIAS].kind == DATUM_NONE)
        return true;
    if (!builtin_tensor(c, BIAS, &x))
        return false;
    int first = BIAS_DIMS - x->type.ndim;
    bool fits = dtype_is_float(x->type.dtype) && first >= 0;
    for (int i = first; fits && i < BIAS_DIMS; i++) {
        int64_t has = x->type.dim[i - first];
        fits = has == 1 || has == size[i];
        if (has > 1) {
            kept[n++] = has;
            *dims |= 1 << i;
        }
    }
    if (!fits)
        return lower_error(c->l, builtin_loc(c, BIAS), NULL, "the bias must be floats that "
                           "broadcast to the scores [%lld, %lld, %lld, %lld] (batch, heads, "
                           "queries, keys), not %s", (long long)size[0], (long long)size[1],
                           (long long)size[2], (long long)size[3], builtin_shape(c, x));
    if (*dims) /* else it adds one number to all scores, which changes no weight */
        *bias = ir_cast(&c->l->b, ir_reshape(&c->l->b, x, n, kept), DT_F32);
    return true;
}

/* The result of attention with the argument sinks, floats [heads]. */
static Datum with_sinks(const BuiltinCall *c, Datum o)
{
    enum { SINKS = 11 };
    Value *x;
    if (c->arg[SINKS].kind == DATUM_NONE || o.kind != DATUM_TENSOR)
        return o;
    if (!builtin_tensor(c, SINKS, &x))
        return datum_poison();
    long long heads = o.tensor->type.dim[2];
    if (!dtype_is_float(x->type.dtype) || x->type.ndim != 1 || x->type.dim[0] != heads)
        return lower_poison(c->l, builtin_loc(c, SINKS), NULL, "the sinks must be floats [%lld], "
                            "one for each head, not %s", heads, builtin_shape(c, x));
    Datum args[] = {o, datum_tensor(o.tensor->def->out[1]), c->arg[SINKS]};
    args[2].tensor = ir_cast(&c->l->b, lower_import(c->l, c->l->level, x), DT_F32);
    return lower_op(c->l, c->call->loc, "attend from", OP_attention_sinks, 3, args, NULL);
}

Datum builtin_attention(const BuiltinCall *c)
{
    Value *q, *k, *v;
    bool causal;
    int64_t window;
    double scale, rate, softcap;
    Segments segments;
    Value *bias;
    int64_t bias_dims;
    if (!builtin_tensor(c, 0, &q) || !builtin_tensor(c, 1, &k) ||
        !builtin_tensor(c, 2, &v) || !builtin_flag(c, 3, false, &causal) ||
        !builtin_number(c, 4, 0, &scale) || !builtin_number(c, 5, 0, &rate) ||
        !builtin_number(c, 7, 0, &softcap))
        return datum_poison();
    if (rate < 0 || rate >= 1)
        return lower_poison(c->l, builtin_loc(c, 5), NULL, "the probability of "
                            "dropout must be at least 0 and below 1");
    if (c->arg[7].kind != DATUM_NONE && softcap <= 0)
        return lower_poison(c->l, builtin_loc(c, 7), NULL, "the softcap must be above 0, "
                            "not %g", softcap);
    if (!attention_fits(&q->type, &k->type, &v->type))
        return lower_poison(c->l, c->call->loc, "q is [b, s, heads, d], k and "
                            "v are [b, t, kv_heads, d]; kv_heads divides heads",
                            "cannot attend from %s to %s and %s",
                            builtin_shape(c, q), builtin_shape(c, k),
                            builtin_shape(c, v));
    if (!read_window(c, &q->type, &k->type, &window) ||
        !read_segments(c, &q->type, &k->type, &segments) ||
        !read_bias(c, &q->type, &k->type, &bias, &bias_dims))
        return datum_poison();
    if (c->arg[4].kind == DATUM_NONE)
        scale = 1 / sqrt((double)q->type.dim[3]);
    Attr attr[MAX_ATTRS] = {{.i = causal}, {.f = scale}, {.i = window}, {.f = softcap},
                            {.i = segments.key != NULL}};
    attr[op_attr_index(OP_attention, ATTR_bias)].i = bias_dims;
    Datum args[7] = {c->arg[0], c->arg[1], c->arg[2]};
    int n = 3;
    if (rate > 0 && program_trains(c->l->p)) {
        attr[5].f = rate;
        attr[6].i = c->l->sites++;
        attr[7].l = (AttrList){3, {q->type.dim[0], k->type.dim[2],
                                   q->type.dim[2] / k->type.dim[2]}};
        args[n++] = lower_key(c->l);
    }
    if (segments.key) {
        args[n++] = datum_tensor(segments.query);
        args[n++] = datum_tensor(segments.key);
    }
    if (bias)
        args[n++] = datum_tensor(bias);
    return with_sinks(c, lower_op(c->l, c->call->loc, "attend from", OP_attention, n, args, attr));
}
