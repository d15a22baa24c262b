/* autodiff.h: declarations that the files of the pass autodiff share.
 *
 *   autodiff.c         walks over the program
 *   autodiff_values.c  sums gradient terms, saves forward values
 *   autodiff_flow.c    finds the values that have a gradient
 *   autodiff_loop.c    builds backward loops
 *   autodiff_update.c  builds gradient norm and parameter updates
 */
#ifndef PARC_PASSES_AUTODIFF_AUTODIFF_H
#define PARC_PASSES_AUTODIFF_AUTODIFF_H

#include "passes/autodiff/gradients.h"
#include "passes/value_map.h"

typedef VEC(Value *) Terms;

typedef struct Autodiff {
    Program *p;
    uint32_t nvalues; /* values of the forward program: length of the tables */
    bool *flows;      /* by value id: it depends on a trainable parameter, and
                       * the loss depends on it */
    Terms *terms;     /* by value id: gradient terms that are not summed yet */
    bool trains;      /* some parameter has a gradient */
    Value *loss_scale; /* a factor of all gradients; NULL: none */
} Autodiff;

/* One region of the forward program and the region that its backward ops are
 * added to: the step itself, or the bodies of a loop and its backward loop. */
typedef struct Frame Frame;
struct Frame {
    Autodiff *a;
    Frame *outer;           /* NULL: the step */
    Op *forward, *backward; /* the loops, where outer is not NULL */
    Build b;
    ValueMap seen; /* forward value → its value in the backward region */
};

/* autodiff_values.c: adds d, converted to the shape and dtype of v, to the gradient terms of v. */
void autodiff_give(Frame *f, Value *v, Value *d);
/* Names d "d" + the name of `of`, unless d has a name. */
void autodiff_name(Frame *f, Value *d, const Value *of);
/* The sum of the gradient terms of v, or NULL. */
Value *autodiff_collect(Frame *f, Value *v);
/* The value of the backward region that holds forward value v: saved, passed
 * on or recomputed. */
Value *autodiff_use(Frame *f, Value *v);

/* autodiff.c: builds the backward ops of every op of the region, last op first. */
void autodiff_region(Frame *f, Region *r);

/* autodiff_flow.c: computes Autodiff.flows for this loss. */
bool *autodiff_flow(Program *p, Value *loss);

/* autodiff_loop.c */
void autodiff_loop(Frame *f, Op *loop);

/* optimizer_layers.c, for the pass optimizer: moves the ops from `first` up to
 * `end` (excluded; NULL: all that follow) whose results are stacks into loops
 * over the layers. */
void optimizer_by_layers(Program *p, Op *first, Op *end);

/* optimizer_muon.c, for the pass optimizer: computes the direction of Muon's
 * update of a parameter from the operand of `copy`, and replaces the copy. */
void optimizer_direction(Program *p, Op *copy, int param);

/* optimizer_adafactor.c, for the pass optimizer: an update of Adafactor whose ops are built
 * once each layer has its own. The copies are replaced: of the parameter; of its states, NULL:
 * it has only one; of the gradient, by the update's direction times its rate. */
typedef struct Factored {
    int param;
    Op *weight, *row, *column, *gradient;
    Value *rate;  /* f32[]: the largest relative step */
    Value *share; /* f32[]: by which the means move */
} Factored;
void optimizer_factored(Program *p, const Factored *f);

/* optimizer_parts.c, for optimizers that read complete matrices. optimizer_constant: a number
 * in the region of `at`. optimizer_gather_runs: x, whole on the axes that split it into flat
 * runs; dims stay split. optimizer_whole: x, split or Partial, whole on all ranks.
 * optimizer_split_like: of a replicated x each rank's part of the dims that it shares with
 * `like`, which may be of size 1. optimizer_take_part: a rank's part of x, placed as `like`. */
Value *optimizer_scale(Build *b, Value *x, double by);
Value *optimizer_constant(Program *p, const Op *at, double x);
Value *optimizer_gather_runs(Build *b, Value *x, Why why);
Value *optimizer_whole(Build *b, Value *x, Why why);
Value *optimizer_split_like(Build *b, Value *x, const Type *like, Why why);
Value *optimizer_take_part(Build *b, Value *x, const Type *like, Why why);

/* optimizer_norm.c, for the pass optimizer: a loop over the layers sums the
 * squares of gradients of which the stages of a pipeline have layers. */
void optimizer_norm(Program *p);

/* optimizer_states.c, for the pass optimizer: loops over layers update the states of
 * modules where a kernel cannot compute all layers. */
void optimizer_states(Program *p);

/* autodiff_update.c: builds norm, updates and assignments. */
void autodiff_update(Frame *f);

#endif
