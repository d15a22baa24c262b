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
#include "rt_run.h"

enum { MOST_FAILURES = 3 };

bool rt_save_is_due(const RtRun *run, int64_t step)
{
    const RtSaver *s = &run->saver;
    return s->directory && step > run->start && s->saved != step &&
           (step == run->options.steps || (s->every > 0 && step % s->every == 0));
}

/* Writes the rank's files to the directory; returns 0 or an errno. */
static int write_rank(ParcRt *rt, const char *directory)
{
    RtPieces pieces;
    rt_pieces_list(&pieces, rt->model, rt->rank, RT_SAVE_LIMIT);
    int error = rt_pieces_write(&pieces, rt->model, directory, rt->arena);
    rt_pieces_free(&pieces);
    return error;
}

/* The first rank whose part failed, and its error; -1: none failed. */
static int failed_rank(ParcRt *rt, int *error)
{
    const RtWorld *w = rt->world;
    int rank = -1;
    for (int r = 0; r < rt->nranks; r++) {
        int32_t e = atomic_load(&w->slot[r].save_error);
        if (r < w->first || r >= w->first + w->mapped) {
            rt_job_read(w->store, r, RT_OF_SAVE, 0, sizeof e, &e);
        }
        if (e != 0 && rank < 0) {
            rank = r;
            *error = e;
        }
    }
    return rank;
}

/* Completes the checkpoint. Returns 0, or an errno and the file in `what`. */
static int complete(ParcRt *rt, RtRun *run, int64_t step, const char *name,
                    char what[RT_SAVE_NAME])
{
    RtSaver *s = &run->saver;
    int error = 0, rank = failed_rank(rt, &error);
    if (rank >= 0) {
        rt_piece_file(rank, 0, what);
        return error;
    }
    char *directory = rt_path_join(s->directory, name);
    snprintf(what, RT_SAVE_NAME, "%s", RT_INDEX_NAME);
    error = rt_index_write(rt, run, directory, step);
    free(directory);
    if (!error) {
        what[0] = 0;
        error = rt_save_commit(s, step, name);
    }
    return error;
}

/* Rank 0: reports a failure; the third one in a row ends the run. */
static void report(ParcRt *rt, RtSaver *s, int64_t step, int error,
                   const char *what)
{
    char name[RT_SAVE_NAME];
    rt_step_name(step, name);
    s->failures++;
    if (s->failures == MOST_FAILURES) {
        rt_fail(rt,
                "cannot save '%s/%s'%s%s: %s; the last %d saves failed; older "
                "checkpoints are unchanged",
                s->directory, name, *what ? ", " : "", what, strerror(error),
                MOST_FAILURES);
    }
    rt_note(rt->world->program,
            "cannot save '%s/%s'%s%s: %s; older checkpoints are unchanged",
            s->directory, name, *what ? ", " : "", what, strerror(error));
}

typedef struct Begin {
    int32_t error;
    char name[RT_SAVE_NAME];
} Begin;

/* Rank 0, after all ranks have written their parts. */
static bool finish(ParcRt *rt, RtRun *run, int64_t step, const Begin *begin)
{
    RtSaver *s = &run->saver;
    char what[RT_SAVE_NAME] = "";
    int error = begin->error;
    if (!error) {
        error = complete(rt, run, step, begin->name, what);
        if (error) {
            rt_save_discard(s, begin->name);
        }
    }
    if (error) {
        report(rt, s, step, error, what);
    } else {
        s->failures = 0;
    }
    return error == 0;
}

bool rt_checkpoint_save(ParcRt *rt, RtRun *run, int64_t step)
{
    RtSaver *s = &run->saver;
    Begin begin = {0};
    bool good = false;
    if (rt->rank == 0) {
        begin.error = rt_save_begin(s, step, begin.name);
    }
    rt_share(rt, RT_AT_SAVE, &begin, sizeof begin);
    int32_t error = begin.error;
    if (!error) {
        char *directory = rt_path_join(s->directory, begin.name);
        rt_params_download(rt, true);
        error = write_rank(rt, directory);
        free(directory);
    }
    atomic_store(&rt->world->slot[rt->rank].save_error, error);
    rt_meet(rt, RT_AT_SAVE);
    if (rt->rank == 0) {
        good = finish(rt, run, step, &begin);
    }
    rt_meet(rt, RT_AT_SAVE); /* until then rank 0 may request errors */
    rt_share(rt, RT_AT_SAVE, &good, sizeof good);
    s->saved = good ? step : s->saved;
    return good;
}
