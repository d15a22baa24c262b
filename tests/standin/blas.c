/* blas.c: implements libcublasLt.so.13 for tests: the calls of
 * runtime/cuda/api/calls_blas.h. Matrices are column-major.
 *
 * The stand-in is as strict as the library's documentation: calls that it
 * forbids are errors, and an algorithm that was requested for an alignment
 * accepts no other operands. Several algorithms are proposed. They split the
 * sum differently, and so differ in the last bits of the result.
 *
 * STANDIN_NO_SUMS=1: no kernel sums an operand in its epilogue if the result is
 * f32. STANDIN_VARIED=1: a product whose operands have equal elements is an
 * error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/api/api.h"
#include "blas_product.h"
#include "engine.h"
#include "hazard.h"
#include "loaded.h"
#include "queue.h"

#define CALL(result, name, suffix, arguments)                                  \
    result name arguments __asm__(#name #suffix);
#include "cuda/api/calls_blas.h"

enum {
    NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13,
    VERSION = 130000,
    MAGIC = 0x50415243,
    ALGORITHMS = 4, /* number i splits the sum into i + 1 parts */
    WORKSPACE_ALIGNMENT = 256,
};

struct BlasHandleObject {
    int magic;
};
struct BlasProductObject {
    BlasCompute compute;
    int32_t transposed[2];
    uint32_t epilogue; /* 0: the default */
    int32_t sms;       /* 0: all */
    void *bias, *aux;
    int64_t aux_leading;
};
struct BlasLayoutObject {
    BlasType type;
    int64_t rows, columns, leading, stride;
    int32_t batch;
};
struct BlasPreferenceObject {
    uint64_t workspace;
    uint32_t alignment[4];
};

/* The contents of a BlasAlgorithm. */
typedef struct Algorithm {
    uint32_t magic;
    int16_t parts, epilogue;
    uint32_t alignment[4];
    uint32_t bias_alignment, aux_alignment;
    int32_t sms; /* those it was proposed for */
    int64_t workspace;
} Algorithm;
_Static_assert(sizeof(Algorithm) <= sizeof(BlasAlgorithm), "ABI");

size_t cublasLtGetVersion(void)
{
    return VERSION;
}

const char *cublasLtGetStatusString(BlasStatus status)
{
    switch (status) {
    case RT_BLAS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case RT_BLAS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_UNKNOWN";
    }
}

/* ---- descriptions ---- */

BlasStatus cublasLtCreate(BlasHandle *handle)
{
    *handle = malloc(sizeof **handle);
    (*handle)->magic = MAGIC;
    return RT_BLAS_SUCCESS;
}

BlasStatus cublasLtDestroy(BlasHandle handle)
{
    handle->magic = 0;
    free(handle);
    return RT_BLAS_SUCCESS;
}

BlasStatus cublasLtMatmulDescCreate(BlasProduct *product, BlasCompute compute,
                                    BlasType scale)
{
    if ((compute != RT_BLAS_COMPUTE_F32 && compute != RT_BLAS_COMPUTE_TF32) ||
        scale != RT_BLAS_F32)
        return RT_BLAS_NOT_SUPPORTED;
    *product = calloc(1, sizeof **product);
    (*product)->compute = compute;
    return RT_BLAS_SUCCESS;
}

static BlasStatus set(void *to, const void *value, size_t bytes, size_t wanted)
{
    if (bytes != wanted)
        return INVALID_VALUE;
    memcpy(to, value, bytes);
    return RT_BLAS_SUCCESS;
}

BlasStatus cublasLtMatmulDescSetAttribute(BlasProduct product,
                                          BlasProductAttribute attribute,
                                          const void *value, size_t bytes)
{
    switch (attribute) {
    case RT_BLAS_TRANSPOSE_A:
        return set(&product->transposed[0], value, bytes, sizeof(int32_t));
    case RT_BLAS_TRANSPOSE_B:
        return set(&product->transposed[1], value, bytes, sizeof(int32_t));
    case RT_BLAS_SM_COUNT:
        return set(&product->sms, value, bytes, sizeof(int32_t));
    case RT_BLAS_EPILOGUE:
        return set(&product->epilogue, value, bytes, sizeof(uint32_t));
    case RT_BLAS_BIAS_POINTER:
        return set(&product->bias, value, bytes, sizeof(void *));
    case RT_BLAS_AUX_POINTER:
        return set(&product->aux, value, bytes, sizeof(void *));
    case RT_BLAS_AUX_LEADING:
        return set(&product->aux_leading, value, bytes, sizeof(int64_t));
    default:
        standin_error("cuBLASLt: attribute %u of a product is not known here",
                      attribute);
        return INVALID_VALUE;
    }
}

BlasStatus cublasLtMatmulDescDestroy(BlasProduct product)
{
    free(product);
    return RT_BLAS_SUCCESS;
}

BlasStatus cublasLtMatrixLayoutCreate(BlasLayout *layout, BlasType type,
                                      uint64_t rows, uint64_t columns,
                                      int64_t leading)
{
    if (type != RT_BLAS_F32 && type != RT_BLAS_BF16 && type != RT_BLAS_F16)
        return RT_BLAS_NOT_SUPPORTED;
    *layout = calloc(1, sizeof **layout);
    **layout = (struct BlasLayoutObject){type, (int64_t)rows,
                                         (int64_t)columns, leading, 0, 1};
    return RT_BLAS_SUCCESS;
}

BlasStatus cublasLtMatrixLayoutSetAttribute(BlasLayout layout,
                                            BlasLayoutAttribute attribute,
                                            const void *value, size_t bytes)
{
    switch (attribute) {
    case RT_BLAS_BATCH_COUNT:
        return set(&layout->batch, value, bytes, sizeof layout->batch);
    case RT_BLAS_BATCH_STRIDE:
        return set(&layout->stride, value, bytes, sizeof layout->stride);
    default:
        standin_error("cuBLASLt: attribute %u of a layout is not known here",
                      attribute);
        return INVALID_VALUE;
    }
}

BlasStatus cublasLtMatrixLayoutDestroy(BlasLayout layout)
{
    free(layout);
    return RT_BLAS_SUCCESS;
}

BlasStatus cublasLtMatmulPreferenceCreate(BlasPreference *preference)
{
    *preference = calloc(1, sizeof **preference);
    for (int i = 0; i < 4; i++)
        (*preference)->alignment[i] = 256;
    return RT_BLAS_SUCCESS;
}

BlasStatus cublasLtMatmulPreferenceSetAttribute(
    BlasPreference preference, BlasPreferenceAttribute attribute,
    const void *value, size_t bytes)
{
    uint32_t mask;
    if (attribute >= RT_BLAS_ALIGNMENT_A && attribute <= RT_BLAS_ALIGNMENT_D)
        return set(&preference->alignment[attribute - RT_BLAS_ALIGNMENT_A],
                   value, bytes, sizeof(uint32_t));
    if (attribute == RT_BLAS_MAX_WORKSPACE)
        return set(&preference->workspace, value, bytes, sizeof(uint64_t));
    if (attribute == RT_BLAS_REDUCTION_MASK)
        return set(&mask, value, bytes, sizeof mask);
    standin_error("cuBLASLt: attribute %u of a preference is not known here",
                  attribute);
    return INVALID_VALUE;
}

BlasStatus cublasLtMatmulPreferenceDestroy(BlasPreference preference)
{
    free(preference);
    return RT_BLAS_SUCCESS;
}

/* ---- requirements of a product ---- */

static int64_t size_of(BlasType t)
{
    return t == RT_BLAS_F32 ? 4 : 2;
}

/* "a leading dimension of 3 and 4 rows", or NULL. */
static const char *wrong_layout(const struct BlasLayoutObject *l)
{
    if (!l || l->rows < 1 || l->columns < 1)
        return "an empty matrix";
    if (l->leading < l->rows)
        return "a leading dimension that is less than the rows";
    if (l->batch < 1 || l->stride < 0)
        return "a batch of no matrices";
    return NULL;
}

/* ---- epilogues ---- */

enum { NEEDS_BIAS = 1, NEEDS_AUX = 2 };

static const struct Epilogue {
    uint32_t blas;
    ProductEnd end;
    unsigned needs;
} epilogues[] = {
    {0, PRODUCT_AS_IT_IS, 0},
    {RT_BLAS_EPILOGUE_BIAS, PRODUCT_BIAS, NEEDS_BIAS},
    {RT_BLAS_EPILOGUE_GELU_AUX, PRODUCT_GELU, NEEDS_AUX},
    {RT_BLAS_EPILOGUE_GELU_AUX_BIAS, PRODUCT_GELU_BIAS,
     NEEDS_BIAS | NEEDS_AUX},
    {RT_BLAS_EPILOGUE_GELU_GRAD, PRODUCT_GELU_GRAD, NEEDS_AUX},
    {RT_BLAS_EPILOGUE_SUM_A, PRODUCT_SUM_A, NEEDS_BIAS},
    {RT_BLAS_EPILOGUE_SUM_B, PRODUCT_SUM_B, NEEDS_BIAS},
};

static const struct Epilogue *epilogue_of(BlasProduct p)
{
    for (size_t i = 0; i < sizeof epilogues / sizeof *epilogues; i++)
        if (epilogues[i].blas == p->epilogue)
            return &epilogues[i];
    return NULL;
}

/* The documentation's requirements for an epilogue's operands: bias and aux
 * have the result's type, which is the default. */
static const char *wrong_epilogue(BlasProduct p, BlasLayout d)
{
    const struct Epilogue *e = epilogue_of(p);
    if (!e)
        return "an epilogue that is not known here";
    if (e->needs && d->batch > 1)
        return "an epilogue of a batch, which parc never uses";
    if (e->needs & NEEDS_BIAS && !p->bias)
        return "no pointer to its bias";
    if (e->needs & NEEDS_AUX && !p->aux)
        return "no pointer to its auxiliary operand";
    if (e->needs & NEEDS_AUX &&
        (p->aux_leading < d->rows || p->aux_leading % 8))
        return "an auxiliary operand whose leading dimension is less than the "
               "rows, or no multiple of 8";
    return NULL;
}

static const char *wrong_shapes(BlasProduct p, BlasLayout a, BlasLayout b,
                                BlasLayout c, BlasLayout d, int64_t *k)
{
    const struct BlasLayoutObject *all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++) {
        const char *wrong = wrong_layout(all[i]);
        if (wrong)
            return wrong;
        if (all[i]->batch != d->batch)
            return "batches that differ";
    }
    int64_t m = p->transposed[0] ? a->columns : a->rows;
    int64_t n = p->transposed[1] ? b->rows : b->columns;
    *k = p->transposed[0] ? a->rows : a->columns;
    if (*k != (p->transposed[1] ? b->columns : b->rows))
        return "operands whose inner sizes differ";
    if (d->rows != m || d->columns != n || c->rows != m || c->columns != n)
        return "a result that is not m by n";
    if (d->batch > 1 && d->stride < d->leading * (d->columns - 1) + d->rows &&
        d->stride + d->rows > d->leading)
        return "results of a batch that overlap";
    if (a->type != b->type || c->type != d->type ||
        (d->type != a->type && d->type != RT_BLAS_F32))
        return "types that no kernel has";
    return wrong_epilogue(p, d);
}

/* Whether this library lacks a kernel for the epilogue. */
static bool lacks(BlasProduct p, BlasLayout d)
{
    bool sums = p->epilogue == RT_BLAS_EPILOGUE_SUM_A ||
                p->epilogue == RT_BLAS_EPILOGUE_SUM_B;
    return sums && d->type == RT_BLAS_F32 && getenv("STANDIN_NO_SUMS");
}

static BlasStatus check_shapes(BlasHandle handle, BlasProduct p, BlasLayout a,
                               BlasLayout b, BlasLayout c, BlasLayout d,
                               int64_t *k)
{
    if (!handle || handle->magic != MAGIC)
        return NOT_INITIALIZED;
    if (!p || !a || !b || !c || !d)
        return INVALID_VALUE;
    const char *wrong = wrong_shapes(p, a, b, c, d, k);
    if (wrong)
        standin_error("cuBLASLt: a product with %s: a %lld x %lld (%lld), b "
                      "%lld x %lld (%lld), d %lld x %lld (%lld)", wrong,
                      (long long)a->rows, (long long)a->columns,
                      (long long)a->leading, (long long)b->rows,
                      (long long)b->columns, (long long)b->leading,
                      (long long)d->rows, (long long)d->columns,
                      (long long)d->leading);
    return wrong         ? INVALID_VALUE
           : lacks(p, d) ? RT_BLAS_NOT_SUPPORTED
                         : RT_BLAS_SUCCESS;
}

/* Kernels with vector loads require pointers, leading dimensions and strides
 * to be aligned; other kernels do not. */
static uint32_t kept_alignment(const struct BlasLayoutObject *l, uint32_t most)
{
    int64_t bits = (l->leading | (l->batch > 1 ? l->stride : 0)) *
                   size_of(l->type);
    uint32_t kept = 16;
    kept = most < kept ? most : kept;
    while (kept > 1 && bits % kept)
        kept /= 2;
    return kept;
}

static uint32_t alignment_of(const void *at)
{
    uint32_t kept = 16;
    while (kept > 1 && (uintptr_t)at % kept)
        kept /= 2;
    return kept;
}

BlasStatus cublasLtMatmulAlgoGetHeuristic(
    BlasHandle handle, BlasProduct product, BlasLayout a, BlasLayout b,
    BlasLayout c, BlasLayout d, BlasPreference preference, int wanted,
    BlasCandidate candidate[], int *found)
{
    const struct BlasLayoutObject *l[] = {a, b, c, d};
    int64_t k = 0;
    BlasStatus s = check_shapes(handle, product, a, b, c, d, &k);
    *found = 0;
    if (s)
        return s;
    for (int i = 0; i < 4; i++)
        if (preference->alignment[i] < (uint32_t)size_of(l[i]->type))
            return RT_BLAS_NOT_SUPPORTED;
    if (product->compute == RT_BLAS_COMPUTE_TF32 && a->type != RT_BLAS_F32)
        return RT_BLAS_NOT_SUPPORTED;
    for (int parts = 1; parts <= ALGORITHMS && *found < wanted; parts++) {
        Algorithm x = {.magic = MAGIC, .parts = (int16_t)parts,
                       .epilogue = (int16_t)product->epilogue,
                       .sms = product->sms,
                       .bias_alignment = alignment_of(product->bias),
                       .aux_alignment = alignment_of(product->aux),
                       .workspace = (parts - 1) * d->rows * d->columns *
                                    d->batch * 4};
        if (parts > 1 && (x.workspace > (int64_t)preference->workspace ||
                          k < 2 * parts))
            continue;
        for (int i = 0; i < 4; i++)
            x.alignment[i] = kept_alignment(l[i], preference->alignment[i]);
        BlasCandidate *to = &candidate[(*found)++];
        memset(to, 0, sizeof *to);
        memcpy(&to->algorithm, &x, sizeof x);
        to->workspace_bytes = (size_t)x.workspace;
        to->waves = 1.0f;
    }
    return *found ? RT_BLAS_SUCCESS : RT_BLAS_NOT_SUPPORTED;
}

BlasStatus cublasLtMatmulAlgoCheck(BlasHandle handle, BlasProduct product,
                                   BlasLayout a, BlasLayout b, BlasLayout c,
                                   BlasLayout d, const BlasAlgorithm *algorithm,
                                   BlasCandidate *candidate)
{
    int64_t k;
    Algorithm x;
    BlasStatus s = check_shapes(handle, product, a, b, c, d, &k);
    memcpy(&x, algorithm, sizeof x);
    if (s || x.magic != MAGIC || x.parts < 1 || x.parts > ALGORITHMS ||
        x.epilogue != (int16_t)product->epilogue || x.sms != product->sms)
        return s ? s : INVALID_VALUE;
    memset(candidate, 0, sizeof *candidate);
    candidate->algorithm = *algorithm;
    x.workspace = (x.parts - 1) * d->rows * d->columns * d->batch * 4;
    candidate->workspace_bytes = (size_t)x.workspace;
    return RT_BLAS_SUCCESS;
}

/* ---- products ---- */

static ProductType type_of(BlasType t)
{
    return t == RT_BLAS_F32    ? PRODUCT_F32
           : t == RT_BLAS_BF16 ? PRODUCT_BF16
                               : PRODUCT_F16;
}

static int64_t extent(const struct BlasLayoutObject *l)
{
    return ((l->batch - 1) * l->stride + (l->columns - 1) * l->leading +
            l->rows) * size_of(l->type);
}

static bool touch(const Product *p, const ProductMatrix *x)
{
    int64_t bytes = x->type == PRODUCT_F32 ? 4 : 2;
    for (int64_t i = 0; i < p->batch; i++)
        if (!hazard_touch_rows((char *)x->at + i * x->stride * bytes,
                               x->columns, x->rows * bytes, x->leading * bytes,
                               x == &p->d))
            return false;
    return true;
}

static bool sums(const Product *p)
{
    return p->end == PRODUCT_SUM_A || p->end == PRODUCT_SUM_B;
}

static int64_t vector_bytes(const Product *p)
{
    return (p->end == PRODUCT_SUM_B ? p->n : p->m) *
           (p->d.type == PRODUCT_F32 ? 4 : 2);
}

/* Marks the epilogue's additional operands as read or written. */
static bool touch_beside(const Product *p)
{
    int64_t size = p->aux.type == PRODUCT_F32 ? 4 : 2;
    return (!p->vector || hazard_touch(p->vector, vector_bytes(p), sums(p))) &&
           (!p->aux.at ||
            hazard_touch_rows(p->aux.at, p->aux.columns, p->aux.rows * size,
                              p->aux.leading * size,
                              p->end != PRODUCT_GELU_GRAD));
}

/* Whether the first elements of an operand are equal. */
static bool is_constant(const ProductMatrix *x)
{
    int64_t size = x->type == PRODUCT_F32 ? 4 : 2;
    const char *at = x->at;
    for (int64_t i = 1; i < x->rows; i++)
        if (memcmp(at, at + i * size, (size_t)size) != 0)
            return false;
    return x->rows > 1;
}

static enum WorkStatus product_run(void *state)
{
    const Product *p = state;
    if (getenv("STANDIN_VARIED") && (is_constant(&p->a) || is_constant(&p->b))) {
        standin_error("cuBLASLt: a product of equal numbers");
        return WORK_FAILED;
    }
    const ProductMatrix *m[] = {&p->a, &p->b, &p->c, &p->d};
    for (int i = 0; i < 4; i++)
        if ((i != 2 || p->beta != 0.0f) &&
            !standin_is_device(m[i]->at, m[i]->bytes)) {
            standin_error("cuBLASLt: operand %c, %lld bytes at %p, is not "
                          "within live device memory", "abcd"[i],
                          (long long)m[i]->bytes, m[i]->at);
            return WORK_FAILED;
        }
    if (p->vector && !standin_is_device(p->vector, vector_bytes(p))) {
        standin_error("cuBLASLt: the bias is not live device memory");
        return WORK_FAILED;
    }
    if (p->aux.at && !standin_is_device(p->aux.at, p->aux.bytes)) {
        standin_error("cuBLASLt: the auxiliary operand is not live device "
                      "memory");
        return WORK_FAILED;
    }
    if (p->workspace && !standin_is_device(p->workspace, p->workspace_bytes)) {
        standin_error("cuBLASLt: the workspace is not live device memory");
        return WORK_FAILED;
    }
    if (!touch(p, &p->a) || !touch(p, &p->b) || !touch(p, &p->d) ||
        (p->beta != 0.0f && !touch(p, &p->c)) || !touch_beside(p) ||
        !hazard_touch(p->workspace, p->workspace_bytes, true))
        return WORK_FAILED;
    /* Like a kernel that uses its workspace, overwrites it. */
    if (p->workspace)
        memset(p->workspace, 0xff, (size_t)p->workspace_bytes);
    product_compute(p);
    return WORK_DONE;
}
_Static_assert(sizeof(Product) <= WORK_STATE, "a product fits");

static ProductMatrix matrix(const void *at, BlasLayout l)
{
    return (ProductMatrix){(void *)(uintptr_t)at, type_of(l->type), l->rows,
                           l->columns, l->leading, l->stride, extent(l)};
}

/* A kernel is an algorithm for types and layouts; sizes are its arguments. */
static bool launch(BlasProduct product, const Algorithm *x,
                   const BlasLayout layout[3], CuStream stream)
{
    int32_t key[9] = {x->parts, x->epilogue, (int32_t)product->compute,
                      product->transposed[0], product->transposed[1],
                      (int32_t)product->epilogue};
    for (int i = 0; i < 3; i++)
        key[6 + i] = (int32_t)layout[i]->type;
    return loaded_launch(key, sizeof key, stream, "a product of cuBLASLt's");
}

BlasStatus cublasLtMatmul(BlasHandle handle, BlasProduct product,
                          const void *alpha, const void *a,
                          BlasLayout a_layout, const void *b,
                          BlasLayout b_layout, const void *beta, const void *c,
                          BlasLayout c_layout, void *d, BlasLayout d_layout,
                          const BlasAlgorithm *algorithm, void *workspace,
                          size_t workspace_bytes, BlasStream stream)
{
    const void *at[] = {a, b, c, d};
    int64_t k = 0;
    Algorithm x = {0};
    BlasStatus s = check_shapes(handle, product, a_layout, b_layout, c_layout,
                                d_layout, &k);
    if (s)
        return s;
    if (algorithm)
        memcpy(&x, algorithm, sizeof x);
    if (x.magic != MAGIC || x.workspace > (int64_t)workspace_bytes) {
        standin_error("cuBLASLt: the algorithm %s",
                      x.magic == MAGIC ? "wants a larger workspace"
                                       : "is none of this library's");
        return INVALID_VALUE;
    }
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)at[i] % x.alignment[i]) {
            standin_error("cuBLASLt: operand %c (%p) is not aligned to the %u "
                          "bytes that its algorithm was asked for with",
                          "abcd"[i], at[i], x.alignment[i]);
            return INVALID_VALUE;
        }
    const struct Epilogue *e = epilogue_of(product);
    if (x.epilogue != (int16_t)product->epilogue ||
        (e->needs & NEEDS_BIAS &&
         (uintptr_t)product->bias % x.bias_alignment) ||
        (e->needs & NEEDS_AUX && (uintptr_t)product->aux % x.aux_alignment)) {
        standin_error("cuBLASLt: bias or auxiliary operand are not what the "
                      "algorithm was asked for with");
        return INVALID_VALUE;
    }
    if (x.sms != product->sms) {
        standin_error("cuBLASLt: the algorithm was proposed for %d multiprocessors, "
                      "not for %d", x.sms, product->sms);
        return INVALID_VALUE;
    }
    if (x.workspace && (uintptr_t)workspace % WORKSPACE_ALIGNMENT) {
        standin_error("cuBLASLt: the workspace is not aligned to 256 bytes");
        return INVALID_VALUE;
    }
    if (!launch(product, &x, (const BlasLayout[]){a_layout, b_layout, d_layout},
                stream))
        return EXECUTION_FAILED;
    Work w = {"a product", product_run, NULL, {0}};
    Product *p = (Product *)(void *)w.state;
    *p = (Product){.m = d_layout->rows, .n = d_layout->columns, .k = k,
                   .batch = d_layout->batch, .parts = x.parts,
                   .a = matrix(a, a_layout), .b = matrix(b, b_layout),
                   .c = matrix(c, c_layout), .d = matrix(d, d_layout),
                   .a_transposed = product->transposed[0],
                   .b_transposed = product->transposed[1],
                   .workspace = x.workspace ? workspace : NULL,
                   .workspace_bytes = x.workspace,
                   .end = e->end,
                   .vector = e->needs & NEEDS_BIAS ? product->bias : NULL};
    if (e->needs & NEEDS_AUX) {
        struct BlasLayoutObject aux = *d_layout;
        aux.leading = product->aux_leading;
        p->aux = matrix(product->aux, &aux);
    }
    memcpy(&p->alpha, alpha, sizeof p->alpha);
    memcpy(&p->beta, beta, sizeof p->beta);
    queue_lock();
    CuResult r = queue_add(stream, &w);
    queue_unlock();
    return r ? EXECUTION_FAILED : RT_BLAS_SUCCESS;
}

/* A missing call is an error of the linker. */
#undef CALL
#define CALL(result, name, suffix, arguments) (void (*)(void)) name,
extern void (*const standin_blas_calls[])(void);
void (*const standin_blas_calls[])(void) = {
#include "cuda/api/calls_blas.h"
};
