/* check_module.c: checks the members of modules, and functions. Sizes and types
 * are checked by lowering. */
#include <string.h>

#include "frontend/check/check.h"
#include "frontend/lower/lower.h"
#include "frontend/syntax/parser.h"

/* ---- members ------------------------------------------------------------- */

/* Whether the arguments fit the child's class; or that there is no such class.
 */
static void check_class(Check *c, const Expr *call)
{
    const Decl *decl = check_find_decl(c, call->name, DC_MODULE);
    if (decl) {
        Signature sig;
        Bound bound;
        signature_of_decl(c->arena, decl, &sig);
        bind_call(c->arena, c->diag, &sig, call, &bound);
        return;
    }
    diag_error(c->diag, call->loc, "unknown module '%s'", call->name);
    if (foreign_help(call->name)) {
        diag_help(c->diag, "%s", foreign_help(call->name));
        return;
    }
    NameList names = {.arena = c->arena};
    for (int k = 0; k < 2; k++) {
        const File *f = k ? c->prelude : c->file;
        for (int i = 0; f && i < f->ndecls; i++)
            if (f->decl[i]->kind == DC_MODULE)
                names_add(&names, f->decl[i]->name.name,
                          k ? (Loc){0} : f->decl[i]->name.loc);
    }
    names_suggest(c->diag, &names, call->name);
}

static void check_child(Sight *s, const Member *m)
{
    const Expr *call = m->value;
    if (m->count)
        check_expr(s, m->count);
    for (int i = 0; i < call->nargs; i++)
        check_expr(s, call->arg[i].value);
    int before = diag_error_count(s->check->diag);
    check_class(s->check, call);
    check_refuse(s->check, call, before);
}

/* A parameter may have a formal's name. Other names are declared once, or once
 * in each branch of an `if`. */
static void declare_member(Sight *s, const Member *m, KnownKind kind,
                           bool optional)
{
    for (int i = 0; i < s->known.n; i++) {
        const Known *k = &s->known.at[i];
        if (strcmp(k->name, m->name.name) != 0 || (k->optional && optional) ||
            (k->kind == KNOWN_FORMAL && kind == KNOWN_PARAM))
            continue;
        diag_twice(s->check->diag, m->name.loc, k->loc,
                   "'%s' is declared twice", m->name.name);
        break;
    }
    sight_add(s, (Known){m->name.name, kind, m->name.loc, m, optional});
}

static void check_tie_side(Sight *s, const Expr *e)
{
    while (e->kind == EX_MEMBER)
        e = e->arg[0].value;
    if (e->kind != EX_NAME)
        return; /* lowering reports it */
    if (sight_find(s, e->name))
        return;
    int before = diag_error_count(s->check->diag);
    diag_error(s->check->diag, e->loc, "unknown name '%s'", e->name);
    sight_suggest(s, e->name);
    check_refuse(s->check, e, before);
}

static void check_members(Sight *s, Member *const *member, int n,
                          bool optional);

static void check_member(Sight *s, const Member *m, bool optional)
{
    switch (m->kind) {
    case MB_CHILD:
        check_child(s, m);
        declare_member(s, m, KNOWN_CHILD, optional);
        break;
    case MB_CONSTANT:
        s->member = m->name.name;
        check_expr(s, m->value);
        s->member = NULL;
        declare_member(s, m, KNOWN_CONSTANT, optional);
        break;
    case MB_PARAM:
    case MB_BUFFER:
        for (int i = 0; i < m->ndims; i++)
            check_expr(s, m->dim[i]);
        s->where = m->kind == MB_BUFFER ? IN_BUFFER : IN_MEMBERS;
        check_expr(s, m->value);
        s->where = IN_MEMBERS;
        declare_member(s, m,
                       m->kind == MB_BUFFER ? KNOWN_BUFFER : KNOWN_PARAM,
                       optional);
        break;
    case MB_TIE:
        check_tie_side(s, m->value);
        check_tie_side(s, m->other);
        break;
    case MB_IF:
        check_expr(s, m->value);
        check_members(s, m->body, m->nbody, true);
        check_members(s, m->other_body, m->nother, true);
        break;
    case MB_FORWARD:
        break; /* check_forwards: after all members are in scope */
    }
}

static void check_members(Sight *s, Member *const *member, int n,
                          bool optional)
{
    for (int i = 0; i < n; i++)
        check_member(s, member[i], optional);
}

static void check_forwards(Sight *s, Member *const *member, int n)
{
    for (int i = 0; i < n; i++) {
        const Member *m = member[i];
        if (m->kind == MB_FORWARD)
            check_forward(s, m);
        check_forwards(s, m->body, m->nbody);
        check_forwards(s, m->other_body, m->nother);
    }
}

static void add_formals(Sight *s, const Decl *decl)
{
    for (int i = 0; i < decl->nformals; i++) {
        const Formal *f = &decl->formal[i];
        if (f->value)
            check_expr(s, f->value);
        sight_add(s, (Known){f->name.name, KNOWN_FORMAL, f->name.loc, NULL,
                             false});
    }
}

void check_module(Check *c, const Decl *decl)
{
    Sight s = {.check = c, .decl = decl, .where = IN_MEMBERS};
    add_formals(&s, decl);
    check_members(&s, decl->member, decl->nmembers, false);
    int direct = 0, all = 0;
    for (int i = 0; i < decl->nmembers; i++) {
        const Member *m = decl->member[i];
        if (m->kind == MB_FORWARD && direct++ > 0)
            diag_error(c->diag, m->loc, "a module has one forward: remove "
                       "this one, or select with 'if'");
    }
    if (!members_find_forward(decl->member, decl->nmembers, &all))
        diag_error(c->diag, decl->name.loc, "'%s' has no forward: add "
                   "forward(…) { … }", decl->name.name);
    s.where = IN_FORWARD;
    check_forwards(&s, decl->member, decl->nmembers);
}

void check_function(Check *c, const Decl *decl)
{
    Sight s = {.check = c, .decl = decl, .where = IN_MEMBERS};
    add_formals(&s, decl);
    s.where = IN_FORWARD;
    check_stmts(&s, decl->stmt, decl->nstmts, 0);
    check_returns(&s, decl->stmt, decl->nstmts, decl->name.loc,
                  decl->name.name);
}
