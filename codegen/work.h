/* work.h: what a step does, statement by statement.
 *
 * One list for everyone who names a kernel, a library call or a collective:
 * the JSON, the marks in emitted code, the trace of a run. A statement inside
 * a loop is one entry with a count.
 */
#ifndef PARC_CODEGEN_WORK_H
#define PARC_CODEGEN_WORK_H

#include "codegen/report.h"

typedef struct WorkInfo {
    const Op *op;
    const char *id;     /* kernel's name, collective's or transfer's label
                           ("ag3", "ft0"), else the name of the result in the IR ("dx.12") */
    const char *kind;   /* "kernel", "matmul", "attention", "collective", … */
    const char *detail; /* "all_gather over dp: layers.*", "abk,fk->abf"; "" */
    int64_t bytes;      /* a call on one rank: every operand and result once;
                           a collective: the full tensors, as in the plan; a
                           transfer: what moves */
    double flops;       /* a call on one rank; 0 where bytes are what counts */
    int64_t count;      /* calls a step */
    int nloops;         /* around it, outermost first */
    const Op *loop[MAX_LOOP_DEPTH];
} WorkInfo;

/* All of forward, backward and optimizer in program order; *n of them.
 * Positions of ranks' parts (`base`) are no work. */
WorkInfo *work_of(const Program *p, int *n);

/* A loop whose turns go forward and back: one over microbatches. */
bool work_goes_both_ways(const Op *op);

/* The plan's line for a collective, the model's for others. */
Loc work_loc(const WorkInfo *w);

/* Ops without a statement: views, and copies within one place. */
bool work_is_silent(const Program *p, const Op *op);

#endif
