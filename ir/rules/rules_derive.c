/* rules_derive.c: checks which splits an op allows, and derives placements of
 * results from those of operands.
 *
 * For each axis, the placements of the operands imply one split of the op;
 * every operand must be placed as that split requires, and the results follow:
 *
 *   einsum bsk,fk->bsf  on  [8, 32, 64/tp], [64, 64/tp]   splits k over tp
 *                       ->  [8, 32, 64]+tp                k is summed over
 *
 * Exceptions: elementwise ops work on flat runs if every operand of the
 * result's shape is flat; a sum of squares of runs is a partial sum; before
 * parameters are sharded a sum of squares may read a gradient that is still to
 * be reduce-scattered.
 */
#include <string.h>

#include "base/bug.h"
#include "ir/rules/rule_text.h"
#include "ir/units.h"

/* ---- linearity ----------------------------------------------------------- */

static bool linear_in_all(OpKind kind)
{
    return strcmp(op_info(kind)->linear, "all") == 0;
}

static bool linear_in(OpKind kind, int operand)
{
    const char *s = op_info(kind)->linear;
    if (strncmp(s, "one ", 4) != 0)
        return false;
    for (s += 4; *s; s++)
        if (*s - '0' == operand)
            return true;
    return false;
}

/* Ops that commute with an elementwise maximum over ranks. */
static bool passes_max(OpKind kind)
{
    static const bool table[OP_COUNT] = {
        [OP_reshape] = true,   [OP_broadcast] = true, [OP_boundary] = true,
        [OP_detach] = true,    [OP_cast] = true,      [OP_maximum] = true,
        [OP_transpose] = true, [OP_slice] = true,     [OP_max] = true,
    };
    return table[kind];
}

/* ---- allowed splits ------------------------------------------------------ */

static bool factor_fits(const Rule *r, int f, int64_t parts)
{
    return !r->factor[f].whole && r->factor[f].size % parts == 0;
}

bool rule_allows(const Op *op, const Rule *r, Split s, int64_t axis_size, int64_t pieces,
                 const int64_t *taken)
{
    if (s.kind == SPLIT_NONE)
        return true;
    if (axis_size == 1)
        return false;
    if (s.kind == SPLIT_FACTOR)
        return factor_fits(r, s.factor,
                           axis_size * pieces * (taken ? taken[s.factor] : 1)) &&
               !(pieces > 1 && r->factor[s.factor].contiguous);
    if (s.kind == SPLIT_PMAX)
        return passes_max(op->kind);
    if (r->nargs == 0)
        return op_is_zero(op);
    if (op->kind == OP_cast && !dtype_is_float(op->out[0]->type.dtype))
        return false; /* rounding to integers is not linear */
    return s.operand < 0 ? linear_in_all(op->kind)
                         : linear_in(op->kind, s.operand);
}

AxisPlace rule_place(const Rule *r, int tensor, Split s)
{
    AxisPlace place = {AX_R, 0, 0};
    bool result = tensor >= r->nargs || tensor == r->added;
    if (s.kind == SPLIT_PMAX)
        place.kind = AX_PMAX;
    if (s.kind == SPLIT_PARTIAL &&
        (result || s.operand < 0 || s.operand == tensor))
        place.kind = AX_P;
    if (s.kind != SPLIT_FACTOR)
        return place;
    int d = rule_factor_dim(r, tensor, s.factor);
    if (d >= 0) {
        place.kind = AX_S;
        place.dim = (uint8_t)d;
    } else if (result && !(r->factor[s.factor].separate && tensor > r->nargs)) {
        place.kind = r->factor[s.factor].by_max ? AX_PMAX : AX_P;
    }
    return place;
}

/* ---- derivation ---------------------------------------------------------- */

typedef struct Derive {
    const Program *p;
    const Op *op;
    const Rule *r;
    Placement *result; /* annotations on entry */
    Placement given;   /* the annotation of result 0 */
    int axis;
    bool placed;       /* bases are not added yet: STAGE_PLACED */
    Split split[MAX_AXES];
} Derive;

static AxisPlace operand_place(const Derive *d, int i)
{
    return d->op->arg[i]->type.place.ax[d->axis];
}

static const char *unfit(const Derive *d, int i, const char *needs)
{
    Arena *a = d->p->arena;
    return arena_printf(a, "operand %d is %s on %s, the rule needs %s", i,
                        axis_place_words(a, operand_place(d, i)),
                        d->p->mesh.name[d->axis], needs);
}

/* The factor that the axis splits in a dim of a tensor: axes that are major to
 * it in the dim may split earlier factors. */
static int factor_of(const Derive *d, int tensor, const Placement *place,
                     int dim)
{
    int64_t parts = 1;
    for (int a = 0; a < d->p->mesh.n; a++) {
        AxisPlace p = place->ax[a];
        if (p.kind == AX_S && p.dim == dim &&
            p.order < place->ax[d->axis].order)
            parts *= d->p->mesh.size[a];
    }
    return rule_split_factor(d->r, tensor, dim, parts);
}

/* The index of the first operand of that kind on the axis, ignoring the added
 * one; -1: none. */
static int first_of(const Derive *d, int kind)
{
    for (int i = 0; i < d->r->nargs; i++)
        if (i != d->r->added && operand_place(d, i).kind == kind)
            return i;
    return -1;
}

static bool in_operands(const Rule *r, int f)
{
    for (int i = 0; i < r->nargs; i++)
        if (rule_factor_dim(r, i, f) != -1)
            return true;
    return false;
}

/* The factor of base operand k; -1: it has size 1. */
static int base_factor(const Rule *r, int k)
{
    for (int f = 0; f < r->nfactors; f++)
        if (r->factor[f].base == k)
            return f;
    return -1;
}

/* The split of a factor that no operand has: as annotated. */
static Split from_nothing(const Derive *d)
{
    const Rule *r = d->r;
    AxisPlace given = d->given.ax[d->axis];
    Split s = {SPLIT_NONE, -1, -1};
    if (given.kind == AX_P && op_is_zero(d->op))
        s.kind = SPLIT_PARTIAL;
    if (given.kind != AX_S || given.dim >= MAX_DIMS)
        return s;
    int f = factor_of(d, r->nargs, &d->given, given.dim);
    bool based = f >= 0 && r->factor[f].base >= 0 && !d->placed;
    if (f >= 0 && !based && !in_operands(r, f)) {
        s.kind = SPLIT_FACTOR;
        s.factor = f;
    }
    return s;
}

/* The split that the operands' placements on the axis imply. */
static Split implied_split(const Derive *d)
{
    const Rule *r = d->r;
    int i = first_of(d, AX_S);
    if (i >= 0) {
        int f = factor_of(d, i, &d->op->arg[i]->type.place,
                          operand_place(d, i).dim);
        return (Split){f < 0 ? SPLIT_NONE : SPLIT_FACTOR, f, -1};
    }
    for (int k = 0; r->nargs + k < d->op->nargs; k++)
        if (operand_place(d, r->nargs + k).kind == AX_S &&
            base_factor(r, k) >= 0)
            return (Split){SPLIT_FACTOR, base_factor(r, k), -1};
    i = first_of(d, AX_PMAX);
    if (i >= 0)
        return (Split){SPLIT_PMAX, -1, -1};
    i = first_of(d, AX_P);
    if (i >= 0)
        return (Split){SPLIT_PARTIAL, -1, linear_in_all(d->op->kind) ? -1 : i};
    return from_nothing(d);
}

/* Elementwise ops on runs: operands of the result's shape are runs, others
 * scalars, so that element i of every run is the same element. */
static const char *derive_flat(Derive *d, int first)
{
    const Op *op = d->op;
    if (!op_is_elementwise(op->kind))
        return unfit(d, first,
                     "Replicate (only elementwise ops work on "
                     "flattened runs)");
    for (int i = 0; i < d->r->nargs; i++) {
        const Type *t = &op->arg[i]->type;
        AxisPlace p = operand_place(d, i);
        bool scalar = t->ndim == 0 && t->nstack == 0;
        if (p.kind == AX_FLAT && !type_same_shape(t, &op->out[0]->type))
            return unfit(d, i, "a tensor of the result's shape to be flat");
        if (p.kind != AX_FLAT && (!scalar || p.kind != AX_R))
            return unfit(d, i, "flat, as other operands are");
    }
    for (int k = 0; k < d->r->nouts; k++)
        d->result[k].ax[d->axis] = (AxisPlace){AX_FLAT, 0, 0};
    return NULL;
}

/* Whether the op is a sum of squares of a gradient that is not reduce-scattered
 * yet: see finish_grad in ops.def. */
static bool awaits_storage(const Derive *d)
{
    const Op *def = d->op->arg[0]->def;
    if (d->p->stage > STAGE_PARTITIONED || !def || def->kind != OP_finish_grad)
        return false;
    const Unit *u = sharding_unit(d->p, attr_param(def));
    return u && (u->axes >> d->axis & 1);
}

static const char *bases_fit(const Derive *d, Split s)
{
    for (int k = 0; d->r->nargs + k < d->op->nargs; k++) {
        int i = d->r->nargs + k;
        bool split = s.kind == SPLIT_FACTOR && d->r->factor[s.factor].base == k;
        AxisPlace p = operand_place(d, i);
        if (split ? p.kind != AX_S : p.kind != AX_R)
            return unfit(d, i,
                         split ? "Shard(0), as the dim that it counts"
                               : "Replicate");
    }
    if (s.kind == SPLIT_FACTOR && !d->placed &&
        d->r->factor[s.factor].base >= 0 &&
        d->r->nargs + d->r->factor[s.factor].base >= d->op->nargs)
        return arena_printf(d->p->arena,
                            "a dim is split over %s whose index "
                            "needs a base operand",
                            d->p->mesh.name[d->axis]);
    return NULL;
}

/* The placement of the first operand that only one coordinate has, or of which
 * each has the layers of its stages; else that of the annotation. */
static AxisPlace held_place(const Derive *d)
{
    for (int i = 0; i < d->op->nargs; i++)
        if (axis_place_is_held(operand_place(d, i)))
            return operand_place(d, i);
    return d->placed ? (AxisPlace){0} : d->given.ax[d->axis];
}

/* An op runs where its operands are: the others are the same there, or
 * Replicate. Stacks that are split by stages are so together. */
static const char *derive_held(Derive *d, AxisPlace at)
{
    for (int i = 0; i < d->op->nargs; i++) {
        AxisPlace is = operand_place(d, i);
        bool everywhere = is.kind == AX_R && (at.kind != AX_CUT ||
                                              d->op->arg[i]->type.nstack == 0);
        if (!everywhere && !axis_place_equal(is, at))
            return unfit(d, i, axis_place_words(d->p->arena, at));
    }
    for (int k = 0; k < d->r->nouts; k++) {
        bool joins = at.kind == AX_CUT && d->op->out[k]->type.nstack == 0;
        if (joins && d->op->kind != OP_sumsq)
            return "it joins the layers of several stages";
        d->result[k].ax[d->axis] = joins ? (AxisPlace){AX_P, 0, 0} : at;
    }
    return NULL;
}

static const char *derive_axis(Derive *d)
{
    AxisPlace held = held_place(d);
    int flat = first_of(d, AX_FLAT);
    d->split[d->axis] = (Split){SPLIT_NONE, -1, -1};
    if (axis_place_is_held(held))
        return derive_held(d, held);
    if (d->op->kind == OP_sumsq &&
        (flat >= 0 || (first_of(d, AX_P) >= 0 && awaits_storage(d)))) {
        d->result[0].ax[d->axis] = (AxisPlace){AX_P, 0, 0};
        return NULL;
    }
    if (flat >= 0)
        return derive_flat(d, flat);
    if ((d->op->kind == OP_full || d->op->kind == OP_zeros) &&
        d->given.ax[d->axis].kind == AX_FLAT) {
        d->result[0].ax[d->axis] = (AxisPlace){AX_FLAT, 0, 0};
        return NULL;
    }
    Split s = implied_split(d);
    for (int i = 0; i < d->r->nargs; i++) {
        AxisPlace is = operand_place(d, i), want = rule_place(d->r, i, s);
        if (is.kind != want.kind || is.dim != want.dim)
            return unfit(d, i, axis_place_words(d->p->arena, want));
    }
    const Mesh *m = &d->p->mesh;
    if (!rule_allows(d->op, d->r, s, m->size[d->axis], mesh_pieces(m, d->axis), NULL)) {
        if (s.kind == SPLIT_FACTOR)
            return arena_printf(d->p->arena,
                                "it cannot work on parts of that "
                                "dim over %s",
                                m->name[d->axis]);
        return unfit(d, s.operand < 0 ? 0 : s.operand,
                     "Replicate, it is not linear there");
    }
    const char *fault = bases_fit(d, s);
    for (int k = 0; k < d->r->nouts; k++)
        d->result[k].ax[d->axis] = rule_place(d->r, d->r->nargs + k, s);
    d->split[d->axis] = s;
    return fault;
}

/* ---- the order of several axes in one dim -------------------------------- */

/* Compares the axes of a tensor's dim with those found for its factors. In a
 * product the axes of a factor precede those of the next. */
static const char *join_order(const Derive *d, const Type *t,
                              const DimFactors *df, int dim,
                              int order[][MAX_AXES], int *count)
{
    int axes[MAX_AXES];
    int n = type_dim_axes(t, &d->p->mesh, dim, axes);
    for (int i = 0, at = 0; i < df->n && at < n; i++) {
        int f = df->f[i], first = at;
        while (at < n && d->split[axes[at]].kind == SPLIT_FACTOR &&
               d->split[axes[at]].factor == f)
            at++;
        if (at == first)
            continue;
        size_t size = sizeof *axes * (size_t)(at - first);
        if (count[f] == 0)
            memcpy(order[f], axes + first, size);
        else if (count[f] != at - first ||
                 memcmp(order[f], axes + first, size) != 0)
            return "the operands have the axes of a dim in different orders";
        count[f] = at - first;
    }
    return NULL;
}

/* The number of axes that split factors major to f in the dim. */
static int axes_before(const DimFactors *df, int f, const int *count)
{
    int n = 0;
    for (int i = 0; i < df->n && df->f[i] != f; i++)
        n += count[df->f[i]];
    return n;
}

static const char *set_orders(Derive *d, int order[][MAX_AXES],
                              const int *count)
{
    int64_t taken[MAX_FACTORS];
    for (int f = 0; f < d->r->nfactors; f++) {
        int64_t pieces = 1;
        taken[f] = 1;
        for (int i = 0; i < count[f]; i++) {
            taken[f] *= d->p->mesh.size[order[f][i]];
            pieces *= mesh_pieces(&d->p->mesh, order[f][i]);
        }
        if (count[f] && !factor_fits(d->r, f, taken[f] * pieces))
            return "several axes split a dim where it cannot be split";
    }
    if (!rule_fits(d->r, taken))
        return "an axis splits the minor part of a dim whose major part is "
               "not wholly split";
    for (int k = 0; k < d->r->nouts; k++)
        for (int f = 0; f < d->r->nfactors; f++) {
            int tensor = d->r->nargs + k;
            int dim = rule_factor_dim(d->r, tensor, f);
            if (dim < 0)
                continue;
            int before = axes_before(&d->r->dim[tensor][dim], f, count);
            for (int i = 0; i < count[f]; i++)
                d->result[k].ax[order[f][i]].order = (uint8_t)(before + i);
        }
    return NULL;
}

static const char *derive_orders(Derive *d)
{
    const Rule *r = d->r;
    int order[MAX_FACTORS][MAX_AXES], count[MAX_FACTORS] = {0};
    const char *fault = NULL;
    for (int i = 0; i < r->nargs && !fault; i++) {
        const Type *t = &d->op->arg[i]->type;
        for (int dim = 0; dim < t->ndim && !fault; dim++)
            fault = join_order(d, t, &r->dim[i][dim], dim, order, count);
    }
    for (int k = 0; r->nargs + k < d->op->nargs && !fault; k++) {
        int f = base_factor(r, k);
        DimFactors alone = {1, {(uint8_t)f}};
        if (f >= 0)
            fault = join_order(d, &d->op->arg[r->nargs + k]->type, &alone, 0,
                               order, count);
    }
    /* Factors that no operand has are ordered as annotated. */
    Type given = d->op->nouts ? d->op->out[0]->type : (Type){0};
    given.place = d->given;
    for (int dim = 0; dim < given.ndim && !fault; dim++) {
        DimFactors made = {0};
        const DimFactors *df = &r->dim[r->nargs][dim];
        for (int i = 0; i < df->n; i++)
            if (count[df->f[i]] == 0)
                made.f[made.n++] = df->f[i];
        fault = join_order(d, &given, &made, dim, order, count);
    }
    return fault ? fault : set_orders(d, order, count);
}

static const char *derive(Derive d, Split *splits)
{
    const Program *p = d.p;
    const Rule *r = d.r;
    Placement *result = d.result;
    d.given = result[0];
    memset(result, 0, sizeof *result * (size_t)r->nouts);
    for (d.axis = 0; d.axis < p->mesh.n; d.axis++) {
        const char *fault = NULL;
        if (p->mesh.size[d.axis] > 1)
            fault = derive_axis(&d);
        if (fault)
            return fault;
        if (splits)
            splits[d.axis] = d.split[d.axis];
    }
    return derive_orders(&d);
}

const char *rule_derive(const Program *p, const Op *op, const Rule *r,
                        Placement *result, Split *splits)
{
    return derive((Derive){.p = p, .op = op, .r = r, .result = result}, splits);
}

const char *rule_derive_needs(const Program *p, const Op *op, const Rule *r,
                              Placement *result, Split *splits)
{
    Op placed = *op;
    Value *value = NEW_ARRAY(p->arena, Value, op->nargs + 1);
    placed.arg = NEW_ARRAY(p->arena, Value *, op->nargs + 1);
    for (int i = 0; i < op->nargs; i++) {
        value[i] = *op->arg[i];
        value[i].type.place = op->needs[i];
        placed.arg[i] = &value[i];
    }
    return derive((Derive){.p = p, .op = &placed, .r = r, .result = result,
                           .placed = true}, splits);
}
