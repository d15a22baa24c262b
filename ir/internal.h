/* internal.h: declares what only files of ir/ use: construction of ops without
 * checks. */
#ifndef PARC_IR_INTERNAL_H
#define PARC_IR_INTERNAL_H

#include "ir/ir.h"

/* Ends the compilation with an error at `loc` if the type of a new value is too
 * large: one layer of the user's model may be legal, but not all layers. */
void ir_check_size(Program *p, const Type *t, Loc loc);

/* A value with exactly this name that no op defines yet. */
Value *ir_raw_value(Program *p, const char *name, Type t, Loc loc);
/* An op with space for operands and results, not in a region yet. */
Op *ir_raw_op(Program *p, OpKind kind, int nargs, int nouts);
/* Makes v result i of op, or argument i of r. A value without a location gets
 * that of the op, as in a dump. */
void ir_set_out(Op *op, int i, Value *v);
Region *ir_raw_region(Program *p, Op *owner, int nargs);
void ir_set_region_arg(Region *r, int i, Value *v);

/* host.c: checks which memory the op's operands are in. NULL, or the error. */
const char *verify_host(const Program *p, const Op *op);

#endif
