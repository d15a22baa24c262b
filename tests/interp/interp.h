/* interp.h: the reference interpreter.
 *
 * Runs a Program in double precision with the simplest possible code: passes
 * and emitted code are compared with it. A global program (up to STAGE_PLACED)
 * runs on one rank; from STAGE_PARTITIONED on it runs on the N ranks of the
 * mesh in lock-step: each op is evaluated for all ranks before the next, and a
 * collective has the tensors of all of them.
 *
 * Inputs and outputs are global tensors in row-major order, stack dims first,
 * so that the caller need not know how a program is split. Outputs are
 * assembled: Partial is summed. It is an error if a Replicate value differs
 * between ranks, if padding that must be zero is not, or if a collective needs
 * data that its group does not have.
 *
 * The program must not change between interp_new and interp_free.
 */
#ifndef PARC_IR_INTERP_INTERP_H
#define PARC_IR_INTERP_INTERP_H

#include "ir/ir.h"

typedef struct Interp Interp;

Interp *interp_new(const Program *p);
void interp_free(Interp *in);

/* Set type_elements() numbers: a parameter or state (by its index in
 * Program.param; a low-precision copy gets its parameter's), an input (by its
 * index in Program.input). */
void interp_set_param(Interp *in, int param, const double *global);
void interp_set_input(Interp *in, int input, const double *global);
/* A scalar of the step: lr, bias1, bias2, …; interp_new sets `clip`. */
void interp_set_scalar(Interp *in, const char *name, double value);

/* Runs one step. NULL, or an error that names op and rank. Values that were set
 * remain; interp_set_* may change them between steps. */
const char *interp_run(Interp *in);

/* After a step: the value of output{name}; false if there is none. */
bool interp_output(Interp *in, const char *name, double *value);
/* The parameter's value after the step: assigned or as set. */
const double *interp_param(Interp *in, int param);
bool interp_assigned(const Interp *in, int param);
/* A value of the program by name, as computed last (in a loop: in the last
 * iteration); NULL if there is none. `type` may be NULL. */
const double *interp_value(Interp *in, const char *name, Type *type);

/* ---- observing a run ---- */

/* All ranks' parts of a value as computed last: rank r's *n numbers begin at r
 * * *n. NULL: not computed yet. */
double *interp_parts(const Interp *in, const Value *v, int64_t *n);
/* The layer of the loop that is being executed. */
int64_t interp_layer(const Interp *in, const Op *loop);
/* Called before and after every op, also in bodies; a text that it returns ends
 * the run with this error. */
typedef const char *InterpWatch(void *context, Interp *in, const Op *op,
                                bool done);
void interp_watch(Interp *in, InterpWatch *watch, void *context);

#endif
