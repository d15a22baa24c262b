/* interp_contract.c: evaluates einsum on one rank's part, by its definition. */
#include "ir/rules/rule_text.h"
#include "tests/interp/interp_impl.h"

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
