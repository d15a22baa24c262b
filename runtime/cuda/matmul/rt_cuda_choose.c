/* rt_cuda_choose.c: chooses the cuBLASLt kernel of each product.
 *
 * The library proposes candidates. Rank 0 measures them before the first step,
 * and all ranks use the fastest: values that must be equal on several ranks
 * need equal kernels. A file saves the choices, so the next run starts
 * immediately.
 *
 * An idle GPU has a low clock rate, which rises while candidates run.
 * Therefore the device runs for WARM_MS before the first measurement of a
 * process, and candidates are measured alternately in ROUNDS rounds; the
 * minimum of each one counts.
 *
 * The measurements use the arena as operands, since it holds no data at that
 * time: they fill it with random numbers, and with zeros afterwards.
 */
#include <stdio.h>
#include <string.h>

#include "common/message.h"
#include "cuda/core/rt_cuda_cache.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/matmul/rt_cuda_matmul.h"
#include "launch/world.h"
#include "rt.h"

enum {
    CANDIDATES = 8,
    ROUNDS = 5,
    WARM_MS = 100,
    ROUND_US = 300, /* time of a candidate in a round */
    MOST_RUNS = 20, /* maximum runs of a candidate in a round */
};

/* ---- candidates ---------------------------------------------------------- */

static void prefer(ParcRt *rt, BlasPreference p,
                   BlasPreferenceAttribute attribute, uint32_t value)
{
    BLAS(rt, cublasLtMatmulPreferenceSetAttribute(p, attribute, &value,
                                                  sizeof value));
}

_Noreturn static void fail_proposal(ParcRt *rt, const ParcMatmul *mm,
                                    int alignment, BlasStatus status)
{
    const RtDevice *d = rt->device;
    const ParcMatmulSpec *s = &mm->spec;
    const char *epilogue = rt_cuda_epilogue_name(s->epilogue);
    rt_fail(rt,
            "cuBLASLt %zu has no kernel for '%s' (%lld x [%lld, %lld] [%lld, "
            "%lld]%s%s, operands aligned to %d bytes) on %s: %s%s",
            d->blas.cublasLtGetVersion(), s->name, (long long)s->batch,
            (long long)s->m, (long long)s->k, (long long)s->k, (long long)s->n,
            *epilogue ? " with " : "", epilogue, 1 << alignment, d->name,
            d->blas.cublasLtGetStatusString(status),
            *epilogue ? "; compile the program with -D epilogues=none" : "");
}

/* Requests up to `wanted` candidates for operands of this alignment, best
 * first. Returns their number; 0 if there is none and the epilogue is a sum,
 * which another product can compute. */
static int propose(ParcRt *rt, const ParcMatmul *mm, int alignment, int wanted,
                   BlasCandidate *candidate)
{
    const RtDevice *d = rt->device;
    BlasPreference p = NULL;
    uint64_t workspace = (uint64_t)mm->spec.scratch_bytes;
    int found = 0;
    BLAS(rt, cublasLtMatmulPreferenceCreate(&p));
    BLAS(rt, cublasLtMatmulPreferenceSetAttribute(p, RT_BLAS_MAX_WORKSPACE,
                                                  &workspace,
                                                  sizeof workspace));
    /* Partial sums must not be rounded to 16 bits. */
    prefer(rt, p, RT_BLAS_REDUCTION_MASK, RT_BLAS_REDUCE_IN_COMPUTE_TYPE);
    for (BlasPreferenceAttribute a = RT_BLAS_ALIGNMENT_A;
         a <= RT_BLAS_ALIGNMENT_D; a++)
        prefer(rt, p, a, 1u << alignment);
    char *aligned_so = parc_arena(rt) + ((ptrdiff_t)1 << alignment);
    rt_cuda_epilogue_point(rt, mm,
                           rt_cuda_vector_bytes(&mm->spec) ? aligned_so : NULL,
                           rt_cuda_tensor_bytes(&mm->spec) ? aligned_so : NULL);
    BlasStatus status = d->blas.cublasLtMatmulAlgoGetHeuristic(
        d->blas_handle, mm->product, mm->layout[CUDA_B], mm->layout[CUDA_A],
        mm->layout[CUDA_C], mm->layout[CUDA_C], p, wanted, candidate, &found);
    BLAS(rt, cublasLtMatmulPreferenceDestroy(p));
    if (status == RT_BLAS_SUCCESS && found > 0)
        return found;
    if (!rt_cuda_epilogue_sums(mm->spec.epilogue))
        fail_proposal(rt, mm, alignment, status);
    return 0;
}

void rt_cuda_choose_unaligned(ParcRt *rt, ParcMatmul *mm, int alignment)
{
    BlasCandidate first;
    if (propose(rt, mm, alignment, 1, &first) == 0)
        fail_proposal(rt, mm, alignment, RT_BLAS_NOT_SUPPORTED);
    mm->choice[alignment] =
        (CudaChoice){.known = true, .algorithm = first.algorithm};
}

/* ---- measurement --------------------------------------------------------- */

/* Operands in the arena for a measurement. */
typedef struct Ground {
    CudaOperands at;
    int64_t bytes; /* total size */
} Ground;

static char *take_scratch(ParcRt *rt, Ground *g, int64_t bytes)
{
    char *at = bytes ? parc_arena(rt) + g->bytes : NULL;
    g->bytes += rt_cuda_aligned(bytes);
    return at;
}

/* Places the operands; false if the arena is too small, which is possible for
 * a product that runs in a loop over parts of its operands. */
static bool lay_out(ParcRt *rt, const ParcMatmulSpec *s, Ground *g)
{
    g->bytes = 0;
    g->at.a = take_scratch(rt, g, rt_cuda_operand_bytes(s, CUDA_A));
    g->at.b = take_scratch(rt, g, rt_cuda_operand_bytes(s, CUDA_B));
    g->at.c = take_scratch(rt, g, rt_cuda_operand_bytes(s, CUDA_C));
    g->at.vector = take_scratch(rt, g, rt_cuda_vector_bytes(s));
    g->at.tensor = take_scratch(rt, g, rt_cuda_tensor_bytes(s));
    g->at.workspace = parc_arena(rt) + g->bytes;
    g->bytes += s->scratch_bytes;
    return g->bytes <= rt->model->arena_bytes;
}

/* The mean milliseconds of `runs` runs; negative if the kernel cannot run. */
static float time_of(ParcRt *rt, const ParcMatmul *mm, const Ground *g,
                     const BlasCandidate *c, int runs)
{
    rt_cuda_time_begin(rt);
    for (int i = 0; i < runs; i++)
        if (rt_cuda_product(rt, mm, &c->algorithm, &g->at) != RT_BLAS_SUCCESS)
            return -1;
    return rt_cuda_time_end(rt, mm->spec.name) / (float)runs;
}

/* Measured milliseconds of a candidate; least: -1 if it cannot run. */
typedef struct Measured {
    float cold, least;
    int runs; /* runs per round */
} Measured;

/* Runs each candidate once, because the first run may load its kernel. */
static void run_first(ParcRt *rt, const ParcMatmul *mm, const Ground *g,
                      const BlasCandidate *candidate, int n, Measured *m)
{
    for (int i = 0; i < n; i++) {
        m[i].cold = m[i].least = time_of(rt, mm, g, &candidate[i], 1);
        float runs = m[i].cold > 0 ? ROUND_US / 1e3f / m[i].cold : MOST_RUNS;
        m[i].runs = runs < 1 ? 1 : runs > MOST_RUNS ? MOST_RUNS : (int)runs;
    }
}

/* Runs candidates until the clock rate has risen, once per process. */
static void warm_up(ParcRt *rt, const ParcMatmul *mm, const Ground *g,
                    const BlasCandidate *candidate, int n, const Measured *m)
{
    RtDevice *d = rt->device;
    double begin = rt_now();
    for (int i = 0; i < n && !d->is_warm; i++)
        while (m[i].least >= 0 && !d->is_warm) {
            time_of(rt, mm, g, &candidate[i], m[i].runs);
            d->is_warm = rt_now() - begin > WARM_MS / 1e3;
        }
}

static int measure_rounds(ParcRt *rt, const ParcMatmul *mm, const Ground *g,
                          const BlasCandidate *candidate, int n, Measured *m)
{
    int best = 0;
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            float ms = m[i].least < 0 ? -1
                                      : time_of(rt, mm, g, &candidate[i],
                                                m[i].runs);
            bool better = ms >= 0 && (round == 0 || ms < m[i].least);
            m[i].least = better || ms < 0 ? ms : m[i].least;
        }
    for (int i = 1; i < n; i++) {
        bool better = m[best].least < 0 || m[i].least < m[best].least;
        best = m[i].least >= 0 && better ? i : best;
    }
    return best;
}

/* Appends a line of JSON to the file of measurements. */
static void log_times(ParcRt *rt, const ParcMatmul *mm, int n,
                      const Measured *m, int best)
{
    const ParcMatmulSpec *s = &mm->spec;
    FILE *f = rt_cuda_times(rt);
    if (!f)
        return;
    double flops = 2.0 * (double)s->batch * (double)s->m * (double)s->n *
                   (double)s->k;
    fprintf(f,
            "{\"name\": \"%s\", \"batch\": %lld, \"m\": %lld, \"n\": %lld, "
            "\"k\": %lld, \"flops\": %.9g, \"chosen\": %d, \"cold_ms\": [",
            s->name, (long long)s->batch, (long long)s->m, (long long)s->n,
            (long long)s->k, flops, best);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s%.6f", i ? ", " : "", (double)m[i].cold);
    fputs("], \"ms\": [", f);
    for (int i = 0; i < n; i++)
        fprintf(f, "%s%.6f", i ? ", " : "", (double)m[i].least);
    fputs("]}\n", f);
    fclose(f);
}

static int fastest(ParcRt *rt, const ParcMatmul *mm, const Ground *g,
                   const BlasCandidate *candidate, int n)
{
    Measured measured[CANDIDATES];
    rt_cuda_fill_random(rt, g->bytes, mm->spec.type.a);
    run_first(rt, mm, g, candidate, n, measured);
    warm_up(rt, mm, g, candidate, n, measured);
    int best = measure_rounds(rt, mm, g, candidate, n, measured);
    log_times(rt, mm, n, measured, best);
    rt_cuda_fill_zeros(rt, g->bytes);
    return best;
}

/* ---- choice -------------------------------------------------------------- */

/* The key contains all that a choice depends on, except device and library. */
static void write_key(const ParcRt *rt, const ParcMatmul *mm,
                      char key[CUDA_KEY])
{
    const ParcMatmulSpec *s = &mm->spec;
    const int64_t *of[] = {s->sa, s->sb, s->sc};
    const char *epilogue = rt_cuda_epilogue_name(s->epilogue);
    int n = snprintf(key, CUDA_KEY, "%s %s %s%s%s%s fill " CUDA_FILLING
                                    " batch %lld m %lld n %lld k %lld "
                                    "workspace %lld strides",
                     rt_float_name(s->type.a), rt_float_name(s->type.b),
                     rt_float_name(s->type.c),
                     rt->device->mode.tf32 ? " tf32" : "",
                     *epilogue ? " " : "", epilogue, (long long)s->batch,
                     (long long)s->m, (long long)s->n, (long long)s->k,
                     (long long)s->scratch_bytes);
    for (int i = 0; i < CUDA_OPERANDS && n < CUDA_KEY; i++)
        n += snprintf(key + n, CUDA_KEY - (size_t)n, " %lld,%lld,%lld",
                      (long long)of[i][0], (long long)of[i][1],
                      (long long)of[i][2]);
}

/* Reads a choice of an earlier run, if the library still accepts it. */
static bool recall(ParcRt *rt, const ParcMatmul *mm, const char *key,
                   BlasAlgorithm *algorithm)
{
    const RtDevice *d = rt->device;
    BlasCandidate c;
    if (!rt_cuda_cache_find(d->cache, key, algorithm))
        return false;
    return d->blas.cublasLtMatmulAlgoCheck(
               d->blas_handle, mm->product, mm->layout[CUDA_B],
               mm->layout[CUDA_A], mm->layout[CUDA_C], mm->layout[CUDA_C],
               algorithm, &c) == RT_BLAS_SUCCESS &&
           c.workspace_bytes <= (size_t)mm->spec.scratch_bytes;
}

/* Rank 0's choice, which it sends to the others. */
typedef struct Decision {
    BlasAlgorithm algorithm;
    int64_t found; /* 0: the library has no kernel for the epilogue's sum */
} Decision;

static void decide(ParcRt *rt, const ParcMatmul *mm, Decision *to)
{
    BlasCandidate candidate[CANDIDATES];
    char key[CUDA_KEY];
    Ground ground;
    write_key(rt, mm, key);
    to->found = recall(rt, mm, key, &to->algorithm);
    if (to->found)
        return;
    int n = propose(rt, mm, CUDA_ALIGNED, CANDIDATES, candidate), best = 0;
    to->found = n > 0;
    if (n == 0)
        return;
    if (n > 1 && lay_out(rt, &mm->spec, &ground))
        best = fastest(rt, mm, &ground, candidate, n);
    to->algorithm = candidate[best].algorithm;
    rt_cuda_cache_add(rt->device->cache, key, &to->algorithm);
}

bool rt_cuda_choose(ParcRt *rt, ParcMatmul *mm)
{
    Decision d = {.found = 0};
    if (rt->rank == 0)
        decide(rt, mm, &d);
    rt_share(rt, RT_AT_MATMULS, &d, sizeof d);
    mm->choice[CUDA_ALIGNED] = (CudaChoice){d.found, d.algorithm};
    return d.found;
}
