/* verify.h: the parts of the verifier. */
#ifndef PARC_IR_VERIFY_VERIFY_H
#define PARC_IR_VERIFY_VERIFY_H

#include "ir/internal.h"

/* Checks the placements of one op's operands and results, from
 * STAGE_PARTITIONED on; shapes and element types are already checked. NULL, or
 * the error. */
const char *verify_placement(const Program *p, const Op *op);
/* Checks Op.needs, the record of propagate's choice. */
const char *verify_needs(const Program *p, const Op *op);

/* Checks the ops that say when others run (verify_schedule.c): each op that is
 * marked done runs exactly once in every iteration of its loop. NULL, or the
 * error. */
const char *verify_schedule(const Program *p);

/* Checks the memory plan, if there is one (verify_memory.c). NULL, or the
 * error. */
const char *verify_memory(const Program *p);

#endif
