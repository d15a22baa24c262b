/* report.h: what the plan will do, for people and for tools.
 *
 * All of them read a program that has been through every pass.
 */
#ifndef PARC_CODEGEN_REPORT_H
#define PARC_CODEGEN_REPORT_H

#include "passes/memory.h"

/* --emit plan: summary, parameters, units, collectives with their reasons,
 * memory with who lives at the peak. */
void report_plan(Out *o, const Program *p, const TargetInfo *t);

/* --emit json: the contract with other tools. */
void report_json(Out *o, const Program *p, const TargetInfo *t);

/* --emit dot: ops and values as a Graphviz graph. */
void report_dot(Out *o, const Program *p, const TargetInfo *t);

/* --explain NAME: a parameter, value or collective: what it is, how it is
 * placed and why, where it goes. False where nothing has that name; then
 * *near is the nearest name, or NULL. */
bool report_explain(Out *o, const Program *p, const TargetInfo *t,
                    const char *name, const char **near);

/* How a type lies on one axis as users read it: "R", "S(0)", "P"; a flat run
 * of whole rows is "S(0)", any other "flat". */
const char *report_placement(const Program *p, const Type *t, int axis);

/* "64.00 KiB": for people. */
const char *report_bytes(Arena *a, int64_t bytes);

/* ---- collectives as the plan numbers them (collectives.c) ---------------- */

typedef struct CollectiveInfo {
    const Op *op;
    int id;             /* by program order, from 0 */
    const char *label;  /* "ag3": also in emitted code, traces, --explain */
    const char *kind;   /* "all_gather", … */
    uint32_t axes;
    const char *axis;   /* "dp", "dp,tp" */
    int64_t group_size;
    const char *tensor; /* the unit, or the value's name */
    DType dtype;
    int64_t bytes;      /* full tensors on one rank, for one call */
    int64_t count;      /* calls a step */
} CollectiveInfo;

/* All collectives of the program in order; *n of them. */
CollectiveInfo *collectives_of(const Program *p, int *n);

#endif
