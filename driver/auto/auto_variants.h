/* auto_variants.h: the candidates of --plan auto: variants of the plan that is written from
 * a draft (autoplan/autoplan.h), and plans of the file.
 *
 *   draft       tensor and sequence parallelism with FSDP
 *   neighbors   without sequence parallelism; without splitting output; experts over dp;
 *               strategy=shard_grad_op; -D recompute=fused; -D async_tp=2; …
 */
#ifndef PARC_DRIVER_AUTO_VARIANTS_H
#define PARC_DRIVER_AUTO_VARIANTS_H

#include "autoplan/autoplan.h"
#include "driver/auto/auto_axes.h"
#include "driver/auto/auto_choice.h"
#include "driver/auto/auto_plan.h"

/* A variant of the plan. */
typedef struct Variant {
    PlanDraft draft;
    const char *own;      /* it is this plan of the file; NULL: it is written from the draft */
    const char *text;     /* the plan block */
} Variant;

struct AutoPlan {
    Arena *arena;
    const Options *o;
    Diag *diag;
    const Flow *flow;
    PlanAxes axes;
    const File *given; /* with its own plans */
    bool recompute_given, async_tp_given; /* by the file or by -D */
};

/* The state of one choice. */
typedef struct Search {
    const AutoPlan *plan;
    Choice c;
    VEC(Variant) variant; /* of c.candidate */
} Search;

/* The name of the plan that is written, and of --plan: "auto". */
extern const char variant_plan_name[];

/* The file with this plan as its only one; NULL: without plans. */
const File *variant_file(Arena *a, const File *from, PlanDecl *plan);
/* The same with the plan of this text, which has no syntax errors. */
const File *variant_file_of_text(Arena *a, Diag *d, const File *from, const char *text);
/* The draft at which the search begins: the axis `ep`, or else the tensor axis, splits
 * experts. */
PlanDraft variant_base_draft(const AutoPlan *plan);
/* Whether the texts are equal; NULL is "". */
bool variant_same_text(const char *x, const char *y);

/* Replaces the one of the same option, or adds it. */
void variant_add_define(Defines *to, const char *text);
/* "-D async_tp=2 -D recompute=fused". */
const char *variant_defines_text(Arena *a, const Defines *d);
/* Whether candidate i has -D async_tp=…. */
bool variant_has_async_tp(const Search *s, int i);

/* Each adds candidates to s->c.candidate, unless the same program is one already; at most
 * choice_most(&s->c). */

/* The plan of a draft on a mesh, with further -D options. */
void variant_add_draft(Search *s, PlanDraft draft, Defines define, const char *mesh);
/* The plans of the file that have the same axes. */
void variant_add_own(Search *s);
/* The draft with experts over other axes, but for those that no candidate on this mesh could
 * split them over. */
void variant_add_experts(Search *s, PlanDraft draft, Defines define, const char *mesh);
/* The drafts that differ from that of candidate `at` in one respect. */
void variant_add_neighbors(Search *s, int at);

#endif
