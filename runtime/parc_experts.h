/* parc_experts.h: the ops of a mixture of experts; ir/ops.def describes their tensors.
 */
#ifndef PARC_EXPERTS_H
#define PARC_EXPERTS_H

#include "parc_rt.h"

/* The part of a rank: g x h groups of b x s tokens, with k choices each, of all tokens [g b, h s];
 * for each group, x shards of the experts with r rows each. A pair is an index in b s k, the row
 * of a pair an index in the rows of all shards. */
typedef struct ParcGroups {
    int64_t g, h, b, s, k, x, r;
} ParcGroups;

/* The choices ids [sequences, length, k] of `experts` experts; the rank has `own` tokens of each
 * sequence, in equal pieces that begin at base[i] (NULL: all). -> kept [sequences, own, k]: of the
 * choices of an expert in a sequence the first `limit`, in order, and -1 for later ones, whose
 * numbers in a sequence are rest + 256 blocks [sequences]. An id that is no expert's becomes -1. `scratch`:
 * parc_limit_choices_scratch bytes. */
typedef struct ParcChoices {
    int64_t sequences, length, own, pieces, k, experts, limit;
} ParcChoices;
int64_t parc_limit_choices_scratch(const ParcChoices *of);
void parc_limit_choices(ParcRt *rt, const ParcChoices *of, int32_t *kept, float *rest,
                        float *blocks, const int32_t *ids, const int64_t *base, void *scratch);

/* ids [g b, h s, k] -> pair [g, h, x, r], row [g b, h s, k], ends [g, h, x, experts] and needed
 * [g, h, x], of `shards` shards of `experts` experts, of which the rank has x from *base on (NULL:
 * 0). The rows are those from row `*round * r` of a shard on. An id that is no expert's has no row. `scratch`:
 * parc_group_rows_scratch bytes. */
int64_t parc_group_rows_scratch(int64_t shards, int64_t experts);
void parc_group_rows(ParcRt *rt, const ParcGroups *of, int64_t shards, int64_t experts,
                     int32_t *pair, int32_t *row, int32_t *ends, float *needed,
                     const int32_t *ids, const int32_t *round, const int64_t *base,
                     void *scratch);

/* x [g b, h s, width] -> rows [g, h, x, r, width]; rows without a pair are not written. The
 * inverse sums the rows of a token in f32; pairs of other shards count 0. */
void parc_gather_rows(ParcRt *rt, const ParcGroups *of, ParcType type, int64_t width, void *rows,
                      const void *x, const int32_t *pair);
void parc_combine_rows(ParcRt *rt, const ParcGroups *of, ParcType type, int64_t width, void *x,
                       const void *rows, const int32_t *row, const int64_t *base);
/* The same between x [g b, h s, k] and rows [g, h, x, r], without sums. */
void parc_gather_pairs(ParcRt *rt, const ParcGroups *of, ParcType type, void *rows, const void *x,
                       const int32_t *pair);
void parc_scatter_pairs(ParcRt *rt, const ParcGroups *of, ParcType type, void *x, const void *rows,
                        const int32_t *row, const int64_t *base);

/* Which of rows, weight and y (or their gradients) is computed from the two others. */
typedef enum ParcGroupedResult {
    PARC_GROUPED_Y, PARC_GROUPED_ROWS, PARC_GROUPED_WEIGHT
} ParcGroupedResult;

/* The product of a rank, which has x shards of the experts. Of the r rows of a shard in a group
 * `used` have a pair if all shards get equally many.
 * rows [groups, x, r, d] and weight [x experts, f, d] -> y [groups, x, r, f]: each row times the
 * transposed matrix of its expert, for the rows that `ends` [groups, x, experts] gives it. Others
 * are neither read nor written. The operands have one type; sums are in f32. */
typedef struct ParcGrouped {
    ParcGroupedResult computes;
    int64_t groups, x, used, r, experts, f, d;
    ParcType type, out; /* of the operands, and of what is computed */
} ParcGrouped;

/* The operands are rows and weight, dy and weight for the gradient of rows, dy and rows for that
 * of weight. `scratch` has `scratch_bytes` bytes: at least parc_grouped_scratch (used by parc, as
 * parc_matmul_scratch) for the machine that runs the program. */
int64_t parc_grouped_scratch(const ParcGrouped *spec, int threads, ParcCpuLevel level);
void parc_grouped_matmul(ParcRt *rt, const ParcGrouped *spec, void *out, const void *a,
                         const void *b, const int32_t *ends, void *scratch,
                         int64_t scratch_bytes);

#endif
