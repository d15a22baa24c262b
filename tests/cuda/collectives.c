/* collectives.c: compares every collective of the CUDA runtime, over every
 * group of a few meshes, with the definition in parc_rt.h that the CPU runtime
 * follows. It runs with stand-ins for CUDA's libraries. Started directly it
 * forks its ranks; with a launcher's variables it is one rank of a 2 x 2 mesh.
 * Bytes that a collective must not write are checked as well.
 */
#include <math.h>
#include <string.h>

#include "runtime/common/type.h"
#include "runtime/cuda/core/rt_cuda.h"
#include "runtime/device.h"
#include "runtime/launch/job.h"
#include "runtime/launch/world.h"
#include "runtime/rt.h"
#include "tests/unit/runtime_tools.h"

enum {
    ARENA = 1 << 14,
    SRC = 0,
    DST = ARENA / 2,
    UNTOUCHED = 0x55,
    STAGING = 1 << 14, /* followed by the buffer for packed rows */
};

/* "aa": an all-to-all, for which the warm-up exchanges messages. */
static const char *const names[] = {"test 0", "aa1 test", "test 2", "test 3",
                                    "test 4", "test 5", "test 6", "test 7"};
static const uint32_t masks[] = {0, 1, 2, 3, 4, 5, 6, 7};
static const int8_t streams[] = {PARC_COMPUTE, PARC_TENSOR, PARC_DATA,
                                 PARC_TENSOR,  PARC_DATA,   PARC_COMPUTE,
                                 PARC_DATA,    PARC_TENSOR};

/* Element i of a rank. Small whole numbers keep sums exact in every type and
 * order. */
static float number(int rank, int64_t i)
{
    return (float)((rank * 7 + i * 5 + i / 11) % 13);
}

static float get(ParcRt *rt, ParcType type, int64_t offset, int64_t i)
{
    float x = 0;
    if (type == PARC_I32)
        return (float)((const int32_t *)(const void *)(rt->arena + offset))[i];
    rt_widen(&x, type, rt_element(type, rt->arena + offset, i), 1);
    return x;
}

static void fill(ParcRt *rt, ParcType type, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float x = number(rt->rank, i);
        int32_t whole = (int32_t)x;
        if (type == PARC_I32)
            memcpy(rt->arena + SRC + 4 * i, &whole, sizeof whole);
        else
            rt_narrow(type, rt_element_out(type, rt->arena + SRC, i), &x, 1);
    }
    memset(rt->arena + DST, UNTOUCHED, ARENA - DST);
    rt_device_upload(rt, 0, ARENA);
    rt_cuda_wait_stream(rt, PARC_COMPUTE, "an upload");
}

static void fetch(ParcRt *rt)
{
    for (int i = 0; i < PARC_STREAMS; i++)
        rt_cuda_wait_stream(rt, i, "a collective");
    rt_device_download(rt, 0, ARENA);
}

/* Whether the bytes after the first n elements are unchanged. */
static bool ends_at(ParcRt *rt, ParcType type, int64_t n)
{
    int64_t from = DST + n * rt_type_size(type);
    for (int64_t i = from; i < from + 64; i++) {
        if (rt->arena[i] != UNTOUCHED)
            return false;
    }
    return true;
}

static float sum_of(const RtGroup *g, int64_t i)
{
    float sum = 0;
    for (int j = 0; j < g->n; j++)
        sum += number(g->member[j], i);
    return sum;
}

/* Rows of runs of `run` elements, of which `valid` elements per row exist. */
static void gather_and_scatter(ParcRt *rt, Check *c, ParcType type,
                               uint32_t axes, int64_t rows, int64_t valid,
                               int64_t run)
{
    const RtGroup *g = &rt->group[axes];
    ParcPart p = {SRC, DST, rows, run, 0, valid, type, false};
    int good = 1;
    valid = valid ? valid : run * g->n;
    fill(rt, type, rows * run);
    parc_all_gather(rt, (int)axes, axes, 1, &p);
    fetch(rt);
    for (int64_t i = 0; i < rows * valid; i++) {
        int64_t j = i % valid;
        good &= get(rt, type, DST, i) ==
                number(g->member[j / run], i / valid * run + j % run);
    }
    CHECK(c, good);
    CHECK(c, ends_at(rt, type, rows * valid));
    fill(rt, type, rows * valid);
    parc_reduce_scatter(rt, (int)axes, axes, 1, &p);
    fetch(rt);
    good = 1;
    for (int64_t i = 0; i < rows * run; i++) {
        int64_t j = g->index * run + i % run;
        float want = j < valid ? sum_of(g, i / run * valid + j) : 0;
        good &= get(rt, type, DST, i) == want;
    }
    CHECK(c, good);
    CHECK(c, ends_at(rt, type, rows * run));
}

/* Two parts in one call, with each rank's run at its offset in the rows. */
static void inside(ParcRt *rt, Check *c, ParcType type, uint32_t axes,
                   int64_t rows, int64_t valid)
{
    const RtGroup *g = &rt->group[axes];
    int64_t run = (valid + g->n - 1) / g->n, row = run * g->n;
    int64_t half = rows * row, second = half * rt_type_size(type);
    ParcPart p[] = {{SRC, SRC, rows, run, 0, valid, type, true},
                    {SRC + second, SRC + second, rows, run, 0, valid, type,
                     true}};
    int good = 1;
    fill(rt, type, 2 * half);
    parc_all_gather(rt, (int)axes, axes, 2, p);
    fetch(rt);
    for (int64_t i = 0; i < 2 * half; i++)
        good &= i % row >= valid ||
                get(rt, type, SRC, i) == number(g->member[i % row / run], i);
    CHECK(c, good);
}

static void all_reduce(ParcRt *rt, Check *c, ParcType type, uint32_t axes,
                       int64_t n)
{
    const RtGroup *g = &rt->group[axes];
    ParcPart to = {SRC, DST, 1, n, 0, 0, type, false};
    ParcPart place = {SRC, SRC, n, 1, 0, 0, type, false};
    int sum = 1, most = 1;
    fill(rt, type, n);
    parc_all_reduce(rt, (int)axes, axes, PARC_SUM, 1, &to);
    fetch(rt);
    for (int64_t i = 0; i < n; i++)
        sum &= get(rt, type, DST, i) == sum_of(g, i);
    CHECK(c, sum);
    CHECK(c, ends_at(rt, type, n));
    parc_all_reduce(rt, (int)axes, axes, PARC_MAX, 1, &place);
    fetch(rt);
    for (int64_t i = 0; i < n; i++) {
        float top = 0;
        for (int j = 0; j < g->n; j++)
            top = fmaxf(top, number(g->member[j], i));
        most &= get(rt, type, SRC, i) == top;
    }
    CHECK(c, most);
}

/* Whether the result of the part is that of an all-to-all. */
static bool is_swapped(ParcRt *rt, const RtGroup *g, const ParcPart *p)
{
    int64_t k = g->n, n = p->outer * k * p->middle * p->inner;
    int good = 1;
    for (int64_t i = 0; i < n; i++) {
        /* i is [o, a, b, inner] of the result. */
        int64_t o = i / (k * p->middle * p->inner), e = i % p->inner;
        int64_t x = i / p->inner % (k * p->middle);
        int64_t m = p->minor ? x % p->middle : x / k, j = p->minor ? x / p->middle : x % k;
        int64_t from = p->minor ? (o * p->middle + m) * k + g->index
                                : (o * k + g->index) * p->middle + m;
        good &= get(rt, p->type, p->dst, i) ==
                number(g->member[j], from * p->inner + e);
    }
    return good;
}

/* Two parts of one call: the same rows, in both directions. */
static void all_to_all(ParcRt *rt, Check *c, ParcType type, uint32_t axes,
                       bool minor, int64_t outer, int64_t middle)
{
    const RtGroup *g = &rt->group[axes];
    int64_t inner = 5, n = outer * g->n * middle * inner;
    ParcPart p[] = {{SRC, DST, outer, inner, middle, 0, type, false, false, minor},
                    {SRC, DST, outer, inner, middle, 0, type, false, false, !minor}};
    p[1].dst += n * rt_type_size(type);
    fill(rt, type, n);
    parc_all_to_all(rt, (int)axes, axes, 2, p);
    fetch(rt);
    CHECK(c, is_swapped(rt, g, &p[0]) && is_swapped(rt, g, &p[1]));
    CHECK(c, ends_at(rt, type, 2 * n));
}

/* Under a launcher rank 0 reads other ranks' memory between two barriers. */
static void hand_over(ParcRt *rt, Check *c)
{
    memset(rt->arena, rt->rank + 1, ARENA);
    rt_synchronize(rt, RT_AT_TRACE);
    for (int r = 1; rt->world->store && rt->rank == 0 && r < rt->nranks; r++) {
        char got[300];
        rt_job_read(rt->world->store, r, RT_OF_ARENA, ARENA - 300, 300, got);
        CHECK(c, got[0] == r + 1 && got[299] == r + 1);
    }
    rt_synchronize(rt, RT_AT_END);
}

static int every(ParcRt *rt, void *context)
{
    static const ParcType types[] = {PARC_F32, PARC_BF16, PARC_F16, PARC_I32};
    Check c = {0};
    rt_device_open(rt);
    for (uint32_t axes = 0; axes < 1u << rt->model->naxes; axes++) {
        for (int i = 0; i < 4; i++) {
            ParcType type = types[i];
            int k = rt->group[axes].n;
            gather_and_scatter(rt, &c, type, axes, 1 + i, 0, 33);
            gather_and_scatter(rt, &c, type, axes, 20, 0, 5);
            gather_and_scatter(rt, &c, type, axes, 2, k * 9 - k / 2, 9);
            gather_and_scatter(rt, &c, type, axes, 19, k > 1 ? k + 1 : 2, 2);
            inside(rt, &c, type, axes, 3, 10 * k - 1);
            all_reduce(rt, &c, type, axes, 700);
        }
        for (int i = 0; i < 8; i++)
            all_to_all(rt, &c, types[i % 3], axes, i % 2, 1 + i / 2, 4 - i / 2);
    }
    rt_device_close(rt);
    hand_over(rt, &c);
    shared_check_add(context, &c);
    return 0;
}

/* The messages of NCCL's warm-up are as long as the longest collective; the
 * bytes of other work do not count. */
static const ParcWork work[] = {
    {.kind = "collective", .bytes = 3 << 20},
    {.kind = "collective", .bytes = 6 << 20},
    {.kind = "kernel", .bytes = 48 << 20},
};

static int run_mesh(int naxes, const int64_t *size, SharedCheck *shared,
                    const RtLaunch *launch)
{
    ParcModel m = bare_model(naxes, size, ARENA + STAGING);
    ParcRange staging[8];
    for (int i = 0; i < 8; i++) {
        staging[i] = (ParcRange){ARENA, STAGING};
    }
    m.collective_staging = staging;
    m.collective = names;
    m.ncollectives = 1 << naxes;
    m.work = work;
    m.nwork = sizeof work / sizeof *work;
    m.collective_axes = masks;
    m.collective_stream = streams;
    RtWorld w;
    if (!rt_world_open(&w, &m, 1, launch, true, 0))
        return 1;
    int status = rt_ranks_run(&w, every, shared);
    rt_world_close(&w);
    return status;
}

int main(void)
{
    const int64_t mesh[][3] = {{1}, {2}, {3}, {2, 2}, {3, 1}, {2, 1, 2}};
    const int axes[] = {1, 1, 1, 2, 2, 3};
    const int64_t square[] = {2, 2};
    SharedCheck *shared = shared_check_new();
    Check c = {0};
    RtLaunch launch;
    ParcModel four = bare_model(2, square, ARENA);
    CHECK(&c, rt_launcher(&launch, &four));
    if (launch.by)
        CHECK(&c, run_mesh(2, square, shared, &launch) == 0);
    for (int i = 0; !launch.by && i < 6; i++)
        CHECK(&c, run_mesh(axes[i], mesh[i], shared, NULL) == 0);
    c.passed += shared->passed;
    c.failed += shared->failed;
    return check_end(&c);
}
