/* frontend.h: the interface of the frontend, from PDL text to the IR.
 *
 *   File *f = pdl_parse(…);  pdl_check(…);  Program *p = lower(…);
 */
#ifndef PARC_FRONTEND_FRONTEND_H
#define PARC_FRONTEND_FRONTEND_H

#include "frontend/syntax/ast.h"
#include "ir/ir.h"

/* The entries of a config.json of Hugging Face (--config). An object has no value; `part`
 * has its entries. */
typedef struct ConfigFile {
    VEC(Setting) entry;
    VEC(struct ConfigFile *) part;
    Loc loc; /* the beginning of the file or part */
} ConfigFile;

/* Options of the command line that concern the frontend. */
typedef struct FrontendOptions {
    const char *mesh;        /* "8x8", "dp=8,tp=8", NULL: every axis is 1 */
    Loc mesh_loc;            /* in the command line's source */
    int64_t node_size;       /* --node-size: ranks of a machine; 0: not given */
    Loc node_loc;
    const char *plan;        /* --plan, or NULL */
    Loc plan_loc;
    Setting *const *define;  /* the parsed -D options, in order */
    int ndefines;
    const ConfigFile *config; /* --config, or NULL */
    PlanDefaults defaults;
    bool side;               /* also make the side programs */
} FrontendOptions;

/* Reports every error of the declarations that can be found without sizes:
 * unknown names (with near misses), arity, unknown arguments, duplicates, use
 * before assignment. `lower` must follow: it reports the errors of plans and
 * settings. */
void pdl_check(Arena *a, Diag *d, const File *prelude, const File *file);

/* What the entries of options->config define, then options->define, of which it sets the
 * number *n. Reports entries that the model lacks and parameters without a value; NULL if the
 * model has no block `names hf` with entries of config.json. */
Setting *const *config_defines(Arena *a, Diag *d, const File *file,
                               const FrontendOptions *options, int *n);

/* Evaluates the model's forward with sizes and builds the global forward
 * program: parameters, modules, inputs, mesh, plan, train settings, boundaries,
 * a loop for each array of layers, and the output "loss". On the way it
 * evaluates constants and each compile-time `if`, binds dimensions and infers
 * shapes. With options->side it also makes Program.side: FOR_LOSS, and
 * FOR_OUTPUTS where the model returns more than the loss. NULL after errors,
 * which go to d. An error inside the prelude is
 * reported at the user's call, with a note into the prelude. */
Program *lower(Arena *a, Diag *d, const File *prelude, const File *file,
               const FrontendOptions *options);

#endif
