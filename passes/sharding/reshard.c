/* reshard.c: finds the cheapest sequence of collectives between two placements.
 *
 * requires: two placements of one tensor on one mesh
 * ensures:  a sequence of collectives and local ops, each over one axis, or an exchange
 *           over several, that converts the first into the second in the least modelled time.
 *           reshard_emit joins neighbors over several axes into one op where
 *           that is possible
 *
 * before   %y : f32[8, 64]+tp               wanted: f32[8/tp, 64]
 * after    %y.2 = reduce_scatter{axes={tp}, …} %y : f32[8/tp, 64]
 *
 * The method is Dijkstra's search over placements. The search is small: a few
 * states for each axis, and only the axes that change or that block one that
 * does (a gather removes the minor axis of a dim only). For one or two axes the
 * result is exact; for more, only dims that are split before or after may be
 * split in between. The cost of a collective is a latency for each of its
 * rounds plus its bytes divided by the bandwidth of a ring.
 */
#include "passes/sharding/reshard.h"

#include <math.h>
#include <string.h>

#include "base/bug.h"

/* ---- the cost model ------------------------------------------------------ */

/* Without --machine: inside a node, between nodes. */
static const Link default_link[] = {{3e-6, 150e9}, {10e-6, 25e9}};

/* The cost of a local op is small but not 0, so that fewer steps win. */
static const double local_step = 1e-9, local_bandwidth = 2e12;

/* Costs on a loop axis. A sum over its iterations ends with the last one and
 * should come as late as possible; no other conversion is possible between
 * iterations. */
static const double loop_sum_cost = 1, loop_exchange_cost = 100;

static Link axis_link(const Mesh *m, int axis)
{
    int64_t node = m->node ? m->node : DEFAULT_NODE_SIZE;
    bool between = mesh_stride(m, axis) * m->size[axis] > node;
    return (m->link ? m->link : default_link)[between];
}

static double modelled(const Mesh *m, OpKind kind, int axis, double bytes)
{
    double k = (double)m->size[axis];
    if (k <= 1)
        return 0;
    if (mesh_is_loop_axis(m, axis) && kind != OP_mask_to_partial)
        return kind == OP_all_reduce ? loop_sum_cost : loop_exchange_cost;
    if (kind == OP_local_slice || kind == OP_mask_to_partial)
        return local_step + bytes / local_bandwidth;
    Link link = axis_link(m, axis);
    double move = (k - 1) / k * bytes / link.bandwidth;
    return local_step + link.latency * ceil(log2(k)) +
           (kind == OP_all_reduce ? 2 * move : move);
}

double collective_seconds(const Mesh *m, OpKind kind, int axis, int64_t bytes)
{
    return modelled(m, kind, axis, (double)bytes);
}

/* Of an exchange over several axes: each rank sends parts to all others of the group, by the
 * slowest of the links. */
static double joint_seconds(const Mesh *m, uint32_t axes, double bytes)
{
    double k = (double)mesh_group(m, axes), latency = 0, bandwidth = INFINITY;
    for (int a = 0; a < m->n; a++)
        if (axes >> a & 1) {
            Link link = axis_link(m, a);
            latency = fmax(latency, link.latency);
            bandwidth = fmin(bandwidth, link.bandwidth);
        }
    return local_step + latency * ceil(log2(k)) + (k - 1) / k * bytes / bandwidth;
}

/* ---- the search ---------------------------------------------------------- */

enum { MAX_STATES = 3000, BUCKETS = 1 << 13 };

typedef struct State {
    Placement place;
    double seconds;
    short from; /* the previous state; -1: the start */
    uint8_t kind;
    uint32_t axes;
    bool done;
} State;

typedef struct Search {
    const Mesh *m;
    const Type *type; /* the tensor's type; the placement is not used */
    double bytes;     /* bytes of the global tensor */
    uint32_t axes;    /* axes that may change */
    uint32_t dims;    /* dims that may be split in between */
    int n;
    State state[MAX_STATES];
    short bucket[BUCKETS]; /* by hash: 1 + the index of a state; 0: none */
} Search;

static double local_bytes(const Search *s, const Placement *p)
{
    double bytes = s->bytes;
    for (int a = 0; a < s->m->n; a++)
        if (p->ax[a].kind == AX_S || p->ax[a].kind == AX_FLAT)
            bytes /= (double)s->m->size[a];
    return bytes;
}

static int axes_on_dim(const Search *s, const Placement *p, int dim)
{
    int n = 0;
    for (int a = 0; a < s->m->n; a++)
        n += p->ax[a].kind == AX_S && p->ax[a].dim == dim;
    return n;
}

static bool divides_dim(const Search *s, const Placement *p, int dim, int axis)
{
    int64_t parts = s->m->size[axis] * mesh_pieces(s->m, axis);
    for (int a = 0; a < s->m->n; a++)
        if (p->ax[a].kind == AX_S && p->ax[a].dim == dim)
            parts *= s->m->size[a] * mesh_pieces(s->m, a);
    return s->type->dim[dim] % parts == 0;
}

static bool has_flat(const Search *s, const Placement *p)
{
    for (int a = 0; a < s->m->n; a++)
        if (p->ax[a].kind == AX_FLAT)
            return true;
    return false;
}

/* The bucket of the placement's state, or the bucket to insert it at. */
static short *state_bucket(Search *s, const Placement *p)
{
    uint32_t i = place_hash(p) % BUCKETS;
    while (s->bucket[i] && !place_equal(&s->state[s->bucket[i] - 1].place, p))
        i = (i + 1) % BUCKETS;
    return &s->bucket[i];
}

/* Adds or improves the state with placement p, which `kind` over the axes makes from
 * state `at` in this time. */
static void add_state(Search *s, int at, OpKind kind, uint32_t axes, const Placement *p,
                      double takes)
{
    double seconds = s->state[at].seconds + takes;
    short *bucket = state_bucket(s, p);
    int i = *bucket ? *bucket - 1 : s->n;
    if (i == MAX_STATES)
        return;
    if (i < s->n && s->state[i].seconds <= seconds)
        return;
    if (i == s->n)
        *bucket = (short)++s->n;
    s->state[i] = (State){*p, seconds, (short)at, (uint8_t)kind, axes, false};
}

/* The same for one axis. */
static void reach_state(Search *s, int at, OpKind kind, int axis,
                        AxisPlace becomes)
{
    Placement p = s->state[at].place;
    double before = local_bytes(s, &p);
    p.ax[axis] = becomes;
    double after = local_bytes(s, &p);
    double bytes = kind == OP_all_gather ? after : before;
    add_state(s, at, kind, 1u << axis, &p, modelled(s->m, kind, axis, bytes));
}

/* Adds every other Shard that is reachable from Replicate, Partial or a minor
 * Shard. */
static void reach_shards(Search *s, int at, OpKind kind, int axis)
{
    const Placement p = s->state[at].place;
    if (has_flat(s, &p))
        return;
    for (int d = 0; d < s->type->ndim; d++) {
        bool same = p.ax[axis].kind == AX_S && p.ax[axis].dim == d;
        if (same || !(s->dims >> d & 1) || !divides_dim(s, &p, d, axis))
            continue;
        int order = axes_on_dim(s, &p, d);
        reach_state(s, at, kind, axis,
                    (AxisPlace){AX_S, (uint8_t)d, (uint8_t)order});
    }
}

/* Moves the minor axes of a dim to another one, in one exchange over all of them: `axes`, in
 * the order in which they number the ranks of a group. */
static void reach_together(Search *s, int at, uint32_t axes)
{
    const Placement *from = &s->state[at].place;
    double takes = joint_seconds(s->m, axes, local_bytes(s, from));
    for (int d = 0; d < s->type->ndim; d++) {
        Placement p = *from;
        bool fits = s->dims >> d & 1;
        for (int a = 0; fits && a < s->m->n; a++)
            if (axes >> a & 1) {
                fits = p.ax[a].dim != d && divides_dim(s, &p, d, a);
                p.ax[a] = (AxisPlace){AX_S, (uint8_t)d, (uint8_t)axes_on_dim(s, &p, d)};
            }
        if (fits)
            add_state(s, at, OP_all_to_all, axes, &p, takes);
    }
}

/* Adds the exchanges over `axis`, the minor one of its dim, and axes that are major to it. */
static void exchange_together(Search *s, int at, int axis)
{
    const Placement p = s->state[at].place;
    uint32_t axes = 1u << axis;
    int order = p.ax[axis].order;
    for (int a = axis - 1; a >= 0; a--) {
        if (p.ax[a].kind != AX_S || p.ax[a].dim != p.ax[axis].dim)
            continue;
        if (p.ax[a].order != --order || !(s->axes >> a & 1) || mesh_pieces(s->m, a) > 1 ||
            mesh_is_loop_axis(s->m, a))
            return;
        axes |= 1u << a;
        reach_together(s, at, axes);
    }
}

static void expand_axis(Search *s, int at, int axis)
{
    const Placement *p = &s->state[at].place;
    AxisPlace here = p->ax[axis];
    const AxisPlace replicate = {AX_R, 0, 0}, partial = {AX_P, 0, 0},
                    flat = {AX_FLAT, 0, 0};
    switch ((AxisKind)here.kind) {
    case AX_R:
        reach_state(s, at, OP_mask_to_partial, axis, partial);
        reach_state(s, at, OP_local_slice, axis, flat);
        reach_shards(s, at, OP_local_slice, axis);
        break;
    case AX_P:
        reach_state(s, at, OP_all_reduce, axis, replicate);
        reach_state(s, at, OP_reduce_scatter, axis, flat);
        reach_shards(s, at, OP_reduce_scatter, axis);
        break;
    case AX_PMAX:
        reach_state(s, at, OP_all_reduce, axis, replicate);
        break;
    case AX_S:
        /* Runs flatten the rest of the tensor, which must not change while they
         * exist. */
        if (has_flat(s, p) ||
            here.order != axes_on_dim(s, p, here.dim) - 1)
            break;
        reach_state(s, at, OP_all_gather, axis, replicate);
        if (mesh_pieces(s->m, axis) > 1)
            break;
        reach_shards(s, at, OP_all_to_all, axis);
        if (!mesh_is_loop_axis(s->m, axis))
            exchange_together(s, at, axis);
        break;
    case AX_FLAT:
        reach_state(s, at, OP_all_gather, axis, replicate);
        break;
    case AX_AT: /* placed by the pass stages, later */
    case AX_HERE:
    case AX_CUT:
        break;
    }
}

/* The axes that change, and those that share a dim or a flat run with them. */
static uint32_t involved_axes(const Mesh *m, const Placement *from,
                              const Placement *to)
{
    uint32_t set = 0, dims = 0;
    bool grown = true;
    for (int a = 0; a < m->n; a++)
        if (memcmp(&from->ax[a], &to->ax[a], sizeof from->ax[a]) != 0)
            set |= 1u << a;
    while (grown) {
        grown = false;
        for (int a = 0; a < m->n; a++) {
            const AxisPlace both[] = {from->ax[a], to->ax[a]};
            bool in = set >> a & 1;
            for (int i = 0; i < 2; i++) {
                if (both[i].kind == AX_FLAT && set)
                    in = true;
                if (both[i].kind == AX_S && dims >> both[i].dim & 1)
                    in = true;
            }
            if (!in)
                continue;
            grown = grown || !(set >> a & 1);
            set |= 1u << a;
            for (int i = 0; i < 2; i++) {
                if (both[i].kind != AX_S)
                    continue;
                grown = grown || !(dims >> both[i].dim & 1);
                dims |= 1u << both[i].dim;
            }
        }
    }
    return set;
}

/* The dims that may be split in between: all for two axes; for more only those
 * that are split at either end, to keep the search small. */
static uint32_t useful_dims(const Search *s, const Placement *from,
                            const Placement *to)
{
    uint32_t dims = 0, all = (1u << s->type->ndim) - 1;
    int n = 0;
    for (int a = 0; a < s->m->n; a++) {
        n += (int)(s->axes >> a & 1);
        if (from->ax[a].kind == AX_S)
            dims |= 1u << from->ax[a].dim;
        if (to->ax[a].kind == AX_S)
            dims |= 1u << to->ax[a].dim;
    }
    return n <= 2 ? all : dims;
}

/* The cheapest state that is not done; -1: none. */
static int cheapest_state(const Search *s)
{
    int best = -1;
    for (int i = 0; i < s->n; i++)
        if (!s->state[i].done &&
            (best < 0 || s->state[i].seconds < s->state[best].seconds))
            best = i;
    return best;
}

/* The index of the state `to`, or -1 if it is not reachable. */
static int search_states(Search *s, const Placement *to)
{
    for (;;) {
        int at = cheapest_state(s);
        if (at < 0 || place_equal(&s->state[at].place, to))
            return at;
        s->state[at].done = true;
        for (int a = 0; a < s->m->n; a++)
            if (s->axes >> a & 1)
                expand_axis(s, at, a);
    }
}

/* `to` with axes of size 1 Replicate, as in types. */
static Placement normal(const Mesh *m, const Type *type, const Placement *to)
{
    Type t = *type;
    t.place = *to;
    type_normalize(&t, m);
    return t.place;
}

static void start_search(Search *s, const Mesh *m, const Type *from,
                         const Placement *to)
{
    s->m = m;
    s->type = from;
    s->bytes =
        (double)type_elements(from) * (double)dtype_size(from->dtype);
    s->axes = involved_axes(m, &from->place, to);
    s->dims = useful_dims(s, &from->place, to);
    s->n = 1;
    s->state[0] = (State){.place = from->place, .from = -1};
    memset(s->bucket, 0, sizeof s->bucket);
    *state_bucket(s, &from->place) = 1;
}

void reshard_path(const Mesh *m, const Type *from, const Placement *to,
                  ReshardPath *path)
{
    path->n = 0;
    path->seconds = 0;
    Placement goal = normal(m, from, to);
    if (place_equal(&from->place, &goal))
        return;
    Search s;
    start_search(&s, m, from, &goal);
    int at = search_states(&s, &goal);
    if (at < 0)
        bug("no way between the placements of a %d-dim tensor", from->ndim);
    path->seconds = s.state[at].seconds;
    for (int i = at; s.state[i].from >= 0; i = s.state[i].from)
        path->n++;
    if (path->n > MAX_RESHARD_STEPS)
        bug("a conversion takes %d steps", path->n);
    for (int i = at, k = path->n; s.state[i].from >= 0; i = s.state[i].from) {
        ReshardStep *step = &path->step[--k];
        *step = (ReshardStep){(OpKind)s.state[i].kind, s.state[i].axes, *from};
        step->to.place = s.state[i].place;
    }
}

double reshard_seconds(const Mesh *m, const Type *from, const Placement *to)
{
    Placement goal = normal(m, from, to);
    if (place_equal(&from->place, &goal))
        return 0;
    Search s;
    start_search(&s, m, from, &goal);
    int at = search_states(&s, &goal);
    return at < 0 ? INFINITY : s.state[at].seconds;
}

/* ---- memoized times ------------------------------------------------------ */

/* Propagation asks for the same few conversions repeatedly. The table has one
 * entry for each hash value; a collision replaces it. */
enum { MEMO_ENTRIES = 2048 };

typedef struct MemoEntry {
    bool used;
    Type from;
    Placement to;
    double seconds;
} MemoEntry;

struct ReshardMemo {
    const Mesh *m;
    MemoEntry entry[MEMO_ENTRIES];
};

ReshardMemo *reshard_memo_new(Arena *a, const Mesh *m)
{
    ReshardMemo *memo = NEW(a, ReshardMemo);
    memo->m = m;
    return memo;
}

static uint32_t hash_more(uint32_t h, uint64_t x)
{
    return (h ^ (uint32_t)(x ^ x >> 32)) * 16777619u;
}

static uint32_t memo_entry(const Type *from, const Placement *to)
{
    uint32_t h = hash_more(2166136261u, (uint64_t)from->dtype);
    for (int i = 0; i < from->nstack; i++)
        h = hash_more(h, (uint64_t)from->stack[i]);
    for (int i = 0; i < from->ndim; i++)
        h = hash_more(h, (uint64_t)from->dim[i]);
    h = hash_more(hash_more(h, place_hash(&from->place)), place_hash(to));
    return (h ^ h >> 15) % MEMO_ENTRIES;
}

double reshard_memo_seconds(ReshardMemo *memo, const Type *from,
                            const Placement *to)
{
    if (place_equal(&from->place, to))
        return 0;
    MemoEntry *s = &memo->entry[memo_entry(from, to)];
    if (!s->used || !type_equal(&s->from, from) || !place_equal(&s->to, to))
        *s = (MemoEntry){true, *from, *to, reshard_seconds(memo->m, from, to)};
    return s->seconds;
}

/* ---- emission ------------------------------------------------------------ */

static int first_axis(uint32_t axes)
{
    return __builtin_ctz(axes);
}

/* Whether steps i and i + 1 can be one collective: two all-reduces that both
 * add or both take the maximum; or two gathers, slices or reduce-scatters of
 * one dim over both parts of a split axis, the major part being the first. The
 * pass split_collectives separates those inside nodes from those between
 * them. */
static bool joins(const Mesh *m, const ReshardPath *path, const Type *before,
                  int i)
{
    if (i + 1 == path->n || path->step[i].kind != path->step[i + 1].kind)
        return false;
    const ReshardStep *x = &path->step[i], *y = &path->step[i + 1];
    if (x->kind == OP_all_to_all)
        return false;
    int u = first_axis(x->axes), v = first_axis(y->axes);
    AxisPlace bx = before->place.ax[u], by = before->place.ax[v];
    AxisPlace ax = y->to.place.ax[u], ay = y->to.place.ax[v];
    if (x->kind == OP_all_reduce)
        return bx.kind == x->to.place.ax[v].kind;
    if (!mesh_same_axis(m, u, v))
        return false;
    if (x->kind == OP_all_gather)
        return u > v && bx.kind == AX_S && by.kind == AX_S && bx.dim == by.dim;
    return (x->kind == OP_reduce_scatter || x->kind == OP_local_slice) && u < v &&
           ax.kind == AX_S && ay.kind == AX_S && ax.dim == ay.dim;
}

static Value *emit_step(Build *b, Value *x, const ReshardStep *step,
                        uint32_t axes, Why why)
{
    Attr attr[MAX_ATTRS] = {{0}};
    attr[op_attr_index(step->kind, ATTR_axes)].i = axes;
    Type to = step->to;
    to.dtype = x->type.dtype;
    Op *op = ir_op_typed(b, step->kind, 1, &x, attr, 1, &to, &x->name);
    op->why = why;
    for (int a = 0; a < b->p->mesh.n; a++)
        op->out[0]->why[a] = axes >> a & 1 ? why : x->why[a];
    return op->out[0];
}

Value *reshard_emit(Build *b, Value *x, const Placement *to, Why why)
{
    ReshardPath path;
    reshard_path(&b->p->mesh, &x->type, to, &path);
    uint32_t axes = 0;
    Type before = x->type;
    for (int i = 0; i < path.n; i++) {
        axes |= path.step[i].axes;
        if (joins(&b->p->mesh, &path, &before, i)) {
            before = path.step[i].to;
            continue;
        }
        x = emit_step(b, x, &path.step[i], axes, why);
        before = path.step[i].to;
        axes = 0;
    }
    return x;
}
