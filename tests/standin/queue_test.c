/* queue_test.c: tests the stand-in driver with correct and faulty programs. A
 * correct program computes the same in every order; a program that lacks an
 * event computes something else in one of three orders; misuse is refused.
 *
 *   queue_test KERNELS.so    engine_kernels.cu
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/api/api.h"

#define CALL(result, name, suffix, arguments)                                  \
    result name arguments __asm__(#name #suffix);
#include "cuda/api/calls_driver.h"

enum { N = 256, X = 5, LATER = 7 };

typedef struct Gpu {
    CuContext context;
    CuStream stream[2];
    CuEvent event[2];
    CuAddress x, y;
    float *host;
    CuModule module;
    CuFunction scale;
} Gpu;

static void must(CuResult r, const char *what)
{
    if (r) {
        fprintf(stderr, "%s: error %u\n", what, r);
        exit(3);
    }
}
#define MUST(call) must(call, #call)

static void open_gpu(Gpu *g)
{
    void *host;
    MUST(cuInit(0));
    MUST(cuDevicePrimaryCtxRetain(&g->context, 0));
    MUST(cuCtxSetCurrent(g->context));
    for (int i = 0; i < 2; i++) {
        MUST(cuStreamCreateWithPriority(&g->stream[i],
                                        RT_CU_STREAM_NON_BLOCKING, 0));
        MUST(cuEventCreate(&g->event[i], RT_CU_EVENT_DISABLE_TIMING));
    }
    MUST(cuMemAlloc(&g->x, N * 4));
    MUST(cuMemAlloc(&g->y, N * 4));
    MUST(cuMemHostAlloc(&host, N * 4, RT_CU_HOST_PORTABLE));
    g->host = host;
    MUST(cuModuleLoadDataEx(&g->module, "//\n.version 8.0", 0, NULL, NULL));
    MUST(cuModuleGetFunction(&g->scale, g->module, "scale"));
}

static CuResult wait_for(CuStream s)
{
    CuResult r;
    while ((r = cuStreamQuery(s)) == RT_CU_NOT_READY) {
    }
    return r;
}

/* The variants: what each omits or does in addition. */
enum {
    NO_FIRST_EVENT = 1, NO_SECOND_EVENT = 2, GRAPH = 4, READ_EARLY = 8,
    WRITE_EARLY = 16, NOT_JOINED = 32, FREED = 64, QUERY = 128, SHORT = 256,
    OLD_EVENT = 512, OFFLOAD = 1024, PAGEABLE = 2048, NEIGHBOURS = 4096,
    PRIORITY = 8192, NO_PRIORITY = 16384,
};

/* y = 2 x on the second stream, between two writes of x by the first. */
static void queue_work(Gpu *g, int variant)
{
    CuStream s = g->stream[0], t = g->stream[1];
    int64_t n = variant & SHORT ? 2 * N : N;
    void *arguments[] = {&g->y, &g->x, &n};
    if (variant & GRAPH) {
        MUST(cuEventRecord(g->event[1], s));
        MUST(cuStreamWaitEvent(t, g->event[1], 0));
    }
    for (int i = 0; i < N; i++)
        g->host[i] = X;
    MUST(cuMemcpyHtoDAsync(g->x, g->host, N * 4, s));
    if (!(variant & NO_FIRST_EVENT)) {
        MUST(cuEventRecord(g->event[0], s));
        MUST(cuStreamWaitEvent(t, g->event[0], 0));
    }
    MUST(cuLaunchKernel(g->scale, variant & SHORT ? 2 : 1, 1, 1, N, 1, 1, 0, t,
                        arguments, NULL));
    if (variant & WRITE_EARLY)
        g->host[0] = LATER;
    if (!(variant & NO_SECOND_EVENT)) {
        MUST(cuEventRecord(g->event[1], t));
        MUST(cuStreamWaitEvent(s, g->event[1], 0));
    }
    MUST(cuMemsetD8Async(g->x, 0, N * 4, s));
    if (variant & GRAPH && !(variant & NOT_JOINED)) {
        MUST(cuEventRecord(g->event[1], t));
        MUST(cuStreamWaitEvent(s, g->event[1], 0));
    }
}

/* The first stream stores x in host memory, the second fetches it as y. */
static int run_offload(int variant)
{
    Gpu g = {0};
    float own[N];
    open_gpu(&g);
    CuStream s = g.stream[0], t = g.stream[1];
    MUST(cuMemsetD8Async(g.x, 1, N * 4, s));
    if (variant & PAGEABLE)
        return cuMemcpyDtoHAsync(own, g.x, N * 4, s) ? 2 : 0;
    memset(g.host, 0, N * 4);
    MUST(cuMemcpyDtoHAsync(g.host, g.x, N * 4, s));
    if (!(variant & NO_FIRST_EVENT)) {
        MUST(cuEventRecord(g.event[0], s));
        MUST(cuStreamWaitEvent(t, g.event[0], 0));
    }
    MUST(cuMemcpyHtoDAsync(g.y, g.host, N * 4, t));
    if (wait_for(t) || wait_for(s) ||
        cuMemcpyDtoHAsync(g.host, g.y, N * 4, s) || wait_for(s))
        return 2;
    for (int i = 0; i < N * 4; i++)
        if (((const char *)g.host)[i] != 1)
            return 1;
    return 0;
}

/* Each stream writes an odd number of adjacent 16-bit elements: no event is
 * needed. If the second stream's range overlaps the first's, one is. */
static int run_neighbours(int variant)
{
    enum { HALF = 2 * 33 };
    Gpu g = {0};
    open_gpu(&g);
    int64_t from = variant & NO_FIRST_EVENT ? HALF - 8 : HALF;
    MUST(cuMemsetD8Async(g.x, 1, HALF, g.stream[0]));
    MUST(cuMemsetD8Async(g.x + (CuAddress)from, 1, HALF, g.stream[1]));
    return wait_for(g.stream[0]) || wait_for(g.stream[1]) ? 2 : 0;
}

/* Two streams of a graph write the same bytes; the one with the higher priority
 * writes first, although it was called last. */
static int run_priority(int variant)
{
    Gpu g = {0};
    CuStream high;
    CuGraph graph;
    CuGraphExec exec;
    open_gpu(&g);
    CuStream s = g.stream[0];
    MUST(cuStreamCreateWithPriority(&high, RT_CU_STREAM_NON_BLOCKING, -1));
    MUST(cuStreamBeginCapture(s, RT_CU_CAPTURE_RELAXED));
    MUST(cuEventRecord(g.event[0], s));
    MUST(cuStreamWaitEvent(high, g.event[0], 0));
    MUST(cuMemsetD8Async(g.x, 1, N, s));
    MUST(cuMemsetD8Async(g.x, 2, N, high));
    MUST(cuEventRecord(g.event[1], high));
    MUST(cuStreamWaitEvent(s, g.event[1], 0));
    MUST(cuStreamEndCapture(s, &graph));
    if (cuGraphInstantiate(&exec, graph,
                           variant & NO_PRIORITY ? 0
                                                 : RT_CU_GRAPH_NODE_PRIORITY))
        return 2;
    MUST(cuGraphLaunch(exec, s));
    MUST(wait_for(s));
    MUST(cuMemcpyDtoHAsync(g.host, g.x, N, s));
    MUST(wait_for(s));
    return ((const char *)g.host)[0] != 1;
}

/* 0: correct; 1: another number; 2: an error. */
static int run(int variant)
{
    if (variant & PRIORITY)
        return run_priority(variant);
    if (variant & (OFFLOAD | PAGEABLE))
        return run_offload(variant);
    if (variant & NEIGHBOURS)
        return run_neighbours(variant);
    Gpu g = {0};
    CuGraph graph;
    CuGraphExec exec;
    open_gpu(&g);
    CuStream s = g.stream[0], t = g.stream[1];
    if (variant & OLD_EVENT)
        MUST(cuEventRecord(g.event[0], s));
    if (variant & GRAPH) {
        MUST(cuMemsetD8Async(g.x, 1, N * 4, s)); /* the graph follows */
        MUST(cuStreamBeginCapture(s, 2));
        if (variant & OLD_EVENT &&
            cuStreamWaitEvent(s, g.event[0], 0) != RT_CU_SUCCESS)
            return 2;
        queue_work(&g, variant & ~NOT_JOINED & ~READ_EARLY);
        if (variant & NOT_JOINED)
            MUST(cuMemsetD8Async(g.x, 0, 4, t));
        if (variant & QUERY && cuStreamQuery(t) != RT_CU_SUCCESS)
            return 2;
        if (cuStreamEndCapture(s, &graph) != RT_CU_SUCCESS)
            return 2;
        MUST(cuGraphInstantiate(&exec, graph, 0));
        MUST(cuGraphDestroy(graph));
        MUST(cuGraphLaunch(exec, s));
        MUST(wait_for(s));
        MUST(cuMemsetD8Async(g.y, 0, N * 4, s));
        MUST(cuGraphLaunch(exec, s));
    } else {
        queue_work(&g, variant);
    }
    if (variant & FREED)
        MUST(cuMemFree(g.x));
    if (wait_for(s) || wait_for(t))
        return 2;
    if (cuMemcpyDtoHAsync(g.host, g.y, N * 4, s))
        return 2;
    if (!(variant & READ_EARLY) && wait_for(s))
        return 2;
    for (int i = 0; i < N; i++)
        if (g.host[i] != 2.0f * X)
            return 1;
    return wait_for(s) ? 2 : 0;
}

/* Runs in its own process, since the order is read only once. */
static int run_in(const char *order, int variant, bool hazards)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        setenv("STANDIN_ORDER", order, 1);
        setenv("STANDIN_HAZARDS", hazards ? "1" : "0", 1);
        if (!freopen("/dev/null", "w", stderr))
            _exit(4);
        exit(run(variant));
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 9;
}

typedef struct Case {
    const char *name;
    int variant, expect; /* the result in one of the first three orders */
} Case;

static const Case cases[] = {
    {"without the event between neighbors", NEIGHBOURS | NO_FIRST_EVENT, 0},
    {"without the event before", NO_FIRST_EVENT, 1},
    {"without the event after", NO_SECOND_EVENT, 1},
    {"a graph without the event before", GRAPH | NO_FIRST_EVENT, 1},
    {"a graph without the event after", GRAPH | NO_SECOND_EVENT, 1},
    {"fetched before it is stored", OFFLOAD | NO_FIRST_EVENT, 1},
    {"pinned memory read too early", READ_EARLY, 1},
    {"pinned memory written too early", WRITE_EARLY, 2},
    {"a capture that is not joined", GRAPH | NOT_JOINED, 2},
    {"an event from before the capture", GRAPH | OLD_EVENT, 2},
    {"a question during a capture", GRAPH | QUERY, 2},
    {"memory of the host that is not pinned", PAGEABLE, 2},
    {"a graph keeps priorities", PRIORITY, 0},
    {"a graph that would lose priorities", PRIORITY | NO_PRIORITY, 2},
    {"memory that was freed", FREED, 2},
    {"a kernel out of bounds", SHORT, 2},
};

int main(int argc, char **argv)
{
    static const char *const order[] = {"early", "late", "ahead", "1", "2", "3", "4"};
    int passed = 0, failed = 0;
    if (argc != 2)
        return 2;
    setenv("STANDIN_KERNELS", argv[1], 1);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        for (int k = 0; k < 4; k++) {
            static const int whole[] = {0, GRAPH, OFFLOAD, NEIGHBOURS};
            int got = run_in(order[i], whole[k], true);
            passed += got == 0;
            failed += got != 0;
            if (got)
                printf("FAILED order %s, %d: %d\n", order[i], whole[k], got);
        }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool found = false;
        for (int k = 0; k < 3; k++)
            found |= run_in(order[k], cases[i].variant, false) ==
                     cases[i].expect;
        passed += found;
        failed += !found;
        if (!found)
            printf("FAILED %s\n", cases[i].name);
    }
    /* In any order the checks report the missing event itself. */
    for (size_t i = 0; i < 6; i++)
        for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
            int got = run_in(order[k], cases[i].variant, true);
            passed += got == 2 || got == 3;
            failed += got != 2 && got != 3;
            if (got != 2 && got != 3)
                printf("FAILED %s, order %s: %d\n", cases[i].name, order[k],
                       got);
        }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
