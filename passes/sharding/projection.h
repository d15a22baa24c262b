/* projection.h: finds the projections that make the queries, keys and values of attention. */
#ifndef PARC_PASSES_SHARDING_PROJECTION_H
#define PARC_PASSES_SHARDING_PROJECTION_H

#include "ir/ir.h"

/* The parameter of the projection whose result v is, through biases, norms,
 * rotations and reshapes; -1: there is none. */
int projection_param(const Value *v);
/* The style that splits the heads which the parameter makes over the axis; NULL: none. */
const Style *projection_style(const Program *p, int param, int axis);

#endif
