/* parse_values.c: defines and finds the values of a printed program by name. */
#include "ir/text/parse.h"

Value *parse_define(Parser *s, const char *name, Loc name_loc, Type t, Loc loc)
{
    if (!*name)
        parse_fail(s, name_loc, "a value has no name");
    else if (!ir_claim_name(s->p, name))
        parse_fail(s, name_loc, "there are two values %%%s", name);
    Value *v = ir_raw_value(s->p, name, t, loc);
    if (s->failed)
        return v;
    text_map_add(&s->value, name)->value = v;
    return v;
}

Value *parse_find(const Parser *s, const char *name)
{
    const TextEntry *e = text_map_find(&s->value, name);
    return e ? e->value : NULL;
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
