/* check_expr.c: checks expressions: names, calls and their arguments. */
#include <string.h>

#include "frontend/check/check.h"
#include "frontend/lower/lower.h"
#include "frontend/syntax/parser.h"

/* ---- names in scope ------------------------------------------------------ */

const Decl *check_find_decl(const Check *c, const char *name, DeclKind kind)
{
    const Decl *d = file_find_decl(c->file, name, kind);
    return d ? d : file_find_decl(c->prelude, name, kind);
}

static bool is_setting(KnownKind kind)
{
    return kind == KNOWN_FORMAL || kind == KNOWN_CONSTANT;
}

/* Among members a name refers to a formal or a constant first: the formal
 * `bias` decides whether the parameter `bias` exists. */
const Known *sight_find(const Sight *s, const char *name)
{
    const Known *found = NULL;
    for (int i = s->known.n - 1; i >= 0; i--) {
        const Known *k = &s->known.at[i];
        if (strcmp(k->name, name) != 0)
            continue;
        if (s->where != IN_MEMBERS || is_setting(k->kind))
            return k;
        found = found ? found : k;
    }
    return found;
}

void sight_add(Sight *s, Known k)
{
    vec_push(s->check->arena, &s->known, k);
}

void sight_suggest(Sight *s, const char *name)
{
    NameList names = {.arena = s->check->arena};
    for (int i = s->known.n - 1; i >= 0; i--)
        names_add(&names, s->known.at[i].name, s->known.at[i].loc);
    for (int i = 0; i < word_count; i++)
        names_add(&names, word_names[i], (Loc){0});
    for (int i = 0; i < OPTIONS; i++)
        if (option_rows[i].readable)
            names_add(&names, option_rows[i].name, (Loc){0});
    names_add(&names, "training", (Loc){0});
    names_suggest(s->check->diag, &names, name);
}

static void check_name(Sight *s, const Expr *e)
{
    Datum word;
    const Known *k = sight_find(s, e->name);
    Diag *d = s->check->diag;
    bool state = k && k->kind == KNOWN_STATE;
    bool stored = k && (k->kind == KNOWN_PARAM || k->kind == KNOWN_BUFFER || state);
    if (stored && s->where == IN_MEMBERS)
        diag_error(d, e->loc, "'%s' has no value outside of forward",
                   e->name);
    else if (stored && k->kind != KNOWN_BUFFER && s->where == IN_BUFFER)
        diag_error(d, e->loc, "a buffer is computed once, at start: it "
                   "cannot read the %s '%s'", state ? "state" : "parameter",
                   e->name);
    bool mode = s->where == IN_FORWARD && strcmp(e->name, "training") == 0;
    if (k || mode || option_is_readable(e->name) ||
        eval_word(e->name, &word))
        return;
    diag_error(d, e->loc, "unknown name '%s'", e->name);
    if (check_find_decl(s->check, e->name, DC_FUNCTION) ||
        builtin_find(e->name))
        diag_help(d, "'%s' is a function: call it", e->name);
    else if (foreign_help(e->name))
        diag_help(d, "%s", foreign_help(e->name));
    else
        sight_suggest(s, e->name);
}

/* ---- calls --------------------------------------------------------------- */

static void add_functions(NameList *names, const File *f)
{
    for (int i = 0; f && i < f->decl.n; i++)
        if (f->decl.at[i]->kind == DC_FUNCTION)
            names_add(names, f->decl.at[i]->name.name,
                      f->decl.at[i]->name.loc);
}

static void unknown_function(Sight *s, const Expr *e)
{
    const Check *c = s->check;
    if (check_find_decl(c, e->name, DC_MODULE)) {
        diag_error(c->diag, e->loc,
                   "'%s' is a module: declare a child and call that",
                   e->name);
        diag_help(c->diag, s->member ? "write %s: %s(…)"
                                     : "among the members: %s: %s(…)",
                  s->member ? s->member : "child", e->name);
        return;
    }
    diag_error(c->diag, e->loc, "unknown function '%s'", e->name);
    if (foreign_help(e->name)) {
        diag_help(c->diag, "%s", foreign_help(e->name));
        return;
    }
    NameList names = {.arena = c->arena};
    for (int i = s->known.n - 1; i >= 0; i--)
        if (s->known.at[i].kind == KNOWN_CHILD ||
            s->known.at[i].kind == KNOWN_ELEMENT)
            names_add(&names, s->known.at[i].name, s->known.at[i].loc);
    add_functions(&names, c->file);
    if (c->prelude)
        for (int i = 0; i < c->prelude->decl.n; i++)
            if (c->prelude->decl.at[i]->kind == DC_FUNCTION)
                names_add(&names, c->prelude->decl.at[i]->name.name, (Loc){0});
    for (int i = 0; i < builtin_count; i++)
        names_add(&names, builtin_table[i].name, (Loc){0});
    names_suggest(c->diag, &names, e->name);
}

/* A call of a child. Its arguments are checked if the child has one class and
 * its class has one forward; else an `if` selects among them during lowering.
 */
static void check_instance(Sight *s, const Known *k, const Expr *e)
{
    const Decl *decl =
        check_find_decl(s->check, k->member->value->name, DC_MODULE);
    int count = 0;
    const Member *forward =
        decl ? members_find_forward(decl->member, decl->nmembers, &count) : NULL;
    if (k->kind == KNOWN_CHILD && k->member->count) {
        diag_error(s->check->diag, e->loc,
                   "'%s' is an array of modules: loop over it", e->name);
        diag_help(s->check->diag, "for x in %s { … }", e->name);
    } else if (forward && count == 1 && !k->optional) {
        Signature sig;
        Bound bound;
        signature_of_forward(arena_printf(s->check->arena, "'%s'", e->name),
                             forward, &sig);
        bind_call(s->check->arena, s->check->diag, &sig, e, &bound);
    }
}

static void check_callee(Sight *s, const Expr *e)
{
    Check *c = s->check;
    const Known *k = sight_find(s, e->name);
    Signature sig;
    Bound bound;
    bool module = k && (k->kind == KNOWN_CHILD || k->kind == KNOWN_ELEMENT);
    if (module && s->where == IN_FORWARD) {
        check_instance(s, k, e);
        return;
    }
    const Decl *decl = check_find_decl(c, e->name, DC_FUNCTION);
    const Builtin *builtin = builtin_find(e->name);
    if (k && !is_setting(k->kind) && !decl && !builtin)
        return; /* the error depends on the value, which lowering has */
    if (decl)
        signature_of_decl(c->arena, decl, &sig);
    else if (builtin)
        signature_of_text(c->arena, builtin->name, builtin->signature, &sig);
    if (decl || builtin)
        bind_call(c->arena, c->diag, &sig, e, &bound);
    else if (!k)
        unknown_function(s, e);
}

void check_refuse(Check *c, const Expr *e, int before)
{
    if (diag_error_count(c->diag) > before)
        vec_push(c->arena, c->file->refused, e);
}

void check_expr(Sight *s, const Expr *e)
{
    for (int i = 0; i < e->nargs; i++)
        check_expr(s, e->arg[i].value);
    int before = diag_error_count(s->check->diag);
    if (e->kind == EX_NAME)
        check_name(s, e);
    else if (e->kind == EX_CALL)
        check_callee(s, e);
    check_refuse(s->check, e, before);
}
