/* nccl_move.c: sends, compares and receives the data of a group of calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "nccl_plan.h"
#include "parc_math.h"

const char *const nccl_kind_name[NCCL_KINDS] = {
    [NCCL_ALL_GATHER] = "all_gather",
    [NCCL_REDUCE_SCATTER] = "reduce_scatter",
    [NCCL_ALL_REDUCE] = "all_reduce",
    [NCCL_BROADCAST] = "broadcast",
    [NCCL_REDUCE] = "reduce",
    [NCCL_SEND] = "send",
    [NCCL_RECV] = "recv",
};

int64_t nccl_type_bytes(NcclType t)
{
    static const int bytes[NCCL_TYPES] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return bytes[t];
}

int64_t nccl_send_bytes(const NcclCall *c, int rank, int nranks)
{
    int64_t bytes = c->count * nccl_type_bytes(c->type);
    if (c->kind == NCCL_RECV || (c->kind == NCCL_BROADCAST && c->peer != rank))
        return 0;
    return c->kind == NCCL_REDUCE_SCATTER ? bytes * nranks : bytes;
}

int64_t nccl_recv_bytes(const NcclCall *c, int rank, int nranks)
{
    int64_t bytes = c->count * nccl_type_bytes(c->type);
    if (c->kind == NCCL_SEND || (c->kind == NCCL_REDUCE && c->peer != rank))
        return 0;
    return c->kind == NCCL_ALL_GATHER ? bytes * nranks : bytes;
}

bool nccl_give(const NcclShared *r, const NcclPlan *p, uint64_t round)
{
    NcclMember *own = nccl_member(r, r->rank);
    char *to = nccl_outbox(r, r->rank);
    int64_t at = 0;
    for (int i = 0; i < p->n; i++) {
        int64_t bytes = nccl_send_bytes(&p->post[i].call, r->rank, r->nranks);
        own->call[i] = p->post[i].call;
        own->call[i].at = at;
        if (bytes)
            memcpy(to + at, p->post[i].send, (size_t)bytes);
        at += (bytes + 15) / 16 * 16;
    }
    atomic_store(&own->n, p->n);
    atomic_store(&own->posted, round);
    return true;
}

/* ---- messages ---- */

bool nccl_is_message(const NcclPlan *p)
{
    return p->n == 1 && (p->post[0].call.kind == NCCL_SEND ||
                         p->post[0].call.kind == NCCL_RECV);
}

static size_t message_bytes(const NcclCall *c)
{
    return (size_t)(c->count * nccl_type_bytes(c->type));
}

void nccl_offer(const NcclShared *r, const NcclPost *p)
{
    NcclMember *own = nccl_member(r, r->rank);
    own->message = p->call;
    memcpy(nccl_message(r, r->rank), p->send, message_bytes(&p->call));
    atomic_fetch_add(&own->offered[p->call.peer], 1);
}

bool nccl_is_taken(const NcclShared *r, const NcclPost *p)
{
    int peer = p->call.peer;
    return atomic_load(&nccl_member(r, peer)->taken[r->rank]) ==
           atomic_load(&nccl_member(r, r->rank)->offered[peer]);
}

bool nccl_take_message(const NcclShared *r, const NcclPost *p, bool *agrees)
{
    NcclMember *own = nccl_member(r, r->rank);
    const NcclMember *from = nccl_member(r, p->call.peer);
    if (atomic_load(&from->offered[r->rank]) ==
        atomic_load(&own->taken[p->call.peer]))
        return false;
    *agrees = from->message.count == p->call.count &&
              from->message.type == p->call.type;
    if (!*agrees)
        standin_error("NCCL: rank %d sends %lld elements to rank %d, which "
                      "receives %lld", p->call.peer,
                      (long long)from->message.count, r->rank,
                      (long long)p->call.count);
    else
        memcpy(p->recv, nccl_message(r, p->call.peer),
               message_bytes(&p->call));
    atomic_fetch_add(&own->taken[p->call.peer], 1);
    return true;
}

bool nccl_message_is_unchanged(const NcclShared *r, const NcclPost *p)
{
    if (!memcmp(nccl_message(r, r->rank), p->send, message_bytes(&p->call)))
        return true;
    standin_error("NCCL: what rank %d sends to rank %d changed before it was "
                  "received", r->rank, p->call.peer);
    return false;
}

/* ---- agreement of the ranks' calls ---- */

static void say_differ(const NcclShared *r, int i, const NcclCall *a, int peer,
                       const NcclCall *b)
{
    standin_error("NCCL: call %d of a group is %s of %lld elements (type %d, "
                  "op %d, root %d) on rank %d, and %s of %lld (type %d, op "
                  "%d, root %d) on rank %d", i, nccl_kind_name[a->kind],
                  (long long)a->count, a->type, a->op, a->peer, r->rank,
                  nccl_kind_name[b->kind], (long long)b->count, b->type, b->op,
                  b->peer, peer);
}

static bool is_pair(NcclKind k)
{
    return k == NCCL_SEND || k == NCCL_RECV;
}

/* The first collective (or call to or from `peer`) from index i on. */
static int next_call(const NcclMember *b, int i, NcclKind pair, int peer)
{
    int n = atomic_load(&b->n);
    for (; i < n; i++)
        if (pair == NCCL_KINDS ? !is_pair(b->call[i].kind)
                               : b->call[i].kind == pair &&
                                     b->call[i].peer == peer)
            break;
    return i < n ? i : -1;
}

static bool same(const NcclCall *a, const NcclCall *b)
{
    return a->kind == b->kind && a->count == b->count && a->type == b->type &&
           a->op == b->op && a->peer == b->peer;
}

static bool collectives_agree(const NcclShared *r, int peer)
{
    const NcclMember *own = nccl_member(r, r->rank),
                     *other = nccl_member(r, peer);
    for (int i = 0, j = 0;; i++, j++) {
        i = next_call(own, i, NCCL_KINDS, 0);
        j = next_call(other, j, NCCL_KINDS, 0);
        if (i < 0 && j < 0)
            return true;
        if (i < 0 || j < 0) {
            standin_error("NCCL: a group of rank %d has more collectives than "
                          "that of rank %d", i < 0 ? peer : r->rank,
                          i < 0 ? r->rank : peer);
            return false;
        }
        if (!same(&own->call[i], &other->call[j])) {
            say_differ(r, i, &own->call[i], peer, &other->call[j]);
            return false;
        }
    }
}

static bool pairs_agree(const NcclShared *r, int peer)
{
    const NcclMember *own = nccl_member(r, r->rank),
                     *other = nccl_member(r, peer);
    for (int i = 0, j = 0;; i++, j++) {
        i = next_call(own, i, NCCL_RECV, peer);
        j = next_call(other, j, NCCL_SEND, r->rank);
        if (i < 0 && j < 0)
            return true;
        if (i < 0 || j < 0 || own->call[i].count != other->call[j].count ||
            own->call[i].type != other->call[j].type) {
            standin_error("NCCL: what rank %d sends to rank %d in a group is "
                          "not what that receives", peer, r->rank);
            return false;
        }
    }
}

bool nccl_agree(const NcclShared *r, const NcclPlan *p)
{
    (void)p;
    for (int i = 0; i < r->nranks; i++)
        if (!collectives_agree(r, i) || !pairs_agree(r, i))
            return false;
    return true;
}

/* ---- reductions: rank after rank, rounded to the type each time ---- */

static double get(NcclType t, const char *p, int64_t i)
{
    switch (t) {
    case NCCL_I8: return ((const int8_t *)p)[i];
    case NCCL_U8: return ((const uint8_t *)p)[i];
    case NCCL_I32: return ((const int32_t *)(const void *)p)[i];
    case NCCL_U32: return ((const uint32_t *)(const void *)p)[i];
    case NCCL_I64: return (double)((const int64_t *)(const void *)p)[i];
    case NCCL_U64: return (double)((const uint64_t *)(const void *)p)[i];
    case NCCL_F16: return parc_from_f16(((const uint16_t *)(const void *)p)[i]);
    case NCCL_F32: return (double)((const float *)(const void *)p)[i];
    case NCCL_F64: return ((const double *)(const void *)p)[i];
    case NCCL_BF16:
        return parc_from_bf16(((const uint16_t *)(const void *)p)[i]);
    case NCCL_TYPES: break;
    }
    return 0.0;
}

static void put(NcclType t, char *p, int64_t i, double x)
{
    switch (t) {
    case NCCL_I8: ((int8_t *)p)[i] = (int8_t)x; break;
    case NCCL_U8: ((uint8_t *)p)[i] = (uint8_t)x; break;
    case NCCL_I32: ((int32_t *)(void *)p)[i] = (int32_t)x; break;
    case NCCL_U32: ((uint32_t *)(void *)p)[i] = (uint32_t)x; break;
    case NCCL_I64: ((int64_t *)(void *)p)[i] = (int64_t)x; break;
    case NCCL_U64: ((uint64_t *)(void *)p)[i] = (uint64_t)x; break;
    case NCCL_F16: ((uint16_t *)(void *)p)[i] = parc_to_f16((float)x); break;
    case NCCL_F32: ((float *)(void *)p)[i] = (float)x; break;
    case NCCL_F64: ((double *)(void *)p)[i] = x; break;
    case NCCL_BF16:
        ((uint16_t *)(void *)p)[i] = parc_to_bf16((float)x);
        break;
    case NCCL_TYPES: break;
    }
}

static double combine(NcclOp op, double x, double y)
{
    switch (op) {
    case NCCL_SUM:
    case NCCL_AVG: return x + y;
    case NCCL_PROD: return x * y;
    case NCCL_MAX: return x > y || x != x ? x : y;
    case NCCL_MIN: return x < y || x != x ? x : y;
    case NCCL_OPS: break;
    }
    return 0.0;
}

static void sum_f32(float *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] += from[i];
}

/* STANDIN_NVLS: the rank whose elements a sum begins with. All ranks add in the
 * same order, which the name of the communicator, different in each run, and
 * the number of the group decide. */
static int first_term(const NcclShared *r)
{
    const char *enabled = getenv("NCCL_NVLS_ENABLE");
    uint64_t hash = atomic_load(&nccl_member(r, r->rank)->posted);
    if (!getenv("STANDIN_NVLS") || (enabled && strcmp(enabled, "0") == 0))
        return 0;
    for (const char *p = r->name; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    return (int)((hash >> 20) % (uint64_t)r->nranks);
}

/* Reduces elements from `first` on; index[k] is this call on rank k. */
static void reduce(const NcclShared *r, const int *index, const NcclCall *c,
                   int64_t first, char *to)
{
    int64_t bytes = nccl_type_bytes(c->type);
    for (int term = 0, begin = first_term(r); term < r->nranks; term++) {
        int k = (begin + term) % r->nranks;
        const char *from = nccl_outbox(r, k) +
                           nccl_member(r, k)->call[index[k]].at + first * bytes;
        if (term == 0)
            memcpy(to, from, (size_t)(c->count * bytes));
        else if (c->type == NCCL_F32 && c->op == NCCL_SUM)
            sum_f32((float *)(void *)to, (const float *)(const void *)from,
                    c->count);
        else
            for (int64_t i = 0; i < c->count; i++)
                put(c->type, to, i, combine(c->op, get(c->type, to, i),
                                            get(c->type, from, i)));
    }
    for (int64_t i = 0; c->op == NCCL_AVG && i < c->count; i++)
        put(c->type, to, i, get(c->type, to, i) / r->nranks);
}

/* ---- results ---- */

static const char *given(const NcclShared *r, int rank, int call)
{
    return nccl_outbox(r, rank) + nccl_member(r, rank)->call[call].at;
}

/* Receives a collective; index[k] is this call on rank k. */
static void take_collective(const NcclShared *r, const int *index,
                            const NcclPost *p)
{
    const NcclCall *c = &p->call;
    int64_t bytes = c->count * nccl_type_bytes(c->type);
    char *to = p->recv;
    switch (c->kind) {
    case NCCL_ALL_GATHER:
        for (int k = 0; k < r->nranks; k++)
            memcpy(to + k * bytes, given(r, k, index[k]), (size_t)bytes);
        break;
    case NCCL_REDUCE_SCATTER: reduce(r, index, c, r->rank * c->count, to); break;
    case NCCL_ALL_REDUCE: reduce(r, index, c, 0, to); break;
    case NCCL_BROADCAST:
        memcpy(to, given(r, c->peer, index[c->peer]), (size_t)bytes);
        break;
    case NCCL_REDUCE:
        if (c->peer == r->rank)
            reduce(r, index, c, 0, to);
        break;
    case NCCL_SEND:
    case NCCL_RECV:
    case NCCL_KINDS: break;
    }
}

/* Whether the rank's send buffers are unchanged since they were copied. */
static bool is_unchanged(const NcclShared *r, const NcclPlan *p)
{
    for (int i = 0; i < p->n; i++) {
        int64_t bytes = nccl_send_bytes(&p->post[i].call, r->rank, r->nranks);
        if (bytes && memcmp(given(r, r->rank, i), p->post[i].send,
                            (size_t)bytes) != 0) {
            standin_error("NCCL: what rank %d gave to %s of %lld elements "
                          "changed before that had ended", r->rank,
                          nccl_kind_name[p->post[i].call.kind],
                          (long long)p->post[i].call.count);
            return false;
        }
    }
    return true;
}

bool nccl_take(const NcclShared *r, const NcclPlan *p)
{
    int index[NCCL_MAX_RANKS], sent[NCCL_MAX_RANKS];
    if (!is_unchanged(r, p))
        return false;
    for (int k = 0; k < r->nranks; k++)
        index[k] = sent[k] = -1;
    for (int i = 0; i < p->n; i++) {
        const NcclCall *c = &p->post[i].call;
        if (c->kind == NCCL_RECV) {
            int k = c->peer;
            sent[k] =
                next_call(nccl_member(r, k), sent[k] + 1, NCCL_SEND, r->rank);
            memcpy(p->post[i].recv, given(r, k, sent[k]),
                   (size_t)(c->count * nccl_type_bytes(c->type)));
        } else if (c->kind != NCCL_SEND) {
            for (int k = 0; k < r->nranks; k++)
                index[k] =
                    next_call(nccl_member(r, k), index[k] + 1, NCCL_KINDS, 0);
            take_collective(r, index, &p->post[i]);
        }
    }
    return true;
}
