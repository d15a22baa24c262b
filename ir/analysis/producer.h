/* producer.h: finds the op that computes the elements of a value.
 *
 *   %q = einsum %x, %w …
 *   %b = add %q, %bias …
 *   %r = reshape %b …          producer_of(%r) is the einsum
 */
#ifndef PARC_IR_ANALYSIS_PRODUCER_H
#define PARC_IR_ANALYSIS_PRODUCER_H

#include "ir/ir.h"

/* Whether the op mixes elements: a contraction, attention or lookup, or the
 * gradient of one. */
bool op_contracts(const Op *op);

/* Whether the op's results are its operands in another form: a cast, view, copy,
 * transpose or conversion. */
bool op_passes_on(const Op *op);

/* The value outside of all loops that an argument of a loop's body starts as. */
const Value *value_before_loops(const Value *v);
/* The same, but NULL for a carry, which changes in each iteration. */
const Value *value_outside(const Value *v);
/* The parameter whose value v is, as it is or cast; -1: none. */
int value_param(const Value *v);

/* The op that computes v's elements: a contraction, lookup or attention, found
 * through loops' arguments and ops that do not mix elements. NULL: none. */
const Op *producer_of(const Value *v);

/* The result of the op `param` that v equals up to its type, layout, placement
 * and address: found through loops, casts, views, copies and conversions.
 * NULL: v is computed. */
const Value *parameter_of(const Value *v);

#endif
