/* fuse_clean.c: prepares the program for grouping.
 *
 * It removes ops that do nothing at run time (detach, a cast to the same type),
 * and clones producers that cost nothing (constants, indices, one-hot rows,
 * broadcasts, views) for each consumer, so that a shared constant neither
 * connects two kernels nor is stored in memory.
 *
 *   %c = full {…}                   %c = full {…}
 *   %x = mul %a, %c           ->    %x = mul %a, %c
 *   %y = mul %b, %c                 %c.2 = full {…}
 *                                   %y = mul %b, %c.2
 */
#include "passes/fuse.h"

static bool is_identity(const Op *op)
{
    static const OpKind list[] = {OP_detach,   OP_cast,        OP_broadcast,
                                  OP_boundary, OP_finish_grad, OP_reshape};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (op->kind == list[i])
            return type_equal(&op->arg[0]->type, &op->out[0]->type);
    return false;
}

static bool is_trivial(OpKind kind)
{
    return kind == OP_full || kind == OP_iota || kind == OP_onehot ||
           kind == OP_broadcast || kind == OP_reshape;
}

Op *fuse_copy_op(Program *p, const Op *op, Value *const *args, Op *before)
{
    Build b = {.p = p,
               .region = before->region,
               .before = before,
               .phase = before->phase,
               .loc = op->loc,
               .path = op->path};
    Op *copy = ir_op_typed(&b, op->kind, op->nargs, args, op->attr, 1,
                           &op->out[0]->type, &op->out[0]->name);
    copy->out[0]->loc = op->out[0]->loc;
    for (int a = 0; a < p->mesh.n; a++)
        copy->out[0]->why[a] = op->out[0]->why[a];
    return copy;
}

static bool reads(const Op *op, const Value *v)
{
    for (int i = 0; i < op->nargs; i++)
        if (op->arg[i] == v)
            return true;
    return false;
}

/* The first consumer keeps the op, unless an op that cannot be fused, or a
 * yield, needs it too. */
static void copy_for_users(Program *p, Op *op)
{
    Region *r = op->region;
    Value *v = op->out[0];
    bool taken = false, used = false;
    for (int i = 0; i < r->nyields; i++)
        taken |= r->yield[i] == v;
    for (const Op *user = op->next; user; user = user->next)
        taken |= reads(user, v) && !fuse_takes(user);
    for (Op *user = op->next; user; user = user->next) {
        if (!reads(user, v) || !fuse_takes(user))
            continue;
        if (!taken && !used) {
            used = true;
            op->phase = user->phase;
            continue;
        }
        Value *copy = fuse_copy_op(p, op, op->arg, user)->out[0];
        for (int i = 0; i < user->nargs; i++)
            if (user->arg[i] == v)
                user->arg[i] = copy;
    }
}

void fuse_clean(Program *p, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (!is_identity(op))
            continue;
        ir_replace_uses(r, op->out[0], op->arg[0]);
        ir_remove(op);
    }
    for (Op *op = r->last; op; op = op->prev)
        if (is_trivial(op->kind))
            copy_for_users(p, op);
}
