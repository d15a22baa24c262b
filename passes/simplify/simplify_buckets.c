/* simplify_buckets.c: joins independent all-reduces over the same axes into one
 * grouped op.
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
 */
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
    if (op->kind != OP_all_reduce || op->phase != leader->phase ||
        attr_axes(leader) != attr_axes(op))
        return false;
    const Type *x = &leader->arg[0]->type, *y = &op->arg[0]->type;
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

/* Replaces the members, at the position of the last one, by one op that has the
 * operands and results of all. */
static void merge(Bucket *b)
{
    Program *p = b->p;
    Op *leader = b->member.at[0], *last = b->member.at[b->member.n - 1];
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
        if (op != last)
            ir_remove(op);
    }
    ir_set_members(last, n, arg, out);
    last->why.loc = leader->why.loc;
    if (leader->why.text)
        last->why.text =
            arena_printf(p->arena, "%s; and %d more", leader->why.text, n - 1);
    Op *after = last->next;
    for (int i = 0; i < b->delayed.n; i++)
        ir_move(b->delayed.at[i], last->region, after);
}

void simplify_buckets(Program *p, Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        if (op->body)
            simplify_buckets(p, op->body);
    for (Op *op = r->first; op;) {
        Bucket b = {.p = p};
        if (op->kind == OP_all_reduce && !is_left_to_storage(p, op)) {
            b.waits = NEW_ARRAY(p->arena, bool, p->nvalues);
            collect_bucket(&b, op);
        }
        if (b.member.n > 1) {
            merge(&b);
            op = r->first; /* ops have moved */
        } else {
            op = op->next;
        }
    }
}
