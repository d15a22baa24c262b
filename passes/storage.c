/* storage.c: parameters as shards, gathered for use.
 *
 * requires: STAGE_PARTITIONED (parameters at compute placement, gradients
 *           of sharded parameters still Partial over their unit's axis)
 * ensures:  STAGE_STORED: parameters of FSDP units and their optimizer states
 *           are flat over the unit's axis; a grouped all_gather stands before
 *           the first use in each region and phase, a grouped reduce_scatter
 *           behind the gradients; updates work on shards
 *
 * before   %w = param{param="layers.*.weight"} : f32[4 x 64, 64] forward
 *          %out, %saved = loop{n=4, reverse=false} : … {
 *            stack %wi = %w : f32[64, 64]
 *            %y = einsum{…} %x, %wi : f32[8/dp, 64] forward
 *          %dh, %dw = loop{n=4, reverse=true} : …, f32[4 x 64, 64]+dp … {
 *            %dwi = einsum{…} %dy, %xs : f32[64, 64]+dp backward
 *            yield %dx, %dwi
 * after    %w = param{param="layers.*.weight"} : f32[4 x 64, 64]~dp forward
 *          %out, %saved = loop{n=4, reverse=false} : … {
 *            stack %wi = %w : f32[64, 64]~dp
 *            %wi.3 = all_gather{axes={dp}, unit="layers.*", prefetch=2}
 *                    %wi : f32[64, 64] forward
 *            %y = einsum{…} %x, %wi.3 : f32[8/dp, 64] forward
 *          %dh, %dw = loop{n=4, reverse=true} : …, f32[4 x 64, 64]~dp … {
 *            %dwi = einsum{…} %dy, %xs : f32[64, 64]+dp backward
 *            %dwi.2 = reduce_scatter{axes={dp}, unit="layers.*"}
 *                     %dwi : f32[64, 64]~dp backward
 *            yield %dx, %dwi.2
 *
 * A stacked parameter is gathered and reduced layer by layer inside the loop
 * that uses it; what the loop only hands on stays a shard. Casts to the
 * compute type move to the shard, so that the smaller type is gathered.
 */
#include "base/bug.h"
#include "ir/units.h"
#include "passes/pass.h"
#include "passes/reshard.h"

#include <string.h>

/* A use of a shard that needs the whole tensor, or a gradient that becomes a
 * shard; those of one unit in one region (and phase) form one collective. */
typedef struct Move {
    Region *region;
    Phase phase;
    const char *unit;
    Value *from;
    Value *to;     /* gradients: made beforehand, so that users refer to it */
    Loc loc;       /* of the parameter's plan item */
    int param;
    bool done;
} Move;

typedef struct Storage {
    Program *p;
    const TargetInfo *t;
    VEC(Move) gather;
    VEC(Move) reduce;
} Storage;

static Type flat_type(Type t, int axis)
{
    t.place.ax[axis] = (AxisPlace){.kind = AX_FLAT};
    return t;
}

/* ---- uses of parameters ------------------------------------------------ */

static bool takes_shards(const Op *op)
{
    return op->kind == OP_update || op->kind == OP_assign;
}

static void need_whole(Storage *s, Value *v, Op *user, int param,
                       const Unit *u)
{
    for (int i = 0; i < s->gather.n; i++) {
        Move *m = &s->gather.at[i];
        if (m->from == v && m->region == user->region &&
            m->phase == user->phase)
            return;
    }
    Move m = {.region = user->region, .phase = user->phase, .from = v,
              .unit = s->p->param.at[param].unit, .loc = u->loc,
              .param = param};
    vec_push(s->p->arena, &s->gather, m);
}

/* Makes v flat and follows it: into loops that take it apart, through casts;
 * every other reader needs the whole tensor. */
static void spread_flat(Storage *s, Value *v, int param, const Unit *u)
{
    v->type = flat_type(v->type, u->axis);
    v->why[u->axis] = (Why){"stored as a shard", u->loc};
    for (Op *op = v->region->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v || takes_shards(op))
                continue;
            if (op->kind == OP_loop && i >= op->ncarry &&
                i < op->ncarry + op->nstack) {
                spread_flat(s, op->body->arg[i], param, u);
            } else if (op->kind == OP_cast) {
                /* Up to its operand, so that all of a unit's stand before
                 * the first gather. */
                ir_move(op, v->region,
                        v->def ? v->def->next : v->region->first);
                spread_flat(s, op->out[0], param, u);
            } else {
                need_whole(s, v, op, param, u);
            }
        }
    }
}

/* Whether a loop runs between the unit's last forward and first backward use
 * at top level: then the gathered tensors would wait for long. */
static bool loop_between(const Storage *s, const Move *forward,
                         const Move *backward)
{
    bool seen_use = false, loop = false;
    for (Op *op = forward->region->first; op; op = op->next) {
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != forward->from)
                continue;
            if (op->phase == forward->phase) {
                seen_use = true;
                loop = false;
            } else if (op->phase == backward->phase) {
                return loop;
            }
        }
        if (seen_use && op->kind == OP_loop)
            loop = true;
    }
    (void)s;
    return loop;
}

/* Drops backward gathers of what the forward pass has just gathered. */
static void keep_gathered(Storage *s)
{
    for (int i = 0; i < s->gather.n; i++) {
        Move *b = &s->gather.at[i];
        if (b->phase != PH_BACKWARD)
            continue;
        for (int j = 0; j < s->gather.n; j++) {
            Move *f = &s->gather.at[j];
            if (f->from == b->from && f->region == b->region &&
                f->phase == PH_FORWARD && !loop_between(s, f, b)) {
                b->done = true;
                f->to = f->from; /* marks: serves the backward pass as well */
            }
        }
    }
}

static bool wants_whole(const Op *op, int i)
{
    bool own_gather = op->kind == OP_all_gather && op->attr[1].s &&
                      op->attr[1].s[0];
    if (takes_shards(op) || op->kind == OP_cast || own_gather)
        return false;
    return !(op->kind == OP_loop && i >= op->ncarry &&
             i < op->ncarry + op->nstack);
}

static Op *first_use(const Region *r, const Value *v, Phase phase, bool any)
{
    for (Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (op->arg[i] == v && (any || op->phase == phase) &&
                wants_whole(op, i))
                return op;
    return NULL;
}

static bool comes_before(const Op *a, const Op *b)
{
    for (const Op *op = a; op; op = op->next)
        if (op == b)
            return true;
    return false;
}

static void redirect(Region *r, Value *from, Value *to, Phase phase, bool any)
{
    for (Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (op->arg[i] == from && (any || op->phase == phase) &&
                wants_whole(op, i))
                op->arg[i] = to;
}

/* What a reader needs: the type before it became flat. */
static Type whole_type(Type t, int axis)
{
    t.place.ax[axis] = (AxisPlace){.kind = AX_R};
    return t;
}

static const char *group_why(Storage *s, const char *what, const Move *m)
{
    return arena_printf(s->p->arena, "%s of unit %s", what, m->unit);
}

enum { MAX_GROUP = 4096 };

/* One grouped all_gather for the moves listed in `member`. */
static void emit_gather(Storage *s, const int *member, int n)
{
    Program *p = s->p;
    Move *first = &s->gather.at[member[0]];
    const Unit *u = unit_of_param(p, first->param);
    Op *before = NULL;
    Value **args = NEW_ARRAY(p->arena, Value *, n);
    Type *types = NEW_ARRAY(p->arena, Type, n);
    const char **hints = NEW_ARRAY(p->arena, const char *, n);
    for (int i = 0; i < n; i++) {
        Move *m = &s->gather.at[member[i]];
        Op *use = first_use(m->region, m->from, m->phase, m->to != NULL);
        if (!before || (use && comes_before(use, before)))
            before = use;
        args[i] = m->from;
        types[i] = whole_type(m->from->type, u->axis);
        hints[i] = m->from->name;
    }
    bool in_loop = first->region->owner != NULL;
    int prefetch = u->prefetch >= 0 ? u->prefetch : s->t->default_prefetch;
    Attr attr[MAX_ATTRS] = {{.i = 1 << u->axis},
                            {.s = first->unit},
                            {.i = in_loop ? prefetch : 0}};
    Build b = {.p = p, .region = first->region, .before = before,
               .phase = first->phase, .loc = before->loc, .path = ""};
    Op *op = ir_op_typed(&b, OP_all_gather, n, args, attr, n, types, hints);
    op->why = (Why){group_why(s, "parameters", first), first->loc};
    for (int i = 0; i < n; i++) {
        Move *m = &s->gather.at[member[i]];
        redirect(m->region, m->from, op->out[i], m->phase, m->to != NULL);
        for (int a = 0; a < p->mesh.n; a++)
            op->out[i]->why[a] = m->from->why[a];
        op->out[i]->why[u->axis] = (Why){"gathered for use", first->loc};
        m->done = true;
    }
}

static void emit_gathers(Storage *s)
{
    int *member = NEW_ARRAY(s->p->arena, int, s->gather.n + 1);
    keep_gathered(s);
    for (int i = 0; i < s->gather.n; i++) {
        Move *lead = &s->gather.at[i];
        if (lead->done)
            continue;
        int n = 0;
        for (int j = i; j < s->gather.n; j++) {
            Move *m = &s->gather.at[j];
            if (!m->done && m->region == lead->region &&
                m->phase == lead->phase && !strcmp(m->unit, lead->unit))
                member[n++] = j;
        }
        emit_gather(s, member, n);
    }
}

/* ---- gradients ---------------------------------------------------------- */

static int count_uses(const Value *v)
{
    int n = 0;
    for (Op *op = v->region->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            n += op->arg[i] == v;
    for (int i = 0; i < v->region->nyields; i++)
        n += v->region->yield[i] == v;
    return n;
}

static Value *flat_grad(Storage *s, Value *v, int param, const Unit *u);

static Value *convert_here(Storage *s, Value *v, int param, const Unit *u)
{
    Program *p = s->p;
    /* A share that was made Partial only to be added up again. */
    if (v->def && v->def->kind == OP_take_share &&
        v->def->attr[0].i == 1 << u->axis)
        v = v->def->arg[0];
    Type t = flat_type(v->type, u->axis);
    if (v->type.place.ax[u->axis].kind != AX_P) {
        /* The same on every rank already: each keeps its run. */
        Build b = {.p = p, .region = v->region, .phase = PH_BACKWARD,
                   .before = v->def ? v->def->next : v->region->first,
                   .loc = v->loc, .path = ""};
        Attr attr[MAX_ATTRS] = {{.i = 1 << u->axis}};
        const char *hint = v->name;
        Op *op = ir_op_typed(&b, OP_take_part, 1, &v, attr, 1, &t, &hint);
        op->why = (Why){"this rank's shard of the gradient", u->loc};
        return op->out[0];
    }
    Move m = {.region = v->region, .phase = PH_BACKWARD, .from = v,
              .unit = p->param.at[param].unit, .loc = u->loc, .param = param};
    m.to = ir_new_value(p, v->name, t, v->loc);
    m.to->region = v->region;
    vec_push(p->arena, &s->reduce, m);
    return m.to;
}

/* A shard in place of the gradient v: converted where it is made (inside the
 * loop that stacks it), so that no whole stack of gradients ever exists. */
static Value *flat_grad(Storage *s, Value *v, int param, const Unit *u)
{
    if (v->type.place.ax[u->axis].kind == AX_FLAT)
        return v;
    Op *def = v->def;
    if (def && count_uses(v) == 1) {
        if (def->kind == OP_loop && v->index >= def->ncarry) {
            Region *body = def->body;
            body->yield[v->index] =
                flat_grad(s, body->yield[v->index], param, u);
            v->type = flat_type(v->type, u->axis);
            return v;
        }
        if (def->kind == OP_all_reduce &&
            !(def->attr[0].i & 1 << u->axis)) {
            def->arg[v->index] = flat_grad(s, def->arg[v->index], param, u);
            v->type = flat_type(v->type, u->axis);
            return v;
        }
    }
    return convert_here(s, v, param, u);
}

/* The later of two definitions in one region; NULL is the region's start. */
static Op *later(Op *a, Op *b)
{
    return !a ? b : !b ? a : comes_before(a, b) ? b : a;
}

static void emit_reduce(Storage *s, const int *member, int n)
{
    Program *p = s->p;
    Move *first = &s->reduce.at[member[0]];
    const Unit *u = unit_of_param(p, first->param);
    Value **args = NEW_ARRAY(p->arena, Value *, n);
    Op *after = NULL;
    for (int i = 0; i < n; i++) {
        args[i] = s->reduce.at[member[i]].from;
        after = later(after, args[i]->def);
    }
    Attr attr[MAX_ATTRS] = {{.i = 1 << u->axis}, {.s = first->unit}};
    Build b = {.p = p, .region = first->region, .phase = PH_BACKWARD,
               .before = after ? after->next : first->region->first,
               .loc = after ? after->loc : first->loc, .path = ""};
    Op *op = ir_op_typed(&b, OP_reduce_scatter, n, args, attr, 0, NULL, NULL);
    op->why = (Why){group_why(s, "gradients", first), first->loc};
    op->nouts = n;
    op->out = NEW_ARRAY(p->arena, Value *, n);
    for (int i = 0; i < n; i++) {
        Move *m = &s->reduce.at[member[i]];
        op->out[i] = m->to;
        m->to->def = op;
        m->to->index = i;
        for (int a = 0; a < p->mesh.n; a++)
            m->to->why[a] = m->from->why[a];
        m->to->why[u->axis] = (Why){"reduced to this rank's shard", u->loc};
        m->done = true;
    }
}

/* Whether all of a group can be reduced at one point: behind the last
 * definition, before the first use. */
static bool fits_group(const Storage *s, const int *member, int n,
                       const Move *extra)
{
    Op *after = extra->from->def;
    for (int i = 0; i < n; i++)
        after = later(after, s->reduce.at[member[i]].from->def);
    for (Op *op = after; op; op = op->prev)
        for (int k = 0; k < op->nargs; k++) {
            if (op->arg[k] == extra->to)
                return false;
            for (int i = 0; i < n; i++)
                if (op->arg[k] == s->reduce.at[member[i]].to)
                    return false;
        }
    return true;
}

static void emit_reduces(Storage *s)
{
    int *member = NEW_ARRAY(s->p->arena, int, s->reduce.n + 1);
    for (int i = 0; i < s->reduce.n; i++) {
        Move *lead = &s->reduce.at[i];
        if (lead->done)
            continue;
        int n = 0;
        for (int j = i; j < s->reduce.n; j++) {
            Move *m = &s->reduce.at[j];
            if (!m->done && m->region == lead->region &&
                !strcmp(m->unit, lead->unit) &&
                (n == 0 || fits_group(s, member, n, m)))
                member[n++] = j;
        }
        emit_reduce(s, member, n);
    }
}

/* ---- the pass ----------------------------------------------------------- */

static void shard_param(Storage *s, int i, const Unit *u)
{
    Program *p = s->p;
    Param *pm = &p->param.at[i];
    pm->type = flat_type(pm->type, u->axis);
    if (pm->value)
        spread_flat(s, pm->value, i, u);
}

static int owner_param(const Program *p, int i)
{
    int of = p->param.at[i].state_of;
    return of >= 0 ? of : i;
}

/* Types of what reads the gradients' shards. */
static void retype_tail(Storage *s)
{
    Program *p = s->p;
    for (Op *op = p->step->first; op; op = op->next) {
        if (op->kind == OP_finish_grad) {
            op->out[0]->type = op->arg[0]->type;
        } else if (op->kind == OP_update) {
            op->out[0]->type = op->arg[0]->type;
            for (int i = 1; i < op->nouts; i++)
                op->out[i]->type = op->arg[4 + i]->type;
        }
    }
}

static void shard_grads(Storage *s)
{
    Program *p = s->p;
    for (Op *op = p->step->first; op; op = op->next) {
        if (op->kind != OP_finish_grad)
            continue;
        int param = (int)op->attr[0].i;
        const Unit *u = unit_of_param(p, param);
        if (u && p->mesh.size[u->axis] > 1)
            op->arg[0] = flat_grad(s, op->arg[0], param, u);
    }
    emit_reduces(s);
}

void pass_storage(Program *p, const TargetInfo *t)
{
    Storage s = {.p = p, .t = t};
    for (int i = 0; i < p->param.n; i++) {
        int owner = owner_param(p, i);
        const Unit *u = unit_of_param(p, owner);
        if (!u)
            continue;
        p->param.at[i].unit = unit_name_of_param(p, owner);
        if (p->mesh.size[u->axis] > 1)
            shard_param(&s, i, u);
    }
    emit_gathers(&s);
    shard_grads(&s);
    retype_tail(&s);
    p->stage = STAGE_STORED;
}
