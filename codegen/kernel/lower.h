/* lower.h: lowers a kernel (kernel.h) to loops (loops.h). What all targets have
 * in common is here: the phases of a row, the statements of instructions,
 * stores and sums, the epilogue. A target (KernelTarget) opens the loops over
 * rows and columns, and says where elements and sums are kept.
 *
 * Names in printed kernels: i<axis> is the index along a row axis, j along the
 * inner column axis (j<axis> along outer ones), t<n> an element value, r<n> a
 * row value, a<n> a running total, s<n> and c<n> the combined total of all
 * parts, e<n> a value of the epilogue; t<n>_0 and t<n>_1 are the two elements
 * of a rotated pair; u<n> is a row of random numbers.
 */
#ifndef PARC_CODEGEN_KERNEL_LOWER_H
#define PARC_CODEGEN_KERNEL_LOWER_H

#include "codegen/c_text.h"
#include "codegen/kernel/kernel.h"
#include "codegen/kernel/loops.h"

typedef struct Lowering Lowering;
struct CudaPlan;

/* The expressions and loops of a target. `instr` and `buffer` are indices;
 * `lane` is the index along the pair axis. */
typedef struct KernelTarget {
    const Dialect *dialect;
    /* Opens the loops over the columns of a phase and calls lower_elements. */
    void (*columns)(Lowering *c, int phase);
    /* Completes the row reductions of a phase after these loops. */
    void (*finish)(Lowering *c, int phase);
    /* In the loop over columns: an element of a buffer as an expression that can
     * be assigned; the value of a LOAD or RANDOM; a value that an earlier phase
     * has left; the place where a later phase finds the value (NULL: nothing
     * to do); the sum by column. */
    const char *(*element)(const Lowering *c, int buffer, int lane);
    const char *(*value)(const Lowering *c, int instr, int lane);
    const char *(*reused)(const Lowering *c, const KernelStep *step, int lane);
    const char *(*kept)(const Lowering *c, int instr, int lane);
    const char *(*column_sum)(const Lowering *c, int instr, int lane);
    /* NULL: no. Whether elements of a buffer are stored to a vector of
     * floats. */
    bool (*is_vector)(const Lowering *c, int buffer);
    /* NULL: no. Adds to a row reduction in a way of its own; false: in the usual
     * way. */
    bool (*reduce)(Lowering *c, const KernelRoot *root);
} KernelTarget;

struct Lowering {
    const Program *p;
    Arena *arena;
    const Kernel *k;
    const KernelTarget *target;
    const KernelPhase *phase; /* as many as the kernel has */
    int nphases;
    Stmt function, *at;  /* the body; the innermost open block */
    const char *inner;   /* the index along the inner column axis: "j" */
    const char *column_type; /* the C type of that index */
    int merged;          /* an axis that is merged into the inner one; -1 */
    bool epilogue;       /* in the code that uses the sums over rows */
    const char *first;   /* a condition that holds in one of the threads that
                          * have a row's values; "": there is only one */
    bool once;           /* only that thread adds a row's term to a sum */
    const bool *hoisted; /* by instruction: a row value that is computed before
                          * the loop over rows; NULL: none */
    /* For cuda_*.c: the plan; whether a value is in the vector in<n>, by
     * instruction; the index of the row; the number of the block. */
    const struct CudaPlan *plan;
    const bool *staged;
    const char *row, *block;
    bool pairs; /* the vectors of two slots are read before either is used */
};

/* ---- lower_stmt.c ------------------------------------------------------- */

const char *lower_text(const Lowering *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, folded: an integer or an address. */
const char *lower_index(const Lowering *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void lower_add(Lowering *c, Stmt s);
void lower_line(Lowering *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void lower_let(Lowering *c, const char *type, const char *name, const char *fmt,
               ...) __attribute__((format(printf, 4, 5)));
void lower_var(Lowering *c, const char *type, const char *name,
               const char *value);
/* "if (…) {", a block and loops; the statements that follow are in it, until
 * c->at is set back. lower_count: for (int name = 0; name < n; name++). */
void lower_if(Lowering *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void lower_block(Lowering *c);
Stmt *lower_for(Lowering *c, LoopKind kind, const char *type, const char *name,
                const char *from, const char *to, int64_t step);
Stmt *lower_count(Lowering *c, LoopKind kind, const char *name, int64_t n);
/* for (int name = from; name < n; name += step) sum += x; */
void lower_add_all(Lowering *c, OpKind op, const char *sum, const char *name,
                   const char *from, int64_t n, int64_t step, const char *x);
/* "if (…) return;" */
void lower_return_if(Lowering *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void lower_update(Lowering *c, OpKind op, const Op *source, const char *sum,
                  const char *x);

/* The loop over the rows of a part of all rows, from row `first` of the part. */
void lower_rows(Lowering *c, const char *row, int64_t rows, int64_t parts,
                const char *first, int step);

/* ---- lower.c: phases and sums -------------------------------------------- */

/* The phases of a row: row values, loops over columns, reductions. `hoisted`
 * adds the row values that are computed before the loop over rows. */
void lower_row(Lowering *c);
void lower_hoisted(Lowering *c);
/* The statements of one element: the steps of a phase, and its element roots. */
void lower_elements(Lowering *c, int phase);
/* The value that a total starts with: "0.0f" or "-INFINITY". */
const char *lower_start(const Lowering *c, int instr);
/* Declares e<n>, a complete total. */
void lower_total(Lowering *c, int instr, int lane, const char *value);
/* The epilogue of a task, whose stores are made if `one` holds ("":
 * always), and of a column. */
void lower_task_epilogue(Lowering *c, const char *one);
void lower_column_epilogue(Lowering *c);

/* ---- kernel_expression.c ------------------------------------------------- */

int kernel_count_axes(uint32_t axes);
int kernel_first_axis(uint32_t axes);

/* The C type of an index of `columns` columns: "int", or "int64_t" if offsets
 * along the inner axis need it. */
const char *kernel_column_type(const Kernel *k, int64_t columns);
/* "i0 * 64 + i1": the offset along a set of axes; "0". */
const char *kernel_index(const Lowering *c, uint32_t axes,
                         const int64_t *stride, int lane);
/* Declares the index of each axis from a running index: i2 = task / 4 % 12. */
void kernel_split_index(Lowering *c, uint32_t axes, const char *from,
                        int64_t divisor);

/* Declares a lane of an instruction's value. */
void lower_value(Lowering *c, int instr, int lane, const char *text);
/* An instruction as a statement; the expression that reads its value. */
void kernel_compute(Lowering *c, int instr);
const char *kernel_value(const Lowering *c, int instr, int lane);
/* An element of a buffer, "y[i0 * 64 + j]"; its value and the statement that
 * stores one: "parc_from_bf16(x_row[j])", "y_row[j] = parc_to_bf16(t4);". */
const char *kernel_element(const Lowering *c, const KernelBuffer *b, int lane);
const char *kernel_loaded(const Lowering *c, const KernelBuffer *b,
                          const char *at);
const char *kernel_stored(const Lowering *c, const KernelBuffer *b,
                          const char *at, const char *x);
/* A random number's index in the global tensor, for some axes and with all
 * bases; the expression that draws a single number. */
const char *kernel_random_index(const Lowering *c, const KernelInstr *instr,
                                uint32_t axes, int lane);
const char *kernel_random_alone(const Lowering *c, int instr, int lane);

/* ---- kernel_head.c ------------------------------------------------------- */

/* The comment above a kernel without its end: name, source lines, ops, buffers
 * and bytes. */
void kernel_comment(Out *o, const Program *p, const Kernel *k, int number);

/* Parameter number i: a buffer, or the workspace after all of them;
 * `restrict_word` is the qualifier for a pointer that does not alias, or "". */
const char *kernel_parameter(Arena *a, const Kernel *k, int i,
                             const char *restrict_word);

/* "opening item, item, …)end", broken into lines. */
void kernel_signature(Out *o, const char *opening, int n,
                      const char *const *item, const char *end);

/* "void name(ParcRt *rt, float *restrict y, …)": every target's function
 * takes the results, the operands, then the workspace if it has any. */
void kernel_function(Out *o, const Program *p, const Kernel *k, int number,
                     const char *restrict_word, const char *end);

/* kernels.h: `visit` prints the prototype of a kernel; `meaning` says what the
 * prototypes are. */
void prototypes_emit(Out *o, const Program *p, const char *meaning,
                     KernelVisit *visit, void *context);

#endif
