/* routing.c: assigns the rows of a mixture of experts; see routing.h. */
#include "tests/interp/routing.h"

#include <math.h>

void route(const Routing *r, const double *ids, double *pair, double *row, double *ends,
           double *needed)
{
    for (int64_t p = 0; p < r->pairs; p++)
        row[p] = isnan(ids[p]) ? NAN : -1;
    for (int64_t i = 0; i < r->shards * r->rows; i++)
        pair[i] = isnan(ids[0]) ? NAN : -1;
    for (int64_t shard = 0; shard < r->all; shard++) {
        int64_t own = shard - r->first, used = 0, wanted = 0, skipped = r->round * r->rows;
        for (int64_t e = 0; e < r->experts; e++) {
            for (int64_t p = 0; p < r->pairs; p++) {
                if (!(ids[p] == (double)(shard * r->experts + e)))
                    continue;
                if (wanted++ < skipped || used == r->rows)
                    continue;
                if (own >= 0 && own < r->shards)
                    pair[own * r->rows + used] = (double)p;
                row[p] = (double)(shard * r->rows + used++);
            }
            if (own >= 0 && own < r->shards)
                ends[own * r->experts + e] = isnan(ids[0]) ? NAN : (double)used;
        }
        if (own >= 0 && own < r->shards)
            needed[own] = isnan(ids[0]) ? NAN : (double)wanted;
    }
}
