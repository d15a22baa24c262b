/* simplify_buckets.c: joins independent all-reduces over the same axes into one
 * grouped op, and so all-to-alls.
 *
 * before   %a = all_reduce{axes={tp}} %x
 *          %da = finish_grad{…} %a
 *          %b = all_reduce{axes={tp}} %y
 *          %db = finish_grad{…} %b
 * after    %a, %b = all_reduce{axes={tp}} %x, %y
 *          %da = finish_grad{…} %a
 *          %db = finish_grad{…} %b
 *
 * The group runs in the place of its last member. An op between the members
 * that reads an earlier one is moved after the group. Only ops at the end of a
 * gradient may be moved (finish_grad and optimizer ops that depend on it):
 * delaying others would cost memory or time. No member may depend on another.
 * Sums of gradients over data axes (mesh axes that no `parallelize` names) are
 * not grouped here: the pass storage moves them to where the gradients are
 * computed, unit by unit.
 *
 * All-to-alls are joined if their operands are ready at the same place: from that of the
 * first operand to that of the last one, nothing takes long. Else the first one would begin
 * later. The group runs before the first reader of a result:
 *
 * before   %r = gather_rows %x, …
 *          %w = gather_pairs %y, …
 *          %r.2 = all_to_all{axes={ep}} %r
 *          %z = grouped_matmul %r.2, …
 *          %w.2 = all_to_all{axes={ep}} %w
 * after    %r.2, %w.2 = all_to_all{axes={ep}} %r, %w
 *          %z = grouped_matmul %r.2, …
 */
#include "ir/analysis/alias.h"
#include "passes/simplify/simplify.h"

/* A group under construction. */
typedef struct Bucket {
    Program *p;
    VEC(Op *) member;
    VEC(Op *) delayed; /* ops that depend on a member, in order */
    bool *waits;       /* by value id: it depends on a member */
} Bucket;

/* Whether v is only read by finish_grad, or by sums that are. */
static bool is_gradient(const Value *v)
{
    bool found = false;
    for (const Op *op = v->def->next; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v)
                continue;
            if (op->kind != OP_finish_grad &&
                !(op->kind == OP_all_reduce && op->nouts == op->nargs &&
                  is_gradient(op->out[i])))
                return false;
            found = true;
        }
    return found;
}

static bool is_left_to_storage(const Program *p, const Op *op)
{
    uint32_t axes = attr_axes(op);
    return p->stage < STAGE_STORED && op->kind == OP_all_reduce &&
           (axes & ~p->plan.tensor_axes) &&
           op->nargs == 1 && is_gradient(op->out[0]);
}

static bool joins(const Op *leader, const Op *op)
{
    if (op->kind != leader->kind || op->phase != leader->phase ||
        op->recomputed != leader->recomputed || attr_axes(leader) != attr_axes(op))
        return false;
    const Type *x = &leader->arg[0]->type, *y = &op->arg[0]->type;
    if (op->kind == OP_all_to_all)
        return type_same_holder(x, y);
    int axis = 0;
    while (!(attr_axes(leader) >> axis & 1))
        axis++;
    return x->dtype == y->dtype && type_same_holder(x, y) &&
           x->place.ax[axis].kind == y->place.ax[axis].kind;
}

static void mark(Bucket *b, const Op *op)
{
    for (int i = 0; i < op->nouts; i++)
        b->waits[op->out[i]->id] = true;
}

/* Collects the all-reduces that can be grouped with `leader`. */
static void collect_bucket(Bucket *b, Op *leader)
{
    VEC(Op *) pending = {0}; /* delayed if another member follows */
    b->member.n = b->delayed.n = 0;
    vec_push(b->p->arena, &b->member, leader);
    mark(b, leader);
    for (Op *op = leader->next; op; op = op->next)
        if (op_reads_any(op, b->waits)) {
            if ((op->kind != OP_finish_grad && op->phase != PH_OPTIMIZER) ||
                op->body)
                return;
            mark(b, op);
            vec_push(b->p->arena, &pending, op);
        } else if (joins(leader, op) && !is_left_to_storage(b->p, op)) {
            mark(b, op);
            vec_push(b->p->arena, &b->member, op);
            for (int i = 0; i < pending.n; i++)
                vec_push(b->p->arena, &b->delayed, pending.at[i]);
            pending.n = 0;
        }
}

/* Replaces the members by one op that has the operands and results of all: by `at`,
 * one of them. */
static void merge(Bucket *b, Op *at)
{
    Program *p = b->p;
    Op *leader = b->member.at[0];
    int n = 0;
    for (int i = 0; i < b->member.n; i++)
        n += b->member.at[i]->nargs;
    Value **arg = NEW_ARRAY(p->arena, Value *, n);
    Value **out = NEW_ARRAY(p->arena, Value *, n);
    n = 0;
    for (int i = 0; i < b->member.n; i++) {
        Op *op = b->member.at[i];
        for (int k = 0; k < op->nargs; k++, n++) {
            arg[n] = op->arg[k];
            out[n] = op->out[k];
        }
        if (op != at)
            ir_remove(op);
    }
    ir_set_members(at, n, arg, out);
    at->why.loc = leader->why.loc;
    if (leader->why.text)
        at->why.text =
            arena_printf(p->arena, "%s; and %d more", leader->why.text, n - 1);
    Op *after = at->next;
    for (int i = 0; i < b->delayed.n; i++)
        ir_move(b->delayed.at[i], at->region, after);
}

/* ---- all-to-alls --------------------------------------------------------- */

static bool takes_long(const Op *op)
{
    return op_is_einsum(op->kind) || op_is_conv(op->kind) || op_is_attention(op->kind) ||
           op_is_grouped_matmul(op->kind) || op_is_collective(op->kind) ||
           op->kind == OP_loop;
}

/* The op of the region that makes the last operand; NULL: all are available at its begin.
 * through_views: the op that makes the last one's memory. */
static Op *last_producer(const Op *op, bool through_views)
{
    Op *last = op->prev;
    for (; last; last = last->prev)
        for (int i = 0; i < op->nargs; i++) {
            const Value *v = through_views ? value_root(op->arg[i]) : op->arg[i];
            if (v->def == last)
                return last;
        }
    return last;
}

/* Whether an op after x, up to and including y, takes long, other than the members; x
 * precedes y, or is NULL. */
static bool is_long(const Bucket *b, const Region *r, const Op *x, const Op *y)
{
    for (const Op *op = x ? x->next : r->first; y; op = op->next) {
        if (takes_long(op) && !(op->nouts > 0 && b->waits[op->out[0]->id]))
            return true;
        if (op == y)
            break;
    }
    return false;
}

static bool precedes(const Op *x, const Op *y)
{
    while (y && y != x)
        y = y->prev;
    return !x || y;
}

/* Whether the operands of `op` are ready where those of the leader are. */
static bool is_ready_with(const Bucket *b, const Op *op)
{
    const Op *leader = b->member.at[0];
    const Op *x = last_producer(leader, true), *y = last_producer(op, true);
    return precedes(x, y) ? !is_long(b, op->region, x, y) : !is_long(b, op->region, y, x);
}

/* Collects the all-to-alls that can be grouped with `leader`, which is moved after what
 * makes their operands. */
static void collect_exchanges(Bucket *b, Op *leader)
{
    vec_push(b->p->arena, &b->member, leader);
    mark(b, leader);
    for (Op *op = leader->next; op; op = op->next) {
        if (!joins(leader, op) || !is_ready_with(b, op))
            continue;
        Op *last = last_producer(op, false);
        bool is_read = op_reads_any(op, b->waits);
        for (Op *at = last; at && at != leader && precedes(leader, at); at = at->prev)
            is_read |= op_reads_any(at, b->waits);
        if (is_read) /* by the op, or by one that would have to wait */
            continue;
        if (last && precedes(leader, last))
            ir_move(leader, leader->region, last->next);
        mark(b, op);
        vec_push(b->p->arena, &b->member, op);
    }
}

void simplify_buckets(Program *p, Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        if (op->body)
            simplify_buckets(p, op->body);
    for (Op *op = r->first; op;) {
        Bucket b = {.p = p};
        bool exchange = op->kind == OP_all_to_all;
        if (exchange || (op->kind == OP_all_reduce && !is_left_to_storage(p, op))) {
            b.waits = NEW_ARRAY(p->arena, bool, p->nvalues);
            if (exchange)
                collect_exchanges(&b, op);
            else
                collect_bucket(&b, op);
        }
        if (b.member.n > 1) {
            merge(&b, b.member.at[exchange ? 0 : b.member.n - 1]);
            op = r->first; /* ops have moved */
        } else {
            op = op->next;
        }
    }
}
