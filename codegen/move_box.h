/* move_box.h: describes the data that moves between ranks as strided
 * blocks. */
#ifndef PARC_CODEGEN_MOVE_BOX_H
#define PARC_CODEGEN_MOVE_BOX_H

#include "ir/ir.h"

/* `outer` rows of `inner` contiguous elements for each rank; all_to_all:
 * `middle` of them. valid: elements of a row without padding, if the last
 * rank's run is padded; 0: all (ParcPart of parc_rt.h). */
typedef struct MoveBox {
    int64_t outer, inner, middle, valid;
} MoveBox;

/* The block of a rank's part of a global tensor; `part` is sharded over `axes`,
 * `whole` is not. */
MoveBox move_box_of(const Program *p, const Type *part, const Type *whole,
                    uint32_t axes);
/* The block of operand i of a collective. */
MoveBox move_box(const Program *p, const Op *op, int i);
/* all_to_all: whether the dim that it gathers is inside of the dim that it
 * splits. */
bool move_is_minor(const Op *op);

/* Bytes of staging memory for a collective whose layout NCCL supports only
 * packed (runtime/cuda/rt_staging.h). */
int64_t move_staging(const Program *p, const Op *op);

#endif
