/* autodiff_check.h: builds small programs and compares their gradients with
 * finite differences.
 */
#ifndef PARC_TESTS_UNIT_AUTODIFF_CHECK_H
#define PARC_TESTS_UNIT_AUTODIFF_CHECK_H

#include "tests/interp/interp.h"
#include "ir/ir.h"
#include "passes/pass.h"

/* A program under construction; `b` appends forward ops to its step. */
typedef struct Small {
    Arena *arena;
    Program *p;
    Build b;
} Small;

Small small_new(void);
void small_free(Small *s);

/* A parameter of that shape; with `stack` > 0 a stack of `stack` of them. */
Value *small_param(Small *s, const char *name, bool trainable, int stack,
                   int ndim, const int64_t *dim);
/* An input of integers below `below`. */
Value *small_ids(Small *s, const char *name, int64_t below, int ndim,
                 const int64_t *dim);
#define DIMS(...)                                                              \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])     \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

/* Sets the loss: the sum of y, weighted by a fixed tensor. */
void small_loss(Small *s, Value *y);

/* Sets deterministic numbers; parameters are in 0.3 … 1.7. */
void small_values(Interp *in, const Program *p);

/* Runs autodiff on s->p and compares the gradient of every trainable
 * parameter with central differences of the loss. NULL, or the mismatch. */
const char *small_check_gradients(Small *s);

/* Runs both programs and compares loss, norm, parameters and states. */
const char *small_compare(Arena *a, const Program *x, const Program *y);

/* Counts the ops of a kind, those of loop bodies included. */
int small_count(const Program *p, OpKind kind);

#endif
