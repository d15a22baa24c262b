/* numbers.h: numbers the collectives, transfers, kernels, matmuls, convolutions,
 * statements and events of a training step and its side programs consecutively, so
 * that each has one number in the emitted program.
 *
 *   training step: collectives 0 to 11; FOR_LOSS: 12 to 15; FOR_OUTPUTS: 16 …
 */
#ifndef PARC_CODEGEN_NUMBERS_H
#define PARC_CODEGEN_NUMBERS_H

#include "ir/ir.h"

typedef struct Numbers {
    int collectives, transfers, kernels, matmuls, convs, work, events;
} Numbers;

/* The first number of each kind in the program, which repeats no other: zeros in
 * a training step. */
Numbers numbers_first(const Program *p);
/* The numbers in use by a training step and its side programs. */
Numbers numbers_all(const Program *p);

/* The program after p: after a training step its side programs that repeat no
 * other, NULL after the last. */
const Program *program_next(const Program *p);
/* The first word of a side program's functions, tables and fields: "eval",
 * "outputs". */
const char *program_word(const Program *f);

#endif
