/* autodiff.h: what the files of the pass autodiff share.
 *
 *   autodiff.c         the walk backward, sums of gradients
 *   autodiff_flow.c    which values get a gradient at all
 *   autodiff_loop.c    loops, and how their bodies reach forward values
 *   autodiff_update.c  gradient norm and parameter updates
 */
#ifndef PARC_PASSES_AUTODIFF_H
#define PARC_PASSES_AUTODIFF_H

#include "passes/gradients.h"
#include "passes/value_map.h"

typedef VEC(Value *) Terms;

typedef struct Autodiff {
    Program *p;
    uint32_t nvalues; /* of the forward program: the tables' length */
    bool *flows;      /* by value id: it depends on a trainable parameter, and
                         the loss on it */
    Terms *terms;     /* by value id: gradients yet to be summed */
    bool trains;      /* some parameter has a gradient */
    Value *loss_scale; /* that all gradients have as a factor; NULL: none */
} Autodiff;

/* One region of the forward program and the region that its backward ops are
 * written to: the step itself, or the bodies of a loop and its mirror. */
typedef struct Frame Frame;
struct Frame {
    Autodiff *a;
    Frame *outer;           /* NULL: the step */
    Op *forward, *backward; /* the loops, where outer is not NULL */
    Build b;
    ValueMap seen; /* how a value of the forward region is read in
                      the backward one */
};

/* Adds d to the gradient of v, fitted to its shape and dtype. */
void autodiff_give(Frame *f, Value *v, Value *d);
/* Calls d after what it is the gradient of, unless it has a name. */
void autodiff_name(Frame *f, Value *d, const Value *of);
/* The sum of what was given to v, or NULL. */
Value *autodiff_collect(Frame *f, Value *v);
/* Writes the backward ops of every op of the region, last first. */
void autodiff_region(Frame *f, Region *r);

/* autodiff_flow.c: Autodiff.flows for this loss. */
bool *autodiff_flow(Program *p, Value *loss);

/* autodiff_loop.c */
void autodiff_loop(Frame *f, Op *loop);
Value *autodiff_use(Frame *f, Value *v);
/* Whether v is nothing but a parameter, or one layer of it. */
bool autodiff_is_param(const Value *v);

/* autodiff_update.c: gradients to new parameters. */
void autodiff_update(Frame *f);

#endif
