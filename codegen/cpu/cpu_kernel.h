/* cpu_kernel.h: functions that the files of the CPU target share. They lower a
 * kernel (kernel.h) to loops over rows and columns.
 *
 *   cpu_kernel.c   the function, its loops over rows, sums over rows
 *   cpu_columns.c  the loops over the columns of a row
 *
 * codegen/kernel/lower.h has what the targets share.
 */
#ifndef PARC_CODEGEN_CPU_CPU_KERNEL_H
#define PARC_CODEGEN_CPU_CPU_KERNEL_H

#include "codegen/kernel/lower.h"

/* The loops over all columns of a row. */
void cpu_open_columns(Lowering *c);
/* Opens the loops over a phase's columns and lowers its elements. */
void cpu_columns(Lowering *c, int phase);
/* Declares the pointers to a row of each buffer, and the row that the kernel
 * keeps. */
void cpu_row_pointers(Lowering *c);

/* As in KernelTarget. */
const char *cpu_element(const Lowering *c, int buffer, int lane);
const char *cpu_value(const Lowering *c, int instr, int lane);

#endif
