/* ir_mutants.h: makes programs in which one collective is wrong. */
#ifndef PARC_TESTS_UNIT_IR_MUTANTS_H
#define PARC_TESTS_UNIT_IR_MUTANTS_H

#include "ir/ir.h"

/* What is wrong, and where it is so of many (`which`):
 *   LEFT_OUT   the op is not there, its operands stand for its results
 *   TWICE      its results go through it again
 *   ASTRAY     it works over the set `which` of axes instead of its own
 *   ONE_OUT    operand `which` of several is left out of it
 *   EXCHANGED  operands `which` and `which` + 1, of one type, change places */
typedef enum FaultKind {
    LEFT_OUT,
    TWICE,
    ASTRAY,
    ONE_OUT,
    EXCHANGED,
} FaultKind;
typedef struct Fault {
    FaultKind kind;
    int which;
} Fault;
enum { FAULT_KINDS = EXCHANGED + 1 };

/* How many ops of p there are to put faults into; number n of them. */
int mutable_ops(const Program *p);
Op *mutable_op(const Program *p, int n);
/* How many faults of a kind there are to be tried on the op. None on one whose
 * results nobody reads, which changes nothing (`partition` may leave such,
 * `simplify` drops them). */
int fault_count(const Program *p, const Op *op, FaultKind kind);

/* Puts the fault into op number n of p. False: there it is none. */
bool inject(Program *p, int n, Fault fault);
/* Places everything anew from its operands, as a compiler with the fault would
 * have done. False: an op has no placement on its operands. */
bool derive_placements(Program *p);

#endif
