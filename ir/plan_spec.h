/* plan_spec.h: holds the user's plan, resolved to mesh axes.
 *
 * The frontend builds it and resolves its patterns once: a style has the exact
 * path of a module or parameter ("layers.*.attention", "" is the model), and
 * items.h and styles.h attach items and styles to parameters, modules and
 * boundaries, where passes read them. The paths of units and checkpoints are
 * the user's patterns (path.h), for messages. The plan is part of a Program, so
 * that a run can resume from a dump with --start-after.
 */
#ifndef PARC_IR_PLAN_SPEC_H
#define PARC_IR_PLAN_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"

typedef enum LayoutKind {
    LAYOUT_NONE, /* not given: no constraint */
    LAYOUT_REPLICATE,
    LAYOUT_SHARD,
    LAYOUT_PARTIAL,
} LayoutKind;
typedef struct Layout {
    LayoutKind kind;
    int dim; /* LAYOUT_SHARD: negative counts from the last dim */
} Layout;

typedef enum StyleKind {
    STYLE_COLWISE,
    STYLE_ROWWISE,
    STYLE_SEQUENCE,
    STYLE_PREPARE_INPUT,
    STYLE_PREPARE_OUTPUT,
    STYLE_PREPARE_INPUT_OUTPUT,
    STYLE_PARAMETER, /* `path` is a parameter's, in_to[0] its placement */
    STYLE_KINDS,
} StyleKind;
/* The sides of a module whose layouts a style gives. */
enum { STYLE_INPUTS = 1, STYLE_OUTPUTS = 2 };

enum { MAX_PORTS = 8 };
/* The largest prefetch distance of a unit. */
enum { MAX_PREFETCH = 16 };

/* One line of a `parallelize` clause. The frontend fills in PyTorch's defaults
 * for layouts that the user omitted:
 *   Colwise   input R -> R, output S(-1);  Rowwise input S(-1) -> S(-1),
 *   output P -> R;  Sequence S(1) -> S(1) on both sides;  Prepare* as given.
 * A Rowwise Embedding's input defaults to R. A pair is (arrives as, becomes):
 * the boundary converts a forward value from the first to the second, and its
 * gradient in reverse (the dual of Partial is Replicate). */
typedef struct Style {
    StyleKind kind;
    const char *path;
    int axis; /* index of the mesh axis */
    bool whole; /* Colwise: all ranks of this axis have the same weight (pass
                 * split_kv_axis) */
    int nin, nout;
    Layout in_from[MAX_PORTS], in_to[MAX_PORTS];
    Layout out_from[MAX_PORTS], out_to[MAX_PORTS];
    Loc loc;  /* where the plan names the style */
} Style;

/* FSDP's names of what a rank stores. */
typedef enum Strategy {
    STRATEGY_NONE,          /* the user did not say: it follows from the axes */
    STRATEGY_FULL_SHARD,    /* sharded over all axes */
    STRATEGY_SHARD_GRAD_OP, /* the same, not re-gathered for the backward pass */
    STRATEGY_NO_SHARD,      /* full parameters on every rank */
    STRATEGY_HYBRID_SHARD,  /* replicated over the first of two axes */
} Strategy;

/* How often a unit is gathered, or its gradients are reduced. */
typedef enum HowOften { PER_MICROBATCH, PER_STEP } HowOften;

/* For the items that do not say it; parc chooses them so that a plan fits the memory. */
typedef struct PlanDefaults {
    HowOften gather, reduce; /* of units, in a plan with a pipeline */
    bool overlap;            /* of units and of experts */
} PlanDefaults;

typedef enum UnitKind { UNIT_PATHS, UNIT_EVERY, UNIT_MIN_PARAMS } UnitKind;

/* One item of a `fully_shard` clause. */
typedef struct Unit {
    UnitKind kind;
    const char *const *path; /* UNIT_PATHS: joined into one unit */
    int npaths;
    const char *class;       /* UNIT_EVERY */
    int64_t min_params;      /* UNIT_MIN_PARAMS */
    uint32_t axes;           /* parameters are sharded over these axes, as over
                              * one */
    int replicate_axis;      /* -1, or the outer axis of hybrid sharding */
    Strategy strategy;
    int reshard;             /* 1: re-gathered for the backward pass, 0: not,
                              * -1: the user did not say */
    int prefetch;            /* -1: the user did not say */
    HowOften gather, reduce;
    bool overlap;            /* reduced gradients are converted and accumulated while the next
                              * layers compute */
    Loc loc;
} Unit;

/* The ops whose results `keep=` of a checkpoint item saves: bit k is word k of
 * the option (options.h). */
typedef enum Keep {
    KEEP_ATTENTION = 1, /* attention's result and row log-sums */
    KEEP_MATMUL = 2,    /* results of contractions */
    KEEP_ALL_TO_ALL = 4, /* results of all-to-alls */
} Keep;

/* One item of a `checkpoint` clause: ops of the modules that it names are
 * recomputed for the backward pass, from the modules' inputs. Several paths in
 * brackets are one stretch: only its inputs are saved. */
typedef struct Checkpoint {
    const char *const *path;
    int npaths;
    const char *class; /* `every Class`: then there are no paths */
    int every;         /* recomputes elements 0, every, 2 every, … of an array */
    uint32_t keep;     /* bits of Keep */
    Loc loc;
} Checkpoint;

/* The tensors that the `offload` clause stores in host memory: bit k is word k
 * of the option (options.h). */
typedef enum Offload {
    OFFLOAD_OPTIMIZER = 1,  /* optimizer states */
    OFFLOAD_PARAMETERS = 2, /* parameters, or a rank's shards of them */
    MAX_OFFLOADS = 2,       /* the number of bits */
} Offload;

/* The order in which the ranks of a pipeline process microbatches. */
typedef enum PipelineSchedule {
    PIPELINE_GPIPE,       /* all forward, then all backward */
    PIPELINE_1F1B,        /* one forward, one backward, as soon as possible */
    PIPELINE_INTERLEAVED, /* the same, with several stages on each rank */
    PIPELINE_ZERO_BUBBLE, /* the gradients of weights fill what would be idle */
} PipelineSchedule;

/* The modules of a stage, which `split` names: "layers.0-15". */
typedef struct StagePaths {
    const char *const *path;
    int npaths;
    Loc loc;
} StagePaths;

/* The clause `pipeline`. Stage s runs on coordinate s mod the axis's size. */
typedef struct Pipeline {
    uint32_t axes;  /* its axis, as a bit mask; 0: there is no pipeline */
    PipelineSchedule schedule;
    int64_t stages_per_rank; /* 0: not given */
    StagePaths *split; /* by stage; nsplit 0: the pass `stages` decides it */
    int nsplit;
    Loc loc;
} Pipeline;
/* The stages of each rank, as given or as the schedule has by default. */
static inline int64_t pipeline_stages_per_rank(const Pipeline *p)
{
    bool several = p->schedule == PIPELINE_INTERLEAVED;
    return p->stages_per_rank ? p->stages_per_rank : several ? 2 : 1;
}

/* What attention exchanges between ranks that have parts of each sequence. */
typedef enum Exchange {
    EXCHANGE_AUTO,  /* not given: the pass plan chooses one of the others */
    EXCHANGE_HEADS, /* queries, keys, values and results: a rank attends with whole
                     * sequences, for its part of the heads */
    EXCHANGE_GATHER, /* keys and values: it attends with its queries to all keys */
    EXCHANGE_RING,   /* keys and values, part by part: it passes on those that it has */
} Exchange;

/* The clause `context`: its axis splits dim 1 of every input, the sequence. */
typedef struct Context {
    uint32_t axes; /* its axis, as a bit mask; 0: no sequence is split */
    Exchange exchange;
    const char *chosen; /* why parc has chosen it; NULL: it is given */
    Loc loc;
} Context;

/* How tokens reach experts on other ranks. */
typedef enum Dispatch {
    DISPATCH_GATHER,     /* tokens are gathered; results are reduced and scattered */
    DISPATCH_ALL_TO_ALL, /* rows of tokens go to the ranks of their experts, and back */
    DISPATCH_BY_BYTES,   /* not given: lowering chooses */
} Dispatch;

/* An item of the clause `expert_parallel`. */
typedef struct ExpertItem {
    const char *const *path; /* the modules that it names and that call their experts */
    int npaths;
    Dispatch dispatch;
    double buffer; /* rows of a shard, as a multiple of those of balanced experts; 0: as
                    * many as it can need */
    bool overlap;  /* ops are ordered so that exchanges run beside other work */
    Loc loc;
} ExpertItem;

/* The clause: its axes, major first, split the experts of the items' modules. */
typedef struct Experts {
    uint32_t axes; /* 0: every rank has all experts */
    ExpertItem *item;
    int nitems;
} Experts;

typedef struct PlanSpec {
    const char *name;      /* "" for the plan that parc supplies by default */
    uint32_t tensor_axes;  /* bit mask of the axes that `parallelize` or
                            * `pipeline` names; all others split the batch */
    Style *style;
    int nstyles;
    Unit *unit;
    int nunits;
    Checkpoint *checkpoint;
    int ncheckpoints;
    uint32_t offload; /* bits of Offload */
    Loc offload_loc;
    Pipeline pipeline;
    Context context;
    Experts experts;
    Loc node_loc;     /* --node-size, on the command line */
    Loc loc;
} PlanSpec;

#endif
