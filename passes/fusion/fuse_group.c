/* fuse_group.c: decides which ops become one kernel.
 *
 * Every op starts as a group of its own. Groups that a value connects are
 * joined, largest tensors first, if
 *   - the union has an iteration space (fuse_space.h),
 *   - no dependence path leaves it and returns,
 *   - no expensive op is repeated for every row, and long rows that are
 *     traversed twice are many,
 *   - its ops can run in one phase, and it is not too large.
 * Then groups that read the same tensor along all their axes are joined under
 * the same conditions, so that the tensor is read once.
 */
#include <stdlib.h>
#include <string.h>

#include "passes/fusion/fuse.h"

/* Larger kernels gain nothing and are hard to read. */
enum { MAX_GROUP_OPS = 128, MAX_GROUP_TENSORS = 40 };

/* Tensors below this size are not a reason to join two readers. */
enum { MIN_SHARED_BYTES = 1024 };

/* ---- what a group stores ------------------------------------------------ */

static bool is_among(int group, const int *groups, int n)
{
    for (int i = 0; i < n; i++)
        if (groups[i] == group)
            return true;
    return false;
}

static bool stored_outside(const Fuser *f, const Value *v, const int *groups,
                           int n)
{
    if (f->yielded[v->id])
        return true;
    for (int i = 0; i < f->users[v->id].n; i++)
        if (!is_among(f->group_of[f->users[v->id].at[i]->id], groups, n))
            return true;
    return false;
}

bool fuse_is_stored(const Fuser *f, int group, const Value *v)
{
    return stored_outside(f, v, &group, 1);
}

OpList fuse_merged(const Fuser *f, const OpList *x, const OpList *y)
{
    OpList list = {0};
    for (int i = 0, k = 0; i < x->n || k < y->n;) {
        bool first = k == y->n || (i < x->n && f->place[x->at[i]->id] <
                                                   f->place[y->at[k]->id]);
        vec_push(f->arena, &list, first ? x->at[i++] : y->at[k++]);
    }
    return list;
}

/* ---- legality ------------------------------------------------------------ */

static bool is_forward(const OpList *ops, const Value *arg)
{
    for (int i = 0; i < ops->n; i++)
        if (arg->def == ops->at[i])
            return true;
    return !arg->def || arg->def->phase <= PH_FORWARD;
}

/* Whether the phases may be mixed: forward and backward ops of a step or a
 * microbatch, if all operands from outside are forward values, so that the
 * kernel can run in the forward pass. */
static bool phases_fit(const Fuser *f, const OpList *ops)
{
    unsigned seen = 0;
    for (int i = 0; i < ops->n; i++)
        seen |= 1u << ops->at[i]->phase;
    if (!(seen & (seen - 1)))
        return true;
    if (seen != (1u << PH_FORWARD | 1u << PH_BACKWARD) || !f->whole ||
        !f->mixed)
        return false;
    for (int i = 0; i < ops->n; i++)
        for (int k = 0; k < ops->at[i]->nargs; k++)
            if (!is_forward(ops, ops->at[i]->arg[k]))
                return false;
    return true;
}

/* Whether at most one piece of a microbatch has ops among them: those of others run
 * at another time. */
static bool are_one_piece(const OpList *ops)
{
    int piece = 0;
    for (int i = 0; i < ops->n; i++) {
        if (piece && ops->at[i]->piece && ops->at[i]->piece != piece)
            return false;
        piece = piece ? piece : ops->at[i]->piece;
    }
    return true;
}

/* The number of values that are read from outside or stored. */
static int count_tensors(const Fuser *f, const OpList *ops, const int *groups,
                         int n)
{
    int count = 0;
    for (int i = 0; i < ops->n; i++) {
        count += stored_outside(f, ops->at[i]->out[0], groups, n);
        for (int k = 0; k < ops->at[i]->nargs; k++)
            count += !is_among(fuse_producer(f, ops->at[i]->arg[k]), groups, n);
    }
    return count;
}

/* Whether the ranks that have one of the stored results have all. In a loop that is
 * cut into stages, those that run the iteration have. */
static bool have_one_holder(const Fuser *f, const OpList *ops,
                            const bool *stored)
{
    const Type *first = NULL;
    for (int i = 0; i < ops->n && !(f->r->owner && f->r->owner->cut); i++) {
        const Type *t = &ops->at[i]->out[0]->type;
        if (!stored[i])
            continue;
        if (first && !type_same_holder(first, t))
            return false;
        first = t;
    }
    return true;
}

bool fuse_try(Fuser *f, const OpList *ops, const bool *stored)
{
    arena_reset(f->attempt);
    return have_one_holder(f, ops, stored) &&
           !space_build(f->attempt, f->p, ops->n, ops->at, stored, &f->space) &&
           !space_repeats_expensive(&f->space) && !space_has_few_rows(&f->space);
}

/* The conditions of a legal kernel that are cheap to check. */
static bool may_be_legal(const Fuser *f, const OpList *ops, const int *groups,
                         int n)
{
    return ops->n <= MAX_GROUP_OPS && phases_fit(f, ops) && are_one_piece(ops) &&
           count_tensors(f, ops, groups, n) <= MAX_GROUP_TENSORS;
}

static bool has_space(Fuser *f, const OpList *ops, const int *groups, int n)
{
    bool stored[MAX_GROUP_OPS];
    for (int i = 0; i < ops->n; i++)
        stored[i] = stored_outside(f, ops->at[i]->out[0], groups, n);
    return fuse_try(f, ops, stored);
}

bool fuse_is_legal(Fuser *f, const OpList *ops, const int *groups, int n)
{
    return may_be_legal(f, ops, groups, n) && has_space(f, ops, groups, n);
}

/* Joins group b into group a if the union is a legal kernel. */
static bool join_groups(Fuser *f, int a, int b)
{
    const OpList *x = &f->group[a].op, *y = &f->group[b].op;
    const int both[2] = {a, b};
    if (x->n + y->n > MAX_GROUP_OPS)
        return false;
    OpList list = fuse_merged(f, x, y);
    if (!may_be_legal(f, &list, both, 2) || fuse_has_detour(f, a, b) ||
        !has_space(f, &list, both, 2))
        return false;
    fuse_order_join(f, a, b);
    for (int i = 0; i < f->group[b].op.n; i++)
        f->group_of[f->group[b].op.at[i]->id] = a;
    f->group[b].op.n = 0;
    f->group[b].open = false;
    f->group[a].op = list;
    f->group[a].version++;
    f->joins++;
    return true;
}

/* ---- candidates ---------------------------------------------------------- */

typedef struct Edge {
    const Value *v;
    Op *user;
    int64_t bytes;
    int place;
    int from, to, version; /* groups of the last attempt, which failed */
} Edge;
typedef VEC(Edge) EdgeList;

static int by_bytes(const void *x, const void *y)
{
    const Edge *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return a->place - b->place;
}

static EdgeList list_edges(const Fuser *f)
{
    EdgeList edges = {0};
    for (int i = 0; i < f->op.n; i++) {
        Op *op = f->op.at[i];
        if (!fuse_takes(op))
            continue;
        const OpList *users = &f->users[op->out[0]->id];
        for (int u = 0; u < users->n; u++)
            if (fuse_takes(users->at[u]))
                vec_push(f->arena, &edges,
                         ((Edge){op->out[0], users->at[u],
                                 fuse_bytes(f->p, op->out[0]), edges.n, -1, -1,
                                 -1}));
    }
    if (edges.n)
        qsort(edges.at, (size_t)edges.n, sizeof *edges.at, by_bytes);
    return edges;
}

/* An attempt is repeated only if one of the two groups has grown. */
static bool join_along(Fuser *f, Edge *e)
{
    int a = f->group_of[e->v->def->id], b = f->group_of[e->user->id];
    int version = f->group[a].version + f->group[b].version;
    if (a == b || (e->from == a && e->to == b && e->version == version))
        return false;
    if (join_groups(f, a, b))
        return true;
    e->from = a;
    e->to = b;
    e->version = version;
    return false;
}

static void join_along_edges(Fuser *f)
{
    EdgeList edges = list_edges(f);
    bool any = true;
    while (any) {
        any = false;
        for (int i = 0; i < edges.n; i++)
            any |= join_along(f, &edges.at[i]);
    }
}

/* Whether a value is read along all axes of a group's space. */
static bool find_span(Fuser *f, int g, const Value *v)
{
    if (!fuse_is_legal(f, &f->group[g].op, &g, 1))
        return false;
    for (int i = 0; i < f->space.nvalues; i++)
        if (f->space.value[i].value == v)
            return f->space.value[i].axes == f->space.all;
    return false;
}

static bool spans(Fuser *f, int g, const Value *v)
{
    FuseGroup *group = &f->group[g];
    if (group->spans_version != group->version || group->spans_value != v) {
        group->spans = find_span(f, g, v);
        group->spans_version = group->version;
        group->spans_value = v;
    }
    return group->spans;
}

/* Joins the group of users[i] with the groups of later users of the same phase.
 * A group that could not be joined is tried a second time only after a join. */
static void join_reader(Fuser *f, const OpList *users, int i, const Value *v)
{
    const Op *reader = users->at[i];
    f->mark++;
    int tried = f->mark;
    for (int k = i + 1; k < users->n; k++) {
        int a = f->group_of[reader->id];
        int b = f->group_of[users->at[k]->id];
        if (a == b || !f->group[a].open || !f->group[b].open ||
            reader->phase != users->at[k]->phase || f->group[b].tried == tried)
            continue;
        f->group[b].tried = tried;
        if (spans(f, a, v) && spans(f, b, v) && join_groups(f, a, b))
            tried = ++f->mark;
    }
}

/* Tries one reader of each group and phase: a second one could be joined with
 * the same groups only, unless groups have been joined since. */
static void join_readers(Fuser *f, const OpList *users, const Value *v)
{
    if (fuse_bytes(f->p, v) < MIN_SHARED_BYTES)
        return;
    for (int i = 0; i + 1 < users->n; i++) {
        FuseGroup *group = &f->group[f->group_of[users->at[i]->id]];
        Phase phase = users->at[i]->phase;
        if (!group->open)
            continue;
        if (group->row_value[phase] == v && group->row_joins[phase] == f->joins)
            continue;
        group->row_value[phase] = v;
        group->row_joins[phase] = f->joins;
        join_reader(f, users, i, v);
    }
}

static void join_siblings(Fuser *f)
{
    for (int i = 0; i < f->r->nargs; i++)
        join_readers(f, &f->users[f->r->arg[i]->id], f->r->arg[i]);
    for (int i = 0; i < f->op.n; i++) {
        Value *const *out = f->op.at[i]->out;
        for (int k = 0; k < f->op.at[i]->nouts; k++)
            join_readers(f, &f->users[out[k]->id], out[k]);
    }
}

/* Joins within the forward and within the backward pass first. A backward op is
 * then moved into the forward pass only with the kernel that it belongs to. */
void fuse_groups(Fuser *f)
{
    f->mixed = false;
    join_along_edges(f);
    f->mixed = true;
    join_along_edges(f);
    join_siblings(f);
}
