/* rt_cuda_product.c: describes matrix products and their epilogues to cuBLASLt,
 * and enqueues them.
 *
 * Products accumulate in f32 for every type. Products of f32 are exact to f32;
 * PARC_TF32=1 lets the library round operands to 10 bits of mantissa, which is
 * several times as fast.
 *
 * parc's rows are the library's columns (rt_cuda_matmul.h). A vector along
 * parc's rows is therefore a vector along the library's columns, as the
 * library requires for a bias, and the library's operand A is parc's b.
 * Vectors and GELU's operand have the result's type, which is the library's
 * default. An added tensor is not an epilogue there, but the library's c with
 * a factor of 1.
 */
#include "common/type.h"
#include "cuda/core/rt_collective_blocks.h"
#include "cuda/matmul/rt_cuda_matmul.h"
#include "rt.h"

/* ---- epilogues ----------------------------------------------------------- */

/* Operands of an epilogue. ADDED: a tensor that is the library's c. */
enum { VECTOR_N = 1, VECTOR_M = 2, TENSOR = 4, ADDED = 8 };

static const struct Epilogue {
    const char *name;
    uint32_t blas; /* 0: the library's default */
    unsigned with;
} epilogues[] = {
    [PARC_NO_EPILOGUE] = {"", 0, 0},
    [PARC_BIAS] = {"bias", RT_BLAS_EPILOGUE_BIAS, VECTOR_N},
    [PARC_ADD] = {"add", 0, ADDED},
    [PARC_SUM_A] = {"sum of a", RT_BLAS_EPILOGUE_SUM_B, VECTOR_M},
    [PARC_SUM_B] = {"sum of b", RT_BLAS_EPILOGUE_SUM_A, VECTOR_N},
    [PARC_BIAS_ADD] = {"bias and add", RT_BLAS_EPILOGUE_BIAS, VECTOR_N | ADDED},
    [PARC_SUM_A_ADD] = {"sum of a and add", RT_BLAS_EPILOGUE_SUM_B,
                        VECTOR_M | ADDED},
    [PARC_SUM_B_ADD] = {"sum of b and add", RT_BLAS_EPILOGUE_SUM_A,
                        VECTOR_N | ADDED},
    [PARC_GELU] = {"gelu", RT_BLAS_EPILOGUE_GELU_AUX, TENSOR},
    [PARC_GELU_BIAS] = {"bias and gelu", RT_BLAS_EPILOGUE_GELU_AUX_BIAS,
                        VECTOR_N | TENSOR},
    [PARC_GELU_GRAD] = {"gelu gradient", RT_BLAS_EPILOGUE_GELU_GRAD, TENSOR},
};

const char *rt_cuda_epilogue_name(ParcEpilogue e)
{
    return epilogues[e].name;
}

int64_t rt_cuda_vector_bytes(const ParcMatmulSpec *s)
{
    unsigned with = epilogues[s->epilogue].with;
    int64_t size = rt_type_size(s->type.c);
    return with & VECTOR_N ? s->n * size : with & VECTOR_M ? s->m * size : 0;
}

bool rt_cuda_epilogue_sums(ParcEpilogue e)
{
    return epilogues[e].blas == RT_BLAS_EPILOGUE_SUM_A ||
           epilogues[e].blas == RT_BLAS_EPILOGUE_SUM_B;
}

bool rt_cuda_epilogue_adds(ParcEpilogue e)
{
    return epilogues[e].with & ADDED;
}

/* Sets an attribute of the product's description. */
static void set(ParcRt *rt, const ParcMatmul *mm,
                BlasProductAttribute attribute, const void *value,
                size_t bytes)
{
    BLAS(rt, cublasLtMatmulDescSetAttribute(mm->product, attribute, value,
                                            bytes));
}

/* Sets the attributes of the epilogue, except addresses. */
static void describe_epilogue(ParcRt *rt, const ParcMatmul *mm)
{
    const struct Epilogue *e = &epilogues[mm->spec.epilogue];
    if (e->blas)
        set(rt, mm, RT_BLAS_EPILOGUE, &e->blas, sizeof e->blas);
    if (e->with & TENSOR)
        set(rt, mm, RT_BLAS_AUX_LEADING, &mm->spec.sc[1],
            sizeof mm->spec.sc[1]);
}

void rt_cuda_epilogue_point(ParcRt *rt, const ParcMatmul *mm, void *vector,
                            void *tensor)
{
    const struct Epilogue *e = &epilogues[mm->spec.epilogue];
    if (e->with & (VECTOR_M | VECTOR_N))
        set(rt, mm, RT_BLAS_BIAS_POINTER, &vector, sizeof vector);
    if (e->with & TENSOR)
        set(rt, mm, RT_BLAS_AUX_POINTER, &tensor, sizeof tensor);
}

/* ---- operands ------------------------------------------------------------ */

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

int64_t rt_cuda_tensor_bytes(const ParcMatmulSpec *s)
{
    bool has_tensor = epilogues[s->epilogue].with & (TENSOR | ADDED);
    return has_tensor ? rt_cuda_operand_bytes(s, CUDA_C) : 0;
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

/* ---- products ------------------------------------------------------------ */

int rt_cuda_product_sms(const ParcRt *rt, const ParcMatmul *mm)
{
    enum { PERSISTENT = 9 }; /* kernels for Hopper and later; others end block by block */
    const RtDevice *d = rt->device;
    bool leaves = mm->spec.concurrent && rt->nranks > 1 && d->major >= PERSISTENT;
    return leaves ? d->sms - rt_collective_blocks(d->sms) : d->sms;
}

void rt_cuda_product_make(ParcRt *rt, ParcMatmul *mm)
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
        set(rt, mm,
            operand == CUDA_B ? RT_BLAS_TRANSPOSE_A : RT_BLAS_TRANSPOSE_B,
            &transposed, sizeof transposed);
    }
    describe_epilogue(rt, mm);
    int32_t sms = rt_cuda_product_sms(rt, mm);
    if (sms < d->sms)
        set(rt, mm, RT_BLAS_SM_COUNT, &sms, sizeof sms);
}

void rt_cuda_product_free(ParcRt *rt, const ParcMatmul *mm)
{
    for (int i = 0; i < CUDA_OPERANDS; i++)
        BLAS(rt, cublasLtMatrixLayoutDestroy(mm->layout[i]));
    BLAS(rt, cublasLtMatmulDescDestroy(mm->product));
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
