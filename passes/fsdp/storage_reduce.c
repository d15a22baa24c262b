/* storage_reduce.c: reduces gradients where they are computed.
 *
 * before   %dh, %dw, %db = loop{n=4, …} : …, f32[4 x 64, 64]+dp+rep,
 *                                         f32[4 x 64]+dp+rep backward {
 *            …
 *            yield %dx, %dwi, %dbi
 *          }
 *          %dw.2 = all_reduce{axes={rep}} %dw : f32[4 x 64, 64]+dp backward
 *          %db.2 = all_reduce{axes={rep}} %db : f32[4 x 64]+dp backward
 * after    %dh, %dw, %db = loop{n=4, …} : …, f32[4 x 64, 64]~dp,
 *                                         f32[4 x 64]~dp backward {
 *            …
 *            %dwi.2, %dbi.2 = reduce_scatter{axes={dp}, …} %dwi, %dbi :
 *                             f32[64, 64]~dp+rep, f32[64]~dp+rep backward
 *            %dwi.3, %dbi.3 = all_reduce{axes={rep}} %dwi.2, %dbi.2 :
 *                             f32[64, 64]~dp, f32[64]~dp backward
 *            yield %dx, %dwi.3, %dbi.3
 *          }
 *
 * The reduce-scatter comes first, so that the sums over replicas move shards;
 * both are in the loop that computes the gradient, so that no stack of full
 * gradients is stored. The gradients of a unit in one region are reduced by one
 * collective; parameters without a unit are grouped by their top-level module,
 * in buckets of at most 25 MiB as in PyTorch's DistributedDataParallel.
 *
 * With gradient accumulation (a microbatch axis) gradients are reduce-scattered
 * in every iteration, or with reduce=step once after the last one. Sums over
 * replicas run once, after the last iteration.
 */
#include "passes/fsdp/storage.h"

#include <limits.h>
#include <string.h>

#include "passes/simplify/simplify.h"

enum { BUCKET_BYTES = 25 << 20 };

/* A gradient that is traced from finish_grad to its producer. */
typedef struct Grad {
    Storage *s;
    const Unit *u; /* NULL: none */
    uint32_t axes; /* axes that the unit shards over */
    const char *group;
    Loc loc;
} Grad;

/* A value that the pass makes has one reader: the one that it is made for. */
static bool is_read_once(const Grad *g, const Value *v)
{
    const Uses *u = &g->s->uses;
    return v->id >= u->nvalues || u->count[v->id] == 1;
}

/* Adds a move whose result is v after the collective. */
static Move *add_move(const Grad *g, OpKind kind, uint32_t axes, Value *v,
                      AxisKind becomes, const char *why)
{
    Program *p = g->s->p;
    Type t = v->type;
    t = storage_type(t, axes, becomes);
    Move m = {.kind = kind, .axes = axes, .region = v->region,
              .phase = PH_BACKWARD, .group = g->group, .unit = g->u,
              .from = v, .loc = g->loc};
    m.to = ir_new_value(p, v->name, t, v->loc);
    m.to->region = v->region;
    memcpy(m.to->why, v->why, sizeof v->why);
    for (int a = 0; a < p->mesh.n; a++)
        if (axes >> a & 1)
            m.to->why[a] = why_is(why, g->loc);
    vec_push(p->arena, &g->s->reduce, m);
    return &g->s->reduce.at[g->s->reduce.n - 1];
}

/* ---- shards -------------------------------------------------------------- */

/* The gradient v after a local op over some axes, right where v is computed. */
static Value *local_here(const Grad *g, OpKind kind, uint32_t axes, Value *v,
                         AxisKind becomes, const char *why)
{
    Build b = {.p = g->s->p, .region = v->region, .phase = PH_BACKWARD,
               .before = v->def ? v->def->next : v->region->first,
               .loc = v->loc, .path = ""};
    Attr attr[MAX_ATTRS] = {{.i = axes}};
    Type t = storage_type(v->type, axes, becomes);
    const char *hint = v->name;
    Op *op = ir_op_typed(&b, kind, 1, &v, attr, 1, &t, &hint);
    op->why = why_is(why, g->loc);
    return op->out[0];
}

static Value *scatter_here(const Grad *g, Value *v)
{
    uint32_t axes = g->axes, equal = 0;
    /* Skip a mask to partial whose ranks would be summed again. */
    if (v->def && v->def->kind == OP_mask_to_partial &&
        attr_axes(v->def) == axes)
        v = v->def->arg[0];
    for (int a = 0; a < g->s->p->mesh.n; a++)
        if ((axes >> a & 1) && v->type.place.ax[a].kind == AX_R)
            equal |= 1u << a;
    /* Equal on all ranks already: each takes its run. */
    if (equal == axes)
        return local_here(g, OP_local_slice, axes, v, AX_FLAT,
                          "this rank's shard of the gradient");
    /* Equal on the ranks of some axes only: one rank of each gives its value,
     * so that one reduce-scatter does for all axes. */
    if (equal)
        v = local_here(g, OP_mask_to_partial, equal, v, AX_P,
                       "summed once over ranks that have the same");
    return add_move(g, OP_reduce_scatter, axes, v, AX_FLAT,
                    "reduced to this rank's shard")->to;
}

static bool sums_microbatches(const Grad *g, const Op *op)
{
    const Mesh *m = &g->s->p->mesh;
    for (int a = 0; a < m->n; a++)
        if ((attr_axes(op) >> a & 1) && mesh_is_loop_axis(m, a))
            return true;
    return false;
}

/* Whether the op adds gradients of a parameter that two stages read. */
static bool joins_stages(const Op *op)
{
    bool moved = false;
    for (int i = 0; i < op->nargs && op->kind == OP_add; i++)
        moved |= op->arg[i]->def && op->arg[i]->def->kind == OP_move;
    return moved;
}

/* The values that are scattered in place of v, so that v is computed of shards:
 * from the returned one on, *n of them. 0: v itself is. */
static Value **scattered_instead(const Grad *g, const Value *v, int *n)
{
    Op *def = v->def;
    bool sum = def->kind == OP_all_reduce && !(attr_axes(def) & g->axes) &&
               !(g->u->reduce == PER_STEP && sums_microbatches(g, def));
    *n = 1;
    if (def->kind == OP_loop && v->index >= def->ncarry)
        return &def->body->yield[v->index];
    if (sum || def->kind == OP_move)
        return &def->arg[v->index];
    *n = joins_stages(def) ? def->nargs : 0;
    return def->arg;
}

/* Replaces the gradient v by a shard, converted where v is computed (in the loop
 * that stacks it, on its stage), so that no stack of full gradients is ever
 * stored, and a stage sends shards. */
static Value *scatter(const Grad *g, Value *v)
{
    if (type_is_flat(&v->type, &g->s->p->mesh))
        return v;
    if (!v->def || !is_read_once(g, v))
        return scatter_here(g, v);
    int n;
    Value **from = scattered_instead(g, v, &n);
    if (n == 0)
        return scatter_here(g, v);
    for (int i = 0; i < n; i++)
        from[i] = scatter(g, from[i]);
    v->type = storage_type(v->type, g->axes, AX_FLAT);
    return v;
}

/* ---- replicas ------------------------------------------------------------ */

static uint32_t data_axes(const Program *p)
{
    return ((1u << p->mesh.n) - 1) & ~p->plan.tensor_axes;
}

/* Adds the sum over data axes in the loop that computes v. */
static Value *sum_here(const Grad *g, Value *v, uint32_t axes)
{
    Op *def = v->def;
    if (def && def->kind == OP_loop && v->index >= def->ncarry &&
        is_read_once(g, v)) {
        Value **yield = &def->body->yield[v->index];
        *yield = sum_here(g, *yield, axes);
        v->type = storage_type(v->type, axes, AX_R);
        return v;
    }
    return add_move(g, OP_all_reduce, axes, v, AX_R,
                    "summed over all replicas")->to;
}

/* Moves the sum over data axes, if the gradient at *grad has one, to where the
 * gradient is computed; sums over tensor axes stay at the end. */
static void sink_sum(const Grad *g, Value **grad)
{
    uint32_t data = data_axes(g->s->p);
    while (is_read_once(g, *grad) && (*grad)->def &&
           (*grad)->def->kind == OP_all_reduce) {
        Op *sum = (*grad)->def;
        Value *v = sum->arg[(*grad)->index];
        bool partial = true;
        for (int a = 0; a < g->s->p->mesh.n; a++)
            partial &= !(attr_axes(sum) >> a & 1) ||
                       v->type.place.ax[a].kind == AX_P;
        if (!(attr_axes(sum) & data)) {
            grad = &sum->arg[(*grad)->index];
            continue;
        }
        if (sum->nargs != 1 || !partial)
            return;
        *grad = sum_here(g, v, attr_axes(sum));
        ir_remove(sum);
        return;
    }
}

/* Splits a sum over data and tensor axes into two: the first moves, the second
 * is grouped with other gradients. */
static void split_sum(Program *p, Op *op)
{
    if (op->kind != OP_all_reduce || op->nargs != 1)
        return;
    uint32_t data = attr_axes(op) & data_axes(p), rest = attr_axes(op) & ~data;
    if (!data || !rest)
        return;
    Type t = op->arg[0]->type;
    t = storage_type(t, data, AX_R);
    Build b = ir_build_at(p, op, op);
    Attr attr[MAX_ATTRS] = {{.i = data}};
    Op *first = ir_op_typed(&b, OP_all_reduce, 1, op->arg, attr, 1, &t,
                            &op->arg[0]->name);
    first->why = op->why;
    memcpy(first->out[0]->why, op->out[0]->why, sizeof op->out[0]->why);
    op->arg[0] = first->out[0];
    set_attr_axes(op, rest);
}

/* ---- groups -------------------------------------------------------------- */

/* Places of ops in their regions, and of each move's first reader. */
typedef struct Places {
    Storage *s;
    int *of_op;        /* by op id, from 1 */
    int *first_reader; /* by move; INT_MAX: none */
} Places;

static void read_at(Places *at, const int *by_value, const Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        int move = by_value[op->arg[i]->id] - 1;
        if (move >= 0 && at->of_op[op->id] < at->first_reader[move])
            at->first_reader[move] = at->of_op[op->id];
    }
}

static void number_region(Places *at, const int *by_value, const Region *r)
{
    int place = 0;
    for (const Op *op = r->first; op; op = op->next) {
        at->of_op[op->id] = ++place;
        read_at(at, by_value, op);
        if (op->body)
            number_region(at, by_value, op->body);
    }
}

/* A reader of a later move's result counts as a reader of the move's operand
 * too. A move is listed after those that it reads. */
static Places find_places(Storage *s)
{
    const Program *p = s->p;
    Places at = {.s = s};
    int *by_value = NEW_ARRAY(p->arena, int, p->nvalues);
    at.of_op = NEW_ARRAY(p->arena, int, p->nops);
    at.first_reader = NEW_ARRAY(p->arena, int, s->reduce.n + 1);
    for (int i = 0; i < s->reduce.n; i++) {
        by_value[s->reduce.at[i].to->id] = i + 1;
        at.first_reader[i] = INT_MAX;
    }
    number_region(&at, by_value, p->step);
    for (int i = s->reduce.n; i-- > 0;) {
        int of = by_value[s->reduce.at[i].from->id] - 1;
        if (of >= 0 && at.first_reader[i] < at.first_reader[of])
            at.first_reader[of] = at.first_reader[i];
    }
    return at;
}

/* A group under construction: one collective can reduce it, after the last
 * definition, before the first use. */
typedef struct Group {
    Move **move;
    int n;
    int64_t bytes;
    Op *after;         /* the last definition; NULL: the region's start */
    int last, first;   /* positions of the last definition, the first reader */
} Group;

static int64_t bytes_of(const Storage *s, const Move *m)
{
    return type_local_bytes(&m->from->type, &s->p->mesh);
}

static int position_of(const Places *at, const Move *m)
{
    return m->from->def ? at->of_op[m->from->def->id] : 0;
}

static void add_to_group(const Places *at, Group *g, int move)
{
    Move *m = &at->s->reduce.at[move];
    if (position_of(at, m) > g->last) {
        g->last = position_of(at, m);
        g->after = m->from->def;
    }
    if (at->first_reader[move] < g->first)
        g->first = at->first_reader[move];
    g->bytes += bytes_of(at->s, m);
    g->move[g->n++] = m;
}

static bool belongs(const Places *at, const Group *g, int move)
{
    const Move *leader = g->move[0], *m = &at->s->reduce.at[move];
    if (m->done || m->kind != leader->kind || m->axes != leader->axes ||
        m->region != leader->region || m->unit != leader->unit ||
        strcmp(m->group, leader->group) != 0 ||
        m->from->type.dtype != leader->from->type.dtype ||
        !type_same_holder(&m->from->type, &leader->from->type))
        return false;
    int place = position_of(at, m), last = place > g->last ? place : g->last;
    return (m->unit || g->bytes + bytes_of(at->s, m) <= BUCKET_BYTES) &&
           g->first > last && at->first_reader[move] > last;
}

static const char *reduce_why(const Storage *s, const Move *m)
{
    bool shards = type_is_flat(&m->from->type, &s->p->mesh);
    bool step = m->unit && m->unit->reduce == PER_STEP && s->p->mesh.nloop > 0;
    return arena_printf(s->p->arena, "gradients of %s%s%s%s",
                        m->unit ? "unit " : "", m->group,
                        shards ? ": shards of replicas" : "",
                        step ? ", once per step" : "");
}

static void emit_reduce(Storage *s, const Group *g)
{
    const Move *leader = g->move[0];
    Attr attr[MAX_ATTRS] = {{.i = leader->axes}};
    if (leader->kind == OP_reduce_scatter)
        attr[1].s = leader->group;
    Op *op = storage_emit(s, g->move, g->n,
                          g->after ? g->after->next : leader->region->first,
                          attr, reduce_why(s, leader));
    if (g->after)
        op->loc = g->after->loc;
}

/* Emits the collectives of a kind. Reduce-scatters come first: the sums over
 * replicas read their results. */
static void emit_reduces(Storage *s, OpKind kind)
{
    Places at = find_places(s);
    Group g = {.move = NEW_ARRAY(s->p->arena, Move *, s->reduce.n + 1)};
    for (int i = 0; i < s->reduce.n; i++) {
        if (s->reduce.at[i].done || s->reduce.at[i].kind != kind)
            continue;
        g = (Group){.move = g.move, .first = INT_MAX};
        add_to_group(&at, &g, i);
        for (int j = i + 1; j < s->reduce.n; j++)
            if (belongs(&at, &g, j))
                add_to_group(&at, &g, j);
        emit_reduce(s, &g);
    }
}

/* ---- gradients ----------------------------------------------------------- */

/* "layers.*" for "layers.*.attention.wq.weight". */
static const char *top_module(Arena *a, const char *param)
{
    size_t n = strcspn(param, ".");
    while (param[n] == '.' && param[n + 1] == '*')
        n += 2;
    return param[n] ? arena_strndup(a, param, n) : param;
}

static Grad grad_of(Storage *s, const Op *finish)
{
    Program *p = s->p;
    int param = attr_param(finish);
    const Param *pm = &p->param.at[param];
    const Unit *u = unit_of_param(p, param);
    if (u)
        return (Grad){s, u, unit_axes(p, u), pm->unit, u->loc};
    return (Grad){s, NULL, 0, top_module(p->arena, pm->name), pm->loc};
}

static bool reads_gradient(const Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        if (op->arg[i]->def && op->arg[i]->def->kind == OP_finish_grad)
            return true;
    return false;
}

/* Moves finish_grad ops after the last gradient, so that no gradient must be
 * reduced before others of its group. */
static void finish_after_gradients(Program *p)
{
    Op *reader = p->step->first;
    while (reader && !reads_gradient(reader))
        reader = reader->next;
    Op *last = reader ? reader->prev : NULL;
    for (Op *op = last ? p->step->first : NULL, *next; op; op = next) {
        next = op == last ? NULL : op->next;
        if (op->kind == OP_finish_grad)
            ir_move(op, p->step, reader);
    }
}

void storage_reduce(Storage *s)
{
    Program *p = s->p;
    bool in_loop = p->mesh.nloop > 0;
    for (Op *op = p->step->first; op && !in_loop; op = op->next)
        if (op->kind == OP_finish_grad && op->arg[0]->def)
            split_sum(p, op->arg[0]->def);
    simplify_buckets(p, p->step);
    finish_after_gradients(p);
    s->uses = uses_find(p);
    for (Op *op = p->step->first; op; op = op->next) {
        if (op->kind != OP_finish_grad)
            continue;
        Grad g = grad_of(s, op);
        if (sharding_unit(p, attr_param(op)))
            op->arg[0] = scatter(&g, op->arg[0]);
        if (!in_loop)
            sink_sum(&g, &op->arg[0]);
    }
    emit_reduces(s, OP_reduce_scatter);
    emit_reduces(s, OP_all_reduce);
}
