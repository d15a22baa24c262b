/* autoplan.h: writes a plan block for a model that has none, for --plan auto.
 *
 * Which dims of a model can be split, and what ranks then exchange, follows from the ops'
 * sharding rules (ir/rules). Dims that a rule connects are one class. Splitting a class
 * over the tensor axis splits the weights that have a dim in it: one whose outputs are in
 * the class by columns, one whose inputs are in it by rows. A sum over the class is a
 * partial result, which ranks add.
 *
 *   hidden:  w1, w3 columns, w2 rows      ranks add the result of w2, and in the backward
 *                                         pass the gradient of what w1 and w3 read
 *   dim:     wo and w2 columns, the       ranks add the results of wq, wk, wv, w1, w3 …
 *            others rows
 *
 * Classes that share a weight exclude each other. Those that exchange the fewest bytes for
 * each element of their weights are split, the others are not.
 *
 * A draft says which axes split the experts of a mixture. If the tensor axis does, it does
 * not split each expert too.
 *
 *   before   module FeedForward … w1, w2, w3
 *   after    layers.*.ffn_norm:        SequenceParallel
 *            layers.*.feed_forward:    PrepareModuleInput(Shard(1) -> Replicate)
 *            layers.*.feed_forward.w1: ColwiseParallel
 *            layers.*.feed_forward.w2: RowwiseParallel(output=Shard(1))
 *            layers.*.feed_forward.w3: ColwiseParallel
 *
 * flow.c     the classes of dims and their weights
 * styles.c   the lines of `parallelize`
 * sequence.c which dims sequence parallelism splits, and where they become whole
 * units.c    the units of `fully_shard`
 * autoplan.c the plan block
 */
#ifndef PARC_AUTOPLAN_AUTOPLAN_H
#define PARC_AUTOPLAN_AUTOPLAN_H

#include "ir/ir.h"

enum { MAX_DATA_AXES = 2, MAX_DRAFT_CLAUSES = 2, MAX_SPLIT_CLASSES = 64 };

/* The axes of a plan, by what they split. */
typedef struct PlanAxes {
    int n;
    const char *name[MAX_MESH_AXES]; /* in the order of the mesh */
    int ndata;
    const char *data[MAX_DATA_AXES]; /* the batch; of two the first one replicates */
    const char *tensor, *stages;     /* NULL: none */
    int experts;                     /* data axis that is for experts; -1: none */
} PlanAxes;

typedef struct Flow Flow;

/* The flow of a model that was lowered without a plan, before any pass. */
Flow *autoplan_flow(Arena *a, const Program *p);

/* The number of the classes that a plan splits unless its draft says otherwise, the best
 * first; the modules, or parameters, of class i as text: "mlp.up, mlp.down". */
int autoplan_classes(const Flow *f);
const char *autoplan_class_text(const Flow *f, int i);
/* Whether sequence parallelism has anything to split. */
bool autoplan_has_sequence(const Flow *f);
/* Whether the model has modules with experts. */
bool autoplan_has_experts(const Flow *f);

/* The axes that split experts; none: each rank has all experts, or parts of them. */
typedef struct ExpertAxes {
    uint32_t data; /* bit i: PlanAxes.data[i] */
    bool tensor;
} ExpertAxes;

/* The axes in the order of the mesh: "tp", "(dp, tp)"; "": none. */
const char *autoplan_expert_axes(const Flow *f, const PlanAxes *axes, ExpertAxes experts);

/* What varies between the plans of a model. */
typedef struct PlanDraft {
    uint64_t whole;       /* bit i, below MAX_SPLIT_CLASSES: class i is not split */
    bool sequence;        /* activations between split modules are split by sequence */
    ExpertAxes experts;
    Dispatch dispatch;    /* of all experts */
    Strategy strategy;    /* of all units; STRATEGY_NONE: they do not say it */
    PipelineSchedule schedule;
    const char *clause[MAX_DRAFT_CLAUSES]; /* further ones: "checkpoint { layers.* }"; the
                                            * first NULL ends them */
} PlanDraft;

/* The plan block with this name, as PDL. */
const char *autoplan_text(const Flow *f, const PlanAxes *axes, const char *name,
                          const PlanDraft *draft);

#endif
