/* rt_transfer.c: implements the transfer of a tensor from one rank to another.
 *
 * Ranks of one node map each other's arenas. The sender offers the bytes in its
 * status and continues; the receiver copies them, so that there is no other buffer:
 *
 *   sender                                  receiver
 *   writes an offer, and its receiver last  waits for an offer to it
 *   …                                       copies the bytes
 *   waits before it overwrites them         clears the receiver of the offer
 *
 * An event that PARC_TRANSFER records is complete when all offers before it have
 * been taken; of the offers to it, a rank takes the earliest. If all places are in
 * use, the sender waits for the oldest one. Ranks of other nodes get a message, and
 * the sender waits until they have it.
 */
#include "cpu/rt_transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/rt_nodes.h"
#include "cpu/rt_stream.h"
#include "launch/world.h"
#include "parc_pipeline.h"
#include "trace/trace.h"

/* Offers are numbered from 0. */
struct RtDevice {
    uint32_t made;     /* offers */
    uint32_t taken;    /* all before this one have been taken */
    uint32_t before[]; /* by event: the offers made before its latest record */
};

void rt_transfers_open(ParcRt *rt)
{
    size_t events = (size_t)rt->model->nevents;
    rt->device = calloc(1, sizeof *rt->device + events * sizeof(uint32_t));
    if (!rt->device)
        rt_fail(rt, "no memory for %zu events: %s", events, strerror(errno));
}

void rt_transfers_close(ParcRt *rt)
{
    free(rt->device);
    rt->device = NULL;
}

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

static void changed(RtStatus *sender)
{
    atomic_fetch_add(&sender->offers, 1);
    rt_wake(&sender->offers);
}

/* ---- the sender ---------------------------------------------------------- */

static void await_taken(ParcRt *rt, RtStatus *own, RtOffer *offer)
{
    int peer = atomic_load(&offer->to) - 1;
    if (peer < 0)
        return;
    begin_transfer(rt, atomic_load(&offer->id), peer);
    for (;;) {
        uint32_t seen = atomic_load(&own->offers);
        if (!atomic_load(&offer->to))
            break;
        rt_wait_change(rt, &own->offers, seen, peer);
    }
    end_transfer(own);
}

/* Waits until the offers up to number `end` - 1 have been taken. Numbers may
 * overflow. */
static void await_offers(ParcRt *rt, uint32_t end)
{
    RtStatus *own = &rt->world->status[rt->rank];
    struct RtDevice *d = rt->device;
    for (; (int32_t)(end - d->taken) > 0; d->taken++)
        await_taken(rt, own, &own->offer[d->taken % RT_OFFERS]);
}

static void make_offer(ParcRt *rt, int id, int peer, int64_t offset,
                       int64_t bytes)
{
    RtStatus *own = &rt->world->status[rt->rank];
    struct RtDevice *d = rt->device;
    RtOffer *offer = &own->offer[d->made % RT_OFFERS];
    await_offers(rt, d->made + 1 - RT_OFFERS);
    atomic_store(&offer->number, d->made++);
    atomic_store(&offer->id, id);
    atomic_store(&offer->at, offset);
    atomic_store(&offer->bytes, bytes);
    atomic_store(&offer->to, peer + 1);
    changed(own);
}

void parc_send(ParcRt *rt, int id, uint32_t axes, int64_t to, int64_t offset,
               int64_t bytes)
{
    int peer = rt->group[axes].member[to];
    if (rt_is_mapped(rt->world, peer)) {
        make_offer(rt, id, peer, offset, bytes);
        return;
    }
    RtStatus *own = begin_transfer(rt, id, peer);
    rt_nodes_transfer(rt, id, axes, peer, true, offset, bytes);
    rt_mark(rt, RT_MARK_MOVE);
    end_transfer(own);
}

void parc_record(ParcRt *rt, int stream, int event)
{
    (void)stream;
    rt->device->before[event] = rt->device->made;
}

void parc_wait(ParcRt *rt, int stream, int event)
{
    (void)stream;
    await_offers(rt, rt->device->before[event]);
}

void parc_join(ParcRt *rt, bool transfers)
{
    if (transfers)
        await_offers(rt, rt->device->made);
}

/* ---- the receiver -------------------------------------------------------- */

/* The earliest offer to the rank; NULL: none. */
static RtOffer *earliest_offer(RtStatus *sender, int rank)
{
    RtOffer *first = NULL;
    for (int i = 0; i < RT_OFFERS; i++) {
        RtOffer *x = &sender->offer[i];
        if (atomic_load(&x->to) == rank + 1 &&
            (!first || (int32_t)(x->number - first->number) < 0))
            first = x;
    }
    return first;
}

/* Waits for an offer to this rank. */
static RtOffer *await_offer(ParcRt *rt, RtStatus *sender, int peer)
{
    for (;;) {
        uint32_t seen = atomic_load(&sender->offers);
        RtOffer *offer = earliest_offer(sender, rt->rank);
        if (offer && atomic_load(&sender->offers) == seen)
            return offer; /* else an earlier one may have been overlooked */
        if (!offer)
            rt_wait_change(rt, &sender->offers, seen, peer);
    }
}

static void take_offer(ParcRt *rt, int id, int peer, int64_t offset,
                       int64_t bytes)
{
    RtStatus *sender = &rt->world->status[peer];
    RtOffer *offer = await_offer(rt, sender, peer);
    rt_mark(rt, RT_MARK_MOVE);
    int64_t offered = atomic_load(&offer->bytes);
    if (offered != bytes)
        rt_fail(rt, "rank %d sends %lld bytes in '%s', but rank %d receives "
                "%lld: start the same program on all ranks", peer,
                (long long)offered, rt_collective_name(rt->model, id), rt->rank,
                (long long)bytes);
    rt_copy_rows(rt, rt->arena + offset, bytes,
                 rt_peer(rt, peer) + atomic_load(&offer->at), bytes, 1, bytes);
    atomic_store(&offer->to, 0);
    changed(sender);
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
