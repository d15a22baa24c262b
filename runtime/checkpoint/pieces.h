/* pieces.h: declares the rectangular pieces of which a checkpoint consists, and
 * the copy of strided blocks between a file and the arena: pieces.c. */
#ifndef PARC_RT_PIECES_H
#define PARC_RT_PIECES_H

#include "params/params.h"
#include "params/strided_copy.h"

/* A rectangular block of the elements that a rank stores of one layer, without
 * padding. */
typedef struct RtBlock {
    int64_t begin[PARC_MAX_DIMS], extent[PARC_MAX_DIMS]; /* in the global
                                                            tensor */
    int64_t at; /* its first element among those that the rank stores of the
                   layer */
} RtBlock;

/* Cuts the stored elements *at … end-1 of a layer into blocks, in order: sets
 * *block to the next one and *at to the element after it. False if only padding
 * is left. A range of a tensor with r dims is cut into at most 2r-1 blocks (one
 * for r = 0). */
bool rt_block_next(const RtShard *s, int64_t *at, int64_t end, RtBlock *block);
int64_t rt_block_elements(const RtShard *s, const RtBlock *block);

/* The range of stored elements of a layer that a rank writes to a checkpoint.
 * Ranks that store the same elements write equal parts of them, of at least
 * 64 KiB (a smaller layer is one part). If there are fewer parts than ranks,
 * `number` selects the ranks that write. */
typedef struct RtRange {
    int64_t begin, end;
} RtRange;
RtRange rt_write_range(const ParcModel *model, int rank, const RtShard *s,
                       int64_t number);

/* The elements that two blocks of the global tensor have in common: from the
 * first block, stored row-major by itself, to the rank's memory of the layer.
 * *from is the offset in the first block of the first common element, *to its
 * offset in the layer's stored elements. False if there is no common element. */
bool rt_block_common(const RtShard *s, const RtBlock *block,
                     const int64_t *begin, const int64_t *extent,
                     RtStridedCopy *copy, int64_t *to, int64_t *from);
void rt_block_copy(const RtStridedCopy *copy, float *to, const float *from);

/* Calls `put` for each contiguous run of the block in the rank's memory, in
 * row-major order of the block. `layer`: the rank's elements of the layer. */
typedef void RtPut(void *context, const float *from, int64_t n);
void rt_block_runs(const RtShard *s, const RtBlock *block, const float *layer,
                   RtPut *put, void *context);

#endif
