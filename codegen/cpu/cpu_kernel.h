/* cpu_kernel.h: functions that the files of the CPU kernel printer share. They
 * print a kernel of the kernel IR (kernel.h) as C.
 *
 *   cpu_kernel.c       the function and its loops over rows
 *   cpu_kernel_body.c  the code for one row
 *   cpu_kernel_sums.c  sums over rows
 *   cpu_random.c       random numbers
 *
 * kernel_text.h has what the printers of all targets share.
 */
#ifndef PARC_CODEGEN_CPU_CPU_KERNEL_H
#define PARC_CODEGEN_CPU_CPU_KERNEL_H

#include "codegen/kernel/kernel_text.h"

/* Number of elements from which a parallel loop pays. */
enum { PARALLEL_WORK = 32768 };

/* The loop variable for a set of axes: i<axis> for one axis that is not cut
 * into parts, else `name`. */
const char *cpu_loop_variable(const KernelPrinter *c, uint32_t axes, bool parts,
                              const char *name);
void cpu_open_loop(KernelPrinter *c, const char *variable, int64_t n,
                   bool parallel);
/* Prints the length of a block of columns when the last block is shorter. */
void cpu_tail_columns(KernelPrinter *c);

/* Print the start and the end of a work unit's sums over rows, and the code
 * that uses the sums (the epilogue). `unit` is the C expression of the index
 * over kept axes and parts; NULL: the kernel has one work unit. */
void cpu_begin_totals(KernelPrinter *c, const char *unit);
void cpu_end_totals(KernelPrinter *c, const char *unit);
void cpu_epilogue(KernelPrinter *c);
/* Whether the epilogue divides its work units over threads. */
bool cpu_epilogue_is_parallel(const Kernel *k);

/* Print the loop over columns; `reductions` are the clauses of the pragma. */
void cpu_open_columns(KernelPrinter *c, const char *reductions);
void cpu_close_columns(KernelPrinter *c);

KernelExpression cpu_load_expression;

/* cpu_random.c. cpu_random_expression: the random number of one element.
 * cpu_random_rows: prints, before a phase's loop, the drawing of rows of random
 * numbers, four numbers at a time. */
KernelExpression cpu_random_expression;
void cpu_random_rows(KernelPrinter *c, int phase);

/* Prints the code for one row. */
void cpu_row(KernelPrinter *c);

#endif
