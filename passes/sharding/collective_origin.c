/* collective_origin.c: finds which part of the step causes a collective.
 *
 * partition converts an operand if its placement is not the one that the op
 * requires. The origin of the conversion is a style of the plan, its context, the gradient
 * of a parameter, the loss, the optimizer, or none of these (ORIGIN_IMPLIED),
 * which the user is warned about (report/report_warnings.c).
 *
 *   a Partial from an op that contracts a dim that a style splits:
 *            the style. If the columns of a weight are split over tp, the
 *            gradient of the input is Partial over tp; it is reduced at the
 *            first op that needs the full sum, after the boundary. A placement
 *            of a parameter has no layouts at a boundary: it causes the sums
 *            over every dim that is split as a consequence.
 *   an op between a parameter's gradient and its update: the gradient
 *   a Partial in the loss: the loss, which is the part of the forward pass
 *            after the last use of a parameter, and its backward pass
 *   what an attention exchanges over the axis of the clause `context`: the clause
 *   anything else: implied
 *
 * Time: one walk over the program, and a backward walk for each conversion.
 */
#include "passes/sharding/collective_origin.h"

#include "ir/analysis/producer.h"

#include "passes/sharding/context.h"
#include "ir/analysis/expert_items.h"
#include "passes/sharding/experts.h"
#include "passes/sharding/layouts.h"

#include <string.h>

/* ---- marks for the parts of the step ------------------------------------- */

/* Properties of values, by id. */
typedef struct Marks {
    Origins *o;
    bool *weight; /* computed from parameters and constants alone */
    bool *feeds;  /* a forward op that uses a parameter depends on it */
    bool *other;  /* read by an op that is not the tail of a gradient */
} Marks;

static bool makes_weight(const Marks *k, const Op *op)
{
    bool any = op->kind == OP_param;
    for (int i = 0; i < op->nargs; i++) {
        const Value *v = op->arg[i];
        if (!k->weight[v->id] && !(v->def && v->def->phase == PH_INIT))
            return false;
        any |= k->weight[v->id];
    }
    return any;
}

static void mark_weights(Marks *k, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next)
        if (op->body) {
            for (int i = op->ncarry; i < op->nargs; i++)
                k->weight[op->body->arg[i]->id] = k->weight[op->arg[i]->id];
            mark_weights(k, op->body);
        } else if (op->phase == PH_FORWARD && makes_weight(k, op)) {
            for (int i = 0; i < op->nouts; i++)
                k->weight[op->out[i]->id] = true;
        }
}

static bool uses_parameter(const Marks *k, const Op *op)
{
    bool any = false;
    for (int i = 0; i < op->nargs; i++)
        any |= k->weight[op->arg[i]->id];
    return any && !makes_weight(k, op);
}

static void mark_op(Marks *k, const Op *op)
{
    bool feeds = op->phase == PH_FORWARD && uses_parameter(k, op);
    bool tail = op->kind == OP_finish_grad ||
                (op->phase == PH_BACKWARD && !op_contracts(op));
    for (int i = 0; i < op->nouts; i++) {
        feeds |= op->phase == PH_FORWARD && k->feeds[op->out[i]->id];
        tail = tail && (op->kind == OP_finish_grad || !k->other[op->out[i]->id]);
    }
    for (int i = 0; i < op->nargs; i++) {
        k->feeds[op->arg[i]->id] |= feeds;
        k->other[op->arg[i]->id] |= !tail;
    }
    k->o->tail[op->id] = tail;
    k->o->loss[op->id] = op->phase == PH_FORWARD && !feeds && op->nargs > 0;
}

static void hand_on(Marks *k, const Value *from, const Value *to)
{
    k->feeds[to->id] |= k->feeds[from->id];
    k->other[to->id] |= k->other[from->id];
}

static void mark_followed(Marks *k, const Region *r);

/* Two rounds: marks of a carry apply to the iterations before. */
static void mark_loop(Marks *k, const Op *loop)
{
    const Region *body = loop->body;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < body->nyields; i++) {
            hand_on(k, loop->out[i], body->yield[i]);
            if (i < loop->ncarry)
                hand_on(k, body->arg[i], body->yield[i]);
        }
        mark_followed(k, body);
    }
    for (int i = 0; i < loop->nargs; i++)
        hand_on(k, body->arg[i], loop->arg[i]);
}

static void mark_followed(Marks *k, const Region *r)
{
    for (const Op *op = r->last; op; op = op->prev)
        if (op->body)
            mark_loop(k, op);
        else
            mark_op(k, op);
}

void origins_find(Origins *o, Program *p)
{
    *o = (Origins){.p = p, .uses = uses_find(p),
                   .seen = NEW(p->arena, Seen)};
    o->seen->at = NEW_ARRAY(p->arena, uint32_t, p->nvalues + 1);
    for (int i = 0; i < p->plan.nstyles; i++)
        o->places |= p->plan.style[i].kind == STYLE_PARAMETER;
    o->loss = NEW_ARRAY(p->arena, bool, p->nops + 1);
    o->tail = NEW_ARRAY(p->arena, bool, p->nops + 1);
    Marks k = {o, NEW_ARRAY(p->arena, bool, p->nvalues + 1),
               NEW_ARRAY(p->arena, bool, p->nvalues + 1),
               NEW_ARRAY(p->arena, bool, p->nvalues + 1)};
    mark_weights(&k, p->step);
    mark_followed(&k, p->step);
    for_ops(op, p->step)
        if (!op->body && o->loss[op->id])
            vec_push(p->arena, &o->loss_op, op);
}

/* Whether op belongs to the loss. A backward op has the location of its forward
 * op. */
static bool in_loss(const Origins *o, const Op *op)
{
    for (int i = 0; i < o->loss_op.n; i++) {
        const Op *x = o->loss_op.at[i];
        if (x == op ||
            (x->loc.file == op->loc.file && x->loc.line == op->loc.line &&
             x->loc.col == op->loc.col && strcmp(x->path, op->path) == 0))
            return true;
    }
    return false;
}

/* ---- sources of a Partial ------------------------------------------------ */

static bool is_partial(const Value *v, int axis)
{
    int kind = v->type.place.ax[axis].kind;
    return kind == AX_P || kind == AX_PMAX;
}

/* The parameter that the op reads and a style splits on the axis, or NULL. */
static const Value *parameter_split_over(const Op *op, int axis)
{
    for (int i = 0; i < op->nargs; i++) {
        const Value *w = parameter_of(op->arg[i]);
        if (w && w->type.place.ax[axis].kind == AX_S)
            return w;
    }
    return NULL;
}

/* The style that replicates the heads of an attention's keys or values on the
 * axis, so that its ranks share them; or NULL. */
static const Style *shared_heads(const Program *p, const Op *grad, int axis)
{
    for (int i = 2; grad->kind == OP_attention_grad && i < 4; i++) {
        const Op *made = producer_of(grad->arg[i]);
        const Style *s = made ? style_of_path(p, made->path, axis) : NULL;
        if (s && s->whole)
            return s;
    }
    return NULL;
}

enum { MAX_PRODUCERS = 256 }; /* values that a search visits */

/* The parameter placement (`w: Shard(0)`) by which v is split on the axis: that
 * of a parameter that v is computed from, through operands that are split on
 * the axis, no boundary with a style and no exchange with experts. NULL: none. */
static const Value *parameter_placed(const Program *p, const Value *v, int axis,
                                     int *budget)
{
    v = value_before_loops(v);
    const Op *op = v->def;
    if (!op || v->type.place.ax[axis].kind != AX_S || (*budget)-- <= 0)
        return NULL;
    if (op->kind == OP_param) {
        const Style *s =
            style_of_path(p, p->param.at[attr_param(op)].name, axis);
        return s && s->kind == STYLE_PARAMETER ? v : NULL;
    }
    if ((op->kind == OP_boundary && style_of_boundary(p, op, axis)) ||
        experts_exchange(p, op, axis))
        return NULL;
    if (op->body)
        return parameter_placed(p, op->body->yield[v->index], axis, budget);
    const Value *found = NULL;
    for (int i = 0; i < op->nargs && !found; i++)
        found = parameter_placed(p, op->arg[i], axis, budget);
    return found;
}

/* The search for the ops that make a value Partial on the axis: those without a
 * Partial operand. */
typedef struct Search {
    const Origins *o;
    int axis, budget;      /* values that may still be visited */
    const Op *source;      /* the first op that was found; not a mask to
                            * partial */
    const Value *parameter; /* the parameter that it reads and a style splits, or
                             * whose placement splits what it reads; or NULL */
    const Style *shared;    /* the style by which ranks share the heads that it
                             * reads */
} Search;

/* Whether v was visited before in this search. Values that partition has made
 * are not marked; they make no cycle. */
static bool is_seen(const Search *s, const Value *v)
{
    const Seen *seen = s->o->seen;
    if (v->id >= s->o->uses.nvalues)
        return false;
    bool before = seen->at[v->id] == seen->now;
    seen->at[v->id] = seen->now;
    return before;
}

static void search_value(Search *s, const Value *v);

static void search_op(Search *s, const Op *op)
{
    bool leaf = true;
    for (int i = 0; i < op->nargs; i++)
        if (is_partial(op->arg[i], s->axis)) {
            search_value(s, op->arg[i]);
            leaf = false;
        }
    if (!leaf || op->kind == OP_mask_to_partial || s->parameter)
        return;
    s->parameter = parameter_split_over(op, s->axis);
    int budget = MAX_PRODUCERS;
    for (int i = 0; i < op->nargs && !s->parameter && s->o->places; i++)
        s->parameter =
            parameter_placed(s->o->p, op->arg[i], s->axis, &budget);
    if (!s->shared)
        s->shared = shared_heads(s->o->p, op, s->axis);
    if (!s->source || s->parameter)
        s->source = op;
}

static void search_value(Search *s, const Value *v)
{
    const Op *op = v->def, *loop = op ? op : v->region->owner;
    if (s->parameter || is_seen(s, v) || s->budget-- <= 0 || !loop)
        return;
    if (op && !op->body) {
        search_op(s, op);
        return;
    }
    /* A carry starts as an operand; an argument that is not one stays it. */
    if (op || v->index < loop->ncarry)
        search_value(s, loop->body->yield[v->index]);
    if (v->index < (op ? loop->ncarry : loop->nargs) &&
        is_partial(loop->arg[v->index], s->axis))
        search_value(s, loop->arg[v->index]);
}

/* ---- reasons ------------------------------------------------------------- */

/* "tp P -> R": the axes on which v's placement differs from `to`. */
static const char *placement_change(const Program *p, const Value *v,
                                    const Placement *to)
{
    Out o;
    int n = 0;
    out_init(&o, p->arena);
    for (int a = 0; a < p->mesh.n; a++)
        if (!axis_place_equal(v->type.place.ax[a], to->ax[a]))
            out(&o, "%s%s %s -> %s", n++ ? ", " : "", p->mesh.name[a],
                axis_place_text(p->arena, v->type.place.ax[a]),
                axis_place_text(p->arena, to->ax[a]));
    return o.size ? o.text : "";
}

/* The reason for reducing a Partial that a style's split causes. */
static Why by_style(const Program *p, const Search *s, const char *change)
{
    const Why *split = &s->parameter->why[s->axis];
    const char *of = s->source->phase == PH_BACKWARD ? "gradient of " : "";
    return (Why){.text = arena_printf(p->arena, "%s%s: %s", of,
                                      why_text(p->arena, split), change),
                 .loc = split->loc, .origin = ORIGIN_STYLE};
}

/* The reason for what a clause of the plan exchanges: "context cp: exchange=heads: …" */
static Why by_clause(const Program *p, const char *clause, Loc loc, const char *change)
{
    return (Why){.text = arena_printf(p->arena, "%s: %s", clause, change), .loc = loc,
                 .origin = ORIGIN_STYLE};
}

enum { BUDGET = 4096 }; /* values that a search visits */

/* A conversion of a value to another placement. */
typedef struct Change {
    const Op *op; /* needs the value in the other placement; NULL: a boundary
                   * or a loop that carries it */
    const Value *from;
    const Placement *to;
} Change;

/* The reason for the change of one axis. `text` describes an implied change. */
static Why why_axis(const Origins *o, const Change *x, int axis,
                    const char *text)
{
    const Op *op = x->op;
    const Value *from = x->from;
    Loc loc = op ? op->loc : from->loc;
    Search s = {.o = o, .axis = axis, .budget = BUDGET};
    o->seen->now++;
    bool partial = is_partial(from, axis);
    if (partial)
        search_value(&s, from);
    if (s.parameter)
        return by_style(o->p, &s, placement_change(o->p, from, x->to));
    if (s.shared)
        return (Why){.text = arena_printf(
                         o->p->arena, "ranks share the heads of %s: %s",
                         style_text(o->p->arena, s.shared),
                         placement_change(o->p, from, x->to)),
                     .loc = s.shared->loc, .origin = ORIGIN_STYLE};
    if (context_converts(o->p, op, from, axis) ||
        (s.source && context_exchanges(o->p, s.source, axis)))
        return by_clause(o->p, context_text(o->p), o->p->plan.context.loc,
                         placement_change(o->p, from, x->to));
    const Op *moves = op && experts_exchange(o->p, op, axis) ? op
                      : s.source && experts_exchange(o->p, s.source, axis)
                          ? s.source
                          : experts_made(o->p, from, axis);
    if (moves) {
        const ExpertItem *item = expert_item(o->p, moves);
        return by_clause(o->p, experts_text(o->p, item), item->loc,
                         placement_change(o->p, from, x->to));
    }
    if (op && op->kind == OP_limit_choices)
        return by_clause(o->p, "a capacity of experts counts the choices of whole sequences", loc,
                         placement_change(o->p, from, x->to));
    if (op && o->tail[op->id])
        return (Why){.text = text, .loc = loc, .origin = ORIGIN_GRADIENT};
    if (op && partial && in_loss(o, op))
        return (Why){.text = text, .loc = loc, .origin = ORIGIN_LOSS};
    return (Why){.text = text, .loc = loc, .origin = ORIGIN_IMPLIED};
}

/* The reason for the axis whose change is implied, else for the first. */
static Why why_change(const Origins *o, Change x, const char *text)
{
    Why found = why_is(text, x.op ? x.op->loc : x.from->loc);
    for (int a = 0; a < o->p->mesh.n; a++) {
        if (axis_place_equal(x.from->type.place.ax[a], x.to->ax[a]))
            continue;
        Why why = why_axis(o, &x, a, text);
        if (!found.origin || why.origin == ORIGIN_IMPLIED)
            found = why;
    }
    return found;
}

Why origin_of_boundary(const Origins *o, const Op *op, const Value *from,
                       const Placement *to)
{
    const Program *p = o->p;
    Constraint by_axis[MAX_AXES];
    layout_of_boundary(p, op, by_axis);
    for (int a = 0; a < p->mesh.n; a++) {
        const Style *s = by_axis[a].style;
        if (s && !axis_place_equal(from->type.place.ax[a], to->ax[a]))
            return (Why){.text = arena_printf(
                             p->arena, "%s%s: %s",
                             attr_grad(op) ? "gradient of " : "",
                             style_text(p->arena, s),
                             placement_change(p, from, to)),
                         .loc = s->loc, .origin = ORIGIN_STYLE};
    }
    return why_change(o, (Change){.from = from, .to = to},
                      arena_printf(p->arena, "%s of %s: %s",
                                   port_text(p->arena, op),
                                   attr_path(op),
                                   placement_change(p, from, to)));
}

/* "add needs the full sum", "matmul needs its operand unsplit": what an op
 * needs on the axes that change. */
static const char *need_text(const Program *p, const Op *op, const Value *v,
                             const Placement *to)
{
    const char *name = op_is_einsum(op->kind) ? "matmul"
                       : op_is_conv(op->kind) ? "convolution"
                                              : op_info(op->kind)->name;
    const char *needs = "an operand that is placed differently";
    for (int a = 0; a < p->mesh.n; a++) {
        int from = v->type.place.ax[a].kind, kind = to->ax[a].kind;
        if (axis_place_equal(v->type.place.ax[a], to->ax[a]))
            continue;
        needs = from == AX_P      ? "the full sum"
                : from == AX_PMAX ? "the maximum over all ranks"
                : kind == AX_R    ? "its operand unsplit"
                : from == AX_S && kind == AX_S
                    ? "its operand split along another dim"
                    : needs;
        break;
    }
    return arena_printf(p->arena, "%s needs %s", name, needs);
}

Why origin_of_operand(const Origins *o, const Op *op, const Value *v,
                      const Placement *want)
{
    const Program *p = o->p;
    Arena *a = p->arena;
    const char *change = placement_change(p, v, want);
    if (op->kind == OP_finish_grad) {
        const Param *q = &p->param.at[attr_param(op)];
        return (Why){.text = arena_printf(a, "gradient of %s: %s", q->name,
                                          change),
                     .loc = q->loc, .origin = ORIGIN_GRADIENT};
    }
    if (op->kind == OP_output)
        return (Why){.text = arena_printf(a, "the model's result %s: %s",
                                          attr_name(op), change),
                     .loc = op->loc, .origin = ORIGIN_LOSS};
    const char *text =
        arena_printf(a, "%s: %s", need_text(p, op, v, want), change);
    if (op->phase == PH_OPTIMIZER)
        return (Why){.text = text, .loc = op->loc, .origin = ORIGIN_OPTIMIZER};
    return why_change(o, (Change){.op = op, .from = v, .to = want}, text);
}

Why origin_of_carry(const Origins *o, const Value *v, const Value *like)
{
    const Placement *to = &like->type.place;
    return why_change(o, (Change){.from = v, .to = to},
                      arena_printf(o->p->arena,
                                   "the next layer needs %s in another placement: %s",
                                   like->name,
                                   placement_change(o->p, v, to)));
}
