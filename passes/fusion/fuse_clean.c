/* fuse_clean.c: prepares the program for grouping.
 *
 * It removes ops that do nothing at run time (detach, a cast to the same type)
 * and ops that nothing reads. It clones producers that cost nothing (constants,
 * indices, one-hot rows, broadcasts, views) for each consumer, so that a shared
 * constant neither connects two kernels nor is stored in memory.
 *
 *   %c = full {…}                   %c = full {…}
 *   %x = mul %a, %c           ->    %x = mul %a, %c
 *   %y = mul %b, %c                 %c.2 = full {…}
 *                                   %y = mul %b, %c.2
 */
#include <stdlib.h>

#include "passes/fusion/fuse.h"

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
               .path = op->path,
               .piece = op->piece};
    Op *copy = ir_op_typed(&b, op->kind, op->nargs, args, op->attr, 1,
                           &op->out[0]->type, &op->out[0]->name);
    copy->out[0]->loc = op->out[0]->loc;
    for (int a = 0; a < p->mesh.n; a++)
        copy->out[0]->why[a] = op->out[0]->why[a];
    return copy;
}

/* ---- identities ---------------------------------------------------------- */

/* Readers of an identity read its operand. Bodies read their arguments only,
 * so the region's own ops and yields are all that there is to change. */
static void drop_identities(Fuser *f)
{
    Region *r = f->r;
    Arena *scratch = arena_new();
    Value **source = NEW_ARRAY(scratch, Value *, f->p->nvalues);
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        for (int i = 0; i < op->nargs; i++)
            if (source[op->arg[i]->id])
                op->arg[i] = source[op->arg[i]->id];
        if (!is_identity(op))
            continue;
        source[op->out[0]->id] = op->arg[0];
        ir_remove(op);
    }
    for (int i = 0; i < r->nyields; i++)
        if (source[r->yield[i]->id])
            r->yield[i] = source[r->yield[i]->id];
    arena_free(scratch);
}

void fuse_drop_unused(Fuser *f)
{
    Region *r = f->r;
    fuse_users_start(f);
    for (int i = 0; i < r->nyields; i++)
        f->yielded[r->yield[i]->id] = true;
    /* Last op first: readers of an op are removed or in the table before it. */
    for (Op *op = r->last, *prev; op; op = prev) {
        prev = op->prev;
        if (fuse_takes(op) && !f->yielded[op->out[0]->id] &&
            !f->users[op->out[0]->id].n) {
            ir_remove(op);
            continue;
        }
        for (int i = 0; i < op->nargs; i++)
            fuse_add_user(f, op->arg[i], op);
    }
}

/* ---- copies for each reader ---------------------------------------------- */

/* Distance between the positions of adjacent ops, so that copies can be
 * inserted between them. */
enum { PLACE_GAP = 1 << 20 };

typedef struct PlacedOp {
    int64_t place;
    Op *op;
} PlacedOp;

static void set_places(Fuser *f)
{
    int64_t place = 0;
    for (const Op *op = f->r->first; op; op = op->next)
        f->place[op->id] = place += PLACE_GAP;
}

static void place_copy(Fuser *f, const Op *copy)
{
    fuse_tables_grow(f);
    int64_t after = copy->prev ? f->place[copy->prev->id] : 0;
    f->place[copy->id] = after + (f->place[copy->next->id] - after) / 2;
    if (f->place[copy->id] == after)
        set_places(f);
}

static int by_place(const void *x, const void *y)
{
    const PlacedOp *a = x, *b = y;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* The readers of v in the order of the region. */
static PlacedOp *sorted_users(Fuser *f, const Value *v)
{
    const OpList *users = &f->users[v->id];
    PlacedOp *list = NEW_ARRAY(f->arena, PlacedOp, users->n + 1);
    for (int i = 0; i < users->n; i++)
        list[i] = (PlacedOp){f->place[users->at[i]->id], users->at[i]};
    qsort(list, (size_t)users->n, sizeof *list, by_place);
    return list;
}

/* The first consumer keeps the op, unless an op that cannot be fused, or a
 * yield, needs it too. */
static void copy_for_users(Fuser *f, Op *op)
{
    Value *v = op->out[0];
    int n = f->users[v->id].n;
    PlacedOp *list = sorted_users(f, v);
    bool taken = f->yielded[v->id], used = false;
    for (int i = 0; i < n; i++)
        taken |= !fuse_takes(list[i].op);
    for (int i = 0; i < n; i++) {
        Op *user = list[i].op;
        if (!fuse_takes(user) || (i && user == list[i - 1].op))
            continue;
        if (!taken && !used) {
            used = true;
            op->phase = user->phase;
            continue;
        }
        Op *copy = fuse_copy_op(f->p, op, op->arg, user);
        place_copy(f, copy);
        for (int k = 0; k < user->nargs; k++)
            if (user->arg[k] == v)
                user->arg[k] = copy->out[0];
        for (int k = 0; k < op->nargs; k++)
            fuse_add_user(f, op->arg[k], copy);
    }
}

static void copy_trivial(Fuser *f)
{
    fuse_users_start(f);
    fuse_users_fill(f);
    set_places(f);
    for (Op *op = f->r->last; op; op = op->prev)
        if (is_trivial(op->kind))
            copy_for_users(f, op);
}

void fuse_clean(Fuser *f)
{
    drop_identities(f);
    copy_trivial(f);
}
