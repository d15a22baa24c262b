/* recompute_cut.c: what to keep for the way back, as a minimum cut.
 *
 * Every forward value that could matter is two nodes, with an edge between
 * them whose capacity is what it costs to keep the value. Edges without limit
 * lead from an op's operands to its result where the op may run again; from
 * the source to a value that cannot be had again; and from what the way back
 * reads to the sink. Whatever cuts the source from the sink is a set of values
 * from which all the rest can be computed again; the least cut keeps the least
 * bytes. Values that are available anyway have no edges into them.
 */
#include "base/bug.h"
#include "passes/maxflow.h"
#include "passes/recompute.h"

typedef struct Cut {
    Pair *r;
    Values node; /* the values that matter; value i is nodes 2i, 2i+1 */
    int *number; /* by id: 1 + its place in `node`; 0: not in it */
    int *mark;   /* by id: see outlives_kernel */
    int question;
} Cut;

static bool is_cheap(const Op *op)
{
    return op_info(op->kind)->cheap;
}

/* Whether v is read by an op that is a kernel of its own, or again by an op
 * that depends on such a one: then v outlives the kernel that makes it. What
 * depends on v is marked with a number that belongs to this question, one
 * more where a kernel lies between. */
static bool outlives_kernel(Cut *c, const Value *v)
{
    int near = ++c->question * 2, far = near + 1;

    c->mark[v->id] = near;
    for (const Op *op = v->def->next; op != NULL; op = op->next) {
        bool reads = false;
        int most = 0;
        if (op->phase != v->def->phase)
            continue;
        for (int i = 0; i < op->nargs; i++) {
            int mark = c->mark[op->arg[i]->id];
            reads |= op->arg[i] == v;
            most = mark >= near && mark > most ? mark : most;
        }
        if (most == 0)
            continue;
        if (!is_cheap(op))
            most = far;
        if (reads && most == far)
            return true;
        for (int i = 0; i < op->nouts; i++)
            c->mark[op->out[i]->id] = most;
    }
    return false;
}

/* Whether the forward pass writes v to memory in any case. What only cheap
 * ops around it touch may never leave registers. */
static bool is_written(Cut *c, const Value *v)
{
    const Pair *r = c->r;

    if (v->def == NULL || !is_cheap(v->def) || outlives_kernel(c, v))
        return true;
    for (int i = 0; r->outer != NULL && i < r->forward->ncarry; i++)
        if (r->from->yield[i] == v)
            return true;
    return false;
}

/* In eighths of a byte: writing what need not be written counts for one. */
static int64_t cost(Cut *c, const Value *v)
{
    int64_t bytes = type_local_bytes(&v->type, &c->r->p->mesh);
    return bytes * (is_written(c, v) ? 8 : 9);
}

static void collect(Cut *c, Value *v)
{
    if (recompute_available(c->r, v) || c->number[v->id] != 0)
        return;
    vec_push(c->r->p->arena, &c->node, v);
    c->number[v->id] = c->node.n;
}

/* An op whose results stand each for one operand. */
static bool is_one_to_one(const Op *op)
{
    return op_is_collective(op->kind);
}

static void put_edges(Cut *c, FlowGraph *g, int i, int source)
{
    Value *v = c->node.at[i];

    flow_edge(g, 2 * i, 2 * i + 1, cost(c, v));
    if (!recompute_clonable(c->r, v)) {
        flow_edge(g, source, 2 * i, FLOW_INFINITE);
        return;
    }
    for (int k = 0; k < v->def->nargs; k++) {
        int from = c->number[v->def->arg[k]->id];
        if (from > 0 && (!is_one_to_one(v->def) || k == v->index))
            flow_edge(g, 2 * (from - 1) + 1, 2 * i, FLOW_INFINITE);
    }
}

/* What is made again for the needed values, with what it is made from. */
static void find_making(Cut *c, int nneeded)
{
    Pair *r = c->r;
    Values todo = {0};

    for (int i = 0; i < nneeded; i++)
        vec_push(r->p->arena, &todo, c->node.at[i]);
    while (todo.n > 0) {
        Value *v = todo.at[--todo.n];
        if (r->saved[v->id] || r->making[v->id] || recompute_available(r, v))
            continue;
        r->making[v->id] = true;
        const Op *op = v->def;
        for (int k = 0; k < op->nargs; k++)
            if (!is_one_to_one(op) || k == v->index)
                vec_push(r->p->arena, &todo, op->arg[k]);
    }
}

/* Collects what matters for the needed values; returns how many these are. */
static int collect_nodes(Cut *c)
{
    Pair *r = c->r;

    for (int i = 0; i < r->needed.n; i++)
        collect(c, r->needed.at[i]);
    int nneeded = c->node.n;
    for (int i = 0; i < c->node.n; i++) {
        Value *v = c->node.at[i];
        if (!recompute_clonable(r, v))
            continue;
        for (int k = 0; k < v->def->nargs; k++)
            if (!is_one_to_one(v->def) || k == v->index)
                collect(c, v->def->arg[k]);
    }
    return nneeded;
}

/* The values that the least cut keeps, by id. */
static bool *cut(Cut *c, int *nneeded)
{
    Pair *r = c->r;
    Arena *a = r->p->arena;
    bool *kept = NEW_ARRAY(a, bool, r->nvalues);

    c->number = NEW_ARRAY(a, int, r->nvalues);
    c->mark = NEW_ARRAY(a, int, r->nvalues);
    *nneeded = collect_nodes(c);
    int source = 2 * c->node.n, sink = source + 1;
    FlowGraph *g = flow_graph(a, sink + 1);
    for (int i = 0; i < c->node.n; i++)
        put_edges(c, g, i, source);
    for (int i = 0; i < *nneeded; i++)
        flow_edge(g, 2 * i + 1, sink, FLOW_INFINITE);
    if (flow_run(g, source, sink) >= FLOW_INFINITE)
        bug("no set of values suffices for the backward pass");
    for (int i = 0; i < c->node.n; i++)
        kept[c->node.at[i]->id] =
            !flow_behind(g, 2 * i) && flow_behind(g, 2 * i + 1);
    return kept;
}

void recompute_choose(Pair *r)
{
    Program *p = r->p;
    Cut c = {.r = r}, plain = {.r = r};
    int n;

    r->nvalues = p->nvalues;
    recompute_find_stretches(r);
    if (p->plan.ncheckpoints > 0) {
        r->plain = true;
        r->held = cut(&plain, &n);
        r->plain = false;
    }
    r->saved = cut(&c, &n);
    r->again = NEW_ARRAY(p->arena, bool, p->nvalues);
    r->making = NEW_ARRAY(p->arena, bool, p->nvalues);
    for (int i = 0; i < n; i++)
        r->again[c.node.at[i]->id] = !r->saved[c.node.at[i]->id];
    find_making(&c, n);
}
