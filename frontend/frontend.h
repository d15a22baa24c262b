/* frontend.h: compiles PDL text to a global program.
 *
 *   File *f = pdl_parse(…);  check(…);  Program *p = lower(…);
 */
#ifndef PARC_FRONTEND_FRONTEND_H
#define PARC_FRONTEND_FRONTEND_H

#include "frontend/ast.h"
#include "ir/ir.h"

/* What the command line adds to the file. */
typedef struct FrontendOptions {
    const char *mesh;        /* "8x8", "dp=8,tp=8", NULL: every axis is 1 */
    Loc mesh_loc;            /* in the command line's source */
    const char *plan;        /* --plan, or NULL */
    Loc plan_loc;
    Setting *const *define;  /* -D, in order, parsed */
    int ndefines;
} FrontendOptions;

/* Everything that needs no sizes: names (with near misses), arity, keyword
 * arguments, duplicates, assignment before use, plan clauses and options that
 * exist, settings that exist. All errors of the file in one run. `plan` is
 * --plan, or NULL: errors in other plans are warnings. */
void check(Arena *a, Diag *d, const File *prelude, const File *file,
           const char *plan);

/* Runs the model's forward with sizes: evaluates constants and compile-time
 * `if`, binds dimensions, infers shapes, makes the global forward program
 * (boundaries included, layer arrays as loops, output "loss") with its
 * parameters, modules, inputs, mesh, plan and train settings. NULL after
 * errors, which are in d; an error inside the prelude is reported at the
 * user's call with a note into the prelude. */
Program *lower(Arena *a, Diag *d, const File *prelude, const File *file,
               const FrontendOptions *options);

#endif
