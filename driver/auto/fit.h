/* fit.h: rejects a plan that needs more memory than a device has, and finds
 * changes that would make it fit.
 *
 * fit.c        tries the changes and reports those that make the plan fit
 * fit_change.c lists the changes to try, cheapest first
 */
#ifndef PARC_DRIVER_FIT_H
#define PARC_DRIVER_FIT_H

#include "driver/options/options.h"
#include "report/replan.h"

/* True if the plan fits --device-memory, or the option is not given. Otherwise
 * an error reports the memory that a rank needs, and help lines list changes
 * that make the plan fit; each of them has been planned. */
bool fit_check(const Program *p, const PlanSource *from, const Options *o);

/* The bytes of --device-memory that a plan may use. */
int64_t fit_limit(const Options *o);

/* Plans the program of p again, and sets from->defaults to the first choice that fits; if
 * none does, to the one that needs the least memory. In a pipeline, units are gathered and
 * reduced once per step, only gathered, only reduced, or neither; each of these choices is
 * tried with and without overlap. NULL and *error: the program does not compile. */
Program *fit_plan(const Program *p, PlanSource *from, const Options *o,
                  const char **error);

/* The choice of fit_plan. A note says why it is not the first one. */
PlanDefaults fit_plan_defaults(const Program *p, PlanSource *from,
                               const Options *o, Diag *d);

/* ---- fit_change.c ---- */

/* A family is a set of similar changes, of which the search reports one. Each
 * mesh axis has a family for its size; the others are at most 8. */
enum { MAX_FAMILIES = MAX_AXES + 8 };

/* A change of the plan; a field that is NULL or false changes nothing. */
typedef struct FitChange {
    const char *text;    /* the change in words: "-D accumulate=4" */
    const char *clause;  /* replaces the plan's clauses of its kind, or is
                            added: "checkpoint { layers.* }" */
    bool full_shard;     /* every unit becomes full_shard */
    const char *define;  /* "accumulate=4" */
    const char *mesh;
    int family;          /* the search stops at the first that fits */
    bool other_run;      /* changes the number of devices or the batch */
} FitChange;
typedef VEC(FitChange) FitChanges;

/* Changes that may make the plan fit, cheapest first. */
FitChanges fit_changes(const Program *p, const PlanSource *from);

#endif
