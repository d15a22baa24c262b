/* rt_cuda_choose.c: chooses the cuBLASLt kernel of each product.
 *
 * The library proposes candidates. Rank 0 measures them before the first step,
 * and all ranks use the fastest: values that must be equal on several ranks
 * need equal kernels. A file saves the choices, so the next run starts
 * immediately.
 */
#include <stdio.h>
#include <string.h>

#include "common/message.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/matmul/rt_cuda_matmul.h"
#include "launch/world.h"
#include "rt.h"

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

/* The library checks the alignment of the epilogue's operands. */
static void point_aligned(ParcRt *rt, const ParcMatmul *mm, int alignment)
{
    char *aligned_so = parc_arena(rt) + ((ptrdiff_t)1 << alignment);
    rt_cuda_epilogue_point(rt, mm,
                           rt_cuda_vector_bytes(&mm->spec) ? aligned_so : NULL,
                           rt_cuda_tensor_bytes(&mm->spec) ? aligned_so : NULL);
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
    point_aligned(rt, mm, alignment);
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

/* The candidates of a product, and operands in the arena. */
typedef struct Trial {
    const ParcMatmul *mm;
    const BlasCandidate *candidate;
    CudaOperands at;
} Trial;

static char *take_scratch(ParcRt *rt, int64_t *used, int64_t bytes)
{
    char *at = bytes ? rt_cuda_spare(rt) + *used : NULL;
    *used += rt_cuda_aligned(bytes);
    return at;
}

/* Places the operands and returns their bytes; -1 if the arena is too small,
 * which is possible for a product that runs in a loop over parts of its
 * operands. */
static int64_t lay_out(ParcRt *rt, const ParcMatmulSpec *s, CudaOperands *at)
{
    int64_t used = 0;
    at->a = take_scratch(rt, &used, rt_cuda_operand_bytes(s, CUDA_A));
    at->b = take_scratch(rt, &used, rt_cuda_operand_bytes(s, CUDA_B));
    at->c = take_scratch(rt, &used, rt_cuda_operand_bytes(s, CUDA_C));
    at->vector = take_scratch(rt, &used, rt_cuda_vector_bytes(s));
    at->tensor = take_scratch(rt, &used, rt_cuda_tensor_bytes(s));
    at->workspace = rt_cuda_spare(rt) + used;
    used += s->scratch_bytes;
    return used <= rt->device->spare_bytes ? used : -1;
}

static bool run_candidate(ParcRt *rt, const void *trial, int i)
{
    const Trial *t = trial;
    return rt_cuda_product(rt, t->mm, &t->candidate[i].algorithm, &t->at) ==
           RT_BLAS_SUCCESS;
}

/* Appends a line of JSON to the file of measurements. */
static void log_times(ParcRt *rt, const ParcMatmul *mm, int n,
                      const CudaTime *m, int best)
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

/* The index of the fastest candidate; 0 if they cannot be measured. */
static int fastest(ParcRt *rt, const ParcMatmul *mm,
                   const BlasCandidate *candidate, int n)
{
    CudaTime time[CUDA_CANDIDATES];
    Trial trial = {.mm = mm, .candidate = candidate};
    int64_t bytes = n > 1 ? lay_out(rt, &mm->spec, &trial.at) : -1;
    if (bytes < 0)
        return 0;
    int best = rt_cuda_fastest(rt, &(CudaTrial){mm->spec.name, n, bytes,
                                                mm->spec.type.a, run_candidate,
                                                &trial}, time);
    log_times(rt, mm, n, time, best);
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
    int sms = rt_cuda_product_sms(rt, mm);
    if (sms < rt->device->sms && n < CUDA_KEY)
        snprintf(key + n, CUDA_KEY - (size_t)n, " sms %d", sms);
}

/* Reads a choice of an earlier run, if the library still accepts it. */
static bool recall(ParcRt *rt, const ParcMatmul *mm, const char *key,
                   BlasAlgorithm *algorithm)
{
    const RtDevice *d = rt->device;
    BlasCandidate c;
    if (!rt_cuda_cache_find(d->cache, key, algorithm))
        return false;
    point_aligned(rt, mm, CUDA_ALIGNED);
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
    BlasCandidate candidate[CUDA_CANDIDATES];
    char key[CUDA_KEY];
    write_key(rt, mm, key);
    to->found = recall(rt, mm, key, &to->algorithm);
    if (to->found)
        return;
    int n = propose(rt, mm, CUDA_ALIGNED, CUDA_CANDIDATES, candidate);
    to->found = n > 0;
    if (n == 0)
        return;
    to->algorithm = candidate[fastest(rt, mm, candidate, n)].algorithm;
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
