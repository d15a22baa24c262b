/* join.c: makes a process that a launcher started a rank of its job.
 *
 * It connects the process to the other ranks. If collectives read the memory
 * of peers in place, all ranks map one file. Rank 0 creates it; the others
 * open it through rank 0's entry in /proc. The file has no name, so a killed
 * run leaves no file and no other program can create it first.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/message.h"
#include "launch/job.h"
#include "rt.h"

/* A file in memory with `bytes` zeros; -1 if the system cannot create it. */
int rt_memory_file(size_t bytes)
{
    int file = memfd_create("parc", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return -1;
    }
    return file;
}

/* How a process on the same node finds rank 0's file. */
typedef struct Share {
    int64_t process, file;
    uint64_t token, bytes;
} Share;

/* Opens rank 0's file. Its size and its token verify that it is the right
 * one. */
static int find_file(const Share *share, size_t bytes)
{
    char path[64];
    struct stat st;
    uint64_t token = 0;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)share->process,
             (long long)share->file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return -1;
    if (share->bytes != bytes || fstat(file, &st) != 0 ||
        st.st_size != (off_t)bytes ||
        pread(file, &token, sizeof token, offsetof(RtControl, token)) !=
            (ssize_t)sizeof token ||
        token != share->token) {
        close(file);
        errno = ESTALE;
        return -1;
    }
    return file;
}

int rt_join_file(const RtWorld *w, size_t bytes)
{
    bool first = w->launch->rank == 0;
    Share share = {.process = getpid(), .bytes = bytes};
    int file = first ? rt_memory_file(bytes) : -1;
    share.file = file;
    share.token = w->launch->job ^ (uint64_t)rt_now_ns();
    if (file >= 0 &&
        pwrite(file, &share.token, sizeof share.token,
               offsetof(RtControl, token)) != (ssize_t)sizeof share.token)
        share.file = -1;
    int error = errno;
    rt_job_broadcast(w->store, RT_AT_START, &share, sizeof share);
    if (!first) {
        file = find_file(&share, bytes);
        error = errno;
    }
    if (share.file < 0 && !first)
        return -1; /* rank 0 prints the reason */
    if (share.file < 0 || file < 0) {
        char node[RT_NODE] = "";
        gethostname(node, sizeof node - 1);
        rt_error("rank %d on %s cannot share memory with rank 0: %s; the ranks "
                 "of a CPU program run on one machine, as one user",
                 w->launch->rank, node, strerror(error));
        return -1;
    }
    rt_job_synchronize(w->store, RT_AT_START); /* rank 0 keeps the file open
                                           until all have opened it */
    return file;
}

bool rt_join(RtWorld *w, const RtLaunch *launch)
{
    w->launch = launch;
    w->store = rt_allocate(sizeof *w->store);
    return rt_store_open(w->store, w, launch, w->timeout_seconds) &&
           rt_job_watch(w->store);
}
