/* input.c: maps the files that a run reads.
 *
 * A mapped file needs no read buffer, and ranks share its pages. Truncating a
 * mapped file would kill the run with SIGBUS, hence the check. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
