/* loopback.c: implements NCCL's calls (libnccl.so.2) for ranks that share one
 * GPU, which NCCL itself refuses. For tests only: the host copies and adds the
 * data, so it is slow.
 *
 * It is linked with these files of tests/standin: nccl.c (communicators,
 * groups), nccl_shared.c (memory that ranks share) and nccl_move.c (the data of
 * a group). A group of NCCL calls becomes rounds on its stream. A round moves
 * at most as many bytes as the staging buffers hold, one for input and one for
 * output, both in pinned memory:
 *
 *   copies from the device to the input buffer; a host function that waits for
 *   the peers and writes this rank's results to the output buffer; copies from
 *   there to the device
 *
 * All ranks split calls into the same rounds, since the split depends only on
 * values that are equal on all of them. The calls can be captured: each replay
 * of a graph continues the count of rounds.
 *
 * The driver may run host functions of all streams on one thread, one after
 * another. Two ranks whose functions wait for each other in different orders
 * would then hang. Therefore each group waits, by an event, for the previously
 * called group, on any stream: all ranks call groups in one order. Hence only
 * one group at a time uses the staging buffers.
 *
 * STANDIN_LIMIT is the number of seconds that a group waits for its peers (60),
 * LOOPBACK_STAGE the maximum bytes of a round (32 MiB). A group that fails
 * leaves its results unwritten and its communicator in an error state.
 */
#include <pthread.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <time.h>

#include "driver.h"
#include "engine.h"
#include "nccl_back.h"

enum { ALIGN = 256, STAGE = 32 << 20, LEAST_STAGE = 16 * NCCL_MAX_RANKS };

static struct {
    pthread_mutex_t lock;
    Driver cu;
    bool is_open, is_begun;
    int64_t stage_bytes;
    char *in, *out; /* staging buffers */
    CuEvent last;   /* recorded after the group that was called last */
    uint64_t last_capture;
} loopback = {.lock = PTHREAD_MUTEX_INITIALIZER};

void nccl_back_lock(void)
{
    pthread_mutex_lock(&loopback.lock);
}

void nccl_back_unlock(void)
{
    pthread_mutex_unlock(&loopback.lock);
}

void standin_error(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("loopback: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- execution of a round ---- */

typedef struct Round {
    Comm *comm;
    const NcclPlan *plan; /* its addresses are in the staging buffers */
} Round;

/* Waits until all ranks of the communicator have posted round `round` (with
 * `done`: have ended it); false, with c->error set, after the time limit. */
static bool synchronize(const Round *r, uint64_t round, bool done,
                        const char *what)
{
    Comm *c = r->comm;
    double since = nccl_now();
    for (int i = 0; i < c->shared.nranks; i++) {
        const NcclMember *b = nccl_member(&c->shared, i);
        while (atomic_load(done ? &b->done : &b->posted) < round) {
            double waited = nccl_now() - since;
            if (c->error)
                return false;
            if (waited > nccl_limit()) {
                c->error = nccl_late(c, r->plan, round, waited, what, i);
                return false;
            }
            nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        }
    }
    return true;
}

static void run_round(void *with)
{
    const Round *r = with;
    Comm *c = r->comm;
    uint64_t round = ++c->queued;
    c->begun = round;
    if (c->error || !synchronize(r, round - 1, true, "end the group before"))
        return;
    nccl_give(&c->shared, r->plan, round);
    if (!synchronize(r, round, false, "come"))
        return;
    if (nccl_agree(&c->shared, r->plan) && nccl_take(&c->shared, r->plan))
        atomic_store(&nccl_member(&c->shared, c->shared.rank)->done, round);
    else
        c->error = INVALID_USAGE;
}

/* ---- splitting calls into rounds ---- */

typedef struct Piece {
    NcclPost post;  /* addresses in the staging buffers, and the piece's count */
    const NcclPost *whole;
    int64_t first; /* its first element in the call */
} Piece;

typedef struct Builder {
    Comm *comm;
    CuStream stream;
    int n;
    int64_t in, out; /* bytes of the staging buffers that are in use */
    Piece piece[NCCL_MAX_CALLS];
} Builder;

#define TRY(call)                                                              \
    do {                                                                       \
        CuResult result_ = loopback.cu.call;                                   \
        if (result_ != RT_CU_SUCCESS)                                          \
            return result_;                                                    \
    } while (0)

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Copies the parts of a piece, one for each rank, between device and staging
 * buffer. On the device they are the call's whole count apart, in the buffer
 * contiguous. */
static CuResult copy_parts(const Builder *b, const Piece *p, bool to_stage)
{
    const NcclCall *c = &p->post.call;
    int64_t size = nccl_type_bytes(c->type), run = c->count * size;
    int64_t all =
        to_stage
            ? nccl_send_bytes(c, b->comm->shared.rank, b->comm->shared.nranks)
            : nccl_recv_bytes(c, b->comm->shared.rank, b->comm->shared.nranks);
    for (int64_t at = 0, k = 0; at < all; at += run, k++) {
        int64_t offset = (k * p->whole->call.count + p->first) * size;
        if (to_stage)
            TRY(cuMemcpyDtoHAsync(
                (char *)(uintptr_t)p->post.send + at,
                (CuAddress)(uintptr_t)p->whole->send + (CuAddress)offset,
                (size_t)run, b->stream));
        else
            TRY(cuMemcpyHtoDAsync(
                (CuAddress)(uintptr_t)p->whole->recv + (CuAddress)offset,
                (char *)p->post.recv + at, (size_t)run, b->stream));
    }
    return RT_CU_SUCCESS;
}

/* Ends a round with the pieces so far. */
static CuResult end_round(Builder *b)
{
    if (b->n == 0)
        return RT_CU_SUCCESS;
    NcclPlan *plan = malloc(sizeof *plan + (size_t)b->n * sizeof *plan->post +
                            sizeof(Round));
    plan->n = b->n;
    for (int i = 0; i < b->n; i++)
        plan->post[i] = b->piece[i].post;
    Round *r = (Round *)(void *)&plan->post[b->n];
    *r = (Round){b->comm, plan};
    nccl_keep(b->comm, plan);
    TRY(cuLaunchHostFunc(b->stream, run_round, r));
    for (int i = 0; i < b->n; i++) {
        CuResult e = copy_parts(b, &b->piece[i], false);
        if (e)
            return e;
    }
    b->n = 0;
    b->in = b->out = 0;
    return RT_CU_SUCCESS;
}

/* The largest number of staging bytes that `count` elements take on any
 * rank. */
static int64_t most_bytes(const Builder *b, const NcclCall *c, int64_t count)
{
    return aligned(count * nccl_type_bytes(c->type) * b->comm->shared.nranks);
}

static CuResult add_piece(Builder *b, const NcclPost *whole, int64_t first,
                          int64_t count)
{
    int rank = b->comm->shared.rank, nranks = b->comm->shared.nranks;
    Piece *p = &b->piece[b->n];
    *p = (Piece){{whole->call, loopback.in + b->in, loopback.out + b->out},
                 whole, first};
    p->post.call.count = count;
    b->n++;
    b->in += aligned(nccl_send_bytes(&p->post.call, rank, nranks));
    b->out += aligned(nccl_recv_bytes(&p->post.call, rank, nranks));
    return copy_parts(b, p, true);
}

/* Queues collectives one after another. All ranks split them alike, since they
 * make the same calls, and the size of a piece is its largest on any rank. */
static CuResult queue_collectives(Builder *b, const NcclPlan *plan)
{
    int64_t taken = 0;
    for (int i = 0; i < plan->n; i++) {
        const NcclPost *p = &plan->post[i];
        if (p->call.kind == NCCL_SEND || p->call.kind == NCCL_RECV)
            continue;
        int64_t most = loopback.stage_bytes /
                       (nccl_type_bytes(p->call.type) * b->comm->shared.nranks);
        for (int64_t at = 0, n; at < p->call.count; at += n) {
            n = p->call.count - at < most ? p->call.count - at : most;
            int64_t bytes = most_bytes(b, &p->call, n);
            if (taken + bytes > loopback.stage_bytes ||
                b->n == NCCL_MAX_CALLS) {
                CuResult e = end_round(b);
                if (e)
                    return e;
                taken = 0;
            }
            CuResult e = add_piece(b, p, at, n);
            if (e)
                return e;
            taken += bytes;
        }
    }
    return end_round(b);
}

/* The index of a call among the rank's sends to (or receives from) its peer. */
static int round_of(const NcclPlan *plan, int i)
{
    const NcclCall *c = &plan->post[i].call;
    int n = 0;
    for (int k = 0; k < i; k++)
        n += plan->post[k].call.kind == c->kind &&
             plan->post[k].call.peer == c->peer;
    return n;
}

/* Queues sends and receives: the first piece of the first call between each two
 * ranks, then the second, and so on. The number of rounds is equal on all ranks
 * if they make similar calls (as in an all_to_all); other ranks get an error
 * about a peer that did not arrive. */
static CuResult queue_pairs(Builder *b, const NcclPlan *plan)
{
    int64_t most = loopback.stage_bytes / b->comm->shared.nranks / 16 * 16;
    bool more = true;
    for (int round = 0; more; round++) {
        int64_t left = 1;
        more = false;
        for (int64_t at = 0; left > 0; at += most) {
            left = 0;
            for (int i = 0; i < plan->n; i++) {
                const NcclPost *p = &plan->post[i];
                if (p->call.kind != NCCL_SEND && p->call.kind != NCCL_RECV)
                    continue;
                int of = round_of(plan, i);
                int64_t size = nccl_type_bytes(p->call.type);
                int64_t n = p->call.count - at / size;
                more |= of > round;
                if (of != round || n <= 0)
                    continue;
                n = n < most / size ? n : most / size;
                CuResult e = add_piece(b, p, at / size, n);
                if (e)
                    return e;
                left += p->call.count - at / size - n;
            }
            CuResult e = end_round(b);
            if (e)
                return e;
        }
    }
    return RT_CU_SUCCESS;
}

/* ---- groups ---- */

static char *stage(void)
{
    void *at = mmap(NULL, (size_t)loopback.stage_bytes + ALIGN * NCCL_MAX_CALLS,
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static CuResult open_stages(void)
{
    const char *text = getenv("LOOPBACK_STAGE");
    int64_t bytes = text ? strtoll(text, NULL, 10) : STAGE;
    loopback.stage_bytes =
        aligned(bytes < LEAST_STAGE ? LEAST_STAGE : bytes);
    driver_open(&loopback.cu, "loopback");
    char **const to[] = {&loopback.in, &loopback.out};
    for (int i = 0; i < 2; i++) {
        *to[i] = stage();
        if (!*to[i])
            return RT_CU_OUT_OF_MEMORY;
        TRY(cuMemHostRegister(*to[i], (size_t)loopback.stage_bytes +
                                          ALIGN * NCCL_MAX_CALLS, 0));
    }
    TRY(cuEventCreate(&loopback.last, RT_CU_EVENT_DISABLE_TIMING));
    loopback.is_open = true;
    return RT_CU_SUCCESS;
}

/* Orders the stream after the previous group, unless only one of the two is
 * captured, or they are captured separately: then the program must have ordered
 * the graph. */
static CuResult follow(CuStream stream, uint64_t *capture)
{
    CuCaptureStatus state = 0;
    *capture = 0;
    TRY(cuStreamGetCaptureInfo(stream, &state, capture, NULL, NULL, NULL));
    *capture = state ? *capture : 0;
    if (loopback.is_begun && loopback.last_capture == *capture)
        TRY(cuStreamWaitEvent(stream, loopback.last, 0));
    return RT_CU_SUCCESS;
}

void nccl_back_close(Comm *c)
{
    (void)c;
}

CuResult nccl_back_queue(Comm *c, const NcclPlan *plan, CuStream stream)
{
    uint64_t capture;
    CuResult e = loopback.is_open ? RT_CU_SUCCESS : open_stages();
    e = e ? e : follow(stream, &capture);
    if (e)
        return e;
    Builder *b = malloc(sizeof *b);
    b->comm = c;
    b->stream = stream;
    b->n = 0;
    b->in = b->out = 0;
    e = queue_collectives(b, plan);
    e = e ? e : queue_pairs(b, plan);
    free(b);
    if (e)
        return e;
    TRY(cuEventRecord(loopback.last, stream));
    loopback.is_begun = true;
    loopback.last_capture = capture;
    return RT_CU_SUCCESS;
}
