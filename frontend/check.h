/* check.h: what the files of `check` share with each other and with lowering:
 * the names that train settings, optimizers and clauses of plans may have.
 */
#ifndef PARC_FRONTEND_CHECK_H
#define PARC_FRONTEND_CHECK_H

#include "frontend/eval.h"

/* ---- check_train.c ---- */

typedef struct OptimizerInfo {
    const char *name;
    OptimizerKind kind;
    const char *signature;
} OptimizerInfo;
const OptimizerInfo *optimizer_find(const char *name);
const OptimizerInfo *optimizer_info(OptimizerKind kind);
/* Reports an expression that is no known optimizer. */
void optimizer_unknown(Arena *a, Diag *d, const Expr *e);

/* A setting that parc knows, be it one whose effect is not there yet. */
bool setting_known(const char *name);
void settings_add(NameList *l);
/* Reports a setting that is not supported, or unknown. */
void setting_refused(Arena *a, Diag *d, const Setting *s);
void check_train(Arena *a, Diag *d, const File *file);

/* ---- check_plan.c ---- */

void check_plans(Arena *a, Diag *d, const File *file);

/* ---- check_module.c, check_forward.c ---- */

typedef struct Check {
    Arena *arena;
    Diag *diag;
    const File *prelude, *file;
} Check;

const Decl *check_find_decl(const Check *c, const char *name, DeclKind kind);
void check_module(Check *c, const Decl *decl);
void check_function(Check *c, const Decl *decl);

/* A name that a module declares: where, and as what. */
typedef enum KnownKind {
    KNOWN_FORMAL,
    KNOWN_CONSTANT,
    KNOWN_CHILD,
    KNOWN_PARAM,
    KNOWN_BUFFER,
    KNOWN_LOCAL,
    KNOWN_ELEMENT, /* of an array: the name of a loop */
} KnownKind;
typedef struct Known {
    const char *name;
    KnownKind kind;
    Loc loc;
    const Member *member; /* CHILD, PARAM, BUFFER; ELEMENT: the array's */
    bool optional;        /* declared under an `if` */
} Known;

/* Names in sight, inner ones last. */
typedef struct Sight {
    Check *check;
    const Decl *decl;
    VEC(Known) known;
    enum { IN_MEMBERS, IN_BUFFER, IN_FORWARD } where;
} Sight;
const Known *sight_find(const Sight *s, const char *name);
void sight_add(Sight *s, Known k);
void check_expr(Sight *s, const Expr *e);
void check_stmts(Sight *s, Stmt *const *stmt, int n, int depth);
void check_returns(Sight *s, Stmt *const *stmt, int n, Loc loc,
                   const char *name);
void check_forward(Sight *s, const Member *forward);

#endif
