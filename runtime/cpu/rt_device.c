/* rt_device.c: the CPU as the target: the step computes where the host
 * writes and reads, in the memory that the ranks share. */
#include "rt_device.h"

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

void rt_device_open(ParcRt *rt)
{
    (void)rt;
}

void rt_device_upload(ParcRt *rt, int64_t offset, int64_t bytes)
{
    (void)rt, (void)offset, (void)bytes;
}

void rt_device_download(ParcRt *rt, int64_t offset, int64_t bytes)
{
    (void)rt, (void)offset, (void)bytes;
}

void rt_device_step(ParcRt *rt)
{
    rt->model->step(rt);
}

void rt_device_close(ParcRt *rt)
{
    rt_matmul_close(rt);
}

char *parc_arena(ParcRt *rt)
{
    return rt->arena;
}
