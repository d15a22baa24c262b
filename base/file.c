/* file.c: reads files, writes sets of files atomically, removes directories,
 * runs child processes, and prepares standard streams, signals and the stack.
 *
 * A file of a set is written under a temporary name in its final directory and
 * renamed by outputs_commit. If the final path is not a regular file
 * (/dev/null, a pipe), the temporary file is in TMPDIR and is copied. While a
 * set is open, signals that would end parc are blocked, so that an interrupted
 * run leaves no files either.
 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/out.h"

extern char **environ;

/* Bytes of one read; looks for a reader or for a child's end, for 1 s in all,
 * and the time between them. */
enum { PIECE = 4096, TRIES = 20, WAIT_NS = 50000000 };
static const struct timespec between = {.tv_nsec = WAIT_NS};

/* ---- standard streams ---- */

void streams_prepare(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    signal(SIGXFSZ, SIG_IGN);
}

/* Linux applies the limit when the stack grows, and leaves 128 MiB of the
 * address space to it. */
const char *stack_prepare(Arena *a)
{
    const rlim_t most = 120 << 20, least = 8 << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_STACK, &limit) != 0)
        return NULL;
    if (limit.rlim_cur < most) { /* RLIM_INFINITY is the largest number */
        limit.rlim_cur = limit.rlim_max < most ? limit.rlim_max : most;
        setrlimit(RLIMIT_STACK, &limit);
    }
    if (limit.rlim_cur >= least)
        return NULL;
    return arena_printf(a,
                        "the limit of the stack is %lld KiB, and parc needs "
                        "%lld: see 'ulimit -H -s'",
                        (long long)limit.rlim_cur >> 10,
                        (long long)least >> 10);
}

/* ---- reading ---- */

static void close_keeping_errno(int fd)
{
    int error = errno;
    close(fd);
    errno = error;
}

/* Appends what follows in a file. False on failure, with errno set. */
static bool read_all(int fd, Out *o)
{
    for (;;) {
        char part[PIECE];
        ssize_t n = read(fd, part, sizeof part);
        if (n == 0)
            return true;
        if (n > 0)
            out_bytes(o, part, (size_t)n);
        else if (errno != EINTR)
            return false;
    }
}

char *file_read(Arena *a, const char *path, size_t *size)
{
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    Out o;
    out_init(&o, a);
    bool read = read_all(fd, &o);
    if (!standard)
        close_keeping_errno(fd);
    *size = o.size;
    return read ? o.text : NULL;
}

/* ---- sets of outputs ---- */

typedef struct Entry {
    const char *path; /* the final path, symbolic links resolved */
    const char *temp;
    const char *backup; /* the file that it replaces, or NULL */
    bool special;       /* copied instead of renamed */
    bool placed;        /* commit has renamed it */
} Entry;

struct Outputs {
    Arena *arena;
    VEC(Entry) entry;
    VEC(const char *) made; /* directories, outer first */
    VEC(const char *) temporary; /* directories that go with the set */
    sigset_t before;        /* the signal mask before the set */
    bool open;
};

/* ---- directories ---- */

static int remove_entry(const char *path, const struct stat *st, int flag,
                        struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    return remove(path);
}

bool directory_remove(const char *path)
{
    enum { OPEN_DIRECTORIES = 16 };
    return nftw(path, remove_entry, OPEN_DIRECTORIES, FTW_DEPTH | FTW_PHYS) ==
           0;
}

/* ---- sets of files ---- */

/* The signals by which users end parc. */
static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };

static void block(const int *signals, size_t n, sigset_t *before)
{
    sigset_t wait;
    sigemptyset(&wait);
    for (size_t i = 0; i < n; i++)
        sigaddset(&wait, signals[i]);
    sigprocmask(SIG_BLOCK, &wait, before);
}

/* A failing write to a pipe returns an error, so that the files are removed; the
 * signal ends parc after that. */
Outputs *outputs_new(Arena *a)
{
    Outputs *o = NEW(a, Outputs);
    o->arena = a;
    o->open = true;
    block((int[]){SIGPIPE}, 1, &o->before);
    return o;
}

/* A set of outputs blocks the signals from its first file on, until it is
 * complete or removed. */
static void hold(void)
{
    block(stop_signals, STOP_SIGNALS, NULL);
}

static bool asked_to_stop(void)
{
    sigset_t set;
    sigpending(&set);
    for (size_t i = 0; i < STOP_SIGNALS; i++)
        if (sigismember(&set, stop_signals[i]) == 1)
            return true;
    return false;
}

static void outputs_close(Outputs *o)
{
    for (int i = 0; i < o->temporary.n; i++)
        directory_remove(o->temporary.at[i]);
    o->temporary.n = 0;
    if (o->open)
        sigprocmask(SIG_SETMASK, &o->before, NULL);
    o->open = false;
}

static const char *failure(Outputs *o, const char *what, const char *path)
{
    return arena_printf(o->arena, "cannot %s '%s': %s", what, path,
                        strerror(errno));
}

const char *outputs_mkdir(Outputs *o, const char *path)
{
    char *prefix = arena_strdup(o->arena, path);
    for (char *p = prefix + 1;; p++) {
        if (*p != '/' && *p != 0)
            continue;
        char c = *p;
        *p = 0;
        struct stat st;
        hold();
        if (mkdir(prefix, 0777) == 0) {
            vec_push(o->arena, &o->made, arena_strdup(o->arena, prefix));
        } else {
            int error = errno == EEXIST ? ENOTDIR : errno;
            if (stat(prefix, &st) != 0 || !S_ISDIR(st.st_mode)) {
                errno = error;
                return failure(o, "make the directory", prefix);
            }
        }
        *p = c;
        if (c == 0)
            return NULL;
    }
}

/* The path that a symbolic link to a missing file leads to; `path` itself if it
 * is not a link. */
static const char *missing_target(Arena *a, const char *path)
{
    char target[PATH_MAX];
    for (ssize_t n; (n = readlink(path, target, sizeof target)) > 0;) {
        const char *slash = strrchr(path, '/');
        int dir = slash && *target != '/' ? (int)(slash + 1 - path) : 0;
        path = arena_printf(a, "%.*s%.*s", dir, path, (int)n, target);
    }
    return path;
}

/* Opens a new temporary file for `path` and adds it to the set. Without
 * `follow` the file replaces whatever has the name. */
static int open_temp(Outputs *o, const char *path, mode_t mode, bool follow,
                     Entry *e)
{
    *e = (Entry){.path = path};
    struct stat st;
    if (follow && stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode)) {
            errno = EISDIR;
            return -1;
        }
        e->special = !S_ISREG(st.st_mode);
        char *real = realpath(path, NULL);
        if (real)
            e->path = arena_strdup(o->arena, real);
        free(real);
    } else if (follow && errno == ENOENT) {
        e->path = missing_target(o->arena, path);
    } else if (follow) {
        return -1;
    }
    const char *slash = strrchr(e->path, '/');
    char *temp;
    if (e->special) {
        const char *dir = getenv("TMPDIR");
        temp = arena_printf(o->arena, "%s/parc.XXXXXX",
                            dir && *dir ? dir : "/tmp");
    } else {
        int dir = slash ? (int)(slash + 1 - e->path) : 0;
        /* A name may have 255 bytes, with the suffixes here and in place(). */
        temp = arena_printf(o->arena, "%.*s.%.200s.XXXXXX", dir, e->path,
                            e->path + dir);
    }
    hold();
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0)
        return -1;
    mode_t mask = umask(0);
    umask(mask);
    fchmod(fd, mode & ~mask);
    e->temp = temp;
    vec_push(o->arena, &o->entry, *e);
    return fd;
}

/* Writes to a file, or to a pipe or device opened with O_NONBLOCK. A signal that
 * would end parc stops the wait for the reader. */
static bool write_all(int fd, const char *text, size_t size)
{
    enum { POLL_MS = 100 };
    while (size > 0) {
        ssize_t n = write(fd, text, size);
        if (n >= 0) {
            text += n;
            size -= (size_t)n;
        } else if (errno == EAGAIN && !asked_to_stop()) {
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, POLL_MS);
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

static const char *stage_output(Outputs *o, const char *path, const char *text,
                                size_t size, mode_t mode, bool follow)
{
    Entry e;
    int fd = open_temp(o, path, mode, follow, &e);
    if (fd < 0)
        return failure(o, "write", path);
    if (!write_all(fd, text, size)) {
        close_keeping_errno(fd);
        return failure(o, "write", path);
    }
    return close(fd) == 0 ? NULL : failure(o, "write", path);
}

const char *outputs_add(Outputs *o, const char *path, const char *text,
                        size_t size, bool executable)
{
    return stage_output(o, path, text, size, executable ? 0777 : 0666, true);
}

const char *outputs_replace(Outputs *o, const char *path, const char *text,
                            size_t size)
{
    return stage_output(o, path, text, size, 0666, false);
}

const char *outputs_temp(Outputs *o, const char *path)
{
    Entry e;
    int fd = open_temp(o, path, 0777, true, &e);
    if (fd < 0)
        return NULL;
    close(fd);
    return e.temp;
}

const char *outputs_directory(Outputs *o)
{
    const char *in = getenv("TMPDIR");
    char *path = arena_printf(o->arena, "%s/parc-XXXXXX", in && *in ? in : "/tmp");
    hold();
    if (!mkdtemp(path))
        return NULL;
    vec_push(o->arena, &o->temporary, (const char *)path);
    return path;
}

/* Opens a pipe or device for writing. The reader of a pipe may start a moment
 * later than parc, as in a script that starts both; after that ENXIO. */
static int open_special(const char *path)
{
    int fd = -1;
    for (int i = 0; fd < 0 && i < TRIES; i++) {
        fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0 || errno != ENXIO || asked_to_stop())
            break;
        nanosleep(&between, NULL);
        errno = ENXIO;
    }
    return fd;
}

static bool place_special(Outputs *o, Entry *e)
{
    size_t size;
    char *text = file_read(o->arena, e->temp, &size);
    int fd = text ? open_special(e->path) : -1;
    if (fd < 0)
        return false;
    bool good = write_all(fd, text, size);
    close_keeping_errno(fd);
    int error = errno;
    unlink(e->temp);
    errno = error;
    return good;
}

/* With several files, a replaced file is saved until all are in place. */
static bool place(Outputs *o, Entry *e)
{
    if (e->special)
        return place_special(o, e);
    if (o->entry.n > 1) {
        e->backup = arena_printf(o->arena, "%s.old", e->temp);
        if (link(e->path, e->backup) != 0)
            e->backup = NULL;
    }
    return rename(e->temp, e->path) == 0;
}

const char *outputs_commit(Outputs *o)
{
    for (int i = 0; i < o->entry.n; i++) {
        Entry *e = &o->entry.at[i];
        if (!place(o, e)) {
            const char *message =
                e->special && errno == ENXIO
                    ? arena_printf(o->arena, "cannot write '%s': no process "
                                   "reads from it", e->path)
                    : failure(o, "write", e->path);
            outputs_abandon(o);
            return message;
        }
        e->placed = true;
    }
    for (int i = 0; i < o->entry.n; i++)
        if (o->entry.at[i].backup)
            unlink(o->entry.at[i].backup);
    outputs_close(o);
    return NULL;
}

void outputs_abandon(Outputs *o)
{
    if (!o->open)
        return;
    for (int i = o->entry.n - 1; i >= 0; i--) {
        Entry *e = &o->entry.at[i];
        if (!e->placed)
            unlink(e->temp);
        if (e->backup && !e->placed)
            unlink(e->backup);
        else if (e->backup)
            rename(e->backup, e->path);
        else if (e->placed && !e->special)
            unlink(e->path);
    }
    for (int i = o->made.n - 1; i >= 0; i--)
        rmdir(o->made.at[i]);
    outputs_close(o);
}

/* ---- child processes ---- */

/* Starts argv with standard output and error on `fd`; returns 0 or an errno. */
static int start_child(const char *const *argv, const char *directory, int fd,
                       pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attr);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    /* parc's own standard output carries only what the user requested. */
    posix_spawn_file_actions_adddup2(&files, fd, 1);
    posix_spawn_file_actions_adddup2(&files, fd, 2);
    if (directory)
        posix_spawn_file_actions_addchdir_np(&files, directory);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attr, &none);
    /* The child has its own process group, which stop_child ends with it. */
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
                                        POSIX_SPAWN_SETPGROUP);
    /* posix_spawnp takes char *const *, but does not write to the strings. */
    int error = posix_spawnp(pid, argv[0], &files, &attr,
                             (char *const *)(uintptr_t)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

bool wait_readable(int fd)
{
    enum { POLL_MS = 100 };
    struct pollfd on = {.fd = fd, .events = POLLIN};
    while (poll(&on, 1, POLL_MS) <= 0)
        if (asked_to_stop())
            return true;
    return false;
}

/* Ends the process group of a child: SIGTERM lets a compiler remove its
 * temporary files, SIGKILL follows if the child is still running a second
 * later. */
static void stop_child(pid_t pid, int *status)
{
    bool ended = false;
    kill(-pid, SIGTERM);
    for (int i = 0; i < TRIES && !ended; i++) {
        nanosleep(&between, NULL);
        ended = waitpid(pid, status, WNOHANG) == pid;
    }
    kill(-pid, SIGKILL);
    if (!ended)
        waitpid(pid, status, 0);
}

/* Reads a child's output and waits for its end. NULL if parc is asked to stop;
 * then the child has ended too. */
static char *follow_child(Arena *a, pid_t pid, int fd, int *status)
{
    Out o;
    out_init(&o, a);
    for (;;) {
        if (wait_readable(fd)) {
            stop_child(pid, status);
            return NULL;
        }
        char part[PIECE];
        ssize_t n = read(fd, part, sizeof part);
        if (n <= 0)
            break;
        out_bytes(&o, part, (size_t)n);
    }
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        continue;
    return o.text;
}

static int run_child(Arena *a, const char *const *argv, const char *directory,
                     char **errors)
{
    int ends[2];
    *errors = "";
    if (pipe2(ends, O_CLOEXEC) != 0) {
        *errors =
            arena_printf(a, "cannot start '%s': %s", argv[0], strerror(errno));
        return -1;
    }
    pid_t pid;
    int error = start_child(argv, directory, ends[1], &pid);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        *errors =
            arena_printf(a, "cannot start '%s': %s", argv[0], strerror(error));
        return -1;
    }
    int status = 0;
    char *text = follow_child(a, pid, ends[0], &status);
    close(ends[0]);
    *errors = text ? text : "";
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    *errors =
        arena_printf(a, "%s'%s' was killed by signal %d (%s)", *errors, argv[0],
                     WTERMSIG(status), strsignal(WTERMSIG(status)));
    return -1;
}

/* Signals that would end parc are blocked until the child has ended: they end
 * the child first, which does not receive the terminal's. */
int process_run(Arena *a, const char *const *argv, const char *directory,
                char **errors)
{
    sigset_t before;
    sigprocmask(SIG_BLOCK, NULL, &before);
    hold();
    int status = run_child(a, argv, directory, errors);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
