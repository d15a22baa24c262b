/* fuse_order.c: keeps the groups of the pass `fuse` in a topological order.
 *
 * Joining two groups must not make a cycle: no path may go from one to the
 * other through a third group. Every group has a position in an order that joins
 * maintain. A path from the group at the lower position to the other visits only
 * groups at positions between the two, so the search stays inside that window,
 * and after the join only the window is reordered (Pearce and Kelly, "A dynamic
 * topological sort algorithm for directed acyclic graphs"). One search follows
 * readers, one follows producers; the cheaper one decides.
 *
 *   positions  a=4, x=5, y=6, b=7     edges a->x, a->b, y->b
 *   join a, b  y=4, ab=5, x=6         (x follows a, y does not)
 *
 * Cost of a query: the edges of the smaller search. Cost of a join: the groups
 * of the window.
 */
#include "base/bug.h"
#include "passes/fusion/fuse.h"

void fuse_order_start(Fuser *f)
{
    f->position = NEW_ARRAY(f->arena, int, f->ngroups + 1);
    f->group_at = NEW_ARRAY(f->arena, int, f->ngroups + 1);
    f->moved = NEW_ARRAY(f->arena, int, f->ngroups + 1);
    for (int g = 0; g < f->ngroups; g++)
        f->position[g] = f->group_at[g] = g;
    f->mark = 0;
}

/* ---- paths --------------------------------------------------------------- */

/* One of the two searches: the groups that it has marked but not visited, and
 * the number of edges that it has followed. */
typedef struct Search {
    int from, to; /* `low` and `high` if it follows readers; else reversed */
    int mark;
    VEC(int) work;
    int64_t edges;
    bool found;
} Search;

/* Visits a group at the other end of an edge. Only groups between `low` and
 * `high` matter. */
static void mark_reached(Fuser *f, Search *s, int from, int next, int low,
                         int high)
{
    s->edges++;
    /* The last two marks are those of the two searches. */
    bool visited =
        f->group[next].mark >= f->mark - 1 && f->group[next].mark != s->mark;
    s->found |= visited || (next == s->to && from != s->from);
    if (f->position[next] <= f->position[low] ||
        f->position[next] >= f->position[high] ||
        f->group[next].mark == s->mark)
        return;
    f->group[next].mark = s->mark;
    vec_push(f->arena, &s->work, next);
}

static void visit_readers(Fuser *f, Search *s, int g)
{
    const OpList *ops = &f->group[g].op;
    for (int i = 0; i < ops->n; i++)
        for (int k = 0; k < ops->at[i]->nouts; k++) {
            const OpList *users = &f->users[ops->at[i]->out[k]->id];
            for (int u = 0; u < users->n; u++)
                mark_reached(f, s, g, f->group_of[users->at[u]->id], s->from,
                             s->to);
        }
}

static void visit_producers(Fuser *f, Search *s, int g)
{
    const OpList *ops = &f->group[g].op;
    for (int i = 0; i < ops->n; i++)
        for (int k = 0; k < ops->at[i]->nargs; k++) {
            int producer = fuse_producer(f, ops->at[i]->arg[k]);
            if (producer >= 0)
                mark_reached(f, s, g, producer, s->to, s->from);
        }
}

static int64_t count_readers(const Fuser *f, int g)
{
    const OpList *ops = &f->group[g].op;
    int64_t n = 0;
    for (int i = 0; i < ops->n; i++)
        for (int k = 0; k < ops->at[i]->nouts; k++)
            n += f->users[ops->at[i]->out[k]->id].n;
    return n;
}

/* Advances both searches, the one with fewer edges first, until one has found a
 * path or has visited all groups that it can reach. In the second case no path
 * exists, and fuse_order_join uses the marks of that search. */
bool fuse_has_detour(Fuser *f, int a, int b)
{
    int low = f->position[a] < f->position[b] ? a : b, high = low == a ? b : a;
    Search down = {.from = low, .to = high, .mark = f->mark + 1};
    Search up = {.from = high, .to = low, .mark = f->mark + 2};
    f->mark += 2;
    vec_push(f->arena, &down.work, low);
    vec_push(f->arena, &up.work, high);
    while (down.work.n && up.work.n) {
        int64_t next = count_readers(f, down.work.at[down.work.n - 1]);
        if (up.edges <= down.edges + next)
            visit_producers(f, &up, up.work.at[--up.work.n]);
        else
            visit_readers(f, &down, down.work.at[--down.work.n]);
        if (up.found || down.found)
            return true;
    }
    f->followed = !down.work.n;
    f->mark_of_search = f->followed ? down.mark : up.mark;
    return false;
}

/* Reorders the window: first the groups that produce operands of the joined one
 * (or all that do not read its results), then the joined group, then the
 * others. Groups keep their order among each other. */
void fuse_order_join(Fuser *f, int a, int b)
{
    int low = f->position[a] < f->position[b] ? a : b, high = low == a ? b : a;
    int first = f->position[low], last = f->position[high], to = first;
    int *after = f->moved, nafter = 0;
    for (int i = first + 1; i < last; i++) {
        int g = f->group_at[i];
        if (g < 0)
            continue;
        if ((f->group[g].mark == f->mark_of_search) == f->followed) {
            after[nafter++] = g;
        } else {
            f->group_at[to] = g;
            f->position[g] = to++;
        }
    }
    f->group_at[to] = a;
    f->position[a] = to++;
    for (int i = 0; i < nafter; i++) {
        f->group_at[to] = after[i];
        f->position[after[i]] = to++;
    }
    while (to <= last)
        f->group_at[to++] = -1;
}

/* ---- the order of issue -------------------------------------------------- */

/* A min-heap of positions of ops in the region. */
typedef struct Heap {
    int *at;
    int n;
} Heap;

static void heap_push(Heap *h, int x)
{
    int i = h->n++;
    for (; i > 0 && h->at[(i - 1) / 2] > x; i = (i - 1) / 2)
        h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = x;
}

static int heap_pop(Heap *h)
{
    int least = h->at[0], x = h->at[--h->n], i = 0;
    for (int child; (child = 2 * i + 1) < h->n; i = child) {
        if (child + 1 < h->n && h->at[child + 1] < h->at[child])
            child++;
        if (h->at[child] >= x)
            break;
        h->at[i] = h->at[child];
    }
    h->at[i] = x;
    return least;
}

static int last_place(const Fuser *f, int g)
{
    const OpList *ops = &f->group[g].op;
    return f->place[ops->at[ops->n - 1]->id];
}

/* The number of operands of a group's ops that other groups of the region
 * produce. */
static int count_waits(const Fuser *f, int g)
{
    const OpList *ops = &f->group[g].op;
    int n = 0;
    for (int i = 0; i < ops->n; i++)
        for (int k = 0; k < ops->at[i]->nargs; k++) {
            int producer = fuse_producer(f, ops->at[i]->arg[k]);
            n += producer >= 0 && producer != g;
        }
    return n;
}

/* Counts down the operands that the readers of v, a result of group g, wait
 * for; adds the groups that wait for none to the heap. */
static void release(const Fuser *f, int g, const Value *v, int *waits,
                    Heap *ready)
{
    const OpList *users = &f->users[v->id];
    for (int u = 0; u < users->n; u++) {
        const Op *user = users->at[u];
        int reader = f->group_of[user->id];
        for (int i = 0; i < user->nargs && reader != g; i++)
            if (user->arg[i] == v && --waits[reader] == 0)
                heap_push(ready, last_place(f, reader));
    }
}

int *fuse_order(const Fuser *f, int *count)
{
    int *order = NEW_ARRAY(f->arena, int, f->ngroups + 1);
    int *waits = NEW_ARRAY(f->arena, int, f->ngroups + 1);
    Heap ready = {.at = NEW_ARRAY(f->arena, int, f->ngroups + 1)};
    int n = 0, done = 0;
    for (int g = 0; g < f->ngroups; g++) {
        if (!f->group[g].op.n)
            continue;
        n++;
        if ((waits[g] = count_waits(f, g)) == 0)
            heap_push(&ready, last_place(f, g));
    }
    while (ready.n) {
        int g = f->group_of[f->op.at[heap_pop(&ready)]->id];
        order[done++] = g;
        const OpList *ops = &f->group[g].op;
        for (int i = 0; i < ops->n; i++)
            for (int k = 0; k < ops->at[i]->nouts; k++)
                release(f, g, ops->at[i]->out[k], waits, &ready);
    }
    if (done < n)
        bug("fuse: groups wait for each other");
    *count = n;
    return order;
}
