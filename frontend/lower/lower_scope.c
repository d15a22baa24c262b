/* lower_scope.c: the errors of lowering, the names in scope, and values in the
 * regions of loops.
 *
 * An error inside the prelude is reported at the user's call, with a note that
 * gives the line of the prelude.
 *
 *   %t = param …
 *   loop … free(%u = %t) { … add %x, %u }     lower_import(%t) is %u
 */
#include "base/bug.h"
#include "frontend/lower/lower.h"

#include <stdarg.h>
#include <string.h>

/* ---- errors -------------------------------------------------------------- */

static const Frame *user_frame(const Lower *l)
{
    const Frame *f = l->frame;
    while (f && f->call.file == l->prelude->source)
        f = f->outer;
    return f;
}

Loc lower_user_loc(const Lower *l, Loc loc)
{
    if (loc.file != l->prelude->source)
        return loc;
    const Frame *f = user_frame(l);
    return f ? f->call : loc;
}

bool lower_error(Lower *l, Loc loc, const char *help, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(l->arena, fmt, ap);
    va_end(ap);
    const Frame *f = user_frame(l);
    bool inside = loc.file == l->prelude->source && f;
    diag_error(l->diag, inside ? f->call : loc, "%s", text);
    if (inside)
        diag_note(l->diag, loc, "in the prelude's '%s', here", f->callee);
    if (help)
        diag_help(l->diag, "%s", help);
    return false;
}

bool lower_is_refused(const Lower *l, const Expr *e)
{
    return vec_has(l->file->refused, e);
}

void lower_note(Lower *l, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(l->arena, fmt, ap);
    va_end(ap);
    diag_note(l->diag, loc, "%s", text);
}

/* ---- names --------------------------------------------------------------- */

bool instance_is_below(const Instance *m, const Instance *array)
{
    while (m && m != array)
        m = m->parent;
    return m != NULL;
}

Binding *bind_name(Lower *l, Binding *next, const char *name, Loc loc,
                   Datum d)
{
    Binding *b = NEW(l->arena, Binding);
    *b = (Binding){name, loc, d, next};
    return b;
}

const Binding *find_name(const Binding *b, const char *name)
{
    while (b && strcmp(b->name, name) != 0)
        b = b->next;
    return b;
}

const Decl *lower_find_decl(const Lower *l, Loc from, const char *name,
                            DeclKind kind)
{
    const Decl *d = NULL;
    if (from.file != l->prelude->source)
        d = file_find_decl(l->file, name, kind);
    return d ? d : file_find_decl(l->prelude, name, kind);
}

/* ---- values of outer regions ------------------------------------------- */

static Value *find_seen(const Level *at, const Value *outer)
{
    for (int i = 0; i < at->from.n; i++)
        if (at->from.at[i] == outer)
            return at->here.at[i];
    return NULL;
}

Value *lower_bring_in(Lower *l, Level *at, Value *outer, bool stacked)
{
    Value *v = find_seen(at, outer);
    if (v)
        return v;
    v = stacked ? ir_loop_add_stack(l->p, at->loop, outer)
                : ir_loop_add_free(l->p, at->loop, outer);
    vec_push(l->arena, &at->from, outer);
    vec_push(l->arena, &at->here, v);
    return v;
}

Value *lower_import(Lower *l, Level *at, Value *v)
{
    if (v->region == at->region)
        return v;
    if (!at->outer)
        bug("value %%%s is read outside of its region", v->name);
    return lower_bring_in(l, at, lower_import(l, at->outer, v), false);
}
