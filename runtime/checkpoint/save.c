/* save.c: saves a checkpoint of all ranks.
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
 * another one. A save that fails changes nothing: rank 0 removes the temporary
 * directory, and older checkpoints stay. The run continues, because the user
 * may free space on a full disk; after MOST_FAILURES failures in a row it ends.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/save.h"
#include "common/files.h"
#include "common/message.h"
#include "launch/job.h"
#include "launch/world.h"
#include "params/params.h"
#include "rt.h"
#include "run.h"

enum { MOST_FAILURES = 3 };

bool rt_save_is_due(const RtRun *run, int64_t step)
{
    const RtSaver *s = &run->saver;
    return s->directory && step > run->start && s->saved != step &&
           (step == run->options.steps ||
            (s->every > 0 && step % s->every == 0) ||
            (s->every == RT_EPOCH && rt_ends_epoch(run, step)));
}

int rt_save_part(const RtSaver *s, const RtSave *save, const ParcModel *model,
                 int rank, const char *memory, const RtPace *pace)
{
    RtPieces pieces;
    char *directory = rt_path_join(s->directory, save->name);
    rt_pieces_list(&pieces, model, rank, RT_FILE_BYTES);
    int error = rt_pieces_write(&pieces, model, directory, memory, pace);
    rt_pieces_free(&pieces);
    free(directory);
    return error;
}

/* Stores the errors of ranks that are not mapped here in their slots. */
static void read_errors(ParcRt *rt)
{
    const RtWorld *w = rt->world;
    for (int r = 0; r < rt->nranks; r++) {
        int32_t error;
        if (rt_is_mapped(w, r))
            continue;
        rt_job_read(w->store, r, RT_OF_SAVE, 0, sizeof error, &error);
        atomic_store(&w->slot[r].save_error, error);
    }
}

/* Completes the checkpoint, unless the part of a rank failed. */
static RtSaved complete(const ParcRt *rt, RtSaver *s, const RtSave *save,
                        const char *state)
{
    RtSaved done = {.error = 0};
    for (int r = 0; r < rt->nranks; r++) {
        done.error = atomic_load(&rt->world->slot[r].save_error);
        if (done.error) {
            rt_piece_file(r, 0, done.what);
            return done;
        }
    }
    char *directory = rt_path_join(s->directory, save->name);
    snprintf(done.what, sizeof done.what, "%s", RT_INDEX_NAME);
    done.error = state ? rt_index_write(rt, state, directory) : ENOMEM;
    free(directory);
    return done.error ? done : rt_save_commit(s, save->step, save->name);
}

RtSaved rt_save_complete(const ParcRt *rt, RtSaver *s, const RtSave *save,
                         const char *state)
{
    RtSaved done = {.error = save->error};
    if (!save->error) {
        done = complete(rt, s, save, state);
        if (done.error)
            rt_save_discard(s, save->name);
    }
    return done;
}

bool rt_save_report(ParcRt *rt, RtRun *run, int64_t step, const RtSaved *saved)
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

RtSave rt_save_start(ParcRt *rt, RtRun *run, int64_t step)
{
    RtSave save = {.step = step};
    if (rt->rank == 0)
        save.error = rt_save_begin(&run->saver, step, save.name);
    rt_share(rt, RT_AT_SAVE, &save, sizeof save);
    return save;
}

bool rt_checkpoint_save(ParcRt *rt, RtRun *run, int64_t step)
{
    RtSaver *s = &run->saver;
    RtSave save = rt_save_start(rt, run, step);
    bool good = false;
    int32_t error = save.error;
    if (!error) {
        rt_params_download(rt, true);
        error = rt_save_part(s, &save, rt->model, rt->rank, rt->arena,
                             NULL);
    }
    atomic_store(&rt->world->slot[rt->rank].save_error, error);
    rt_synchronize(rt, RT_AT_SAVE);
    if (rt->rank == 0) {
        read_errors(rt);
        char *state = rt_state_text(rt, run, step);
        RtSaved done = rt_save_complete(rt, s, &save, state);
        free(state);
        good = rt_save_report(rt, run, step, &done);
    }
    rt_synchronize(rt, RT_AT_SAVE); /* until then rank 0 may request errors */
    rt_share(rt, RT_AT_SAVE, &good, sizeof good);
    s->saved = good ? step : s->saved;
    return good;
}
