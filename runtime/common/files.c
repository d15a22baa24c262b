/* files.c: reads and writes the files of a run, and compares and joins paths.
 *
 * An output appears whole or not at all: it is written under a temporary name
 * in the same directory, synced, and then renamed. A device, a pipe or standard
 * output ("-") is written directly. Each path is checked before the run starts,
 * because an error after a long run would lose its results.
 *
 * An input is mapped: that needs no read buffer, and ranks share its pages.
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
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"

/* ---- paths --------------------------------------------------------------- */

bool rt_output_is_stdout(const char *path)
{
    return strcmp(path, "-") == 0;
}

const char *rt_output_name(const char *path)
{
    return rt_output_is_stdout(path) ? "standard output" : path;
}

bool rt_is_regular(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Whether both paths name one entry of one directory, existing or not. */
static bool is_same_entry(const char *a, const char *b)
{
    const char *path[2] = {a, b}, *name[2];
    struct stat directory[2];
    for (int i = 0; i < 2; i++) {
        const char *slash = strrchr(path[i], '/');
        size_t n = slash ? (size_t)(slash - path[i]) + 1 : 0;
        RT_OWNED char *parent = rt_format("%.*s", n ? (int)n : 1,
                                          n ? path[i] : ".");
        if (stat(parent, &directory[i]) != 0)
            return false;
        name[i] = path[i] + n;
    }
    return directory[0].st_dev == directory[1].st_dev &&
           directory[0].st_ino == directory[1].st_ino &&
           strcmp(name[0], name[1]) == 0;
}

/* Several outputs may write to one device or pipe. */
bool rt_is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    if (rt_output_is_stdout(a) || rt_output_is_stdout(b))
        return strcmp(a, b) == 0;
    if (stat(a, &x) != 0 || stat(b, &y) != 0)
        return strcmp(a, b) == 0 || is_same_entry(a, b);
    return S_ISREG(x.st_mode) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

char *rt_path_join(const char *directory, const char *name)
{
    size_t n = strlen(directory);
    bool slash = n > 0 && directory[n - 1] != '/';
    return rt_format("%s%s%s", directory, slash ? "/" : "", name);
}

/* ---- inputs -------------------------------------------------------------- */

/* O_NONBLOCK: opening a pipe without a writer must not block before the pipe
 * can be refused. It has no effect on a regular file. */
int rt_file_map(const char *path, const unsigned char **map, int64_t *size)
{
    struct stat st;
    void *at = NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int error = file < 0 || fstat(file, &st) != 0 ? errno
                : !S_ISREG(st.st_mode)            ? EINVAL
                                                  : 0;
    if (!error && st.st_size > 0) {
        at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        error = at == MAP_FAILED ? errno : 0;
    }
    if (file >= 0)
        close(file);
    *map = error ? NULL : at;
    *size = error ? 0 : st.st_size;
    return error;
}

const unsigned char *rt_input_map(const char *path, int64_t *size)
{
    const unsigned char *map = NULL;
    if (strcmp(path, "-") == 0) {
        rt_error("cannot read '-': standard input cannot be mapped; name a "
                 "file (./- for a file of that name)");
        return NULL;
    }
    int error = rt_file_map(path, &map, size);
    if (error)
        rt_error(
            "cannot read '%s': %s", path,
            error == EINVAL ? "it is not a regular file" : strerror(error));
    else if (*size == 0)
        rt_fault(path, 0, "the file is empty");
    return map;
}

void rt_input_unmap(const unsigned char *map, int64_t size)
{
    if (map)
        munmap((void *)(uintptr_t)map, (size_t)size);
}

double rt_read_number(const char *path, double otherwise)
{
    double value = otherwise;
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lf", &value) != 1)
        value = otherwise;
    if (f)
        fclose(f);
    return value;
}

/* ---- outputs ------------------------------------------------------------- */

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
    RT_OWNED char *parent =
        slash ? rt_format("%.*s", (int)(name - stem), stem) : rt_format(".");
    DIR *d = opendir(parent);
    for (struct dirent *e; d && (e = readdir(d));)
        if (strncmp(e->d_name, name, n) == 0 && e->d_name[n] == '.') {
            RT_OWNED char *path = rt_path_join(parent, e->d_name);
            if (is_stale(path, e->d_name + n + 1))
                rt_output_discard(path);
        }
    if (d)
        closedir(d);
}

char *rt_output_probe(const char *path)
{
    if (rt_output_is_stdout(path))
        return rt_allocate(1); /* "": no temporary file */
    RT_OWNED char *real = resolve(path);
    char *temporary = rt_format("%s.%ld.tmp", real, (long)getpid());
    struct stat st;
    int error = 0;
    rt_output_remove_stale(real);
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
        RT_OWNED char *real = resolve(o->path);
        o->error = rename(o->temporary, real) != 0 ? errno : 0;
    }
    return o->error ? strerror(o->error) : NULL;
}
