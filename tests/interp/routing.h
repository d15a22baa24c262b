/* routing.h: assigns the rows of a mixture of experts to pairs, in the simplest way, as the
 * interpreter and the samples of ops need them; see group_rows in ir/ops.def.
 *
 * The pairs of one group, with their experts, give the rows of the shards first, first + 1, …
 * of `all` shards of `experts` experts each. */
#ifndef PARC_TESTS_INTERP_ROUTING_H
#define PARC_TESTS_INTERP_ROUTING_H

#include <stdint.h>

typedef struct Routing {
    int64_t pairs;
    int64_t shards, first, all; /* of the results pair, ends and needed; of row */
    int64_t rows, experts;      /* of a shard */
    int64_t round;
} Routing;

/* ids [pairs]; pair [shards, rows], row [pairs], ends [shards, experts], needed [shards]. A
 * pair whose expert is NaN gives NaN. */
void route(const Routing *r, const double *ids, double *pair, double *row, double *ends,
           double *needed);

#endif
