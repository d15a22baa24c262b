/* pad.h: declarations that the files of the pass pad share. */
#ifndef PARC_PASSES_PAD_PAD_H
#define PARC_PASSES_PAD_PAD_H

#include "ir/rules/dim_classes.h"
#include "passes/value_map.h"

/* ---- pad_classes.c: dims that must have equal sizes ---------------------- */

/* The reason why a class of dims keeps its size. */
typedef struct PadBlock {
    const char *why; /* NULL: it may be padded */
    Loc loc;
} PadBlock;

typedef struct PadClass {
    int64_t size;    /* 0: no dim seen yet */
    int64_t parts;   /* number of equal parts that styles require */
    int64_t align;   /* each part is a multiple of this; 1: of any size */
    int64_t padded;  /* the new size */
    PadBlock block;
} PadClass;

typedef struct PadClasses {
    Program *p;
    DimClasses dims;
    PadClass *of;   /* by class */
    ValueMap like;  /* masked value → the value before masking */
} PadClasses;

PadClasses *pad_classes(Program *p);
/* The class of dim d of a value, or of a parameter. Of values that were built
 * later only those in `like` have one. */
PadClass *pad_class(const PadClasses *c, const Value *v, int d);
PadClass *pad_param_class(const PadClasses *c, int param, int d);
/* The valid extent of dim d of v if it is padded; else 0. */
int64_t pad_valid(const PadClasses *c, const Value *v, int d);

/* ---- pad_fill.c: contents of the padding --------------------------------- */

/* Contents of the padding, from most to least known. FILL_TAME: any finite
 * numbers of the order of the valid ones, so that multiplying by 0 gives 0.
 * FILL_WILD: possibly infinite or NaN. */
typedef enum PadFill { FILL_ZERO, FILL_TAME, FILL_WILD } PadFill;

typedef struct PadFills PadFills;

/* An op that sets the padding of its operand `arg` along a dim. */
typedef struct PadMask {
    const Op *op;
    int arg, dim;
    bool lowest; /* to the lowest numbers instead of zeros */
} PadMask;

/* The mask that the op is; NULL: none. */
const PadMask *pad_mask_of(const PadMask *mask, int nmasks, const Op *op);
/* Computes the contents of the padding of all values; to be repeated after each
 * mask. */
PadFills *pad_fills(const PadClasses *c, const PadMask *mask, int nmasks);
/* Dim d of v must be padded. */
PadFill pad_fill(const PadFills *f, const Value *v, int d);

/* ---- pad_mask.c ---------------------------------------------------------- */

/* Inserts masks before ops that reduce a padded dim. */
void pad_mask(PadClasses *c);

#endif
