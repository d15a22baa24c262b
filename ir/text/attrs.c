/* attrs.c: prints and parses the attributes of an op, in the order of ops.def,
 * and the names of values.
 *
 * An attribute that names an op may name a later one: it is found when the
 * whole program is parsed.
 */
#include <stdio.h>

#include "ir/text/text.h"

/* ---- values -------------------------------------------------------------- */

Value *parse_define(Text *t, const char *name, Loc name_loc, Type type, Loc loc)
{
    if (!*name)
        parse_fail(t, name_loc, "a value has no name");
    else if (!ir_claim_name(t->p, name))
        parse_fail(t, name_loc, "there are two values %%%s", name);
    Value *v = ir_raw_value(t->p, name, type, loc);
    if (!t->failed)
        text_map_add(&t->value, name)->value = v;
    return v;
}

static Value *find_value(const Text *t, const char *name)
{
    const TextEntry *e = text_map_find(&t->value, name);
    return e ? e->value : NULL;
}

Value *text_use(Text *t, const char *form, Value *v)
{
    text_form(t, form);
    if (t->out) {
        out(t->out, "%%%s", v->name);
        return v;
    }
    Loc loc = t->tok.loc;
    const char *name = t->tok.text;
    if (t->tok.kind != TK_VALUE) {
        parse_fail(t, loc, "expected a value");
        return NULL;
    }
    parse_next(t);
    v = find_value(t, name);
    if (!v)
        parse_fail(t, loc, "%%%s is not defined before its use", name);
    return t->failed ? NULL : v;
}

/* ---- attributes ---------------------------------------------------------- */

static int64_t text_param_name(Text *t, int64_t i)
{
    Loc loc = t->tok.loc;
    bool known = i >= 0 && i < t->p->param.n;
    const char *name = known ? t->p->param.at[i].name : "";
    if (t->out && !known) {
        text_field(t, "", &i);
        return i;
    }
    text_field(t, "", &name);
    i = ir_param_index(t->p, name);
    if (i < 0)
        parse_fail(t, loc, "there is no parameter '%s'", name);
    return i;
}

/* "in0" or "out1" */
static void text_port(Text *t, Port *port)
{
    if (t->out) {
        out(t->out, "%s%d", port->input ? "in" : "out", port->index);
        return;
    }
    Loc loc = t->tok.loc;
    const char *word = parse_word(t, "a port");
    port->input = word[0] == 'i';
    int end = 0;
    const char *form = port->input ? "in%2d%n" : "out%2d%n";
    if (sscanf(word, form, &port->index, &end) != 1 || word[end] ||
        port->index < 0)
        parse_fail(t, loc, "'%s' is not a port: in0, out1", word);
}

/* "%h.4" or "none"; the parser stores the name, which parse_find_ops replaces
 * by its op. */
static void text_op_name(Text *t, Attr *a)
{
    if (t->out && a->o) {
        text_use(t, "", a->o->out[0]);
    } else if (t->out || t->tok.kind != TK_VALUE) {
        text_form(t, "none");
        a->s = NULL;
    } else {
        a->s = t->tok.text;
        parse_next(t);
    }
}

void parse_find_ops(Text *t)
{
    for (int i = 0; i < t->op_name.n && !t->failed; i++) {
        const OpName *of = &t->op_name.at[i];
        Value *v = find_value(t, of->name);
        of->op->attr[of->attr].o = v ? v->def : NULL;
        if (!v || !v->def)
            parse_fail(t, of->loc, "%%%s is not the result of an op", of->name);
    }
    t->op_name.n = 0;
}

static void text_attr(Text *t, AttrType type, Attr *a)
{
    bool on = a->i;
    uint32_t axes = (uint32_t)a->i;
    switch (type) {
    case ATTR_TYPE_INT:
    case ATTR_TYPE_DIM: text_field(t, "", &a->i); return;
    case ATTR_TYPE_FLOAT: text_field(t, "", &a->f); return;
    case ATTR_TYPE_BOOL:
        text_field(t, "", &on);
        a->i = on;
        return;
    case ATTR_TYPE_DTYPE: a->i = text_dtype(t, "", (DType)a->i); return;
    case ATTR_TYPE_TEXT:
        if (!text_given(t, !a->s, "none"))
            text_field(t, "", &a->s);
        return;
    case ATTR_TYPE_LIST:
        a->l.n = text_list(t, "", a->l.n, a->l.v, MAX_LIST);
        return;
    case ATTR_TYPE_AXES:
        text_field(t, "", &axes);
        a->i = axes;
        return;
    case ATTR_TYPE_PARAM: a->i = text_param_name(t, a->i); return;
    case ATTR_TYPE_PORT: text_port(t, &a->port); return;
    case ATTR_TYPE_OP: text_op_name(t, a); return;
    }
}

void ir_print_attr(Out *o, const Program *p, AttrType type, const Attr *a)
{
    Text t = {.p = (Program *)p, .arena = p->arena, .out = o};
    Attr copy = *a;
    text_attr(&t, type, &copy);
}

/* Lists the names of ops among the attributes, for parse_find_ops. */
static void note_op_name(Text *t, Op *op, int attr, Loc loc)
{
    OpName of = {op, attr, op->attr[attr].s, loc};
    if (of.name)
        vec_push(t->arena, &t->op_name, of);
}

void text_attrs(Text *t, Op *op, Loc loc)
{
    const AttrName *name = op_info(op->kind)->attr;
    if (!name[0])
        return;
    for (int i = 0; name[i]; i++) {
        text_form(t, i ? ", " : "{");
        text_form(t, attr_text(name[i]));
        text_form(t, "=");
        text_attr(t, attr_type_of(name[i]), &op->attr[i]);
        if (!t->out && attr_type_of(name[i]) == ATTR_TYPE_OP)
            note_op_name(t, op, i, loc);
    }
    text_form(t, "}");
}
