/* storage_gather.c: gathers shards for the ops that need full parameters.
 *
 * before   %wi = … : f32[64, 64]~dp
 *          %y = einsum{…} %x, %wi : f32[8/dp, 64] forward
 * after    %wi = … : f32[64, 64]~dp
 *          %wi.3 = all_gather{axes={dp}, unit="layers.*", …} %wi : f32[64, 64]
 *          %y = einsum{…} %x, %wi.3 : f32[8/dp, 64] forward
 *
 * All parameters of a unit that one region and phase needs are gathered by one
 * collective, before the first reader. The unit's `reshard` decides whether the
 * backward pass re-gathers:
 *   true   it does.
 *   false  the forward pass gathers once a step, and the backward pass reads
 *          the result: a forward loop yields the gathered layers as a stack,
 *          which the backward loop slices. The parameter is marked `kept`:
 *          it is stored in that stack, each rank's run in its place, so that
 *          a gather fills in the other runs and no second copy exists.
 *   unset  a unit stays gathered if no other gather and no loop runs between
 *          its forward use and its backward use. That holds for the last
 *          unit, as for the root in PyTorch's fully_shard.
 */
#include "passes/storage.h"

#include <string.h>

static bool takes_shards(const Op *op)
{
    return op->kind == OP_update || op->kind == OP_assign;
}

static bool is_slice(const Op *op, int i)
{
    return op->kind == OP_loop && i >= op->ncarry &&
           i < op->ncarry + op->nstack;
}

/* A shard that is passed to its readers. */
typedef struct Shard {
    Storage *s;
    const Unit *u;
    uint32_t axes;    /* of the unit */
    const char *name; /* of the unit */
    bool frozen;
    bool kept;        /* gathered once a step for all readers */
    bool in_one;      /* some reader needs a stack's layers contiguous, without
                       * padding */
} Shard;

/* What a shard has been gathered to so far: for all phases if it stays
 * gathered, else for each phase; if it stays gathered, also its cast copy. */
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
    if (!h->kept) {
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

/* Makes v flat and follows it, through casts and into loops that slice it.
 * Every other reader needs the full tensor: it is gathered once for each phase
 * or, if it stays gathered, at its first reader, or the first loop whose body
 * reads it. `w`: what v has been gathered to outside; returns the same after
 * the last reader. */
static Whole spread(Shard *h, Value *v, Whole w)
{
    make_flat(h, v);
    for (Op *op = v->region->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v || takes_shards(op))
                continue;
            if (is_slice(op, i)) {
                w = spread_slice(h, op, op->body->arg[i], w);
            } else if (op->kind == OP_cast) {
                Whole c = {.plain = {w.cast}};
                w.cast = spread(h, cast_shard(op, v), c).plain[0];
            } else {
                Value **at = &w.plain[h->kept ? 0 : op->phase];
                *at = *at ? *at : need_whole(h, v, op);
                h->in_one |= v->type.nstack > 0 && op->kind != OP_loop;
                op->arg[i] = *at;
            }
        }
    }
    return w;
}

/* Whether the runs of a layer are longer than the layer. */
static bool is_padded(const Program *p, const Type *flat, uint32_t axes)
{
    Type whole = storage_type(*flat, axes, AX_R);
    return type_flat_run(flat, &p->mesh) * mesh_group(&p->mesh, axes) !=
           type_flat_run(&whole, &p->mesh);
}

void storage_spread(Storage *s, int param, const Unit *u)
{
    Param *pm = &s->p->param.at[param];
    Shard h = {.s = s, .u = u, .axes = unit_axes(s->p, u), .name = pm->unit, .frozen = !pm->trainable,
               .kept = u->reshard == 0};
    Whole w = spread(&h, pm->value, (Whole){0});
    if (h.kept && w.plain[0])
        pm->kept = !h.in_one || !is_padded(s->p, &pm->type, h.axes);
}

/* ---- units that stay gathered without reshard=false ---------------------- */

static bool same_unit(const Move *a, const Move *b)
{
    return a->region == b->region && !strcmp(a->group, b->group);
}

static bool reads(const Op *op, const Value *v)
{
    for (int i = 0; i < op->nargs; i++)
        if (op->arg[i] == v)
            return true;
    return false;
}

/* Whether the op is the first reader of another unit's gather. */
static bool gathers_another(const Storage *s, const Op *op, const Move *b)
{
    for (int i = 0; i < s->gather.n; i++)
        if (s->gather.at[i].first == op && !same_unit(&s->gather.at[i], b))
            return true;
    return false;
}

/* The unit's last reader of one phase in the region. */
static Op *last_reader(const Storage *s, const Move *b, Phase phase)
{
    Op *last = NULL;
    for (int i = 0; i < s->gather.n; i++) {
        const Move *m = &s->gather.at[i];
        if (!same_unit(m, b) || m->phase != phase)
            continue;
        for (Op *op = m->first; op; op = op->next)
            if (reads(op, m->to) && (!last || storage_before(last, op)))
                last = op;
    }
    return last;
}

static Op *first_reader(const Storage *s, const Move *b, Phase phase)
{
    Op *first = NULL;
    for (int i = 0; i < s->gather.n; i++) {
        const Move *m = &s->gather.at[i];
        if (same_unit(m, b) && m->phase == phase &&
            (!first || storage_before(m->first, first)))
            first = m->first;
    }
    return first;
}

static bool follows_at_once(const Storage *s, const Move *b)
{
    Op *from = last_reader(s, b, PH_FORWARD);
    const Op *to = first_reader(s, b, PH_BACKWARD);
    for (Op *op = from ? from->next : NULL; op && op != to; op = op->next)
        if (op->kind == OP_loop || gathers_another(s, op, b))
            return false;
    return from && to;
}

/* All gathers of one unit and region have one answer, which is kept at the
 * first of them. */
static bool unit_follows(const Storage *s, int gather, signed char *known)
{
    const Move *b = &s->gather.at[gather];
    int i = 0;
    while (!same_unit(&s->gather.at[i], b))
        i++;
    if (!known[i])
        known[i] = follows_at_once(s, b) ? 1 : -1;
    return known[i] > 0;
}

/* Lets the backward pass read what the forward pass has just gathered. */
static void keep_last(Storage *s)
{
    signed char *known = NEW_ARRAY(s->p->arena, signed char, s->gather.n + 1);
    for (int i = 0; i < s->gather.n; i++) {
        Move *b = &s->gather.at[i];
        if (b->phase != PH_BACKWARD || b->unit->reshard > 0)
            continue;
        Move *f = NULL;
        for (int k = 0; k < s->gather.n; k++)
            if (s->gather.at[k].from == b->from &&
                s->gather.at[k].phase == PH_FORWARD)
                f = &s->gather.at[k];
        if (!f || !unit_follows(s, i, known))
            continue;
        b->done = true;
    }
    for (int i = 0; i < s->gather.n; i++) {
        Move *b = &s->gather.at[i];
        for (int k = 0; b->done && k < s->gather.n; k++) {
            const Move *f = &s->gather.at[k];
            if (f->from == b->from && f->phase == PH_FORWARD)
                ir_replace_uses(b->region, b->to, f->to);
        }
    }
}

/* ---- grouped gathers ----------------------------------------------------- */

static int prefetch_of(const Storage *s, const Unit *u)
{
    return u->prefetch >= 0 ? u->prefetch : s->t->default_prefetch;
}

static void emit_gather(Storage *s, Move *const *move, int n)
{
    const Move *lead = move[0];
    Op *before = lead->first;
    for (int i = 1; i < n; i++)
        if (storage_before(move[i]->first, before))
            before = move[i]->first;
    bool turns = lead->region->owner != NULL;
    Attr attr[MAX_ATTRS] = {{.i = lead->axes}, {.s = lead->group},
                            {.i = turns ? prefetch_of(s, lead->unit) : 0}};
    Op *op = storage_emit(s, move, n, before, attr,
                          arena_printf(s->p->arena, "parameters of unit %s%s",
                                       lead->group,
                                       lead->unit->reshard == 0
                                           ? ", once per step" : ""));
    op->loc = before->loc;
}

static bool makes_operand(const Op *op, const Op *of)
{
    for (int i = 0; i < of->nargs; i++)
        if (of->arg[i]->def == op)
            return true;
    return false;
}

/* The gather after which a prefetched gather outside of loops is placed: that
 * of the unit `ahead` units earlier. A gather is not moved across a loop, which
 * gathers units of its own, nor into another phase. NULL: it is not moved. */
static Op *runs_behind(const Op *gather, int ahead)
{
    Op *behind = NULL;
    for (Op *op = gather->prev; op && ahead > 0; op = op->prev) {
        if (op->kind == OP_loop || op->phase != gather->phase ||
            makes_operand(op, gather))
            break;
        if (op->kind != OP_all_gather || !op_attr(op, "unit").s ||
            !op_attr(op, "unit").s[0])
            continue;
        behind = op;
        ahead--;
    }
    return behind;
}

static int ahead_of(const Storage *s, const Op *gather)
{
    for (int i = 0; i < s->gather.n; i++)
        if (s->gather.at[i].to->def == gather)
            return prefetch_of(s, s->gather.at[i].unit);
    return 0;
}

/* Finds all new positions before moving any gather; moves the last first, so
 * that gathers with the same position keep their order. */
static void run_all_ahead(Storage *s)
{
    VEC(Op *) gather = {0};
    VEC(Op *) behind = {0};
    for (Op *op = s->p->step->first; op; op = op->next) {
        int ahead = op->kind == OP_all_gather ? ahead_of(s, op) : 0;
        Op *after = ahead > 0 ? runs_behind(op, ahead) : NULL;
        if (!after)
            continue;
        vec_push(s->p->arena, &gather, op);
        vec_push(s->p->arena, &behind, after);
    }
    for (int i = gather.n - 1; i >= 0; i--)
        ir_move(gather.at[i], s->p->step, behind.at[i]->next);
}

/* Adds one collective for a unit in a region and phase; trained parameters come
 * first in it, frozen ones last. */
void storage_emit_gathers(Storage *s)
{
    int all = s->gather.n;
    Move **member = NEW_ARRAY(s->p->arena, Move *, all + 1);
    keep_last(s);
    for (int i = 0; i < all; i++) {
        Move *lead = &s->gather.at[i];
        int n = 0;
        for (int k = 0; k < 2 * all && !lead->done; k++) {
            Move *m = &s->gather.at[k % all];
            if (!m->done && m->phase == lead->phase && same_unit(m, lead) &&
                m->frozen == (k >= all))
                member[n++] = m;
        }
        if (n)
            emit_gather(s, member, n);
    }
    run_all_ahead(s);
}
