/* attention.c: holds the gradient rule of attention; see gradients.h.
 *
 *   o, lse = attention(q, k, v, bias)
 * →
 *   dq, dk, dv = attention_grad(do, q, k, v, o, lse, bias)
 *   dbias = attention_bias_grad(do, q, k, v, o, lse, bias)   if it is wanted
 *
 * The second op computes the gradient of each score. A bias without the dim of the queries
 * or the keys is broadcast before, and its gradient summed after.
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

void gradient_attention(Gradient *g)
{
    const Op *op = g->op;
    if (g->d1 != NULL || g->d == NULL) {
        diag_error(g->b->p->diag, op->loc,
                   "the loss depends on the second result of '%s', its row "
                   "sums, which have no gradient", op_info(op->kind)->name);
        return;
    }
    Value *args[MOST_OPERANDS] = {g->d,
                                  gradient_use(g, op->arg[0]),
                                  gradient_use(g, op->arg[1]),
                                  gradient_use(g, op->arg[2]),
                                  gradient_use(g, op->out[0]),
                                  gradient_use(g, op->out[1])};
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
