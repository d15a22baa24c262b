/* auto_axes.h: reads the axes of --mesh for --plan auto.
 *
 *   --mesh 8x8                  dp, tp
 *   --mesh pp=4,dp=2,tp=8       pp, dp, tp
 *   --mesh auto                 dp, tp
 */
#ifndef PARC_DRIVER_AUTO_AXES_H
#define PARC_DRIVER_AUTO_AXES_H

#include "autoplan/autoplan.h"
#include "driver/options/options.h"
#include "frontend/frontend.h"

/* Reads the axes of --mesh (text NULL: one axis dp). `tp` splits tensors, `pp` layers, the
 * others the batch, `ep` experts too. False after an error. */
bool plan_axes_read(Arena *a, Diag *d, const Argument *mesh, PlanAxes *axes);

/* The size of an axis in a mesh of these axes, "8x4" or "dp=8,tp=4"; 1: it is not named. */
int64_t plan_axis_size(const PlanAxes *axes, const char *mesh, const char *axis);

/* Whether a plan of the file has the same axes. */
bool plan_axes_equal(const PlanAxes *axes, const PlanDecl *plan);

#endif
