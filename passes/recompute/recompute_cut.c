/* recompute_cut.c: chooses the values to save for the backward pass by a
 * minimum cut.
 *
 * The graph has two nodes for each forward value that the backward pass reads
 * or that such a value can be recomputed from, with an edge between the two
 * whose capacity is the cost of saving the value. Edges of infinite capacity go
 * from the operands of an op to its result if the op may be recomputed; from
 * the source to a value that cannot be recomputed; and from a value that the
 * backward pass reads to the sink. A cut between source and sink is a set of
 * values from which all others can be recomputed; the minimum cut saves the
 * fewest bytes. Values that are available at no cost are not in the graph. (The
 * method is that of PyTorch's min-cut partitioner.)
 *
 * For recompute=fused the capacity is the memory traffic of saving the value, and that
 * of recomputing it is the capacity of an edge from the source to it: the minimum cut
 * has the least traffic.
 */
#include "base/bug.h"
#include "passes/recompute/maxflow.h"
#include "passes/recompute/recompute.h"

typedef struct Cut {
    Pair *r;
    Values node; /* values of the graph; value i is nodes 2i and 2i + 1 */
    int *number; /* by id: 1 + its index in `node`; 0: none */
    int *mark;   /* by id: see outlives_kernel */
    int question;
} Cut;

/* The last op of the producer's phase that reads v; NULL: none. */
static const Op *last_reader_in_phase(const Cut *c, const Value *v)
{
    int n;
    Op *const *reader = uses_readers(c->r->uses, v, &n);

    while (n > 0 && reader[n - 1]->phase != v->def->phase)
        n--;
    return n > 0 ? reader[n - 1] : NULL;
}

/* Whether v must be stored: a kernel other than its producer's reads it, or it
 * is read again by an op that depends on such a kernel. Values that depend
 * on v are marked `near`, or `far` if a kernel is between; the marks are unique
 * for each call. */
static bool outlives_kernel(Cut *c, const Value *v)
{
    int near = ++c->question * 2, far = near + 1;
    const Op *last = last_reader_in_phase(c, v);

    c->mark[v->id] = near;
    for (const Op *op = v->def; last != NULL && op != last;) {
        op = op->next;
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
        if (!op_info(op->kind)->cheap)
            most = far;
        if (reads && most == far)
            return true;
        for (int i = 0; i < op->nouts; i++)
            c->mark[op->out[i]->id] = most;
    }
    return false;
}

/* Whether the forward pass stores v in any case. A value that only cheap ops
 * around it read may stay in registers. */
static bool is_written(Cut *c, const Value *v)
{
    const Pair *r = c->r;

    if (v->def == NULL || !op_info(v->def->kind)->cheap ||
        outlives_kernel(c, v))
        return true;
    for (int i = 0; r->outer != NULL && i < r->forward->ncarry; i++)
        if (r->from->yield[i] == v)
            return true;
    return false;
}

/* The cost in eighths of a byte: storing a value that need not be stored costs
 * one eighth more. */
static int64_t cost(Cut *c, const Value *v)
{
    int64_t bytes = type_local_bytes(&v->type, &c->r->p->mesh);
    return bytes * (is_written(c, v) ? 8 : 9);
}

/* Whether kernels of elementwise ops read v in the backward pass, and whether other ops
 * do, which find it in memory only. */
typedef struct BackwardReaders {
    bool elementwise, other;
} BackwardReaders;

static BackwardReaders backward_readers(const Cut *c, const Value *v)
{
    const Pair *r = c->r;
    BackwardReaders found = {false, false};
    const Value *back = r->outer != NULL ? value_map_get(&r->back, v) : v;
    int n = 0;
    Op *const *reader = back != NULL ? uses_readers(r->uses, back, &n) : NULL;

    for (int k = 0; k < n; k++) {
        bool cheap = op_info(reader[k]->kind)->cheap;
        found.elementwise |= cheap && recompute_is_way_back(r, reader[k]);
        found.other |= !cheap && recompute_is_way_back(r, reader[k]);
    }
    return found;
}

/* Whether traffic decides about v. In checkpointed modules memory does. */
static bool is_fused(const Cut *c, const Value *v)
{
    const Pair *r = c->r;
    return r->p->train.recompute == RECOMPUTE_FUSED &&
           (r->plain || v->def == NULL || recompute_stretch(r, v->def) == 0);
}

/* The costs for RECOMPUTE_FUSED, in eighths of a byte of traffic: a saved value is
 * written, unless the forward pass does so in any case, and read by the kernels that
 * would compute it; one that is recomputed is written for readers that are no such
 * kernels. An eighth decides between equal traffic for fewer bytes. */
static int64_t fused_cost(Cut *c, const Value *v, bool saved)
{
    int64_t bytes = type_local_bytes(&v->type, &c->r->p->mesh);
    BackwardReaders readers = backward_readers(c, v);

    if (!saved)
        return readers.other ? 8 * bytes : 0;
    bool read = readers.elementwise || !readers.other;
    return bytes * (1 + 8 * (!is_written(c, v) + read));
}

static void add_node(Cut *c, Value *v)
{
    if (recompute_available(c->r, v) || c->number[v->id] != 0)
        return;
    vec_push(c->r->p->arena, &c->node, v);
    c->number[v->id] = c->node.n;
}

/* Whether each result depends on one operand only. */
static bool is_one_to_one(const Op *op)
{
    return op_is_collective(op->kind);
}

static void put_edges(Cut *c, FlowGraph *g, int i, int source)
{
    Value *v = c->node.at[i];
    bool fused = is_fused(c, v);

    flow_edge(g, 2 * i, 2 * i + 1, fused ? fused_cost(c, v, true) : cost(c, v));
    if (!recompute_clonable(c->r, v)) {
        flow_edge(g, source, 2 * i, FLOW_INFINITE);
        return;
    }
    if (fused)
        flow_edge(g, source, 2 * i, fused_cost(c, v, false));
    for (int k = 0; k < v->def->nargs; k++) {
        int from = c->number[v->def->arg[k]->id];
        if (from > 0 && (!is_one_to_one(v->def) || k == v->index))
            flow_edge(g, 2 * (from - 1) + 1, 2 * i, FLOW_INFINITE);
    }
}

/* Finds the values that are recomputed: needed ones, and those they depend
 * on. */
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

/* Collects the values that needed values depend on; returns the number of
 * needed ones, which come first. */
static int collect_nodes(Cut *c)
{
    Pair *r = c->r;

    for (int i = 0; i < r->needed.n; i++)
        add_node(c, r->needed.at[i]);
    int nneeded = c->node.n;
    for (int i = 0; i < c->node.n; i++) {
        Value *v = c->node.at[i];
        if (!recompute_clonable(r, v))
            continue;
        for (int k = 0; k < v->def->nargs; k++)
            if (!is_one_to_one(v->def) || k == v->index)
                add_node(c, v->def->arg[k]);
    }
    return nneeded;
}

/* The values that the minimum cut saves, by id. */
static bool *min_cut(Cut *c, int *nneeded)
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
            !flow_on_sink_side(g, 2 * i) && flow_on_sink_side(g, 2 * i + 1);
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
        r->held = min_cut(&plain, &n);
        r->plain = false;
    }
    r->saved = min_cut(&c, &n);
    r->recomputed = NEW_ARRAY(p->arena, bool, p->nvalues);
    r->making = NEW_ARRAY(p->arena, bool, p->nvalues);
    for (int i = 0; i < n; i++)
        r->recomputed[c.node.at[i]->id] = !r->saved[c.node.at[i]->id];
    find_making(&c, n);
}
