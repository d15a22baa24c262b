/* attention_ring.h: attention whose sequences are split over ranks that pass on their keys and
 * values, for tests of the runtime. */
#ifndef PARC_TESTS_UNIT_ATTENTION_RING_H
#define PARC_TESTS_UNIT_ATTENTION_RING_H

#include "runtime/parc_attention.h"

typedef struct AttentionResults {
    float *o, *lse, *dq, *dk, *dv, *dbias;
} AttentionResults;

/* The results of n ranks, at most 8, for the operands q, k, v and do of whole sequences; in
 * zigzag order each rank has two pieces. All results are f32, dbias is NULL. */
AttentionResults ring_results(ParcRt *rt, const ParcAttention *a, void *const in[4], int n,
                                bool zigzag);

#endif
