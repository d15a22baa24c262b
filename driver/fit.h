/* fit.h: rejects a plan that needs more memory than a device has, and finds
 * changes that would make it fit.
 *
 * fit.c        the messages fit_change.c changes of a plan, cheapest first
 * fit_try.c    plans a changed program
 */
#ifndef PARC_DRIVER_FIT_H
#define PARC_DRIVER_FIT_H

#include "driver/options.h"
#include "frontend/frontend.h"
#include "passes/memory.h"

/* What a program was made from. */
typedef struct FitSource {
    const Options *o;
    const TargetInfo *t;
    const File *prelude, *file; /* NULL: it was read as IR */
    Setting *const *define;     /* -D */
    int ndefines;
} FitSource;

/* True where the plan fits --device-memory, or none is given. Otherwise an
 * error says what a rank needs, and help lines what would make it fit: each
 * has been planned. */
bool fit_check(const Program *p, const FitSource *from);

/* ---- fit_change.c, fit_try.c ---- */

/* Changes of one kind are a family: those of a mesh's axes, and six more. */
enum { MAX_FAMILIES = MAX_AXES + 8 };

/* What is changed; parts that are NULL or false stay as they are. */
typedef struct FitChange {
    const char *text;    /* for people: "-D accumulate=4" */
    const char *clause;  /* in place of the plan's clause of that kind, or
                            added to it: "checkpoint { layers.* }" */
    bool full_shard;     /* units are full_shard, whatever they were */
    const char *define;  /* "accumulate=4" */
    const char *mesh;
    int family;          /* of one family, the first that fits will do */
    bool other_run;      /* more devices, or another batch */
} FitChange;
typedef VEC(FitChange) FitChanges;

/* Changes that may help, from the cheapest to the dearest. */
FitChanges fit_changes(const Program *p, const FitSource *from);

typedef struct FitResult {
    int64_t peak;   /* -1: such a program cannot be planned */
    double again;   /* recomputed flops, relative to the model's own */
} FitResult;

/* Plans the program with all of the changes. */
FitResult fit_try(const Program *p, const FitSource *from,
                  const FitChange *const *change, int n);

#endif
