/* pad.h: the parts of the pass pad. */
#ifndef PARC_PASSES_PAD_H
#define PARC_PASSES_PAD_H

#include "passes/value_map.h"

/* ---- pad_classes.c: dims that are one and the same ----------------------- */

/* Why a class of dims keeps its size. */
typedef struct PadBlock {
    const char *why; /* NULL: nothing stands against padding it */
    Loc loc;
} PadBlock;

typedef struct PadClass {
    int64_t size;    /* 0 while no dim has been seen */
    int64_t parts;   /* that styles want to cut it into evenly */
    int64_t padded;  /* what its size becomes */
    PadBlock block;
} PadClass;

/* Classes are numbered by one of their dims. */
typedef struct PadClasses {
    Program *p;
    uint32_t nvalues;
    int *parent;
    PadClass *of;   /* by number */
    ValueMap like;  /* masked values, from what they are made */
} PadClasses;

PadClasses *pad_classes(Program *p);
/* The class of dim d of a value, or of a parameter. Of values that came later
 * only those have one that were entered in `like`. */
PadClass *pad_class(const PadClasses *c, const Value *v, int d);
PadClass *pad_param_class(const PadClasses *c, int param, int d);
/* The valid size of dim d of v where that is padded; else 0. */
int64_t pad_valid(const PadClasses *c, const Value *v, int d);

/* ---- pad_fill.c: what stands in the padding ------------------------------ */

/* From a promise to none; what more is known of TAME is that it is a number
 * of the size of others: 0 times it is 0. */
typedef enum PadFill { FILL_ZERO, FILL_TAME, FILL_WILD } PadFill;

typedef struct PadFills PadFills;

/* An op that makes the padding of its operand `arg`'s dim known. */
typedef struct PadMask {
    const Op *op;
    int arg, dim;
    bool lowest; /* the lowest numbers instead of zeros */
} PadMask;

/* Finds what all values have in their padding; anew after each mask. */
PadFills *pad_fills(const PadClasses *c, const PadMask *mask, int nmasks);
/* Dim d of v must be padded. */
PadFill pad_fill(const PadFills *f, const Value *v, int d);

/* ---- pad_mask.c ---------------------------------------------------------- */

/* Masks in front of everything that joins the elements of a padded dim. */
void pad_mask(PadClasses *c);

#endif
