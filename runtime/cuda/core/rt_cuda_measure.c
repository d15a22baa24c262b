/* rt_cuda_measure.c: times work on the device, and fills the operands of
 * measurements with random numbers. A GPU that multiplies equal numbers draws
 * less power and keeps a higher clock rate than one that trains, so constant
 * operands would favour other kernels.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "cuda/core/rt_cuda.h"
#include "launch/world.h"
#include "parc_random.h"
#include "rt.h"

void rt_cuda_time_begin(ParcRt *rt)
{
    const RtDevice *d = rt->device;
    CU(rt, cuEventRecord(d->timer[0], d->stream[PARC_COMPUTE]));
}

float rt_cuda_time_end(ParcRt *rt, const char *what)
{
    const RtDevice *d = rt->device;
    float ms = 0;
    CU(rt, cuEventRecord(d->timer[1], d->stream[PARC_COMPUTE]));
    rt_cuda_wait_event(rt, d->timer[1], what);
    CU(rt, cuEventElapsedTime(&ms, d->timer[0], d->timer[1]));
    return ms;
}

FILE *rt_cuda_times(ParcRt *rt)
{
    const char *path = getenv("PARC_TIMES");
    if (!path || !*path)
        return NULL;
    FILE *f = fopen(path, "a");
    if (!f)
        rt_fail(rt, "cannot write PARC_TIMES '%s': %s", path, strerror(errno));
    return f;
}

/* Random numbers that are repeated in the arena: larger than a tile of any
 * kernel, and small enough for the host to compute. */
enum { BLOCK_BYTES = 2 << 20 };

/* Writes `bytes` bytes of a block, from its byte `from` on. */
static void draw(char *to, int64_t from, int64_t bytes, ParcType type)
{
    enum { GROUP = 4 };
    int64_t size = rt_type_size(type), n = bytes / size, first = from / size;
    for (int64_t i = 0; i < n; i += GROUP) {
        float x[GROUP];
        parc_random_four(x, 1, 0, (first + i) / GROUP);
        for (int j = 0; j < GROUP; j++)
            x[j] = 2.0f * x[j] - 1.0f;
        rt_narrow(type, to + i * size, x, rt_least(GROUP, n - i));
    }
}

void rt_cuda_fill_random(ParcRt *rt, int64_t bytes, ParcType type)
{
    const RtDevice *d = rt->device;
    CuStream stream = d->stream[PARC_COMPUTE];
    int64_t filled = 0, block = rt_least(bytes, BLOCK_BYTES);
    size_t piece;
    for (; filled < block; filled += (int64_t)piece) {
        char *stage = rt_cuda_stage_space(rt, block - filled, &piece);
        draw(stage, filled, (int64_t)piece, type);
        CU(rt, cuMemcpyHtoDAsync(d->arena + (CuAddress)filled, stage, piece,
                                 stream));
    }
    for (int64_t n; filled < bytes; filled += n) {
        n = rt_least(filled, bytes - filled);
        CU(rt, cuMemcpyDtoDAsync(d->arena + (CuAddress)filled, d->arena,
                                 (size_t)n, stream));
    }
}

void rt_cuda_fill_zeros(ParcRt *rt, int64_t bytes)
{
    const RtDevice *d = rt->device;
    CU(rt, cuMemsetD8Async(d->arena, 0, (size_t)bytes,
                           d->stream[PARC_COMPUTE]));
}
