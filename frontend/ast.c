/* ast.c: finds declarations in a syntax tree. */
#include "frontend/ast.h"

#include <string.h>

const Decl *file_find_decl(const File *f, const char *name, DeclKind kind)
{
    for (int i = 0; f && i < f->ndecls; i++)
        if (f->decl[i]->kind == kind &&
            strcmp(f->decl[i]->name.name, name) == 0)
            return f->decl[i];
    return NULL;
}

const Member *members_find_forward(Member *const *member, int n, int *count)
{
    const Member *found = NULL;
    for (int i = 0; i < n; i++) {
        const Member *m = member[i];
        const Member *f = m->kind == MB_FORWARD ? m : NULL;
        *count += f != NULL;
        if (m->kind == MB_IF) {
            f = members_find_forward(m->body, m->nbody, count);
            if (!f)
                f = members_find_forward(m->other_body, m->nother, count);
        }
        found = found ? found : f;
    }
    return found;
}
