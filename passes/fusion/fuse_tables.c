/* fuse_tables.c: lists the users of every value of a region, and makes the
 * first groups.
 *
 * The tables are indexed by id and shared by all regions of a program. Filling
 * them for a region takes time linear in the region's length.
 */
#include "passes/fusion/fuse.h"

void fuse_add_user(Fuser *f, const Value *v, Op *user)
{
    OpList *users = &f->users[v->id];
    if (!users->n || users->at[users->n - 1] != user)
        vec_push(f->arena, users, user);
}

void fuse_tables_grow(Fuser *f)
{
    uint32_t nops = f->op_capacity, nvalues = f->value_capacity;
    Arena *a = f->tables;
    if (f->p->nops > nops) {
        f->op_capacity = 2 * f->p->nops;
        f->group_of =
            arena_grow(a, f->group_of, nops, f->op_capacity, sizeof(int));
        f->place =
            arena_grow(a, f->place, nops, f->op_capacity, sizeof(int64_t));
    }
    if (f->p->nvalues > nvalues) {
        f->value_capacity = 2 * f->p->nvalues;
        f->users = arena_grow(a, f->users, nvalues, f->value_capacity,
                              sizeof(OpList));
        f->yielded = arena_grow(a, f->yielded, nvalues, f->value_capacity,
                                sizeof(bool));
    }
}

static void clear_value(Fuser *f, const Value *v)
{
    f->users[v->id] = (OpList){0};
    f->yielded[v->id] = false;
}

void fuse_users_start(Fuser *f)
{
    fuse_tables_grow(f);
    f->nops = f->p->nops;
    for (int i = 0; i < f->r->nargs; i++)
        clear_value(f, f->r->arg[i]);
    for (const Op *op = f->r->first; op; op = op->next)
        for (int i = 0; i < op->nouts; i++)
            clear_value(f, op->out[i]);
}

void fuse_users_fill(Fuser *f)
{
    for (Op *op = f->r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            fuse_add_user(f, op->arg[i], op);
    for (int i = 0; i < f->r->nyields; i++)
        f->yielded[f->r->yield[i]->id] = true;
}

void fuse_tables(Fuser *f)
{
    f->op = (OpList){0};
    fuse_users_start(f);
    fuse_users_fill(f);
    for (Op *op = f->r->first; op; op = op->next) {
        f->place[op->id] = f->op.n;
        f->group_of[op->id] = f->op.n;
        vec_push(f->arena, &f->op, op);
    }
    f->ngroups = f->op.n;
    /* capacity for views that leave their group */
    f->group = NEW_ARRAY(f->arena, FuseGroup, 2 * f->ngroups + 1);
    for (int g = 0; g < f->ngroups; g++) {
        vec_push(f->arena, &f->group[g].op, f->op.at[g]);
        f->group[g].open = fuse_takes(f->op.at[g]);
        f->group[g].spans_version = -1;
    }
    fuse_order_start(f);
}
