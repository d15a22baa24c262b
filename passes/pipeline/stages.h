/* stages.h: declares what the files of the pass `stages` share.
 *
 *   stages.c        places values on the coordinates of the pipeline
 *   stage_loop.c    places the values of a loop that is cut into stages
 *   stage_values.c  converts values between coordinates, finds the stage of an op
 *   stage_split.c   divides the forward pass into stages
 *
 * timetable.h has the order of the work.
 */
#ifndef PARC_PASSES_PIPELINE_STAGES_H
#define PARC_PASSES_PIPELINE_STAGES_H

#include "passes/pass.h"

typedef struct Copy {
    Value *value;
    int stage;
} Copy;

/* A value outside of loops that are cut. */
typedef struct Known {
    int stage; /* that has it; EVERYWHERE */
    VEC(Copy) copy; /* on other stages */
} Known;
enum { EVERYWHERE = -1 };

typedef struct Stages {
    Program *p;
    int axis;      /* of the pipeline */
    int nstages;
    int *stage_of; /* by op id, of forward ops of the step: their stage */
    int *cut_of;   /* by op id, of its loops: the cut's number; 0: none */
    bool *of_state; /* by op id: computes the new value of a module's state at the end
                     * of the step */
    uint32_t nops; /* the length of the three */
    VEC(Known) known; /* by value id */
} Stages;

/* stage_split.c: fills in stage_of, cut_of and the cuts of the mesh, as
 * PlanSpec.pipeline.split says, which it decides if the user did not. False: the
 * split is not possible, which is reported. */
bool stages_split(Stages *s);

/* ---- stage_values.c ------------------------------------------------------ */

Known *stages_known(Stages *s, const Value *v);
static inline AxisPlace stages_place(const Stages *s, const Value *v)
{
    return v->type.place.ax[s->axis];
}
/* The placement of what a stage has. */
AxisPlace stages_at(int stage);
/* Places v, which an op of the stage makes; v of a loop, or of its body. */
void stages_put(Stages *s, Value *v, int stage);
void stages_put_at(Stages *s, Value *v, AxisPlace at);
/* Whether the stage has v, or a copy of it. */
bool stages_has(Stages *s, const Value *v, int stage);
/* Records that the stage has `copy`, equal to v. */
void stages_add_copy(Stages *s, const Value *v, Value *copy, int stage);
/* v converted on the pipeline's axis; at the end of the region if `before` is
 * NULL. */
Value *stages_convert(Stages *s, OpKind kind, Value *v, AxisPlace to,
                      const char *why, Region *r, Op *before);
/* v on the stage, at a place of one coordinate, Partial, Replicate; converted
 * before the op, a top-level one, where it is not. */
Value *stages_move(Stages *s, Value *v, int stage, Op *before);
Value *stages_to(Stages *s, Value *v, AxisPlace at, Op *before);
Value *stages_partial(Stages *s, Value *v, Op *before);
Value *stages_replicate(Stages *s, Value *v, Op *before);

/* Whether one stage has v. */
static inline bool stages_held(const Stages *s, const Value *v)
{
    return stages_place(s, v).kind == AX_AT;
}
/* The stage that runs a top-level op, by the places of its operands; EVERYWHERE:
 * all ranks run it. */
int stages_choose(Stages *s, const Op *op);

/* ---- stage_loop.c -------------------------------------------------------- */

/* Places the operands, the body and the results of a loop of the step. */
void stages_loop(Stages *s, Op *loop);

#endif
