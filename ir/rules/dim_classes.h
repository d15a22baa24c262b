/* dim_classes.h: groups the dims of values that belong together.
 *
 * A class is a set of dims. The caller joins the dims that the rule of an op connects, as
 * its purpose asks; dims that the structure connects are joined here: those of a loop's
 * operands, arguments, yields and results, of a parameter and its update.
 *
 *   %y = loop { carry %x = %v … yield %z }     dim d of %v, %x, %z and %y are one class
 *
 * Dims are numbered: value by value, then the parameters that no op `param` reads. A class
 * is identified by its lowest number, so that the classes do not depend on the order of
 * the joins.
 */
#ifndef PARC_IR_RULES_DIM_CLASSES_H
#define PARC_IR_RULES_DIM_CLASSES_H

#include "ir/rules/rules.h"

typedef struct DimClasses {
    const Program *p;
    uint32_t nvalues; /* when the classes were made */
    int n;            /* dims */
    int *parent;      /* by dim: itself, or a lower one of its class */
} DimClasses;

/* Every dim is a class of its own. */
void dim_classes_begin(DimClasses *c, Arena *a, const Program *p);

/* The number of dim d of a value that existed at the beginning, or of a parameter. */
int dim_of_value(const Value *v, int d);
int dim_of_param(const DimClasses *c, int param, int d);

/* The class of a dim. */
int dim_class(const DimClasses *c, int dim);
/* Makes the classes of two dims one, and returns it. */
int dim_classes_join(DimClasses *c, int a, int b);

/* Joins the dims that an op without a rule connects; false: it connects none. */
bool dim_classes_join_structure(DimClasses *c, const Op *op);

/* Operand or result `i` of an op, as the op's rule numbers them. */
static inline const Value *rule_tensor(const Op *op, const Rule *r, int i)
{
    return i < r->nargs ? op->arg[i] : op->out[i - r->nargs];
}

#endif
