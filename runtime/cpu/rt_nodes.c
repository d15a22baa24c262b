/* rt_nodes.c: implements collectives whose groups have ranks on several nodes.
 *
 * A rank reads the arenas of its peers on the same node in place, and exchanges
 * messages with the others (ParcTransport). The ranks of a group are numbered in
 * the same way on all nodes, and every element is summed in this order: the
 * result has the same bits as on one node.
 *
 *   group {0, 1, 2, 3} on nodes {0, 1} and {2, 3}; reduce-scatter on rank 1
 *     sends to 2 and 3 their parts of its tensor
 *     receives from 2 and 3 their addends of its own part
 *     adds: arena of 0, own arena, message of 2, message of 3
 *
 * A message has at most CHUNK bytes. For each member of the group on another node
 * a collective allocates two buffers of CHUNK bytes outside the arena; the
 * execution plan does not count them.
 */
#include "cpu/rt_nodes.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/message.h"
#include "common/type.h"
#include "cpu/rt_sum.h"

/* TRANSFER_TAG: of transfers; no collective of a program has so high a number. */
enum { CHUNK = 1 << 18, TAGS = 32768, TRANSFER_TAG = TAGS - 64,
       LARGEST = 1 << 30, LONGEST_WAIT = 1, LOOK_NS = 20000 };

/* Bytes that are one message: n[0] x n[1] rows of `row` bytes, in this order. */
typedef struct Rows {
    char *base;
    int64_t row, n[2], stride[2];
} Rows;

static int64_t rows_bytes(const Rows *r)
{
    return r->row * r->n[0] * r->n[1];
}

/* Copies bytes [at, at+n) of the rows. `out`: from the rows to the buffer; else
 * from the buffer to the rows. */
static void move_rows(const Rows *r, int64_t at, int64_t n, char *buffer,
                      bool out)
{
    while (n > 0) {
        int64_t number = at / r->row, within = at % r->row;
        int64_t bytes = rt_least(n, r->row - within);
        char *here = r->base + number / r->n[1] * r->stride[0] +
                     number % r->n[1] * r->stride[1] + within;
        memcpy(out ? buffer : here, out ? here : buffer, (size_t)bytes);
        buffer += bytes;
        at += bytes;
        n -= bytes;
    }
}

/* ---- the exchange -------------------------------------------------------- */

/* The messages of a rank with the other nodes' ranks of a group. Arrays have one
 * entry for each member. */
typedef struct Exchange {
    ParcRt *rt;
    const RtGroup *group;
    int id;
    uint32_t axes;
    Rows *send, *receive; /* `receive` of copies, not of sums */
    int64_t *expected; /* bytes that arrive */
    char **out, **in;  /* buffers of CHUNK bytes; NULL: a rank of this node */
    ParcMessage *message;
    double left, last; /* seconds that the wait may take; when they were counted */
} Exchange;

/* Processes the bytes from offset `at` of every message; those of member j are
 * in x->in[j]. */
typedef void Consume(Exchange *x, void *context, int64_t at);

/* Whether member j is on another node. */
static bool is_remote(const Exchange *x, int j)
{
    return x->in[j] != NULL;
}

static bool is_here(const ParcRt *rt, int rank)
{
    return rt_is_mapped(rt->world, rank);
}

bool rt_group_leaves_node(const ParcRt *rt, uint32_t axes)
{
    const RtGroup *g = &rt->group[axes];
    for (int j = 0; rt->model->transport && j < g->n; j++)
        if (!is_here(rt, g->member[j]))
            return true;
    return false;
}

static void open_exchange(Exchange *x, ParcRt *rt, int id, uint32_t axes)
{
    const RtGroup *g = &rt->group[axes];
    size_t n = (size_t)g->n;
    *x = (Exchange){.rt = rt, .group = g, .id = id, .axes = axes,
                    .send = rt_allocate(n * sizeof *x->send),
                    .receive = rt_allocate(n * sizeof *x->receive),
                    .expected = rt_allocate(n * sizeof *x->expected),
                    .out = rt_allocate(n * sizeof *x->out),
                    .in = rt_allocate(n * sizeof *x->in),
                    .message = rt_allocate(2 * n * sizeof *x->message)};
    for (size_t j = 0; j < n; j++)
        if (!is_here(rt, g->member[j])) {
            x->out[j] = rt_allocate(CHUNK);
            x->in[j] = rt_allocate(CHUNK);
        }
}

static void close_exchange(Exchange *x)
{
    for (int j = 0; j < x->group->n; j++) {
        free(x->out[j]);
        free(x->in[j]);
    }
    free(x->send);
    free(x->receive);
    free(x->expected);
    free(x->out);
    free(x->in);
    free(x->message);
}

static int64_t bytes_at(int64_t all, int64_t at)
{
    int64_t left = all - at;
    return left < 0 ? 0 : rt_least(left, CHUNK);
}

/* In seconds: how much longer than a wait inside a node one for other nodes may last,
 * so that the rank that shares memory with the late one reports it first. */
enum { AFTER_NODES = 1 };

/* Counts a second at most: while the run is stopped the limit does not
 * approach. */
static void wait_for_peers(void *context)
{
    Exchange *x = context;
    char text[RT_LATE];
    double now = rt_now(), waited = now - x->last;
    x->last = now;
    x->left -= waited < LONGEST_WAIT ? waited : LONGEST_WAIT;
    if (x->left <= 0) {
        rt_states_gather(x->rt);
        rt_fail(x->rt, "%s",
                rt_late_text(x->rt->world, x->rt->rank, -1, text));
    }
    if (x->rt->world->crowded) /* the peer may need this core */
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    else
        sched_yield();
}

/* Exchanges the messages at offset `at`. The first exchange also sends empty
 * ones: no rank goes on before all others have begun. */
static void exchange_at(Exchange *x, int64_t at)
{
    const ParcTransport *t = x->rt->model->transport;
    ParcMessage *send = x->message, *receive = x->message + x->group->n;
    int nsend = 0, nreceive = 0;
    for (int j = 0; j < x->group->n; j++) {
        if (!is_remote(x, j))
            continue;
        int64_t out = bytes_at(rows_bytes(&x->send[j]), at);
        int64_t in = bytes_at(x->expected[j], at);
        move_rows(&x->send[j], at, out, x->out[j], true);
        if (out > 0 || at == 0)
            send[nsend++] = (ParcMessage){x->group->member[j], x->out[j],
                                          (size_t)out};
        if (in > 0 || at == 0)
            receive[nreceive++] = (ParcMessage){x->group->member[j], x->in[j],
                                                (size_t)in};
    }
    RtStatus *status = &x->rt->world->status[x->rt->rank];
    x->left = x->rt->world->timeout_seconds + AFTER_NODES;
    x->last = rt_now();
    atomic_store(&status->exchange, x->axes + 1);
    if (!t->exchange(send, nsend, receive, nreceive, (x->id + TAGS) % TAGS,
                     wait_for_peers, x))
        rt_fail(x->rt, "%s reports an error in '%s'", t->name,
                rt_collective_name(x->rt->model, x->id));
    atomic_store(&status->exchange, 0);
}

static void exchange(Exchange *x, Consume *consume, void *context)
{
    int64_t most = 0;
    for (int j = 0; j < x->group->n; j++) {
        int64_t out = is_remote(x, j) ? rows_bytes(&x->send[j]) : 0;
        most = most > out ? most : out;
        most = most > x->expected[j] ? most : x->expected[j];
    }
    for (int64_t at = 0; at == 0 || at < most; at += CHUNK) {
        exchange_at(x, at);
        consume(x, context, at);
    }
}

/* ---- copies -------------------------------------------------------------- */

static void put_rows(Exchange *x, void *context, int64_t at)
{
    (void)context;
    for (int j = 0; j < x->group->n; j++)
        if (is_remote(x, j))
            move_rows(&x->receive[j], at, bytes_at(x->expected[j], at),
                      x->in[j], false);
}

/* Sends x->send, and stores what arrives in x->receive. */
static void copy_rows(Exchange *x)
{
    for (int j = 0; j < x->group->n; j++)
        x->expected[j] = is_remote(x, j) ? rows_bytes(&x->receive[j]) : 0;
    exchange(x, put_rows, NULL);
}

/* The rows of member j of k in the full tensor. */
static Rows whole_rows(char *base, const ParcPart *p, int k, int j)
{
    int64_t size = rt_type_size(p->type), first = rt_piece_begin(p, k, j, 0) * size;
    return (Rows){base + first, rt_valid_run(p, j) / rt_part_pieces(p) * size,
                  {p->outer, rt_part_pieces(p)},
                  {rt_whole_row(p, k) * size, rt_piece_begin(p, k, j, 1) * size - first}};
}

void rt_nodes_all_gather(ParcRt *rt, int id, uint32_t axes,
                         const ParcPart *part)
{
    Exchange x;
    open_exchange(&x, rt, id, axes);
    const RtGroup *g = x.group;
    int64_t size = rt_type_size(part->type), row = rt_whole_row(part, g->n);
    int64_t run = part->inner * size;
    for (int j = 0; j < g->n; j++) {
        x.send[j] = (Rows){
            rt->arena + part->src + (part->inside ? g->index * run : 0),
            rt_valid_run(part, g->index) * size, {part->outer, 1},
            {part->inside ? row * size : run, 0}};
        x.receive[j] = whole_rows(rt->arena + part->dst, part, g->n, j);
    }
    copy_rows(&x);
    close_exchange(&x);
}

void rt_nodes_all_to_all(ParcRt *rt, int id, uint32_t axes, const ParcPart *part)
{
    Exchange x;
    open_exchange(&x, rt, id, axes);
    const RtGroup *g = x.group;
    int64_t row = part->inner * rt_type_size(part->type), k = g->n;
    int64_t block = part->middle * row;
    bool minor = part->minor;
    for (int j = 0; j < g->n; j++) {
        int64_t step[] = {row, block}; /* from one rank's data to the next's */
        int64_t stride[] = {k * row, row};
        x.send[j] = (Rows){rt->arena + part->src + j * step[!minor], row,
                           {part->outer, part->middle},
                           {k * block, stride[!minor]}};
        x.receive[j] = (Rows){rt->arena + part->dst + j * step[minor], row,
                              {part->outer, part->middle},
                              {k * block, stride[minor]}};
    }
    copy_rows(&x);
    close_exchange(&x);
}

void rt_nodes_shift(ParcRt *rt, int id, uint32_t axes, const ParcPart *part)
{
    Exchange x;
    open_exchange(&x, rt, id, axes);
    const RtGroup *g = x.group;
    const Rows all = {NULL, part->inner * rt_type_size(part->type), {part->outer, 1},
                      {part->inner * rt_type_size(part->type), 0}};
    int to = (g->index + 1) % g->n, from = (g->index + g->n - 1) % g->n;
    x.send[to] = all;
    x.send[to].base = rt->arena + part->src;
    x.receive[from] = all;
    x.receive[from].base = rt->arena + part->dst;
    copy_rows(&x);
    close_exchange(&x);
}

/* ---- sums ---------------------------------------------------------------- */

/* A rank's part of a tensor that is summed: `outer` rows, of each the elements
 * [begin, begin+n). */
typedef struct Sum {
    const ParcPart *part;
    ParcReduce op;
    int64_t outer, row_stride; /* rows, and elements from one to the next */
    int64_t begin, n;
    int64_t piece, second; /* of two pieces: the length, where the second begins */
    int64_t to, to_stride; /* the sums' byte offset in an arena; elements from
                              one row to the next */
    bool everywhere;       /* they are stored in all arenas of this node */
} Sum;

static void store_sum(Exchange *x, const Sum *s, int64_t at, const float *sum,
                      int64_t n)
{
    ParcType type = s->part->type;
    for (int j = 0; j < x->group->n; j++) {
        int rank = x->group->member[j];
        if (rank == x->rt->rank || (s->everywhere && !is_remote(x, j)))
            rt_narrow(type,
                      rt_element_out(type, rt_peer(x->rt, rank) + s->to, at),
                      sum, n);
    }
}

/* Adds elements [i, i+n) of row o. `arrived`: how many of the part's elements
 * precede those in the buffers. */
static void sum_run(Exchange *x, const Sum *s, int64_t o, int64_t i, int64_t n,
                    int64_t arrived)
{
    ParcType type = s->part->type;
    float sum[RT_SUM_TILE];
    int64_t begin = s->piece && i >= s->piece ? s->second - s->piece : s->begin;
    for (int j = 0; j < x->group->n; j++) {
        const void *from =
            is_remote(x, j)
                ? rt_element(type, x->in[j], o * s->n + i - arrived)
                : rt_element(type, rt_peer(x->rt, x->group->member[j]) +
                                       s->part->src,
                             o * s->row_stride + begin + i);
        rt_add_tile(sum, type, from, j == 0, n, s->op);
    }
    store_sum(x, s, o * s->to_stride + i, sum, n);
}

static void add_parts(Exchange *x, void *context, int64_t at)
{
    const Sum *s = context;
    int64_t size = rt_type_size(s->part->type);
    int64_t begin = at / size, end = rt_least(begin + CHUNK / size,
                                              s->outer * s->n);
    for (int64_t e = begin, n; e < end; e += n) {
        int64_t i = e % s->n, left = (i < s->piece ? s->piece : s->n) - i;
        n = rt_least(rt_least(left, RT_SUM_TILE), end - e);
        sum_run(x, s, e / s->n, i, n, begin);
    }
}

/* Sums the rank's own part; x->send has what the others sum. */
static void sum_part(Exchange *x, Sum *s)
{
    for (int j = 0; j < x->group->n; j++)
        x->expected[j] =
            is_remote(x, j) ? s->outer * s->n * rt_type_size(s->part->type) : 0;
    int64_t own = s->outer * s->n * rt_type_size(s->part->type);
    x->expected[x->group->index] = own; /* the length of the exchange */
    exchange(x, add_parts, s);
}

void rt_nodes_reduce_scatter(ParcRt *rt, int id, uint32_t axes,
                             const ParcPart *part)
{
    Exchange x;
    open_exchange(&x, rt, id, axes);
    const RtGroup *g = x.group;
    int64_t size = rt_type_size(part->type), row = rt_whole_row(part, g->n);
    for (int j = 0; j < g->n; j++)
        x.send[j] = whole_rows(rt->arena + part->src, part, g->n, j);
    Sum s = {.part = part, .op = PARC_SUM, .outer = part->outer, .row_stride = row,
             .begin = rt_piece_begin(part, g->n, g->index, 0),
             .n = rt_valid_run(part, g->index), .to = part->dst, .to_stride = part->inner};
    if (part->zigzag) {
        s.piece = s.n / 2;
        s.second = rt_piece_begin(part, g->n, g->index, 1);
    }
    sum_part(&x, &s);
    close_exchange(&x);
    for (int64_t o = 0; s.n < part->inner && o < part->outer; o++)
        memset(rt->arena + part->dst + (o * part->inner + s.n) * size, 0,
               (size_t)((part->inner - s.n) * size));
}

/* The elements of an all-reduce that member j sums. */
static void slice_of(const RtGroup *g, const ParcPart *part, int j,
                     int64_t *begin, int64_t *n)
{
    int64_t count = part->outer * part->inner;
    int64_t slice = rt_sum_slice(count, g->n);
    *begin = rt_least(count, slice * j);
    *n = rt_least(count, *begin + slice) - *begin;
}

static Rows slice_rows(char *base, const RtGroup *g, const ParcPart *part, int j)
{
    int64_t begin, n, size = rt_type_size(part->type);
    slice_of(g, part, j, &begin, &n);
    return (Rows){base + begin * size, n * size, {1, 1}, {0, 0}};
}

/* Each rank sums a slice and sends it to all; those of its node have the sums in
 * place. Slices of the result may be stored over those of the operand: a rank's
 * sums arrive when it has received all addends. */
void rt_nodes_all_reduce(ParcRt *rt, int id, uint32_t axes, ParcReduce op,
                         const ParcPart *part)
{
    Exchange x;
    open_exchange(&x, rt, id, axes);
    const RtGroup *g = x.group;
    Sum s = {.part = part, .op = op, .outer = 1, .everywhere = true};
    slice_of(g, part, g->index, &s.begin, &s.n);
    s.to = part->dst + s.begin * rt_type_size(part->type);
    for (int j = 0; j < g->n; j++)
        x.send[j] = slice_rows(rt->arena + part->src, g, part, j);
    sum_part(&x, &s);
    for (int j = 0; j < g->n; j++) {
        x.send[j] = slice_rows(rt->arena + part->dst, g, part, g->index);
        x.receive[j] = slice_rows(rt->arena + part->dst, g, part, j);
    }
    copy_rows(&x);
    close_exchange(&x);
}

/* ---- transfers ----------------------------------------------------------- */

void rt_nodes_transfer(ParcRt *rt, int id, uint32_t axes, int rank, bool send,
                       int64_t offset, int64_t bytes)
{
    const ParcTransport *t = rt->model->transport;
    RtStatus *status = &rt->world->status[rt->rank];
    Exchange x = {.rt = rt, .id = id, .axes = axes,
                  .left = rt->world->timeout_seconds + AFTER_NODES,
                  .last = rt_now()};
    atomic_store(&status->exchange, axes + 1);
    for (int64_t at = 0; at < bytes; at += LARGEST) {
        ParcMessage m = {rank, rt->arena + offset + at,
                         (size_t)rt_least(LARGEST, bytes - at)};
        if (!t->exchange(&m, send, &m, !send, TRANSFER_TAG, wait_for_peers, &x))
            rt_fail(rt, "%s reports an error in '%s'", t->name,
                    rt_collective_name(rt->model, id));
    }
    atomic_store(&status->exchange, 0);
}
