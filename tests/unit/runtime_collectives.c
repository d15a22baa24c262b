/* runtime_collectives.c: compares every collective over every group of several
 * meshes, bit by bit, with the same sums in one process; tests memory that
 * ranks share, barriers of 64 ranks, and a rank that dies, hangs or calls
 * another collective.
 */
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "runtime/common/type.h"
#include "runtime/device.h"
#include "runtime/launch/world.h"
#include "runtime/rt.h"
#include "tests/unit/runtime_tools.h"

enum { ARENA = 1 << 24, SRC = 0, DST = ARENA / 2 };

static float *at(ParcRt *rt, int64_t offset)
{
    return rt_floats(rt, offset);
}

/* Element i of a rank, in a type. */
static float number(ParcType type, int rank, int64_t i)
{
    uint64_t packed;
    float x = value_of(rank, i);
    rt_narrow(type, &packed, &x, 1);
    rt_widen(&x, type, &packed, 1);
    return x;
}

static float result(ParcRt *rt, ParcType type, int64_t i)
{
    float x;
    rt_widen(&x, type, rt_element(type, at(rt, DST), i), 1);
    return x;
}

static void fill(ParcRt *rt, ParcType type, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        float x = value_of(rt->rank, i);
        rt_narrow(type, rt_element_out(type, at(rt, SRC), i), &x, 1);
    }
    memset(at(rt, DST), 0x55, (size_t)n * sizeof(float));
}

/* The sum in f32, rounded once. */
static float sum_of(ParcType type, const RtGroup *g, int64_t i)
{
    uint64_t packed;
    float sum = number(type, g->member[0], i);
    for (int j = 1; j < g->n; j++)
        sum += number(type, g->member[j], i);
    rt_narrow(type, &packed, &sum, 1);
    rt_widen(&sum, type, &packed, 1);
    return sum;
}

/* Where element i of member j's row is in that of all members. */
static int64_t place_of(const ParcPart *p, int64_t k, int64_t j, int64_t i)
{
    return p->zigzag ? rt_zigzag(k, j, p->inner, i) : j * p->inner + i;
}

static void gather_and_slice(ParcRt *rt, Check *c, uint32_t axes, const ParcPart *p)
{
    const RtGroup *g = &rt->group[axes];
    int64_t k = g->n, row = k * p->inner;
    int good = 1;
    fill(rt, p->type, p->outer * p->inner);
    parc_all_gather(rt, 0, axes, 1, p);
    for (int64_t i = 0; i < p->outer * row; i++) {
        int64_t j = i % row / p->inner, at = i % p->inner, o = i / row;
        good &= result(rt, p->type, o * row + place_of(p, k, j, at)) ==
                number(p->type, g->member[j], o * p->inner + at);
    }
    CHECK(c, good);
    rt_synchronize(rt, 0);
    fill(rt, p->type, p->outer * row);
    parc_local_slice(rt, axes, p);
    good = 1;
    for (int64_t i = 0; i < p->outer * p->inner; i++)
        good &= result(rt, p->type, i) ==
                number(p->type, rt->rank, i / p->inner * row +
                                              place_of(p, k, g->index, i % p->inner));
    CHECK(c, good);
    rt_synchronize(rt, 0);
}

static void scatter(ParcRt *rt, Check *c, uint32_t axes, const ParcPart *p)
{
    const RtGroup *g = &rt->group[axes];
    int64_t k = g->n;
    int good = 1;
    fill(rt, p->type, p->outer * k * p->inner);
    parc_reduce_scatter(rt, 0, axes, 1, p);
    for (int64_t i = 0; i < p->outer * p->inner; i++) {
        int64_t from = i / p->inner * k * p->inner + place_of(p, k, g->index, i % p->inner);
        good &= result(rt, p->type, i) == sum_of(p->type, g, from);
    }
    CHECK(c, good);
    rt_synchronize(rt, 0);
}

static void gather_and_scatter(ParcRt *rt, Check *c, ParcType type,
                               uint32_t axes, int64_t outer, int64_t inner)
{
    for (int zigzag = 0; zigzag <= (inner % 2 == 0); zigzag++) {
        ParcPart p = {SRC, DST, outer, inner, 0, 0, type, false, zigzag, false};
        gather_and_slice(rt, c, axes, &p);
        scatter(rt, c, axes, &p);
    }
}

/* Runs within rows with padding; all other bytes of the rank are filled. */
static void inside(ParcRt *rt, Check *c, ParcType type, uint32_t axes,
                   int64_t rows, int64_t valid)
{
    const RtGroup *g = &rt->group[axes];
    int64_t run = (valid + g->n - 1) / g->n, row = run * g->n;
    ParcPart p = {SRC, SRC, rows, run, 0, valid, type, true, false, false};
    int good = 1;
    fill(rt, type, rows * row);
    rt_synchronize(rt, 0);
    parc_all_gather(rt, 0, axes, 1, &p);
    for (int64_t i = 0; i < rows * row; i++) {
        float x;
        rt_widen(&x, type, rt_element(type, at(rt, SRC), i), 1);
        good &= i % row >= valid ||
                x == number(type, g->member[i % row / run], i);
    }
    CHECK(c, good);
    rt_synchronize(rt, 0);
}

/* Flat shards of `rows` tensors: the last runs are padded. */
static void flat(ParcRt *rt, Check *c, ParcType type, uint32_t axes,
                 int64_t rows, int64_t valid)
{
    const RtGroup *g = &rt->group[axes];
    int64_t run = (valid + g->n - 1) / g->n;
    ParcPart p = {SRC, DST, rows, run, 0, valid, type, false, false, false};
    int good = 1;
    fill(rt, type, rows * g->n * run);
    parc_all_gather(rt, 0, axes, 1, &p);
    for (int64_t i = 0; i < rows * valid; i++) {
        int64_t o = i / valid, j = i % valid;
        good &= result(rt, type, i) ==
                number(type, g->member[j / run], o * run + j % run);
    }
    uint32_t after = 0;
    memcpy(&after, rt_element(type, at(rt, DST), rows * valid),
           (size_t)rt_type_size(type));
    CHECK(c, good);
    CHECK(c, g->n * run == valid || after != 0);
    rt_synchronize(rt, 0);
    for (int taken = 0; taken < 2; taken++) {
        fill(rt, type, rows * g->n * run);
        if (taken)
            parc_local_slice(rt, axes, &p);
        else
            parc_reduce_scatter(rt, 0, axes, 1, &p);
        good = 1;
        for (int64_t i = 0; i < rows * run; i++) {
            int64_t j = g->index * run + i % run, from = i / run * valid + j;
            float want = taken ? number(type, rt->rank, from)
                               : sum_of(type, g, from);
            good &= result(rt, type, i) == (j < valid ? want : 0);
        }
        CHECK(c, good);
        rt_synchronize(rt, 0);
    }
}

static void all_reduce(ParcRt *rt, Check *c, ParcType type, uint32_t axes,
                       int64_t n)
{
    const RtGroup *g = &rt->group[axes];
    int good = 1;
    fill(rt, type, n);
    parc_all_reduce(rt, 0, axes, PARC_SUM, 1,
                    &(ParcPart){SRC, DST, 1, n, 0, 0, type, false, false, false});
    for (int64_t i = 0; i < n; i++)
        good &= result(rt, type, i) == sum_of(type, g, i);
    CHECK(c, good);
    parc_all_reduce(rt, 1, axes, PARC_SUM, 1,
                    &(ParcPart){SRC, SRC, n, 1, 0, 0, type, false, false, false});
    CHECK(c, memcmp(at(rt, SRC), at(rt, DST),
                     (size_t)(n * rt_type_size(type))) == 0);
    rt_synchronize(rt, 0);
    fill(rt, type, n);
    parc_all_reduce(rt, 0, axes, PARC_MAX, 1,
                    &(ParcPart){SRC, DST, 1, n, 0, 0, type, false, false, false});
    good = 1;
    for (int64_t i = 0; i < n; i++) {
        float top = number(type, g->member[0], i);
        for (int j = 1; j < g->n; j++) {
            float x = number(type, g->member[j], i);
            top = x > top ? x : top;
        }
        good &= result(rt, type, i) == top;
    }
    CHECK(c, good);
    rt_synchronize(rt, 0);
}

/* Whether elements [first, first + n) of the results are those of the part. */
static bool is_swapped(ParcRt *rt, const RtGroup *g, const ParcPart *p, int64_t first)
{
    int64_t k = g->n;
    int good = 1;
    for (int64_t o = 0; o < p->outer; o++) {
        for (int64_t m = 0; m < p->middle; m++) {
            for (int64_t j = 0; j < k; j++) {
                for (int64_t i = 0; i < p->inner; i++) {
                    int64_t major_at = ((o * k + (p->minor ? j : g->index)) *
                                            p->middle + m) * p->inner + i;
                    int64_t minor_at = ((o * p->middle + m) * k +
                                        (p->minor ? g->index : j)) * p->inner + i;
                    float is = result(rt, p->type, first + (p->minor ? major_at : minor_at));
                    good &= is == number(p->type, g->member[j],
                                         p->minor ? minor_at : major_at);
                }
            }
        }
    }
    return good;
}

/* Two parts of one call: the same rows, in both directions. */
static void all_to_all(ParcRt *rt, Check *c, ParcType type, uint32_t axes)
{
    const RtGroup *g = &rt->group[axes];
    int64_t outer = 3, middle = 2, inner = 5, n = outer * g->n * middle * inner;
    ParcPart p[] = {{SRC, DST, outer, inner, middle, 0, type, false, false, false},
                    {SRC, DST, outer, inner, middle, 0, type, false, false, true}};
    p[1].dst += n * rt_type_size(type);
    fill(rt, type, n);
    parc_all_to_all(rt, 0, axes, 2, p);
    CHECK(c, is_swapped(rt, g, &p[0], 0));
    CHECK(c, is_swapped(rt, g, &p[1], n));
    rt_synchronize(rt, 0);
}

static void take(ParcRt *rt, Check *c, ParcType type, uint32_t axes)
{
    const RtGroup *g = &rt->group[axes];
    ParcPart p = {SRC, DST, 3, 4, 0, 0, type, false, false, false};
    int part = 1, share = 1;
    fill(rt, type, 3 * g->n * 4);
    parc_local_slice(rt, axes, &p);
    for (int64_t i = 0; i < 12; i++) {
        int64_t from = (i / 4 * g->n + g->index) * 4 + i % 4;
        part &= result(rt, type, i) == number(type, rt->rank, from);
    }
    CHECK(c, part);
    parc_mask_to_partial(rt, axes, 0, &p);
    for (int64_t i = 0; i < 12; i++)
        share &= result(rt, type, i) ==
                 (g->index == 0 ? number(type, rt->rank, i) : 0);
    CHECK(c, share);
    CHECK(c, parc_index(rt, axes) == g->index);
}

static int every_collective(ParcRt *rt, void *context)
{
    static const int64_t sizes[] = {1, 5, 16, 33, 700};
    static const ParcType types[] = {PARC_F32, PARC_BF16, PARC_F16, PARC_F32,
                                     PARC_BF16};
    Check c = {0};
    uint32_t all = (1u << rt->model->naxes) - 1;
    for (uint32_t axes = 0; axes <= all; axes++) {
        for (int i = 0; i < 5; i++) {
            ParcType type = types[(axes + (uint32_t)i) % 5];
            gather_and_scatter(rt, &c, type, axes, 1 + i % 3, sizes[i]);
            flat(rt, &c, type, axes, 1, sizes[i]);
            flat(rt, &c, type, axes, 3, sizes[i]);
            inside(rt, &c, type, axes, 3, sizes[i]);
            all_reduce(rt, &c, type, axes, sizes[i] * 7);
        }
        all_to_all(rt, &c, PARC_F32, axes);
        all_to_all(rt, &c, PARC_BF16, axes);
        take(rt, &c, types[axes % 5], axes);
    }
    shared_check_add(context, &c);
    return 0;
}

/* Sums of several tiles with two threads per rank; then non-temporal stores to
 * addresses that are not aligned to a cache line. */
static int large(ParcRt *rt, void *context)
{
    Check c = {0};
    all_reduce(rt, &c, PARC_F32, 1, 70001);
    all_reduce(rt, &c, PARC_BF16, 1, 70001);
    gather_and_scatter(rt, &c, PARC_F32, 1, 1, 33000);
    flat(rt, &c, PARC_F16, 1, 1, 66001);
    all_reduce(rt, &c, PARC_F32, 1, 1300001);
    gather_and_scatter(rt, &c, PARC_F32, 1, 1, 600001);
    gather_and_scatter(rt, &c, PARC_BF16, 1, 1, 1100001);
    shared_check_add(context, &c);
    return 0;
}

/* Between two barriers no rank may be in another round. */
static int many_barriers(ParcRt *rt, void *context)
{
    Check c = {0};
    int good = 1;
    for (int round = 1; round <= 300; round++) {
        uint32_t axes = 1u + (uint32_t)round % 3;
        const RtGroup *g = &rt->group[axes];
        at(rt, SRC)[0] = (float)round;
        rt_barrier(rt, axes);
        for (int j = 0; j < g->n; j++) {
            const void *peer = rt_peer(rt, g->member[j]);
            good &= *(const float *)peer == (float)round;
        }
        rt_barrier(rt, axes);
    }
    CHECK(&c, good);
    shared_check_add(context, &c);
    return 0;
}

/* Delays a different rank each time, before and after collectives and before it
 * overwrites bytes that others have read. */
static int late_ranks(ParcRt *rt, void *context)
{
    Check c = {0};
    for (int round = 0; round < 12; round++) {
        if (rt->rank == round % 4)
            usleep(3000);
        gather_and_scatter(rt, &c, PARC_F32, 1u + (uint32_t)round % 3, 2, 5);
        if (rt->rank == (round * 3 + 1) % 4)
            usleep(2000);
        all_reduce(rt, &c, PARC_F32, 1u + (uint32_t)round % 3, 37);
    }
    shared_check_add(context, &c);
    return 0;
}

/* Segments over one axis, over another and over both: all ranks of the group
 * see a rank's writes, and no other rank does; a rank counts its share. */
enum { SEGMENT = 3 << 20, SEGMENTS = 3 };
static const ParcShared segments[SEGMENTS] = {
    {1, PARC_SHARED_ALIGN, SEGMENT},
    {2, 4 * PARC_SHARED_ALIGN, SEGMENT},
    {3, 6 * PARC_SHARED_ALIGN, SEGMENT}};

static int in_common(ParcRt *rt, void *context)
{
    Check c = {0};
    int64_t counted = rt->model->arena_bytes;
    rt_device_open(rt);
    for (int round = 1; round <= 20; round++) {
        for (int i = 0; i < SEGMENTS; i++) {
            const ParcShared *s = &segments[i];
            const RtGroup *g = &rt->group[s->axes];
            int64_t run = SEGMENT / 4 / g->n;
            float *to = at(rt, s->offset);
            counted += round == 1 ? SEGMENT / g->n : 0;
            to[g->index * run] = to[g->index * run + run - 1] =
                (float)(round * 100 + rt->rank);
        }
        parc_synchronize(rt, 0, 3);
        int good = 1;
        for (int i = 0; i < SEGMENTS; i++) {
            const RtGroup *g = &rt->group[segments[i].axes];
            int64_t run = SEGMENT / 4 / g->n;
            const float *from = at(rt, segments[i].offset);
            for (int j = 0; j < g->n; j++) {
                float x = (float)(round * 100 + g->member[j]);
                good &= from[j * run] == x && from[j * run + run - 1] == x;
            }
        }
        CHECK(&c, good);
        parc_synchronize(rt, 0, 3);
    }
    CHECK(&c, rt->peak_bytes == counted);
    rt_device_close(rt);
    shared_check_add(context, &c);
    return 0;
}

static int one_dies(ParcRt *rt, void *context)
{
    (void)context;
    parc_all_reduce(rt, 0, 1, PARC_SUM, 1,
                    &(ParcPart){SRC, DST, 1, 4, 0, 0, PARC_F32, false, false, false});
    if (rt->rank == 2)
        raise(SIGKILL);
    parc_all_reduce(rt, 1, 1, PARC_SUM, 1,
                    &(ParcPart){SRC, DST, 1, 4, 0, 0, PARC_F32, false, false, false});
    return 0;
}

static int one_hangs(ParcRt *rt, void *context)
{
    (void)context;
    while (rt->rank == 1)
        sleep(100);
    parc_all_reduce(rt, 1, 1, PARC_SUM, 1,
                    &(ParcPart){SRC, DST, 1, 4, 0, 0, PARC_F32, false, false, false});
    return 0;
}

static int one_strays(ParcRt *rt, void *context)
{
    (void)context;
    parc_all_reduce(rt, rt->rank == 1, 1, PARC_SUM, 1,
                    &(ParcPart){SRC, DST, 1, 4, 0, 0, PARC_F32, false, false, false});
    return 0;
}

/* Runs with standard error in a file and returns its text. No body: the arenas
 * are larger than any machine's memory. */
static const char *said(RtBody *body, int *status)
{
    static char text[4096];
    const int64_t mesh[] = {4};
    ParcModel m = bare_model(1, mesh, body ? ARENA : (int64_t)1 << 50);
    int keep = dup(STDERR_FILENO);
    FILE *f = tmpfile();
    dup2(fileno(f), STDERR_FILENO);
    *status = run_ranks(&m, 1, body, NULL);
    dup2(keep, STDERR_FILENO);
    close(keep);
    rewind(f);
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    return text;
}

static void failures(Check *c)
{
    int status;
    const char *text = said(one_dies, &status);
    CHECK(c, status == 1);
    CHECK_TEXT(c, text,
               "test: error: rank 2 was killed by signal 9 (Killed) in step "
               "0, after 'test 0'; Linux kills a process with SIGKILL when "
               "memory runs "
               "out: see dmesg\n");
    setenv("PARC_TIMEOUT", "1", 1);
    text = said(one_hangs, &status);
    CHECK(c, status == 1);
    CHECK(c, strstr(text, "error: rank 1 did not reach 'test 1' within 1 s; it "
                          "is still computing after 'start of the run'; rank ") != NULL);
    CHECK(c, strstr(text, " waited for it; PARC_TIMEOUT sets the limit\n"));
    unsetenv("PARC_TIMEOUT");
    text = said(one_strays, &status);
    CHECK(c, status == 1);
    CHECK(c, strstr(text, "is in 'test ") && strstr(text, "while rank"));
    text = said(NULL, &status);
    CHECK(c, status == 1);
    CHECK(c, strstr(text, "error: 4 ranks need 4096.0 TiB (1024.0 TiB each) of "
                          "memory for the plan, and "));
}

int main(void)
{
    static const struct {
        int n;
        int64_t size[4];
    } meshes[] = {{1, {1}},       {1, {2}},       {1, {3}},
                  {2, {2, 2}},    {2, {3, 2}},    {2, {1, 4}},
                  {3, {2, 2, 2}}, {3, {2, 1, 3}}, {4, {2, 2, 1, 2}}};
    SharedCheck *shared = shared_check_new();
    Check c = {0};
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        ParcModel m = bare_model(meshes[i].n, meshes[i].size, ARENA);
        CHECK(&c, run_ranks(&m, 1, every_collective, shared) == 0);
    }
    const int64_t two[] = {2}, four[] = {2, 2}, mesh64[] = {8, 8};
    ParcModel m = bare_model(2, four, ARENA);
    CHECK(&c, run_ranks(&m, 1, late_ranks, shared) == 0);
    m = bare_model(1, two, ARENA);
    CHECK(&c, run_ranks(&m, 2, large, shared) == 0);
    const int64_t six[] = {2, 3};
    m = bare_model(2, six, 4096);
    m.shared = segments;
    m.nshared = SEGMENTS;
    CHECK(&c, run_ranks(&m, 1, in_common, shared) == 0);
    m = bare_model(2, mesh64, 4096);
    CHECK(&c, run_ranks(&m, 1, many_barriers, shared) == 0);
    failures(&c);
    c.passed += shared->passed;
    c.failed += shared->failed;
    return check_end(&c);
}
