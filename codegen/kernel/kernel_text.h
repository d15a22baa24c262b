/* kernel_text.h: functions that print the parts of a kernel that are the same
 * on all targets: comments, parameters, names and single statements.
 * cpu_kernel*.c and cuda_*.c use them.
 *
 * Names in printed kernels: i<axis> is the index along a row axis, j along the
 * inner column axis (j<axis> along outer ones), t<n> an element value, r<n> a
 * row value, a<n> a running total, s<n> and c<n> the combined total of all
 * parts, e<n> a value of the epilogue; t<n>_0 and t<n>_1 are the two elements
 * of a rotated pair; u<n> is a row of random numbers.
 */
#ifndef PARC_CODEGEN_KERNEL_KERNEL_TEXT_H
#define PARC_CODEGEN_KERNEL_KERNEL_TEXT_H

#include "codegen/c_text.h"
#include "codegen/kernel/kernel.h"

typedef struct KernelPrinter KernelPrinter;

/* The expression of a load or a random number. `where` is 'r' in the code for a
 * row, 't' in a loop over columns, 'e' in the epilogue. */
typedef const char *KernelExpression(const KernelPrinter *c,
                                     const KernelInstr *instr, char where,
                                     int lane);

/* Which names that are declared before the printed text it uses. */
typedef struct KernelUses {
    bool *buffer; /* by buffer */
    bool workspace;
    bool column; /* the index along the inner column axis */
} KernelUses;

struct KernelPrinter {
    Out *o;
    const Program *p;
    const Kernel *k;
    const char *inner; /* the index along the inner column axis: "j" */
    int merged;        /* an axis that is merged into the inner one; -1: none */
    bool bare;         /* statements without comments */
    KernelUses *uses;  /* recorded by kernel_buffer, kernel_offset
                        * and kernel_workspace; NULL: not wanted */
    KernelExpression *load, *random;
};

/* ---- kernel_head.c ------------------------------------------------------- */

/* The comment above a kernel without its end: name, source lines, ops, buffers
 * and bytes. */
void kernel_comment(KernelPrinter *c, int number);

/* Parameter number i: a buffer, or the workspace after all of them;
 * `restricted` is the qualifier for a pointer that does not alias, or "". */
const char *kernel_parameter(const KernelPrinter *c, int i,
                             const char *restricted);

/* "opening item, item, …)end", broken into lines. */
void kernel_signature(KernelPrinter *c, const char *opening, int n,
                      const char *const *item, const char *end);

/* "void name(ParcRt *rt, float *restrict y, …)": every target's function
 * takes the results, the operands, then the workspace if it has any. */
void kernel_function(KernelPrinter *c, int number, const char *restricted,
                     const char *end);

int kernel_count_axes(uint32_t axes);
int kernel_first_axis(uint32_t axes);

/* i0 = unit / 12 / 4; i2 = unit / 4 % 12; …: the index of each axis from a
 * running index. */
void kernel_split_index(KernelPrinter *c, uint32_t axes, const char *from,
                        int64_t divisor);

/* Calls `visit` for each kernel of a training step and its forward programs in
 * order, with its number; of equal kernels (kernels_share) for the first. */
typedef void KernelVisit(void *context, const Program *p, const Op *fused,
                         int number);
void kernel_each(const Program *p, KernelVisit *visit, void *context);
/* kernels.h: `visit` prints the prototype of a kernel; `meaning` says what the
 * prototypes are. */
void prototypes_emit(Out *o, const Program *p, const char *meaning,
                     KernelVisit *visit, void *context);

/* ---- kernel_expression.c ------------------------------------------------- */

/* Names in printed text: of a buffer, of the workspace. */
const char *kernel_buffer(const KernelPrinter *c, const KernelBuffer *b);
const char *kernel_workspace(const KernelPrinter *c);

/* The innermost column axis; -1: the kernel has no columns. */
int kernel_inner_axis(const Kernel *k);
/* 2 for values that vary along the pair axis, else 1. */
int kernel_lanes(const Kernel *k, uint32_t axes);

/* " + i0 * 64 + i1": the offset along a set of axes; "" if it is 0. `lane` is
 * the index along the pair axis. */
const char *kernel_offset(const KernelPrinter *c, uint32_t axes,
                          const int64_t *stride, int lane);
/* The offset in a form that can be an index: "i0 * 64 + j", "0". */
const char *kernel_index(const KernelPrinter *c, uint32_t axes,
                         const int64_t *stride, int lane);

/* A line of code with a comment that names its op, NULL: none. */
void kernel_statement(KernelPrinter *c, const Op *source, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* An instruction as a statement; `where` is 'r', 't' or 'e'. */
void kernel_compute(KernelPrinter *c, int instr, char where);
/* The expression that reads an instruction's value; `where` is 'r' or 't', or
 * 'e' in the epilogue. */
const char *kernel_value(const KernelPrinter *c, int instr, char where,
                         int lane);
/* An element of a buffer, its value, and the statement that stores one; `at` is
 * the element: "y[i0 * 64 + j]", "parc_from_bf16(x_row[j])", "y_row[j] =
 * parc_to_bf16(t4);". */
const char *kernel_element(const KernelPrinter *c, const KernelBuffer *b,
                           int lane);
const char *kernel_loaded(const KernelPrinter *c, const KernelBuffer *b,
                          const char *at);
const char *kernel_stored(const KernelPrinter *c, const KernelBuffer *b,
                          const char *at, const char *x);
/* "sum = parc_max(sum, x);" or "sum += x;". */
const char *kernel_add_to(const KernelPrinter *c, OpKind op, const char *sum,
                          const char *x);
/* A random number's index in the global tensor, for some axes and with all
 * bases; the expression that draws a single number. */
const char *kernel_random_index(const KernelPrinter *c,
                                const KernelInstr *instr, uint32_t axes,
                                char where, int lane);
KernelExpression kernel_random_alone;

#endif
