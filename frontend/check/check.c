/* check.c: reports the errors of a file that can be found without sizes.
 *
 * `check` covers every declaration, whether the model uses it or not. It lists
 * the names and calls with errors in File.refused, which lowering takes for
 * poison: every error is reported in one place. Plans and settings are read by
 * lowering.
 */
#include "frontend/check/check.h"

#include <string.h>

#include "frontend/frontend.h"
#include "frontend/names/names.h"
#include "ir/options.h"

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
    while (c->file->decl[i] != decl)
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
    bool *seen = NEW_ARRAY(c->arena, bool, c->file->ndecls + 1);
    if (decl->kind == DC_MODULE && reaches(c, decl, decl, seen))
        diag_error(c->diag, decl->name.loc, "module '%s' contains itself",
                   decl->name.name);
}

static void check_decl(Check *c, const Decl *decl)
{
    Decl *const *first = c->file->decl;
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
    const Decl *model = NULL;
    for (int i = 0; i < c->file->ndecls; i++) {
        const Decl *decl = c->file->decl[i];
        if (decl->kind != DC_MODEL)
            continue;
        if (model)
            diag_twice(c->diag, decl->name.loc, model->name.loc,
                       "a file has one model: remove this one");
        model = model ? model : decl;
    }
    if (!model) {
        Loc loc = {.file = c->file->source, .len = 1, .line = 1, .col = 1};
        diag_error(c->diag, loc, "the file has no model");
        diag_help(c->diag, "model Name { … forward(…) { return loss } }");
    }
}

static void check_file(Check *c)
{
    for (int i = 0; i < c->file->ndecls; i++)
        check_decl(c, c->file->decl[i]);
    check_names(c->arena, c->diag, c->file);
}

void pdl_check(Arena *a, Diag *d, const File *prelude, const File *file)
{
    Check own = {a, d, NULL, prelude,
                 NEW_ARRAY(a, bool, prelude->ndecls + 1)};
    check_file(&own);
    Check c = {a, d, prelude, file, NEW_ARRAY(a, bool, file->ndecls + 1)};
    check_file(&c);
    check_one_model(&c);
}
