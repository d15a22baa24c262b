/* forward.h: declares what the files of the pass `share_forward` use.
 *
 *   share_forward.c   the pass
 *   value_numbers.c   finds equal values of two programs
 *   forward_slice.c   makes a program of the statements that values depend on
 *   forward_memory.c  makes the memory plan of a slice
 */
#ifndef PARC_PASSES_FORWARD_FORWARD_H
#define PARC_PASSES_FORWARD_FORWARD_H

#include "ir/ir.h"

/* The numbers of the values of two programs: values with one number are equal
 * in every step. */
typedef struct ValueNumbers {
    const int *first, *second; /* by value id, of each program; 0: none */
    int n;                     /* the largest number */
} ValueNumbers;
/* Numbers the init and forward ops of the program `first`, and the ops of
 * `second`. False: a loop of `second` has no equal in `first`. */
bool value_numbers(const Program *first, const Program *second,
                   ValueNumbers *numbers);

/* Replaces the step and the memory plan of the side program f by those of p,
 * without the ops of p that its values need[0] … need[n-1] do not depend on.
 * need[i] is the operand of the i-th op `output` of f. Returns whether the
 * result is valid; otherwise f is unchanged. */
bool forward_slice(Program *f, Program *p, Value *const *need, int n);

/* The times of a program and of its slice. */
typedef struct ForwardTimes {
    int *before; /* by time of the program: the number of earlier times of ops
                  * that the slice has; before[end] is that of all */
    int end;
} ForwardTimes;
/* `kept`: by op id, the ops of p that its slice has. */
ForwardTimes forward_times(const Program *p, const bool *kept);

/* Reduces the memory plan of p to the buffers that its ops use. The outputs are
 * live until the end. */
void forward_memory(Program *p, const ForwardTimes *times,
                    Value *const *output, int noutputs);

#endif
