/* loops.h: the explicit form of a kernel, between the kernel IR (kernel.h) and
 * C text: loops, declared registers, loads, stores, reductions and barriers.
 *
 * Each target lowers a kernel to this form: it decides how rows and columns
 * become loops, threads and vectors (lower.h). One printer writes it
 * (loops_print.c) in the dialect of the target: pragmas of OpenMP or CUDA, and
 * the operations of a reduction.
 *
 *   r2 = sum of x * x, of a row of x: bf16[2048, 4096]
 *
 * becomes for the CPU                    and for CUDA
 *
 *   FOR i0 = 0 … 2048, parallel            SHARED sum2[32]
 *     LET x_row = x + i0 * 4096            LET t = thread_index()
 *     SUM r2                               LET i0 = block_index()
 *     FOR j = 0 … 4096, simd               SUM r2
 *       LET t0 = parc_from_bf16(x_row[j])  FOR s = 0 … 4, unrolled
 *       LET t1 = t0 * t0                     LET j = (s * 128 + t) * 8
 *       UPDATE r2 with t1                    VAR in0[8]
 *     FINISH r2                              LOAD in0 from x + i0 * 4096 + j
 *                                            FOR e = 0 … 8, unrolled
 *                                              LET t0 = in0[e]
 *                                              LET t1 = t0 * t0
 *                                              UPDATE r2 with t1
 *                                          FINISH r2: put its warp's sum in sum2
 *                                          BARRIER
 *                                          FINISH r2: get it from sum2
 *
 * and is printed as
 *
 *   #pragma omp simd reduction(+ : r2)     PARC_UNROLL
 *   for (int j = 0; j < 4096; j++) {       for (int s = 0; s < 4; s++) {
 *
 * Expressions are C text, which both targets have in common. A LET whose name
 * no later statement contains is not printed.
 */
#ifndef PARC_CODEGEN_KERNEL_LOOPS_H
#define PARC_CODEGEN_KERNEL_LOOPS_H

#include "base/out.h"
#include "ir/ir.h"

typedef enum StmtCode {
    STMT_LINE,    /* `text` */
    STMT_LET,     /* `type` `name` = `text`, which does not change */
    STMT_VAR,     /* `type` `name` = `text`; "float", "in0[8]", NULL */
    STMT_SHARED,  /* the same in the memory of a block of threads */
    STMT_BLOCK,   /* `text` { … }: "if (j < 64)"; NULL: only braces */
    STMT_FOR,     /* for `type` `name` from `text` to `to` by `step` */
    STMT_LOAD,    /* `count` elements from address `text` to array `name` */
    STMT_STORE,   /* `count` elements of array `name` to address `text` */
    STMT_SUM,     /* declares the register `name` of a row's sum or maximum */
    STMT_UPDATE,  /* `name` += `text`, or its maximum with `text` */
    STMT_FINISH,  /* completes a sum or maximum over the columns or threads */
    STMT_BARRIER, /* of a block of threads */
} StmtCode;

typedef enum LoopKind {
    LOOP_SERIAL,
    LOOP_PARALLEL,   /* over threads (CPU) */
    LOOP_SIMD,       /* over vector lanes (CPU) */
    LOOP_UNROLLED,   /* completely (CUDA) */
    LOOP_UNROLLED_2, /* two iterations */
    LOOP_ROLLED,     /* not */
    LOOP_KINDS
} LoopKind;

/* The parts of completing a reduction. */
typedef enum FinishPart {
    FINISH_LOOP, /* of a loop over vector lanes */
    FINISH_WARP, /* in all threads of a warp */
    FINISH_PUT,  /* a warp's part goes to the shared array `array` */
    FINISH_OWN,  /* the same for a value that all threads of the warp have */
    FINISH_GET   /* every thread combines the parts, after a barrier */
} FinishPart;

typedef struct Stmt {
    StmtCode code;
    const char *type, *name, *text, *to;
    int64_t step, count;
    const char *by; /* FOR: the step as C, instead of `step` */
    LoopKind loop;
    DType dtype;       /* LOAD, STORE: of the elements in memory */
    bool words;        /* LOAD: 32-bit words, not converted to f32 */
    OpKind op;         /* SUM, UPDATE, FINISH: OP_max or OP_sum */
    bool over_columns; /* UPDATE: of a name that a SUM declares */
    FinishPart part;
    const char *array;     /* FINISH: of the parts of `name` */
    const char *top;       /* FINISH: the maximum to which a sum is relative,
                            * NULL: none; GET: the array of its parts */
    const Op *source;      /* named in a comment, NULL: none */
    bool brief;            /* BLOCK, FOR: one statement, without braces */
    bool unused;           /* LET: set by stmt_drop_unused */
    struct Stmt *first, *last; /* of a BLOCK or FOR */
    struct Stmt *next, *parent;
} Stmt;

/* What differs between the languages of targets. */
typedef struct Dialect {
    const char *restricted; /* qualifier of a pointer that has no alias */
    const char *pragma[LOOP_KINDS]; /* the line before a loop; NULL: none */
    bool keys; /* maxima over columns are taken over integer keys, and the
                * pragma of the loop names its reductions (parc_key) */
} Dialect;

extern const Dialect dialect_c, dialect_cuda;

/* Appends a statement to a block or loop; the result is its copy. */
Stmt *stmt_add(Arena *a, Stmt *parent, Stmt s);

/* Whether a statement or a statement in it contains the name. stmt_drop_unused
 * marks each LET of a function whose name no later statement contains. */
bool stmt_uses(const Stmt *s, const char *name);
void stmt_drop_unused(Stmt *function);
/* Whether a loop in it runs in parallel. */
bool stmt_is_parallel(const Stmt *s);

/* Prints the statements of a function, a block. `where`: the program whose
 * source lines comments name; NULL: no comments. */
void loops_print(Out *o, const Dialect *d, const Stmt *function,
                 const Program *where);

/* Folds sums and products of integers in C text whose operators have a space on
 * each side: "0 + (t) * 8 + n % 1" becomes "t * 8". */
const char *text_fold(Arena *a, const char *text);

#endif
