/* save_async.c: saves a checkpoint while the run continues.
 *
 * A save stops the run only while each rank copies its state to a staging
 * buffer. A thread of each rank then writes the files from that buffer, as
 * rt_checkpoint_save does from the arena, and reports the result to rank 0: in
 * the rank's slot, or over its lifeline if ranks share no memory. The thread of
 * rank 0 waits for all results and completes the checkpoint.
 *
 *   all ranks        step 100 | copy | step 101 | step 102 | …
 *   writer of rank 3                 | write files, sync, report |
 *   writer of rank 0                 | write files, sync, wait   | index, rename |
 *
 * The writer keeps a moderate pace, so that the steps keep the memory's
 * bandwidth. The next save, and the end of the run, wait for the writer, which
 * then hurries; if a save had to wait, later ones hurry from the start. Hence at
 * most one save is in flight, and a killed run loses at most the state of one
 * interval more than with synchronous saves. Rank 0 reports a failure after the
 * step during which it was found; it counts like that of a synchronous save.
 *
 * The staging buffer has the rank's parameters and optimizer states one after
 * the other. A copy of the model with these offsets describes it, so that
 * save_files.c writes from it without knowing of it.
 *
 * requires  all ranks call the functions after the same steps
 * ensures   the checkpoint has the state after the step of rt_async_save,
 *           however many steps are executed before it is written
 */
#include "checkpoint/save.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/message.h"
#include "device.h"
#include "launch/job.h"
#include "launch/world.h"
#include "params/params.h"
#include "rt.h"
#include "run.h"

enum { NICE = 10, POLL_MS = 2 };

int64_t rt_staging_bytes(const ParcModel *model)
{
    int64_t elements = 0;
    for (int i = 0; i < model->nparams; i++) {
        const ParcParam *p = &model->param[i];
        elements += rt_param_is_saved(p) ? p->local_elements : 0;
    }
    return elements * (int64_t)sizeof(float);
}

/* Describes the staging buffer: saved parameters in order, each layer's run
 * after the other. */
static void lay_out_stage(RtAsync *a, const ParcModel *model)
{
    int64_t at = 0;
    size_t bytes = (size_t)model->nparams * sizeof *a->param;
    a->model = *model;
    a->param = rt_allocate(bytes);
    if (bytes > 0)
        memcpy(a->param, model->param, bytes);
    a->model.param = a->param;
    for (int i = 0; i < model->nparams; i++) {
        ParcParam *p = &a->param[i];
        if (rt_param_is_saved(p)) {
            p->offset = at;
            p->inside = false;
            at += p->local_elements * (int64_t)sizeof(float);
        }
    }
}

void rt_async_open(ParcRt *rt, RtRun *run)
{
    RtAsync *a = &run->async;
    a->bytes = rt_staging_bytes(rt->model);
    if (a->bytes > 0) {
        lay_out_stage(a, rt->model);
        a->rt = rt;
        a->memory = rt_device_staging(rt, a->bytes);
    }
}

/* ---- the copy ------------------------------------------------------------ */

/* A contiguous copy from the arena that is not enqueued yet. */
typedef struct Copy {
    int64_t to, from, bytes;
} Copy;

static void enqueue(ParcRt *rt, RtAsync *a, Copy *c)
{
    if (c->bytes > 0)
        rt_device_stage(rt, a->memory + c->to, c->from, c->bytes);
    c->bytes = 0;
}

/* Joins adjacent ranges to one copy. */
static void extend_copy(ParcRt *rt, RtAsync *a, Copy *c, const Copy *next)
{
    if (c->to + c->bytes != next->to || c->from + c->bytes != next->from) {
        enqueue(rt, a, c);
        c->to = next->to;
        c->from = next->from;
    }
    c->bytes += next->bytes;
}

/* Copies what the rank writes of the state to the staging buffer. */
static void copy_state(ParcRt *rt, RtAsync *a)
{
    const int64_t width = sizeof(float);
    int64_t tensor = 0;
    Copy c = {0};
    for (int i = 0; i < a->model.nparams; i++) {
        RtShard s;
        if (!rt_param_is_saved(&a->param[i]))
            continue;
        rt_shard(&s, rt->model, rt->rank, &rt->model->param[i]);
        for (int64_t l = 0; l < s.layers; l++, tensor++) {
            RtRange r = rt_write_range(rt->model, rt->rank, &s, tensor);
            int64_t from = l * s.row + s.inside + r.begin;
            Copy next = {.to = a->param[i].offset + (l * s.run + r.begin) * width,
                         .from = s.param->offset + from * width,
                         .bytes = (r.end - r.begin) * width};
            if (next.bytes > 0)
                extend_copy(rt, a, &c, &next);
        }
    }
    enqueue(rt, a, &c);
    rt_device_staged(rt);
}

/* ---- the writer ---------------------------------------------------------- */

/* Gives way to the threads that execute steps. They may be pinned, and a new
 * thread inherits that. Failure is ignored. */
static void give_way(const RtWorld *w)
{
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    sched_setaffinity(0, sizeof w->cpus, &w->cpus);
}

/* Tells rank 0 that this rank's part of save `count` has ended. */
static void tell_result(const RtAsync *a, int32_t error)
{
    const RtWorld *w = a->rt->world;
    RtSlot *slot = &w->slot[a->rt->rank];
    atomic_store(&slot->save_error, error);
    atomic_store(&slot->saves, a->count);
    if (w->mapped < w->nranks && a->rt->rank > 0)
        rt_job_saved(w->store, error, a->count);
}

/* Rank 0: waits for the parts of all ranks. A rank that is lost ends the
 * run. */
static void wait_for_parts(const RtAsync *a)
{
    for (int r = 0; r < a->rt->nranks; r++) {
        RtSlot *slot = &a->rt->world->slot[r];
        while (atomic_load(&slot->saves) != a->count)
            nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000}, NULL);
    }
}

static void *write_save(void *context)
{
    RtAsync *a = context;
    const ParcRt *rt = a->rt;
    give_way(rt->world);
    int error = a->save.error;
    if (!error)
        error = rt_save_part(&a->saver, &a->save, &a->model, rt->rank,
                             a->memory, &a->pace);
    tell_result(a, error);
    if (rt->rank == 0) {
        wait_for_parts(a);
        a->saved = rt_save_complete(rt, &a->saver, &a->save, a->state);
    }
    atomic_store(&a->ready, true);
    return NULL;
}

/* Joins the writer. Whether the save has succeeded, known to rank 0 only. */
static bool join_writer(ParcRt *rt, RtRun *run)
{
    RtAsync *a = &run->async;
    if (!a->busy)
        return true;
    atomic_store(&a->pace.hurry, true);
    pthread_join(a->thread, NULL);
    a->busy = false;
    free(a->state);
    a->state = NULL;
    return rt->rank != 0 || rt_save_report(rt, run, a->save.step, &a->saved);
}

/* ---- saves --------------------------------------------------------------- */

void rt_async_save(ParcRt *rt, RtRun *run, int64_t step)
{
    RtAsync *a = &run->async;
    a->late |= a->busy && !atomic_load(&a->ready);
    join_writer(rt, run);
    a->saver = run->saver;
    a->save = rt_save_start(rt, run, step);
    a->state = rt->rank == 0 ? rt_state_text(rt, run, step) : NULL;
    a->count++;
    copy_state(rt, a);
    atomic_store(&a->ready, false);
    atomic_store(&a->pace.hurry, a->late);
    int error = pthread_create(&a->thread, NULL, write_save, a);
    if (error)
        rt_fail(rt, "cannot start a thread: %s; 'ulimit -u' is a limit to their "
                    "number", strerror(error));
    a->busy = true;
    run->saver.saved = step; /* if it fails, a later save may succeed */
}

void rt_async_check(ParcRt *rt, RtRun *run)
{
    if (run->async.busy && atomic_load(&run->async.ready))
        join_writer(rt, run);
}

void rt_async_close(ParcRt *rt, RtRun *run)
{
    RtAsync *a = &run->async;
    if (!a->memory)
        return;
    bool good = join_writer(rt, run);
    rt_share(rt, RT_AT_SAVE, &good, sizeof good);
    run->saver.saved = good ? run->saver.saved : -1;
    rt_device_staging_free(rt, a->memory, a->bytes);
    free(a->param);
    *a = (RtAsync){0};
}
