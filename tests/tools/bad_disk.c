/* bad_disk.c: a preloaded library that simulates a disk that fails.
 *
 * BAD_DISK="CALL:PATH:ERRNO" makes calls of that kind fail with this error
 * number if the file's path contains PATH. CALL is open (for writing), mkdir,
 * write, fallocate, fsync or rename; of rename, PATH is in the new name.
 *
 *   BAD_DISK=write:step-00000003:28   no space (ENOSPC) for the save of step 3
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Whether the call fails; errno is set then. */
static int fails(const char *call, const char *path)
{
    const char *rule = getenv("BAD_DISK");
    char part[PATH_MAX];
    size_t n = strlen(call);
    if (!rule || strncmp(rule, call, n) != 0 || rule[n] != ':')
        return 0;
    const char *from = rule + n + 1, *end = strrchr(from, ':');
    snprintf(part, sizeof part, "%.*s", end ? (int)(end - from) : 0, from);
    if (!end || !strstr(path, part))
        return 0;
    errno = atoi(end + 1);
    return 1;
}

static int fails_at(const char *call, int file)
{
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    return fails(call, path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

int open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return (flags & O_ACCMODE) != O_RDONLY && fails("open", path)
               ? -1
               : NEXT(open)(path, flags, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return fails("mkdir", path) ? -1 : NEXT(mkdir)(path, mode);
}

ssize_t write(int file, const void *data, size_t n)
{
    return fails_at("write", file) ? -1 : NEXT(write)(file, data, n);
}

ssize_t writev(int file, const struct iovec *v, int n)
{
    return fails_at("write", file) ? -1 : NEXT(writev)(file, v, n);
}

int fallocate(int file, int mode, off_t at, off_t n)
{
    return fails_at("fallocate", file) ? -1 : NEXT(fallocate)(file, mode, at, n);
}

int fsync(int file)
{
    return fails_at("fsync", file) ? -1 : NEXT(fsync)(file);
}

int rename(const char *from, const char *to)
{
    return fails("rename", to) ? -1 : NEXT(rename)(from, to);
}
