/* kernel_text.h: what the printers of kernels for all targets share: comments,
 * parameters, names and single statements. The printers themselves are
 * cpu_kernel*.c and cuda_*.c.
 *
 * Names in printed kernels: i<axis> is the index along a row axis, j along
 * the inner column axis (j<axis> along outer ones), t<n> an element value,
 * r<n> a row value, a<n> a running total, s<n> and c<n> the same put
 * together, e<n> a value of the epilogue; t<n>_0 and t<n>_1 are the two of a
 * rotated pair; u<n> a row of random numbers.
 */
#ifndef PARC_CODEGEN_KERNEL_TEXT_H
#define PARC_CODEGEN_KERNEL_TEXT_H

#include "codegen/c_text.h"
#include "codegen/kernel.h"

typedef struct KernelPrinter KernelPrinter;

/* The expression of a load, or of a random number, from 'r', 't' or 'e'. */
typedef const char *KernelExpression(const KernelPrinter *c,
                                     const KernelInstr *instr, char where,
                                     int lane);

struct KernelPrinter {
    Out *o;
    const Program *p;
    const Kernel *k;
    const char *inner; /* the index along the inner column axis: "j" */
    int merged;        /* an axis that the inner one runs through; -1: none */
    bool bare;         /* statements without comments */
    KernelExpression *load, *random;
};

/* ---- kernel_head.c ------------------------------------------------------- */

/* The comment above a kernel, but for its end: name, source lines, ops,
 * buffers and bytes. */
void kernel_comment(KernelPrinter *c, int number);

/* Parameter number i: a buffer, or behind all of them the workspace;
 * `restricted` is the word for a pointer whose memory nobody else has, or
 * "". */
const char *kernel_parameter(const KernelPrinter *c, int i,
                             const char *restricted);

/* "opening item, item, …)end" broken into lines. */
void kernel_signature(KernelPrinter *c, const char *opening, int n,
                      const char *const *item, const char *end);

/* "void name(ParcRt *rt, float *restrict y, …)": every target's function
 * takes the results, the operands, then the workspace if it has any. */
void kernel_function(KernelPrinter *c, int number, const char *restricted,
                     const char *end);

int kernel_count_axes(uint32_t axes);
int kernel_first_axis(uint32_t axes);

/* i0 = unit / 12 / 4; i2 = unit / 4 % 12; …: axes from a running number. */
void kernel_split_index(KernelPrinter *c, uint32_t axes, const char *from,
                        int64_t divisor);
void kernel_close_block(KernelPrinter *c);

/* For each fused op of the program, in its order, with its number. */
typedef void KernelVisit(void *context, const Op *fused, int number);
void kernel_each(const Program *p, KernelVisit *visit, void *context);

/* ---- kernel_expression.c ------------------------------------------------- */

/* The innermost column axis; -1: the kernel has no columns. */
int kernel_inner_axis(const Kernel *k);
/* 2 for what varies along the pair axis, else 1. */
int kernel_lanes(const Kernel *k, uint32_t axes);

/* " + i0 * 64 + i1": the offset along a set of axes, "" where there is none.
 * `lane` is the index along the pair axis. */
const char *kernel_offset(const KernelPrinter *c, uint32_t axes,
                          const int64_t *stride, int lane);
/* The same as an index: "i0 * 64 + j", "0". */
const char *kernel_index(const KernelPrinter *c, uint32_t axes,
                         const int64_t *stride, int lane);

/* A line of code with a comment that says which op it is for. */
void kernel_statement(KernelPrinter *c, const Op *source, const char *text);

/* An instruction as a statement; `where` is 'r', 't' or 'e'. */
void kernel_compute(KernelPrinter *c, int instr, char where);
/* A reference to an instruction's value from such a place. */
const char *kernel_value(const KernelPrinter *c, int instr, char where,
                         int lane);
/* An element of a buffer in a computation, and the statement that stores one,
 * `at` being its place: "x_row[j]", "y_row[j] = parc_to_bf16(t4);". */
const char *kernel_loaded(const KernelPrinter *c, const KernelBuffer *b,
                          const char *at);
const char *kernel_stored(const KernelPrinter *c, const KernelBuffer *b,
                          const char *at, const char *x);
/* "sum = parc_max(sum, x);" or "sum += x;". */
const char *kernel_add_to(const KernelPrinter *c, OpKind op, const char *sum,
                          const char *x);
/* A random number's index in the whole tensor, along some axes and from the
 * bases of all; the number drawn by itself. */
const char *kernel_random_index(const KernelPrinter *c,
                                const KernelInstr *instr, uint32_t axes,
                                char where, int lane);
KernelExpression kernel_random_alone;

#endif
