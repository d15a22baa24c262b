/* eval_call.c: binds the arguments of a call to formals, and suggests near
 * misses of unknown names.
 */
#include <ctype.h>
#include <string.h>

#include "base/text.h"
#include "frontend/eval/eval.h"
#include "frontend/syntax/parser.h"

/* ---- near misses ---- */

void names_check_repeated(Diag *d, const void *rows, size_t row_size, int i,
                          const char *how)
{
    const char *row = (const char *)rows + row_size * (size_t)i;
    const Ident *own = (const void *)row;
    const Ident *first = name_row(rows, i, row_size, own->name);
    if (first)
        diag_twice(d, own->loc, first->loc, "'%s' is %s twice", own->name, how);
}

void names_add(NameList *l, const char *name, Loc loc)
{
    vec_push(l->arena, &l->name, name);
    vec_push(l->arena, &l->loc, loc);
}

void names_suggest(Diag *d, const NameList *l, const char *name)
{
    const char *near = diag_near_miss(name, l->name.at, l->name.n);
    if (!near)
        return;
    for (int i = 0; i < l->name.n; i++) {
        if (strcmp(l->name.at[i], near) != 0)
            continue;
        if (l->loc.at[i].line != 0)
            diag_note(d, l->loc.at[i], "did you mean '%s'?", near);
        else
            diag_help(d, "did you mean '%s'?", near);
        return;
    }
}

void names_suggest_or_list(Diag *d, const NameList *l, const char *name)
{
    if (diag_near_miss(name, l->name.at, l->name.n)) {
        names_suggest(d, l, name);
        return;
    }
    const char *all = "";
    for (int i = 0; i < l->name.n; i++)
        all = arena_printf(l->arena, "%s%s%s", all, i ? ", " : "",
                           l->name.at[i]);
    diag_help(d, "one of %s", all);
}

/* ---- signatures ---- */

static void add_formal(Signature *s, const char *name, bool optional)
{
    if (s->n == MAX_FORMALS)
        return; /* check reports such a declaration */
    s->name[s->n] = name;
    s->optional[s->n++] = optional;
}

void signature_of_decl(Arena *a, const Decl *decl, Signature *s)
{
    static const char *const kind[] = {"module", "model", "function"};
    *s = (Signature){.many = -1, .loc = decl->name.loc};
    s->what = arena_printf(a, "%s '%s'", kind[decl->kind], decl->name.name);
    for (int i = 0; i < decl->nformals; i++)
        add_formal(s, decl->formal[i].name.name,
                   decl->formal[i].value != NULL);
}

void signature_of_forward(const char *what, const Member *forward,
                          Signature *s)
{
    *s = (Signature){.what = what, .many = -1, .loc = forward->loc};
    for (int i = 0; i < forward->ninputs; i++)
        add_formal(s, forward->input[i].name.name, false);
}

void signature_of_text(Arena *a, const char *name, const char *text,
                       Signature *s)
{
    *s = (Signature){.many = -1, .what = arena_printf(a, "'%s'", name)};
    const char *p = text;
    while (*p) {
        while (*p == ' ' || *p == ',')
            p++;
        const char *begin = p;
        while (isalnum((unsigned char)*p) || *p == '_')
            p++;
        const char *formal = arena_strndup(a, begin, (size_t)(p - begin));
        if (starts_with(p, "..."))
            s->many = s->n;
        add_formal(s, formal, *p == '=');
        while (*p && *p != ',')
            p++;
    }
}

/* ---- binding ---- */

static void suggest_formal(Arena *a, Diag *d, const Signature *s,
                           const char *name)
{
    const char *foreign = foreign_argument_help(name);
    if (foreign) {
        diag_help(d, "%s", foreign);
        return;
    }
    NameList l = {.arena = a};
    for (int i = 0; i < s->n; i++)
        names_add(&l, s->name[i], (Loc){0});
    names_suggest(d, &l, name);
    if (s->loc.line != 0)
        diag_note(d, s->loc, "declared here");
}

static bool bind_named(Arena *a, Diag *d, const Signature *s, const Arg *arg,
                       Bound *b)
{
    int i = row_index(s->name, s->n, arg->name);
    if (i < 0 || i == s->many) {
        diag_error(d, arg->name_loc, "%s has no argument '%s'", s->what,
                   arg->name);
        suggest_formal(a, d, s, arg->name);
        return false;
    }
    if (b->value[i])
        return diag_error(d, arg->name_loc, "'%s' is given twice", arg->name);
    b->value[i] = arg->value;
    return true;
}

static bool check_missing(Arena *a, Diag *d, const Signature *s,
                          const Expr *call, const Bound *b)
{
    const char *missing = NULL;
    for (int i = 0; i < s->n; i++) {
        if (b->value[i] || s->optional[i])
            continue;
        missing = missing ? arena_printf(a, "%s, '%s'", missing, s->name[i])
                          : arena_printf(a, "'%s'", s->name[i]);
    }
    if (!missing)
        return true;
    diag_error(d, call->loc, "%s needs %s", s->what, missing);
    if (s->loc.line != 0)
        diag_note(d, s->loc, "declared here");
    return false;
}

static void too_many(Diag *d, const Signature *s, const Expr *call,
                     const Expr *extra)
{
    int given = 0;
    for (int i = 0; i < call->nargs; i++)
        given += call->arg[i].name == NULL;
    diag_error(d, extra->range, "%s takes %d argument%s, not %d", s->what,
               s->n, s->n == 1 ? "" : "s", given);
    if (s->loc.line != 0)
        diag_note(d, s->loc, "declared here");
}

bool bind_call(Arena *a, Diag *d, const Signature *s, const Expr *call,
               Bound *b)
{
    *b = (Bound){0};
    bool fine = true;
    int at = 0;
    for (int i = 0; i < call->nargs; i++) {
        const Arg *arg = &call->arg[i];
        if (arg->name) {
            fine &= bind_named(a, d, s, arg, b);
        } else if (s->many >= 0 && at == s->many && b->value[at]) {
            if (!b->extra)
                b->extra = NEW_ARRAY(a, const Expr *, call->nargs);
            b->extra[b->nextra++] = arg->value;
        } else if (at < s->n && (s->many < 0 || at <= s->many)) {
            b->value[at] = arg->value;
            if (at != s->many)
                at++;
        } else {
            too_many(d, s, call, arg->value);
            return false;
        }
    }
    return check_missing(a, d, s, call, b) && fine;
}
