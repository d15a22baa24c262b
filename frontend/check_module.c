/* check_module.c: checks the members of modules, functions, and expressions:
 * names, calls and their arguments. Sizes and types are checked by lowering.
 */
#include <string.h>

#include "frontend/check.h"
#include "frontend/lower.h"
#include "frontend/parser.h"

/* ---- names in scope ------------------------------------------------------ */

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

static void suggest_in_sight(Sight *s, const char *name)
{
    NameList names = {.arena = s->check->arena};
    for (int i = s->known.n - 1; i >= 0; i--)
        names_add(&names, s->known.at[i].name, s->known.at[i].loc);
    for (int i = 0; i < word_count; i++)
        names_add(&names, word_names[i], (Loc){0});
    names_add(&names, "batch", (Loc){0});
    names_add(&names, "seq", (Loc){0});
    names_add(&names, "training", (Loc){0});
    names_suggest(s->check->diag, &names, name);
}

static void check_name(Sight *s, const Expr *e)
{
    Datum word;
    const Known *k = sight_find(s, e->name);
    Diag *d = s->check->diag;
    bool stored = k && (k->kind == KNOWN_PARAM || k->kind == KNOWN_BUFFER);
    if (stored && s->where == IN_MEMBERS)
        diag_error(d, e->loc, "'%s' has no value outside of forward",
                   e->name);
    else if (stored && k->kind == KNOWN_PARAM && s->where == IN_BUFFER)
        diag_error(d, e->loc, "a buffer is computed once, at start: it "
                   "cannot read the parameter '%s'", e->name);
    bool mode = s->where == IN_FORWARD && strcmp(e->name, "training") == 0;
    if (k || mode || strcmp(e->name, "batch") == 0 ||
        strcmp(e->name, "seq") == 0 || eval_word(e->name, &word))
        return;
    diag_error(d, e->loc, "unknown name '%s'", e->name);
    if (check_find_decl(s->check, e->name, DC_FUNCTION) ||
        builtin_find(e->name))
        diag_help(d, "'%s' is a function: call it", e->name);
    else if (foreign_help(e->name))
        diag_help(d, "%s", foreign_help(e->name));
    else
        suggest_in_sight(s, e->name);
}

/* ---- calls --------------------------------------------------------------- */

static void add_functions(NameList *names, const File *f)
{
    for (int i = 0; f && i < f->ndecls; i++)
        if (f->decl[i]->kind == DC_FUNCTION)
            names_add(names, f->decl[i]->name.name,
                      f->decl[i]->name.loc);
}

static void unknown_function(Sight *s, const Expr *e)
{
    const Check *c = s->check;
    if (check_find_decl(c, e->name, DC_MODULE)) {
        diag_error(c->diag, e->loc,
                   "'%s' is a module: declare a child and call that",
                   e->name);
        diag_help(c->diag, "among the members: child: %s(…)", e->name);
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
        for (int i = 0; i < c->prelude->ndecls; i++)
            if (c->prelude->decl[i]->kind == DC_FUNCTION)
                names_add(&names, c->prelude->decl[i]->name.name, (Loc){0});
    for (int i = 0; i < builtin_count; i++)
        names_add(&names, builtin_table[i].name, (Loc){0});
    names_suggest(c->diag, &names, e->name);
}

static const Member *find_forward(Member *const *member, int n, int *count)
{
    const Member *found = NULL;
    for (int i = 0; i < n; i++) {
        const Member *m = member[i];
        const Member *f = m->kind == MB_FORWARD ? m : NULL;
        *count += f != NULL;
        if (m->kind == MB_IF) {
            f = find_forward(m->body, m->nbody, count);
            if (!f)
                f = find_forward(m->other_body, m->nother, count);
        }
        found = found ? found : f;
    }
    return found;
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
        decl ? find_forward(decl->member, decl->nmembers, &count) : NULL;
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

static void check_call(Sight *s, const Expr *e)
{
    Check *c = s->check;
    for (int i = 0; i < e->nargs; i++)
        check_expr(s, e->arg[i].value);
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

void check_expr(Sight *s, const Expr *e)
{
    if (e->kind == EX_NAME)
        check_name(s, e);
    else if (e->kind == EX_CALL)
        check_call(s, e);
    else
        for (int i = 0; i < e->nargs; i++)
            check_expr(s, e->arg[i].value);
}

/* ---- members ------------------------------------------------------------- */

static void check_child(Sight *s, const Member *m)
{
    Check *c = s->check;
    const Expr *call = m->value;
    if (m->count)
        check_expr(s, m->count);
    for (int i = 0; i < call->nargs; i++)
        check_expr(s, call->arg[i].value);
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

/* A parameter may have a formal's name. Other names are declared once, or once
 * in each branch of an `if`. */
static void declare(Sight *s, const Member *m, KnownKind kind, bool optional)
{
    for (int i = 0; i < s->known.n; i++) {
        const Known *k = &s->known.at[i];
        if (strcmp(k->name, m->name.name) != 0 || (k->optional && optional) ||
            (k->kind == KNOWN_FORMAL && kind == KNOWN_PARAM))
            continue;
        diag_error(s->check->diag, m->name.loc, "'%s' is declared twice",
                   m->name.name);
        diag_note(s->check->diag, k->loc, "the first is here");
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
    diag_error(s->check->diag, e->loc, "unknown name '%s'", e->name);
    suggest_in_sight(s, e->name);
}

static void check_members(Sight *s, Member *const *member, int n,
                          bool optional);

static void check_member(Sight *s, const Member *m, bool optional)
{
    switch (m->kind) {
    case MB_CHILD:
        check_child(s, m);
        declare(s, m, KNOWN_CHILD, optional);
        break;
    case MB_CONSTANT:
        check_expr(s, m->value);
        declare(s, m, KNOWN_CONSTANT, optional);
        break;
    case MB_PARAM:
    case MB_BUFFER:
        for (int i = 0; i < m->ndims; i++)
            check_expr(s, m->dim[i]);
        s->where = m->kind == MB_BUFFER ? IN_BUFFER : IN_MEMBERS;
        check_expr(s, m->value);
        s->where = IN_MEMBERS;
        declare(s, m, m->kind == MB_BUFFER ? KNOWN_BUFFER : KNOWN_PARAM,
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
    if (!find_forward(decl->member, decl->nmembers, &all))
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
