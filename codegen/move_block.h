/* move_block.h: computes the sizes of the strided blocks that a collective
 * moves.
 *
 * An all-gather of w: f32[8, 6], which two ranks split along dim 1, copies from
 * each rank 8 rows of 3 contiguous elements: outer = 8, inner = 3.
 */
#ifndef PARC_CODEGEN_MOVE_BLOCK_H
#define PARC_CODEGEN_MOVE_BLOCK_H

#include "ir/ir.h"

/* The block of each rank: `outer` rows of `inner` contiguous elements; for an
 * all_to_all, `outer` x `middle` rows; `minor`: the dim that it gathers is before the dim
 * that it splits. `valid`: if the last runs of a flat
 * tensor are padded, the elements of all runs without the padding; 0: there is
 * none. ParcPart (parc_rt.h) has the layouts. `zigzag`: the halves of a rank's row are
 * pieces in zigzag order. */
typedef struct MoveBlock {
    int64_t outer, inner, middle, valid;
    bool zigzag, minor;
} MoveBlock;

/* The product of the local dims first … last-1 of a value, without its stack.
 */
int64_t move_product(const Program *p, const Type *t, int first, int last);

/* The block of a rank's part of a global tensor; `part` is sharded over `axes`,
 * `whole` is not. */
MoveBlock move_block_of(const Program *p, const Type *part, const Type *whole,
                        uint32_t axes);
/* The block of operand i of a collective. */
MoveBlock move_block(const Program *p, const Op *op, int i);

/* Bytes of staging memory for a collective whose layout NCCL supports only
 * packed (runtime/cuda/core/rt_staging.h). */
int64_t move_staging(const Program *p, const Op *op);

#endif
