/* check.c: reports the errors of a file that can be found without sizes: of its
 * declarations, modules and functions.
 *
 * `check` covers every declaration, whether the model uses it or not. It lists
 * the names and calls with errors in File.refused, which lowering takes for
 * poison: every error is reported in one place. Plans and settings are read by
 * lowering.
 */
#include <string.h>

#include "frontend/check/check.h"
#include "frontend/frontend.h"
#include "frontend/lower/lower.h"
#include "frontend/names/names.h"
#include "frontend/syntax/parser.h"
#include "ir/options.h"

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
        for (int i = 0; f && i < f->decl.n; i++)
            if (f->decl.at[i]->kind == DC_MODULE)
                names_add(&names, f->decl.at[i]->name.name,
                          k ? (Loc){0} : f->decl.at[i]->name.loc);
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
    case MB_STATE:
        for (int i = 0; i < m->ndims; i++)
            check_expr(s, m->dim[i]);
        s->where = m->kind == MB_BUFFER ? IN_BUFFER : IN_MEMBERS;
        check_expr(s, m->value);
        s->where = IN_MEMBERS;
        declare_member(s, m,
                       m->kind == MB_BUFFER  ? KNOWN_BUFFER
                       : m->kind == MB_STATE ? KNOWN_STATE
                                             : KNOWN_PARAM,
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

static void check_module(Check *c, const Decl *decl)
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

static void check_function(Check *c, const Decl *decl)
{
    Sight s = {.check = c, .decl = decl, .where = IN_MEMBERS};
    add_formals(&s, decl);
    s.where = IN_FORWARD;
    check_stmts(&s, decl->stmt, decl->nstmts, 0);
    check_returns(&s, decl->stmt, decl->nstmts, decl->name.loc,
                  decl->name.name);
}

/* ---- declarations -------------------------------------------------------- */

static void check_formals(Check *c, const Decl *decl)
{
    if (decl->nformals > MAX_FORMALS)
        diag_error(c->diag, decl->formal[MAX_FORMALS].name.loc,
                   "a declaration has at most %d parameters", MAX_FORMALS);
    for (int i = 0; i < decl->nformals; i++) {
        const Ident *name = &decl->formal[i].name;
        names_check_new(c->diag, decl->formal, i, "declared");
        if (decl->kind == DC_MODEL && option_find(SCOPE_TRAIN, name->name))
            diag_error(c->diag, name->loc,
                       "'%s' is also a train setting, and -D would be "
                       "ambiguous: rename it", name->name);
    }
}

/* Plans treat Linear and Embedding by name: a file may not redefine them. */
static void check_reserved(Check *c, const Decl *decl)
{
    const char *name = decl->name.name;
    bool taken = strcmp(name, "Linear") == 0 || strcmp(name, "Embedding") == 0;
    if (taken && c->prelude)
        diag_error(c->diag, decl->name.loc,
                   "'%s' is a module of the prelude: choose another name",
                   name);
}

/* Whether `to` is reachable from `from` through children: a module that
 * contains itself would never end. `seen` marks the visited declarations. */
static bool reaches(Check *c, const Decl *from, const Decl *to, bool *seen);

static bool members_reach(Check *c, Member *const *member, int n,
                          const Decl *to, bool *seen)
{
    for (int i = 0; i < n; i++) {
        const Member *m = member[i];
        if (members_reach(c, m->body, m->nbody, to, seen) ||
            members_reach(c, m->other_body, m->nother, to, seen))
            return true;
        if (m->kind != MB_CHILD)
            continue;
        const Decl *d = file_find_decl(c->file, m->value->name, DC_MODULE);
        if (d && (d == to || reaches(c, d, to, seen)))
            return true;
    }
    return false;
}

static int decl_index(const Check *c, const Decl *decl)
{
    int i = 0;
    while (c->file->decl.at[i] != decl)
        i++;
    return i;
}

static bool children_acyclic(const Check *c, Member *const *member, int n)
{
    for (int i = 0; i < n; i++) {
        const Member *m = member[i];
        const Decl *d = m->kind == MB_CHILD
                            ? file_find_decl(c->file, m->value->name, DC_MODULE)
                            : NULL;
        if ((d && !c->acyclic[decl_index(c, d)]) ||
            !children_acyclic(c, m->body, m->nbody) ||
            !children_acyclic(c, m->other_body, m->nother))
            return false;
    }
    return true;
}

/* A module is known to be acyclic when all its children are. Such a module is
 * not searched a second time: checking all modules of a file without cycles is
 * one search. */
static bool reaches(Check *c, const Decl *from, const Decl *to, bool *seen)
{
    int i = decl_index(c, from);
    if (seen[i] || c->acyclic[i])
        return false;
    seen[i] = true;
    if (members_reach(c, from->member, from->nmembers, to, seen))
        return true;
    c->acyclic[i] = children_acyclic(c, from->member, from->nmembers);
    return false;
}

static void check_cycles(Check *c, const Decl *decl)
{
    bool *seen = NEW_ARRAY(c->arena, bool, c->file->decl.n + 1);
    if (decl->kind == DC_MODULE && reaches(c, decl, decl, seen))
        diag_error(c->diag, decl->name.loc, "module '%s' contains itself",
                   decl->name.name);
}

static void check_decl(Check *c, const Decl *decl)
{
    Decl *const *first = c->file->decl.at;
    while (strcmp((*first)->name.name, decl->name.name) != 0)
        first++;
    if (*first != decl)
        diag_twice(c->diag, decl->name.loc, (*first)->name.loc,
                   "'%s' is declared twice", decl->name.name);
    check_reserved(c, decl);
    check_formals(c, decl);
    check_cycles(c, decl);
    if (decl->kind == DC_FUNCTION)
        check_function(c, decl);
    else
        check_module(c, decl);
}

static void check_one_model(Check *c)
{
    const Decl *model = file_model(c->file);
    for (int i = 0; i < c->file->decl.n; i++) {
        const Decl *decl = c->file->decl.at[i];
        if (decl->kind == DC_MODEL && decl != model)
            diag_twice(c->diag, decl->name.loc, model->name.loc,
                       "a file has one model: remove this one");
    }
    if (!model) {
        Loc loc = {.file = c->file->source, .len = 1, .line = 1, .col = 1};
        diag_error(c->diag, loc, "the file has no model");
        diag_help(c->diag, "model Name { … forward(…) { return loss } }");
    }
}

static void check_file(Check *c)
{
    for (int i = 0; i < c->file->decl.n; i++)
        check_decl(c, c->file->decl.at[i]);
    check_names(c->arena, c->diag, c->file);
}

void pdl_check(Arena *a, Diag *d, const File *prelude, const File *file)
{
    Check own = {a, d, NULL, prelude,
                 NEW_ARRAY(a, bool, prelude->decl.n + 1)};
    check_file(&own);
    Check c = {a, d, prelude, file, NEW_ARRAY(a, bool, file->decl.n + 1)};
    check_file(&c);
    check_one_model(&c);
}
