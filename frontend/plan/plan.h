/* plan.h: declares the functions that read plans and resolve them against the
 * modules of the model.
 *
 * read_plan.c      axes, items; plans that are not selected
 * lower_mesh.c     --mesh
 * lower_plan.c     the selected plan; units, frozen and recomputed modules
 * lower_path.c     patterns
 * lower_parallelize.c  the style of each module
 * lower_pipeline.c the pipeline's axis and stages
 * lower_context.c  the axis that splits sequences
 * lower_expert_parallel.c  the axes that split experts, groups of tokens
 * lower_style.c    styles and their layouts
 * lower_prepare.c  the styles PrepareModule…
 * styles.c         the names and arguments of styles, layouts
 */
#ifndef PARC_FRONTEND_PLAN_PLAN_H
#define PARC_FRONTEND_PLAN_PLAN_H

#include "frontend/options/options.h"

/* ---- read_plan.c ---- */

/* Reads a plan's clauses: axes, styles and options; adds their items to
 * Lower.planned. */
void read_plan(Lower *l, const PlanDecl *p);
/* Reads all plans but Lower.plan. Errors are warnings if there is a selected
 * plan. `modules`: the model has been lowered, so that paths can be checked. */
void read_other_plans(Lower *l, bool modules);
/* Whether the plan's clause `context` names the axis. */
bool plan_splits_context(const Lower *l, const Ident *axis);
/* styles.c: the name and the arguments of an item's style. */
void read_style(Lower *l, const Item *item);

/* ---- lower_mesh.c, lower_plan.c, lower_style.c ---- */

/* The selected plan. NULL: the default plan, or an error, which sets *fault. */
const PlanDecl *lower_choose_plan(Lower *l, bool *fault);
void lower_mesh(Lower *l, const PlanDecl *plan);
/* Resolves Lower.planned, or makes the default plan. */
void lower_plan(Lower *l);
/* lower_path.c: whether a pattern matches a module, or with `params` a
 * parameter, and every element that it names exists; reports an error if not.
 */
bool lower_path_known(Lower *l, const Path *path, bool params);
/* Whether the model has a module of the class in the item's `every`; reports an
 * error if not. */
bool lower_class_known(Lower *l, const Item *item);
/* The index of the mesh axis of this name; -1: none. */
int lower_mesh_axis(const Lower *l, const char *name);
/* lower_parallelize.c: fills PlanSpec.style. */
void lower_parallelize(Lower *l, const PlanDecl *plan);
/* lower_pipeline.c: fills PlanSpec.pipeline. lower_stage_paths: checks the paths
 * of an item's stages; returns whether all are known. */
void lower_pipeline(Lower *l);
bool lower_stage_paths(Lower *l, const Item *item);
/* lower_context.c: fills PlanSpec.context. */
void lower_context(Lower *l, const PlanDecl *plan);
/* lower_expert_parallel.c: fills PlanSpec.experts, and adds the styles of the experts'
 * weights to PlanSpec.style. */
void lower_expert_parallel(Lower *l);
/* Fills the layouts of one item for a module (by index); false after an error.
 */
bool lower_style(Lower *l, const Item *item, int module, Style *style);
/* Fills the placement of one item for a parameter (by index); false after an
 * error. */
bool lower_placement(Lower *l, const Item *item, int param, Style *style);
/* lower_prepare.c: fills the layouts of one item with a style PrepareModule…;
 * `called`: the module was called, so the numbers of its inputs and outputs are
 * known. False after an error. */
bool lower_prepare(Lower *l, const Item *item, const Module *m, bool called,
                   Style *s);

/* ---- styles.c ---- */

static inline Layout layout_shard(int dim)
{
    return (Layout){.kind = LAYOUT_SHARD, .dim = dim};
}
/* Evaluates a layout; false after an error. */
bool lower_layout(Lower *l, const Expr *e, Layout *to);

typedef struct StyleInfo {
    const char *name;
    StyleKind kind;
    const char *settings; /* "input, output": its arguments */
    const char *form;     /* an example, for messages */
} StyleInfo;
const StyleInfo *style_find(const char *name);
/* Whether the style has an argument of this name. */
bool style_takes(Arena *a, const StyleInfo *style, const char *name);
/* parc's name of a style's argument: "input" for PyTorch's "input_layouts". */
const char *style_setting(const char *name);

#endif
