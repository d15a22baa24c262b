/* dead.h: keeps the part of a program that some of its values depend on. */
#ifndef PARC_IR_ANALYSIS_DEAD_H
#define PARC_IR_ANALYSIS_DEAD_H

#include "ir/ir.h"

/* Marks of the values and ops to keep, by id. Of an op that is `partial`, a loop
 * or a conversion, only the marked operands and results are kept. */
typedef struct IrMarks {
    Program *p;
    bool *value, *op, *partial;
    VEC(Value *) work; /* marked, their dependences not yet */
} IrMarks;
IrMarks ir_marks(Program *p);
void ir_mark_value(IrMarks *m, Value *v);
/* Marks an op and the ops that contain it. */
void ir_mark_op(IrMarks *m, Op *op);
/* Marks what marked values depend on: of a loop's carry, the start, argument,
 * yield and result; of other arguments and results, the operands and yields. */
void ir_mark_dependences(IrMarks *m);
/* Removes the ops and values that are not marked. */
void ir_keep_marked(const IrMarks *m);

#endif
