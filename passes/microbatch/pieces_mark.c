/* pieces_mark.c: decides which values of a microbatch are cut into pieces; see
 * async_tp.c.
 *
 *   %ids = input{…}             : i32[8/dp, 32]         cut along dim 0
 *   %x = embedding %w, %ids     : bf16[8/dp, 32, 64]    so is what is computed from it
 *   %h = loop carry %c = %x …   : bf16[8/dp, 32, 64]    and what a loop carries
 *   %s = sum{dims=[0, 1, 2]} %h : f32[]+dp              whole: a sum of the pieces
 */
#include "passes/microbatch/pieces.h"

static bool refuse(Pieces *c, const Op *op, const char *what)
{
    Program *p = c->p;
    c->failed = true;
    diag_error(p->diag, op->loc, "%s, but async_tp = %lld cuts a microbatch into pieces of "
               "whole sequences", what, (long long)c->n);
    diag_help(p->diag, "omit async_tp");
    return false;
}

static void set_dim(Pieces *c, const Value *v, int dim)
{
    c->dim[v->id] = dim;
}

/* ---- ops ----------------------------------------------------------------- */

int pieces_factor(const Pieces *c, const Op *op, const Rule *r, int i, int d)
{
    int f = rule_split_factor(r, i, d, 1);
    for (int t = 0; f >= 0 && t < r->nargs + r->nouts; t++) {
        const Value *v = t < r->nargs ? op->arg[t] : op->out[t - r->nargs];
        int at = rule_factor_dim(r, t, f);
        if (at < 0)
            continue;
        int64_t parts = type_parts(&v->type, &c->p->mesh, at);
        if (rule_split_factor(r, t, at, 1) != f || r->factor[f].size % (parts * c->n))
            return -1;
    }
    return f;
}

static bool conversion_keeps(const Op *op, int i, int dim)
{
    for (int a = 0; a < MAX_AXES; a++) {
        AxisPlace x = op->arg[i]->type.place.ax[a], y = op->out[i]->type.place.ax[a];
        bool here = (x.kind == AX_S && x.dim == dim) || (y.kind == AX_S && y.dim == dim);
        if ((attr_axes(op) >> a & 1) && (here || x.kind == AX_FLAT || y.kind == AX_FLAT))
            return false;
    }
    return true;
}

static bool mark_conversion(Pieces *c, const Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        int dim = pieces_dim(c, op->arg[i]);
        if (dim == WHOLE)
            continue;
        if (!conversion_keeps(op, i, dim))
            return refuse(c, op, "this collective needs all rows of a microbatch");
        set_dim(c, op->out[i], dim);
    }
    return true;
}

/* Whether v is cut, or whole with dims that a slice of rows can have. */
static bool can_slice(const Pieces *c, const Value *v)
{
    return pieces_dim(c, v) != WHOLE || v->type.ndim <= PIECES_MOST_DIMS;
}

static bool mark_by_rule(Pieces *c, const Op *op, int first)
{
    Rule r;
    rule_of(c->p, op, &r);
    int f = pieces_factor(c, op, &r, first, pieces_dim(c, op->arg[first]));
    if (f < 0 || r.factor[f].whole)
        return refuse(c, op, "this op needs all rows of a microbatch");
    if (r.factor[f].base >= 0)
        return refuse(c, op, "this op numbers the rows of a microbatch");
    if (r.factor[f].separate)
        return refuse(c, op, "this op needs all rows of a microbatch");
    for (int i = 0; i < r.nargs; i++) {
        int dim = pieces_dim(c, op->arg[i]), wanted = rule_factor_dim(&r, i, f);
        if (dim != WHOLE && dim != wanted)
            return refuse(c, op, "this op combines the rows of a microbatch");
        if (wanted >= 0 && !can_slice(c, op->arg[i]))
            return refuse(c, op, "this op has a tensor of too many dims");
    }
    for (int o = 0; o < op->nouts; o++) {
        int dim = rule_factor_dim(&r, r.nargs + o, f);
        if (dim < 0 && r.factor[f].by_max)
            return refuse(c, op, "this is a maximum over a microbatch");
        set_dim(c, op->out[o], dim < 0 ? WHOLE : dim);
    }
    return true;
}

/* ---- regions ------------------------------------------------------------- */

static bool mark_region(Pieces *c, Region *r);

/* The operands' dims hold for the body's arguments. What a carry yields holds too:
 * the body is marked again until no carry changes. */
static bool mark_loop(Pieces *c, Op *loop)
{
    Region *body = loop->body;
    for (int i = 0; i < loop->nargs; i++)
        if (pieces_dim(c, loop->arg[i]) != WHOLE)
            set_dim(c, body->arg[i], pieces_dim(c, loop->arg[i]));
    for (bool changed = true; changed;) {
        changed = false;
        if (!mark_region(c, body))
            return false;
        for (int i = 0; i < loop->ncarry; i++) {
            int dim = pieces_dim(c, body->yield[i]);
            if (dim != WHOLE && pieces_dim(c, body->arg[i]) == WHOLE) {
                set_dim(c, body->arg[i], dim);
                changed = true;
            }
        }
    }
    for (int i = 0; i < loop->ncarry; i++) {
        int dim = pieces_dim(c, body->arg[i]);
        if (pieces_dim(c, body->yield[i]) != dim)
            return refuse(c, loop, "the layers combine the rows of a microbatch");
        if (dim != WHOLE && !can_slice(c, loop->arg[i]))
            return refuse(c, loop, "the layers start with a tensor of too many dims");
    }
    for (int i = 0; i < body->nyields; i++) {
        int dim = i < loop->ncarry ? pieces_dim(c, body->arg[i])
                                   : pieces_dim(c, body->yield[i]);
        set_dim(c, loop->out[i], dim);
    }
    return true;
}

static bool mark_op(Pieces *c, Op *op)
{
    int first = 0;
    if (op->kind == OP_loop)
        return mark_loop(c, op);
    while (first < op->nargs && pieces_dim(c, op->arg[first]) == WHOLE)
        first++;
    if (first == op->nargs)
        return true;
    if (op_is_conversion(op->kind))
        return mark_conversion(c, op);
    return op_info(op->kind)->rule
               ? mark_by_rule(c, op, first)
               : refuse(c, op, "this op needs all rows of a microbatch");
}

static bool mark_region(Pieces *c, Region *r)
{
    bool fine = true;
    for (Op *op = r->first; op && fine; op = op->next)
        fine = mark_op(c, op);
    return fine;
}

/* ---- inputs -------------------------------------------------------------- */

static bool mark_input(Pieces *c, const Value *v)
{
    const Type *t = &v->type;
    if (t->ndim == 0)
        return true;
    if (t->ndim > PIECES_MOST_DIMS)
        return refuse(c, v->def ? v->def : v->region->owner,
                      "an input has too many dims");
    int64_t rows = type_local_dim(t, &c->p->mesh, 0);
    if (rows % c->n == 0) {
        set_dim(c, v, 0);
        return true;
    }
    Program *p = c->p;
    diag_error(p->diag, p->train.loc, "async_tp = %lld: a rank's microbatch has %lld "
               "sequences, which cannot be cut into %lld equal pieces", (long long)c->n,
               (long long)rows, (long long)c->n);
    diag_help(p->diag, "choose a larger batch, less accumulate, or omit async_tp");
    c->failed = true;
    return false;
}

bool pieces_mark(Pieces *c)
{
    Program *p = c->p;
    c->nvalues = p->nvalues;
    c->dim = NEW_ARRAY(p->arena, int, p->nvalues);
    for (uint32_t i = 0; i < p->nvalues; i++)
        c->dim[i] = WHOLE;
    const Op *owner = c->step->owner;
    for (int i = 0; owner && i < owner->nargs; i++)
        if (owner->arg[i]->def && owner->arg[i]->def->kind == OP_input &&
            !mark_input(c, c->step->arg[i]))
            return false;
    for (const Op *op = owner ? NULL : c->step->first; op; op = op->next)
        if (op->kind == OP_input && !mark_input(c, op->out[0]))
            return false;
    return mark_region(c, c->step);
}
