/* rt_cuda_sum.c: computes the sum of an epilogue as a product with ones, for a
 * library that has no kernel with that epilogue. cuBLASLt's documentation lists
 * sums in f32 of 16-bit operands, but no table says which GPUs have them.
 *
 *   c = a b, vector = sum of a's rows    ->    c = a b, vector = a ones
 *   c = a b, vector = sum of b's columns ->    c = a b, vector = ones b
 *
 * It reads the operand once more. The vector of ones is on the device, beside
 * the arena.
 */
#include <string.h>

#include "common/message.h"
#include "common/type.h"
#include "cuda/matmul/rt_cuda_matmul.h"
#include "rt.h"

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

void rt_cuda_sum_split(ParcRt *rt, ParcMatmul *mm)
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

CudaOperands rt_cuda_sum_operands(const ParcMatmul *mm, const CudaOperands *at)
{
    const void *ones = (const void *)(uintptr_t)mm->ones;
    return (CudaOperands){.a = mm->sums_a ? at->a : ones,
                          .b = mm->sums_a ? ones : at->b,
                          .c = at->vector,
                          .workspace = at->workspace};
}
