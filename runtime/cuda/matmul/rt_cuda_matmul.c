/* rt_cuda_matmul.c: implements the matrix products of train.c (parc_rt.h) with
 * cuBLASLt.
 *
 * init creates the descriptions (rt_cuda_product.c) and chooses a kernel for
 * each (rt_cuda_choose.c); a call passes addresses.
 */
#include <stdlib.h>

#include "common/message.h"
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

ParcMatmul *parc_matmul_new(ParcRt *rt, const ParcMatmulSpec *spec)
{
    open_library(rt);
    RtDevice *d = rt->device;
    ParcMatmul *mm = rt_allocate(sizeof *mm);
    mm->spec = *spec;
    mm->next = d->matmuls;
    d->matmuls = mm;
    if (spec->type.a != PARC_F32)
        d->precision = CUDA_HALF;
    else if (d->precision == CUDA_SINGLE && d->mode.tf32)
        d->precision = CUDA_TF32;
    rt_cuda_product_make(rt, mm);
    if (!rt_cuda_choose(rt, mm))
        rt_cuda_sum_split(rt, mm);
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
        CudaOperands sum = rt_cuda_sum_operands(mm, &at);
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
