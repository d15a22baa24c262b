/* units.h: which FSDP unit a parameter belongs to.
 *
 * A parameter belongs to the item of `fully_shard` whose path is the longest
 * prefix of its own (the innermost module); optimizer states follow their
 * parameter.
 */
#ifndef PARC_IR_UNITS_H
#define PARC_IR_UNITS_H

#include "ir/ir.h"

/* Whether a pattern with '*' matches a module path as a whole. */
bool path_matches(const char *pattern, const char *path);

/* What `min_params` counts: the elements of a module's own parameters and of
 * those below it, an array's once. */
int64_t module_elements(const Program *p, const Module *m);

/* NULL: the parameter is not sharded. */
const Unit *unit_of_param(const Program *p, int param);

/* The unit's name as the plan and messages show it: the module path of the
 * instance ("layers.*"), joined paths as "norm+output"; NULL without unit. */
const char *unit_name_of_param(const Program *p, int param);

#endif
