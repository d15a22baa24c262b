/* save_directory.c: names, creates, completes and removes the checkpoints of a
 * directory.
 *
 * A checkpoint is written to a directory with a temporary name, which is
 * renamed when all its files are on disk: a reader finds a whole checkpoint or
 * none, whenever the run is killed. A checkpoint is removed in the reverse
 * order: renamed to a temporary name, then deleted. The directory is locked
 * while a run saves into it; temporary directories are then those of runs that
 * have ended, and are removed at the start.
 *
 *   DIR/.lock
 *   DIR/step-00000900/         an older checkpoint
 *   DIR/step-00001000/         the newest checkpoint
 *   DIR/step-00001100.tmp-5f3a90c2d41b7e68/  is being written
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "checkpoint/save.h"
#include "common/files.h"
#include "common/message.h"
#include "launch/handshake.h"

#define STEP "step-"
#define TEMPORARY ".tmp-"
enum { DIGITS = 8, MOST_DIGITS = 18, TRIES = 20 };
enum { LOCK_NS = 50 * 1000 * 1000 };

void rt_step_name(int64_t step, char name[RT_SAVE_NAME])
{
    snprintf(name, RT_SAVE_NAME, STEP "%0*lld", DIGITS, (long long)step);
}

/* The step of "step-00001000" followed by *rest; -1 for any other name. */
static int64_t parse_step(const char *name, const char **rest)
{
    size_t n = strlen(STEP);
    if (strncmp(name, STEP, n) != 0)
        return -1;
    size_t digits = strspn(name + n, "0123456789");
    *rest = name + n + digits;
    bool good = digits >= DIGITS && digits <= MOST_DIGITS &&
                (digits == DIGITS || name[n] != '0');
    return good ? strtoll(name + n, NULL, 10) : -1;
}

int64_t rt_step_of(const char *name)
{
    const char *rest;
    int64_t step = parse_step(name, &rest);
    return step >= 0 && !*rest ? step : -1;
}

static bool is_temporary(const char *name)
{
    const char *rest;
    return parse_step(name, &rest) >= 0 &&
           strncmp(rest, TEMPORARY, strlen(TEMPORARY)) == 0;
}

static int newest_first(const void *a, const void *b)
{
    const int64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

int rt_steps_list(const char *directory, int64_t **steps)
{
    int n = 0;
    int64_t capacity = 0;
    *steps = NULL;
    DIR *d = opendir(directory);
    if (!d)
        return -1;
    for (struct dirent *e; (e = readdir(d));) {
        int64_t step = rt_step_of(e->d_name);
        if (step < 0)
            continue;
        *steps = rt_grow(*steps, n, &capacity, sizeof **steps);
        (*steps)[n++] = step;
    }
    closedir(d);
    if (n > 0)
        qsort(*steps, (size_t)n, sizeof **steps, newest_first);
    return n;
}

/* ---- at the start of a run ----------------------------------------------- */

static void remove_temporaries(const char *directory)
{
    DIR *d = opendir(directory);
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_temporary(e->d_name)) {
            RT_OWNED char *path = rt_path_join(directory, e->d_name);
            rt_output_discard(path);
        }
    if (d)
        closedir(d);
}

/* Locks the file. The ranks of a run that was killed hold its lock for a short
 * time after it. A file system without locks is used without them. */
static bool take_lock(int file)
{
    for (int i = 0; i < TRIES; i++) {
        if (flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = LOCK_NS}, NULL);
    }
    return false;
}

bool rt_saver_open(RtSaver *s)
{
    int error = mkdir(s->directory, 0777) != 0 && errno != EEXIST ? errno : 0;
    RT_OWNED char *path = rt_path_join(s->directory, ".lock");
    if (!error) {
        s->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        error = s->lock < 0 ? errno : 0;
    }
    if (error)
        return rt_error("--save: cannot write to '%s': %s", s->directory,
                        strerror(error));
    if (!take_lock(s->lock))
        return rt_error("--save: another run saves to '%s'; give each run a "
                        "directory of its own", s->directory);
    remove_temporaries(s->directory);
    return true;
}

/* ---- a save -------------------------------------------------------------- */

/* A name that no other directory has, of a checkpoint or one to remove. */
static void temporary_name(int64_t step, char name[RT_SAVE_NAME])
{
    char stem[RT_SAVE_NAME];
    unsigned char nonce[RT_NONCE];
    rt_nonce(nonce);
    rt_step_name(step, stem);
    snprintf(name, RT_SAVE_NAME, "%.30s" TEMPORARY "%016llx", stem,
             (unsigned long long)rt_little(nonce, 8));
}

int rt_save_begin(const RtSaver *s, int64_t step, char name[RT_SAVE_NAME])
{
    int error = EEXIST;
    for (int i = 0; i < TRIES && error == EEXIST; i++) {
        temporary_name(step, name);
        RT_OWNED char *path = rt_path_join(s->directory, name);
        error = mkdir(path, 0777) != 0 ? errno : 0;
    }
    return error;
}

void rt_save_discard(const RtSaver *s, const char *temporary)
{
    RT_OWNED char *path = rt_path_join(s->directory, temporary);
    rt_output_discard(path);
}

/* Renames DIR/FROM to DIR/TO. Returns 0 or an errno. */
static int rename_in(const RtSaver *s, const char *from, const char *to)
{
    RT_OWNED char *old = rt_path_join(s->directory, from);
    RT_OWNED char *new = rt_path_join(s->directory, to);
    return rename(old, new) != 0 ? errno : 0;
}

/* Renames a checkpoint to a temporary name and deletes it. */
static void remove_checkpoint(const RtSaver *s, int64_t step)
{
    char name[RT_SAVE_NAME], temporary[RT_SAVE_NAME];
    rt_step_name(step, name);
    temporary_name(step, temporary);
    if (rename_in(s, name, temporary) == 0)
        rt_save_discard(s, temporary);
}

static bool has_index(const RtSaver *s, int64_t step)
{
    char name[RT_SAVE_NAME];
    rt_step_name(step, name);
    RT_OWNED char *path =
        rt_format("%s/%s/" RT_INDEX_NAME, s->directory, name);
    return access(path, F_OK) == 0;
}

/* Removes the checkpoints before the `keep` newest ones. A checkpoint without
 * an index does not count as one that is kept. */
static void prune(const RtSaver *s)
{
    RT_OWNED int64_t *steps = NULL;
    int64_t kept = 0;
    int n = s->keep > 0 ? rt_steps_list(s->directory, &steps) : 0;
    for (int i = 0; i < n; i++)
        if (kept >= s->keep)
            remove_checkpoint(s, steps[i]);
        else
            kept += has_index(s, steps[i]);
}

/* Gives a checkpoint its name. One that has this name already is removed
 * afterwards: it is damaged (resume.c), or its save has failed. */
static int rename_checkpoint(const RtSaver *s, int64_t step,
                             const char *temporary)
{
    char name[RT_SAVE_NAME], old[RT_SAVE_NAME];
    rt_step_name(step, name);
    int error = rename_in(s, temporary, name);
    if (error != EEXIST && error != ENOTEMPTY)
        return error;
    temporary_name(step, old);
    error = rename_in(s, name, old);
    if (error)
        return error;
    error = rename_in(s, temporary, name);
    if (error)
        rename_in(s, old, name);
    else
        rt_save_discard(s, old);
    return error;
}

RtSaved rt_save_commit(const RtSaver *s, int64_t step, const char *temporary)
{
    RtSaved done = {.what = "sync of its directory"};
    RT_OWNED char *path = rt_path_join(s->directory, temporary);
    done.error = rt_sync_directory(path);
    if (!done.error) {
        snprintf(done.what, sizeof done.what, "rename");
        done.error = rename_checkpoint(s, step, temporary);
    }
    if (!done.error) {
        snprintf(done.what, sizeof done.what, "sync of the rename");
        done.error = rt_sync_directory(s->directory);
    }
    if (!done.error)
        prune(s);
    return done;
}
