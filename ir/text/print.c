/* print.c: prints a program as text; docs/ir.md has the grammar.
 *
 *   %h.3 = add %x, %wo : f32[8/dp, 32/tp, 64] forward "layers.*" @1:40:15
 *     | %h.3 tp "follows operand 0 of add" @1:44:9
 *   %h.4, %zs = loop{n=4, reverse=false} : f32[8/dp, 64], f32[4 x 8/dp] … {
 *     carry %x = %h.3 : f32[8/dp, 64]
 *     stack %w = %ws : f32[64, 64]
 *     free %t = %table : f32[32, 8]
 *     …
 *     yield %h1, %z
 *   }
 */

#include "ir/text/print.h"

/* ---- ops ----------------------------------------------------------------- */

static void print_values(Printer *w, int n, Value *const *v)
{
    for (int i = 0; i < n; i++)
        out(w->o, "%s%%%s", i ? ", " : "", v[i]->name);
}

static void print_param_name(Printer *w, int64_t i)
{
    if (i >= 0 && i < w->p->param.n)
        print_string(w, "", w->p->param.at[i].name);
    else
        out(w->o, "%lld", (long long)i);
}

static void print_attr(Printer *w, AttrType type, const Attr *a)
{
    switch (type) {
    case ATTR_TYPE_INT:
    case ATTR_TYPE_DIM: out(w->o, "%lld", (long long)a->i); return;
    case ATTR_TYPE_BOOL: out(w->o, "%s", a->i ? "true" : "false"); return;
    case ATTR_TYPE_FLOAT: out_double(w->o, a->f); return;
    case ATTR_TYPE_DTYPE: out(w->o, "%s", dtype_name((DType)a->i)); return;
    case ATTR_TYPE_TEXT:
        a->s ? print_string(w, "", a->s) : out(w->o, "none");
        return;
    case ATTR_TYPE_LIST: print_list(w, a->l.n, a->l.v); return;
    case ATTR_TYPE_AXES: print_axes(w, (uint32_t)a->i); return;
    case ATTR_TYPE_PARAM: print_param_name(w, a->i); return;
    case ATTR_TYPE_PORT:
        out(w->o, "%s%d", a->port.input ? "in" : "out", a->port.index);
        return;
    case ATTR_TYPE_OP:
        out(w->o, a->o ? "%%%s" : "none", a->o ? a->o->out[0]->name : "");
        return;
    }
}

void ir_print_attr(Out *o, const Program *p, AttrType type, const Attr *a)
{
    Printer w = {.o = o, .p = p};
    print_attr(&w, type, a);
}

static void print_attrs(Printer *w, const Op *op)
{
    const AttrName *name = op_info(op->kind)->attr;
    if (!name[0])
        return;
    for (int i = 0; name[i]; i++) {
        out(w->o, "%s%s=", i ? ", " : "{", attr_text(name[i]));
        print_attr(w, attr_type_of(name[i]), &op->attr[i]);
    }
    out(w->o, "}");
}

static bool same_loc(Loc a, Loc b)
{
    return a.file == b.file && a.line == b.line && a.col == b.col &&
           a.len == b.len;
}

static void print_why(Printer *w, const char *axis, Why why)
{
    if (!why_is_given(&why))
        return;
    out(w->o, " %s ", axis);
    if (why.follows)
        out(w->o, "follows %%%s", why.follows);
    else
        print_string(w, "", why.text);
    if (why.removed_by)
        out(w->o, " removed=%s", why.removed_by);
    print_loc(w, why.loc);
}

/* The location of a value, if it differs from its op's, and its placements'
 * reasons. */
static void print_value_notes(Printer *w, const Value *v, Loc known)
{
    bool any = false;
    for (int a = 0; a < w->p->mesh.n; a++)
        any |= why_is_given(&v->why[a]);
    bool moved = v->loc.file && !same_loc(v->loc, known);
    if (!any && !moved)
        return;
    out(w->o, "%*s  | %%%s", w->o->indent, "", v->name);
    if (moved)
        print_loc(w, v->loc);
    for (int a = 0; a < w->p->mesh.n; a++)
        print_why(w, w->p->mesh.name[a], v->why[a]);
    out(w->o, "\n");
}

static void print_region(Printer *w, const Region *r);

static void print_body(Printer *w, const Op *op)
{
    const Region *body = op->body;
    w->o->indent += 2;
    for (int i = 0; i < body->nargs; i++) {
        const char *role = op->kind != OP_loop           ? "arg"
                           : i < op->ncarry              ? "carry"
                           : i < op->ncarry + op->nstack ? "stack"
                                                         : "free";
        out(w->o, "%*s%s %%%s = %%%s : ", w->o->indent, "", role,
            body->arg[i]->name, op->arg[i]->name);
        type_print(w->o, &body->arg[i]->type, &w->p->mesh);
        print_address(w, body->arg[i]);
        out(w->o, "\n");
        print_value_notes(w, body->arg[i], op->loc);
    }
    print_region(w, body);
    if (op->kind != OP_early) {
        out(w->o, "%*syield ", w->o->indent, "");
        print_values(w, body->nyields, body->yield);
        out(w->o, "\n");
    }
    w->o->indent -= 2;
    out_line(w->o, "}");
}

static void print_op(Printer *w, const Op *op)
{
    out(w->o, "%*s", w->o->indent, "");
    print_values(w, op->nouts, op->out);
    out(w->o, "%s%s", op->nouts ? " = " : "", op_info(op->kind)->name);
    print_attrs(w, op);
    if (!op->body && op->nargs) {
        out(w->o, " ");
        print_values(w, op->nargs, op->arg);
    }
    for (int i = 0; i < op->nouts; i++) {
        out(w->o, i ? ", " : " : ");
        type_print(w->o, &op->out[i]->type, &w->p->mesh);
        print_address(w, op->out[i]);
    }
    for (int i = 0; op->needs && i < op->nargs; i++) {
        Type t = op->arg[i]->type;
        t.place = op->needs[i];
        out(w->o, i ? ", " : " needs ");
        type_print(w->o, &t, &w->p->mesh);
    }
    out(w->o, " %s%s%s", phase_name(op->phase),
        op->recomputed ? " recomputed" : "", op->done ? " done" : "");
    if (*op->path)
        print_string(w, " ", op->path);
    if (op->stream)
        out(w->o, " stream=%d", op->stream);
    if (op->workspace >= 0)
        out(w->o, " workspace=%d", op->workspace);
    print_loc(w, op->loc);
    out(w->o, op->body ? " {\n" : "\n");
    if (op->why.text) {
        const char *origin = origin_name(op->why.origin);
        out(w->o, "%*s  |%s%s", w->o->indent, "", *origin ? " " : "", origin);
        print_why(w, "because", op->why);
        out(w->o, "\n");
    }
    for (int i = 0; i < op->nouts; i++)
        print_value_notes(w, op->out[i], op->loc);
    if (op->body)
        print_body(w, op);
}

static void print_region(Printer *w, const Region *r)
{
    for (const Op *op = r->first; op; op = op->next)
        print_op(w, op);
}

static void print_all(Printer *w)
{
    print_head(w);
    out(w->o, "step {\n");
    w->o->indent += 2;
    print_region(w, w->p->step);
    w->o->indent -= 2;
    out(w->o, "}\n");
}

/* Prints the program twice: the first text, which is dropped, shows which
 * sources are in use. They are numbered in the dump from 1 without gaps. */
static void print_program(Out *o, const Program *p)
{
    Out dropped;
    out_init(&dropped, p->arena);
    Printer w = {.o = &dropped, .p = p, .nfiles = 1, .marks = true};
    while (p->diag && w.nfiles < UINT16_MAX &&
           diag_source_at(p->diag, (uint16_t)w.nfiles))
        w.nfiles++;
    w.file = NEW_ARRAY(p->arena, uint16_t, w.nfiles);
    print_all(&w);
    uint16_t n = 0;
    for (int i = 1; i < w.nfiles; i++)
        if (w.file[i])
            w.file[i] = ++n;
    w.o = o;
    w.marks = false;
    print_all(&w);
}

void ir_print(Out *o, const Program *p)
{
    print_program(o, p);
    for (int k = 0; k < PURPOSES; k++)
        if (p->forward[k])
            print_program(o, p->forward[k]);
}
