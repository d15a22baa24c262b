/* styles.h: finds the styles that the plan gives to modules, boundaries and
 * parameters.
 *
 * Lowering resolves the patterns of `parallelize`: PlanSpec.style has a style
 * for each module or parameter and axis, with its exact path. styles_attach
 * records them where they apply:
 *
 *   style ColwiseParallel "wq" axis=tp …                          (style 0)
 *   → %x.2 = boundary{path="wq", port=in0, grad=false, styles=[-1, 0]} %x …
 *     param "wq.weight" … split(0 by 0)                its dim 0, by style 0
 */
#ifndef PARC_IR_PLAN_STYLES_H
#define PARC_IR_PLAN_STYLES_H

#include "ir/ir.h"

/* Attaches the styles to boundaries and parameters. Call it again when styles
 * or axes of the mesh change (pass split_kv_axis). Requires STAGE_GLOBAL. */
void styles_attach(Program *p);

const char *style_name(StyleKind k); /* "ColwiseParallel", … */
/* STYLE_INPUTS, STYLE_OUTPUTS or both. */
uint32_t style_sides(StyleKind k);

/* The first style of the module or parameter with this path on an axis, or
 * NULL. */
const Style *style_of_path(const Program *p, const char *path, int axis);
/* The style that gives layouts to an op `boundary` on an axis, or NULL. */
const Style *style_of_boundary(const Program *p, const Op *op, int axis);

#endif
