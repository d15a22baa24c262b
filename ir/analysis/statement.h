/* statement.h: says which ops are statements of the emitted program.
 *
 *   %w = param …                   no statement: the runtime keeps it
 *   start{op=%w.2}                 issues the all-gather
 *   %h = loop … {                  no statement: its body has some
 *     %w.2 = all_gather %w … done  a statement that `start` issues
 *     %y = einsum %x, %w.2         a statement that is issued here
 *     %z = reshape %y              no statement: the memory of %y
 *     %r = fused %z {              a statement
 *       %e = exp %z.2              no statement: a part of the kernel
 */
#ifndef PARC_IR_ANALYSIS_STATEMENT_H
#define PARC_IR_ANALYSIS_STATEMENT_H

#include "ir/ir.h"

/* Whether the emitted program has a statement that executes the op. Requires
 * the memory plan for copies, which may be in place. */
bool op_is_statement(const Op *op);

/* The statement that is issued where `at` is in the program: `at`, or the op
 * that an op `start` issues; NULL: none. */
const Op *op_issued_at(const Op *at);

/* Whether op is of the backward pass, of which zero_bubble has two parts. */
static inline bool op_is_backward(const Op *op)
{
    return op->phase == PH_BACKWARD || op->phase == PH_WEIGHTS;
}

/* Whether op is a statement that runs in every step; others run once before the
 * first step. */
static inline bool op_is_step_statement(const Op *op)
{
    return op->phase != PH_INIT && op_is_statement(op);
}

#endif
