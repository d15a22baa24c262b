/* replan.h: plans the program of a compilation with changes.
 *
 * The changes are applied to a copy of the syntax tree, the -D options and the
 * mesh. The copy is lowered and runs through the passes up to a given one. Its
 * errors are not reported. --device-memory (driver/auto/fit.h) and the hints of
 * warnings (hint.h) try changes in this way before they propose them.
 *
 *   Replan *r = replan_new(arena, p, source);
 *   replan_clause(r, "checkpoint { layers.* }");
 *   Program *q = replan_run(r, "memory");
 */
#ifndef PARC_REPORT_REPLAN_H
#define PARC_REPORT_REPLAN_H

#include "frontend/frontend.h"
#include "passes/pass.h"
#include "report/report.h"

/* The inputs of a compilation. */
typedef struct PlanSource {
    const char *mesh; /* the value of --mesh; NULL: not given */
    int64_t node_size; /* of --node-size; 0: not given */
    const TargetInfo *t;
    const PassInfo *pass; /* the list of passes */
    const File *prelude, *file; /* file NULL: the input is an IR dump */
    Setting *const *define;     /* the -D options */
    int ndefines;
    PlanDefaults defaults;
    bool side;                  /* with the side programs */
} PlanSource;

typedef struct Replan Replan;

/* A replan of p without changes. Everything that it makes is allocated in the
 * arena. requires: source->file */
Replan *replan_new(Arena *a, const Program *p, const PlanSource *source);

/* Replaces the plan's clauses of the same kind, or adds the clause:
 * "checkpoint { layers.* }". */
void replan_clause(Replan *r, const char *clause);
/* Adds a line to a `parallelize` clause; it replaces the lines of the same axis
 * with the same path. */
void replan_style(Replan *r, const PlanLine *line);
/* Makes every unit full_shard. */
void replan_shard_fully(Replan *r);
/* Adds a -D option: "accumulate=4". */
void replan_define(Replan *r, const char *define);
/* Replaces the value of --mesh. */
void replan_mesh(Replan *r, const char *mesh);

/* The training step after the pass `until`, without side programs; NULL after an
 * error. */
Program *replan_run(Replan *r, const char *until);
/* The program with its memory plan, to which the side programs add if the compilation
 * has them; NULL after an error. */
Program *replan_memory(Replan *r);
/* Runs the passes from `memory` to `sync` on a training step of replan_memory; false after
 * an error. */
bool replan_schedule(const PlanSource *source, Program *q);
/* The text of the first error; NULL: there is none. */
const char *replan_error(const Replan *r);

#endif
