/* rt_world.c: the memory that the ranks of a box share.
 *
 *   control block | slots | barriers | arena of rank 0 | arena of rank 1 | …
 *
 * It is mapped before the ranks are forked, so that a rank's arena lies at
 * the same address in all of them and a peer's shard is read in place. Pages
 * are not reserved: what a rank never touches costs nothing.
 *
 * Ranks share a file in memory that has no name: unlike shared anonymous
 * memory, its pages may be joined to large ones (rt_device_open) whatever the
 * system's setting for shared memory, if file and mapping are aligned.
 */
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rt.h"
#include "rt_device.h"

/* So that arenas can have large pages of their own. */
enum { ALIGN = RT_LARGE_PAGE, DEFAULT_TIMEOUT = 300, MOST_SECONDS = 1000000 };

int rt_nranks(const ParcModel *model)
{
    int64_t n = 1;
    for (int i = 0; i < model->naxes; i++) {
        n *= model->axis[i].size;
    }
    return (int)n;
}

int64_t rt_coord(const ParcModel *model, int rank, int axis)
{
    int64_t rest = rank;
    for (int i = model->naxes - 1; i > axis; i--) {
        rest /= model->axis[i].size;
    }
    return rest % model->axis[axis].size;
}

const char *rt_collective_name(const ParcModel *model, int id)
{
    static const char *const own[] = {"start of the run", "end of the run",
                                      "printing of shards",
                                      "writing of the trace",
                                      "check of the gradients",
                                      "choice of matmul kernels"};
    if (id < 0 && id >= RT_AT_MATMULS) {
        return own[-id - 1];
    }
    return id < model->ncollectives ? model->collective[id]
                                    : "unknown collective";
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

int rt_cores(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return n > 0 ? n : 1;
}

/* PARC_TIMEOUT, in seconds; false, after a message, where it is no such
 * number. */
static bool read_timeout(RtWorld *w)
{
    const char *text = getenv("PARC_TIMEOUT");
    w->timeout_seconds = DEFAULT_TIMEOUT;
    if (!text || !*text) {
        return true;
    }
    char *end;
    long n = strtol(text, &end, 10);
    if (*end || n < 1 || n > MOST_SECONDS) {
        rt_error(w->program,
                 "PARC_TIMEOUT is '%s'; it takes seconds, 1 to %d", text,
                 MOST_SECONDS);
        return false;
    }
    w->timeout_seconds = (int)n;
    return true;
}

/* A file in memory, of `bytes` zeros; -1 where the system has none. */
static int open_shared(size_t bytes)
{
    int file = memfd_create("parc", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) != 0) {
        close(file);
        return -1;
    }
    return file;
}

/* Zeros at a multiple of ALIGN, shared with ranks that are forked later;
 * NULL, with errno, where there is no such room. */
static char *map_world(RtWorld *w, size_t bytes)
{
    bool shared = w->nranks > 1;
    int file = shared ? open_shared(bytes) : -1;
    w->map_bytes = bytes + ALIGN;
    w->map = mmap(NULL, w->map_bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    char *base = NULL;
    if (w->map != MAP_FAILED) {
        base = (char *)w->map + -(uintptr_t)w->map % ALIGN;
        void *at = mmap(base, bytes, PROT_READ | PROT_WRITE,
                        MAP_FIXED | MAP_NORESERVE |
                            (shared ? MAP_SHARED : MAP_PRIVATE) |
                            (file < 0 ? MAP_ANONYMOUS : 0),
                        file, 0);
        base = at == MAP_FAILED ? NULL : base;
    }
    int error = errno;
    if (file >= 0) {
        close(file);
    }
    errno = error;
    return base;
}

bool rt_world_open(RtWorld *w, const ParcModel *model, const char *program,
                   int threads)
{
    memset(w, 0, sizeof *w);
    w->model = model;
    w->program = program;
    w->nranks = rt_nranks(model);
    w->threads = threads;
    w->crowded = w->nranks * threads > rt_cores();
    if (!read_timeout(w) || !rt_device_fits(w)) {
        return false;
    }
    size_t n = (size_t)w->nranks;
    size_t slots = round_up(sizeof(RtControl), 64);
    size_t barriers = slots + n * round_up(sizeof(RtSlot), 64);
    size_t end = barriers + RT_GROUPS * n * sizeof(RtBarrier);
    size_t align = w->nranks > 1 && model->arena_bytes < ALIGN ? 4096 : ALIGN;
    size_t arenas = round_up(end, align);
    w->arena_stride = round_up((size_t)model->arena_bytes + 1, align);
    size_t bytes = round_up(arenas + n * w->arena_stride, 4096);
    char *base = map_world(w, bytes);
    if (!base) {
        char text[32];
        rt_error(program, "cannot map %s of memory: %s",
                 rt_size_text((double)bytes, text), strerror(errno));
        return false;
    }
    w->control = (void *)base;
    w->slot = (void *)(base + slots);
    w->barrier = (void *)(base + barriers);
    w->arenas = base + arenas;
    return true;
}

void rt_world_close(RtWorld *w)
{
    munmap(w->map, w->map_bytes);
}
