/* rt_cuda_epilogue.c: sets the epilogues of cuBLASLt's products.
 *
 * parc's rows are the library's columns (rt_cuda_matmul.h). A vector along
 * parc's rows is therefore a vector along the library's columns, as the
 * library requires for a bias, and the library's operand A is parc's b.
 * Vectors and GELU's operand have the result's type, which is the library's
 * default. An added tensor is not an epilogue there, but the library's c with
 * a factor of 1.
 */
#include "cuda/matmul/rt_cuda_matmul.h"
#include "rt.h"

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
    int64_t size = s->type.c == PARC_F32 ? 4 : 2;
    return with & VECTOR_N ? s->n * size : with & VECTOR_M ? s->m * size : 0;
}

bool rt_cuda_epilogue_has_tensor(ParcEpilogue e)
{
    return epilogues[e].with & (TENSOR | ADDED);
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

void rt_cuda_epilogue_make(ParcRt *rt, ParcMatmul *mm)
{
    const struct Epilogue *e = &epilogues[mm->spec.epilogue];
    if (!e->blas)
        return;
    BLAS(rt, cublasLtMatmulDescSetAttribute(mm->product, RT_BLAS_EPILOGUE,
                                            &e->blas, sizeof e->blas));
    if (e->with & TENSOR)
        BLAS(rt, cublasLtMatmulDescSetAttribute(
                     mm->product, RT_BLAS_AUX_LEADING, &mm->spec.sc[1],
                     sizeof mm->spec.sc[1]));
}

void rt_cuda_epilogue_point(ParcRt *rt, const ParcMatmul *mm, void *vector,
                            void *tensor)
{
    const struct Epilogue *e = &epilogues[mm->spec.epilogue];
    if (e->with & (VECTOR_M | VECTOR_N))
        BLAS(rt, cublasLtMatmulDescSetAttribute(
                     mm->product, RT_BLAS_BIAS_POINTER, &vector,
                     sizeof vector));
    if (e->with & TENSOR)
        BLAS(rt, cublasLtMatmulDescSetAttribute(mm->product,
                                                RT_BLAS_AUX_POINTER, &tensor,
                                                sizeof tensor));
}
