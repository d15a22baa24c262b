/* repeat.c: compares a side program with the program that it repeats, from
 * which the pass share_forward made it.
 *
 *   training step   %x = fused …  wait{event=3}  %y = einsum …  %dy = mul …
 *   evaluation      %x = fused …                 %y = einsum …  output %y
 *
 * Both are walked in order. An op is that of the other program with the same
 * kind that has its first result, which of a loop may be a later one; an op without results the next one of its kind
 * with the same attributes. At the end of a region the side program may have
 * ops of its own: outputs, records and waits.
 */
#include "ir/analysis/repeat.h"

#include <string.h>

/* Whether a result of b has the name of the first of a. */
static bool same_name(const Op *a, const Op *b)
{
    for (int i = 0; a->nouts > 0 && i < b->nouts; i++)
        if (!strcmp(a->out[0]->name, b->out[i]->name))
            return true;
    return false;
}

/* Attributes of ops without results: of the schedule. */
static bool same_attr(AttrType type, const Attr *x, const Attr *y)
{
    return type == ATTR_TYPE_OP && x->o && y->o ? same_name(x->o, y->o)
                                                : attr_equal(type, x, y);
}

static bool is_same(const Op *a, const Op *b)
{
    if (a->kind != b->kind || a->stream != b->stream || a->done != b->done)
        return false;
    if (a->nouts > 0)
        return same_name(a, b);
    const AttrName *name = op_info(a->kind)->attr;
    bool same = true;
    for (int i = 0; same && name[i]; i++)
        same = same_attr(attr_type_of(name[i]), &a->attr[i], &b->attr[i]);
    return same;
}

static bool find_region(const Region *part, const Region *whole, Repeat *r,
                        const Op **own);

static bool is_found(const Op *a, const Op *b, Repeat *r)
{
    bool inside = a->kind == OP_early || a->kind == OP_loop;
    return is_same(a, b) &&
           (!inside || find_region(a->body, b->body, r, &r->own[b->id]));
}

static bool are_own(const Op *op)
{
    while (op && (op->kind == OP_output || op->kind == OP_record ||
                  op->kind == OP_wait))
        op = op->next;
    return !op;
}

/* Marks the ops of `whole` that `part` has. *own: the first of part's own. */
static bool find_region(const Region *part, const Region *whole, Repeat *r,
                        const Op **own)
{
    const Op *b = whole->first, *a = part->first;
    for (*own = NULL; a && a->kind != OP_output; a = a->next) {
        while (b && !is_found(a, b, r))
            b = b->next;
        if (!b)
            break; /* the rest of the part is its own */
        r->kept[b->id] = true;
        b = b->next;
    }
    *own = a;
    return are_own(a);
}

const Repeat *repeat_of(const Program *f)
{
    Repeat *r = NEW(f->arena, Repeat);
    r->kept = NEW_ARRAY(f->arena, bool, f->repeats->nops);
    r->own = NEW_ARRAY(f->arena, const Op *, f->repeats->nops);
    return find_region(f->step, f->repeats->step, r, &r->end) ? r : NULL;
}
