/* nccl_test.c: tests the stand-in NCCL across processes: collectives of every
 * kind, in place and not, eager and in a graph, in every order of queued work;
 * and calls that must be refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nccl_calls.h"
#include "parc_math.h"

#define CALL(result, name, suffix, arguments)                                  \
    result name arguments __asm__(#name #suffix);
#include "cuda/api/calls_driver.h"

enum { RANKS = 4, N = 96 };

typedef struct Rank {
    int rank;
    Comm *all, *pair; /* pair: ranks 0, 2 and 1, 3 */
    CuStream stream[2];
    CuEvent event[2];
    float *x, *y;   /* device memory, which the host can read */
    uint16_t *half;
    int wrong;
} Rank;

/* Ids that rank 0 creates before it forks the ranks. */
static UniqueId *ids;

static void must(int r, const char *what)
{
    if (r) {
        fprintf(stderr, "%s: error %d\n", what, r);
        exit(3);
    }
}
#define MUST(call) must((int)(call), #call)

static void *device(size_t bytes)
{
    CuAddress at;
    MUST(cuMemAlloc(&at, bytes));
    return (void *)(uintptr_t)at;
}

static void open_rank(Rank *r)
{
    CuContext context;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&context, r->rank));
    MUST(cuCtxSetCurrent(context));
    for (int i = 0; i < 2; i++) {
        MUST(cuStreamCreateWithPriority(&r->stream[i], 1, 0));
        MUST(cuEventCreate(&r->event[i], 2));
    }
    MUST(ncclCommInitRank(&r->all, RANKS, ids[0], r->rank));
    MUST(ncclCommSplit(r->all, r->rank % 2, r->rank, &r->pair, NULL));
    r->x = device(N * RANKS * 4);
    r->y = device(N * RANKS * 4);
    r->half = device(N * 2);
    for (int i = 0; i < N * RANKS; i++)
        r->x[i] = (float)(r->rank * 100 + i);
    for (int i = 0; i < N; i++)
        r->half[i] = parc_to_bf16((float)(r->rank + i));
}

static bool failed(Comm *c)
{
    Result error = SUCCESS;
    MUST(ncclCommGetAsyncError(c, &error));
    return error != SUCCESS;
}

static int finish(Rank *r)
{
    for (int i = 0; i < 2; i++) {
        CuResult s;
        while ((s = cuStreamQuery(r->stream[i])) == RT_CU_NOT_READY) {
        }
        if (s)
            return 2;
    }
    return failed(r->all) || failed(r->pair) ? 2 : 0;
}

static void expect(Rank *r, const char *what, const float *got, int n,
                   float (*of)(int rank, int i))
{
    for (int i = 0; i < n; i++)
        if (got[i] != of(r->rank, i)) {
            fprintf(stderr, "rank %d: %s: element %d is %g, not %g\n",
                    r->rank, what, i, (double)got[i],
                    (double)of(r->rank, i));
            r->wrong = 1;
            return;
        }
}

static float sum(int rank, int i)
{
    (void)rank;
    return (float)(600 + 4 * i);
}

static float gathered(int rank, int i)
{
    (void)rank;
    return (float)(i / N * 100 + i % N);
}

static float scattered(int rank, int i)
{
    return sum(0, rank * N + i);
}

static float doubled(int rank, int i)
{
    return scattered(rank, i) + scattered((rank + 2) % RANKS, i);
}

static float exchanged(int rank, int i)
{
    return (float)(i / N * 100 + rank * N + i % N);
}

/* Sums x into y; each rank's run of the sums in place; and, on another
 * communicator and stream, the sums of two ranks' runs. */
static void queue_sums(Rank *r)
{
    CuStream s = r->stream[0], t = r->stream[1];
    float *own = r->y + r->rank * N;
    MUST(cuEventRecord(r->event[0], s));
    MUST(cuStreamWaitEvent(t, r->event[0], 0));
    MUST(ncclReduceScatter(r->x, own, N, NCCL_F32, NCCL_SUM, r->all, s));
    MUST(cuEventRecord(r->event[0], s));
    MUST(cuStreamWaitEvent(t, r->event[0], 0));
    MUST(ncclAllReduce(own, own, N, NCCL_F32, NCCL_SUM, r->pair, t));
    MUST(cuEventRecord(r->event[1], t));
    MUST(cuStreamWaitEvent(s, r->event[1], 0));
}

static int plain(Rank *r)
{
    CuStream s = r->stream[0];
    float *own = r->y + r->rank * N;
    MUST(ncclAllReduce(r->x, r->y, N * RANKS, NCCL_F32, NCCL_SUM, r->all, s));
    finish(r);
    expect(r, "all_reduce", r->y, N * RANKS, sum);
    memcpy(own, r->x, N * 4);
    MUST(ncclAllGather(own, r->y, N, NCCL_F32, r->all, s));
    finish(r);
    expect(r, "all_gather", r->y, N * RANKS, gathered);
    MUST(ncclReduceScatter(r->x, own, N, NCCL_F32, NCCL_SUM, r->all, s));
    finish(r);
    expect(r, "reduce_scatter", own, N, scattered);
    queue_sums(r);
    finish(r);
    expect(r, "on two streams", own, N, doubled);
    MUST(ncclGroupStart());
    for (int k = 0; k < RANKS; k++) {
        MUST(ncclSend(r->x + k * N, N, NCCL_F32, k, r->all, s));
        MUST(ncclRecv(r->y + k * N, N, NCCL_F32, k, r->all, s));
    }
    MUST(ncclGroupEnd());
    finish(r);
    expect(r, "all_to_all", r->y, N * RANKS, exchanged);
    MUST(ncclAllReduce(r->half, r->half, N, NCCL_BF16, NCCL_MAX, r->all, s));
    MUST(ncclBroadcast(r->x, r->x, N, NCCL_F32, 2, r->all, s));
    finish(r);
    for (int i = 0; i < N; i++)
        if (r->x[i] != 200.0f + (float)i ||
            parc_from_bf16(r->half[i]) != (float)(i + RANKS - 1))
            r->wrong = 1;
    return r->wrong;
}

static int graph(Rank *r)
{
    CuGraph g;
    CuGraphExec x;
    CuStream s = r->stream[0];
    MUST(cuStreamBeginCapture(s, 2));
    queue_sums(r);
    MUST(cuStreamEndCapture(s, &g));
    MUST(cuGraphInstantiate(&x, g, 0));
    for (int round = 0; round < 3; round++) {
        memset(r->y, 0, N * RANKS * 4);
        MUST(cuGraphLaunch(x, s));
        finish(r);
        expect(r, "a graph", r->y + r->rank * N, N, doubled);
    }
    return r->wrong;
}

/* Each rank waits for another stream first; each stream has a collective. */
static int crossed(Rank *r)
{
    CuStream s = r->stream[0], t = r->stream[1];
    CuStream first = r->rank < 2 ? s : t;
    MUST(ncclAllReduce(r->x, r->y, N, NCCL_F32, NCCL_SUM, r->all, s));
    MUST(ncclAllReduce(r->half, r->half, N, NCCL_BF16, NCCL_SUM, r->pair, t));
    while (cuStreamQuery(first) == RT_CU_NOT_READY) {
    }
    return finish(r);
}

static int counts_differ(Rank *r)
{
    ncclAllReduce(r->x, r->y, r->rank == 2 ? N - 1 : N, NCCL_F32, NCCL_SUM,
                  r->all, r->stream[0]);
    return finish(r);
}

static int kinds_differ(Rank *r)
{
    if (r->rank == 1)
        ncclAllGather(r->x, r->y, N, NCCL_F32, r->all, r->stream[0]);
    else
        ncclAllReduce(r->x, r->y, N, NCCL_F32, NCCL_SUM, r->all, r->stream[0]);
    return finish(r);
}

static int one_is_missing(Rank *r)
{
    setenv("STANDIN_LIMIT", "0.2", 1);
    if (r->rank == 3)
        return 2;
    ncclAllReduce(r->x, r->y, N, NCCL_F32, NCCL_SUM, r->all, r->stream[0]);
    return finish(r);
}

static int overlapping(Rank *r)
{
    return ncclAllReduce(r->x, r->x + 1, N, NCCL_F32, NCCL_SUM, r->all,
                         r->stream[0]) ? 2 : 0;
}

static int too_long(Rank *r)
{
    ncclAllReduce(r->x, r->y, N * RANKS + 1, NCCL_F32, NCCL_SUM, r->all,
                  r->stream[0]);
    return finish(r);
}

typedef struct Case {
    const char *name;
    int (*run)(Rank *);
    int expect;
} Case;

static const Case cases[] = {
    {"plain", plain, 0},
    {"graph", graph, 0},
    {"crossed", crossed, 0},
    {"counts that differ", counts_differ, 2},
    {"kinds that differ", kinds_differ, 2},
    {"a rank that is missing", one_is_missing, 2},
    {"overlapping", overlapping, 2},
    {"too long", too_long, 2},
};

/* The common result of all ranks, or -1. */
static int run_ranks(const Case *c, const char *order)
{
    pid_t child[RANKS];
    int result = -2;
    MUST(ncclGetUniqueId(&ids[0]));
    fflush(stdout);
    for (int k = 0; k < RANKS; k++) {
        child[k] = fork();
        if (child[k] == 0) {
            Rank r = {.rank = k};
            setenv("STANDIN_ORDER", order, 1);
            if (c->expect && !freopen("/dev/null", "w", stderr))
                _exit(4);
            open_rank(&r);
            int got = c->run(&r);
            fflush(NULL);
            _exit(got);
        }
    }
    for (int k = 0; k < RANKS; k++) {
        int status;
        waitpid(child[k], &status, 0);
        int got = WIFEXITED(status) ? WEXITSTATUS(status) : 9;
        result = result == -2 || result == got ? got : -1;
    }
    return result;
}

int main(void)
{
    static const char *const order[] = {"early", "late", "ahead", "1", "2"};
    int passed = 0, failed = 0;
    ids = mmap(NULL, sizeof *ids, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
            int got = run_ranks(&cases[i], order[k]);
            bool fine = got == cases[i].expect ||
                        (cases[i].expect == 2 && got == -1);
            passed += fine;
            failed += !fine;
            if (!fine)
                printf("FAILED %s, order %s: %d\n", cases[i].name, order[k],
                       got);
        }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
