/* lower_scope.c: the errors of lowering, and the names in scope.
 *
 * An error inside the prelude is reported at the user's call, with a note that
 * gives the line of the prelude.
 */
#include "frontend/lower.h"

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

void lower_note(Lower *l, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(l->arena, fmt, ap);
    va_end(ap);
    diag_note(l->diag, loc, "%s", text);
}

/* ---- names --------------------------------------------------------------- */

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
