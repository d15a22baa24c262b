/* parse_attrs.c: parses the attributes of an op, in the order of ops.def.
 *
 * An attribute that names an op may name a later one: it is found when the
 * whole program is parsed.
 */
#include "ir/text/parse.h"

#include <stdio.h>

AttrList parse_list(Parser *s, int longest)
{
    AttrList l = {0};
    parse_expect(s, '[');
    if (parse_take(s, ']'))
        return l;
    do {
        if (l.n == longest) {
            parse_fail(s, s->tok.loc, "more than %d numbers", longest);
            return l;
        }
        l.v[l.n++] = parse_int(s);
    } while (parse_take(s, ','));
    parse_expect(s, ']');
    return l;
}

static int64_t parse_param_name(Parser *s)
{
    Loc loc = s->tok.loc;
    const char *name = parse_string(s);
    int i = ir_param_index(s->p, name);
    if (i < 0)
        parse_fail(s, loc, "there is no parameter '%s'", name);
    return i;
}

static const char *parse_text(Parser *s)
{
    if (!parse_take_word(s, "none"))
        return parse_string(s);
    return NULL;
}

/* "in0" or "out1" */
static Port parse_port(Parser *s)
{
    Loc loc = s->tok.loc;
    const char *word = parse_word(s, "a port");
    Port port = {.input = word[0] == 'i'};
    int end = 0;
    const char *form = port.input ? "in%2d%n" : "out%2d%n";
    if (sscanf(word, form, &port.index, &end) != 1 || word[end] ||
        port.index < 0)
        parse_fail(s, loc, "'%s' is not a port: in0, out1", word);
    return port;
}

/* "%h.4" or "none": the name, which parse_find_ops replaces by its op. */
static const char *parse_op_name(Parser *s)
{
    const char *name = s->tok.text;
    if (s->tok.kind != TK_VALUE) {
        parse_expect_word(s, "none");
        return NULL;
    }
    parse_next(s);
    return name;
}

void parse_find_ops(Parser *s)
{
    for (int i = 0; i < s->op_name.n && !s->failed; i++) {
        const OpName *of = &s->op_name.at[i];
        Value *v = parse_find(s, of->name);
        of->op->attr[of->attr].o = v ? v->def : NULL;
        if (!v || !v->def)
            parse_fail(s, of->loc, "%%%s is not the result of an op", of->name);
    }
    s->op_name.n = 0;
}

void parse_note_op_names(Parser *s, Op *op, Loc loc)
{
    const AttrName *name = op_info(op->kind)->attr;
    for (int i = 0; name[i]; i++) {
        if (attr_type_of(name[i]) != ATTR_TYPE_OP || !op->attr[i].s)
            continue;
        OpName of = {op, i, op->attr[i].s, loc};
        vec_push(s->arena, &s->op_name, of);
    }
}

static Attr parse_attr(Parser *s, AttrType type)
{
    switch (type) {
    case ATTR_TYPE_INT:
    case ATTR_TYPE_DIM: return (Attr){.i = parse_int(s)};
    case ATTR_TYPE_BOOL: return (Attr){.i = parse_bool(s)};
    case ATTR_TYPE_FLOAT: return (Attr){.f = parse_number(s)};
    case ATTR_TYPE_DTYPE: return (Attr){.i = parse_dtype(s)};
    case ATTR_TYPE_TEXT: return (Attr){.s = parse_text(s)};
    case ATTR_TYPE_LIST: return (Attr){.l = parse_list(s, MAX_LIST)};
    case ATTR_TYPE_AXES: return (Attr){.i = parse_axes(s)};
    case ATTR_TYPE_PARAM: return (Attr){.i = parse_param_name(s)};
    case ATTR_TYPE_PORT: return (Attr){.port = parse_port(s)};
    case ATTR_TYPE_OP: return (Attr){.s = parse_op_name(s)};
    }
    return (Attr){0};
}

void parse_attrs(Parser *s, OpKind kind, Attr *attr)
{
    const AttrName *name = op_info(kind)->attr;
    if (!name[0])
        return;
    for (int i = 0; name[i]; i++) {
        parse_expect(s, i ? ',' : '{');
        parse_expect_key(s, attr_text(name[i]));
        attr[i] = parse_attr(s, attr_type_of(name[i]));
    }
    parse_expect(s, '}');
}
