/* input.c: maps the files that a run reads, and compares paths.
 *
 * A mapped file needs no read buffer, and ranks share its pages. Truncating a
 * mapped file would kill the run with SIGBUS, hence the check. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"

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
        char *parent = n ? strndup(path[i], n) : strdup(".");
        bool found = parent && stat(parent, &directory[i]) == 0;
        free(parent);
        if (!found)
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
