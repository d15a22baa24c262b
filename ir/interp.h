/* interp.h: the reference interpreter.
 *
 * Runs a Program in double precision, slowly and obviously: it is what every
 * pass and all emitted code are measured against. A global program (up to
 * STAGE_PLACED) runs as one; from STAGE_PARTITIONED on it runs as the N ranks
 * of the mesh in lock-step: each op is evaluated for all ranks before the
 * next, and a collective sees the tensors of all of them.
 *
 * Everything goes in and comes out as global tensors in row-major order, the
 * stack first, so that the caller need not know how a program is split. What
 * comes out is assembled: Partial is summed. It is an error when ranks that a
 * type calls Replicate differ in any value of the program, when padding that
 * must be zero is not, and when a collective needs data that its group lacks.
 *
 * The program must not change between interp_new and interp_free.
 */
#ifndef PARC_IR_INTERP_H
#define PARC_IR_INTERP_H

#include "ir/ir.h"

typedef struct Interp Interp;

Interp *interp_new(const Program *p);
void interp_free(Interp *in);

/* Copy type_elements() numbers in: a parameter or state (by its index in
 * Program.param; a copy takes those of its parameter), an input (by its index
 * in Program.input). */
void interp_set_param(Interp *in, int param, const double *global);
void interp_set_input(Interp *in, int input, const double *global);
/* lr, bias1, bias2. */
void interp_set_scalar(Interp *in, const char *name, double value);

/* One step. NULL, or what went wrong, as text that names op and rank. Values
 * that were set stay; interp_set_* may change them between steps. */
const char *interp_run(Interp *in);

/* After a step: the result of output{name}; false where there is none. */
bool interp_output(Interp *in, const char *name, double *value);
/* The parameter's value after the step: as assigned, else as it was set. */
const double *interp_param(Interp *in, int param);
bool interp_assigned(const Interp *in, int param);
/* Any value of the program by its name, as it was computed last (in a loop:
 * in the last turn); NULL where there is none. `type` may be NULL. */
const double *interp_value(Interp *in, const char *name, Type *type);

/* One element of an elementwise op's result, from one of each operand. The op
 * must be elementwise. */
double interp_element(const Op *op, const double *x);

/* ---- watching a run ---- */

/* All ranks' parts of a value as computed last: rank r's *n numbers begin at
 * r * *n. NULL: not computed yet. */
const double *interp_parts(const Interp *in, const Value *v, int64_t *n);
/* The layer of the loop that is being computed. */
int64_t interp_layer(const Interp *in, const Op *loop);
/* Called in front of and behind every op, those of bodies included; a text
 * that it returns ends the run as its error. */
typedef const char *InterpWatch(void *context, Interp *in, const Op *op,
                                bool done);
void interp_watch(Interp *in, InterpWatch *watch, void *context);

#endif
