/* readers.h: finds the readers (consumers) of values and compares the positions
 * of ops, for passes that rewrite one op at a time.
 *
 * Unlike the index of uses.h, this one follows the changes: a pass enters each
 * op that it inserts or moves, and replaces values here. Without it a search
 * of the region for each op makes a pass quadratic.
 *
 *   Readers *r = readers_new(p);
 *   Op *made = ir_op(&b, …);
 *   readers_enter(r, made);
 *   readers_replace(r, op->out[0], made->out[0]);
 *   ir_remove(op);
 */
#ifndef PARC_IR_ANALYSIS_READERS_H
#define PARC_IR_ANALYSIS_READERS_H

#include "ir/ir.h"

typedef struct Readers Readers;

/* O(operands of the program). */
Readers *readers_new(Program *p);

/* Records the operands and the position of an op that was inserted or moved.
 * All ops before and after it in its region must be recorded. */
void readers_enter(Readers *r, Op *op);

/* The ops that read v, in order, each once; *n: their number. Valid until the
 * next change. */
Op *const *readers_of(Readers *r, const Value *v, int *n);

/* The number of reads of v by operands and yields. */
int readers_count(Readers *r, const Value *v);

/* Replaces all uses of `old`. O(uses), and O(yields) if the region yields it. */
void readers_replace(Readers *r, const Value *old, Value *with);

/* Whether a comes before b, an op of the same region. */
bool readers_precedes(const Readers *r, const Op *a, const Op *b);

#endif
