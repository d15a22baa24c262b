/* rt_cuda_matmul.c: implements the matrix products of train.c (parc_rt.h) with
 * cuBLASLt.
 *
 * init creates the descriptions (rt_cuda_product.c) and chooses a kernel for
 * each (rt_cuda_choose.c); a call passes addresses.
 *
 * A library may have no kernel for an epilogue that sums an operand: cuBLASLt's
 * documentation lists sums in f32 of 16-bit operands, but no table says which
 * GPUs have them. A second product with ones then computes the sum:
 *
 *   c = a b, vector = sum of a's rows    ->    c = a b, vector = a ones
 *   c = a b, vector = sum of b's columns ->    c = a b, vector = ones b
 *
 * It reads the operand once more. The vector of ones is on the device, beside
 * the arena.
 */
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "common/type.h"
#include "cuda/matmul/rt_cuda_matmul.h"
#include "launch/world.h"
#include "rt.h"

/* The first product of a program opens the library. */
static void open_library(ParcRt *rt)
{
    RtDevice *d = rt->device;
    if (d->blas_handle)
        return;
    rt_cuda_require(rt, &rt_cuda_blas_library, &d->blas);
    BLAS(rt, cublasLtCreate(&d->blas_handle));
    if (rt->rank == 0)
        d->cache = rt_cuda_cache_open(d->name, d->blas.cublasLtGetVersion());
}

/* ---- sums that the library does not compute ------------------------------- */

/* [m, k] [k, 1] or [1, k] [k, n]. */
static ParcMatmulSpec spec_of(const ParcMatmulSpec *s, bool of_a)
{
    ParcMatmulSpec sum = *s;
    sum.epilogue = PARC_NO_EPILOGUE;
    if (of_a) {
        sum.n = 1;
        sum.type.b = s->type.a;
        memcpy(sum.sb, (int64_t[]){0, 1, 1}, sizeof sum.sb);
        memcpy(sum.sc, (int64_t[]){0, 1, 1}, sizeof sum.sc);
    } else {
        sum.m = 1;
        sum.type.a = s->type.b;
        memcpy(sum.sa, (int64_t[]){0, s->k, 1}, sizeof sum.sa);
        memcpy(sum.sc, (int64_t[]){0, s->n, 1}, sizeof sum.sc);
    }
    return sum;
}

/* Allocates k ones. A word of memory has one or two of them. */
static CuAddress make_ones(ParcRt *rt, int64_t k, ParcType type)
{
    static const uint32_t one[] = {[PARC_F32] = 0x3f800000,
                                   [PARC_BF16] = 0x3f803f80,
                                   [PARC_F16] = 0x3c003c00};
    size_t words = ((size_t)(k * rt_type_size(type)) + 3) / 4;
    CuAddress at = 0;
    CU(rt, cuMemAlloc(&at, words * sizeof *one));
    CU(rt, cuMemsetD32Async(at, one[type], words,
                            rt->device->stream[PARC_COMPUTE]));
    return at;
}

/* Replaces the sum of the epilogue by a second product, mm->sum. */
static void split_sum(ParcRt *rt, ParcMatmul *mm)
{
    const RtDevice *d = rt->device;
    ParcEpilogue e = mm->spec.epilogue;
    ParcMatmul *sum = mm->sum = rt_allocate(sizeof *sum);
    if (rt->rank == 0)
        rt_say("note: cuBLASLt %zu has no kernel for '%s' with %s on %s; "
               "another product computes the sum",
               d->blas.cublasLtGetVersion(), mm->spec.name,
               rt_cuda_epilogue_name(e), d->name);
    mm->sums_a = e == PARC_SUM_A || e == PARC_SUM_A_ADD;
    mm->ones = make_ones(rt, mm->spec.k, mm->spec.type.a);
    sum->spec = spec_of(&mm->spec, mm->sums_a);
    rt_cuda_product_make(rt, sum);
    rt_cuda_choose(rt, sum);
    rt_cuda_product_free(rt, mm);
    mm->spec.epilogue =
        rt_cuda_epilogue_adds(e) ? PARC_ADD : PARC_NO_EPILOGUE;
    rt_cuda_product_make(rt, mm);
    rt_cuda_choose(rt, mm);
}

/* The operands of mm->sum for a call of the matmul. */
static CudaOperands sum_operands(const ParcMatmul *mm,
                                 const CudaOperands *at)
{
    const void *ones = (const void *)(uintptr_t)mm->ones;
    return (CudaOperands){.a = mm->sums_a ? at->a : ones,
                          .b = mm->sums_a ? ones : at->b,
                          .c = at->vector,
                          .workspace = at->workspace};
}

/* ---- products ------------------------------------------------------------ */

ParcMatmul *parc_matmul_new(ParcRt *rt, const ParcMatmulSpec *spec)
{
    open_library(rt);
    RtDevice *d = rt->device;
    ParcMatmul *mm = rt_allocate(sizeof *mm);
    mm->spec = *spec;
    mm->next = d->matmuls;
    d->matmuls = mm;
    rt_cuda_note_precision(d, spec->type.a);
    rt_cuda_product_make(rt, mm);
    if (!rt_cuda_choose(rt, mm))
        split_sum(rt, mm);
    return mm;
}

static int alignment_of(const CudaOperands *at)
{
    uintptr_t bits = (uintptr_t)at->a | (uintptr_t)at->b | (uintptr_t)at->c |
                     (uintptr_t)at->vector | (uintptr_t)at->tensor;
    int alignment = 0;
    while (alignment < CUDA_ALIGNED && !(bits >> alignment & 1))
        alignment++;
    return alignment;
}

static void run(ParcRt *rt, ParcMatmul *mm, const CudaOperands *at)
{
    int alignment = alignment_of(at);
    CudaChoice *choice = &mm->choice[alignment];
    if (!choice->known)
        rt_cuda_choose_unaligned(rt, mm, alignment);
    rt_blas_check(rt, rt_cuda_product(rt, mm, &choice->algorithm, at),
                  mm->spec.name);
    rt_cuda_queued(rt, PARC_COMPUTE, mm->spec.name);
}

void parc_matmul_with(ParcRt *rt, ParcMatmul *mm, const void *a, const void *b,
                      void *c, void *vector, void *tensor)
{
    CudaOperands at = {a, b, c, vector, tensor,
                       parc_arena(rt) + mm->spec.scratch};
    if (mm->sum) {
        CudaOperands sum = sum_operands(mm, &at);
        run(rt, mm->sum, &sum);
        at.vector = NULL;
    }
    run(rt, mm, &at);
}

void parc_matmul(ParcRt *rt, ParcMatmul *mm, const void *a, const void *b,
                 void *c)
{
    parc_matmul_with(rt, mm, a, b, c, NULL, NULL);
}

void rt_cuda_matmul_ready(ParcRt *rt)
{
    if (rt->device->cache)
        rt_cuda_cache_save(rt->device->cache);
}

void rt_cuda_matmul_close(ParcRt *rt)
{
    RtDevice *d = rt->device;
    while (d->matmuls) {
        ParcMatmul *mm = d->matmuls;
        d->matmuls = mm->next;
        rt_cuda_product_free(rt, mm);
        if (mm->sum) {
            rt_cuda_product_free(rt, mm->sum);
            CU(rt, cuMemFree(mm->ones));
            free(mm->sum);
        }
        free(mm);
    }
    if (d->cache)
        rt_cuda_cache_close(d->cache);
    if (d->blas_handle)
        BLAS(rt, cublasLtDestroy(d->blas_handle));
}
