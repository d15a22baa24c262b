/* einsum.c: rewrites einsums that are not contractions of two operands.
 *
 * requires: STAGE_GLOBAL
 * ensures:  the same stage. A letter that one operand has, and neither the
 *           other nor the result, is summed before the product. An einsum that
 *           then sums no letter is an elementwise product.
 *
 * before   %y = einsum{spec="abc,bd->ad", type=f32} %x, %w : f32[4, 8] forward
 *          %z = einsum{spec="ad,d->ad", type=f32} %y, %g : f32[4, 8] forward
 * after    %sum = sum{dims=[2], keep=false} %x : f32[4, 6] forward
 *          %y = einsum{spec="ab,bd->ad", type=f32} %sum, %w : f32[4, 8] forward
 *          %reshape = reshape{dims=[1, 8]} %g : f32[1, 8] forward
 *          %broadcast = broadcast{dims=[4, 8]} %reshape : f32[4, 8] forward
 *          %z = mul %y, %broadcast : f32[4, 8] forward
 *
 * No matmul computes the first einsum. The second would be one product of 1x1
 * matrices for each element, in the worst case: the rewrite always pays, as
 * `sh tests/bench/einsum` measures.
 * The pass runs before autodiff, so that gradients use the sum, and the backward
 * pass needs the sum instead of x.
 */
#include <string.h>

#include "passes/autodiff/gradients.h"
#include "passes/pass.h"

enum { RESULT = 2 };

typedef struct Einsum {
    EinsumLetters letter;
    Value *arg[2];
    int64_t size[SPEC_LETTERS];
} Einsum;

static bool has(const Einsum *e, int i, char letter)
{
    return strchr(e->letter[i], letter) != NULL;
}

void einsum_letters(const char *spec, EinsumLetters letter)
{
    for (int i = 0; i <= RESULT; i++) {
        int n;
        const char *of = spec_letters(spec, i, &n);
        memcpy(letter[i], of, (size_t)n);
        letter[i][n] = 0;
    }
}

static void read_einsum(Einsum *e, const char *spec, Value *x, Value *y)
{
    *e = (Einsum){.arg = {x, y}};
    einsum_letters(spec, e->letter);
    for (int i = 0; i < RESULT; i++)
        for (int d = 0; d < e->arg[i]->type.ndim; d++)
            e->size[e->letter[i][d] - 'a'] = e->arg[i]->type.dim[d];
}

/* ---- sums ---------------------------------------------------------------- */

/* Sums operand i over the letters that nothing else has. For a matmul the sum
 * has the operand's type; for an elementwise product it stays f32. */
static void sum_operand(Build *b, Einsum *e, int i, bool product)
{
    Value *x = e->arg[i];
    char kept[MAX_DIMS + 1] = "";
    int64_t dim[MAX_DIMS], terms = 1;
    AttrList summed = {0};
    int n = 0;
    for (int d = 0; d < x->type.ndim; d++) {
        char letter = e->letter[i][d];
        if (has(e, 1 - i, letter) || has(e, RESULT, letter)) {
            dim[n] = x->type.dim[d];
            kept[n++] = letter;
        } else {
            terms *= x->type.dim[d];
            summed.v[summed.n++] = d;
        }
    }
    if (summed.n == 0)
        return;
    if (terms == 1) {
        e->arg[i] = ir_reshape(b, x, n, dim);
    } else {
        Value *sum = ir_sum(b, x, summed, false);
        e->arg[i] = product ? sum : ir_cast(b, sum, x->type.dtype);
    }
    memcpy(e->letter[i], kept, sizeof kept);
}

/* ---- products ------------------------------------------------------------ */

/* Whether no letter of both operands is summed. */
static bool is_product(const Einsum *e)
{
    for (const char *c = e->letter[0]; *c; c++)
        if (has(e, 1, *c) && !has(e, RESULT, *c))
            return false;
    return true;
}

/* Operand i with the letters and sizes of the result. An operand that repeats is
 * cast to f32 first, so that its gradient, a sum, is not rounded. */
static Value *spread(Build *b, const Einsum *e, int i)
{
    const char *from = e->letter[i], *to = e->letter[RESULT];
    Value *x = e->arg[i];
    AttrList perm = {0};
    int64_t narrow[MAX_DIMS], whole[MAX_DIMS];
    bool moves = false, repeats = false;
    int n = 0;
    for (; to[n]; n++) {
        const char *at = strchr(from, to[n]);
        whole[n] = e->size[to[n] - 'a'];
        narrow[n] = at ? whole[n] : 1;
        repeats |= narrow[n] != whole[n];
        if (!at)
            continue;
        moves |= at - from != perm.n;
        perm.v[perm.n++] = at - from;
    }
    if (repeats)
        x = ir_cast(b, x, DT_F32);
    if (moves)
        x = ir_transpose(b, x, perm);
    if (perm.n < n)
        x = ir_reshape(b, x, n, narrow);
    return repeats ? ir_broadcast(b, x, n, whole) : x;
}

/* Operands of unlike types are multiplied in f32. */
static Value *multiply(Build *b, const Einsum *e, DType t)
{
    Value *x = spread(b, e, 0), *y = spread(b, e, 1);
    bool alike = x->type.dtype == t && y->type.dtype == t;
    DType in = alike ? t : DT_F32;
    Value *z = ir_binary(b, OP_mul, ir_cast(b, x, in), ir_cast(b, y, in));
    return ir_cast(b, z, t);
}

Value *einsum_build(Build *b, const char *spec, DType t, Value *x, Value *y)
{
    Einsum e;
    read_einsum(&e, spec, x, y);
    bool product = is_product(&e);
    sum_operand(b, &e, 0, product);
    sum_operand(b, &e, 1, product);
    if (product)
        return multiply(b, &e, t);
    return ir_einsum(b, arena_printf(b->p->arena, "%s,%s->%s", e.letter[0],
                                     e.letter[1], e.letter[RESULT]),
                     t, e.arg[0], e.arg[1]);
}

/* ---- the pass ------------------------------------------------------------ */

static void rewrite(Program *p, Op *op)
{
    Value *out = op->out[0];
    Build b = ir_build_at(p, op, op);
    Value *made = einsum_build(&b, attr_spec(op), out->type.dtype,
                               op->arg[0], op->arg[1]);
    ir_swap_names(made, out);
    ir_replace_uses(op->region, out, made);
    ir_remove(op);
}

static bool is_contraction(const Op *op)
{
    Einsum e;
    read_einsum(&e, attr_spec(op), op->arg[0], op->arg[1]);
    for (int i = 0; i < RESULT; i++)
        for (const char *c = e.letter[i]; *c; c++)
            if (!has(&e, 1 - i, *c) && !has(&e, RESULT, *c))
                return false;
    return !is_product(&e);
}

static void visit(Program *p, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            visit(p, op->body);
        else if (op->kind == OP_einsum && !is_contraction(op))
            rewrite(p, op);
    }
}

void pass_einsum(Program *p, const TargetInfo *t)
{
    (void)t;
    visit(p, p->step);
}
