/* check.h: shared by the files of `check` and by lowering: the valid names of
 * train settings, optimizers and clauses of plans. */
#ifndef PARC_FRONTEND_CHECK_H
#define PARC_FRONTEND_CHECK_H

#include "frontend/eval.h"

/* ---- check_train.c ---- */

/* A setting whose value is one of several calls, such as AdamW(lr=3e-4). */
typedef struct Choice {
    const char *name;
    int kind; /* OptimizerKind or ScheduleKind */
    const char *signature;
} Choice;
typedef struct ChoiceSet {
    const char *setting; /* "optimizer" */
    const char *example, *all; /* for messages */
    int n;
    const Choice *at; /* by kind */
} ChoiceSet;
extern const ChoiceSet optimizer_choices, schedule_choices;
/* The set of the setting of that name; NULL: it takes no calls. */
const ChoiceSet *choices_of(const char *setting);
/* Which choice an expression names; NULL after an error. */
const Choice *choice_of(Arena *a, Diag *d, const ChoiceSet *set,
                        const Expr *e);

/* A setting that parc knows, be it one whose effect is not there yet. */
bool setting_known(const char *name);
void settings_add(NameList *l);
/* Reports a setting that is not supported, or unknown. */
/* "optimizer" or "schedule" where that has an argument of this name, else NULL.
 */
const char *setting_owner(const char *name);
void setting_refused(Arena *a, Diag *d, const Setting *s);
void check_train(Arena *a, Diag *d, const File *file);

/* ---- check_plan.c ---- */

/* `plan`: the name of the selected plan; NULL where none is selected. */
void check_plans(Arena *a, Diag *d, const File *file, const char *plan);
/* check_checkpoint.c: the items of one `checkpoint`. */
void check_checkpoint(Arena *a, Diag *d, const Clause *clause);
/* lower_offload.c: those of `offload`. */
void check_offload(Arena *a, Diag *d, const Clause *clause);

/* ---- check_module.c, check_forward.c ---- */

typedef struct Check {
    Arena *arena;
    Diag *diag;
    const File *prelude, *file;
    bool *acyclic; /* by declaration: no module below it contains itself */
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

/* ---- check_unit.c -------------------------------------------------------- */

/* What FSDP's names for the choices of a unit mean. */
typedef struct StrategyInfo {
    const char *name;
    bool hybrid;   /* needs two axes: one of replicas, one that shards */
    bool over_all; /* shards over all axes */
    int reshard;   /* as Unit.reshard; -1: the option `reshard` says */
    bool replicas; /* nothing is sharded */
} StrategyInfo;
const StrategyInfo *strategy_find(const char *name); /* NULL: none */

/* An item of `fully_shard`: its options one by one, and whether they and the
 * number of axes agree. */
void check_unit(Arena *a, Diag *d, const Clause *clause, const Item *item);

#endif
