/* pad_mask.c: masks padding where it would affect a result.
 *
 * before   %e = exp %d : f32[8, 258] forward           (257 are valid)
 *          %s = sum{dims=[1], keep=false} %e : f32[8] forward
 * after    %element = iota{n=258} : f32[258] init
 *          %valid = less %element, %full : f32[258] init  (full: 257)
 *          %e = exp %d : f32[8, 258] forward
 *          %e.2 = select %valid, %e, %zero : f32[8, 258] forward
 *          %s = sum{dims=[1], keep=false} %e.2 : f32[8] forward
 *
 * An op that reduces a padded dim needs zeros there (sums, contractions) or the
 * lowest number (maxima). Gradients of parameters, and the new states of modules, need
 * zeros too. Padding that is known to contain them (pad_fill.c) needs no mask. A value is
 * masked where it is defined, for all its readers, so that values computed from it need no
 * masks. Finite padding is multiplied by 0, which keeps Partial sums; possibly non-finite
 * padding is replaced by a select.
 */
#include <string.h>

#include "ir/rules/rules.h"
#include "passes/pad/pad.h"

/* A vector that is 1 where a class's elements are valid. */
typedef struct Valid {
    int64_t valid, padded;
    Value *value; /* a value of the step */
} Valid;

typedef struct Masking {
    PadClasses *c;
    Program *p;
    PadFills *fills;
    VEC(PadMask) mask;
    VEC(Valid) valid;
} Masking;

/* ---- vectors of valid elements ------------------------------------------- */

static Value *make_valid(Masking *m, int64_t valid, int64_t padded)
{
    for (int i = 0; i < m->valid.n; i++)
        if (m->valid.at[i].valid == valid && m->valid.at[i].padded == padded)
            return m->valid.at[i].value;
    Program *p = m->p;
    Build b = {.p = p, .region = p->step, .before = p->step->first, .phase = PH_INIT,
               .loc = {0}, .path = ""};
    Attr attr[MAX_ATTRS] = {{.i = padded}};
    Value *index = ir_value(&b, OP_iota, 0, NULL, attr, "element");
    Value *in = ir_binary(&b, OP_less, index,
                          ir_scalar_const(&b, (double)valid));
    in->name = ir_unique_name(p, "valid");
    Valid v = {valid, padded, in};
    vec_push(p->arena, &m->valid, v);
    return in;
}

/* The vector, shaped to broadcast along dim d of v. */
static Value *valid_along(Masking *m, Build *b, const Value *v, int d)
{
    int64_t valid = pad_valid(m->c, v, d), dim[MAX_DIMS] = {v->type.dim[d]};
    Value *in = ir_loop_inside(m->p, make_valid(m, valid, dim[0]),
                               b->region);
    int n = v->type.ndim - d;
    for (int i = 1; i < n; i++)
        dim[i] = 1;
    return n > 1 ? ir_reshape(b, in, n, dim) : in;
}

/* ---- one mask ------------------------------------------------------------ */

static Value *put_mask(Masking *m, Build *b, Value *v, int d, bool lowest)
{
    Value *in = valid_along(m, b, v, d), *y;
    PadMask mask = {.dim = d, .lowest = lowest};
    if (!lowest && pad_fill(m->fills, v, d) == FILL_TAME) {
        y = ir_binary(b, OP_mul, v, in);
    } else {
        double least = -dtype_largest(v->type.dtype);
        Value *other = ir_full(b, lowest ? least : 0, v->type.dtype, 0, NULL);
        Value *args[] = {in, v, other};
        y = ir_value(b, OP_select, 3, args, NULL, v->name);
        mask.arg = 1;
    }
    y->name = ir_unique_name(m->p, v->name);
    mask.op = y->def;
    vec_push(m->p->arena, &m->mask, mask);
    value_map_set(m->p, &m->c->like, y, v);
    return y;
}

/* Masks every layer of the stack v, in a loop. */
static Value *mask_layers(Masking *m, Build *b, Value *v, int d)
{
    Attr attr[MAX_ATTRS] = {{.i = v->type.stack[0]}, {.i = false}};
    Op *loop = ir_open(b, OP_loop, 1, &v, 0, 1, attr);
    loop->cut = type_cut(&v->type);
    Value *layer = loop->body->arg[0], *y;
    value_map_set(m->p, &m->c->like, layer, v);
    Build in = *b;
    in.region = loop->body;
    in.before = NULL;
    y = layer->type.nstack > 0 ? mask_layers(m, &in, layer, d)
                               : put_mask(m, &in, layer, d, false);
    ir_yield(m->p, loop->body, 1, &y);
    ir_close(m->p, loop);
    value_map_set(m->p, &m->c->like, loop->out[0], v);
    return loop->out[0];
}

/* Puts zeros into the padding for all readers of v. For a stack this is done
 * where its loop yields the layers; for a sum of stacks, in its operands; for
 * another, in a loop over its layers. */
static void mask_value(Masking *m, Value *v, int d)
{
    Op *def = v->def;
    bool stack = v->type.nstack > 0;
    if (def && stack && strcmp(op_info(def->kind)->linear, "all") == 0) {
        for (int i = 0; i < def->nargs; i++)
            if (pad_fill(m->fills, def->arg[i], d) != FILL_ZERO)
                mask_value(m, def->arg[i], d);
        return;
    }
    if (def && def->kind == OP_loop && v->index >= def->ncarry) {
        Region *body = def->body;
        Value *y = body->yield[v->index];
        if (y->type.nstack > 0) { /* a stack of an inner loop */
            mask_value(m, y, d);
            return;
        }
        Build b = {.p = m->p, .region = body, .before = NULL, .phase = def->phase,
                   .loc = y->loc, .path = def->path};
        body->yield[v->index] = put_mask(m, &b, y, d, false);
        return;
    }
    const Op *like = def ? def : v->region->owner;
    Build b = {.p = m->p, .region = v->region,
               .before = def ? def->next : v->region->first, .phase = like->phase,
               .loc = v->loc, .path = like->path};
    Value *y = stack ? mask_layers(m, &b, v, d) : put_mask(m, &b, v, d, false);
    ir_replace_uses(v->region, v, y);
    y->def->arg[stack ? 0 : m->mask.at[m->mask.n - 1].arg] = v;
}

/* ---- ops that need masks ------------------------------------------------- */

/* Whether factor f is missing in a result: it is reduced. */
static bool is_joined(const Rule *r, int f)
{
    for (int o = 0; o < r->nouts; o++)
        if (rule_factor_dim(r, r->nargs + o, f) == -1)
            return true;
    return false;
}

/* Masks an operand's dim of factor f if that is needed; true if one was
 * masked. */
static bool need_zero(Masking *m, const Op *op, const Rule *r, int f)
{
    bool zero = false;
    int pick = -1, at[MAX_RULE_TENSORS];
    for (int i = 0; i < r->nargs; i++) {
        at[i] = rule_factor_dim(r, i, f);
        if (at[i] < 0)
            continue;
        PadFill fill = pad_fill(m->fills, op->arg[i], at[i]);
        zero = zero || fill == FILL_ZERO;
        if (fill == FILL_WILD ||
            (fill == FILL_TAME && pick < 0))
            pick = i;
    }
    if (pick < 0 ||
        (zero && pad_fill(m->fills, op->arg[pick], at[pick]) != FILL_WILD))
        return false;
    mask_value(m, op->arg[pick], at[pick]);
    return true;
}

static const PadMask *mask_of(const Masking *m, const Value *v)
{
    return v->def ? pad_mask_of(m->mask.at, m->mask.n, v->def) : NULL;
}

/* Masks the operand of a maximum with the lowest numbers, for this op only. */
static bool need_lowest(Masking *m, Op *op, int d)
{
    const Value *v = op->arg[0];
    for (const PadMask *k; (k = mask_of(m, v)); v = v->def->arg[k->arg])
        if (k->lowest && k->dim == d)
            return false;
    Build b = ir_build_at(m->p, op, op);
    op->arg[0] = put_mask(m, &b, op->arg[0], d, true);
    return true;
}

static bool mask_by_rule(Masking *m, Op *op)
{
    Rule r;
    bool padded = false;
    for (int i = 0; i < op->nargs; i++)
        for (int d = 0; d < op->arg[i]->type.ndim; d++)
            padded |= pad_valid(m->c, op->arg[i], d) > 0;
    if (!padded || mask_of(m, op->out[0]))
        return false;
    rule_of(m->p, op, &r);
    for (int i = 0; i < r.nargs; i++)
        for (int d = 0; d < op->arg[i]->type.ndim; d++) {
            if (!pad_valid(m->c, op->arg[i], d) || r.dim[i][d].n != 1)
                continue;
            int f = r.dim[i][d].f[0];
            if (!is_joined(&r, f) || (op->kind == OP_embedding && i == 0))
                continue; /* rows are selected, not summed */
            if (r.factor[f].by_max ? need_lowest(m, op, d)
                                   : need_zero(m, op, &r, f))
                return true;
        }
    return false;
}

/* Adds a mask for the first op that needs one; false: none does. */
static bool mask_region(Masking *m, Region *r)
{
    for (Op *op = r->first; op; op = op->next) {
        if (op->body && mask_region(m, op->body))
            return true;
        if (op_info(op->kind)->rule && mask_by_rule(m, op))
            return true;
        bool stored = op->kind == OP_finish_grad || op->kind == OP_assign;
        for (int d = 0; stored && d < op->arg[0]->type.ndim; d++)
            if (pad_valid(m->c, op->arg[0], d) &&
                pad_fill(m->fills, op->arg[0], d) != FILL_ZERO) {
                mask_value(m, op->arg[0], d);
                return true;
            }
    }
    return false;
}

void pad_mask(PadClasses *c)
{
    Masking m = {.c = c, .p = c->p};
    do {
        m.fills = pad_fills(c, m.mask.at, m.mask.n);
    } while (mask_region(&m, c->p->step));
}
