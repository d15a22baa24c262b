/* rt_cuda_measure.c: measures candidates that do the same work, for the choice
 * of a kernel.
 *
 * An idle GPU has a low clock rate, which rises while candidates run.
 * Therefore the device runs for WARM_MS before the first measurement of a
 * process, and candidates are measured alternately in ROUNDS rounds; the
 * minimum of each one counts.
 *
 * The operands are in the arena, which holds no data at that time. They are
 * random numbers: a GPU that multiplies equal numbers draws less power and
 * keeps a higher clock rate than one that trains, so constant operands would
 * favour other kernels.
 */
#include <errno.h>
#include <string.h>

#include "common/type.h"
#include "cuda/core/rt_cuda.h"
#include "launch/world.h"
#include "parc_random.h"
#include "rt.h"

enum {
    ROUNDS = 5,
    WARM_MS = 100,
    ROUND_US = 300, /* time of a candidate in a round */
    MOST_RUNS = 20, /* maximum runs of a candidate in a round */
};

FILE *rt_cuda_times(ParcRt *rt)
{
    const char *path = rt_variable("PARC_TIMES");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (path && !f)
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

static void fill(ParcRt *rt, int64_t bytes, ParcType type)
{
    const RtDevice *d = rt->device;
    CuStream stream = d->stream[PARC_COMPUTE];
    int64_t filled = 0, block = rt_least(bytes, BLOCK_BYTES);
    size_t piece;
    for (; filled < block; filled += (int64_t)piece) {
        char *stage = rt_cuda_stage_space(rt, block - filled, &piece);
        draw(stage, filled, (int64_t)piece, type);
        CU(rt, cuMemcpyHtoDAsync(d->spare + (CuAddress)filled, stage, piece,
                                 stream));
    }
    for (int64_t n; filled < bytes; filled += n) {
        n = rt_least(filled, bytes - filled);
        CU(rt, cuMemcpyDtoDAsync(d->spare + (CuAddress)filled, d->spare,
                                 (size_t)n, stream));
    }
}

/* The mean milliseconds of `runs` runs; -1 if the candidate cannot run. */
static float time_of(ParcRt *rt, const CudaTrial *t, int i, int runs)
{
    const RtDevice *d = rt->device;
    float ms = 0;
    CU(rt, cuEventRecord(d->timer[0], d->stream[PARC_COMPUTE]));
    for (int run = 0; run < runs; run++)
        if (!t->run(rt, t->work, i))
            return -1;
    CU(rt, cuEventRecord(d->timer[1], d->stream[PARC_COMPUTE]));
    rt_cuda_wait_event(rt, d->timer[1], t->what);
    CU(rt, cuEventElapsedTime(&ms, d->timer[0], d->timer[1]));
    return ms / (float)runs;
}

/* Runs each candidate once, because the first run may load its kernel. */
static void run_first(ParcRt *rt, const CudaTrial *t, CudaTime *time)
{
    for (int i = 0; i < t->n; i++) {
        float ms = time_of(rt, t, i, 1);
        float runs = ms > 0 ? ROUND_US / 1e3f / ms : MOST_RUNS;
        time[i] = (CudaTime){
            ms, ms, runs < 1 ? 1 : runs > MOST_RUNS ? MOST_RUNS : (int)runs};
    }
}

/* Runs candidates until the clock rate has risen, once per process. */
static void warm_up(ParcRt *rt, const CudaTrial *t, const CudaTime *time)
{
    RtDevice *d = rt->device;
    double begin = rt_now();
    for (int i = 0; i < t->n && !d->is_warm; i++)
        while (time[i].least >= 0 && !d->is_warm) {
            time_of(rt, t, i, time[i].runs);
            d->is_warm = rt_now() - begin > WARM_MS / 1e3;
        }
}

int rt_cuda_fastest(ParcRt *rt, const CudaTrial *t,
                    CudaTime time[CUDA_CANDIDATES])
{
    const RtDevice *d = rt->device;
    int best = 0;
    fill(rt, t->bytes, t->type);
    run_first(rt, t, time);
    warm_up(rt, t, time);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < t->n; i++) {
            float ms =
                time[i].least < 0 ? -1 : time_of(rt, t, i, time[i].runs);
            bool better = ms < 0 || round == 0 || ms < time[i].least;
            time[i].least = better ? ms : time[i].least;
        }
    for (int i = 1; i < t->n; i++) {
        bool better = time[best].least < 0 || time[i].least < time[best].least;
        best = time[i].least >= 0 && better ? i : best;
    }
    CU(rt, cuMemsetD8Async(d->spare, 0, (size_t)t->bytes,
                           d->stream[PARC_COMPUTE]));
    return best;
}
