/* check.h: declares what the check_*.c files share with each other and with
 * lowering: the names of train settings, optimizers, schedules and options of
 * plans, and the scope of a module.
 */
#ifndef PARC_FRONTEND_CHECK_H
#define PARC_FRONTEND_CHECK_H

#include "frontend/eval.h"

/* ---- check_train.c ---- */

/* One value of a setting that takes a call, such as AdamW(lr=3e-4). */
typedef struct Choice {
    const char *name;
    int kind; /* OptimizerKind or ScheduleKind */
    const char *signature;
} Choice;
typedef struct ChoiceSet {
    const char *setting; /* "optimizer" */
    const char *example, *all; /* an example and the list, for messages */
    int n;
    const Choice *at; /* by kind */
} ChoiceSet;
extern const ChoiceSet optimizer_choices, schedule_choices;
/* The choices of a setting; NULL if its values are not calls. */
const ChoiceSet *choices_of(const char *setting);
/* The choice that an expression names; NULL after an error. */
const Choice *choice_of(Arena *a, Diag *d, const ChoiceSet *set,
                        const Expr *e);

bool setting_known(const char *name);
void settings_add(NameList *l);
/* "optimizer" or "schedule" if one of its choices has an argument of this name,
 * else NULL. */
const char *setting_owner(const char *name);
/* Reports an unknown setting. */
void setting_refused(Arena *a, Diag *d, const Setting *s);
void check_train(Arena *a, Diag *d, const File *file);

/* ---- check_names.c ---- */

void check_names(Arena *a, Diag *d, const File *file);

/* ---- check_plan.c ---- */

/* `plan`: the name of the selected plan; NULL if none is selected by name. */
void check_plans(Arena *a, Diag *d, const File *file, const char *plan);
/* check_checkpoint.c: the items of one `checkpoint` clause. */
void check_checkpoint(Arena *a, Diag *d, const Clause *clause);
/* lower_offload.c: the items of one `offload` clause. */
void check_offload(Arena *a, Diag *d, const Clause *clause);

/* ---- check_module.c, check_expr.c, check_forward.c ---- */

typedef struct Check {
    Arena *arena;
    Diag *diag;
    const File *prelude, *file;
    bool *acyclic; /* by declaration: known not to contain itself */
} Check;

/* check_expr.c: a declaration of the file or the prelude; NULL: none. */
const Decl *check_find_decl(const Check *c, const char *name, DeclKind kind);
void check_module(Check *c, const Decl *decl);
void check_function(Check *c, const Decl *decl);

/* A name in scope, its declaration and its kind. */
typedef enum KnownKind {
    KNOWN_FORMAL,
    KNOWN_CONSTANT,
    KNOWN_CHILD,
    KNOWN_PARAM,
    KNOWN_BUFFER,
    KNOWN_LOCAL,
    KNOWN_ELEMENT, /* a loop variable: an element of an array */
} KnownKind;
typedef struct Known {
    const char *name;
    KnownKind kind;
    Loc loc;
    const Member *member; /* CHILD, PARAM, BUFFER; ELEMENT: the array's */
    bool optional;        /* declared under an `if` */
} Known;

/* The names in scope, innermost last. */
typedef struct Sight {
    Check *check;
    const Decl *decl;
    VEC(Known) known;
    enum { IN_MEMBERS, IN_BUFFER, IN_FORWARD } where;
} Sight;
/* check_expr.c */
const Known *sight_find(const Sight *s, const char *name);
void sight_add(Sight *s, Known k);
/* Suggests a name in scope that is similar to `name`. */
void sight_suggest(Sight *s, const char *name);
void check_expr(Sight *s, const Expr *e);
/* check_forward.c */
void check_stmts(Sight *s, Stmt *const *stmt, int n, int depth);
void check_returns(Sight *s, Stmt *const *stmt, int n, Loc loc,
                   const char *name);
void check_forward(Sight *s, const Member *forward);

/* ---- check_unit.c -------------------------------------------------------- */

/* The meaning of FSDP's names for a unit's strategy. */
typedef struct StrategyInfo {
    const char *name;
    bool hybrid;   /* needs a replicate axis and a shard axis */
    bool over_all; /* shards over all axes */
    int reshard;   /* as Unit.reshard; -1: the option `reshard` decides */
    bool replicas; /* shards nothing */
} StrategyInfo;
const StrategyInfo *strategy_find(const char *name); /* NULL: none */

/* Checks an item of `fully_shard`: each option, and whether the options agree
 * with each other and with the number of axes. */
void check_unit(Arena *a, Diag *d, const Clause *clause, const Item *item);

#endif
