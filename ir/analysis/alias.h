/* alias.h: finds which values use one memory, and where that memory is.
 *
 *   %w = param{param="layers.*.wq"} : f32[4 x 8, 8]~dp
 *   %h = loop{n=4, …} … {
 *     stack %wi = %w : f32[8, 8]~dp        a slice of %w's memory
 *     %g = all_gather … %wi : f32[8, 8]    %w's memory too, where it stays
 *     %r = reshape %g : f32[64]            gathered; value_root(%r) is %g
 *
 * A value uses another's memory if it is a view of it, or gathered in place from
 * it (a parameter's shard). The pass `memory` decides which other values share
 * an address.
 */
#ifndef PARC_IR_ANALYSIS_ALIAS_H
#define PARC_IR_ANALYSIS_ALIAS_H

#include "ir/ir.h"
#include "ir/memory.h"

/* The value whose memory v uses within its region: v itself, or the operand
 * of the views that v is a result of. */
Value *value_root(Value *v);
/* The address of that value; its block is -1 if it has none. */
const Address *value_address(const Value *v);

/* The shard, in v's region, of a parameter that stays gathered, if v is
 * gathered from it in place: v is the result of such a gather, or a stack of
 * such results of a loop. NULL: neither. */
Value *value_gathered_from(const Program *p, Value *v);
/* The shard of the parameter whose memory v uses, where the parameter stays
 * gathered: v is that shard, a layer of it, or gathered from either. NULL:
 * none. */
Value *value_gathered_shard(const Program *p, Value *v);

/* The gather that a fetch in its region supplies an operand to; NULL: there is
 * none, and its prefetch distance counts iterations, not units. */
const Op *fetch_gather(const Op *fetch);
/* The parameter or state that a fetch reads, or that a store's result is
 * assigned to. */
const Param *transfer_param(const Program *p, const Op *transfer);

#endif
