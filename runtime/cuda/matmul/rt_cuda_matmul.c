/* rt_cuda_matmul.c: computes matrix products with cuBLASLt.
 *
 * init creates the descriptions once; a call passes addresses. Products
 * accumulate in f32 for every type. Products of f32 are exact to f32;
 * PARC_TF32=1 lets the library round operands to 10 bits of mantissa, which is
 * several times as fast.
 */
#include <stdlib.h>

#include "common/message.h"
#include "common/type.h"
#include "cuda/core/rt_cuda_cache.h"
#include "cuda/matmul/rt_cuda_matmul.h"
#include "launch/world.h"
#include "rt.h"

static const BlasType blas_type[] = {[PARC_F32] = RT_BLAS_F32,
                                     [PARC_BF16] = RT_BLAS_BF16,
                                     [PARC_F16] = RT_BLAS_F16};

/* An operand of the spec, with strides in elements. */
typedef struct Matrix {
    ParcType type;
    int64_t rows, columns;
    const int64_t *stride; /* batch, row, column */
} Matrix;

static Matrix matrix_of(const ParcMatmulSpec *s, int operand)
{
    Matrix of[] = {[CUDA_A] = {s->type.a, s->m, s->k, s->sa},
                   [CUDA_B] = {s->type.b, s->k, s->n, s->sb},
                   [CUDA_C] = {s->type.c, s->m, s->n, s->sc}};
    return of[operand];
}

int64_t rt_cuda_operand_bytes(const ParcMatmulSpec *s, int operand)
{
    Matrix x = matrix_of(s, operand);
    int64_t last = (s->batch - 1) * x.stride[0] + (x.rows - 1) * x.stride[1] +
                   (x.columns - 1) * x.stride[2];
    return (last + 1) * rt_type_size(x.type);
}

/* Whether a matrix is contiguous along rows. In column-major order this is the
 * transposed matrix, which the swapped product needs. */
static bool is_by_rows(const Matrix *x)
{
    return x->stride[2] == 1;
}

static BlasLayout make_layout(ParcRt *rt, const Matrix *x, int64_t batch)
{
    BlasLayout layout = NULL;
    bool by_rows = is_by_rows(x);
    int64_t rows = by_rows ? x->columns : x->rows;
    int64_t columns = by_rows ? x->rows : x->columns;
    int64_t leading = by_rows ? x->stride[1] : x->stride[2];
    /* The stride of a single column is not used, but the library checks it. */
    leading = columns == 1 && leading < rows ? rows : leading;
    BLAS(rt, cublasLtMatrixLayoutCreate(&layout, blas_type[x->type],
                                        (uint64_t)rows, (uint64_t)columns,
                                        leading));
    if (batch > 1) {
        int32_t count = (int32_t)batch;
        BLAS(rt, cublasLtMatrixLayoutSetAttribute(layout, RT_BLAS_BATCH_COUNT,
                                                  &count, sizeof count));
        BLAS(rt, cublasLtMatrixLayoutSetAttribute(
                     layout, RT_BLAS_BATCH_STRIDE, &x->stride[0],
                     sizeof x->stride[0]));
    }
    return layout;
}

static void make_product(ParcRt *rt, ParcMatmul *mm)
{
    const RtDevice *d = rt->device;
    /* The library supports TF32 only for operands in f32. */
    bool tf32 = d->mode.tf32 && mm->spec.type.a == PARC_F32;
    BlasCompute compute = tf32 ? RT_BLAS_COMPUTE_TF32 : RT_BLAS_COMPUTE_F32;
    BLAS(rt, cublasLtMatmulDescCreate(&mm->product, compute, RT_BLAS_F32));
    for (int operand = CUDA_A; operand < CUDA_OPERANDS; operand++) {
        Matrix x = matrix_of(&mm->spec, operand);
        mm->layout[operand] = make_layout(rt, &x, mm->spec.batch);
        if (operand == CUDA_C || is_by_rows(&x))
            continue;
        int32_t transposed = RT_BLAS_TRANSPOSED;
        BLAS(rt, cublasLtMatmulDescSetAttribute(
                     mm->product,
                     operand == CUDA_B ? RT_BLAS_TRANSPOSE_A
                                       : RT_BLAS_TRANSPOSE_B,
                     &transposed, sizeof transposed));
    }
    rt_cuda_epilogue_make(rt, mm);
}

/* The first product of a program opens the library. */
static void open_library(ParcRt *rt)
{
    RtDevice *d = rt->device;
    char error[1024];
    if (d->blas_handle)
        return;
    d->blas_library =
        rt_cuda_load(&rt_cuda_blas_library, &d->blas, error, sizeof error);
    if (!d->blas_library)
        rt_fail(rt, "%s", error);
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
    make_product(rt, mm);
    rt_cuda_choose(rt, mm);
    return mm;
}

BlasStatus rt_cuda_product(ParcRt *rt, const ParcMatmul *mm,
                           const BlasAlgorithm *algorithm,
                           const CudaOperands *at)
{
    static const float one = 1, zero = 0;
    const RtDevice *d = rt->device;
    const BlasLayout *l = mm->layout;
    bool adds = rt_cuda_epilogue_adds(mm->spec.epilogue);
    rt_cuda_epilogue_point(rt, mm, at->vector, at->tensor);
    return d->blas.cublasLtMatmul(
        d->blas_handle, mm->product, &one, at->b, l[CUDA_B], at->a, l[CUDA_A],
        adds ? &one : &zero, adds ? at->tensor : at->c, l[CUDA_C], at->c,
        l[CUDA_C], algorithm, at->workspace, (size_t)mm->spec.scratch_bytes,
        d->stream[PARC_COMPUTE]);
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

void parc_matmul_with(ParcRt *rt, ParcMatmul *mm, const void *a, const void *b,
                      void *c, void *vector, void *tensor)
{
    CudaOperands at = {a, b, c, vector, tensor,
                       parc_arena(rt) + mm->spec.scratch};
    int alignment = alignment_of(&at);
    CudaChoice *choice = &mm->choice[alignment];
    if (!choice->known)
        rt_cuda_choose_unaligned(rt, mm, alignment);
    rt_blas_check(rt, rt_cuda_product(rt, mm, &choice->algorithm, &at),
                  mm->spec.name);
    rt_cuda_queued(rt, PARC_COMPUTE, mm->spec.name);
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
        for (int i = 0; i < CUDA_OPERANDS; i++)
            BLAS(rt, cublasLtMatrixLayoutDestroy(mm->layout[i]));
        BLAS(rt, cublasLtMatmulDescDestroy(mm->product));
        free(mm);
    }
    if (d->cache) {
        rt_cuda_cache_close(d->cache);
        d->cache = NULL;
    }
    if (d->blas_handle)
        BLAS(rt, cublasLtDestroy(d->blas_handle));
}
