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
#include "ir/ir.h"

/* The results of an op and the arguments of its body: their number, and each
 * of them. */
static int values_of(const Op *op)
{
    return op->nouts + (op->body ? op->body->nargs : 0);
}

static Value *value_at(const Op *op, int i)
{
    return i < op->nouts ? op->out[i] : op->body->arg[i - op->nouts];
}

static void mark_removed(const Program *p, Value *v, const TextMap *names,
                         const char *pass)
{
    for (int a = 0; a < p->mesh.n; a++) {
        Why *why = &v->why[a];
        if (why->follows && !why->removed_by &&
            !text_map_find(names, why->follows))
            why->removed_by = pass;
    }
}

void why_update(const Program *p, const char *pass)
{
    TextMap names = {.arena = p->arena};
    for_ops(op, p->step)
        for (int i = 0; i < values_of(op); i++)
            text_map_add(&names, value_at(op, i)->name);
    for_ops(op, p->step)
        for (int i = 0; i < values_of(op); i++)
            mark_removed(p, value_at(op, i), &names, pass);
}

const char *why_text(Arena *a, const Why *why)
{
    if (!why->follows)
        return why->text ? why->text : "";
    if (!why->removed_by)
        return arena_printf(a, "as its operand %%%s", why->follows);
    return arena_printf(a, "as its operand %s, which is not in the final program",
                        why->follows);
}

bool why_is_given(const Why *why)
{
    return why->text || why->follows;
}
