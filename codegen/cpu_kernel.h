/* cpu_kernel.h: between cpu_kernel.c (functions and loops over rows),
 * cpu_kernel_body.c (what a row does), cpu_kernel_sums.c (sums over rows) and
 * cpu_random.c; over kernel_text.h.
 */
#ifndef PARC_CODEGEN_CPU_KERNEL_H
#define PARC_CODEGEN_CPU_KERNEL_H

#include "codegen/kernel_text.h"

/* Elements from which waking the threads pays. */
enum { PARALLEL_WORK = 32768 };

/* The loop variable that runs over a set of axes: `name`, or i<axis> where
 * there is but one axis (and it is not cut into parts). */
const char *cpu_loop_variable(const KernelPrinter *c, uint32_t axes, bool parts,
                              const char *name);
void cpu_open_loop(KernelPrinter *c, const char *variable, int64_t n,
                   bool parallel);
/* The length of a block of columns, where the last is shorter. */
void cpu_tail_columns(KernelPrinter *c);

/* A unit's sums, and what follows when all are there. `unit` is the running
 * number of kept index and part; NULL: there is one. */
void cpu_begin_totals(KernelPrinter *c, const char *unit);
void cpu_end_totals(KernelPrinter *c, const char *unit);
void cpu_epilogue(KernelPrinter *c);

/* The loops over columns; `reductions` are the clauses of the pragma. */
void cpu_open_columns(KernelPrinter *c, const char *reductions);
void cpu_close_columns(KernelPrinter *c);

KernelExpression cpu_load_expression;

/* Random numbers: an element alone, and ahead of a phase's loop the rows of
 * those that are drawn four at a time (cpu_random.c). */
KernelExpression cpu_random_expression;
void cpu_random_rows(KernelPrinter *c, int phase);

/* Everything that is done for one row. */
void cpu_row(KernelPrinter *c);

#endif
