/* random_statements.c: builds the statements of a random model.
 *
 * Each statement takes h [batch, seq, dim] and returns a tensor of the same
 * shape. Statements keep numbers small and smooth: none divides by a value that
 * may be zero, and none grows without a norm.
 */
#include "tests/unit/random.h"

#include <math.h>
#include <string.h>

typedef Value *Statement(Model *m, Value *h);

static Value *unary(Model *m, OpKind kind, Value *x)
{
    return ir_unary(model_at(m), kind, x);
}

static Value *binary(Model *m, OpKind kind, Value *x, Value *y)
{
    return ir_binary(model_at(m), kind, x, y);
}

static Value *one_plus_square(Model *m, Value *x)
{
    return model_offset(m, binary(m, OP_mul, x, x), 1);
}

/* ---- elementwise ------------------------------------------------------- */

static Value *activation(Model *m, Value *x)
{
    static const OpKind bounded[] = {OP_tanh, OP_sigmoid, OP_erf, OP_sin,
                                     OP_cos,  OP_relu,    OP_abs, OP_neg};
    static const OpKind of_square[] = {OP_log, OP_sqrt, OP_rsqrt, OP_recip};
    switch (rng_below(m->r, 6)) {
    case 0:
        return unary(m, of_square[rng_below(m->r, 4)], one_plus_square(m, x));
    case 1:
        return unary(m, OP_exp, unary(m, OP_tanh, x));
    case 2:
        return binary(m, OP_mul, x, unary(m, OP_sigmoid, x));
    case 3: {
        Attr attr[MAX_ATTRS] = {{.f = rng_chance(m->r, 50) ? -0.5 : 0.75}};
        Value *s = one_plus_square(m, x);
        return ir_value(model_at(m), OP_power, 1, &s, attr, NULL);
    }
    case 4:
        return unary(m, OP_gelu, x);
    default:
        return unary(m, bounded[rng_below(m->r, 8)], x);
    }
}

/* A tensor of the model that broadcasts against [batch, seq, dim]. */
static Value *other_operand(Model *m, Value *h)
{
    int64_t last = m->dim, s = m->seq;
    int at;
    switch (rng_below(m->r, 6)) {
    case 0:
        at = model_param(m, model_name(m, "v"), 1, &last);
        return model_param_value(m, at);
    case 1:
        at = model_param(m, model_name(m, "v"), 2, (int64_t[]){s, last});
        return model_param_value(m, at);
    case 2:
        at = model_param(m, model_name(m, "v"), 2, (int64_t[]){s, 1});
        return model_param_value(m, at);
    case 3:
        return model_mean(m, h, (int)rng_below(m->r, 3));
    case 4:
        return ir_scalar_const(model_at(m), 0.5);
    default: {
        Known k = m->known.at[rng_below(m->r, m->known.n)];
        return model_reach(m, k.value, k.level);
    }
    }
}

static Value *combine(Model *m, Value *h)
{
    Value *y = other_operand(m, h);
    bool swap = rng_chance(m->r, 50);
    switch (rng_below(m->r, 7)) {
    case 0:
        return binary(m, OP_mul, h, unary(m, OP_tanh, y));
    case 1:
        return swap ? binary(m, OP_sub, y, h) : binary(m, OP_sub, h, y);
    case 2:
        return binary(m, OP_div, h, one_plus_square(m, y));
    case 3:
        return binary(m, swap ? OP_maximum : OP_minimum, h, y);
    case 4: {
        Value *args[] = {binary(m, OP_less, h, y), model_scale(m, h, 2),
                         activation(m, h)};
        return ir_value(model_at(m), OP_select, 3, args, NULL, NULL);
    }
    case 5:
        return binary(m, OP_mul, h, unary(m, OP_detach, unary(m, OP_cos, y)));
    default:
        return swap ? binary(m, OP_add, y, h) : binary(m, OP_add, h, y);
    }
}

/* Rarely the batch dim: a plan with gradient accumulation is refused if rows of
 * the batch depend on each other. */
static int some_dim(Model *m)
{
    bool rows = m->p->train.accumulate == 1 || rng_chance(m->r, 5);
    return rows ? (int)rng_below(m->r, 3) : 1 + (int)rng_below(m->r, 2);
}

static Value *softmax(Model *m, Value *x, int dim)
{
    AttrList dims = {1, {dim}};
    Build *b = model_at(m);
    Value *most = ir_unary(b, OP_detach, ir_max(b, x, dims, true));
    Value *e = ir_unary(b, OP_exp, ir_binary(b, OP_sub, x, most));
    return ir_binary(b, OP_div, e, ir_sum(b, e, dims, true));
}

static Value *softmax_some_dim(Model *m, Value *h)
{
    return binary(m, OP_add, h, softmax(m, h, some_dim(m)));
}

static Value *just_activation(Model *m, Value *h)
{
    return activation(m, h);
}

/* ---- modules ----------------------------------------------------------- */

static Value *mlp(Model *m, Value *h)
{
    int64_t hidden = m->times * rng_pick(m->r, 12, 24, 24, 18, 7, 7);
    Opened o = model_open(m, model_name(m, "mlp"), "Mlp", 1, 1);
    Value *x = model_in(m, h, 0);
    Linear up = model_linear(m, "up", m->dim, hidden, rng_chance(m->r, 40));
    Value *y = activation(m, model_call(m, &up, x));
    if (rng_chance(m->r, 50)) {
        Linear gate = model_linear(m, "gate", m->dim, hidden, false);
        y = binary(m, OP_mul, y, unary(m, OP_tanh, model_call(m, &gate, x)));
    }
    Linear down = model_linear(m, "down", hidden, m->dim, rng_chance(m->r, 40));
    y = model_out(m, model_call(m, &down, y), 0);
    model_close(m, o);
    return rng_chance(m->r, 70) ? binary(m, OP_add, h, y) : y;
}

static Value *norm(Model *m, Value *h)
{
    bool layer = rng_chance(m->r, 40);
    Opened o = model_open(m, model_name(m, "norm"),
                          layer ? "LayerNorm" : "RMSNorm", 1, 1);
    Value *x = model_in(m, h, 0);
    if (layer)
        x = binary(m, OP_sub, x, model_mean(m, x, 2));
    x = model_norm(m, x);
    int w = model_param(m, "weight", 1, &m->dim);
    DType type = x->type.dtype;
    x = binary(m, OP_mul, x, model_param_wide(m, w));
    x = ir_cast(model_at(m), x, type);
    if (layer) {
        int bias = model_param(m, "bias", 1, &m->dim);
        x = binary(m, OP_add, x, model_param_value(m, bias));
    }
    x = model_out(m, x, 0);
    model_close(m, o);
    return x;
}

/* A Linear and a norm of its result, as one module: as an FSDP unit it gathers
 * a weight in the compute type with one that is widened. */
static Value *sandwich(Model *m, Value *h)
{
    Opened o = model_open(m, model_name(m, "sandwich"), "Sandwich", 1, 1);
    Value *x = model_in(m, h, 0);
    Linear l = model_linear(m, "inner", m->dim, m->dim, false);
    x = binary(m, OP_add, x, norm(m, model_call(m, &l, x)));
    x = model_out(m, x, 0);
    model_close(m, o);
    return x;
}

/* A module with two inputs and two outputs. */
static Value *mix(Model *m, Value *h)
{
    Known k = m->known.at[rng_below(m->r, m->known.n)];
    Value *other = model_reach(m, k.value, k.level);
    Opened o = model_open(m, model_name(m, "mix"), "Mix", 2, 2);
    Value *x = model_in(m, h, 0);
    Value *y = model_in(m, other, 1);
    Linear l = model_linear(m, "w", m->dim, m->dim, rng_chance(m->r, 40));
    Value *u = binary(m, OP_mul, model_call(m, &l, x), activation(m, y));
    Value *v = binary(m, OP_add, x, y);
    u = model_out(m, u, 0);
    v = model_out(m, v, 1);
    model_close(m, o);
    return rng_chance(m->r, 70) ? binary(m, OP_add, u, v) : u;
}

/* cos and sin of position times frequency, computed once in phase init. */
static void rope_tables(Model *m, int64_t pairs, Value *table[2])
{
    Build b = {.p = m->p,
               .region = m->p->step,
               .before = m->first_input,
               .phase = PH_INIT,
               .path = m->path};
    Attr n[MAX_ATTRS] = {{.i = m->seq}};
    Value *s = ir_value(&b, OP_iota, 0, NULL, n, NULL);
    s = ir_reshape(&b, s, 2, (int64_t[]){m->seq, 1});
    n[0].i = pairs;
    Value *f = ir_value(&b, OP_iota, 0, NULL, n, NULL);
    Attr by[MAX_ATTRS] = {{.f = -0.7}};
    f = ir_unary(&b, OP_exp, ir_value(&b, OP_scale, 1, &f, by, NULL));
    Value *angle = ir_binary(&b, OP_mul, s, f);
    table[0] = model_reach(m, ir_unary(&b, OP_cos, angle), 0);
    table[1] = model_reach(m, ir_unary(&b, OP_sin, angle), 0);
}

static Value *heads(Model *m, Value *x, int64_t n, int64_t head)
{
    return ir_reshape(model_at(m), x, 4,
                      (int64_t[]){m->batch, m->seq, n, head});
}

static Value *rotated(Model *m, Value *x, Value *const table[2], bool half)
{
    Attr attr[MAX_ATTRS] = {{.i = half}, {.i = 0}};
    Value *args[] = {x, table[0], table[1]};
    return ir_value(model_at(m), OP_rotary, 3, args, attr, NULL);
}

/* Integers [batch, seq] that grow after every `length` positions, elsewhere in each row. */
static Value *segments(Model *m, int64_t length)
{
    Build *b = model_at(m);
    Attr rows[MAX_ATTRS] = {{.i = m->batch}}, columns[MAX_ATTRS] = {{.i = m->seq}};
    Attr by[MAX_ATTRS] = {{.f = 1 / ((double)length + 0.1)}};
    Value *row = ir_reshape(b, ir_value(b, OP_iota, 0, NULL, rows, NULL), 2,
                            (int64_t[]){m->batch, 1});
    Value *at = ir_binary(b, OP_add, row, ir_value(b, OP_iota, 0, NULL, columns, NULL));
    return ir_cast(b, ir_value(b, OP_scale, 1, &at, by, NULL), DT_I32);
}

/* A bias of attention with `n` heads: a parameter, or sums of x for each sequence and key;
 * *dims: the dims of the scores that it has. */
static Value *attention_bias(Model *m, Value *x, int64_t n, int64_t *dims)
{
    enum { OF_SUMS = 1 | 8 };
    int64_t size[4] = {m->batch, n, m->seq, m->seq}, dim[4];
    int ndim = 0;
    *dims = rng_pick(m->r, 14, 12, 10, 8, 6, OF_SUMS);
    if (*dims == OF_SUMS)
        return ir_cast(model_at(m), ir_sum(model_at(m), x, (AttrList){1, {2}}, false), DT_F32);
    for (int i = 0; i < 4; i++)
        if (*dims >> i & 1)
            dim[ndim++] = size[i];
    return ir_cast(model_at(m), model_param_wide(m, model_param(m, "bias", ndim, dim)), DT_F32);
}

static Value *attention(Model *m, Value *h)
{
    int64_t head = rng_pick(m->r, 2, 4), kv = rng_pick(m->r, 1, 2, 4);
    int64_t n = kv * rng_pick(m->r, 1, 2);
    Opened o = model_open(m, model_name(m, "attention"), "Attention", 1, 1);
    Value *x = model_in(m, h, 0);
    Linear wq = model_linear(m, "wq", m->dim, n * head, false);
    Linear wk = model_linear(m, "wk", m->dim, kv * head, false);
    Linear wv = model_linear(m, "wv", m->dim, kv * head, false);
    Linear wo = model_linear(m, "wo", n * head, m->dim, false);
    Value *q = heads(m, model_call(m, &wq, x), n, head);
    Value *k = heads(m, model_call(m, &wk, x), kv, head);
    Value *v = heads(m, model_call(m, &wv, x), kv, head);
    if (rng_chance(m->r, 60)) {
        Value *table[2];
        bool half = rng_chance(m->r, 50);
        rope_tables(m, head / 2, table);
        q = rotated(m, q, table, half);
        k = rotated(m, k, table, half);
    }
    Attr attr[MAX_ATTRS] = {{.i = rng_chance(m->r, 60)},
                            {.f = 1 / sqrt((double)head)}};
    Value *args[7] = {model_narrow(m, q), model_narrow(m, k), model_narrow(m, v)};
    int nargs = 3;
    if (rng_chance(m->r, 40)) {
        attr[5].f = 0.2;
        attr[6].i = m->sites++;
        attr[7].l = (AttrList){3, {m->batch, kv, n / kv}};
        args[nargs++] = model_key(m);
    }
    attr[2].i = rng_chance(m->r, 30) ? 1 + rng_below(m->r, m->seq) : 0;
    attr[3].f = rng_chance(m->r, 25) ? 0.5 + rng_below(m->r, 4) : 0;
    attr[4].i = rng_chance(m->r, 30);
    if (attr[4].i) {
        Value *own = segments(m, 1 + rng_below(m->r, m->seq));
        args[nargs++] = own;
        args[nargs++] =
            rng_chance(m->r, 60) ? own : segments(m, 1 + rng_below(m->r, m->seq));
    }
    if (rng_chance(m->r, 30))
        args[nargs++] = attention_bias(m, x, n, &attr[8].i);
    Op *of = ir_op(model_at(m), OP_attention, nargs, args, attr, "o");
    Value *y = of->out[0];
    if (rng_chance(m->r, 25)) {
        Value *sinks = model_param_wide(m, model_param(m, "sinks", 1, &n));
        Value *in[] = {y, of->out[1], ir_cast(model_at(m), sinks, DT_F32)};
        y = ir_op(model_at(m), OP_attention_sinks, 3, in, NULL, "y")->out[0];
    }
    y = ir_reshape(model_at(m), y, 3, (int64_t[]){m->batch, m->seq, n * head});
    y = model_out(m, model_call(m, &wo, y), 0);
    model_close(m, o);
    return binary(m, OP_add, h, y);
}

/* Calls a Linear of this level, or of an outer one, a second time. */
static Value *call_again(Model *m, Value *h)
{
    for (int tries = 0; tries < 8 && m->linear.n > 0; tries++) {
        Linear *l = &m->linear.at[rng_below(m->r, m->linear.n)];
        if (l->in == m->dim && l->out == m->dim && l->level <= m->depth)
            return unary(m, OP_tanh, model_call(m, l, h));
    }
    Linear l = model_linear(m, model_name(m, "again"), m->dim, m->dim, true);
    h = unary(m, OP_tanh, model_call(m, &l, h));
    return model_call(m, &l, h);
}

/* ---- shapes and contractions ------------------------------------------- */

static Value *slice(Model *m, Value *x, int dim, int64_t start, int64_t size)
{
    Attr attr[MAX_ATTRS] = {{.i = dim}, {.i = start}, {.i = size}};
    return ir_value(model_at(m), OP_slice, 1, &x, attr, NULL);
}

/* Cuts h in two unequal pieces, changes one and joins them. */
static Value *cut_and_join(Model *m, Value *h)
{
    int dim = rng_chance(m->r, 70) ? 2 : 1;
    int64_t size = h->type.dim[dim];
    int64_t at =
        rng_chance(m->r, 50) ? size / 2 : 1 + rng_below(m->r, size - 1);
    Value *piece[] = {slice(m, h, dim, 0, at), slice(m, h, dim, at, size - at)};
    piece[1] = activation(m, piece[1]);
    Value *swapped[] = {piece[1], piece[0]};
    Attr attr[MAX_ATTRS] = {{.i = dim}};
    return ir_value(model_at(m), OP_concat, 2,
                    rng_chance(m->r, 50) ? piece : swapped, attr, NULL);
}

/* Every position reads the previous one. */
static Value *shift(Model *m, Value *h)
{
    Value *x = slice(m, h, 1, 0, m->seq - 1);
    Attr attr[MAX_ATTRS] = {{.i = 1}, {.i = 1}, {.i = 0}};
    x = ir_value(model_at(m), OP_pad, 1, &x, attr, NULL);
    return binary(m, OP_add, model_scale(m, h, 0.5), x);
}

static Value *transposed(Model *m, Value *h)
{
    AttrList to = {3, {0, 2, 1}};
    Value *x = ir_transpose(model_at(m), h, to);
    x = rng_chance(m->r, 50) ? activation(m, x) : softmax(m, x, 2);
    return ir_transpose(model_at(m), x, to);
}

static Value *by_heads(Model *m, Value *h)
{
    int64_t n = m->dim % 4 == 0 ? 4 : 2, head = m->dim / n;
    Value *x = heads(m, h, n, head);
    x = rng_chance(m->r, 50) ? softmax(m, x, 2 + (int)rng_below(m->r, 2))
                             : model_norm(m, x);
    if (rng_chance(m->r, 40)) {
        AttrList swap = {4, {0, 2, 1, 3}};
        x = ir_transpose(model_at(m), x, swap);
        x = binary(m, OP_mul, x, model_mean(m, x, 2));
        x = ir_transpose(model_at(m), x, swap);
    }
    x = ir_reshape(model_at(m), x, 3, (int64_t[]){m->batch, m->seq, m->dim});
    return binary(m, OP_add, h, x);
}

static Value *flat_tokens(Model *m, Value *h)
{
    Value *x =
        ir_reshape(model_at(m), h, 2, (int64_t[]){m->batch * m->seq, m->dim});
    Linear l = model_linear(m, model_name(m, "flat"), m->dim, m->dim, false);
    x = activation(m, model_call(m, &l, x));
    return ir_reshape(model_at(m), x, 3, (int64_t[]){m->batch, m->seq, m->dim});
}

static Value *mix_positions(Model *m, Value *h)
{
    int w = model_param(m, model_name(m, "p"), 2, (int64_t[]){m->seq, m->seq});
    Value *y = model_einsum(m, "bsk,ts->btk", h, model_param_value(m, w));
    return model_scale(m, y, 0.5);
}

/* Attention as single ops, with the scores as a tensor. */
static Value *scores(Model *m, Value *h)
{
    Value *x = model_norm(m, h);
    Value *s = model_einsum(m, "bsk,btk->bst", x, x);
    s = softmax(m, model_scale(m, s, 0.3), 2);
    return model_einsum(m, "bst,btk->bsk", s, h);
}

static const char *shuffled(Model *m, const char *letters)
{
    char *s = arena_strdup(m->p->arena, letters);
    for (int64_t i = (int64_t)strlen(s) - 1; i > 0; i--) {
        int64_t k = rng_below(m->r, i + 1);
        char c = s[i];
        s[i] = s[k];
        s[k] = c;
    }
    return s;
}

/* Contractions over two dims and over two batch dims, with dims in any order:
 * most are matmuls only after a transpose. */
static Value *contract_two(Model *m, Value *h)
{
    Arena *a = m->p->arena;
    int64_t parts = m->dim % 2 == 0 ? 2 : 1;
    const char *s = shuffled(m, "bnst"), *z = shuffled(m, "bsd");
    Value *x = ir_reshape(model_at(m), model_norm(m, h), 4,
                          (int64_t[]){m->batch, m->seq, parts,
                                      m->dim / parts});
    Value *y = model_einsum(m, arena_printf(a, "bsnd,btnd->%s", s), x, x);
    y = unary(m, OP_tanh, model_scale(m, y, 0.2));
    y = model_einsum(m, arena_printf(a, "%s,btnd->%s", s, z), y, x);
    y = unary(m, OP_tanh, model_scale(m, y, 0.3));
    y = model_einsum(m, arena_printf(a, "%s,bsnd->bsnd", z), y, x);
    return ir_reshape(model_at(m), y, 3,
                      (int64_t[]){m->batch, m->seq, m->dim});
}

/* Einsums that the pass `einsum` rewrites: letters that one operand alone has,
 * which the mesh may split, and elementwise products. */
static Value *contract_alone(Model *m, Value *h)
{
    Arena *a = m->p->arena;
    int w = model_param(m, model_name(m, "alone"), 2,
                        (int64_t[]){m->seq, m->dim});
    Value *x = model_norm(m, h), *v = model_param_value(m, w);
    const char *s = shuffled(m, "bt"), *z = shuffled(m, "bsd");
    Value *y = rng_chance(m->r, 50)
                   ? model_einsum(m, arena_printf(a, "bcd,td->%s", s), x, v)
                   : model_einsum(m, arena_printf(a, "td,bsk->%s", s), v, x);
    y = unary(m, OP_tanh, model_scale(m, y, 0.1));
    y = model_einsum(m, arena_printf(a, "bsd,%s->%s", s, z), x, y);
    return model_einsum(m, arena_printf(a, "%s,bsc->bsd", z), y, x);
}

static Value *tokens_again(Model *m, Value *h)
{
    Value *ids = model_reach(m, m->tokens, 0);
    int table = model_param(m, model_name(m, "table"), 2,
                            (int64_t[]){m->vocab, m->dim});
    Value *w = model_param_value(m, table), *x;
    if (rng_chance(m->r, 50)) {
        Attr attr[MAX_ATTRS] = {{.i = m->vocab}};
        Value *hot = ir_value(model_at(m), OP_onehot, 1, &ids, attr, NULL);
        x = model_einsum(m, "bsv,vd->bsd", hot, w);
    } else {
        Value *args[] = {w, ids};
        x = ir_value(model_at(m), OP_embedding, 2, args, NULL, NULL);
    }
    return binary(m, OP_add, h, x);
}

/* Sets some elements or rows to zero, or adds noise. */
static Value *drop(Model *m, Value *h)
{
    Value *like = h;
    if (rng_chance(m->r, 25))
        like = model_mean(m, h, (int)rng_below(m->r, 3));
    Rng own = *m->r; /* a copy: m->r's later numbers do not depend on this part */
    bool rounds = rng_chance(&own, 30);
    Value row = *h;
    for (int d = 1; d < row.type.ndim; d++)
        row.type.dim[d] = 1;
    if (rng_chance(&own, 25))
        like = &row;
    Value *u = model_random(m, like);
    if (rounds)
        return binary(m, OP_mul, h, model_narrow(m, unary(m, OP_floor,
                                                          model_offset(m, u, 0.75))));
    if (rng_chance(m->r, 20))
        return binary(m, OP_add, h, u);
    Value *args[] = {
        binary(m, OP_less, u, ir_scalar_const(model_at(m), 0.25)),
        ir_scalar_const(model_at(m), 0), ir_scalar_const(model_at(m), 4.0 / 3)};
    Value *mask = ir_value(model_at(m), OP_select, 3, args, NULL, NULL);
    Value *x = rng_chance(m->r, 50) ? activation(m, h) : h;
    return binary(m, OP_mul, x, model_narrow(m, mask));
}

/* Positions from iota, with a trained scale. */
static Value *positions(Model *m, Value *h)
{
    Attr attr[MAX_ATTRS] = {{.i = m->dim}};
    Value *x = ir_value(model_at(m), OP_iota, 0, NULL, attr, NULL);
    int w = model_param(m, model_name(m, "scale"), 1, &m->dim);
    x = binary(m, OP_mul, unary(m, OP_sin, x), model_param_value(m, w));
    return binary(m, OP_add, h, x);
}

static Value *squeezed(Model *m, Value *h)
{
    AttrList dims = {1, {some_dim(m)}};
    if (rng_chance(m->r, 30))
        dims = (AttrList){2, {1, 2}};
    Value *x = ir_sum(model_at(m), h, dims, true);
    x = unary(m, OP_tanh, model_scale(m, x, 0.2));
    x = ir_broadcast(model_at(m), x, 3, h->type.dim);
    return binary(m, OP_add, model_scale(m, h, 0.7), x);
}

/* The squared distances of the first elements of each row to the last of them. That one and
 * the next element can change places if they are nearly equal: it has no gradient. */
static Value *first_in_order(Model *m, Value *h)
{
    int64_t n = 1 + rng_below(m->r, m->dim);
    Attr attr[MAX_ATTRS] = {{.i = n}, {.i = rng_chance(m->r, 50)}};
    Value *first = ir_op(model_at(m), OP_topk, 1, &h, attr, "v")->out[0];
    Value *last = unary(m, OP_detach, slice(m, first, 2, n - 1, 1));
    Value *x = binary(m, OP_sub, first, last);
    x = ir_sum(model_at(m), binary(m, OP_mul, x, x), (AttrList){1, {2}}, true);
    return binary(m, OP_add, h, unary(m, OP_tanh, model_scale(m, x, 0.1)));
}

/* ---- loops ------------------------------------------------------------- */

/* A layer's result is bounded, as the next layer continues from it. */
static Value *body_statements(Model *m, Value *h)
{
    if (rng_chance(m->r, 40))
        return model_norm(m, sandwich(m, sandwich(m, h)));
    int64_t n = 1 + rng_below(m->r, 3);
    for (int64_t i = 0; i < n; i++) {
        Known k = {h, m->depth};
        vec_push(m->p->arena, &m->known, k);
        h = random_statement(m, h);
    }
    return rng_chance(m->r, 60) ? model_norm(m, h) : unary(m, OP_tanh, h);
}

static Value *layers(Model *m, Value *h)
{
    if (m->depth >= 2 || m->left < 4)
        return mlp(m, h);
    bool two = rng_chance(m->r, 30), swap = two && rng_chance(m->r, 50);
    Value *start[] = {h, two ? activation(m, h) : NULL};
    Attr attr[MAX_ATTRS] = {{.i = 2 + rng_below(m->r, 2)}, {.i = 0}};
    Op *loop = ir_open(model_at(m), OP_loop, 1 + two, start, 1 + two, 0, attr);
    const char *name =
        arena_printf(m->p->arena, "%s.*", model_name(m, "layers"));
    Opened o = model_open(m, name, "Layer", 1, 1);
    int known = m->known.n, linear = m->linear.n;
    Level *l = &m->level[++m->depth];
    *l = (Level){.loop = loop, .b = m->level[m->depth - 1].b};
    l->b.region = loop->body;
    l->b.before = NULL;
    Value *x = model_in(m, loop->body->arg[0], 0);
    x = body_statements(m, x);
    model_state(m, x);
    Value *yield[2] = {x, NULL};
    if (two)
        yield[1] =
            binary(m, OP_add, model_scale(m, loop->body->arg[1], 0.5), x);
    yield[0] = model_out(m, yield[0], 0);
    for (int i = 0; i <= two; i++)
        yield[i] = ir_cast(model_at(m), yield[i], start[i]->type.dtype);
    Value *swapped[] = {yield[1], yield[0]};
    ir_yield(m->p, loop->body, 1 + two, swap ? swapped : yield);
    m->depth--;
    m->known.n = known;
    m->linear.n = linear;
    model_close(m, o);
    ir_close(m->p, loop);
    return two ? binary(m, OP_add, loop->out[0],
                        unary(m, OP_tanh, loop->out[1]))
               : loop->out[0];
}

/* ---- the table --------------------------------------------------------- */

/* clang-format off */
static const struct {
    Statement *write;
    int weight;
} statement[] = {
    {just_activation, 1}, {combine, 4},       {softmax_some_dim, 1},
    {mlp, 4},             {norm, 3},          {mix, 2},
    {sandwich, 1},        {attention, 2},     {call_again, 2},    {cut_and_join, 2},
    {shift, 1},           {transposed, 1},    {by_heads, 2},
    {flat_tokens, 1},     {mix_positions, 1}, {scores, 1},
    {tokens_again, 1},    {positions, 1},     {squeezed, 1},
    {layers, 4},          {drop, 3},            {contract_two, 2},  {contract_alone, 2},
    {first_in_order, 2},  {random_conv, 2},    {random_experts, 2},
};
/* clang-format on */
enum { STATEMENTS = sizeof statement / sizeof *statement };

Value *random_statement(Model *m, Value *h)
{
    int total = 0;
    for (int i = 0; i < STATEMENTS; i++)
        total += statement[i].weight;
    int64_t at = rng_below(m->r, total);
    int i = 0;
    while (at >= statement[i].weight)
        at -= statement[i++].weight;
    m->left--;
    return statement[i].write(m, h);
}
