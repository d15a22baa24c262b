/* context.h: how attention is split over the axis of the clause `context`, which splits
 * sequences.
 *
 * Ops that treat positions alike keep the sequence split. Attention needs whole
 * sequences of keys: it exchanges its operands with the ranks of the axis. With
 * `exchange=heads` (DeepSpeed-Ulysses, arXiv:2309.14509) its heads are split, after
 * the axes of tensor parallelism:
 *
 *   q, k, v  f32[8, 128/cp, 8/tp, 64] -> all_to_all -> f32[8, 128, 8/(tp·cp), 64]
 *   result   f32[8, 128, 8/(tp·cp), 64] -> all_to_all -> f32[8, 128/cp, 8/tp, 64]
 *
 * With `exchange=gather` queries and results stay split; keys and values are gathered, and
 * their gradients reduced and scattered:
 *
 *   k, v     f32[8, 128/cp, 8/tp, 64] -> all_gather -> f32[8, 128, 8/tp, 64]
 */
#ifndef PARC_PASSES_SHARDING_CONTEXT_H
#define PARC_PASSES_SHARDING_CONTEXT_H

#include "ir/rules/rules.h"

/* Whether op is an attention, or a gradient of one, and the axis that of the context. */
bool context_exchanges(const Program *p, const Op *op, int axis);
/* The factor of its rule that the axis splits. */
int context_factor(const Program *p, const Op *op, const Rule *r);
/* Whether an axis may split the factor: that of the queries only for a context. */
bool context_allows(const Program *p, const Op *op, const Rule *r, int axis, int factor);
/* The placement on the axis from which readers of v choose theirs: that of v, but for a
 * result of an attention that of its operands before the exchange, so that no op uses
 * split heads, or shares of gradients, before they are exchanged back. */
AxisPlace context_place(const Program *p, const Value *v, int axis);
/* Whether an attention exchanges v over the axis: op reads v and is one, or v is the
 * result of one. `op` may be NULL. */
bool context_converts(const Program *p, const Op *op, const Value *v, int axis);
/* "context cp: exchange=heads" */
const char *context_text(const Program *p);
/* Reports attentions whose heads the axis does not divide, after propagation. */
void context_check(const Program *p);

#endif
