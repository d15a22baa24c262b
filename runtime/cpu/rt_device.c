/* rt_device.c: implements the functions that the runtime requires of a target
 * (device.h) for the CPU: memory, execution of a step, and peak flops.
 *
 * A rank's arena on the CPU is its host mirror (device.h): the memory in
 * which the host writes inputs and reads results, shared by all ranks of the
 * node. Uploads and downloads therefore do nothing.
 */
#include "device.h"

#include <errno.h>
#include <linux/mman.h>
#include <math.h>
#include <omp.h>
#include <string.h>
#include <sys/mman.h>

#include "common/message.h"
#include "common/type.h"
#include "cpu/rt_conv.h"
#include "cpu/rt_grouped.h"
#include "cpu/rt_dnnl.h"
#include "cpu/rt_matmul.h"
#include "cpu/rt_tile.h"
#include "cpu/rt_transfer.h"
#include "launch/world.h"
#include "parc_cpu.h"
#include "rt.h"
#include "trace/trace.h"

const RtVariable rt_device_variables[] = {{NULL, NULL}};

double rt_device_host_bytes(const ParcModel *model, int rank,
                            const char **what)
{
    *what = "the plan";
    return (double)rt_arena_counted(model, rank);
}

/* Linux backs shared memory with small pages. This reads one byte in each
 * large-page range, then asks Linux to replace the small pages of each range by
 * a large page. That is faster than a fault per small page, and streaming reads
 * are about 1.5 times as fast. Failure is ignored. */
static void join_pages(char *from, int64_t pages)
{
#if defined(MADV_COLLAPSE)
    for (int64_t i = 0; i < pages; i++)
        (void)*(volatile char *)(from + i * RT_LARGE_PAGE);
    if (pages > 0)
        madvise(from, (size_t)pages * RT_LARGE_PAGE, MADV_COLLAPSE);
#else
    (void)from, (void)pages;
#endif
}

static int64_t round_up(int64_t n, int64_t page)
{
    return (n + page - 1) / page * page;
}

/* Joins the whole pages of a range of the arena. */
static void join_range(ParcRt *rt, int64_t from, int64_t end)
{
    from = round_up(from, RT_LARGE_PAGE);
    end = end / RT_LARGE_PAGE * RT_LARGE_PAGE;
    join_pages(rt->arena + from, (end - from) / RT_LARGE_PAGE);
}

/* Of a pipeline, a rank has no memory between the ranges that its stages use: an
 * access there would end the run. */
static void open_ranges(ParcRt *rt, const ParcRange *range)
{
    const ParcModel *m = rt->model;
    int64_t at = 0;
    for (; at < m->arena_bytes; range++) {
        bool last = range->bytes == 0 || range->offset >= m->arena_bytes;
        int64_t end = last ? m->arena_bytes : range->offset;
        int64_t from = round_up(at, RT_PAGE), to = end / RT_PAGE * RT_PAGE;
        if (from < to)
            mprotect(rt->arena + from, (size_t)(to - from), PROT_NONE);
        at = last ? end : range->offset + range->bytes;
        if (!last)
            join_range(rt, range->offset, at);
    }
}

/* A rank collapses the pages of its own arena, and of an equal part of each
 * shared segment. Other ranks may already write to the segments. */
void rt_device_open(ParcRt *rt)
{
    const ParcModel *m = rt->model;
    if (rt->nranks == 1)
        return;
    rt_transfers_open(rt);
    if (m->ranges)
        open_ranges(rt, rt_ranges(m, rt->rank));
    else
        join_range(rt, 0, m->arena_bytes);
    for (int i = 0; i < m->nshared; i++) {
        const ParcShared *s = &m->shared[i];
        const RtGroup *g = &rt->group[s->axes];
        int64_t pages = s->bytes / RT_LARGE_PAGE;
        int64_t first = pages * g->index / g->n;
        join_pages(rt->arena + s->offset + first * RT_LARGE_PAGE,
                   pages * (g->index + 1) / g->n - first);
    }
}

void rt_device_upload(ParcRt *rt, int64_t offset, int64_t bytes)
{
    (void)rt, (void)offset, (void)bytes;
}

void rt_device_download(ParcRt *rt, int64_t offset, int64_t bytes)
{
    (void)rt, (void)offset, (void)bytes;
}

/* ---- the staging buffer -------------------------------------------------- */

/* All pages are allocated now, so that a save does not wait for them. */
char *rt_device_staging(ParcRt *rt, int64_t bytes)
{
    char size[32];
    void *at = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        rt_fail(rt, "--save-async: a rank needs %s for the staging buffer: %s",
                rt_size_text((double)bytes, size), strerror(errno));
    madvise(at, (size_t)bytes, MADV_HUGEPAGE);
    memset(at, 0, (size_t)bytes);
    return at;
}

void rt_device_staging_free(ParcRt *rt, char *at, int64_t bytes)
{
    (void)rt;
    munmap(at, (size_t)bytes);
}

void rt_device_stage(ParcRt *rt, char *to, int64_t offset, int64_t bytes)
{
    enum { FEW = 1 << 20 };
    const char *from = rt->arena + offset;
    int64_t parts = bytes > FEW ? omp_get_max_threads() : 1;
    /* One copy for each thread: long copies bypass the caches. */
#pragma omp parallel for schedule(static) if (parts > 1)
    for (int64_t i = 0; i < parts; i++) {
        int64_t begin = bytes / parts * i;
        int64_t end = i + 1 < parts ? bytes / parts * (i + 1) : bytes;
        memcpy(to + begin, from + begin, (size_t)(end - begin));
    }
}

void rt_device_staged(ParcRt *rt)
{
    (void)rt;
}

void parc_mark(ParcRt *rt, int i, int64_t iteration)
{
    RtStatus *status = &rt->world->status[rt->rank];
    atomic_store_explicit(&status->iteration, iteration, memory_order_relaxed);
    atomic_store_explicit(&status->work, i + 1, memory_order_relaxed);
    if (rt->ring)
        rt_trace_add(rt->ring, i, iteration);
    if (rt->nan_check)
        rt_nan_mark(rt, i, iteration);
}

void rt_device_mark_action(ParcRt *rt, int64_t i)
{
    if (rt->ring)
        rt_trace_add(rt->ring, RT_MARK_ACTION, i);
}

bool parc_goes_on(ParcRt *rt, int64_t loss)
{
    return loss < 0 || rt->scale.scale > 0 || isfinite(*rt_floats(rt, loss));
}

bool rt_device_repeats(const ParcRt *rt)
{
    (void)rt;
    return true;
}

static void run_on_cpu(ParcRt *rt, void (*program)(ParcRt *))
{
    program(rt);
    atomic_store(&rt->world->status[rt->rank].work, 0);
    if (rt->nan_check)
        rt_nan_mark(rt, -1, 0);
}

void rt_device_step(ParcRt *rt)
{
    run_on_cpu(rt, rt->model->step);
}

void rt_device_run(ParcRt *rt, const ParcProgram *e)
{
    run_on_cpu(rt, e->run);
}

/* A step reads the mirror: uploads may not overlap it. */
bool rt_device_runs_beside(const ParcRt *rt)
{
    (void)rt;
    return false;
}

void rt_device_ask(ParcRt *rt, int64_t offset)
{
    (void)rt, (void)offset;
}

void rt_device_results(ParcRt *rt)
{
    (void)rt;
}

void rt_device_print(const ParcRt *rt)
{
    (void)rt; /* run/main.c prints ranks and threads */
}

void rt_device_close(ParcRt *rt)
{
    rt_matmul_close(rt);
    rt_conv_close(rt);
    rt_grouped_close(rt);
    rt_dnnl_close(rt);
    rt_transfers_close(rt);
}

char *parc_arena(ParcRt *rt)
{
    return rt->arena;
}

/* ---- the peak rate, for the log's mfu and hfu ----
 *
 * The peak is that of the instructions with which the run's products are
 * computed, at the clock of the processor under them. A system reports at most
 * the nominal clock, which a processor exceeds by up to a half; hence rank 0
 * measures fused multiply-adds of vectors in registers at the start of a run,
 * for about two milliseconds. The fastest of many short bursts counts, so that
 * other processes do not lower it.
 *
 *   f32, vectors                    1 x the measured rate
 *   bf16, vectors of pairs          2 x
 *   bf16, tiles (AMX)              16 x
 *   f32 as bf16 parts, tiles     16/6 x     (rt_split.h)
 */
enum { CHAINS = 12, ROUNDS = 8000, BURSTS = 120 };

/* Flops per second of one thread. The chains are independent, so that all
 * units are in use. */
static double burst(float one, RtVector term)
{
    RtVector sum[CHAINS];
    for (int i = 0; i < CHAINS; i++)
        sum[i] = term;
    double begin = rt_now();
    for (int round = 0; round < ROUNDS; round++)
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            sum[i] = rt_fused(one, sum[i], term);
            /* The sums exist at this time. */
#pragma GCC unroll 12
    for (int i = 0; i < CHAINS; i++)
        __asm__ volatile("" : : "m"(sum[i]));
    double seconds = rt_now() - begin;
    return 2.0 * RT_LANES * CHAINS * ROUNDS / seconds;
}

static double vector_rate(void)
{
    volatile float one = 0.5f; /* the compiler does not know it */
    RtVector term = (RtVector){0} + one;
    double best = 0;
    for (int i = 0; i < BURSTS; i++) {
        double rate = burst(one, term);
        best = rate > best ? rate : best;
    }
    return best;
}

double rt_device_peak_flops(const ParcRt *rt)
{
    int busy = rt->nranks * rt->threads, cores = rt_cores();
    return vector_rate() * rt_matmul_speedup(rt) *
           (double)rt_least(busy, cores);
}

/* ---- the CPU ------------------------------------------------------------- */

/* rt_cpu_check.c is compiled without these extensions. */
const uint64_t parc_cpu_library = PARC_CPU_FEATURES;
