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

void recompute_choose(Pair *r)
{
    Program *p = r->p;
    Cut c = {.r = r};

    c.number = NEW_ARRAY(p->arena, int, p->nvalues);
    c.mark = NEW_ARRAY(p->arena, int, p->nvalues);
    r->saved = NEW_ARRAY(p->arena, bool, p->nvalues);
    r->again = NEW_ARRAY(p->arena, bool, p->nvalues);
    r->nvalues = p->nvalues;
    for (int i = 0; i < r->needed.n; i++)
        collect(&c, r->needed.at[i]);
    int nneeded = c.node.n;
    for (int i = 0; i < c.node.n; i++) {
        Value *v = c.node.at[i];
        if (!recompute_clonable(r, v))
            continue;
        for (int k = 0; k < v->def->nargs; k++)
            if (!is_one_to_one(v->def) || k == v->index)
                collect(&c, v->def->arg[k]);
    }

    int source = 2 * c.node.n, sink = source + 1;
    FlowGraph *g = flow_graph(p->arena, sink + 1);
    for (int i = 0; i < c.node.n; i++)
        put_edges(&c, g, i, source);
    for (int i = 0; i < nneeded; i++)
        flow_edge(g, 2 * i + 1, sink, FLOW_INFINITE);
    if (flow_run(g, source, sink) >= FLOW_INFINITE)
        bug("no set of values suffices for the backward pass");
    for (int i = 0; i < c.node.n; i++)
        r->saved[c.node.at[i]->id] =
            !flow_behind(g, 2 * i) && flow_behind(g, 2 * i + 1);
    for (int i = 0; i < nneeded; i++)
        r->again[c.node.at[i]->id] = !r->saved[c.node.at[i]->id];
}
