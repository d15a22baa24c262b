/* units.h: which FSDP unit a parameter belongs to.
 *
 * A parameter belongs to the item of `fully_shard` whose path is the longest
 * prefix of its own (the innermost module); optimizer states follow their
 * parameter. A tied parameter belongs to the unit of the name that it keeps;
 * where no item names that one, to the unit of a name that the tie replaced.
 */
#ifndef PARC_IR_UNITS_H
#define PARC_IR_UNITS_H

#include "ir/ir.h"
#include "ir/path.h"

/* What `min_params` counts: the elements of the parameters in a module and
 * below it; of one module, where it is an array's. */
int64_t module_elements(const Program *p, const Module *m);

/* NULL: no item of `fully_shard` names the parameter. */
const Unit *unit_of_param(const Program *p, int param);
/* The same where the unit cuts its parameters: NULL for replicas, and on an
 * axis of size 1. */
const Unit *sharding_unit(const Program *p, int param);

/* How many units ahead the unit of that name is gathered; `otherwise` where the
 * user left it open. */
int unit_prefetch_of(const Program *p, const char *name, int otherwise);

/* Whether the unit of that name is gathered once a step (reshard=false). */
bool unit_stays_gathered(const Program *p, const char *name);

/* The unit's name as the plan and messages show it: the module path of the
 * instance ("layers.*"), joined paths as "norm+output"; NULL without unit. */
const char *unit_name_of_param(const Program *p, int param);

#endif
