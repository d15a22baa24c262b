/* pad_fill.c: computes what the padding of every value contains.
 *
 * Parameters have zeros there. The rest follows op by op: an op that maps 0 to
 * 0 keeps zeros; one that makes another finite number (1 + x, cos) gives finite
 * padding; one that may make an infinity (1/x, log, exp of other numbers than
 * 0) gives padding that may be non-finite. A loop's carry gets the join of its
 * start and of every iteration.
 *
 *   %w = param … f32[98, 64]        zero in rows 97 …
 *   %y = einsum{"bk,fk->bf"} %x, %w zero in columns 97 …
 *   %e = exp %y                     finite: 1
 *   %r = recip %y                   possibly non-finite
 */
#include <string.h>

#include "base/bug.h"
#include "ir/rules/rules.h"
#include "passes/pad/pad.h"

struct PadFills {
    const PadClasses *c;
    const PadMask *mask;
    int nmasks;
    uint8_t *fill; /* by value id and dim */
    bool changed;  /* a carry's contents changed in this sweep */
};

static uint8_t *fill_at(const PadFills *f, const Value *v, int d)
{
    return &f->fill[v->id * MAX_DIMS + (uint32_t)d];
}

PadFill pad_fill(const PadFills *f, const Value *v, int d)
{
    return (PadFill)*fill_at(f, v, d);
}

/* ---- one op -------------------------------------------------------------- */

/* The padding of the operands along one factor of an op. */
typedef struct Brought {
    int n;
    PadFill fill[MAX_RULE_TENSORS];
    bool has[MAX_RULE_TENSORS]; /* the operand has the factor */
} Brought;

static PadFill worst(const Brought *b, int from)
{
    PadFill fill = FILL_ZERO;
    for (int i = from; i < b->n; i++)
        fill = b->fill[i] > fill ? b->fill[i] : fill;
    return fill;
}

/* The padding of a result along the factor. */
static PadFill result_fill(const Op *op, const Brought *b)
{
    PadFill first = b->fill[0], all = worst(b, 0);
    switch ((int)op->kind) {
    case OP_add: case OP_sub: case OP_maximum: case OP_minimum:
    case OP_neg: case OP_scale: case OP_tanh: case OP_erf: case OP_gelu:
    case OP_sin: case OP_abs: case OP_floor: case OP_relu: case OP_cast:
    case OP_detach: case OP_sum: case OP_max: case OP_reshape:
    case OP_broadcast: case OP_transpose: case OP_slice: case OP_pad:
    case OP_concat: case OP_boundary: case OP_copy:
        return all;
    case OP_offset: case OP_sigmoid: case OP_cos:
        return all == FILL_ZERO ? FILL_TAME : all;
    case OP_equal: case OP_less: case OP_step: case OP_iota: case OP_random:
        return FILL_TAME; /* comparisons give 0 or 1 for any operands */
    case OP_mul: case OP_einsum:
    case OP_conv: case OP_conv_grad_x: case OP_conv_grad_weight:
    case OP_grouped_matmul: case OP_grouped_matmul_grad_rows:
    case OP_grouped_matmul_grad_weight:
        for (int i = 0; i < b->n; i++)
            if (b->fill[i] == FILL_ZERO && all == FILL_TAME)
                return FILL_ZERO;
        return all;
    case OP_topk: /* the indices are not 0 */
        return all == FILL_ZERO ? FILL_TAME : all;
    case OP_topk_grad: case OP_gather_rows: case OP_combine_rows:
    case OP_gather_pairs: case OP_scatter_pairs:
        return first;
    case OP_gelu_grad: /* a multiple of the first */
        return all == FILL_TAME ? first : all;
    case OP_div:
        return b->has[1] ? FILL_WILD : first;
    case OP_select:
        return first == FILL_ZERO ? b->fill[2] : worst(b, 1);
    case OP_power:
        if (first == FILL_ZERO && attr_exponent(op) > 0)
            return FILL_ZERO;
        return attr_exponent(op) == 2 ? first : FILL_WILD;
    case OP_sqrt:
        return first == FILL_ZERO ? FILL_ZERO : FILL_WILD;
    case OP_exp:
        return first == FILL_ZERO ? FILL_TAME : FILL_WILD;
    case OP_full:
        return op_is_zero(op) ? FILL_ZERO : FILL_TAME;
    case OP_embedding: case OP_embedding_grad: case OP_onehot:
        /* Indices are valid: no padded row is ever selected. */
        return b->has[0] ? first : FILL_ZERO;
    default:
        return FILL_WILD;
    }
}

static void fill_by_rule(PadFills *f, const Op *op)
{
    const PadClasses *c = f->c;
    Rule r;
    bool known = false;
    for (int o = 0; o < op->nouts; o++)
        for (int d = 0; d < op->out[o]->type.ndim; d++)
            known |= pad_valid(c, op->out[o], d) > 0;
    if (!known)
        return;
    rule_of(c->p, op, &r);
    for (int o = 0; o < op->nouts; o++)
        for (int d = 0; d < op->out[o]->type.ndim; d++) {
            const DimFactors *df = &r.dim[r.nargs + o][d];
            if (!pad_valid(c, op->out[o], d) || df->n != 1)
                continue;
            Brought b = {.n = r.nargs};
            for (int i = 0; i < r.nargs; i++) {
                int at = rule_factor_dim(&r, i, df->f[0]);
                b.has[i] = at >= 0;
                b.fill[i] = at >= 0 ? pad_fill(f, op->arg[i], at)
                            : op_is_zero(op->arg[i]->def) ? FILL_ZERO
                                                          : FILL_TAME;
            }
            *fill_at(f, op->out[o], d) = (uint8_t)result_fill(op, &b);
        }
}

/* ---- structure ----------------------------------------------------------- */

static void copy_fill(PadFills *f, const Value *from, const Value *to)
{
    memcpy(fill_at(f, to, 0), fill_at(f, from, 0), MAX_DIMS);
}

/* Raises the entries of `to` to those of `from`. */
static void join_fill(PadFills *f, const Value *from, const Value *to)
{
    for (int d = 0; d < MAX_DIMS; d++)
        if (*fill_at(f, from, d) > *fill_at(f, to, d)) {
            *fill_at(f, to, d) = *fill_at(f, from, d);
            f->changed = true;
        }
}

static void fill_region(PadFills *f, const Region *r);

static void fill_loop(PadFills *f, const Op *op)
{
    const Region *body = op->body;
    bool outer = f->changed;
    for (int i = 0; i < op->nargs; i++)
        copy_fill(f, op->arg[i], body->arg[i]);
    do {
        f->changed = false;
        fill_region(f, body);
        for (int i = 0; i < op->ncarry; i++)
            join_fill(f, body->yield[i], body->arg[i]);
    } while (f->changed);
    f->changed = outer;
    for (int i = 0; i < op->nouts; i++)
        copy_fill(f, i < op->ncarry ? body->arg[i] : body->yield[i],
                  op->out[i]);
}

const PadMask *pad_mask_of(const PadMask *mask, int nmasks, const Op *op)
{
    for (int i = 0; i < nmasks; i++)
        if (mask[i].op == op)
            return &mask[i];
    return NULL;
}

static void fill_op(PadFills *f, const Op *op)
{
    const PadMask *mask = pad_mask_of(f->mask, f->nmasks, op);
    if (mask) {
        copy_fill(f, op->arg[mask->arg], op->out[0]);
        *fill_at(f, op->out[0], mask->dim) = mask->lowest ? FILL_TAME : FILL_ZERO;
    } else if (op->kind == OP_loop) {
        fill_loop(f, op);
    } else if (op_info(op->kind)->rule) {
        fill_by_rule(f, op);
    } else if (op->kind == OP_finish_grad) {
        copy_fill(f, op->arg[0], op->out[0]);
    }
    /* Parameters and states have zeros, and are assigned zeros. */
}

static void fill_region(PadFills *f, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next)
        fill_op(f, op);
}

PadFills *pad_fills(const PadClasses *c, const PadMask *mask, int nmasks)
{
    PadFills *f = NEW(c->p->arena, PadFills);
    *f = (PadFills){.c = c, .mask = mask, .nmasks = nmasks};
    f->fill = NEW_ARRAY(c->p->arena, uint8_t, (c->p->nvalues + 1) * MAX_DIMS);
    fill_region(f, c->p->step);
    return f;
}
