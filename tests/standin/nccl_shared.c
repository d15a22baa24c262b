/* nccl_shared.c: maps the named memory that the ranks of a communicator share.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine.h"
#include "nccl_plan.h"

/* An outbox has a rank's data of one group; untouched pages take no memory. */
static const int64_t OUTBOX = (int64_t)1 << 30;

static int64_t members_bytes(int nranks)
{
    int64_t bytes = (int64_t)sizeof(NcclMember) * nranks;
    return (bytes + 4095) / 4096 * 4096;
}

static void path_of(const NcclShared *r, char path[160])
{
    const char *directory = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, 160, "%s/%s", directory, r->name);
}

bool nccl_shared_open(NcclShared *r, const char *name, int nranks, int rank)
{
    char path[160];
    snprintf(r->name, sizeof r->name, "%s", name);
    r->nranks = nranks;
    r->rank = rank;
    r->bytes = members_bytes(nranks) + OUTBOX * nranks;
    path_of(r, path);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    r->memory = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, r->bytes) == 0)
        r->memory = mmap(NULL, (size_t)r->bytes, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (r->memory == MAP_FAILED) {
        standin_error("NCCL: %s: %s", path, strerror(errno));
        if (fd >= 0)
            close(fd);
        return false;
    }
    close(fd);
    NcclMember *own = nccl_member(r, rank);
    if (atomic_exchange(&own->joined, 1)) {
        standin_error("NCCL: two processes are rank %d of one communicator",
                      rank);
        return false;
    }
    atomic_store(&own->pid, (int)getpid());
    return true;
}

bool nccl_shared_full(NcclShared *r)
{
    char path[160];
    for (int i = 0; i < r->nranks; i++)
        if (!atomic_load(&nccl_member(r, i)->joined))
            return false;
    path_of(r, path);
    unlink(path); /* only the first rank succeeds */
    return true;
}

void nccl_shared_close(NcclShared *r)
{
    if (r->memory)
        munmap(r->memory, (size_t)r->bytes);
    r->memory = NULL;
}

NcclMember *nccl_member(const NcclShared *r, int rank)
{
    return (NcclMember *)(void *)r->memory + rank;
}

char *nccl_outbox(const NcclShared *r, int rank)
{
    return r->memory + members_bytes(r->nranks) + OUTBOX * rank;
}

char *nccl_message(const NcclShared *r, int rank)
{
    return nccl_outbox(r, rank) + OUTBOX / 2;
}
