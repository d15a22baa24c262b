/* ast_print.c: prints the syntax tree as PDL (`--emit ast`).
 *
 * Declarations come first, then plans, then the train block. The tree has no
 * comments and no formatting; parentheses are printed where precedence requires
 * them.
 *
 * ensures: the text parses to the same tree, so that printing it a second time
 *          gives the same text
 */
#include <inttypes.h>
#include <string.h>

#include "base/bug.h"
#include "frontend/syntax/ast.h"

/* ---- expressions ---- */

enum {
    PREC_NOT = 3,
    PREC_COMPARE = 4,
    PREC_NEG = 7,
    PREC_POW = 8,
    PREC_ATOM = 9
};

static const struct {
    const char *text;
    int precedence;
} binary_table[] = {
    [BIN_OR] = {"or", 1}, [BIN_AND] = {"and", 2},  [BIN_EQ] = {"==", 4},
    [BIN_NE] = {"!=", 4}, [BIN_LT] = {"<", 4},     [BIN_LE] = {"<=", 4},
    [BIN_GT] = {">", 4},  [BIN_GE] = {">=", 4},    [BIN_ADD] = {"+", 5},
    [BIN_SUB] = {"-", 5}, [BIN_MUL] = {"*", 6},    [BIN_DIV] = {"/", 6},
    [BIN_MOD] = {"%", 6}, [BIN_MATMUL] = {"@", 6}, [BIN_POW] = {"**", 8},
};

static int precedence(const Expr *e)
{
    if (e->kind == EX_BINARY)
        return binary_table[e->op].precedence;
    return e->kind == EX_NEG   ? PREC_NEG
           : e->kind == EX_NOT ? PREC_NOT
                               : PREC_ATOM;
}

static void expr(Out *o, const Expr *e);

/* Prints e in parentheses if it binds less tightly than `least`. */
static void operand(Out *o, const Expr *e, int least)
{
    bool brackets = precedence(e) < least;
    out(o, "%s", brackets ? "(" : "");
    expr(o, e);
    out(o, "%s", brackets ? ")" : "");
}

static void binary(Out *o, const Expr *e)
{
    int own = binary_table[e->op].precedence;
    /* Powers group to the right; comparisons do not group. */
    bool right = own == PREC_POW, neither = own == PREC_COMPARE;
    operand(o, e->arg[0].value, own + (right || neither));
    out(o, " %s ", binary_table[e->op].text);
    operand(o, e->arg[1].value, own + !right);
}

static void args(Out *o, const Arg *arg, int n)
{
    for (int i = 0; i < n; i++) {
        out(o, "%s", i ? ", " : "");
        if (arg[i].name)
            out(o, "%s=", arg[i].name);
        expr(o, arg[i].value);
    }
}

static void out_string(Out *o, const char *s)
{
    out(o, "\"");
    for (; *s; s++) {
        const char *escape = *s == '\n'   ? "\\n"
                             : *s == '\t' ? "\\t"
                             : *s == '"'  ? "\\\""
                             : *s == '\\' ? "\\\\"
                                          : NULL;
        out_bytes(o, escape ? escape : s, escape ? 2 : 1);
    }
    out(o, "\"");
}

static void expr(Out *o, const Expr *e)
{
    switch (e->kind) {
    case EX_INT:
        out(o, "%" PRId64, e->integer);
        return;
    case EX_FLOAT:
        out_float(o, e->number);
        return;
    case EX_STRING:
        out_string(o, e->name);
        return;
    case EX_BOOL:
        out(o, e->integer ? "true" : "false");
        return;
    case EX_NONE:
        out(o, "none");
        return;
    case EX_NAME:
        out(o, "%s", e->name);
        return;
    case EX_NEG:
        out(o, "-");
        operand(o, e->arg[0].value, PREC_NEG);
        return;
    case EX_NOT:
        out(o, "not ");
        operand(o, e->arg[0].value, PREC_NOT);
        return;
    case EX_BINARY:
        binary(o, e);
        return;
    case EX_CALL:
        out(o, "%s(", e->name);
        args(o, e->arg, e->nargs);
        out(o, ")");
        return;
    case EX_TUPLE:
        out(o, "(");
        args(o, e->arg, e->nargs);
        out(o, e->nargs == 1 ? ",)" : ")");
        return;
    case EX_MEMBER:
        operand(o, e->arg[0].value, PREC_ATOM);
        out(o, ".%s", e->name);
        return;
    case EX_INDEX:
        operand(o, e->arg[0].value, PREC_ATOM);
        out(o, "[");
        expr(o, e->arg[1].value);
        out(o, "]");
        return;
    case EX_IF:
        break;
    }
    bug("ast_print: an expression of kind %d", (int)e->kind);
}

static void exprs(Out *o, Expr *const *list, int n)
{
    for (int i = 0; i < n; i++) {
        out(o, "%s", i ? ", " : "");
        expr(o, list[i]);
    }
}

static void idents(Out *o, const Ident *list, int n)
{
    for (int i = 0; i < n; i++)
        out(o, "%s%s", i ? ", " : "", list[i].name);
}

/* ---- lines ---- */

static void begin(Out *o)
{
    out(o, "%*s", o->indent, "");
}

static void open_block(Out *o)
{
    out(o, " {\n");
    o->indent += OUT_INDENT;
}

/* Ends without a newline, since `else` may follow. */
static void close_block(Out *o)
{
    o->indent -= OUT_INDENT;
    out(o, "%*s}", o->indent, "");
}

/* ---- statements ---- */

static void stmts(Out *o, Stmt *const *list, int n);

static void if_stmt(Out *o, const Stmt *s)
{
    out(o, "if ");
    expr(o, s->value);
    open_block(o);
    stmts(o, s->body, s->nbody);
    close_block(o);
    if (s->nother == 1 && s->other[0]->kind == ST_IF) {
        out(o, " else ");
        if_stmt(o, s->other[0]);
    } else if (s->nother > 0) {
        out(o, " else");
        open_block(o);
        stmts(o, s->other, s->nother);
        close_block(o);
    }
}

static void stmt(Out *o, const Stmt *s)
{
    switch (s->kind) {
    case ST_ASSIGN:
        idents(o, s->target, s->ntargets);
        out(o, " = ");
        expr(o, s->value);
        return;
    case ST_RETURN:
        out(o, "return ");
        expr(o, s->value);
        return;
    case ST_FOR:
        out(o, "for %s in ", s->target[0].name);
        expr(o, s->value);
        open_block(o);
        stmts(o, s->body, s->nbody);
        close_block(o);
        return;
    case ST_IF:
        if_stmt(o, s);
        return;
    }
}

static void stmts(Out *o, Stmt *const *list, int n)
{
    for (int i = 0; i < n; i++) {
        begin(o);
        stmt(o, list[i]);
        out(o, "\n");
    }
}

/* ---- members ---- */

static void input(Out *o, const InputDecl *in)
{
    out(o, "%s%s", in->name.name, in->is_int || in->has_shape ? ": " : "");
    if (in->is_int) {
        out(o, "int(");
        expr(o, in->below);
        if (in->ignored) {
            out(o, ", %s=", in->ignored_name.name);
            expr(o, in->ignored);
        }
        out(o, ")");
    }
    if (!in->has_shape)
        return;
    out(o, in->open && in->ndims ? "[..., " : in->open ? "[..." : "[");
    exprs(o, in->dim, in->ndims);
    out(o, "]");
}

static void members(Out *o, Member *const *list, int n);

static void if_member(Out *o, const Member *m)
{
    out(o, "if ");
    expr(o, m->value);
    open_block(o);
    members(o, m->body, m->nbody);
    close_block(o);
    if (m->nother == 1 && m->other_body[0]->kind == MB_IF) {
        out(o, " else ");
        if_member(o, m->other_body[0]);
    } else if (m->nother > 0) {
        out(o, " else");
        open_block(o);
        members(o, m->other_body, m->nother);
        close_block(o);
    }
}

static void tensor(Out *o, const char *keyword, const Member *m)
{
    out(o, "%s %s[", keyword, m->name.name);
    exprs(o, m->dim, m->ndims);
    out(o, "] = ");
    expr(o, m->value);
}

static void member(Out *o, const Member *m)
{
    switch (m->kind) {
    case MB_CHILD:
        out(o, "%s: ", m->name.name);
        if (m->count) {
            out(o, "[");
            expr(o, m->count);
            out(o, "] ");
        }
        expr(o, m->value);
        return;
    case MB_CONSTANT:
        out(o, "%s = ", m->name.name);
        expr(o, m->value);
        return;
    case MB_PARAM:
        tensor(o, "param", m);
        return;
    case MB_BUFFER:
        tensor(o, "buffer", m);
        return;
    case MB_TIE:
        out(o, "tie ");
        expr(o, m->value);
        out(o, " = ");
        expr(o, m->other);
        return;
    case MB_IF:
        if_member(o, m);
        return;
    case MB_FORWARD:
        out(o, "forward(");
        for (int i = 0; i < m->ninputs; i++) {
            out(o, "%s", i ? ", " : "");
            input(o, &m->input[i]);
        }
        out(o, ")");
        open_block(o);
        stmts(o, m->stmt, m->nstmts);
        close_block(o);
        return;
    }
}

static void members(Out *o, Member *const *list, int n)
{
    for (int i = 0; i < n; i++) {
        begin(o);
        member(o, list[i]);
        out(o, "\n");
    }
}

static void decl(Out *o, const Decl *d)
{
    static const char *const keyword[] = {
        [DC_MODULE] = "module",
        [DC_MODEL] = "model",
        [DC_FUNCTION] = "function",
    };
    out(o, "%s %s(", keyword[d->kind], d->name.name);
    for (int i = 0; i < d->nformals; i++) {
        out(o, "%s%s", i ? ", " : "", d->formal[i].name.name);
        if (d->formal[i].value) {
            out(o, "=");
            expr(o, d->formal[i].value);
        }
    }
    out(o, ")");
    open_block(o);
    members(o, d->member, d->nmembers);
    stmts(o, d->stmt, d->nstmts);
    close_block(o);
    out(o, "\n");
}

/* ---- plans ---- */

static void style_args(Out *o, const Item *item)
{
    for (int i = 0; i < item->nargs; i++) {
        const StyleArg *a = &item->arg[i];
        out(o, "%s", i ? ", " : "");
        if (a->name)
            out(o, "%s=", a->name);
        expr(o, a->from);
        if (a->to) {
            out(o, " -> ");
            expr(o, a->to);
        }
    }
}

void ast_print_item(Out *o, const Item *it)
{
    out(o, "%s", it->npaths > 1 ? "[" : "");
    for (int i = 0; i < it->npaths; i++)
        out(o, "%s%s", i ? ", " : "",
            *it->path[i].text ? it->path[i].text : "model");
    out(o, "%s", it->npaths > 1 ? "]" : "");
    if (it->class_name)
        out(o, "every %s", it->class_name);
    if (it->min_params) {
        out(o, "%s=", option_name(OPTION_min_params));
        expr(o, it->min_params);
    }
    if (it->style) {
        out(o, ": %s%s", it->style, it->nargs ? "(" : "");
        style_args(o, it);
        out(o, "%s", it->nargs ? ")" : "");
    }
    if (it->noptions)
        out(o, ": ");
    args(o, it->option, it->noptions);
}

static void clause(Out *o, const Clause *c)
{
    begin(o);
    out(o, "%s%s", clause_name(c->kind),
        c->naxes > 1 ? " (" : c->naxes ? " " : "");
    idents(o, c->axis, c->naxes);
    out(o, "%s", c->naxes > 1 ? ")" : "");
    open_block(o);
    for (int i = 0; i < c->nitems; i++) {
        begin(o);
        ast_print_item(o, &c->item[i]);
        out(o, "\n");
    }
    close_block(o);
    out(o, "\n");
}

static void plan(Out *o, const PlanDecl *p)
{
    out(o, "plan %s(", p->name.name);
    idents(o, p->axis, p->naxes);
    out(o, ")");
    open_block(o);
    for (int i = 0; i < p->nclauses; i++)
        clause(o, &p->clause[i]);
    close_block(o);
    out(o, "\n");
}

static void setting_lines(Out *o, const Setting *s, int n)
{
    for (int i = 0; i < n; i++) {
        begin(o);
        out(o, "%s = ", s[i].name.name);
        expr(o, s[i].value);
        out(o, "\n");
    }
}

static void settings(Out *o, const Setting *s, int n)
{
    open_block(o);
    setting_lines(o, s, n);
    close_block(o);
    out(o, "\n");
}

static void name_item(Out *o, const NameItem *it)
{
    Item left = {.path = it->path, .npaths = it->npaths};
    begin(o);
    ast_print_item(o, &left);
    out(o, " -> ");
    out_string(o, it->file.text);
    for (int i = 0; i < it->nlayouts; i++) {
        out(o, "%s", i ? ", " : ": ");
        expr(o, it->layout[i]);
    }
    out(o, "\n");
}

static void names(Out *o, const NamesDecl *d)
{
    out(o, "names %s", d->name.name);
    open_block(o);
    setting_lines(o, d->setting, d->nsettings);
    for (int i = 0; i < d->nitems; i++)
        name_item(o, &d->item[i]);
    if (d->config_word.name) {
        begin(o);
        out(o, "%s", d->config_word.name);
        settings(o, d->config, d->nconfig);
    }
    close_block(o);
    out(o, "\n");
}

void ast_print(Out *o, const File *f)
{
    int n = 0;
    for (int i = 0; i < f->ndecls; i++) {
        out(o, "%s", n++ ? "\n" : "");
        decl(o, f->decl[i]);
    }
    for (int i = 0; i < f->nplans; i++) {
        out(o, "%s", n++ ? "\n" : "");
        plan(o, f->plan[i]);
    }
    if (f->has_train) {
        out(o, "%s", n++ ? "\n" : "");
        out(o, "train");
        settings(o, f->setting, f->nsettings);
    }
    for (int i = 0; i < f->nnames; i++) {
        out(o, "%s", n++ ? "\n" : "");
        names(o, f->names[i]);
    }
}
