/* check.h: declares what the check_*.c files of this directory share: the state
 * of a check, and the scope of a module.
 */
#ifndef PARC_FRONTEND_CHECK_CHECK_H
#define PARC_FRONTEND_CHECK_CHECK_H

#include "frontend/eval/eval.h"

typedef struct Check {
    Arena *arena;
    Diag *diag;
    const File *prelude, *file;
    bool *acyclic; /* by declaration: known not to contain itself */
} Check;

/* check_expr.c: a declaration of the file or the prelude; NULL: none. */
const Decl *check_find_decl(const Check *c, const char *name, DeclKind kind);

/* A name in scope, its declaration and its kind. */
typedef enum KnownKind {
    KNOWN_FORMAL,
    KNOWN_CONSTANT,
    KNOWN_CHILD,
    KNOWN_PARAM,
    KNOWN_BUFFER,
    KNOWN_STATE,
    KNOWN_LOCAL,
    KNOWN_ELEMENT, /* a loop variable: an element of an array */
} KnownKind;
typedef struct Known {
    const char *name;
    KnownKind kind;
    Loc loc;
    const Member *member; /* CHILD, PARAM, BUFFER, STATE; ELEMENT: the array's */
    bool optional;        /* declared under an `if` */
} Known;

/* The names in scope, innermost last. */
typedef struct Sight {
    Check *check;
    const Decl *decl;
    VEC(Known) known;
    enum { IN_MEMBERS, IN_BUFFER, IN_FORWARD } where;
    const char *member; /* the constant whose value is checked; or NULL */
} Sight;
/* check_expr.c */
const Known *sight_find(const Sight *s, const char *name);
void sight_add(Sight *s, Known k);
/* Suggests a name in scope that is similar to `name`. */
void sight_suggest(Sight *s, const char *name);
void check_expr(Sight *s, const Expr *e);
/* If there are more errors than `before`, lowering takes the expression for
 * poison. */
void check_refuse(Check *c, const Expr *e, int before);
/* check_forward.c */
void check_stmts(Sight *s, Stmt *const *stmt, int n, int depth);
void check_returns(Sight *s, Stmt *const *stmt, int n, Loc loc,
                   const char *name);
void check_forward(Sight *s, const Member *forward);

#endif
