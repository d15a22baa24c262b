/* train.h: declares the names of train settings, optimizers and schedules, and
 * the functions that evaluate them.
 *
 * check_train.c    names and arguments
 * lower_train.c    the `train` block and -D
 * lower_optimizer.c  optimizers and schedules
 * lower_decay.c    parameters without weight decay
 */
#ifndef PARC_FRONTEND_TRAIN_TRAIN_H
#define PARC_FRONTEND_TRAIN_TRAIN_H

#include "frontend/lower/lower.h"

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

/* ---- lower_train.c ---- */

/* Defaults of PDL; lower_optimizer_defaults sets those of the optimizers. */
enum {
    DEFAULT_BATCH = 8,
    DEFAULT_SEQ = 128,
    DEFAULT_LOSS_SCALE = 65536, /* with precision=f16 */
};
/* Applies the defaults, the `train` block, then -D. */
void lower_train(Lower *l);
/* The last -D of this name, or NULL. */
const Setting *lower_define(const Lower *l, const char *name);

/* ---- lower_optimizer.c ---- */

/* Sets PyTorch's defaults. */
void lower_optimizer_defaults(Train *t, OptimizerKind kind);
/* optimizer = AdamW(…), schedule = cosine(…) */
void lower_choice(Lower *l, const ChoiceSet *set, const Expr *e);
/* -D optimizer.lr=…: changes one argument of the chosen optimizer. */
void lower_choice_part(Lower *l, const ChoiceSet *set,
                       const Setting *s);
/* warmup = N */
void lower_warmup(Lower *l, const Expr *e);
/* Checks the schedule after all settings are applied. */
void lower_check_schedule(Lower *l);

/* ---- lower_decay.c ---- */

/* no_decay= */
void lower_no_decay(Lower *l, const Expr *e);
/* Excludes the parameters that match from weight decay. */
void lower_decay(Lower *l);

#endif
