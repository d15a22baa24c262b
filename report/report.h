/* report.h: prints the execution plan as text, as JSON and as a graph, explains
 * parts of it (--explain), and warns of costs that no line asks for.
 *
 * All functions expect a program that has been through every pass.
 */
#ifndef PARC_REPORT_REPORT_H
#define PARC_REPORT_REPORT_H

#include "base/out.h"
#include "codegen/statements/statements.h"
#include "forecast/forecast.h"
#include "ir/options.h"
#include "ir/plan/user_axes.h"
#include "passes/pass.h"

/* --emit plan: a summary, then parameters with their units, collectives with
 * their reasons, streams, saved values, the blocks that are live at the memory peak,
 * and the time of a step. `f`: the forecast of --machine; NULL: none. */
void report_plan(Out *o, const Program *p, const TargetInfo *t, const Forecast *f);

/* --emit json: the plan for other tools, which rely on its field names. */
typedef struct Warnings Warnings;
void report_json(Out *o, const Program *p, const TargetInfo *t,
                 const Warnings *warnings, const Forecast *f);

/* --emit dot: the ops of the program as a Graphviz graph. */
void report_dot(Out *o, const Program *p, const TargetInfo *t);

/* --explain NAME: explains a parameter, value, collective, module, kernel, mesh
 * axis or the memory peak. Returns false if nothing has that name; *near is
 * then the nearest name, or NULL. */
bool report_explain(Out *o, const Program *p, const TargetInfo *t, const Forecast *f,
                    const char *name, const char **near);

/* The list with the entry `more` added, after the separator `by`, unless the
 * list has it. */
const char *report_listed(Arena *a, const char *list, const char *more,
                          const char *by);

/* report_options.c. report_options: the reference of clauses and options, as
 * Markdown tables (--list-options). report_json_settings: a part of the JSON. */
void report_options(Out *o);
void report_json_settings(Out *o, const Program *p);
/* The name of an option among these: "train.optimizer.lr"; NULL: none. */
const char *option_json_name(Arena *a, const Option *o);

/* report_experts.c, a part of the plan, of --explain and of the JSON: the buffers of experts on
 * several ranks, in the module `path` and below it. */
void report_experts(Out *o, const Program *p, const char *path);
void report_json_experts(Out *o, const Program *p);
/* report_groups.c, a part of the plan and of the JSON: the groups of ranks that
 * collectives run in. */
void report_groups(Out *o, const Program *p);
/* The groups over one set of axes: "process groups: 2 of 2 ranks: …". */
void report_group(Out *o, const Program *p, uint32_t axes);
void report_json_groups(Out *o, const Program *p);
/* The calls and bytes of collectives, a line for each set of mesh axes, in the
 * order in which the sets first appear. `head`, which fills `width` columns,
 * precedes the first line; `per` is "step" or "run". */
void report_traffic(Out *o, const Program *p, const char *head, int width,
                    const char *per);

/* The same in the JSON. */
void report_json_traffic(Out *o, const Program *p);

/* report_kernels.c, parts of the plan for CUDA. report_matmuls: the products
 * that the library computes, and their epilogues. report_kernels: the bytes
 * that each kernel moves, and the tensors that are passed only from one kernel
 * to another. */
void report_matmuls(Out *o, const Program *p);
void report_kernels(Out *o, const Program *p);

/* report_saved.c, a part of the plan: what the forward pass saves for the
 * backward pass, and what the backward pass recomputes. */
void report_saved(Out *o, const Program *p);

/* report_pipeline.c, a part of the plan and of the JSON: what each stage of the
 * pipeline has, and in which order the ranks work. */
void report_pipeline(Out *o, const Program *p);
void report_json_pipeline(Out *o, const Program *p);
/* What attention exchanges over the axis of a context; nothing without one. */
void report_context(Out *o, const Program *p);
void report_json_context(Out *o, const Program *p);

/* report_time.c, a part of the plan and of the JSON: the time of a step on a machine. */
void report_time(Out *o, const Program *p, const Forecast *f);
/* "812 ms", "93.1 us": three digits. */
const char *report_seconds(Arena *a, double seconds);
void report_json_time(Out *o, const Program *p, const Forecast *f);

/* report_peak.c, a part of the plan: the blocks that are live at the memory
 * peak. */
void report_peak(Out *o, const Program *p);
/* A block of memory, and the value that it was created
 * for: its line of the model ("": none), its module's path and its type (NULL:
 * none). */
typedef struct LiveBlock {
    const Block *block;
    int64_t bytes; /* that a rank counts, at the pipeline's coordinate of the peak */
    Loc loc;
    const char *where;
    const char *path;
    const Type *type;
} LiveBlock;
/* All blocks of the memory plan, in its order. */
const LiveBlock *report_blocks(const Program *p);
/* The *n blocks that are live at the memory peak, largest first. */
const LiveBlock *report_live(const Program *p, int *n);

/* Bytes of the staging buffer of --save-async, per rank: its parameters and
 * optimizer states in f32, without low-precision copies. */
int64_t report_staging(const Program *p);
/* report_optimizer.c. ", weight decay 0.1 of 7 of 12 parameters" */
const char *weight_decay_text(const Program *p);
/* A line for each of the optimizer's groups. */
void report_param_groups(Out *o, const Program *p);
/* "lr times 0.1, no weight decay": the settings of the parameter's group; "":
 * it has those of the optimizer. */
const char *param_group_text(const Program *p, const Param *param);

/* ---- costs that no line asks for (report_warnings.c) ---- */

typedef enum WarningKind { WARN_COLLECTIVE, WARN_REPEATED } WarningKind;

/* A line of a `parallelize` clause: "tp", "layers.*.wo", "RowwiseParallel". */
typedef struct PlanLine {
    const char *axis, *path, *style;
} PlanLine;
typedef VEC(PlanLine) PlanLines;

/* One line of the model. All counts are per step; bytes and flops are those of
 * one rank. */
typedef struct Warning {
    WarningKind kind;
    Loc loc;
    const char *axis;  /* "tp", "dp,tp" */
    int mesh_axis;     /* WARN_REPEATED: the first of them in the mesh */
    const char *what;  /* the first collective's kind; "matmuls" */
    const char *text;  /* the first collective's reason */
    PlanLines hint;    /* lines that make the plan cheaper (hints_find) */
    int tried;         /* plans that hints_find tried for it */
    int ops;           /* ops of the program that the warning is about */
    int64_t calls, bytes;
    double flops;      /* flops of repeated ops */
    double wasted;     /* the part of `flops` that another rank also computes */
    double share;      /* `flops` as a fraction of all that a rank computes */
} Warning;

/* Whether the warning is of this kind and of this line of the model. */
bool warning_is_at(const Warning *w, WarningKind kind, Loc loc);

/* What the lines of all hints together save. */
typedef struct Savings {
    int lines;
    double sent, sent_after;   /* bytes that a rank sends in a step */
    double flops, flops_after; /* of a rank and step */
} Savings;

struct Warnings {
    Warning *at; /* a VEC */
    int n, capacity;
    Savings saved;
};

/* Collectives that no style asks for, and computation that ranks repeat,
 * without hints. p: a program after the pass share_params, or a later one. */
Warnings report_find_warnings(const Program *p);
/* Prints the warnings through p->diag. */
void report_warnings(const Program *p, const Warnings *all);

/* Prints a note through p->diag if the stages of a pipeline work one after another. */
void report_sequence(const Program *p);

/* Prints a note through p->diag if units shard parameters,
 * and a part of the others, at least 5%, is in no unit. */
void report_unsharded(const Program *p);

/* The bytes that a rank sends in one call of a collective (report_groups.c). */
double collective_sent(const CollectiveInfo *c);
/* The bytes of these that leave the rank's node; 0 without --node-size. */
double collective_sent_between(const Program *p, const CollectiveInfo *c);
/* "inside a node", "between nodes", "inside and between nodes"; "" without
 * --node-size. */
const char *collective_link(const Program *p, const CollectiveInfo *c);

/* The bytes of a call: "512.00 MiB"; "in place" if the ranks share the
 * memory. */
const char *report_size(Arena *a, const CollectiveInfo *c);

/* report_side.c, a part of the plan and fields `eval` and `outputs` of the
 * JSON; empty without side programs. */
void report_side(Out *o, const Program *p);
void report_json_side(Out *o, const Program *p);
/* report_streams.c, a part of the plan: what collectives and transfers wait
 * for. */
void report_streams(Out *o, const Program *p, const CollectiveInfo *c, int n);

#endif
