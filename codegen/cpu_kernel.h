/* cpu_kernel.h: between cpu_kernel.c (functions and loops over rows) and
 * cpu_kernel_body.c (what a row does).
 *
 * Names in printed kernels: i<axis> is the index along a row axis, j along
 * the inner column axis (j<axis> along outer ones), t<n> an element value,
 * r<n> a row value, a<n> a running total, s<n> and c<n> the same put
 * together, e<n> a value of the epilogue; t<n>_0 and t<n>_1 are the two of a
 * rotated pair.
 */
#ifndef PARC_CODEGEN_CPU_KERNEL_H
#define PARC_CODEGEN_CPU_KERNEL_H

#include "codegen/kernel.h"

typedef struct CpuKernel {
    Out *o;
    const Program *p;
    const Kernel *k;
} CpuKernel;

/* The innermost column axis; -1: the kernel has no columns. */
int cpu_inner_axis(const Kernel *k);
const char *cpu_type(DType t);
/* 2 for what varies along the pair axis, else 1. */
int cpu_lanes(const Kernel *k, uint32_t axes);

/* " + i0 * 64 + i1": the offset along a set of axes, "" where there is none.
 * `lane` is the index along the pair axis. */
const char *cpu_offset(const CpuKernel *c, uint32_t axes,
                       const int64_t *stride, int lane);
/* The same as an index: "i0 * 64 + j", "0". */
const char *cpu_index(const CpuKernel *c, uint32_t axes,
                      const int64_t *stride, int lane);

/* The loops over columns; `reductions` are the clauses of the pragma. */
void cpu_open_columns(CpuKernel *c, const char *reductions);
void cpu_close_columns(CpuKernel *c);

/* A line of code with a comment that says which op it is for. */
void cpu_statement(CpuKernel *c, const Op *source, const char *text);

/* An instruction as a statement; `where` is 'r', 't' or 'e'. */
void cpu_instr(CpuKernel *c, int instr, char where);
/* A reference to an instruction's value from such a place. */
const char *cpu_value(const CpuKernel *c, int instr, char where, int lane);
/* "parc_max(x, y)" or "x + y". */
const char *cpu_joined(const CpuKernel *c, OpKind op, const char *x,
                       const char *y);

/* Everything that is done for one row. */
void cpu_row(CpuKernel *c);

#endif
