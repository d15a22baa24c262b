/* why.c: the values that reasons for placements refer to.
 *
 * A reason "follows %x.3" names a value. When a pass removes that value, the
 * reason records which pass did:
 *
 *   before   %y = relu %x.3 : f32[8/dp, 64] forward
 *              | %y dp follows %x.3
 *   after    %y = relu %x : f32[8/dp, 64] forward
 *              | %y dp follows %x.3 removed=simplify
 */
#include <string.h>

#include "ir/ir.h"

/* The names of all values: a hash table with open addressing. */
typedef struct NameSet {
    const char **slot;
    uint32_t size; /* a power of two */
} NameSet;

typedef struct Update {
    const Program *p;
    NameSet names;
    const char *pass;
} Update;

static const char **slot_of(const NameSet *set, const char *name)
{
    uint32_t h = 2166136261u;
    for (const char *s = name; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    uint32_t i = h & (set->size - 1);
    while (set->slot[i] && strcmp(set->slot[i], name) != 0)
        i = (i + 1) & (set->size - 1);
    return &set->slot[i];
}

/* Calls `visit` for the results of an op and the arguments of its body. */
static void each_value(const Op *op, void (*visit)(Update *, Value *),
                       Update *u)
{
    for (int i = 0; i < op->nouts; i++)
        visit(u, op->out[i]);
    for (int i = 0; op->body && i < op->body->nargs; i++)
        visit(u, op->body->arg[i]);
}

static void enter(Update *u, Value *v)
{
    *slot_of(&u->names, v->name) = v->name;
}

static void enter_op(Op *op, void *context)
{
    each_value(op, enter, context);
}

static void check(Update *u, Value *v)
{
    for (int a = 0; a < u->p->mesh.n; a++) {
        Why *why = &v->why[a];
        if (why->follows && !why->removed_by &&
            !*slot_of(&u->names, why->follows))
            why->removed_by = u->pass;
    }
}

static void check_op(Op *op, void *context)
{
    each_value(op, check, context);
}

void why_update(const Program *p, const char *pass)
{
    Update u = {.p = p, .pass = pass, .names = {.size = 64}};
    while (u.names.size < 2 * p->nvalues)
        u.names.size *= 2;
    u.names.slot = NEW_ARRAY(p->arena, const char *, u.names.size);
    ir_walk(p->step, enter_op, &u);
    ir_walk(p->step, check_op, &u);
}

const char *why_text(Arena *a, const Why *why)
{
    if (!why->follows)
        return why->text ? why->text : "";
    if (!why->removed_by)
        return arena_printf(a, "follows %%%s", why->follows);
    return arena_printf(a, "follows %%%s, which the pass %s removed",
                        why->follows, why->removed_by);
}

bool why_is_given(const Why *why)
{
    return why->text || why->follows;
}
