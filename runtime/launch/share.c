/* launch/share.c: copies rank 0's decisions to all ranks.
 *
 * A choice that depends on a measurement may differ between ranks. Values that
 * must be equal on all ranks need equal computations, so rank 0 decides for
 * all.
 */
#include <string.h>

#include "launch/job.h"
#include "launch/world.h"
#include "rt.h"

void rt_share(ParcRt *rt, int id, void *data, size_t bytes)
{
    RtControl *c = rt->world->control;
    if (rt->world->store) {
        rt_job_broadcast(rt->world->store, id, data, bytes);
        return;
    }
    for (size_t done = 0; done < bytes && rt->nranks > 1;) {
        size_t left = bytes - done;
        size_t piece = left < sizeof c->board ? left : sizeof c->board;
        char *at = (char *)data + done;
        if (rt->rank == 0)
            memcpy(c->board, at, piece);
        rt_meet(rt, id);
        if (rt->rank != 0)
            memcpy(at, c->board, piece);
        rt_meet(rt, id); /* rank 0 may write the next piece */
        done += piece;
    }
}
