/* propagate.c: propagates placements from the plan to every value.
 *
 * requires: STAGE_GLOBAL; parameters and inputs placed (pass plan)
 * ensures:  STAGE_PLACED: every value has a placement and a reason for it.
 *           Operands may still differ from what their op requires: partition
 *           converts them
 *
 * before   param "w" : f32[128/tp, 64] …
 *          input "x" : f32[8/dp, 64]
 *          %y = einsum{spec="bk,fk->bf", …} %x, %w : f32[8, 128] forward
 *          %z = relu %y : f32[8, 128] forward
 * after    %y = einsum{…} %x, %w : f32[8/dp, 128/tp] forward
 *            | %y dp "follows %x" tp "follows %w"
 *          %z = relu %y : f32[8/dp, 128/tp] forward
 *            | %z dp "follows %y" tp "follows %y"
 *          (each with what it needs of its operands: needs f32[8/dp, 128], …)
 *
 * Each op gets the split of its factors with the lowest cost of converting its
 * operands from their placements, and its results to those that their readers
 * want (passes/sharding/splits.h). The first sweep in program order considers
 * operands only. Backward and forward sweeps follow, which consider readers
 * too, until a fixed point (MAX_SWEEPS at most). A choice changes only for a
 * lower cost, and boundaries have fixed placements, so that few sweeps are
 * needed. A Partial stays Partial as long as ops are linear in it, so that
 * gradients are summed first and reduced once.
 *
 * A loop's carry gets the placement with the lowest cost over all iterations,
 * among those of its start, of its yield, and those that its readers want.
 */
#include "passes/sharding/propagate.h"

#include "base/bug.h"
#include "passes/pass.h"
#include "passes/sharding/context.h"

enum { MAX_SWEEPS = 12, MAX_ROUNDS = 4 };

static const double init_weight = 1e-3;
static const double rounding = 1e-12; /* of a loop's modelled times */

/* The number of times that an op runs in a step. Constants are computed once
 * for all steps and weigh almost nothing. */
static double weight_of(const Op *op)
{
    double n = (double)ir_trip_count(op);
    return op->phase == PH_INIT ? n * init_weight : n;
}

static void place_value(Propagate *g, Value *v, const Placement *place)
{
    if (place_equal(&v->type.place, place))
        return;
    v->type.place = *place;
    g->changed = true;
}

/* ---- single ops ---------------------------------------------------------- */

/* Reports a layout that does not fit: the axes that split the batch leave a dim
 * that the style's axis does not divide. */
static void refuse_layout(Propagate *g, Op *op)
{
    const Mesh *m = &g->p->mesh;
    for (int a = 0; a < m->n; a++) {
        Constraint c = g->layout[op->id][a];
        Type t = op->arg[0]->type;
        if (!c.style || c.to.kind != AX_S)
            continue;
        uint32_t user = mesh_user_axis(m, a);
        for (int b = 0; b < m->n; b++)
            if (user >> b & 1) {
                t.place.ax[b] = (AxisPlace){AX_R, 0, 0};
                g->layout[op->id][b].style = NULL;
            }
        type_normalize(&t, m);
        diag_error(g->p->diag, c.style->loc,
                   "axis '%s' of size %lld does not divide the rest of dim "
                   "%d of %s", mesh_user_name(g->p->arena, m, a),
                   (long long)mesh_group(m, user), c.to.dim,
                   type_text(g->p->arena, &t, m));
        diag_note(g->p->diag, op->loc, "this is %s of '%s'",
                  port_text(g->p->arena, op), attr_path(op));
        diag_help(g->p->diag, "choose a size that all axes of the dim divide "
                  "together, or split another dim");
    }
}

static void decide_boundary(Propagate *g, Op *op)
{
    AxisPlace with[MAX_AXES];
    Type result = op->out[0]->type;
    uint32_t axes = constrained_axes(g->layout[op->id], false, with);
    result.place = place_override(&g->p->mesh, &result,
                                  &op->arg[0]->type.place, axes, with);
    if (type_check(g->p->arena, &result, &g->p->mesh)) {
        refuse_layout(g, op);
        result.place = op->arg[0]->type.place;
    }
    place_value(g, op->out[0], &result.place);
}

static void decide_by_rule(Propagate *g, Op *op)
{
    Demands demand[MAX_RESULTS] = {{0}};
    Choice best;
    Choice **now = &g->choice[op->id];
    for (int o = 0; o < op->nouts && o < MAX_RESULTS; o++)
        propagate_demands(g, op->out[o], &demand[o]);
    splits_choose(g->splits, op, demand, *now, &best);
    if (!*now)
        *now = NEW(g->p->arena, Choice);
    **now = best;
    for (int o = 0; o < op->nouts; o++)
        place_value(g, op->out[o], &best.out[o]);
}

/* ---- loops --------------------------------------------------------------- */

static double demand_seconds(Propagate *g, const Type *t, const Demands *list)
{
    double seconds = 0;
    for (int i = 0; i < list->n; i++)
        seconds += splits_demand_cost(g->splits, t, &list->at[i]);
    return seconds;
}

/* The cost per step of placing carry i as `place`. */
static double carry_seconds(Propagate *g, const Op *loop, int i,
                            const Placement *place)
{
    const Value *start = loop->arg[i], *next = loop->body->yield[i];
    Demands inside = {0}, outside = {0};
    double once = weight_of(loop);
    double times = once * (double)loop_trips(loop);
    Type t = loop->body->arg[i]->type;
    t.place = *place;
    propagate_demands(g, loop->body->arg[i], &inside);
    propagate_demands(g, loop->out[i], &outside);
    return once * splits_convert(g->splits, &start->type, place) +
           times * splits_convert(g->splits, &next->type, place) +
           times * demand_seconds(g, &t, &inside) +
           once * demand_seconds(g, &t, &outside);
}

/* Whether the placement fits v's type: other values' placements may not. */
static bool possible(Propagate *g, const Value *v, const Placement *place)
{
    Type t = v->type;
    t.place = *place;
    return type_check(g->p->arena, &t, &g->p->mesh) == NULL;
}

static void decide_carry(Propagate *g, Op *loop, int i)
{
    Value *arg = loop->body->arg[i];
    Demands other = {0};
    Placement best = arg->type.place;
    double least = carry_seconds(g, loop, i, &best) - rounding;
    demands_add(&other, &(Demand){UINT32_MAX, 0, loop->arg[i]->type.place});
    demands_add(&other,
                &(Demand){UINT32_MAX, 0, loop->body->yield[i]->type.place});
    propagate_demands(g, arg, &other);
    propagate_demands(g, loop->out[i], &other);
    for (int k = 0; k < other.n; k++) {
        const Placement *place = &other.at[k].place;
        if (other.at[k].axes != UINT32_MAX || !possible(g, arg, place))
            continue;
        double seconds = carry_seconds(g, loop, i, place);
        if (seconds < least) {
            least = seconds;
            best = *place;
        }
    }
    place_value(g, arg, &best);
    place_value(g, loop->out[i], &best);
}

static void sweep(Propagate *g, Region *r, bool backward, bool first);

/* Decides the carries and sweeps the body until the carries are stable. */
static void decide_loop(Propagate *g, Op *loop, bool backward, bool first)
{
    bool outer = g->changed;
    for (int i = first ? 0 : loop->ncarry; i < loop->nargs; i++)
        place_value(g, loop->body->arg[i], &loop->arg[i]->type.place);
    for (int round = 0; round < MAX_ROUNDS; round++) {
        if (!first)
            for (int i = 0; i < loop->ncarry; i++)
                decide_carry(g, loop, i);
        sweep(g, loop->body, backward, first && round == 0);
        outer = outer || g->changed;
        g->changed = false;
        g->settled[loop->id] = true;
        for (int i = 0; i < loop->ncarry; i++)
            decide_carry(g, loop, i);
        if (!g->changed)
            break;
        outer = true;
        first = false;
        backward = false;
    }
    for (int i = loop->ncarry; i < loop->nouts; i++)
        place_value(g, loop->out[i], &loop->body->yield[i]->type.place);
    g->changed = g->changed || outer;
}

/* ---- sweeps -------------------------------------------------------------- */

static void decide(Propagate *g, Op *op, bool backward, bool first)
{
    if (op->kind == OP_loop) {
        decide_loop(g, op, backward, first);
    } else if (op->kind == OP_boundary) {
        decide_boundary(g, op);
    } else if (op_is_fixed(op)) {
        for (int o = 0; o < op->nouts; o++) {
            Placement place = fixed_place(g->p, op, o);
            place_value(g, op->out[o], &place);
        }
    } else {
        decide_by_rule(g, op);
    }
}

static void sweep(Propagate *g, Region *r, bool backward, bool first)
{
    for (Op *op = backward ? r->last : r->first; op;
         op = backward ? op->prev : op->next)
        decide(g, op, backward, first);
}

void pass_propagate(Program *p, const TargetInfo *t)
{
    (void)t;
    Propagate g = {.p = p, .uses = uses_find(p)};
    g.splits = splits_new(p, propagate_shared, &g);
    g.choice = NEW_ARRAY(p->arena, Choice *, p->nops + 1);
    g.layout = NEW_ARRAY(p->arena, Constraint *, p->nops + 1);
    g.settled = NEW_ARRAY(p->arena, bool, p->nops + 1);
    for_ops(op, p->step)
        if (op->kind == OP_boundary) {
            g.layout[op->id] = NEW_ARRAY(p->arena, Constraint, MAX_AXES);
            layout_of_boundary(p, op, g.layout[op->id]);
        }
    for (int i = 0; i < MAX_SWEEPS; i++) {
        g.changed = false;
        sweep(&g, p->step, i % 2, i == 0);
        if (!g.changed)
            break;
    }
    /* A last sweep makes results consistent with the final operands. */
    sweep(&g, p->step, false, false);
    propagate_explain(&g);
    for_ops(op, p->step) /* what the choice requires of its operands */
        if (g.choice[op->id] && op->nargs)
            op->needs = g.choice[op->id]->want;
    context_check(p);
    p->stage = STAGE_PLACED;
}
