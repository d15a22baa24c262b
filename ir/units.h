/* units.h: finds the FSDP unit of a parameter, and the gathers of units.
 *
 * Lowering has found the item of `fully_shard` for each parameter
 * (items.h); optimizer states follow their parameter.
 */
#ifndef PARC_IR_UNITS_H
#define PARC_IR_UNITS_H

#include "ir/ir.h"
#include "ir/path.h"

/* The number that `min_params` compares: the elements of the parameters in a
 * module and its children; in an array, of one module. */
int64_t module_elements(const Program *p, const Module *m);

/* The parameter's unit; NULL: no item of `fully_shard` names the parameter. */
const Unit *unit_of_param(const Program *p, int param);
/* The parameter's unit if it shards its parameters. NULL without a unit, for
 * replicas, and on axes of size 1. */
const Unit *sharding_unit(const Program *p, int param);

/* The axes that the unit shards over, without those of size 1. */
uint32_t unit_axes(const Program *p, const Unit *u);

/* The prefetch distance of the unit of this name; `otherwise` if the plan does
 * not set it. */
int unit_prefetch_of(const Program *p, const char *name, int otherwise);

/* Whether the unit of this name is gathered once for both passes of a microbatch
 * (reshard=false); once for all microbatches (gather=step). */
bool unit_stays_gathered(const Program *p, const char *name);
bool unit_gathers_per_step(const Program *p, const char *name);
/* Whether kernels that read its reduced gradients run on the stream of the reductions
 * (overlap). */
bool unit_overlaps(const Program *p, const char *name);

/* The unit's name in plan and messages: the module path of the instance
 * ("layers.*"), joined paths as "norm+output"; NULL without unit. */
const char *unit_name_of_param(const Program *p, int param);

/* Whether op is an all-gather of an FSDP unit's parameters. Of two that
 * the pass split_collectives makes of one, op_is_part_gather is the first, whose
 * results are still sharded inside nodes, and op_is_unit_gather the second. */
bool op_gathers_unit(const Op *op);
bool op_is_part_gather(const Op *op);
bool op_is_unit_gather(const Op *op);

#endif
