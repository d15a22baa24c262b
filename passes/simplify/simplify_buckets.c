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
#include "ir/analysis/readers.h"
#include "passes/simplify/simplify.h"

/* A group under construction, and what the search for groups uses. */
typedef struct Bucket {
    Program *p;
    Readers *readers;
    VEC(Op *) member;
    VEC(Op *) delayed; /* ops that depend on a member, in order */
    VEC(Op *) marked;  /* ops whose results are marked in `waits` */
    bool *waits;       /* by value id: it depends on a member */
    Op **ready;        /* by op id: an all-to-all whose operands this op makes
                        * ready; by p->nops: one whose operands the region begins with */
    Op **next_ready;   /* by id of an all-to-all: another one for the same op */
} Bucket;

/* Whether v is only read by finish_grad, or by sums that are. */
static bool is_gradient(Readers *readers, const Value *v)
{
    int n;
    Op *const *reader = readers_of(readers, v, &n);
    for (int k = 0; k < n; k++) {
        const Op *op = reader[k];
        bool sum = op->kind == OP_all_reduce && op->nouts == op->nargs;
        if (op->kind != OP_finish_grad && !sum)
            return false;
        for (int i = 0; sum && i < op->nargs; i++)
            if (op->arg[i] == v && !is_gradient(readers, op->out[i]))
                return false;
    }
    return n > 0;
}

static bool is_left_to_storage(const Bucket *b, const Op *op)
{
    const Program *p = b->p;
    uint32_t axes = attr_axes(op);
    return p->stage < STAGE_STORED && op->kind == OP_all_reduce &&
           (axes & ~p->plan.tensor_axes) &&
           op->nargs == 1 && is_gradient(b->readers, op->out[0]);
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

static void mark(Bucket *b, Op *op)
{
    vec_push(b->p->arena, &b->marked, op);
    for (int i = 0; i < op->nouts; i++)
        b->waits[op->out[i]->id] = true;
}

/* Prepares for the next group. */
static void clear(Bucket *b)
{
    for (int k = 0; k < b->marked.n; k++)
        for (int i = 0; i < b->marked.at[k]->nouts; i++)
            b->waits[b->marked.at[k]->out[i]->id] = false;
    b->member.n = b->delayed.n = b->marked.n = 0;
}

/* Collects the all-reduces that can be grouped with `leader`. */
static void collect_bucket(Bucket *b, Op *leader)
{
    VEC(Op *) pending = {0}; /* delayed if another member follows */
    vec_push(b->p->arena, &b->member, leader);
    mark(b, leader);
    for (Op *op = leader->next; op; op = op->next)
        if (op_reads_any(op, b->waits)) {
            if ((op->kind != OP_finish_grad && op->phase != PH_OPTIMIZER) ||
                op->body)
                return;
            mark(b, op);
            vec_push(b->p->arena, &pending, op);
        } else if (joins(leader, op) && !is_left_to_storage(b, op)) {
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
    readers_enter(b->readers, at);
    at->why.loc = leader->why.loc;
    if (leader->why.text)
        at->why.text =
            arena_printf(p->arena, "%s; and %d more", leader->why.text, n - 1);
    Op *after = at->next;
    for (int i = 0; i < b->delayed.n; i++) {
        ir_move(b->delayed.at[i], at->region, after);
        readers_enter(b->readers, b->delayed.at[i]);
    }
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
static Op *last_producer(const Bucket *b, const Op *op, bool through_views)
{
    Op *last = NULL;
    for (int i = 0; i < op->nargs; i++) {
        Op *def = (through_views ? value_root(op->arg[i]) : op->arg[i])->def;
        if (def && def->region == op->region &&
            (!last || readers_precedes(b->readers, last, def)))
            last = def;
    }
    return last;
}

/* Where the list of the all-to-alls begins that an op makes ready; NULL: the region's begin. */
static Op **ready_after(const Bucket *b, const Op *op)
{
    return &b->ready[op ? op->id : b->p->nops];
}

/* Lists the all-to-alls of the region, those that are ready at the same place in order. */
static void list_exchanges(Bucket *b, const Region *r)
{
    *ready_after(b, NULL) = NULL;
    for (Op *op = r->last; op; op = op->prev) {
        *ready_after(b, op) = NULL;
        b->next_ready[op->id] = NULL;
    }
    for (Op *op = r->last; op; op = op->prev) {
        if (op->kind != OP_all_to_all)
            continue;
        Op **first = ready_after(b, last_producer(b, op, true));
        b->next_ready[op->id] = *first;
        *first = op;
    }
}

/* Whether the op is a member of a group of all-to-alls. */
static bool is_member(const Bucket *b, const Op *op)
{
    return op->nouts > 0 && b->waits[op->out[0]->id];
}

/* A search for all-to-alls to group with a leader: among those whose operands are ready near
 * the leader's, up to `end`, and nothing in between takes long. */
typedef struct Window {
    Op *end;             /* not yet included; NULL: the end of the region */
    const Op *reader;    /* the first reader of a member's result; NULL: none */
    VEC(Op *) candidate; /* in reverse order */
} Window;

/* Adds the all-to-alls after the leader that `op` makes ready. */
static void add_candidates(const Bucket *b, Window *w, const Op *op)
{
    const Op *leader = b->member.at[0];
    for (Op *c = *ready_after(b, op); c; c = b->next_ready[c->id]) {
        if (c->region != leader->region || !readers_precedes(b->readers, leader, c) ||
            !joins(leader, c) || last_producer(b, c, true) != op)
            continue;
        vec_push(b->p->arena, &w->candidate, c);
        Op **at = w->candidate.at;
        for (int i = w->candidate.n - 1;
             i > 0 && readers_precedes(b->readers, at[i - 1], c); i--) {
            at[i] = at[i - 1];
            at[i - 1] = c;
        }
    }
}

/* Moves the end of the window to the next op that takes long and is no member; or to the first
 * reader: what is ready after it cannot be exchanged before it. */
static void extend_window(const Bucket *b, Window *w)
{
    for (; w->end && w->end != w->reader; w->end = w->end->next) {
        if (is_member(b, w->end))
            continue;
        if (takes_long(w->end))
            return;
        add_candidates(b, w, w->end);
    }
}

static void add_exchange(Bucket *b, Window *w, Op *op)
{
    mark(b, op);
    vec_push(b->p->arena, &b->member, op);
    for (int i = 0; i < op->nouts; i++) {
        int n;
        Op *const *reader = readers_of(b->readers, op->out[i], &n);
        if (n > 0 && (!w->reader || readers_precedes(b->readers, reader[0], w->reader)))
            w->reader = reader[0];
    }
}

/* Collects the all-to-alls that can be grouped with `leader`, which is moved after what
 * makes their operands. None of what the same op makes ready: a reader of the leader's
 * results would wait for the others. */
static void collect_exchanges(Bucket *b, Op *leader)
{
    Op *begin = last_producer(b, leader, true);
    Window w = {.end = begin ? begin->next : leader->region->first};
    add_exchange(b, &w, leader);
    if (!begin)
        add_candidates(b, &w, NULL);
    while (begin && !takes_long(begin)) {
        begin = begin->prev;
        add_candidates(b, &w, begin);
    }
    for (extend_window(b, &w); w.candidate.n > 0; extend_window(b, &w)) {
        Op *op = w.candidate.at[--w.candidate.n];
        Op *last = last_producer(b, op, false);
        bool late = last && w.reader && !readers_precedes(b->readers, last, w.reader);
        if (late || op_reads_any(op, b->waits))
            continue;
        if (last && readers_precedes(b->readers, leader, last)) {
            ir_move(leader, leader->region, last->next);
            readers_enter(b->readers, leader);
        }
        add_exchange(b, &w, op);
    }
}

/* ---- regions ------------------------------------------------------------- */

/* Forms groups from the first op to the last; false: none was found. A group can make one of
 * earlier ops possible. */
static bool form_groups(Bucket *b, Region *r)
{
    bool found = false;
    list_exchanges(b, r);
    for (Op *op = r->first, *next; op; op = next) {
        Op *prev = op->prev;
        bool exchange = op->kind == OP_all_to_all;
        next = op->next;
        if (exchange)
            collect_exchanges(b, op);
        else if (op->kind == OP_all_reduce && !is_left_to_storage(b, op))
            collect_bucket(b, op);
        if (b->member.n > 1) {
            merge(b, b->member.at[exchange ? 0 : b->member.n - 1]);
            next = prev ? prev->next : r->first; /* ops have moved */
            found = true;
        }
        clear(b);
    }
    return found;
}

static void group_region(Bucket *b, Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        if (op->body)
            group_region(b, op->body);
    while (form_groups(b, r))
        continue;
}

void simplify_buckets(Program *p, Region *r)
{
    Bucket b = {.p = p, .readers = readers_new(p),
                .waits = NEW_ARRAY(p->arena, bool, p->nvalues + 1),
                .ready = NEW_ARRAY(p->arena, Op *, p->nops + 1),
                .next_ready = NEW_ARRAY(p->arena, Op *, p->nops + 1)};
    group_region(&b, r);
}
