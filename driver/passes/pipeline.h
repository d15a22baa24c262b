/* pipeline.h: runs the passes of passes.def in order.
 *
 * A pass is named by its index in pass_table; -1 is `lower`, which makes the
 * program that the passes start from.
 */
#ifndef PARC_DRIVER_PIPELINE_H
#define PARC_DRIVER_PIPELINE_H

#include "passes/pass.h"

typedef struct PipelineOptions {
    VEC(int) dump_before;
    VEC(int) dump_after;
    bool dump_after_all, time_passes;
    bool stops, starts;          /* whether the next two are given */
    int stop_after, start_after; /* starts: the program is an IR dump */
    const char *reproduce;       /* options for the command that reproduces an
                                  * internal error: "--target cpu" */
} PipelineOptions;

const char *pass_name(int pass);
/* Prints the names and meanings of all passes. */
void pass_list(Out *o);

/* The time of a step before the passes, for --time-passes. */
typedef struct Timing {
    const char *name;
    double seconds;
} Timing;

/* Whether a dump that says to be one after `pass` has what the passes up to it
 * have added: the order of issue, the memory plan, waits and barriers; else a
 * user error. */
bool pipeline_has_parts(Program *p, const TargetInfo *t, int pass);

/* Runs the passes on p, which `lower` or ir_parse has just made. Dumps go to
 * standard output, timings to standard error. Returns false after a user error,
 * which is in p->diag. A program that does not verify ends in bug(), after the
 * last valid one was saved to parc-crash.ir. */
bool pipeline_run(Program *p, const TargetInfo *t, const PipelineOptions *o,
                  const Timing *before, int nbefore);

#endif
