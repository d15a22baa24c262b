/* flow.h: the classes of a model's dims, for the files of autoplan. */
#ifndef PARC_AUTOPLAN_FLOW_H
#define PARC_AUTOPLAN_FLOW_H

#include <string.h>

#include "autoplan/autoplan.h"
#include "ir/analysis/uses.h"
#include "ir/rules/dim_classes.h"

/* A forward op that contracts a weight, or one for each expert, or looks up its rows. */
typedef struct FlowWeight {
    const Op *op;
    int param, operand;   /* of the op, which is the weight */
    int in, out;          /* the classes of the weight's inputs and outputs */
    const char *path;     /* of the module whose only weight it is, and whose output is the
                           * op's; NULL: there is none, and a line names the parameter */
} FlowWeight;

/* A class of dims that the tensor axis can split. */
typedef struct SplitClass {
    int id;          /* DimClasses */
    double bytes;    /* that ranks add or exchange in a step, were it split */
    double elements; /* of its weights */
    bool experts;    /* it splits each expert, and no other weight */
    VEC(int) weight; /* indices into Flow.weight */
} SplitClass;

/* The ops `boundary` of a module, in order. */
typedef VEC(const Op *) ModulePorts;

struct Flow {
    Arena *arena;
    const Program *p;
    Uses uses;
    ModulePorts *port;    /* by module */
    DimClasses dims;
    bool *blocked;        /* by class: an op needs a dim of it unsplit */
    VEC(FlowWeight) weight;
    VEC(SplitClass) split; /* those to split, the best first; no two share a weight */
    bool *sequence;       /* by class: sequence parallelism splits it */
    VEC(const char *) experts; /* paths of the modules with experts; "": the model */
};

static inline int flow_class(const Flow *f, const Value *v, int d)
{
    return dim_class(&f->dims, dim_of_value(v, d));
}

/* Whether a line of a plan can name the module; there `model` is the whole model. */
static inline bool flow_can_name(const char *path)
{
    return *path && strcmp(path, "model") != 0;
}

/* Finds all of the flow but Flow.sequence. */
void flow_find_classes(Flow *f);
/* The index of a class in Flow.split; -1: it is not to be split. */
int flow_split_of(const Flow *f, int id);
/* Whether a draft splits the class. */
static inline bool draft_splits(const Flow *f, const PlanDraft *d, int id)
{
    int i = flow_split_of(f, id);
    return i >= 0 && !(d->whole >> i & 1) && !(d->experts.tensor && f->split.at[i].experts);
}
/* The dim of a parameter that a draft splits; -1: none. */
int flow_split_dim(const Flow *f, const PlanDraft *d, int param);

/* ---- sequence.c ---------------------------------------------------------- */

/* Finds Flow.sequence. */
void flow_find_sequence(Flow *f);
/* The dim of v that sequence parallelism splits; -1: none, or the draft splits another dim
 * of v. */
int flow_sequence_dim(const Flow *f, const PlanDraft *d, const Value *v);
/* The outermost module through whose port a column-split op reads v, if all that reads the
 * port are such ops: the op `boundary`. NULL: none. */
const Op *flow_entry(const Flow *f, const PlanDraft *d, const FlowWeight *w);

/* ---- styles.c, units.c --------------------------------------------------- */

/* A line of a clause: "layers.*.attention.wq", "ColwiseParallel". */
typedef struct DraftLine {
    const char *path, *style;
} DraftLine;
typedef VEC(DraftLine) DraftLines;
DraftLines flow_style_lines(const Flow *f, const PlanDraft *d);

/* The units, as PDL: "layers.*", "[norm, output]". */
typedef VEC(const char *) UnitTexts;
UnitTexts flow_units(const Flow *f);

#endif
