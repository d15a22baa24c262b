/* reshard.h: the cheapest sequence of collectives between two placements.
 *
 * The method is a search in a graph: its states are placements of one tensor,
 * its edges collectives over one axis, or exchanges over several, with a latency and
 * bandwidth model. The pass propagate uses the same costs.
 */
#ifndef PARC_PASSES_SHARDING_RESHARD_H
#define PARC_PASSES_SHARDING_RESHARD_H

#include "ir/ir.h"

enum { MAX_RESHARD_STEPS = 12 };

typedef struct ReshardStep {
    OpKind kind; /* all_gather, all_reduce, reduce_scatter, all_to_all,
                    local_slice or mask_to_partial */
    uint32_t axes; /* one, or of an all_to_all several */
    Type to;
} ReshardStep;

typedef struct ReshardPath {
    int n;
    ReshardStep step[MAX_RESHARD_STEPS];
    double seconds; /* modelled time */
} ReshardPath;

/* The conversion of `from` to the placement `to`; bug() if there is none (to
 * PMAX, for example). reshard_seconds: the modelled time; infinite if there is
 * none. */
void reshard_path(const Mesh *m, const Type *from, const Placement *to,
                  ReshardPath *path);
double reshard_seconds(const Mesh *m, const Type *from, const Placement *to);

/* reshard_seconds, memoized. */
typedef struct ReshardMemo ReshardMemo;
ReshardMemo *reshard_memo_new(Arena *a, const Mesh *m);
double reshard_memo_seconds(ReshardMemo *memo, const Type *from,
                            const Placement *to);

/* The modelled time of one collective over `axis`; `bytes` is the size of the
 * gathered or unreduced tensor on one rank. */
double collective_seconds(const Mesh *m, OpKind kind, int axis, int64_t bytes);

/* Emits the steps before b->before; returns the converted value. */
Value *reshard_emit(Build *b, Value *x, const Placement *to, Why why);

#endif
