/* splits.c: chooses the cheapest split of an op's factors; see splits.h.
 *
 * The candidates for an axis are the factors that an operand's placement
 * splits, those that a wanted result would split, and passing on a Partial
 * where an operand is one. So a split always originates in the plan. Attention has one
 * candidate on the axis of a context, the factor that it exchanges (context.h). All
 * combinations over the axes are tried; there are few.
 */
#include "passes/sharding/splits.h"

#include <math.h>
#include <string.h>

#include "base/bug.h"
#include "passes/sharding/context.h"
#include "passes/sharding/experts.h"
#include "passes/sharding/layouts.h"
#include "passes/sharding/reshard.h"

enum { MAX_CANDIDATES = 16 };

struct Splits {
    Program *p;
    Rule **rule; /* by op id */
    uint32_t nrules;
    ReshardMemo *memo;
    SplitsShared *shared;
    void *context;
};

Splits *splits_new(Program *p, SplitsShared *shared, void *context)
{
    Splits *s = NEW(p->arena, Splits);
    s->p = p;
    s->nrules = p->nops;
    s->rule = NEW_ARRAY(p->arena, Rule *, p->nops + 1);
    s->memo = reshard_memo_new(p->arena, &p->mesh);
    s->shared = shared;
    s->context = context;
    return s;
}

const Rule *splits_rule(Splits *s, const Op *op)
{
    if (op->id >= s->nrules)
        bug("op %s was made after its splits", op_info(op->kind)->name);
    if (!s->rule[op->id]) {
        s->rule[op->id] = NEW(s->p->arena, Rule);
        rule_of(s->p, op, s->rule[op->id]);
    }
    return s->rule[op->id];
}

void demands_add(Demands *list, const Demand *d)
{
    for (int i = 0; i < list->n; i++)
        if (list->at[i].axes == d->axes && list->at[i].either == d->either &&
            place_equal(&list->at[i].place, &d->place))
            return;
    if (list->n < MAX_DEMANDS)
        list->at[list->n++] = *d;
}

/* ---- costs of conversions ------------------------------------------------ */

/* The cost of a demand that cannot be satisfied: more than any conversion, but
 * finite, so that sums can be compared. */
static const double unmet = 1e3;

double splits_convert(Splits *s, const Type *from, const Placement *to)
{
    return reshard_memo_seconds(s->memo, from, to);
}

double splits_demand_cost(Splits *s, const Type *from, const Demand *d)
{
    uint32_t all = (1u << s->p->mesh.n) - 1;
    Placement to = d->place;
    if ((d->axes & all) != all)
        to = place_override(&s->p->mesh, from, &from->place, d->axes,
                            d->place.ax);
    for (int a = 0; a < s->p->mesh.n; a++)
        if (d->either >> a & 1 && from->place.ax[a].kind == AX_R)
            to.ax[a].kind = AX_R;
    double seconds = splits_convert(s, from, &to);
    return isinf(seconds) ? unmet : seconds;
}

/* ---- candidates ---------------------------------------------------------- */

typedef struct Candidates {
    int n;
    Split at[MAX_CANDIDATES];
} Candidates;

static void add_candidate(Candidates *c, Split split)
{
    for (int i = 0; i < c->n; i++)
        if (c->at[i].kind == split.kind && c->at[i].factor == split.factor &&
            c->at[i].operand == split.operand)
            return;
    if (c->n < MAX_CANDIDATES)
        c->at[c->n++] = split;
}

static void add_factor_of(Candidates *c, const Rule *r, int tensor,
                          AxisPlace place)
{
    const DimFactors *d = &r->dim[tensor][place.dim];
    for (int i = 0; place.kind == AX_S && i < d->n; i++)
        add_candidate(c, (Split){SPLIT_FACTOR, d->f[i], -1});
}

/* Whether the op is linear in one operand at a time: "one 0", "one 0 1". */
static bool is_linear_in_one(const Op *op)
{
    return strncmp(op_info(op->kind)->linear, "one", 3) == 0;
}

/* Whether the op is linear in each of several operands separately: a product. */
static bool is_product(const Op *op)
{
    return is_linear_in_one(op) && strlen(op_info(op->kind)->linear) > strlen("one 0");
}

/* Adds the ways in which the op could pass on a Partial(sum). */
static void add_partials(Candidates *c, const Op *op, int nargs)
{
    const char *linear = op_info(op->kind)->linear;
    if (!is_linear_in_one(op)) {
        add_candidate(c, (Split){SPLIT_PARTIAL, 0, -1});
        return;
    }
    for (int i = 0; i < nargs; i++)
        if (strchr(linear, '0' + i))
            add_candidate(c, (Split){SPLIT_PARTIAL, 0, i});
}

/* The factor that a clause of the plan splits over the axis: that of an attention on the
 * axis of a context, or of the shards of experts. -1: the op has a choice. */
static int required_factor(const Program *p, const Op *op, const Rule *r, int axis)
{
    return context_exchanges(p, op, axis) ? context_factor(p, op, r)
                                          : experts_factor(p, op, r, axis);
}

static void find_candidates(const Program *p, const Op *op, const Rule *r, int axis,
                            const Demands *demand, Candidates *c)
{
    bool partial = false, pmax = false;
    c->n = 0;
    int required = required_factor(p, op, r, axis);
    if (required >= 0)
        add_candidate(c, (Split){SPLIT_FACTOR, required, -1});
    if (required >= 0 || context_exchanges(p, op, axis)) {
        add_candidate(c, (Split){SPLIT_NONE, 0, -1});
        return;
    }
    for (int i = 0; i < r->nargs; i++) {
        AxisPlace place = context_place(p, op->arg[i], axis);
        add_factor_of(c, r, i, place);
        partial = partial || place.kind == AX_P;
        pmax = pmax || place.kind == AX_PMAX;
    }
    for (int o = 0; o < r->nouts; o++)
        for (int k = 0; k < demand[o].n; k++) {
            const Demand *d = &demand[o].at[k];
            if (!(d->axes >> axis & 1))
                continue;
            add_factor_of(c, r, r->nargs + o, d->place.ax[axis]);
            partial = partial ||
                      (d->place.ax[axis].kind == AX_P && r->nargs == 0);
        }
    /* At equal cost prefer to pass on a Partial: it may be summed with
     * others. */
    if (partial && !is_product(op))
        add_partials(c, op, r->nargs);
    if (pmax)
        add_candidate(c, (Split){SPLIT_PMAX, 0, -1});
    add_candidate(c, (Split){SPLIT_NONE, 0, -1});
    if (partial && is_product(op))
        add_partials(c, op, r->nargs);
    int kept = 0;
    for (int i = 0; i < c->n; i++)
        if (c->at[i].kind != SPLIT_FACTOR || context_allows(p, op, r, axis, c->at[i].factor))
            c->at[kept++] = c->at[i];
    c->n = kept;
}

/* ---- placements of a combination ----------------------------------------- */

/* The state of the search for one op. */
typedef struct Study {
    Splits *s;
    const Op *op;
    const Rule *r;
    const Demands *demand;
    double weight;
    Candidates axis[MAX_AXES];
    Choice *best;
    Placement *want; /* scratch */
} Study;

/* Whether exactly the axes of `set` split dim `dim` (for a product of factors:
 * at least these); then their order among each other. */
static bool order_from(const Mesh *m, const Placement *place, int dim,
                       bool product, uint32_t set, uint8_t order[MAX_AXES])
{
    uint32_t here = 0;
    for (int a = 0; a < m->n; a++)
        if (place->ax[a].kind == AX_S && place->ax[a].dim == dim)
            here |= 1u << a;
    if (product ? (here & set) != set : here != set)
        return false;
    for (int a = 0; a < m->n; a++) {
        order[a] = 0;
        for (int b = 0; b < m->n; b++)
            order[a] += (set >> b & 1) &&
                       place->ax[b].order < place->ax[a].order;
    }
    return true;
}

/* The order of the axes that split factor f, major first: as in an operand, or
 * in a wanted result, else by class. */
static void order_axes(const Study *y, int f, uint32_t set,
                      uint8_t order[MAX_AXES])
{
    const Program *p = y->s->p;
    const Rule *r = y->r;
    for (int i = 0; i < r->nargs; i++) {
        int d = rule_factor_dim(r, i, f);
        if (d >= 0 && order_from(&p->mesh, &y->op->arg[i]->type.place, d,
                                 r->dim[i][d].n > 1, set, order))
            return;
    }
    for (int o = 0; o < r->nouts; o++) {
        int d = rule_factor_dim(r, r->nargs + o, f);
        for (int k = 0; d >= 0 && k < y->demand[o].n; k++)
            if (order_from(&p->mesh, &y->demand[o].at[k].place, d,
                           r->dim[r->nargs + o][d].n > 1, set, order))
                return;
    }
    uint8_t n = 0;
    enum { LOOPS, BATCH, OTHERS, CONTEXT, CLASSES };
    for (int class = LOOPS; class < CLASSES; class++)
        for (int a = 0; a < p->mesh.n; a++) {
            int is = mesh_is_loop_axis(&p->mesh, a)     ? LOOPS
                     : p->plan.context.axes >> a & 1 ? CONTEXT
                     : p->plan.tensor_axes >> a & 1 ? OTHERS
                                                    : BATCH;
            if (set >> a & 1 && is == class)
                order[a] = n++;
        }
}

/* The number of axes that split factors that are major to f in a dim. */
static int axes_before(const Study *y, const Split *split,
                       const DimFactors *d, int f)
{
    int n = 0;
    for (int i = 0; i < d->n && d->f[i] != f; i++)
        for (int a = 0; a < y->s->p->mesh.n; a++)
            n += split[a].kind == SPLIT_FACTOR && split[a].factor == d->f[i];
    return n;
}

/* The placement of operand or result `tensor` for these splits. */
static Placement place_tensor(const Study *y, const Split *split,
                              uint8_t order[MAX_FACTORS][MAX_AXES], int tensor)
{
    Placement place = {0};
    for (int a = 0; a < y->s->p->mesh.n; a++) {
        AxisPlace *at = &place.ax[a];
        int f = split[a].factor;
        *at = rule_place(y->r, tensor, split[a]);
        at->order = 0;
        if (at->kind == AX_S)
            at->order = (uint8_t)(order[f][a] +
                                  axes_before(y, split,
                                              &y->r->dim[tensor][at->dim], f));
    }
    return place;
}

/* Whether the splits are compatible; computes the order of axes. */
static bool splits_fit(const Study *y, const Split *split,
                       uint8_t order[MAX_FACTORS][MAX_AXES])
{
    const Mesh *m = &y->s->p->mesh;
    int64_t taken[MAX_FACTORS], pieces[MAX_FACTORS];
    uint32_t set[MAX_FACTORS] = {0};
    for (int f = 0; f < y->r->nfactors; f++)
        taken[f] = pieces[f] = 1;
    for (int a = 0; a < m->n; a++) {
        if (split[a].kind != SPLIT_NONE &&
            !rule_allows(y->op, y->r, split[a], m->size[a], mesh_pieces(m, a), pieces))
            return false;
        if (split[a].kind == SPLIT_FACTOR) {
            taken[split[a].factor] *= m->size[a];
            pieces[split[a].factor] *= m->size[a] * mesh_pieces(m, a);
            set[split[a].factor] |= 1u << a;
        }
    }
    if (!rule_fits(y->r, taken))
        return false;
    for (int f = 0; f < y->r->nfactors; f++)
        if (set[f])
            order_axes(y, f, set[f], order[f]);
    return true;
}

/* ---- costs of a combination ---------------------------------------------- */

/* At equal cost the choice that divides the work most wins: this cost of
 * undivided work is a fraction of that of the cheapest conversion. */
static const double work_weight = 1e-10;

static double work_left(const Study *y, const Split *split)
{
    double left = 1;
    for (int a = 0; a < y->s->p->mesh.n; a++)
        if (split[a].kind == SPLIT_FACTOR)
            left /= (double)y->s->p->mesh.size[a];
    return left;
}

/* The cost of an op that does not split the factor that a clause requires: it is chosen
 * only if that cannot be split, which is reported (context.h). */
static double required_seconds(const Study *y, const Split *split)
{
    double seconds = 0;
    for (int a = 0; a < y->s->p->mesh.n; a++)
        if (y->axis[a].n > 1 && split[a].kind == SPLIT_NONE &&
            required_factor(y->s->p, y->op, y->r, a) >= 0)
            seconds += unmet;
    return seconds;
}

static double operand_seconds(const Study *y, int i)
{
    const Op *op = y->op;
    for (int k = 0; k < i; k++)
        if (op->arg[k] == op->arg[i] &&
            place_equal(&y->want[k], &y->want[i]))
            return 0;
    double seconds =
        splits_convert(y->s, &op->arg[i]->type, &y->want[i]);
    if (seconds > 0 && y->s->shared &&
        y->s->shared(y->s->context, op, i, &y->want[i]))
        return 0;
    return seconds;
}

static double result_seconds(const Study *y, int o, const Placement *place)
{
    Type t = y->op->out[o]->type;
    double seconds = 0;
    t.place = *place;
    for (int k = 0; k < y->demand[o].n; k++)
        seconds += splits_demand_cost(y->s, &t, &y->demand[o].at[k]);
    return seconds;
}

/* The future cost of a Partial that is passed on. One that is added to others
 * costs nothing, since the sum is reduced once, unless the op makes it larger.
 * A product is used by different ops, and reduced for each of them. */
static const double token = 2e-9;

static double reduce_seconds(const Study *y, int axis, const Type *t,
                             const Placement *place, int dtype)
{
    const Mesh *m = &y->s->p->mesh;
    double n = (double)type_elements(t);
    for (int a = 0; a < m->n; a++)
        if (place->ax[a].kind == AX_S)
            n /= (double)m->size[a];
    return collective_seconds(m, OP_all_reduce, axis, (int64_t)n * dtype);
}

static double pending_seconds(const Study *y, const Split *split,
                              const Placement *out)
{
    double seconds = 0;
    for (int a = 0; a < y->s->p->mesh.n; a++) {
        if (split[a].kind != SPLIT_PARTIAL || y->r->nargs == 0)
            continue;
        int dtype = dtype_size(y->op->out[0]->type.dtype);
        double before = 0;
        for (int i = 0; i < y->r->nargs; i++) {
            const Type *t = &y->op->arg[i]->type;
            if (t->place.ax[a].kind != AX_P || y->want[i].ax[a].kind != AX_P)
                continue;
            if (dtype_size(t->dtype) < dtype)
                dtype = dtype_size(t->dtype);
            before = fmax(before, reduce_seconds(y, a, t, &y->want[i],
                                                 dtype_size(t->dtype)));
        }
        double after =
            reduce_seconds(y, a, &y->op->out[0]->type, out, dtype);
        seconds += token;
        /* Sums over a loop axis are done at the end, whatever their number. */
        if (mesh_is_loop_axis(&y->s->p->mesh, a))
            continue;
        seconds += is_product(y->op) ? after : fmax(0, after - before);
    }
    return seconds;
}

static const double rounding = 1e-13; /* of a sum of modelled times */

/* Computes the cost of the splits, and takes them if it is lower than the best
 * so far by more than rounding. */
static void consider_split(Study *y, const Split *split)
{
    uint8_t order[MAX_FACTORS][MAX_AXES];
    const Rule *r = y->r;
    Choice *best = y->best;
    if (!splits_fit(y, split, order))
        return;
    double seconds = work_weight * work_left(y, split) + required_seconds(y, split);
    for (int i = 0; i < r->nargs; i++) {
        y->want[i] = place_tensor(y, split, order, i);
        seconds += operand_seconds(y, i);
        if (seconds >= best->seconds)
            return;
    }
    Placement out[MAX_RESULTS];
    double demanded = 0;
    for (int o = 0; o < r->nouts; o++) {
        out[o] = place_tensor(y, split, order, r->nargs + o);
        demanded += result_seconds(y, o, &out[o]);
    }
    seconds += fmax(demanded, pending_seconds(y, split, out));
    if (!(seconds < best->seconds - rounding))
        return;
    best->seconds = seconds;
    memcpy(best->split, split, sizeof best->split);
    memcpy(best->out, out, sizeof *out * (size_t)r->nouts);
    memcpy(best->want, y->want, sizeof *y->want * (size_t)r->nargs);
}

/* Tries all combinations of the axes' candidates. */
static void combine(Study *y)
{
    int n = y->s->p->mesh.n, at[MAX_AXES] = {0};
    for (;;) {
        Split split[MAX_AXES] = {{0}};
        for (int a = 0; a < n; a++)
            split[a] = y->axis[a].at[at[a]];
        consider_split(y, split);
        int a = 0;
        while (a < n && ++at[a] == y->axis[a].n)
            at[a++] = 0;
        if (a == n)
            return;
    }
}

void splits_choose(Splits *s, const Op *op, const Demands *demand,
                   const Choice *now, Choice *best)
{
    const Mesh *m = &s->p->mesh;
    const Rule *r = splits_rule(s, op);
    if (r->nouts > MAX_RESULTS)
        bug("op %s has too many results", op_info(op->kind)->name);
    Study y = {.s = s, .op = op, .r = r, .demand = demand, .best = best};
    y.want = NEW_ARRAY(s->p->arena, Placement, r->nargs + 1);
    best->want = NEW_ARRAY(s->p->arena, Placement, r->nargs + 1);
    best->seconds = INFINITY;
    if (now)
        consider_split(&y, now->split);
    for (int a = 0; a < m->n; a++)
        if (m->size[a] == 1)
            add_candidate(&y.axis[a], (Split){SPLIT_NONE, 0, -1});
        else
            find_candidates(s->p, op, r, a, demand, &y.axis[a]);
    combine(&y);
    if (isinf(best->seconds))
        bug("op %s of %s cannot be placed", op_info(op->kind)->name,
            op->nouts ? op->out[0]->name : "");
}
