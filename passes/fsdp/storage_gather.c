/* storage_gather.c: gathers shards for the ops that need full parameters.
 *
 * before   %wi = … : f32[64, 64]~dp
 *          %y = einsum{…} %x, %wi : f32[8/dp, 64] forward
 * after    %wi = … : f32[64, 64]~dp
 *          %wi.3 = all_gather{axes={dp}, unit="layers.*", …} %wi : f32[64, 64]
 *          %y = einsum{…} %x, %wi.3 : f32[8/dp, 64] forward
 *
 * All parameters of a unit that one region and phase needs are gathered by one
 * collective, before the first reader. Outside of loops it is moved after the
 * gather of the unit `prefetch` units earlier, but not across a loop; inside a
 * loop it has the attribute `prefetch`, by which issue.c issues it early. The
 * unit's `reshard` decides whether the backward pass re-gathers:
 *   true   it does.
 *   false  the forward pass gathers once a microbatch, and the backward pass reads
 *          the result: a forward loop yields the gathered layers as a stack,
 *          which the backward loop slices. The parameter is marked `gathered`:
 *          it is stored in that stack, each rank's run in its place, so that
 *          a gather fills in the other runs and no second copy exists.
 *          With gather=step and microbatches all layers are gathered before the
 *          loops, which the pass accumulate leaves outside of its loop.
 *   unset  a unit stays gathered if no other gather and no loop runs between
 *          its forward use and its backward use. That holds for the last
 *          unit, as for the root in PyTorch's fully_shard.
 */
#include "ir/units.h"
#include "passes/fsdp/storage.h"

#include <string.h>

static bool takes_shards(const Op *op)
{
    return op->kind == OP_update || op->kind == OP_assign;
}

/* A shard that is passed to its readers. */
typedef struct Shard {
    Storage *s;
    const Unit *u;
    uint32_t axes;    /* the unit's mesh axes */
    const char *name; /* the unit's name */
    bool frozen;
    bool once;        /* one gather for both passes */
    bool in_one;      /* some reader needs a stack's layers contiguous, without
                       * padding */
} Shard;

/* The gathered values of a shard so far: one for all phases if it stays
 * gathered, else one for each phase; if it stays gathered, also its cast
 * copy. */
typedef struct Whole {
    Value *plain[PH_OPTIMIZER + 1], *cast;
} Whole;

static Value *need_whole(const Shard *h, Value *v, Op *user)
{
    Program *p = h->s->p;
    Move m = {.kind = OP_all_gather, .axes = h->axes,
              .region = user->region, .phase = user->phase, .from = v,
              .group = h->name, .unit = h->u, .first = user,
              .frozen = h->frozen, .loc = h->u->loc};
    m.to = ir_new_value(p, v->name,
                        storage_type(v->type, h->axes, AX_R), v->loc);
    m.to->region = user->region;
    memcpy(m.to->why, v->why, sizeof v->why);
    for (int a = 0; a < p->mesh.n; a++)
        if (h->axes >> a & 1)
            m.to->why[a] = why_is("gathered for use", h->u->loc);
    vec_push(p->arena, &h->s->gather, m);
    return m.to;
}

static void make_flat(const Shard *h, Value *v)
{
    v->type = storage_type(v->type, h->axes, AX_FLAT);
    for (int a = 0; a < MAX_AXES; a++)
        if (h->axes >> a & 1)
            v->why[a] = why_is("stored as a shard", h->u->loc);
}

/* Moves an op up to its operand v, so that all casts and moves of a unit precede
 * its gather. */
static Value *after_definition(Op *op, const Value *v)
{
    ir_move(op, v->region, v->def ? v->def->next : v->region->first);
    return op->out[0];
}

static Value *into_loop(Program *p, Op *loop, Value *whole)
{
    return whole ? ir_loop_add_stack(p, loop, whole) : NULL;
}

static Value *out_of_loop(Program *p, Op *loop, Value *seen, Value *inside)
{
    return !seen && inside ? ir_loop_add_yield(p, loop, inside) : seen;
}

static Whole spread(Shard *h, Value *v, Whole w);

/* Follows v into a loop that slices it. If it stays gathered, the gathered
 * value is passed in and out as a stack. */
static Whole spread_slice(Shard *h, Op *loop, Value *slice, Whole w)
{
    Program *p = h->s->p;
    if (!h->once) {
        spread(h, slice, (Whole){0});
        return w;
    }
    Whole in = {.plain = {into_loop(p, loop, w.plain[0])}};
    in.cast = into_loop(p, loop, w.cast);
    in = spread(h, slice, in);
    w.plain[0] = out_of_loop(p, loop, w.plain[0], in.plain[0]);
    w.cast = out_of_loop(p, loop, w.cast, in.cast);
    return w;
}

/* Whether op is a cast to a smaller type, which is gathered instead. A cast to a
 * larger one reads the gathered tensor. */
static bool narrows(const Op *op)
{
    return op->kind == OP_cast && dtype_size(op->out[0]->type.dtype) <
                                      dtype_size(op->arg[0]->type.dtype);
}

/* Makes v flat and follows it, through casts, to other stages and into loops that
 * slice it.
 * Every other reader needs the full tensor: it is gathered once for each phase
 * or, if it stays gathered, at its first reader, or the first loop whose body
 * reads it. `w`: what v has been gathered to outside; returns the same after
 * the last reader. */
static Whole spread(Shard *h, Value *v, Whole w)
{
    make_flat(h, v);
    int n;
    Op *const *reader = uses_readers(&h->s->uses, v, &n);
    for (int k = 0; k < n; k++) {
        Op *op = reader[k];
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v || takes_shards(op))
                continue;
            if (op->kind == OP_loop && loop_is_stack(op, i)) {
                w = spread_slice(h, op, op->body->arg[i], w);
            } else if (narrows(op)) {
                Whole c = {.plain = {w.cast}};
                w.cast = spread(h, after_definition(op, v), c).plain[0];
            } else if (op->kind == OP_move) { /* another stage gathers it */
                spread(h, after_definition(op, v), (Whole){0});
            } else {
                Value **at = &w.plain[h->once ? 0 : op->phase];
                *at = *at ? *at : need_whole(h, v, op);
                h->in_one |= v->type.nstack > 0 && op->kind != OP_loop;
                op->arg[i] = *at;
            }
        }
    }
    return w;
}

/* How the bodies of loops need the slices of a parameter whole. */
typedef struct Needs {
    bool plain; /* in its type */
    DType cast; /* … and in this one, … */
    Op *by;     /* … for this cast; NULL: not */
} Needs;

static void find_needs(const Shard *h, const Value *slice, Needs *needs)
{
    int n;
    Op *const *reader = uses_readers(&h->s->uses, slice, &n);
    for (int k = 0; k < n; k++) {
        Op *op = reader[k];
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != slice)
                continue;
            if (op->kind == OP_loop && loop_is_stack(op, i)) {
                find_needs(h, op->body->arg[i], needs);
            } else if (narrows(op)) {
                needs->cast = op->out[0]->type.dtype;
                needs->by = op;
            } else {
                needs->plain = true;
            }
        }
    }
}

/* Gathers all layers of a parameter that loops slice before the first of its
 * readers, once for all microbatches. */
static Whole gather_layers(Shard *h, Value *v)
{
    Whole w = {0};
    Needs needs = {0};
    Op *first = NULL;
    int n;
    Op *const *reader = uses_readers(&h->s->uses, v, &n);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < reader[k]->nargs; i++) {
            Op *op = reader[k];
            if (op->arg[i] != v || takes_shards(op) || narrows(op))
                continue;
            first = first ? first : op;
            if (op->kind == OP_loop && loop_is_stack(op, i))
                find_needs(h, op->body->arg[i], &needs);
        }
    make_flat(h, v);
    if (needs.plain)
        w.plain[0] = need_whole(h, v, first);
    if (needs.by) {
        Build b = ir_build_at(h->s->p, v->def, v->def->next);
        b.loc = needs.by->loc;
        w.cast = need_whole(h, ir_cast(&b, v, needs.cast), first);
    }
    return w;
}

void storage_shard_param(Storage *s, int param, const Unit *u)
{
    Param *pm = &s->p->param.at[param];
    Shard h = {.s = s,
               .u = u,
               .axes = unit_axes(s->p, u),
               .name = pm->unit,
               .frozen = !pm->trainable,
               .once = u->reshard == 0};
    bool first = u->gather == PER_STEP && s->p->mesh.nloop > 0;
    Whole w = spread(&h, pm->value,
                     first ? gather_layers(&h, pm->value) : (Whole){0});
    if (h.once && w.plain[0])
        pm->gathered = !h.in_one || !storage_is_padded(s->p, &pm->type, h.axes);
}

/* ---- units --------------------------------------------------------------- */

/* The gathers of one unit in one region, in the order of Storage.gather. */
typedef struct UnitGathers {
    VEC(Move *) move;
    enum { UNDECIDED, STAYS, REGATHERS } backward;
} UnitGathers;

/* All gathers by unit and region, and their readers. */
typedef struct Units {
    Storage *s;
    Uses uses;
    int *place;           /* by op id: its place in the program */
    UnitGathers **of;     /* by gather */
    UnitGathers **starts; /* by op id: the unit whose gathers the op is the first
                           * reader of; NULL: none */
    UnitGathers several;  /* in `starts`: there are several */
} Units;

static void find_members(Units *u)
{
    Storage *s = u->s;
    Arena *a = s->p->arena;
    TextMap units = {.arena = a};
    u->of = NEW_ARRAY(a, UnitGathers *, s->gather.n + 1);
    for (int i = 0; i < s->gather.n; i++) {
        Move *m = &s->gather.at[i];
        const Op *loop = m->region->owner;
        const char *name =
            arena_printf(a, "%u %s", loop ? loop->id + 1 : 0, m->group);
        TextEntry *e = text_map_find(&units, name);
        if (!e) {
            e = text_map_add(&units, name);
            e->value = NEW(a, UnitGathers);
        }
        u->of[i] = e->value;
        vec_push(a, &u->of[i]->move, m);
    }
}

static void find_units(Units *u)
{
    Storage *s = u->s;
    int n = 0;
    u->uses = uses_find(s->p);
    u->place = NEW_ARRAY(s->p->arena, int, s->p->nops);
    u->starts = NEW_ARRAY(s->p->arena, UnitGathers *, s->p->nops);
    for_ops(op, s->p->step)
        u->place[op->id] = n++;
    find_members(u);
    for (int i = 0; i < s->gather.n; i++) {
        UnitGathers **at = &u->starts[s->gather.at[i].first->id];
        *at = !*at || *at == u->of[i] ? u->of[i] : &u->several;
    }
}

/* ---- units that stay gathered without reshard=false ---------------------- */

/* The unit's last reader of one phase in the region. */
static Op *unit_last_reader(const Units *u, const UnitGathers *unit,
                            Phase phase)
{
    Op *last = NULL;
    for (int k = 0; k < unit->move.n; k++) {
        const Move *m = unit->move.at[k];
        int n;
        Op *const *reader = uses_readers(&u->uses, m->to, &n);
        if (m->phase == phase && n > 0 &&
            (!last || u->place[last->id] < u->place[reader[n - 1]->id]))
            last = reader[n - 1];
    }
    return last;
}

static Op *unit_first_reader(const Units *u, const UnitGathers *unit,
                             Phase phase)
{
    Op *first = NULL;
    for (int k = 0; k < unit->move.n; k++) {
        const Move *m = unit->move.at[k];
        if (m->phase == phase &&
            (!first || u->place[m->first->id] < u->place[first->id]))
            first = m->first;
    }
    return first;
}

static bool follows_at_once(const Units *u, const UnitGathers *unit)
{
    Op *from = unit_last_reader(u, unit, PH_FORWARD);
    const Op *to = unit_first_reader(u, unit, PH_BACKWARD);
    for (Op *op = from ? from->next : NULL; op && op != to; op = op->next) {
        const UnitGathers *started = u->starts[op->id];
        if (op->kind == OP_loop || (started && started != unit))
            return false;
    }
    return from && to;
}

/* Lets the backward pass read what the forward pass has just gathered. */
static void keep_last(const Units *u)
{
    Storage *s = u->s;
    Value **forward = NEW_ARRAY(s->p->arena, Value *, s->p->nvalues);
    for (int i = 0; i < s->gather.n; i++)
        if (s->gather.at[i].phase == PH_FORWARD)
            forward[s->gather.at[i].from->id] = s->gather.at[i].to;
    for (int i = 0; i < s->gather.n; i++) {
        Move *b = &s->gather.at[i];
        Value *gathered = forward[b->from->id];
        if (b->phase != PH_BACKWARD || b->unit->reshard > 0 || !gathered)
            continue;
        UnitGathers *unit = u->of[i];
        if (unit->backward == UNDECIDED)
            unit->backward = follows_at_once(u, unit) ? STAYS : REGATHERS;
        if (unit->backward == REGATHERS)
            continue;
        b->done = true;
        uses_replace(&u->uses, b->to, gathered);
    }
}

/* ---- grouped gathers ----------------------------------------------------- */

static int prefetch_of(const Storage *s, const char *unit)
{
    return unit_prefetch_of(s->p, unit, s->t->default_prefetch);
}

static void emit_gather(const Units *u, Move *const *move, int n)
{
    Storage *s = u->s;
    const Move *leader = move[0];
    Op *before = leader->first;
    for (int i = 1; i < n; i++)
        if (u->place[move[i]->first->id] < u->place[before->id])
            before = move[i]->first;
    bool in_loop = leader->region->owner != NULL;
    Attr attr[MAX_ATTRS] = {{.i = leader->axes},
                            {.s = leader->group},
                            {.i = in_loop ? prefetch_of(s, leader->group) : 0}};
    Op *op = storage_emit(
        s, move, n, before, attr,
        arena_printf(s->p->arena, "parameters of unit %s%s", leader->group,
                     leader->unit->reshard != 0   ? ""
                     : s->p->mesh.nloop == 0 ||
                             leader->unit->gather == PER_STEP
                         ? ", once per step"
                         : ", once per microbatch"));
    op->loc = before->loc;
}

/* The gather after which a prefetched gather outside of loops is placed: that
 * of the unit `ahead` units earlier. A gather is not moved across a loop, which
 * gathers units of its own, nor into another phase. NULL: it is not moved. */
static Op *runs_after(const Op *gather, int ahead)
{
    Op *earlier = NULL;
    for (Op *op = gather->prev; op && ahead > 0; op = op->prev) {
        if (op->kind == OP_loop || op->phase != gather->phase ||
            op_reads(gather, op))
            break;
        if (!op_is_unit_gather(op))
            continue;
        earlier = op;
        ahead--;
    }
    return earlier;
}

/* Finds all new positions before moving any gather; moves the last first, so
 * that gathers with the same position keep their order. */
static void run_all_ahead(Storage *s)
{
    VEC(Op *) gather = {0};
    VEC(Op *) earlier = {0};
    for (Op *op = s->p->step->first; op; op = op->next) {
        Op *after = op_is_unit_gather(op)
                        ? runs_after(op, prefetch_of(s, attr_unit(op)))
                        : NULL;
        if (!after)
            continue;
        vec_push(s->p->arena, &gather, op);
        vec_push(s->p->arena, &earlier, after);
    }
    for (int i = gather.n - 1; i >= 0; i--)
        ir_move(gather.at[i], s->p->step, earlier.at[i]->next);
}

/* The unit's gathers that are not emitted yet, of the leader's phase and stage:
 * those of trained parameters, then those of frozen ones. Returns their number.
 */
static int collect_moves(const UnitGathers *unit, const Move *leader,
                         Move **move)
{
    int n = 0;
    for (int frozen = 0; frozen < 2; frozen++)
        for (int k = 0; k < unit->move.n; k++) {
            Move *m = unit->move.at[k];
            if (!m->done && m->phase == leader->phase &&
                m->frozen == frozen &&
                type_same_holder(&m->from->type, &leader->from->type))
                move[n++] = m;
        }
    return n;
}

/* Adds one collective for a unit in a region and phase. */
void storage_emit_gathers(Storage *s)
{
    Move **move = NEW_ARRAY(s->p->arena, Move *, s->gather.n + 1);
    Units u = {.s = s};
    find_units(&u);
    keep_last(&u);
    for (int i = 0; i < s->gather.n; i++) {
        const Move *m = &s->gather.at[i];
        if (!m->done)
            emit_gather(&u, move, collect_moves(u.of[i], m, move));
    }
    run_all_ahead(s);
}
