/* parse_values.c: defines and finds the values of a printed program by name. */
#include "ir/text/parse.h"

#include <string.h>

static unsigned hash(const char *s)
{
    unsigned h = 2166136261u;
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619u;
    return h;
}

static Slot *slot_of(Slot *slots, unsigned n, const char *name)
{
    unsigned i = hash(name) & (n - 1);
    while (slots[i].name && strcmp(slots[i].name, name) != 0)
        i = (i + 1) & (n - 1);
    return &slots[i];
}

static void grow_slots(Parser *s)
{
    unsigned n = s->nslots ? 2 * s->nslots : 256;
    Slot *slots = NEW_ARRAY(s->arena, Slot, n);
    for (unsigned i = 0; i < s->nslots; i++)
        if (s->slot[i].name)
            *slot_of(slots, n, s->slot[i].name) = s->slot[i];
    s->slot = slots;
    s->nslots = n;
}

Value *parse_define(Parser *s, const char *name, Loc name_loc, Type t, Loc loc)
{
    if (2 * s->nvalues >= s->nslots)
        grow_slots(s);
    if (!*name)
        parse_fail(s, name_loc, "a value has no name");
    else if (!ir_claim_name(s->p, name))
        parse_fail(s, name_loc, "there are two values %%%s", name);
    Value *v = ir_raw_value(s->p, name, t, loc);
    if (s->failed)
        return v;
    *slot_of(s->slot, s->nslots, name) = (Slot){name, v};
    s->nvalues++;
    return v;
}

Value *parse_find(const Parser *s, const char *name)
{
    return s->nslots ? slot_of(s->slot, s->nslots, name)->value : NULL;
}

Value *parse_use(Parser *s)
{
    Loc loc = s->tok.loc;
    const char *name = s->tok.text;
    if (s->tok.kind != TK_VALUE) {
        parse_fail(s, loc, "expected a value");
        return NULL;
    }
    parse_next(s);
    Value *v = parse_find(s, name);
    if (!v)
        parse_fail(s, loc, "%%%s is not defined before its use", name);
    return s->failed ? NULL : v;
}
