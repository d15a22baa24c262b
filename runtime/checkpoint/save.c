/* save.c: saves a checkpoint of all ranks, between steps or while the run
 * continues.
 *
 *   rank 0                              all ranks
 *   creates step-….tmp-<random>
 *                   -- name, or an error -->
 *                                       write their files, sync them
 *                   <-- error of each rank --
 *   writes index.json, renames, prunes
 *                   -- result -->
 *
 * All ranks take part in all of this whatever fails, so that no rank waits for
 * another one. A rank reports the error of its part in its status, or over its
 * lifeline if ranks share no memory. A save that fails changes nothing: rank 0
 * removes the temporary directory, and older checkpoints stay. The run
 * continues, because the user may free space on a full disk; after MOST_FAILURES
 * failures in a row it ends.
 *
 * With --save-async a save stops the run only while each rank copies its state
 * to a staging buffer. A thread of each rank then writes the files from that
 * buffer; that of rank 0 completes the checkpoint.
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
 * step during which it was found.
 *
 * The staging buffer has the rank's parameters and optimizer states one after
 * the other. A copy of the model with these offsets describes it, so that
 * save_files.c writes from it without knowing of it.
 *
 * requires  all ranks call the functions after the same steps
 * ensures   the checkpoint has the state after the step of the call, however
 *           many steps are executed before it is written
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

#include "common/files.h"
#include "common/message.h"
#include "device.h"
#include "launch/job.h"
#include "launch/world.h"
#include "params/params.h"
#include "rt.h"
#include "run.h"

enum { MOST_FAILURES = 3, NICE = 10, POLL_MS = 2 };

bool rt_save_is_due(const RtRun *run, int64_t step)
{
    const RtSaver *s = &run->saver;
    return s->directory && step > run->start && s->saved != step &&
           (step == run->options.steps ||
            (s->every > 0 && step % s->every == 0) ||
            (s->every == RT_EPOCH && rt_ends_epoch(run, step)));
}

/* ---- a save -------------------------------------------------------------- */

/* Begins a save on all ranks. */
static RtSave start_save(ParcRt *rt, RtRun *run, int64_t step)
{
    RtSave save = {.step = step, .count = ++run->saver.count};
    if (rt->rank == 0)
        save.error = rt_save_begin(&run->saver, step, save.name);
    rt_share(rt, RT_AT_SAVE, &save, sizeof save);
    return save;
}

/* Writes the files of a rank from `memory`, with the offsets of `model`, unless
 * the save could not begin, and tells rank 0 the result. */
static void save_part(const ParcRt *rt, const RtSaver *s, const RtSave *save,
                      const ParcModel *model, const char *memory,
                      const RtPace *pace)
{
    const RtWorld *w = rt->world;
    RtStatus *status = &w->status[rt->rank];
    int error = save->error;
    if (!error) {
        RtPieces pieces;
        RT_OWNED char *directory = rt_path_join(s->directory, save->name);
        rt_pieces_list(&pieces, model, rt->rank, RT_FILE_BYTES);
        error = rt_pieces_write(&pieces, model, directory, memory, pace);
        rt_pieces_free(&pieces);
    }
    atomic_store(&status->save_error, error);
    atomic_store(&status->saves, save->count);
    if (w->mapped < w->nranks && rt->rank > 0)
        rt_job_saved(w->store, error, save->count);
}

/* Rank 0: waits for the parts of all ranks. A rank that is lost ends the
 * run. */
static void wait_for_parts(const ParcRt *rt, const RtSave *save)
{
    for (int r = 0; r < rt->nranks; r++)
        while (atomic_load(&rt->world->status[r].saves) != save->count)
            nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000}, NULL);
}

/* Completes the checkpoint, unless the part of a rank failed. */
static RtSaved complete(const ParcRt *rt, RtSaver *s, const RtSave *save,
                        const char *state)
{
    RtSaved done = {.error = 0};
    for (int r = 0; r < rt->nranks; r++) {
        done.error = atomic_load(&rt->world->status[r].save_error);
        if (done.error) {
            rt_piece_file(r, 0, done.what);
            return done;
        }
    }
    RT_OWNED char *directory = rt_path_join(s->directory, save->name);
    snprintf(done.what, sizeof done.what, "%s", RT_INDEX_NAME);
    done.error = state ? rt_index_write(rt, state, directory) : ENOMEM;
    return done.error ? done : rt_save_commit(s, save->step, save->name);
}

/* Rank 0, after all parts: completes the checkpoint, or discards it if a rank
 * has an error. */
static RtSaved end_save(const ParcRt *rt, RtSaver *s, const RtSave *save,
                        const char *state)
{
    RtSaved done = {.error = save->error};
    wait_for_parts(rt, save);
    if (!save->error) {
        done = complete(rt, s, save, state);
        if (done.error)
            rt_save_discard(s, save->name);
    }
    return done;
}

/* Rank 0: reports a save that has failed; the third failure in a row ends the
 * run. Whether the save has succeeded. */
static bool report_save(ParcRt *rt, RtRun *run, int64_t step,
                        const RtSaved *saved)
{
    RtSaver *s = &run->saver;
    char name[RT_SAVE_NAME];
    const char *what = saved->what;
    if (!saved->error) {
        s->failures = 0;
        return true;
    }
    rt_step_name(step, name);
    s->failures++;
    if (s->failures == MOST_FAILURES)
        rt_fail(rt,
                "cannot save '%s/%s'%s%s: %s; the last %d saves failed; older "
                "checkpoints are unchanged",
                s->directory, name, *what ? ", " : "", what,
                strerror(saved->error), MOST_FAILURES);
    bool last = run->done == run->options.steps || run->agree.pending & RT_STOP;
    rt_note("cannot save '%s/%s'%s%s: %s; %s, older checkpoints are unchanged",
            s->directory, name, *what ? ", " : "", what, strerror(saved->error),
            last ? "the run ends" : "the run continues");
    return false;
}

/* Saves between two steps: the state is written from the arena. */
static void save_now(ParcRt *rt, RtRun *run, int64_t step)
{
    RtSaver *s = &run->saver;
    RtSave save = start_save(rt, run, step);
    bool good = false;
    if (!save.error)
        rt_params_download(rt, true);
    save_part(rt, s, &save, rt->model, rt->arena, NULL);
    rt_synchronize(rt, RT_AT_SAVE);
    if (rt->rank == 0) {
        RT_OWNED char *state = rt_state_text(rt, run, step);
        RtSaved done = end_save(rt, s, &save, state);
        good = report_save(rt, run, step, &done);
    }
    rt_share(rt, RT_AT_SAVE, &good, sizeof good);
    s->saved = good ? step : s->saved;
}

/* ---- the staging buffer -------------------------------------------------- */

int64_t rt_staging_bytes(const ParcModel *model, int rank)
{
    int64_t elements = 0;
    for (int i = 0; i < model->nparams; i++) {
        RtShard s;
        rt_shard(&s, model, rank, &model->param[i]);
        elements += rt_param_is_saved(s.param) ? s.stored * s.run : 0;
    }
    return elements * (int64_t)sizeof(float);
}

int64_t rt_staging_most(const ParcModel *model)
{
    int64_t most = 0;
    for (int rank = 0; rank < rt_nranks(model); rank++) {
        int64_t bytes = rt_staging_bytes(model, rank);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Describes the staging buffer: saved parameters in order, each layer's run
 * after the other. */
static void lay_out_stage(RtAsync *a, const ParcModel *model, int rank)
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
        RtShard s;
        rt_shard(&s, model, rank, &model->param[i]);
        if (rt_param_is_saved(p)) {
            p->offset = at;
            p->inside = false;
            at += s.stored * s.run * (int64_t)sizeof(float);
        }
    }
}

void rt_async_open(ParcRt *rt, RtRun *run)
{
    RtAsync *a = &run->async;
    enum { LEAST = 64 }; /* bytes of a rank that stores nothing: all take part */
    a->bytes = rt_staging_bytes(rt->model, rt->rank);
    if (a->bytes == 0 && rt_staging_most(rt->model) > 0)
        a->bytes = LEAST;
    if (a->bytes > 0) {
        lay_out_stage(a, rt->model, rt->rank);
        a->rt = rt;
        a->memory = rt_device_staging(rt, a->bytes);
    }
}

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
        for (int64_t l = 0; l < rt_param_layers(s.param); l++, tensor++) {
            RtRange r = rt_write_range(rt->model, rt->rank, &s, tensor);
            int64_t at = rt_shard_index(&s, l);
            if (at < 0)
                continue;
            int64_t from = at * s.row + s.inside + r.begin;
            Copy next = {.to = a->param[i].offset + (at * s.run + r.begin) * width,
                         .from = s.param->offset + from * width,
                         .bytes = (r.end - r.begin) * width};
            if (next.bytes > 0)
                extend_copy(rt, a, &c, &next);
        }
    }
    enqueue(rt, a, &c);
    rt_device_staged(rt);
}

/* ---- saves beside steps -------------------------------------------------- */

/* Gives way to the threads that execute steps. They may be pinned, and a new
 * thread inherits that. Failure is ignored. */
static void give_way(const RtWorld *w)
{
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), NICE);
    sched_setaffinity(0, sizeof w->cpus, &w->cpus);
}

static void *write_save(void *context)
{
    RtAsync *a = context;
    const ParcRt *rt = a->rt;
    give_way(rt->world);
    save_part(rt, &a->saver, &a->save, &a->model, a->memory, &a->pace);
    if (rt->rank == 0)
        a->saved = end_save(rt, &a->saver, &a->save, a->state);
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
    return rt->rank != 0 || report_save(rt, run, a->save.step, &a->saved);
}

/* Begins to save, and returns when the state has been copied. Waits for the
 * previous save first. */
static void save_beside(ParcRt *rt, RtRun *run, int64_t step)
{
    RtAsync *a = &run->async;
    a->late |= a->busy && !atomic_load(&a->ready);
    join_writer(rt, run);
    a->saver = run->saver;
    a->save = start_save(rt, run, step);
    a->state = rt->rank == 0 ? rt_state_text(rt, run, step) : NULL;
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

void rt_checkpoint_save(ParcRt *rt, RtRun *run, int64_t step)
{
    if (run->async.memory)
        save_beside(rt, run, step);
    else
        save_now(rt, run, step);
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
