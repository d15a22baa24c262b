/* statements.h: lists the statements of a step (kernels, library calls,
 * collectives, transfers) with their bytes and flops.
 *
 * The JSON, parc_mark in emitted code and the trace of a run take names and
 * numbers from this list. A statement inside a loop is one entry with a count.
 * In a side program that repeats another program (Program.repeats), all ops of
 * the lists are the other program's.
 */
#ifndef PARC_CODEGEN_STATEMENTS_STATEMENTS_H
#define PARC_CODEGEN_STATEMENTS_STATEMENTS_H

#include "ir/memory.h"

/* ---- collectives as the plan numbers them (collectives.c) ---------------- */

typedef struct CollectiveInfo {
    const Op *op;
    int id;             /* by program order, see numbers.h */
    const char *label;  /* "ag3": also in emitted code, traces, --explain */
    const char *kind;   /* "all_gather", … */
    uint32_t axes;
    const char *axis;   /* "dp", "dp,tp" */
    int64_t group_size;
    const char *tensor; /* the unit, or the value's name */
    DType dtype;
    int64_t bytes;      /* full tensors on one rank, for one call */
    int64_t count;      /* calls per step */
    bool in_place;      /* nothing moves: the ranks share the gathered memory */
} CollectiveInfo;

/* All collectives of the program in order; *n of them. */
CollectiveInfo *collectives_of(const Program *p, int *n);

/* ---- transfers as the plan numbers them (collectives.c) ------------------ */

/* A transfer of a tensor from host memory to the device, or back. */
typedef struct TransferInfo {
    const Op *op;        /* fetch or store */
    const char *label;   /* "ft3", "st4": also in emitted code and traces */
    const Param *param;
    bool to_host;
    int64_t bytes;       /* bytes of one transfer on one rank */
    int64_t count;       /* transfers per step */
} TransferInfo;

/* All transfers of the program in order; *n of them. */
TransferInfo *transfers_of(const Program *p, int *n);

/* ---- statements (statements.c) ------------------------------------------- */

typedef struct Statement {
    const Op *op;
    const char *id;     /* the kernel's name, the collective's or transfer's
                         * label ("ag3", "ft0"), else the name of the result in
                         * the IR ("dx.12") */
    const char *kind;   /* "kernel", "matmul", "attention", "collective", … */
    const char *detail; /* "all_gather over dp: layers.*", "abk,fk->abf"; "" */
    int64_t bytes;      /* a call on one rank: every operand and result once; a
                         * collective: the full tensors, as in the plan; a
                         * transfer: the bytes moved */
    double flops;       /* a call on one rank; 0 if only bytes matter */
    int64_t count;      /* calls per step */
    int64_t batch, m, n, k; /* a matmul: sizes of the library's call; a convolution: those of
                             * the products of its groups; else 0 */
    int64_t calls;      /* a matmul or convolution: library calls of one execution */
    DType type[3];      /* a matmul: of its operands and its result */
    int nloops;         /* number of loops around it */
    const Op *loop[MAX_LOOP_DEPTH]; /* the loops around it, outermost first */
} Statement;

/* All statements of forward, backward and optimizer in program order; *n of
 * them. The positions of ranks' parts (`base`) are not listed. */
Statement *statements_of(const Program *p, int *n);

/* By statement of a list: the statements of other streams that it waits for, by their
 * indices, in the program's order. */
typedef VEC(int) StatementWaits;
StatementWaits *statement_waits(const Program *p, const Statement *statement, int n);

/* Whether op is a loop that runs forward and backward ops: over microbatches,
 * or over the chunks of the head. */
bool loop_has_forward_and_backward(const Op *op);

/* The source location of a statement: for a collective, the line of the plan
 * that causes it, if any; else the line of the model. */
Loc statement_loc(const Op *op);

#endif
