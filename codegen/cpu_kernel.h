/* cpu_kernel.h: between cpu_kernel.c (functions and loops over rows),
 * cpu_kernel_body.c (what a row does), cpu_kernel_sums.c (sums over rows) and
 * cpu_expression.c (single statements).
 *
 * Names in printed kernels: i<axis> is the index along a row axis, j along
 * the inner column axis (j<axis> along outer ones), t<n> an element value,
 * r<n> a row value, a<n> a running total, s<n> and c<n> the same put
 * together, e<n> a value of the epilogue; t<n>_0 and t<n>_1 are the two of a
 * rotated pair; u<n> a row of random numbers.
 */
#ifndef PARC_CODEGEN_CPU_KERNEL_H
#define PARC_CODEGEN_CPU_KERNEL_H

#include "codegen/c_text.h"
#include "codegen/kernel.h"

/* Elements from which waking the threads pays. */
enum { PARALLEL_WORK = 32768 };

typedef struct CpuKernel {
    Out *o;
    const Program *p;
    const Kernel *k;
} CpuKernel;

/* The innermost column axis; -1: the kernel has no columns. */
int cpu_inner_axis(const Kernel *k);
/* 2 for what varies along the pair axis, else 1. */
int cpu_lanes(const Kernel *k, uint32_t axes);

/* " + i0 * 64 + i1": the offset along a set of axes, "" where there is none.
 * `lane` is the index along the pair axis. */
const char *cpu_offset(const CpuKernel *c, uint32_t axes, const int64_t *stride,
                       int lane);
/* The same as an index: "i0 * 64 + j", "0". */
const char *cpu_index(const CpuKernel *c, uint32_t axes, const int64_t *stride,
                      int lane);

/* The loop variable that runs over a set of axes: `name`, or i<axis> where
 * there is but one axis (and it is not cut into parts). */
const char *cpu_loop_variable(const CpuKernel *c, uint32_t axes, bool parts,
                              const char *name);
/* i0 = unit / 12 / 4; i2 = unit / 4 % 12; …: axes from a running number. */
void cpu_split_index(CpuKernel *c, uint32_t axes, const char *from,
                     int64_t divisor);
void cpu_open_loop(CpuKernel *c, const char *variable, int64_t n,
                   bool parallel);
void cpu_close_block(CpuKernel *c);
/* The length of a block of columns, where the last is shorter. */
void cpu_tail_columns(CpuKernel *c);

/* A unit's sums, and what follows when all are there. `unit` is the running
 * number of kept index and part; NULL: there is one. */
void cpu_begin_totals(CpuKernel *c, const char *unit);
void cpu_end_totals(CpuKernel *c, const char *unit);
void cpu_epilogue(CpuKernel *c);

/* The loops over columns; `reductions` are the clauses of the pragma. */
void cpu_open_columns(CpuKernel *c, const char *reductions);
void cpu_close_columns(CpuKernel *c);

/* A line of code with a comment that says which op it is for. */
void cpu_statement(CpuKernel *c, const Op *source, const char *text);

/* An instruction as a statement; `where` is 'r', 't' or 'e'. */
void cpu_instr(CpuKernel *c, int instr, char where);
/* A reference to an instruction's value from such a place. */
const char *cpu_value(const CpuKernel *c, int instr, char where, int lane);
/* An element of a buffer in a computation, and the statement that stores one,
 * `at` being its place: "x_row[j]", "y_row[j] = parc_to_bf16(t4);". */
const char *cpu_loaded(const CpuKernel *c, const KernelBuffer *b,
                       const char *at);
const char *cpu_stored(const CpuKernel *c, const KernelBuffer *b,
                       const char *at, const char *x);
/* "parc_max(x, y)" or "x + y". */
const char *cpu_joined(const CpuKernel *c, OpKind op, const char *x,
                       const char *y);

/* Random numbers: an element alone, and ahead of a phase's loop the rows of
 * those that are drawn four at a time (cpu_random.c). */
const char *cpu_random_expression(const CpuKernel *c, const KernelInstr *instr,
                                  char where, int lane);
void cpu_random_rows(CpuKernel *c, int phase);

/* Everything that is done for one row. */
void cpu_row(CpuKernel *c);

#endif
