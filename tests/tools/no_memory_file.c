/* no_memory_file.c: a preloaded library that simulates a system without files
 * in memory (memfd_create), such as an old kernel or a sandbox. */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

int memfd_create(const char *name, unsigned flags)
{
    (void)name, (void)flags;
    errno = ENOSYS;
    return -1;
}
