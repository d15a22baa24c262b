/* work.h: lists the statements of a step (kernels, library calls, collectives,
 * transfers) with their bytes and flops.
 *
 * The JSON, parc_mark in emitted code and the trace of a run take names and
 * numbers from this list. A statement inside a loop is one entry with a count.
 */
#ifndef PARC_CODEGEN_WORK_H
#define PARC_CODEGEN_WORK_H

#include "codegen/report.h"

typedef struct WorkInfo {
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
    int nloops;         /* number of loops around it */
    const Op *loop[MAX_LOOP_DEPTH]; /* the loops around it, outermost first */
} WorkInfo;

/* All statements of forward, backward and optimizer in program order; *n of
 * them. The positions of ranks' parts (`base`) are not listed. */
WorkInfo *work_of(const Program *p, int *n);

/* Whether op is a loop that runs forward and backward ops: over microbatches,
 * or over the chunks of the head. */
bool work_goes_both_ways(const Op *op);

/* The source location of a statement: for a collective, the line of the plan
 * that causes it, if any; else the line of the model. */
Loc work_loc(const WorkInfo *w);

#endif
