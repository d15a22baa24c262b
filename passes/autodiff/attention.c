/* attention.c: holds the gradient rules of attention; see gradients.h.
 *
 *   o, lse = attention(q, k, v, bias)
 * →
 *   dq, dk, dv = attention_grad(do, q, k, v, o, lse, bias)
 *   dbias = attention_bias_grad(do, q, k, v, o, lse, bias)   if it is wanted
 *
 * The second op computes the gradient of each score. A bias without the dim of the queries
 * or the keys is broadcast before, and its gradient summed after.
 *
 *   y, all = attention_sinks(o, lse, x)
 * →
 *   dq, dk, dv = attention_grad(dy, q, k, v, y, all, bias)
 *   dx = -sum(exp(x - all) * sum(dy * y))              over the elements, then b and s
 *
 * With sinks exp(score - all) is the weight of a key, and dy y is the mean of its gradients:
 * the ops compute the gradient of the sum of both, and the attention itself gets none.
 */
#include "ir/analysis/attention.h"
#include "passes/autodiff/gradients.h"

enum { OF_SCORES = BIAS_QUERIES | BIAS_KEYS, MOST_OPERANDS = 10 };

/* The bias with all dims in `bits`, of which it has `has`. */
static Value *with_dims(Gradient *g, Value *bias, int64_t has, int64_t bits)
{
    const Type *q = &g->op->arg[0]->type, *k = &g->op->arg[1]->type;
    const int64_t size[BIAS_DIMS] = {q->dim[0], q->dim[2], q->dim[1], k->dim[1]};
    int64_t one[MAX_DIMS], all[MAX_DIMS];
    int n = 0;
    for (int i = 0; i < BIAS_DIMS; i++)
        if (bits >> i & 1) {
            one[n] = has >> i & 1 ? size[i] : 1;
            all[n++] = size[i];
        }
    return ir_broadcast(g->b, ir_reshape(g->b, bias, n, one), n, all);
}

/* The gradient of the bias, from that with the dims in `bits`. */
static Value *without_dims(Gradient *g, Value *d, int64_t has, int64_t bits)
{
    AttrList gone = {0};
    int n = 0;
    for (int i = 0; i < BIAS_DIMS; i++)
        if (bits >> i & 1) {
            if (!(has >> i & 1))
                gone.v[gone.n++] = n;
            n++;
        }
    return gone.n > 0 ? ir_sum(g->b, d, gone, false) : d;
}

/* `args`: the operands of attention_grad. */
static void give_bias(Gradient *g, int nargs, Value **args)
{
    int bias = attention_operands(g->op).bias;
    if (bias < 0 || !gradient_wanted(g, bias))
        return;
    int64_t has = attr_bias(g->op), bits = has | OF_SCORES;
    Attr attr[MAX_ATTRS];
    for (int i = 0; i < MAX_ATTRS; i++)
        attr[i] = g->op->attr[i];
    attr[op_attr_index(OP_attention, ATTR_bias)].i = bits;
    if (has != bits)
        args[3 + bias] = with_dims(g, args[3 + bias], has, bits);
    Value *d = ir_value(g->b, OP_attention_bias_grad, nargs, args, attr, NULL);
    gradient_give(g, bias, without_dims(g, d, has, bits));
}

static bool has_row_sums(const Gradient *g)
{
    if (g->d1 == NULL && g->d != NULL)
        return false;
    diag_error(g->b->p->diag, g->op->loc,
               "the loss depends on the second result of '%s', its row "
               "sums, which have no gradient", op_info(g->op->kind)->name);
    return true;
}

/* Gives the operands of an attention with the results o and lse their gradients. */
static void give_operands(Gradient *g, Value *o, Value *lse)
{
    const Op *op = g->op;
    Value *args[MOST_OPERANDS] = {g->d,
                                  gradient_use(g, op->arg[0]),
                                  gradient_use(g, op->arg[1]),
                                  gradient_use(g, op->arg[2]),
                                  gradient_use(g, o),
                                  gradient_use(g, lse)};
    for (int i = attention_operands(op).own; i < op->nargs; i++)
        args[3 + i] = gradient_use(g, op->arg[i]);
    bool wanted = false;
    for (int i = 0; i < 3; i++)
        wanted |= gradient_wanted(g, i);
    if (wanted) { /* the gradient op has the same attributes as the forward op */
        Op *back = ir_op(g->b, OP_attention_grad, 3 + op->nargs, args, op->attr, NULL);
        for (int i = 0; i < 3; i++)
            if (gradient_wanted(g, i))
                gradient_give(g, i, back->out[i]);
    }
    give_bias(g, 3 + op->nargs, args);
}

void gradient_attention(Gradient *g)
{
    bool sinks = g->op->nouts > 1 && g->d == NULL && g->d1 == NULL;
    if (!sinks && !has_row_sums(g)) /* the rule of sinks has given the gradients */
        give_operands(g, g->op->out[0], g->op->out[1]);
}

/* -sum(exp(x - all) * sum(dy y)) */
static Value *gradient_of_sinks(Gradient *g)
{
    const Type *t = &g->op->out[0]->type;
    const int64_t one[] = {1, 1, t->dim[2]};
    Value *y = ir_cast(g->b, gradient_use(g, g->op->out[0]), DT_F32);
    Value *all = gradient_use(g, g->op->out[1]), *x = gradient_use(g, g->op->arg[2]);
    Value *mean = ir_sum(g->b, ir_binary(g->b, OP_mul, ir_cast(g->b, g->d, DT_F32), y),
                         (AttrList){1, {3}}, false);
    all = ir_transpose(g->b, all, (AttrList){3, {0, 2, 1}});
    x = ir_broadcast(g->b, ir_reshape(g->b, x, 3, one), 3, t->dim);
    Value *weight = ir_unary(g->b, OP_exp, ir_binary(g->b, OP_sub, x, all));
    Value *sum = ir_sum(g->b, ir_binary(g->b, OP_mul, weight, mean), (AttrList){2, {0, 1}}, false);
    return ir_unary(g->b, OP_neg, sum);
}

void gradient_attention_sinks(Gradient *g)
{
    Gradient of = *g;
    of.op = g->op->arg[0]->def;
    if (has_row_sums(g))
        return;
    if (!of.op || of.op->kind != OP_attention || of.op->out[1] != g->op->arg[1]) {
        diag_error(g->b->p->diag, g->op->loc, "'%s' takes the results of one attention",
                   op_info(g->op->kind)->name);
        return;
    }
    give_operands(&of, g->op->out[0], g->op->out[1]);
    if (gradient_wanted(g, 2))
        gradient_give(g, 2, gradient_of_sinks(g));
}
