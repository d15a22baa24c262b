/* output.c: writes files that appear whole or not at all.
 *
 * A file is written under a temporary name in the same directory, synced, and
 * then renamed. A device, a pipe or standard output ("-") is written directly.
 * Each path is checked before the run starts, because an error after a long
 * run would lose its results.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"

void rt_streams_prepare(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    signal(SIGXFSZ, SIG_IGN);
}

/* The path without symbolic links: the rename must replace the file, not the
 * link. */
static char *resolve(const char *path)
{
    char *real = realpath(path, NULL);
    return real ? real : rt_format("%s", path);
}

/* Whether no process writes STEM.PID.tmp; `rest` is "PID.tmp". The lock also
 * protects the files of other machines and containers. */
static bool is_stale(const char *path, const char *rest)
{
    char *end;
    long pid = strtol(rest, &end, 10);
    if (rest[0] < '1' || rest[0] > '9' || pid > INT_MAX ||
        strcmp(end, ".tmp") != 0 ||
        (pid != getpid() && (kill((pid_t)pid, 0) == 0 || errno != ESRCH)))
        return false;
    int file = open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    bool stale = file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0;
    if (file >= 0)
        close(file);
    return stale;
}

void rt_output_remove_stale(const char *stem)
{
    const char *slash = strrchr(stem, '/');
    const char *name = slash ? slash + 1 : stem;
    size_t n = strlen(name);
    char *parent =
        slash ? rt_format("%.*s", (int)(name - stem), stem) : rt_format(".");
    DIR *d = opendir(parent);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, name, n) == 0 && e->d_name[n] == '.') {
            char *path = rt_path_join(parent, e->d_name);
            if (is_stale(path, e->d_name + n + 1))
                rt_output_discard(path);
            free(path);
        }
    if (d)
        closedir(d);
    free(parent);
}

char *rt_output_probe(const char *path)
{
    if (rt_output_is_stdout(path))
        return rt_allocate(1); /* "": no temporary file */
    char *real = resolve(path);
    char *temporary = rt_format("%s.%ld.tmp", real, (long)getpid());
    struct stat st;
    int error = 0;
    rt_output_remove_stale(real);
    free(real);
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        temporary[0] = 0;
        error = S_ISDIR(st.st_mode)        ? EISDIR
                : access(path, W_OK) != 0 ? errno
                                          : 0;
    } else {
        int file = open(temporary, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
        error = file < 0 ? errno : 0;
        if (file >= 0) {
            close(file);
            unlink(temporary);
        }
    }
    if (error) {
        rt_error("cannot write '%s': %s", path, strerror(error));
        free(temporary);
        return NULL;
    }
    return temporary;
}

int rt_sync_directory(const char *path)
{
    int file = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int error = file < 0 || (fsync(file) != 0 && errno != EINVAL) ? errno : 0;
    if (file >= 0)
        close(file);
    return error;
}

void rt_output_discard(const char *temporary)
{
    if (!temporary || !*temporary || unlink(temporary) == 0 ||
        errno != EISDIR)
        return;
    DIR *directory = opendir(temporary);
    for (struct dirent *e; directory && (e = readdir(directory));)
        unlinkat(dirfd(directory), e->d_name, 0);
    if (directory)
        closedir(directory);
    rmdir(temporary);
}

void rt_output_open(RtOutput *o, const char *path, const char *temporary)
{
    bool direct = !temporary[0];
    int flags = O_WRONLY | O_CLOEXEC | (direct ? 0 : O_CREAT | O_TRUNC);
    *o = (RtOutput){.path = path, .temporary = temporary};
    o->file = rt_output_is_stdout(path)
                  ? dup(STDOUT_FILENO)
                  : open(direct ? path : temporary, flags, 0666);
    o->error = o->file < 0 ? errno : 0;
    if (!direct && o->file >= 0)
        flock(o->file, LOCK_EX | LOCK_NB); /* see is_stale */
}

void rt_output_create(RtOutput *o, const char *path)
{
    *o = (RtOutput){.path = path, .temporary = ""};
    o->file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    o->error = o->file < 0 ? errno : 0;
}

void rt_output_put(RtOutput *o, const void *data, size_t n)
{
    const char *p = data;
    while (n > 0 && !o->error) {
        ssize_t did = write(o->file, p, n);
        if (did < 0 && errno == EINTR)
            continue;
        if (did <= 0) {
            o->error = did < 0 ? errno : ENOSPC;
            return;
        }
        p += did;
        n -= (size_t)did;
    }
}

/* Returns 0 on an error; stdio then stops writing. */
static ssize_t put_from_stream(void *context, const char *data, size_t n)
{
    RtOutput *o = context;
    o->crc = rt_crc32c(o->crc, data, n);
    rt_output_put(o, data, n);
    return o->error ? 0 : (ssize_t)n;
}

FILE *rt_output_stream(RtOutput *o)
{
    cookie_io_functions_t functions = {.write = put_from_stream};
    FILE *f = fopencookie(o, "w", functions);
    if (!f && !o->error)
        o->error = ENOMEM;
    return f;
}

int rt_output_end(RtOutput *o, bool sync)
{
    if (sync && !o->error && fsync(o->file) != 0 && errno != EINVAL)
        o->error = errno;
    if (o->file >= 0 && close(o->file) != 0 && !o->error)
        o->error = errno;
    return o->error;
}

const char *rt_output_close(RtOutput *o)
{
    rt_output_end(o, true);
    if (!o->error && o->temporary[0]) {
        char *real = resolve(o->path);
        o->error = rename(o->temporary, real) != 0 ? errno : 0;
        free(real);
    }
    return o->error ? strerror(o->error) : NULL;
}
