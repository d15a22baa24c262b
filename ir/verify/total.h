/* total.h: bounds the bytes of all tensors of a step together.
 *
 * Passes and reports add up sizes of tensors (live memory, traffic of
 * collectives, parameters of a module) in 64-bit integers. Each such sum counts
 * a tensor at most a few times per execution of an op that reads or writes it.
 * A program within the limit therefore cannot overflow a sum: the limit is 32
 * times smaller than the largest 64-bit integer.
 */
#ifndef PARC_IR_VERIFY_TOTAL_H
#define PARC_IR_VERIFY_TOTAL_H

#include "ir/ir.h"

/* Raises an error if the operands and results of all ops, each multiplied by
 * the number of times that the op runs, and the parameters have more than 2^58
 * bytes. The error is at the statement, or parameter, with the most bytes. */
void ir_check_total(Program *p);

#endif
