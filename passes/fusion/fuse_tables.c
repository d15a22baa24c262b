/* fuse_tables.c: lists the users of every value of a region, and makes the
 * first groups.
 *
 * The tables are indexed by id and shared by all regions of a program. Filling
 * them for a region takes time linear in the region's length.
 */
#include <string.h>

#include "passes/fusion/fuse.h"

void fuse_add_user(Fuser *f, const Value *v, Op *user)
{
    OpList *users = &f->users[v->id];
    if (!users->n || users->at[users->n - 1] != user)
        vec_push(f->arena, users, user);
}

static void *grown(FuseTables *t, const void *at, uint32_t n, uint32_t capacity,
                   size_t size)
{
    void *to = arena_alloc(t->arena, capacity * size);
    if (n)
        memcpy(to, at, n * size);
    return to;
}

void fuse_tables_grow(Fuser *f)
{
    FuseTables *t = f->tables;
    uint32_t nops = t->nops, nvalues = t->nvalues;
    if (f->p->nops > nops) {
        t->nops = 2 * f->p->nops;
        t->group_of = grown(t, t->group_of, nops, t->nops, sizeof(int));
        t->place = grown(t, t->place, nops, t->nops, sizeof(int64_t));
    }
    if (f->p->nvalues > nvalues) {
        t->nvalues = 2 * f->p->nvalues;
        t->users = grown(t, t->users, nvalues, t->nvalues, sizeof(OpList));
        t->yielded = grown(t, t->yielded, nvalues, t->nvalues, sizeof(bool));
    }
    f->group_of = t->group_of;
    f->place = t->place;
    f->users = t->users;
    f->yielded = t->yielded;
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
