/* auto_plan.h: writes a plan for a model, and chooses it by time, for --plan auto.
 *
 *   --plan auto --mesh 8x8                       plan auto(dp, tp)
 *   --plan auto --mesh pp=4,dp=2,tp=8            plan auto(pp, dp, tp)
 *
 * The axes are those that --mesh names; without names dp, (dp, tp) or (pp, dp, tp). `tp`
 * splits tensors and `pp` layers, others the batch; `ep`, or else `tp`, splits experts too.
 * autoplan.h derives the plan's lines.
 *
 * With --machine, variants of the plan and the plans of the file that have the same axes
 * are compiled and timed: with experts over other axes or none, without sequence parallelism
 * or without one of the splits, with other strategies of FSDP, with other schedules of a
 * pipeline. The best one is varied further until no variant is faster; if --mesh auto chose
 * the mesh, the best plan is then tried on the meshes that were nearly as fast. If no variant
 * fits --device-memory, whether a plan of the file does or not, the changes of fit.h are tried
 * too: recomputation, gradient accumulation, a chunked head, offload. Without --machine the
 * first variant that compiles and fits is chosen, in this order.
 */
#ifndef PARC_DRIVER_AUTO_PLAN_H
#define PARC_DRIVER_AUTO_PLAN_H

#include "driver/auto/auto_mesh.h"
#include "report/replan.h"

typedef struct AutoPlan AutoPlan;

/* Reports a --search that has no effect, and returns false then. */
bool auto_check_search(Diag *d, const Options *o);
/* Whether --plan is "auto", and the file has no plan of this name. */
bool auto_plan_requested(const Options *o, const File *f);

/* Writes the plan "auto" for the model of from->file. from->mesh may have sizes "auto".
 * Notes go to d. NULL after an error. */
AutoPlan *auto_plan_begin(Arena *a, const PlanSource *from, const Options *o, Diag *d);
/* from->file with the plan "auto" as its only one, with its expert_parallel or without. */
const File *auto_plan_file(const AutoPlan *plan, bool experts);

/* Chooses among its variants for from->mesh, whose sizes are known, and, of the best one,
 * among these other meshes too; sets from->mesh and from->file, and adds to from->define.
 * p: the model with the plan "auto". Notes report the choice and the plans that lost. False after an
 * error: none compiles and fits. */
bool auto_plan_choose(const AutoPlan *plan, const Program *p, PlanSource *from,
                      const OtherMeshes *others);

#endif
