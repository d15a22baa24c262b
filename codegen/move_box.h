/* move_box.h: what moves between ranks, as boxes of elements. */
#ifndef PARC_CODEGEN_MOVE_BOX_H
#define PARC_CODEGEN_MOVE_BOX_H

#include "ir/ir.h"

/* `outer` rows of `inner` contiguous elements for each rank; all_to_all:
 * `middle` of them. valid: elements of a row that exist where the last rank's
 * run is padded; 0: all (ParcPart of parc_rt.h). */
typedef struct MoveBox {
    int64_t outer, inner, middle, valid;
} MoveBox;

/* The box of the part that a rank holds of a whole; `part` is split over
 * `axes`, where `whole` is not. */
MoveBox move_box_of(const Program *p, const Type *part, const Type *whole,
                    uint32_t axes);
/* The box of operand i of a collective. */
MoveBox move_box(const Program *p, const Op *op, int i);
/* all_to_all: whether the dim that it makes whole lies behind the one that it
 * splits. */
bool move_is_minor(const Op *op);

/* Bytes that a rank wants beside the tensors of a collective where NCCL takes
 * their layout only packed (runtime/cuda/rt_staging.h). */
int64_t move_staging(const Program *p, const Op *op);

#endif
