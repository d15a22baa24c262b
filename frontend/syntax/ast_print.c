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
#include <stdarg.h>
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

const char *binary_sign(BinaryOp op)
{
    return binary_table[op].text;
}

static int precedence(const Expr *e)
{
    if (e->kind == EX_BINARY)
        return binary_table[e->op].precedence;
    return e->kind == EX_NEG   ? PREC_NEG
           : e->kind == EX_NOT ? PREC_NOT
                               : PREC_ATOM;
}

/* Prints text with nodes: %s a string, %e an expression, %l a List with commas,
 * %b a List as a block in braces, with a line for each node. */
static void put(Out *o, const char *fmt, ...);

/* Nodes of one kind, and how one of them is printed. */
typedef struct List {
    const void *rows;
    int n;
    size_t size;
    void (*print)(Out *o, const void *node);
} List;

#define LIST(rows, n, print) (&(List){(rows), (n), sizeof *(rows), (print)})

static const void *node_at(const List *l, int i)
{
    return (const char *)l->rows + (size_t)i * l->size;
}

/* Prints e in parentheses if it binds less tightly than `least`. */
static void operand(Out *o, const Expr *e, int least)
{
    put(o, precedence(e) < least ? "(%e)" : "%e", e);
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

static void arg(Out *o, const void *node)
{
    const Arg *a = node;
    if (a->name)
        out(o, "%s=", a->name);
    put(o, "%e", a->value);
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
    const List *args = LIST(e->arg, e->nargs, arg);
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
        put(o, "%s(%l)", e->name, args);
        return;
    case EX_TUPLE:
        put(o, e->nargs == 1 ? "(%l,)" : "(%l)", args);
        return;
    case EX_MEMBER:
        operand(o, e->arg[0].value, PREC_ATOM);
        out(o, ".%s", e->name);
        return;
    case EX_INDEX:
        operand(o, e->arg[0].value, PREC_ATOM);
        put(o, "[%e]", e->arg[1].value);
        return;
    case EX_IF:
        break;
    }
    bug("ast_print: an expression of kind %d", (int)e->kind);
}

static void list(Out *o, const List *l)
{
    for (int i = 0; i < l->n; i++) {
        out(o, "%s", i ? ", " : "");
        l->print(o, node_at(l, i));
    }
}

static void lines(Out *o, const List *l)
{
    for (int i = 0; i < l->n; i++) {
        out(o, "%*s", o->indent, "");
        l->print(o, node_at(l, i));
        out(o, "\n");
    }
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

static void put(Out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    for (; *fmt; fmt++) {
        if (*fmt != '%') {
            out_bytes(o, fmt, 1);
            continue;
        }
        const void *node = va_arg(ap, const void *);
        switch (*++fmt) {
        case 's':
            out(o, "%s", (const char *)node);
            break;
        case 'e':
            expr(o, node);
            break;
        case 'l':
            list(o, node);
            break;
        case 'b':
            open_block(o);
            lines(o, node);
            close_block(o);
            break;
        }
    }
    va_end(ap);
}

static void expr_node(Out *o, const void *node)
{
    expr(o, *(Expr *const *)node);
}

static void ident(Out *o, const void *node)
{
    out(o, "%s", ((const Ident *)node)->name);
}

/* ---- statements and members ---- */

/* `chain`: the only node of `other` is an `if`. */
static void put_if(Out *o, const Expr *condition, const List *body,
                   const List *other, bool chain)
{
    put(o, "if %e%b", condition, body);
    if (chain) {
        out(o, " else ");
        other->print(o, other->rows);
    } else if (other->n > 0) {
        put(o, " else%b", other);
    }
}

static void stmt(Out *o, const void *node)
{
    const Stmt *s = *(Stmt *const *)node;
    const List *body = LIST(s->body, s->nbody, stmt);
    switch (s->kind) {
    case ST_ASSIGN:
        put(o, "%l = %e", LIST(s->target, s->ntargets, ident), s->value);
        return;
    case ST_UPDATE:
        put(o, "update %s = %e", s->target[0].name, s->value);
        return;
    case ST_RETURN:
        put(o, "return %e", s->value);
        return;
    case ST_FOR:
        put(o, "for %s in %e%b", s->target[0].name, s->value, body);
        return;
    case ST_IF:
        put_if(o, s->value, body, LIST(s->other, s->nother, stmt),
               s->nother == 1 && s->other[0]->kind == ST_IF);
        return;
    }
}

static void input(Out *o, const void *node)
{
    const InputDecl *in = node;
    out(o, "%s%s", in->name.name, in->is_int || in->has_shape ? ": " : "");
    if (in->is_int)
        put(o, "int(%e", in->below);
    if (in->ignored)
        put(o, ", %s=%e", in->ignored_name.name, in->ignored);
    out(o, "%s", in->is_int ? ")" : "");
    if (in->has_shape)
        put(o, in->open && in->ndims ? "[..., %l]" : in->open ? "[...%l]"
                                                              : "[%l]",
            LIST(in->dim, in->ndims, expr_node));
}

static void member(Out *o, const void *node)
{
    const Member *m = *(Member *const *)node;
    switch (m->kind) {
    case MB_CHILD:
        put(o, m->count ? "%s: [%e] " : "%s: ", m->name.name, m->count);
        expr(o, m->value);
        return;
    case MB_CONSTANT:
        put(o, "%s = %e", m->name.name, m->value);
        return;
    case MB_PARAM:
    case MB_BUFFER:
    case MB_STATE:
        put(o, m->kind == MB_PARAM ? "param %s[%l] = %e"
               : m->kind == MB_BUFFER ? "buffer %s[%l] = %e" : "state %s[%l] = %e",
            m->name.name, LIST(m->dim, m->ndims, expr_node), m->value);
        return;
    case MB_TIE:
        put(o, "tie %e = %e", m->value, m->other);
        return;
    case MB_IF:
        put_if(o, m->value, LIST(m->body, m->nbody, member),
               LIST(m->other_body, m->nother, member),
               m->nother == 1 && m->other_body[0]->kind == MB_IF);
        return;
    case MB_FORWARD:
        put(o, "forward(%l)%b", LIST(m->input, m->ninputs, input),
            LIST(m->stmt, m->nstmts, stmt));
        return;
    }
}

static void formal(Out *o, const void *node)
{
    const Formal *f = node;
    put(o, f->value ? "%s=%e" : "%s", f->name.name, f->value);
}

static void decl(Out *o, const Decl *d)
{
    static const char *const keyword[] = {
        [DC_MODULE] = "module",
        [DC_MODEL] = "model",
        [DC_FUNCTION] = "function",
    };
    put(o, "%s %s(%l)%b\n", keyword[d->kind], d->name.name,
        LIST(d->formal, d->nformals, formal),
        d->kind == DC_FUNCTION ? LIST(d->stmt, d->nstmts, stmt)
                               : LIST(d->member, d->nmembers, member));
}

/* ---- plans ---- */

static void style_arg(Out *o, const void *node)
{
    const StyleArg *a = node;
    if (a->name)
        out(o, "%s=", a->name);
    put(o, a->to ? "%e -> %e" : "%e", a->from, a->to);
}

static void path(Out *o, const void *node)
{
    const Path *p = node;
    out(o, "%s", *p->text ? p->text : "model");
}

static void paths(Out *o, const Path *list, int n)
{
    put(o, n > 1 ? "[%l]" : "%l", LIST(list, n, path));
}

static void stage_item(Out *o, const void *node)
{
    const StageItem *s = node;
    paths(o, s->path, s->npaths);
}

/* `width`: of the modules' column; 0: without columns. */
static void print_item(Out *o, const Item *it, size_t width)
{
    size_t begin = o->size;
    paths(o, it->path, it->npaths);
    if (it->class_name)
        out(o, "every %s", it->class_name);
    if (it->min_params)
        put(o, "%s=%e", option_name(OPTION_min_params), it->min_params);
    size_t n = o->size - begin;
    if (it->style) {
        out(o, ":%*s", (int)(width > n ? width - n : 0) + 1, "");
        put(o, it->nargs ? "%s(%l)" : "%s", it->style,
            LIST(it->arg, it->nargs, style_arg));
    }
    if (it->nstages)
        put(o, it->noptions ? "%s=[%l], " : "%s=[%l]", option_name(OPTION_split),
            LIST(it->stage, it->nstages, stage_item));
    bool of_clause = !it->npaths && !it->class_name && !it->min_params;
    if (it->noptions)
        put(o, of_clause ? "%l" : ": %l", LIST(it->option, it->noptions, arg));
}

void ast_print_item(Out *o, const Item *it)
{
    print_item(o, it, 0);
}

static void item(Out *o, const void *node)
{
    ast_print_item(o, node);
}

/* The width of the items' modules. */
static size_t modules_width(Out *o, const Clause *c)
{
    Out text;
    size_t width = 0;
    out_init(&text, o->arena);
    for (int i = 0; i < c->nitems; i++) {
        size_t begin = text.size;
        paths(&text, c->item[i].path, c->item[i].npaths);
        width = text.size - begin > width ? text.size - begin : width;
    }
    return width;
}

/* Styles are in a column. */
static void parallelize(Out *o, const Clause *c)
{
    size_t width = modules_width(o, c);
    put(o, "%s %l", clause_name(c->kind), LIST(c->axis, c->naxes, ident));
    open_block(o);
    for (int i = 0; i < c->nitems; i++) {
        out(o, "%*s", o->indent, "");
        print_item(o, &c->item[i], width);
        out(o, "\n");
    }
    close_block(o);
}

static void clause(Out *o, const void *node)
{
    const Clause *c = node;
    if (c->kind == CL_PARALLELIZE) {
        parallelize(o, c);
        return;
    }
    put(o, c->naxes > 1 ? "%s (%l)%b" : c->naxes ? "%s %l%b" : "%s%l%b",
        clause_name(c->kind), LIST(c->axis, c->naxes, ident),
        LIST(c->item, c->nitems, item));
}

/* ---- the file ---- */

void ast_print_setting(Out *o, const Setting *s)
{
    put(o, "%s = %e", s->name.name, s->value);
}

static void setting(Out *o, const void *node)
{
    ast_print_setting(o, node);
}

static void name_item(Out *o, const void *node)
{
    const NameItem *it = node;
    paths(o, it->path, it->npaths);
    out(o, " -> ");
    if (it->quoted)
        out_string(o, it->file.text);
    else
        out(o, "%s", it->file.text);
    if (it->nlayouts)
        put(o, ": %l", LIST(it->layout, it->nlayouts, expr_node));
}

static void names(Out *o, const NamesDecl *d)
{
    out(o, "names %s", d->name.name);
    open_block(o);
    lines(o, LIST(d->setting.at, d->setting.n, setting));
    lines(o, LIST(d->item.at, d->item.n, name_item));
    if (d->config_word.name)
        put(o, "%s%s%b\n", arena_printf(o->arena, "%*s", o->indent, ""),
            d->config_word.name, LIST(d->config.at, d->config.n, setting));
    close_block(o);
    out(o, "\n");
}

void ast_print_plan(Out *o, const PlanDecl *p)
{
    put(o, "plan %s(%l)%b\n", p->name.name, LIST(p->axis, p->naxes, ident),
        LIST(p->clause, p->nclauses, clause));
}

void ast_print(Out *o, const File *f)
{
    int n = 0;
    for (int i = 0; i < f->decl.n; i++) {
        out(o, "%s", n++ ? "\n" : "");
        decl(o, f->decl.at[i]);
    }
    for (int i = 0; i < f->plan.n; i++) {
        out(o, "%s", n++ ? "\n" : "");
        ast_print_plan(o, f->plan.at[i]);
    }
    if (f->has_train)
        put(o, "%strain%b\n", n++ ? "\n" : "",
            LIST(f->setting.at, f->setting.n, setting));
    for (int i = 0; i < f->names.n; i++) {
        out(o, "%s", n++ ? "\n" : "");
        names(o, f->names.at[i]);
    }
}
