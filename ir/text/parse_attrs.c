/* parse_attrs.c: parses the attributes of an op, in the order of ops.def.
 *
 * An attribute that names an op may name a later one: it is found when the
 * whole program is parsed.
 */
#include "ir/text/parse.h"

AttrList parse_list(Parser *s)
{
    AttrList l = {0};
    parse_expect(s, '[');
    if (parse_take(s, ']'))
        return l;
    do {
        if (l.n == MAX_DIMS) {
            parse_fail(s, s->tok.loc, "more than %d numbers", MAX_DIMS);
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
    for (int i = 0; op_attr_at(op->kind, i).type; i++) {
        if (op_attr_at(op->kind, i).type != 'o' || !op->attr[i].s)
            continue;
        OpName of = {op, i, op->attr[i].s, loc};
        vec_push(s->arena, &s->op_name, of);
    }
}

static Attr parse_attr(Parser *s, char type)
{
    Attr a = {0};
    if (type == 'i')
        a.i = parse_int(s);
    else if (type == 'b')
        a.i = parse_bool(s);
    else if (type == 'f')
        a.f = parse_number(s);
    else if (type == 's')
        a.s = parse_text(s);
    else if (type == 't')
        a.i = parse_dtype(s);
    else if (type == 'l')
        a.l = parse_list(s);
    else if (type == 'a')
        a.i = parse_axes(s);
    else if (type == 'o')
        a.s = parse_op_name(s);
    else
        a.i = parse_param_name(s);
    return a;
}

void parse_attrs(Parser *s, OpKind kind, Attr *attr)
{
    AttrInfo a = op_attr_at(kind, 0);
    if (!a.type)
        return;
    for (int i = 0; a.type; a = op_attr_at(kind, ++i)) {
        parse_expect(s, i ? ',' : '{');
        parse_expect_key(s, arena_strndup(s->arena, a.name, (size_t)a.length));
        attr[i] = parse_attr(s, a.type);
    }
    parse_expect(s, '}');
}
