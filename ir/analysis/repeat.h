/* repeat.h: finds the ops of a program that a side program repeats. */
#ifndef PARC_IR_ANALYSIS_REPEAT_H
#define PARC_IR_ANALYSIS_REPEAT_H

#include "ir/ir.h"

/* The part of a program that a side program repeats. */
typedef struct Repeat {
    bool *kept;     /* by op id of the program: the side program has the op */
    const Op **own; /* by id of a loop of the program: the first of the ops that
                     * only the side program has, at the end of the body;
                     * NULL: none. */
    const Op *end;  /* of the side program's step, in the same way */
} Repeat;
/* NULL: f is not a part of the program that it repeats. */
const Repeat *repeat_of(const Program *f);
/* Whether a program has the op: repeat is NULL, or the part has it. */
static inline bool repeat_has(const Repeat *repeat, const Op *op)
{
    return !repeat || repeat->kept[op->id];
}

#endif
