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
 *   false  the forward pass gathers once a step, and the backward pass reads
 *          the result: a forward loop yields the gathered layers as a stack,
 *          which the backward loop slices. The parameter is marked `gathered`:
 *          it is stored in that stack, each rank's run in its place, so that
 *          a gather fills in the other runs and no second copy exists.
 *   unset  a unit stays gathered if no other gather and no loop runs between
 *          its forward use and its backward use. That holds for the last
 *          unit, as for the root in PyTorch's fully_shard.
 */
#include "passes/fsdp/storage.h"

#include <stdlib.h>
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
    bool once;        /* gathered once a step for all readers */
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

/* Moves a cast up to its operand, so that all casts of a unit precede its
 * gather. */
static Value *cast_shard(Op *cast, const Value *v)
{
    ir_move(cast, v->region, v->def ? v->def->next : v->region->first);
    return cast->out[0];
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

/* Makes v flat and follows it, through casts and into loops that slice it.
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
                w.cast = spread(h, cast_shard(op, v), c).plain[0];
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

void storage_shard_param(Storage *s, int param, const Unit *u)
{
    Param *pm = &s->p->param.at[param];
    Shard h = {.s = s,
               .u = u,
               .axes = unit_axes(s->p, u),
               .name = pm->unit,
               .frozen = !pm->trainable,
               .once = u->reshard == 0};
    Whole w = spread(&h, pm->value, (Whole){0});
    if (h.once && w.plain[0])
        pm->gathered = !h.in_one || !storage_is_padded(s->p, &pm->type, h.axes);
}

/* ---- units --------------------------------------------------------------- */

enum { NO_UNIT = -1, SEVERAL = -2 };

typedef struct Member {
    uint32_t region; /* 0: the step; else the id of the loop, plus 1 */
    const char *group;
    int gather;
} Member;

/* The gathers of one unit in one region. */
typedef struct UnitGathers {
    const int *gather; /* in the order of s->gather */
    int n;
} UnitGathers;

/* All gathers by unit and region, and their readers. */
typedef struct Units {
    Storage *s;
    Uses uses;
    int *place;   /* by op id: its place in the program */
    UnitGathers *unit;
    int *of;      /* by gather: its unit */
    int *started; /* by op id: the unit whose gathers the op is the first
                   * reader of, NO_UNIT, or SEVERAL */
} Units;

static int compare_members(const void *left, const void *right)
{
    const Member *a = left, *b = right;
    if (a->region != b->region)
        return a->region < b->region ? -1 : 1;
    int order = strcmp(a->group, b->group);
    return order ? order : a->gather - b->gather;
}

static bool same_unit(const Member *a, const Member *b)
{
    return a->region == b->region && !strcmp(a->group, b->group);
}

static void find_members(Units *u)
{
    Storage *s = u->s;
    Arena *a = s->p->arena;
    int n = s->gather.n, nunits = 0;
    Member *member = NEW_ARRAY(a, Member, n + 1);
    int *sorted = NEW_ARRAY(a, int, n + 1);
    u->unit = NEW_ARRAY(a, UnitGathers, n + 1);
    u->of = NEW_ARRAY(a, int, n + 1);
    for (int i = 0; i < n; i++) {
        const Move *m = &s->gather.at[i];
        const Op *loop = m->region->owner;
        member[i] = (Member){loop ? loop->id + 1 : 0, m->group, i};
    }
    qsort(member, (size_t)n, sizeof *member, compare_members);
    for (int i = 0; i < n; i++) {
        if (i == 0 || !same_unit(&member[i - 1], &member[i]))
            u->unit[nunits++] = (UnitGathers){&sorted[i], 0};
        sorted[i] = member[i].gather;
        u->unit[nunits - 1].n++;
        u->of[sorted[i]] = nunits - 1;
    }
}

static Units find_units(Storage *s)
{
    Arena *a = s->p->arena;
    uint32_t nops = s->p->nops;
    int n = 0;
    Units u = {.s = s, .uses = uses_find(s->p),
               .place = NEW_ARRAY(a, int, nops),
               .started = NEW_ARRAY(a, int, nops)};
    for_ops(op, s->p->step)
        u.place[op->id] = n++;
    find_members(&u);
    for (uint32_t id = 0; id < nops; id++)
        u.started[id] = NO_UNIT;
    for (int i = 0; i < s->gather.n; i++) {
        int *at = &u.started[s->gather.at[i].first->id];
        *at = *at == NO_UNIT || *at == u.of[i] ? u.of[i] : SEVERAL;
    }
    return u;
}

/* ---- units that stay gathered without reshard=false ---------------------- */

/* The unit's last reader of one phase in the region. */
static Op *unit_last_reader(const Units *u, int unit, Phase phase)
{
    Op *last = NULL;
    for (int k = 0; k < u->unit[unit].n; k++) {
        const Move *m = &u->s->gather.at[u->unit[unit].gather[k]];
        int n;
        Op *const *reader = uses_readers(&u->uses, m->to, &n);
        if (m->phase == phase && n > 0 &&
            (!last || u->place[last->id] < u->place[reader[n - 1]->id]))
            last = reader[n - 1];
    }
    return last;
}

static Op *unit_first_reader(const Units *u, int unit, Phase phase)
{
    Op *first = NULL;
    for (int k = 0; k < u->unit[unit].n; k++) {
        const Move *m = &u->s->gather.at[u->unit[unit].gather[k]];
        if (m->phase == phase &&
            (!first || u->place[m->first->id] < u->place[first->id]))
            first = m->first;
    }
    return first;
}

static bool follows_at_once(const Units *u, int unit)
{
    Op *from = unit_last_reader(u, unit, PH_FORWARD);
    const Op *to = unit_first_reader(u, unit, PH_BACKWARD);
    for (Op *op = from ? from->next : NULL; op && op != to; op = op->next) {
        int started = u->started[op->id];
        if (op->kind == OP_loop || (started != NO_UNIT && started != unit))
            return false;
    }
    return from && to;
}

/* Lets the backward pass read what the forward pass has just gathered. */
static void keep_last(const Units *u)
{
    Storage *s = u->s;
    signed char *known = NEW_ARRAY(s->p->arena, signed char, s->gather.n + 1);
    Value **forward = NEW_ARRAY(s->p->arena, Value *, s->p->nvalues);
    for (int i = 0; i < s->gather.n; i++)
        if (s->gather.at[i].phase == PH_FORWARD)
            forward[s->gather.at[i].from->id] = s->gather.at[i].to;
    for (int i = 0; i < s->gather.n; i++) {
        Move *b = &s->gather.at[i];
        Value *gathered = forward[b->from->id];
        if (b->phase != PH_BACKWARD || b->unit->reshard > 0 || !gathered)
            continue;
        if (!known[u->of[i]])
            known[u->of[i]] = follows_at_once(u, u->of[i]) ? 1 : -1;
        if (known[u->of[i]] < 0)
            continue;
        b->done = true;
        uses_replace(&u->uses, b->to, gathered);
    }
}

/* ---- grouped gathers ----------------------------------------------------- */

static int prefetch_of(const Storage *s, const Unit *u)
{
    return u->prefetch >= 0 ? u->prefetch : s->t->default_prefetch;
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
                            {.i = in_loop ? prefetch_of(s, leader->unit) : 0}};
    Op *op = storage_emit(
        s, move, n, before, attr,
        arena_printf(s->p->arena, "parameters of unit %s%s", leader->group,
                     leader->unit->reshard == 0 ? ", once per step" : ""));
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

/* By op id: the prefetch distance of a gather. */
static int *find_distances(const Storage *s)
{
    int *ahead = NEW_ARRAY(s->p->arena, int, s->p->nops);
    for (int i = s->gather.n; i-- > 0;) {
        const Move *m = &s->gather.at[i];
        if (m->to->def)
            ahead[m->to->def->id] = prefetch_of(s, m->unit);
    }
    return ahead;
}

/* Finds all new positions before moving any gather; moves the last first, so
 * that gathers with the same position keep their order. */
static void run_all_ahead(Storage *s)
{
    VEC(Op *) gather = {0};
    VEC(Op *) earlier = {0};
    const int *ahead = find_distances(s);
    for (Op *op = s->p->step->first; op; op = op->next) {
        Op *after = ahead[op->id] > 0 ? runs_after(op, ahead[op->id]) : NULL;
        if (!after)
            continue;
        vec_push(s->p->arena, &gather, op);
        vec_push(s->p->arena, &earlier, after);
    }
    for (int i = gather.n - 1; i >= 0; i--)
        ir_move(gather.at[i], s->p->step, earlier.at[i]->next);
}

/* The unit's gathers of the phase that are not emitted yet: those of trained
 * parameters, then those of frozen ones. Returns their number. */
static int collect_moves(const Units *u, int unit, Phase phase, Move **move)
{
    int n = 0;
    for (int frozen = 0; frozen < 2; frozen++)
        for (int k = 0; k < u->unit[unit].n; k++) {
            Move *m = &u->s->gather.at[u->unit[unit].gather[k]];
            if (!m->done && m->phase == phase && m->frozen == frozen)
                move[n++] = m;
        }
    return n;
}

/* Adds one collective for a unit in a region and phase. */
void storage_emit_gathers(Storage *s)
{
    Move **move = NEW_ARRAY(s->p->arena, Move *, s->gather.n + 1);
    Units u = find_units(s);
    keep_last(&u);
    for (int i = 0; i < s->gather.n; i++) {
        const Move *m = &s->gather.at[i];
        if (!m->done)
            emit_gather(&u, move, collect_moves(&u, u.of[i], m->phase, move));
    }
    run_all_ahead(s);
}
