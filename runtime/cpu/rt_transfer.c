/* rt_transfer.c: implements the transfer of a tensor from one rank to another.
 *
 * Ranks of one node map each other's arenas. The sender offers the bytes in its
 * status; the receiver copies them, so that there is no other buffer:
 *
 *   sender                                  receiver
 *   writes offer_to, offer_at, offer_bytes
 *   makes `offer` odd                       waits for an odd offer to it
 *   waits for an even one                   copies, makes `offer` even
 *
 * A rank has one offer at a time. Ranks of other nodes get a message.
 */
#include "cpu/rt_nodes.h"
#include "cpu/rt_stream.h"
#include "launch/world.h"
#include "parc_pipeline.h"
#include "rt.h"
#include "trace/trace.h"

static RtStatus *begin_transfer(ParcRt *rt, int id, int peer)
{
    RtStatus *own = &rt->world->status[rt->rank];
    atomic_store(&own->collective, id);
    atomic_store(&own->peer, peer + 1);
    atomic_store(&own->state, RT_WAITING);
    return own;
}

static void end_transfer(RtStatus *own)
{
    atomic_store(&own->peer, 0);
    atomic_store(&own->state, RT_COMPUTING);
}

void parc_send(ParcRt *rt, int id, uint32_t axes, int64_t to, int64_t offset,
               int64_t bytes)
{
    int peer = rt->group[axes].member[to];
    RtStatus *own = begin_transfer(rt, id, peer);
    if (rt_is_mapped(rt->world, peer)) {
        atomic_store(&own->offer_to, peer);
        atomic_store(&own->offer_at, offset);
        atomic_store(&own->offer_bytes, bytes);
        uint32_t offer = atomic_fetch_add(&own->offer, 1) + 1;
        rt_wake(&own->offer);
        rt_wait_change(rt, &own->offer, offer, peer);
    } else {
        rt_nodes_transfer(rt, id, axes, peer, true, offset, bytes);
    }
    rt_mark(rt, RT_MARK_MOVE);
    end_transfer(own);
}

/* Waits until the sender offers bytes to this rank. */
static void await_offer(ParcRt *rt, const RtStatus *sender, int peer)
{
    for (;;) {
        uint32_t offer = atomic_load(&sender->offer);
        bool own = atomic_load(&sender->offer_to) == rt->rank;
        if (offer % 2 && own && atomic_load(&sender->offer) == offer)
            return; /* else `offer_to` may be that of the next offer */
        rt_wait_change(rt, (_Atomic uint32_t *)&sender->offer, offer, peer);
    }
}

static void take_offer(ParcRt *rt, int id, int peer, int64_t offset,
                       int64_t bytes)
{
    RtStatus *sender = &rt->world->status[peer];
    await_offer(rt, sender, peer);
    rt_mark(rt, RT_MARK_MOVE);
    int64_t offered = atomic_load(&sender->offer_bytes);
    if (offered != bytes)
        rt_fail(rt, "rank %d sends %lld bytes in '%s', but rank %d receives "
                "%lld: start the same program on all ranks", peer,
                (long long)offered, rt_collective_name(rt->model, id), rt->rank,
                (long long)bytes);
    rt_copy_rows(rt, rt->arena + offset, bytes,
                 rt_peer(rt, peer) + atomic_load(&sender->offer_at), bytes, 1,
                 bytes);
    atomic_fetch_add(&sender->offer, 1);
    rt_wake(&sender->offer);
}

void parc_receive(ParcRt *rt, int id, uint32_t axes, int64_t from,
                  int64_t offset, int64_t bytes)
{
    int peer = rt->group[axes].member[from];
    RtStatus *own = begin_transfer(rt, id, peer);
    if (rt_is_mapped(rt->world, peer))
        take_offer(rt, id, peer, offset, bytes);
    else
        rt_nodes_transfer(rt, id, axes, peer, false, offset, bytes);
    end_transfer(own);
}
