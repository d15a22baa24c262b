/* rt_device.c: the CPU as the target: the step computes where the host
 * writes and reads, in the memory that the ranks share. */
#include "rt_device.h"

#include <linux/mman.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rt_threads.h"

void rt_device_begin(char **argv, const ParcModel *model, int64_t threads)
{
    rt_threads_wait(argv, model, threads);
}

/* Arenas that cannot be in memory together would be killed half-way. */
bool rt_device_fits(const RtWorld *w)
{
    double need = (double)w->nranks * (double)w->model->arena_bytes;
    double have =
        (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (need <= have) {
        return true;
    }
    char one[32], all[32], box[32];
    rt_error(w->program, "%d rank%s of %s need%s %s; this machine has %s",
             w->nranks, w->nranks == 1 ? "" : "s",
             rt_size_text((double)w->model->arena_bytes, one),
             w->nranks == 1 ? "s" : "", rt_size_text(need, all),
             rt_size_text(have, box));
    return false;
}

void rt_device_place(const RtWorld *w, int rank)
{
    rt_threads_place(w, rank);
}

/* Shared memory has large pages on demand only: one small page in each is
 * touched, then all are joined. It costs less than to fault them in one by
 * one, and what streams over them runs half as fast again. Refusal is no
 * harm. */
void rt_device_open(ParcRt *rt)
{
#if defined(MADV_COLLAPSE)
    size_t whole = (size_t)rt->model->arena_bytes;
    whole -= whole % RT_LARGE_PAGE;
    if (rt->nranks == 1 || whole == 0) {
        return;
    }
    for (size_t at = 0; at < whole; at += RT_LARGE_PAGE) {
        *(volatile char *)(rt->arena + at) = 0;
    }
    madvise(rt->arena, whole, MADV_COLLAPSE);
#else
    (void)rt;
#endif
}

void rt_device_upload(ParcRt *rt, int64_t offset, int64_t bytes)
{
    (void)rt, (void)offset, (void)bytes;
}

void rt_device_download(ParcRt *rt, int64_t offset, int64_t bytes)
{
    (void)rt, (void)offset, (void)bytes;
}

void parc_mark(ParcRt *rt, int i, int64_t turn)
{
    if (rt->ring) {
        rt_trace_add(rt->ring, i, turn);
    }
    if (rt->nan_check) {
        rt_nan_mark(rt, i, turn);
    }
}

void rt_device_step(ParcRt *rt)
{
    rt->model->step(rt);
    if (rt->nan_check) {
        rt_nan_mark(rt, -1, 0);
    }
}

/* The mirror is what the step computes in. */
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
    (void)rt; /* ranks and threads have been said */
}

void rt_device_close(ParcRt *rt)
{
    rt_matmul_close(rt);
}

char *parc_arena(ParcRt *rt)
{
    return rt->arena;
}
