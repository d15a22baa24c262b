/* ir_mutants.h: makes programs in which one collective is wrong. */
#ifndef PARC_TESTS_UNIT_IR_MUTANTS_H
#define PARC_TESTS_UNIT_IR_MUTANTS_H

#include "ir/ir.h"

/* The kinds of faults; `which` numbers the variants of a kind:
 *   LEFT_OUT   the op is removed, its operands replace its results
 *   TWICE      the op is applied to its own results a second time
 *   ASTRAY     the op works over the set `which` of axes instead of its own
 *   REDIRECTED a move ends at the next coordinate
 *   ONE_OUT    operand `which` of several is removed from the op
 *   EXCHANGED  operands `which` and `which` + 1, of one type, are swapped */
typedef enum FaultKind {
    LEFT_OUT,
    TWICE,
    ASTRAY,
    REDIRECTED,
    ONE_OUT,
    EXCHANGED,
} FaultKind;
typedef struct Fault {
    FaultKind kind;
    int which;
} Fault;
enum { FAULT_KINDS = EXCHANGED + 1 };

/* The number of ops of p that a fault can change; inject() numbers them. */
int mutable_ops(const Program *p);
Op *mutable_op(const Program *p, int n);
/* The number of faults of a kind to try on the op. None for an op whose results
 * have no consumer, as that would change nothing (`partition` may leave such
 * ops, `simplify` drops them). */
int fault_count(const Program *p, const Op *op, FaultKind kind);

/* Puts the fault into op number n of p. False: it would change nothing. */
bool inject(Program *p, int n, Fault fault);
/* Derives all placements from the operands, as a compiler with the fault would
 * have done. False: an op has no valid placement for its operands. */
bool derive_placements(Program *p);

#endif
