/* interp_epilogue.c: evaluates einsums with an epilogue: computes the product,
 * then applies the epilogue. */
#include "ir/rules/rule_text.h"
#include "tests/interp/interp_impl.h"

/* Adds operand i; a vector is repeated along all dims but the last. */
static void add_operand(Interp *in, const Op *op, int64_t rank, int i,
                        int result)
{
    Local z = interp_local(in, op->arg[i], rank);
    Local out = interp_local(in, op->out[result], rank);
    for (int64_t k = 0; k < out.shape->n; k++)
        out.at[k] += z.at[k % z.shape->n];
}

/* Adds the product and all further operands. */
static void add_all(Interp *in, const Op *op, int64_t rank, int result)
{
    interp_product(in, op, rank, result);
    for (int i = 2; i < op->nargs; i++)
        add_operand(in, op, rank, i, result);
}

void interp_einsum_bias(Interp *in, const Op *op, int64_t rank)
{
    add_all(in, op, rank, 0);
}

void interp_einsum_add(Interp *in, const Op *op, int64_t rank)
{
    add_all(in, op, rank, 0);
}

void interp_einsum_gelu(Interp *in, const Op *op, int64_t rank)
{
    add_all(in, op, rank, 1);
    Local y = interp_local(in, op->out[0], rank);
    Local e = interp_local(in, op->out[1], rank);
    for (int64_t i = 0; i < e.shape->n; i++)
        y.at[i] = interp_gelu(e.at[i]);
}

void interp_einsum_gelu_grad(Interp *in, const Op *op, int64_t rank)
{
    interp_product(in, op, rank, 0);
    Local z = interp_local(in, op->arg[2], rank);
    Local out = interp_local(in, op->out[0], rank);
    for (int64_t i = 0; i < out.shape->n; i++)
        out.at[i] *= interp_gelu_slope(z.at[i]);
}

void interp_einsum_bias_grad(Interp *in, const Op *op, int64_t rank)
{
    RuleText t;
    add_all(in, op, rank, 0);
    Local x = interp_local(in, op->arg[0], rank);
    Local sum = interp_local(in, op->out[1], rank);
    if (spec_text_parse(attr_spec(op), &t))
        return; /* interp_product has reported it */
    const RuleTensor *second = &t.tensor[op->nargs + 1];
    int64_t own[MAX_SHAPE];
    interp_strides(sum.shape, own);
    Walk w;
    interp_walk_start(&w, x.shape->ndim, x.shape->dim, 2);
    interp_strides(x.shape, w.stride[0]);
    for (int d = 0; d < t.tensor[0].n; d++)
        for (int k = 0; k < second->n; k++)
            if (second->dim[k].letter[0] == t.tensor[0].dim[d].letter[0])
                w.stride[1][d] = own[k];
    for (; w.left > 0; interp_walk_next(&w))
        sum.at[w.at[1]] += x.at[w.at[0]];
}
