/* schedule_list.c: orders ops so that collectives of the stream `tensor` run beside work
 * that does not depend on them: those of one piece (async_tp.c) beside the matmuls of
 * another, and exchanges of tokens with experts beside shared experts, recomputed ops and
 * gradients of weights.
 *
 * before   norm 1, norm 2, gather 1, gather 2, matmul 1, matmul 2, reduce 1, reduce 2,
 *          norm' 1, norm' 2, gather' 1, gather' 2, …
 * after    norm 1, gather 1, norm 2, gather 2 | matmul 1, reduce 1 | most of matmul 2
 *          | norm' 1, gather' 1 | rest of matmul 2, reduce 2 | …
 *
 * before   rows to experts, experts, results back, combine, shared experts, add
 * after    rows to experts | part of shared experts, experts, results back
 *          | rest of shared experts, combine, add
 *
 * List scheduling on two resources, the compute stream and that of tensor axes. Where
 * compute is free, it takes
 *   - an urgent op: one that leads to a collective with less work than that
 *     collective's, if it is ready (its operands are computed) or will be soon; else
 *   - of the ops that are ready, the first by the number of collectives that it follows,
 *     then by piece, then in program order; a filler (which leads to no collective, such
 *     as the gradient of a weight) only if no other op is ready;
 *   - else the op that is ready first.
 * Collectives are issued with the op that makes their last operand. How long compute
 * waits for an urgent op, and whether fillers come last, is tried: the quickest order is
 * taken, by the costs of issue.h. Ops that are no pieces keep the program's order unless
 * another one is quicker, gathers units in the same order, and needs about as much memory.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/analysis/expert_items.h"
#include "ir/analysis/uses.h"
#include "passes/schedule/issue.h"

typedef struct Node {
    Op *op;
    double cost;   /* of compute or of the collective */
    double lead;   /* compute from here to the next collective; INFINITY: none */
    double reward; /* the cost of that collective */
    int depth;     /* collectives over tensor axes that it follows */
    int producers; /* the number of ops in the list that it needs, but for lazy ones */
    bool lazy;     /* depends on no piece, or gathers a unit: it is issued before its first
                    * reader */
    VEC(int) reader;
    double bytes;  /* of its results; 0: of a view, or lazy */
    int reads;     /* by operands of the list; with escapes, others read them too */
    bool escapes;
    /* of an attempt: */
    double ready;  /* when its operands are computed */
    int missing;   /* producers that are not issued */
    int unread;    /* reads that are not issued */
    bool issued;
} Node;

/* How an attempt chooses. */
typedef struct Policy {
    double patience;   /* how long compute waits for an urgent op, in costs of the op
                        * that it could run meanwhile */
    bool fillers_last;
    bool as_written;   /* ops of the compute stream stay in program order */
} Policy;

typedef struct List {
    const Program *p;
    Node *node;
    int n;
    int *node_of;  /* by op id, plus 1; 0: not in the list */
    uint32_t nops;
    double live; /* bytes of results, in peak_of */
    /* of an attempt: */
    Policy policy;
    double compute, tensor; /* when the streams are free */
    int *order, nissued;
} List;

static bool is_collective(const Op *op)
{
    return op_is_collective(op->kind) && op->stream == STREAM_TENSOR;
}

/* ---- the graph ----------------------------------------------------------- */

static int producer(const List *l, const Value *v)
{
    const Op *def = v->def;
    return def && def->id < l->nops ? l->node_of[def->id] - 1 : -1;
}

static void add_edge(List *l, int from, int to)
{
    Node *x = &l->node[from], *y = &l->node[to];
    int depth = x->depth + is_collective(x->op);
    y->depth = depth > y->depth ? depth : y->depth;
    if (x->lazy)
        return;
    y->lazy = false;
    y->producers++;
    vec_push(l->p->arena, &x->reader, to);
}

/* Counts the readers of each node, and finds readers outside of the list. */
static void find_lifetimes(List *l, const Uses *uses)
{
    for (int i = 0; i < l->n; i++)
        for (int k = 0; k < l->node[i].op->nargs; k++) {
            int from = producer(l, l->node[i].op->arg[k]);
            if (from >= 0)
                l->node[from].reads++;
        }
    for (int i = 0; i < l->n; i++) {
        Node *x = &l->node[i];
        int all = 0;
        for (int k = 0; k < x->op->nouts; k++) {
            const Value *out = x->op->out[k];
            all += uses->count[out->id];
            if (!x->lazy && !op_is_view(x->op->kind))
                x->bytes += (double)type_local_bytes(&out->type, &l->p->mesh);
        }
        x->escapes = all > x->reads;
    }
}

static void fill_nodes(List *l, const Uses *uses, Op *first, const Op *end)
{
    for (Op *op = first; op != end; op = op->next)
        l->n++;
    l->node = NEW_ARRAY(l->p->arena, Node, l->n);
    l->nops = l->p->nops;
    l->node_of = NEW_ARRAY(l->p->arena, int, l->nops);
    bool pieces = l->p->train.async_tp > 1;
    int i = 0;
    for (Op *op = first; op != end; op = op->next, i++) {
        l->node[i] = (Node){.op = op, .cost = schedule_cost(l->p, op), .lead = INFINITY,
                            .lazy = pieces ? op->piece == 0 : op_is_unit_gather(op)};
        l->node_of[op->id] = i + 1;
        for (int k = 0; k < op->nargs; k++)
            if (producer(l, op->arg[k]) >= 0)
                add_edge(l, producer(l, op->arg[k]), i);
    }
    find_lifetimes(l, uses);
    for (i = l->n - 1; i >= 0; i--) {
        Node *x = &l->node[i];
        if (is_collective(x->op)) {
            x->lead = 0;
            x->reward = x->cost;
            continue;
        }
        for (int k = 0; k < x->reader.n; k++) {
            const Node *y = &l->node[x->reader.at[k]];
            if (y->lead + x->cost < x->lead) {
                x->lead = y->lead + x->cost;
                x->reward = y->reward;
            }
        }
    }
}

/* ---- an attempt ---------------------------------------------------------- */

static bool is_urgent(const Node *x)
{
    return x->lead < x->reward;
}

static bool comes_first(const List *l, int a, int b)
{
    const Node *x = &l->node[a], *y = &l->node[b];
    if (l->policy.fillers_last && isinf(x->lead) != isinf(y->lead))
        return isinf(y->lead);
    if (x->depth != y->depth)
        return x->depth < y->depth;
    if (x->op->piece != y->op->piece)
        return x->op->piece < y->op->piece;
    return a < b;
}

/* The op of the compute stream that is issued next; -1: all are issued. */
static int choose(const List *l)
{
    int best = -1, urgent = -1, soonest = -1;
    for (int i = 0; i < l->n; i++) {
        const Node *x = &l->node[i];
        if (x->issued || x->missing > 0 || x->lazy)
            continue;
        if (l->policy.as_written)
            return i;
        if (soonest < 0 || x->ready < l->node[soonest].ready)
            soonest = i;
        if (is_urgent(x) && (urgent < 0 || x->ready < l->node[urgent].ready ||
                             (x->ready <= l->compute && comes_first(l, i, urgent))))
            urgent = i;
        if (x->ready <= l->compute && (best < 0 || comes_first(l, i, best)))
            best = i;
    }
    if (best < 0)
        return soonest;
    double until = l->compute + l->policy.patience * l->node[best].cost;
    return urgent >= 0 && l->node[urgent].ready <= until ? urgent : best;
}

static void issue(List *l, int i)
{
    Node *x = &l->node[i];
    for (int k = 0; k < x->op->nargs; k++) {
        int from = producer(l, x->op->arg[k]);
        if (from >= 0 && !l->node[from].issued)
            issue(l, from);
    }
    double *stream = is_collective(x->op) ? &l->tensor : &l->compute;
    double start = x->ready;
    if (is_collective(x->op) || schedule_computes(x->op)) {
        start = start > *stream ? start : *stream;
        *stream = start + x->cost;
    }
    x->issued = true;
    l->order[l->nissued++] = i;
    for (int k = 0; k < x->reader.n; k++) {
        Node *y = &l->node[x->reader.at[k]];
        y->missing--;
        y->ready = y->ready > start + x->cost ? y->ready : start + x->cost;
    }
    /* What takes no time of compute follows its producers. */
    for (int k = 0; k < x->reader.n; k++) {
        int next = x->reader.at[k];
        const Node *y = &l->node[next];
        if (!y->issued && y->missing == 0 && !schedule_computes(y->op))
            issue(l, next);
    }
}

/* Fills l->order; returns when both streams are done. */
static double attempt(List *l, Policy policy)
{
    l->policy = policy;
    l->compute = l->tensor = 0;
    l->nissued = 0;
    for (int i = 0; i < l->n; i++) {
        l->node[i].ready = 0;
        l->node[i].missing = l->node[i].producers;
        l->node[i].issued = false;
    }
    for (int i = 0; i < l->n; i++)
        if (!l->node[i].issued && l->node[i].missing == 0 && !l->node[i].lazy &&
            !schedule_computes(l->node[i].op))
            issue(l, i);
    for (int i = choose(l); i >= 0; i = choose(l))
        issue(l, i);
    for (int i = 0; i < l->n; i++) /* what no piece reads */
        if (!l->node[i].issued)
            issue(l, i);
    return l->compute > l->tensor ? l->compute : l->tensor;
}

/* ---- memory -------------------------------------------------------------- */

static void read_operands(List *l, const Node *x);

/* Frees the results of a node that nothing reads any more. The memory of a view is that of
 * its operand. */
static void free_results(List *l, const Node *x)
{
    l->live -= x->bytes;
    if (op_is_view(x->op->kind))
        read_operands(l, x);
}

static void read_operands(List *l, const Node *x)
{
    for (int k = 0; k < x->op->nargs; k++) {
        int from = producer(l, x->op->arg[k]);
        if (from >= 0 && --l->node[from].unread == 0 && !l->node[from].escapes)
            free_results(l, &l->node[from]);
    }
}

/* The most bytes of results that are live at one time in l->order. */
static double peak_of(List *l)
{
    double peak = 0;
    l->live = 0;
    for (int i = 0; i < l->n; i++)
        l->node[i].unread = l->node[i].reads;
    for (int i = 0; i < l->n; i++) {
        const Node *x = &l->node[l->order[i]];
        l->live += x->bytes;
        peak = l->live > peak ? l->live : peak;
        if (!op_is_view(x->op->kind))
            read_operands(l, x);
    }
    return peak;
}

/* An order of other ops than pieces is taken if it is quicker than the program's by a
 * hundredth, and its results need at most an eighth more memory, or a sixteenth of what the
 * rank stores. */
static const double LEAST_GAIN = 0.01, MORE_RESULTS = 0.125, MORE_MEMORY = 0.0625;

/* Bytes of parameters, their states and stacks of saved values. */
static double stored_bytes(const Program *p)
{
    double bytes = 0;
    for (int i = 0; i < p->param.n; i++)
        bytes += (double)type_local_bytes(&p->param.at[i].type, &p->mesh);
    for_ops(op, p->step)
        for (int i = op->ncarry; op->kind == OP_loop && i < op->nouts; i++)
            bytes += (double)type_local_bytes(&op->out[i]->type, &p->mesh);
    return bytes;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Whether l->order gathers units in the order in which the program does: gathers are
 * prefetched, and one that is issued before another delays it. */
static bool gathers_in_order(const List *l)
{
    int last = -1;
    for (int i = 0; i < l->n; i++) {
        if (!op_is_unit_gather(l->node[l->order[i]].op))
            continue;
        if (l->order[i] < last)
            return false;
        last = l->order[i];
    }
    return true;
}

/* Orders the ops from `first` up to `end`. */
static void order(const Program *p, const Uses *uses, Region *r, Op *first, Op *end)
{
    static const double patience[] = {0, 0.25, 0.5, 1, 2};
    bool pieces = p->train.async_tp > 1;
    List l = {.p = p};
    fill_nodes(&l, uses, first, end);
    l.order = NEW_ARRAY(p->arena, int, l.n);
    Policy best = {.as_written = true};
    double least = (1 - LEAST_GAIN) * attempt(&l, best), most = peak_of(&l);
    most += larger(MORE_RESULTS * most, MORE_MEMORY * stored_bytes(p));
    if (pieces)
        least = most = INFINITY;
    for (int k = 0; k < 2 * (int)(sizeof patience / sizeof *patience); k++) {
        Policy policy = {.patience = patience[k / 2], .fillers_last = k % 2};
        double time = attempt(&l, policy);
        if (time < least && peak_of(&l) <= most && (pieces || gathers_in_order(&l))) {
            least = time;
            best = policy;
        }
    }
    if (best.as_written)
        return;
    attempt(&l, best);
    for (int i = 0; i < l.n; i++)
        ir_move(l.node[l.order[i]].op, r, end);
}

/* ---- regions ------------------------------------------------------------- */

/* Ops that stay in their place. */
static bool stays(const Op *op)
{
    return op->body ? op->kind != OP_fused : op->kind == OP_param || op->kind == OP_input ||
                                                 op->kind == OP_scalar;
}

/* The part of a path up to its first array element, else its first name:
 * "layers.3" of "layers.3.attention.wq". */
static const char *window_of(const Program *p, const char *path)
{
    size_t n = strcspn(path, ".");
    if (path[n] && (path[n + 1] == '*' || (path[n + 1] >= '0' && path[n + 1] <= '9')))
        n += 1 + strcspn(path + n + 1, ".");
    return arena_printf(p->arena, "%.*s", (int)n, path);
}

/* Whether the op belongs to the module of the window, which begins with the first op
 * that has a module. Layers that are not in a loop are ordered one by one: else
 * what one layer keeps in memory, all would. */
static bool is_in_window(const Program *p, const Op *op, const char **window)
{
    if (!*op->path)
        return true;
    const char *own = window_of(p, op->path);
    if (!**window)
        *window = own;
    return strcmp(*window, own) == 0;
}

/* Whether the plan lets the exchanges of the op's experts overlap other work. */
static bool overlaps(const Program *p, const Op *op)
{
    const ExpertItem *item = expert_item(p, op);
    return op_is_grouped_matmul(op->kind) && item && item->overlap;
}

/* Whether the ops from `first` up to `end` exchange tokens of such experts. */
static bool exchange_tokens(const Program *p, const Op *first, const Op *end)
{
    bool multiply = false, exchange = false;
    for (const Op *op = first; op != end; op = op->next) {
        multiply |= overlaps(p, op);
        exchange |= is_collective(op) && (attr_axes(op) & p->plan.experts.axes);
    }
    return multiply && exchange;
}

static void order_region(const Program *p, const Uses *uses, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        if (op->kind == OP_loop)
            order_region(p, uses, op->body);
        next = op->next;
        if (stays(op))
            continue;
        bool pieces = false;
        const char *window = "";
        for (next = op; next && !stays(next) && next->phase == op->phase &&
                        is_in_window(p, next, &window);
             next = next->next)
            pieces |= next->piece > 0;
        if (pieces || exchange_tokens(p, op, next))
            order(p, uses, r, op, next);
    }
}

void schedule_list(Program *p)
{
    if (p->train.async_tp <= 1 && !p->plan.experts.axes)
        return;
    Uses uses = uses_find(p);
    order_region(p, &uses, p->step);
}
