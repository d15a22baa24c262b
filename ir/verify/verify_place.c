/* verify_place.c: checks the placements of one op by deriving them.
 *
 * Results of ops with a rule are derived from the operands; a collective may
 * change the axes that it names, in its own way only; gradients and states are
 * placed as their parameter is. So a collective that is missing, duplicated or
 * over the wrong axis is an error here.
 */
#include <string.h>

#include "ir/analysis/attention.h"
#include "ir/plan/pipeline.h"
#include "ir/verify/verify.h"
#include "ir/rules/rules.h"
#include "ir/units.h"

static const char *axis_fault(const Program *p, const char *what, int i,
                              int axis, AxisPlace is, const char *needs)
{
    return arena_printf(p->arena, "%s %d is %s on %s, %s", what, i,
                        axis_place_words(p->arena, is), p->mesh.name[axis],
                        needs);
}

/* ---- ops with a rule ----------------------------------------------------- */

/* The op whose result v is, through arguments of bodies, unchanged or sliced;
 * `trips` is the product of the trip counts that slice it. */
static const Op *source_of(const Value *v, int64_t *trips)
{
    *trips = 1;
    while (!v->def) {
        const Op *owner = v->region->owner;
        if (!owner || (owner->kind == OP_loop && v->index < owner->ncarry))
            return NULL;
        if (owner->kind == OP_loop && v->index < owner->ncarry + owner->nstack)
            *trips *= loop_trips(owner);
        v = owner->arg[v->index];
    }
    return v->def;
}

static const char *check_bases(const Program *p, const Op *op, const Rule *r)
{
    for (int f = 0; f < r->nfactors; f++) {
        int i = r->nargs + r->factor[f].base;
        if (r->factor[f].base < 0 || i >= op->nargs)
            continue;
        int64_t trips;
        const Op *base = source_of(op->arg[i], &trips);
        if (!base || base->kind != OP_base)
            return arena_printf(p->arena, "operand %d is not made by base", i);
        if (attr_size(base) != r->factor[f].size * trips)
            return arena_printf(p->arena,
                                "operand %d counts a dim of %lld, "
                                "here it is %lld",
                                i, (long long)attr_size(base),
                                (long long)r->factor[f].size);
    }
    return NULL;
}

/* Checks the results' placements: the rule derives them from those of the
 * operands, or at STAGE_PLACED from what the op needs of its operands. */
static const char *check_rule(const Program *p, const Op *op, bool placed)
{
    Rule r;
    Placement derived[MAX_RULE_TENSORS];
    rule_of(p, op, &r);
    for (int i = 0; i < op->nouts; i++)
        derived[i] = op->out[i]->type.place;
    const char *fault = placed ? rule_derive_needs(p, op, &r, derived, NULL)
                               : rule_derive(p, op, &r, derived, NULL);
    if (fault)
        return fault;
    for (int i = 0; i < op->nouts; i++)
        for (int a = 0; a < p->mesh.n; a++) {
            AxisPlace is = op->out[i]->type.place.ax[a];
            AxisPlace want = derived[i].ax[a];
            if (is.kind != want.kind || is.dim != want.dim)
                return axis_fault(
                    p, "result", i, a, is,
                    arena_printf(p->arena, "its operands make it %s",
                                 axis_place_words(p->arena, want)));
            if (is.order != want.order)
                return arena_printf(p->arena,
                                    "result %d has the axes of dim "
                                    "%d in another order than its operands",
                                    i, is.dim);
        }
    return placed ? NULL : check_bases(p, op, &r);
}

/* ---- collectives --------------------------------------------------------- */

/* Whether the axis is minor to all others that split the tensor in the same
 * way: only minor parts can be gathered or made. */
static bool is_minor(const Type *t, const Mesh *m, int axis)
{
    AxisPlace p = t->place.ax[axis];
    for (int a = 0; a < m->n; a++) {
        AxisPlace q = t->place.ax[a];
        if (a == axis)
            continue;
        if (p.kind == AX_S &&
            ((q.kind == AX_S && q.dim == p.dim && q.order > p.order) ||
             q.kind == AX_FLAT))
            return false;
        if (p.kind == AX_FLAT && q.kind == AX_FLAT && a > axis)
            return false;
    }
    return true;
}

static bool is_cut(AxisPlace p)
{
    return p.kind == AX_S || p.kind == AX_FLAT;
}

/* Whether a conversion can change the placement on an axis in this way. */
static bool may_become(OpKind kind, AxisPlace from, AxisPlace to)
{
    switch ((int)kind) {
    case OP_all_gather:
        return is_cut(from) && to.kind == AX_R;
    case OP_all_reduce:
        return (from.kind == AX_P || from.kind == AX_PMAX) && to.kind == AX_R;
    case OP_reduce_scatter:
        return from.kind == AX_P && is_cut(to);
    case OP_all_to_all:
        return from.kind == AX_S && to.kind == AX_S && from.dim != to.dim;
    case OP_local_slice:
        return from.kind == AX_R && (is_cut(to) || to.kind == AX_CUT);
    case OP_move:
        return from.kind == AX_R ? to.kind == AX_AT || to.kind == AX_HERE
                                 : from.kind == AX_AT && to.kind == AX_AT &&
                                       from.dim != to.dim;
    case OP_receive:
    case OP_send:
        return from.kind == AX_AT && axis_place_equal(from, to);
    default: /* mask_to_partial */
        return (from.kind == AX_R || from.kind == AX_AT ||
                from.kind == AX_HERE) && to.kind == AX_P;
    }
}

/* Removes the named axes, minor first: each must be the minor one of those
 * left. To be called for the types before and after. */
static bool minor_throughout(const Program *p, const Type *t, uint32_t axes)
{
    Type rest = *t;
    uint32_t todo = 0;
    for (int a = 0; a < p->mesh.n; a++)
        if ((axes >> a & 1) && is_cut(t->place.ax[a]))
            todo |= 1u << a;
    while (todo) {
        uint32_t before = todo;
        for (int a = 0; a < p->mesh.n; a++)
            if ((todo >> a & 1) && is_minor(&rest, &p->mesh, a)) {
                rest.place.ax[a] = (AxisPlace){0};
                todo &= ~(1u << a);
            }
        if (todo == before)
            return false;
    }
    return true;
}

/* In zigzag order a rank's part is two pieces: a collective moves those of one axis. */
static const char *check_pieces(const Program *p, const Op *op, int i)
{
    uint32_t axes = attr_axes(op), zigzag = axes & p->mesh.zigzag;
    const Type *part = op->kind == OP_all_gather ? &op->arg[i]->type : &op->out[i]->type;
    for (int a = 0; a < p->mesh.n; a++)
        if (zigzag >> a & 1 && part->place.ax[a].kind == AX_S &&
            (op->kind == OP_all_to_all || axes & (axes - 1)))
            return arena_printf(p->arena, "operand %d: it cannot move the two pieces of "
                                "a part in zigzag order", i);
    return NULL;
}

/* An exchange over several axes moves the parts of one dim to another: part k of a rank goes to
 * rank k of the group, so that the axes divide both dims in the order that numbers ranks. */
static const char *check_exchange(const Program *p, const Op *op, int i)
{
    uint32_t axes = attr_axes(op);
    int last = -1;
    for (int a = 0; a < p->mesh.n; a++) {
        if (op->kind != OP_all_to_all || !(axes >> a & 1))
            continue;
        const AxisPlace *const places[] = {op->arg[i]->type.place.ax, op->out[i]->type.place.ax};
        for (int k = 0; last >= 0 && k < 2; k++)
            if (places[k][last].dim != places[k][a].dim ||
                places[k][last].order > places[k][a].order)
                return arena_printf(p->arena, "%s %d: its axes split several dims, or one in "
                                    "another order than ranks", k ? "result" : "operand", i);
        last = a;
    }
    return NULL;
}

/* A shift passes on parts of one dim, and changes no placement; what all stages of a pipeline
 * have goes where the first operand is. */
static const char *check_shift(const Program *p, const Op *op)
{
    uint32_t axes = attr_axes(op);
    const Placement *holder = &op->arg[0]->type.place;
    for (int i = 0; i < op->nargs; i++)
        for (int a = 0; a < p->mesh.n; a++) {
            AxisPlace x = op->arg[i]->type.place.ax[a], y = op->out[i]->type.place.ax[a];
            bool all = axis_place_is_held(holder->ax[a]) && x.kind == AX_R;
            if (axes >> a & 1 && x.kind != AX_S)
                return axis_fault(p, "operand", i, a, x, "it must be Shard");
            if (!axis_place_equal(all ? holder->ax[a] : x, y))
                return axis_fault(p, "operand", i, a, x, "and its result has another placement");
        }
    return NULL;
}

static const char *check_conversion(const Program *p, const Op *op)
{
    uint32_t axes = attr_axes(op);
    if (op->kind == OP_shift)
        return check_shift(p, op);
    for (int i = 0; i < op->nargs; i++) {
        const Type *from = &op->arg[i]->type, *to = &op->out[i]->type;
        for (int a = 0; a < p->mesh.n; a++) {
            AxisPlace x = from->place.ax[a], y = to->place.ax[a];
            bool named = axes >> a & 1;
            if (!named && !axis_place_equal(x, y))
                return axis_fault(p, "operand", i, a, x,
                                  "which changes though not named in axes");
            if (named && !may_become(op->kind, x, y))
                return axis_fault(p, "operand", i, a, x,
                                  arena_printf(p->arena,
                                               "and cannot become %s here",
                                               axis_place_words(p->arena, y)));
        }
        if (!type_same_holder(from, &op->arg[0]->type))
            return arena_printf(p->arena, "operand %d is on another stage", i);
        if (!minor_throughout(p, from, axes) || !minor_throughout(p, to, axes))
            return arena_printf(p->arena,
                                "operand %d: only the minor axis of "
                                "a dim can change",
                                i);
        const char *fault = check_pieces(p, op, i);
        if (!fault)
            fault = check_exchange(p, op, i);
        if (fault)
            return fault;
    }
    return NULL;
}

/* ---- parameters ---------------------------------------------------------- */

static const char *type_fault(const Program *p, const char *what,
                              const Type *is, const char *name,
                              const Type *want)
{
    return arena_printf(p->arena, "%s is %s, but %s is %s", what,
                        type_text(p->arena, is, &p->mesh), name,
                        type_text(p->arena, want, &p->mesh));
}

/* A gradient is placed as its parameter is; before STAGE_STORED it is Partial on
 * the axes of the parameter's unit, to be reduce-scattered by `storage`. */
static const char *check_gradient(const Program *p, const Op *op,
                                  const char *what, int number, const Type *t)
{
    int index = attr_param(op);
    const Param *param = &p->param.at[index];
    const Unit *unit =
        p->stage <= STAGE_PARTITIONED ? sharding_unit(p, index) : NULL;
    uint32_t partial = unit ? unit_axes(p, unit) : 0;
    for (int a = 0; a < p->mesh.n; a++) {
        AxisPlace is = t->place.ax[a], want = param->type.place.ax[a];
        if (partial >> a & 1)
            want = (AxisPlace){AX_P, 0, 0};
        if (axis_place_equal(is, want))
            continue;
        const char *words = axis_place_words(p->arena, want);
        return axis_fault(
            p, what, number, a, is,
            partial >> a & 1
                ? arena_printf(p->arena, "but the unit of its parameter %s "
                               "reduces a %s", param->name, words)
                : arena_printf(p->arena, "but its parameter %s is %s",
                               param->name, words));
    }
    return NULL;
}

/* A value that is replicated, or also split or on one coordinate if it `shards`;
 * no share of a sum. */
static const char *check_kinds(const Program *p, const Value *v,
                               const char *what, int number, bool shards,
                               const char *needs)
{
    for (int a = 0; a < p->mesh.n; a++) {
        AxisPlace is = v->type.place.ax[a];
        if (is.kind != AX_R &&
            !(shards && (is.kind == AX_S || is.kind == AX_AT)))
            return axis_fault(p, what, number, a, is, needs);
    }
    return NULL;
}

static const char *check_replicated(const Program *p, const Value *v,
                                    const char *what, int number)
{
    return check_kinds(p, v, what, number, false, "it must be Replicate");
}

/* Keys of layers are where the key is that they derive from. */
static const char *check_keys(const Program *p, const Op *op)
{
    const Type *key = &op->arg[0]->type;
    for (int a = 0; a < p->mesh.n; a++) {
        AxisPlace is = key->place.ax[a];
        if (is.kind != AX_R && is.kind != AX_AT && is.kind != AX_HERE)
            return axis_fault(p, "operand", 0, a, is, "it must be Replicate");
    }
    return place_equal(&op->out[0]->type.place, &key->place)
               ? NULL
               : type_fault(p, "the result", &op->out[0]->type, "its operand",
                            key);
}

/* The value of a parameter, its gradient or a state, as the parameter is. */
static const char *check_like(const Program *p, const char *what,
                              const Type *is, const Param *of)
{
    return type_equal(is, &of->type)
               ? NULL
               : type_fault(p, what, is, of->name, &of->type);
}

static const char *check_update(const Program *p, const Op *op)
{
    int index = attr_param(op);
    int state = update_first_state(op);
    const char *fault = check_like(p, "operand 0", &op->arg[0]->type,
                                   &p->param.at[index]);
    for (int i = 0; i < p->param.n && !fault; i++) {
        const Param *s = &p->param.at[i];
        if (s->state_of != index || state >= op->nargs ||
            s->init.kind == INIT_COPY)
            continue;
        fault = check_like(p, "a state", &op->arg[state]->type, s);
        state++;
    }
    if (!fault && state != op->nargs)
        fault = "it has operands that are not states of the parameter";
    for (int i = UPDATE_LR; i < update_first_state(op) && !fault; i++)
        fault = check_replicated(p, op->arg[i], "operand", i);
    if (fault)
        return fault;
    for (int i = 0; i < op->nouts; i++) {
        const Type *like = &update_old(op, i)->type;
        if (!type_equal(&op->out[i]->type, like))
            return type_fault(p, "a result", &op->out[i]->type, "its operand",
                              like);
    }
    return check_gradient(p, op, "operand", 1, &op->arg[1]->type);
}

/* i64[parts]: every rank has one element, or in zigzag order two, or one for each
 * element of the dim. */
static const char *check_base(const Program *p, const Op *op)
{
    const Type *t = &op->out[0]->type;
    int64_t size = attr_size(op);
    const char *fault = check_kinds(p, op->out[0], "result", 0, true,
                                    "it must be Shard(0)");
    int64_t held = type_local_dim(t, &p->mesh, 0);
    bool zigzag = type_pieces(t, &p->mesh, 0) > type_parts(t, &p->mesh, 0);
    if (!fault && held != 1 && !(zigzag && (held == 2 || t->dim[0] == size)))
        fault = "a rank holds more than one part";
    if (!fault && size % type_elements(t))
        fault = "its parts are not equal";
    return fault;
}

/* The parts must be contiguous in a rank's part of the tensor. */
static const char *check_fold(const Program *p, const Op *op)
{
    const Type *whole = &op->arg[0]->type, *parts = &op->out[0]->type;
    int dim = attr_dim(op);
    if (op->kind == OP_unfold) {
        whole = &op->out[0]->type;
        parts = &op->arg[0]->type;
    }
    if (!place_equal(&whole->place, &parts->place) ||
        type_is_flat(whole, &p->mesh))
        return "the parts are not placed as the whole is";
    for (int d = 0; d < dim; d++)
        if (type_local_dim(whole, &p->mesh, d) != 1)
            return arena_printf(p->arena, "a rank holds more than one index "
                                          "of dim %d", d);
    return NULL;
}

/* In a loop that is cut into stages, the rank of the iteration fetches what all ranks
 * have in host memory. */
static const char *check_fetch(const Program *p, const Type *from, const Type *to)
{
    Type want = *from;
    for (int a = 0; a < p->mesh.n; a++)
        if (want.place.ax[a].kind == AX_R && to->place.ax[a].kind == AX_HERE)
            want.place.ax[a] = to->place.ax[a];
    return type_equal(&want, to) ? NULL
                                 : type_fault(p, "the result", to, "its operand",
                                              from);
}

/* A step of a ring: ranks have as many of the queries as of the keys, and results are placed
 * as those. */
static const char *check_step(const Program *p, const Op *op)
{
    enum { SEQUENCE = 1 };
    AttentionOperands at = attention_operands(op);
    uint32_t ring = attention_ring(p, op);
    const Placement *q = &op->arg[at.q]->type.place, *k = &op->arg[at.q + 1]->type.place;
    bool grad = op->kind == OP_attention_grad_step;
    for (int a = 0; a < p->mesh.n; a++) {
        AxisPlace like[] = {q->ax[a], grad ? k->ax[a] : q->ax[a], k->ax[a]};
        if (!grad && like[1].kind == AX_S && like[1].dim)
            like[1].dim = (uint8_t)(3 - like[1].dim); /* heads before queries */
        if (ring >> a & 1 && !axis_place_equal(q->ax[a], k->ax[a]))
            return axis_fault(p, "operand", at.q, a, q->ax[a], "the keys are split otherwise");
        for (int i = 0; i < op->nouts; i++)
            if (op->out[i]->type.place.ax[a].kind != AX_P &&
                !axis_place_equal(op->out[i]->type.place.ax[a], like[i]))
                return axis_fault(p, "result", i, a, op->out[i]->type.place.ax[a],
                                  "its operands are placed otherwise");
    }
    for (int i = 0; at.state >= 0 && i < (grad ? 1 : 2); i++)
        if (!type_equal(&op->arg[at.state + i]->type, &op->out[i]->type))
            return arena_printf(p->arena, "operand %d is not what result %d continues",
                                at.state + i, i);
    return ring ? NULL : "its keys are not split";
}

static const char *check_structural(const Program *p, const Op *op)
{
    const Type *first = op->nargs ? &op->arg[0]->type : NULL;
    switch ((int)op->kind) {
    case OP_fetch:
        return check_fetch(p, first, &op->out[0]->type);
    case OP_store:
    case OP_finish_grad:
        if (!type_equal(first, &op->out[0]->type))
            return type_fault(p, "the result", &op->out[0]->type,
                              "its operand", first);
        return op->kind == OP_finish_grad
                   ? check_gradient(p, op, "operand", 0, first)
                   : NULL;
    case OP_update:
        return check_update(p, op);
    case OP_assign:
        return check_like(p, "operand 0", first, &p->param.at[attr_param(op)]);
    case OP_split_key:
        return check_keys(p, op);
    case OP_scalar:
        return check_replicated(p, op->out[0], "result", 0);
    case OP_output:
        return first->ndim > 0
                   ? check_kinds(p, op->arg[0], "operand", 0, true,
                                 "it must be Shard or Replicate")
                   : check_replicated(p, op->arg[0], "operand", 0);
    case OP_fold:
    case OP_unfold:
        return check_fold(p, op);
    case OP_base:
        return check_base(p, op);
    case OP_attention_step:
    case OP_attention_grad_step:
        return check_step(p, op);
    }
    return NULL;
}

/* Whether propagate chooses how the op is split. */
static bool is_chosen(const Op *op)
{
    const Op *def = op->kind == OP_sumsq ? op->arg[0]->def : NULL;
    return op_info(op->kind)->rule && op->kind != OP_boundary &&
           !(def && def->kind == OP_finish_grad);
}

/* Checks the results of ops whose placements do not depend on a choice. */
static const char *check_fixed(const Program *p, const Op *op)
{
    switch ((int)op->kind) {
    case OP_finish_grad:
        return check_gradient(p, op, "result", 0, &op->out[0]->type);
    case OP_update:
        return check_like(p, "result 0", &op->out[0]->type,
                          &p->param.at[attr_param(op)]);
    case OP_scalar:
    case OP_split_key:
        return check_replicated(p, op->out[0], "result", 0);
    }
    return NULL;
}

const char *verify_needs(const Program *p, const Op *op)
{
    bool chosen = p->stage == STAGE_PLACED && is_chosen(op);
    if (chosen && op->nargs && !op->needs)
        return "it does not say what it needs of its operands";
    if (!chosen && op->needs)
        return "it says what it needs of its operands, but propagate does not "
               "choose that";
    if (chosen)
        return check_rule(p, op, true);
    return p->stage == STAGE_PLACED ? check_fixed(p, op) : NULL;
}

/* The loop with a cut around the op; NULL: none. */
static const Op *cut_loop(const Op *op)
{
    const Op *loop = op_loop(op);
    while (loop && !loop->cut)
        loop = op_loop(loop);
    return loop;
}

/* In a loop that is cut into stages, one coordinate of the pipeline's axis runs
 * an iteration and has its results, or adds them to its share of a sum. Outside
 * of it there is no such coordinate. */
static const char *check_held(const Program *p, const Value *v, int number,
                              const Op *loop)
{
    for (int a = 0; a < p->mesh.n; a++) {
        AxisPlace is = v->type.place.ax[a];
        bool pipeline = p->plan.pipeline.axes >> a & 1;
        if (axis_place_is_held(is) && !pipeline)
            return axis_fault(p, "result", number, a, is,
                              "which is not the axis of a pipeline");
        if (is.kind == AX_AT && is.dim >= pipeline_stage_count(p))
            return axis_fault(p, "result", number, a, is,
                              "which the pipeline does not have");
        bool fits = loop ? is.kind == AX_HERE || is.kind == AX_P
                         : is.kind != AX_HERE;
        if (pipeline && !fits)
            return axis_fault(p, "result", number, a, is,
                              loop ? "in a loop that is cut into stages"
                                   : "outside of such a loop");
    }
    return NULL;
}

static const char *check_all_held(const Program *p, const Op *op)
{
    const char *fault = NULL;
    const Op *loop = cut_loop(op);
    for (int i = 0; i < op->nouts && !fault; i++)
        fault = check_held(p, op->out[i], i, loop);
    return fault;
}

const char *verify_placement(const Program *p, const Op *op)
{
    const char *fault = check_all_held(p, op);
    if (fault)
        return fault;
    for (int i = 1; i < op->nouts && op->kind == OP_fused && !cut_loop(op); i++)
        if (!type_same_holder(&op->out[0]->type, &op->out[i]->type))
            return arena_printf(p->arena, "result %d is on another stage", i);
    if (op_info(op->kind)->rule)
        return check_rule(p, op, false);
    if (op_is_conversion(op->kind))
        return check_conversion(p, op);
    return check_structural(p, op);
}
