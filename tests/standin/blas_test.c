/* blas_test.c: compares products and epilogues of the stand-in cuBLASLt with
 * simple loops, and tests the errors that the documentation requires. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/api/api.h"

#define CALL(result, name, suffix, arguments)                                  \
    result name arguments __asm__(#name #suffix);
#include "cuda/api/calls_driver.h"
#include "cuda/api/calls_blas.h"

enum { M = 16, N = 6, K = 10 }; /* column-major: d [M, N] */

static int passed, failed;

static void check(bool good, const char *what)
{
    good ? passed++ : failed++;
    if (!good)
        printf("FAILED: %s\n", what);
}

/* The device's memory is the host's here. */
static float *device(int n, float first)
{
    CuAddress at = 0;
    if (cuMemAlloc(&at, (size_t)n * sizeof(float)))
        exit(3);
    float *x = (float *)(uintptr_t)at;
    for (int i = 0; i < n; i++)
        x[i] = sinf(first + (float)i);
    return x;
}

typedef struct Setup {
    BlasHandle handle;
    BlasProduct product;
    BlasLayout a, b, d;
    float *at_a, *at_b, *at_c, *at_d, *bias, *aux;
    CuStream stream;
} Setup;

static void open_all(Setup *s)
{
    CuContext context;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) ||
        cuCtxSetCurrent(context) ||
        cuStreamCreateWithPriority(&s->stream, 1, 0) ||
        cublasLtCreate(&s->handle) ||
        cublasLtMatrixLayoutCreate(&s->a, RT_BLAS_F32, M, K, M) ||
        cublasLtMatrixLayoutCreate(&s->b, RT_BLAS_F32, K, N, K) ||
        cublasLtMatrixLayoutCreate(&s->d, RT_BLAS_F32, M, N, M))
        exit(3);
    s->at_a = device(M * K, 1);
    s->at_b = device(K * N, 2);
    s->at_c = device(M * N, 3);
    s->at_d = device(M * N, 4);
    s->bias = device(M, 5);
    s->aux = device(M * N, 6);
}

/* Queues a product with these attributes, or is refused. */
static BlasStatus queued(Setup *s, uint32_t epilogue, void *bias, void *aux,
                         int64_t leading, float beta)
{
    static const float one = 1;
    BlasPreference p;
    BlasCandidate candidate;
    int found = 0;
    if (cublasLtMatmulDescCreate(&s->product, RT_BLAS_COMPUTE_F32,
                                 RT_BLAS_F32) ||
        cublasLtMatmulPreferenceCreate(&p))
        exit(3);
    if (epilogue)
        cublasLtMatmulDescSetAttribute(s->product, RT_BLAS_EPILOGUE, &epilogue,
                                       sizeof epilogue);
    cublasLtMatmulDescSetAttribute(s->product, RT_BLAS_BIAS_POINTER, &bias,
                                   sizeof bias);
    cublasLtMatmulDescSetAttribute(s->product, RT_BLAS_AUX_POINTER, &aux,
                                   sizeof aux);
    cublasLtMatmulDescSetAttribute(s->product, RT_BLAS_AUX_LEADING, &leading,
                                   sizeof leading);
    BlasStatus status = cublasLtMatmulAlgoGetHeuristic(
        s->handle, s->product, s->a, s->b, s->d, s->d, p, 1, &candidate,
        &found);
    if (!status)
        status = cublasLtMatmul(s->handle, s->product, &one, s->at_a, s->a,
                                s->at_b, s->b, &beta, s->at_c, s->d, s->at_d,
                                s->d, &candidate.algorithm, NULL, 0,
                                s->stream);
    cublasLtMatmulPreferenceDestroy(p);
    cublasLtMatmulDescDestroy(s->product);
    return status;
}

/* Queues a product and runs it. */
static BlasStatus run(Setup *s, uint32_t epilogue, void *bias, void *aux,
                      int64_t leading, float beta)
{
    BlasStatus status = queued(s, epilogue, bias, aux, leading, beta);
    CuResult r = status ? RT_CU_SUCCESS : RT_CU_NOT_READY;
    while (r == RT_CU_NOT_READY)
        r = cuStreamQuery(s->stream);
    return r ? 1 : status;
}

static float product_at(const Setup *s, int i, int j)
{
    float sum = 0;
    for (int k = 0; k < K; k++)
        sum += s->at_a[k * M + i] * s->at_b[j * K + k];
    return sum;
}

static float gelu(float x)
{
    return x / 2 * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

static bool near(float x, float y)
{
    return fabsf(x - y) < 1e-4f;
}

static void check_numbers(Setup *s)
{
    static const struct {
        const char *name;
        uint32_t blas;
    } row[] = {{"bias", RT_BLAS_EPILOGUE_BIAS},
               {"gelu", RT_BLAS_EPILOGUE_GELU_AUX},
               {"bias and gelu", RT_BLAS_EPILOGUE_GELU_AUX_BIAS},
               {"gelu gradient", RT_BLAS_EPILOGUE_GELU_GRAD},
               {"added", 0}};
    for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        float was[M * N];
        bool bias = row[r].blas == RT_BLAS_EPILOGUE_BIAS ||
                    row[r].blas == RT_BLAS_EPILOGUE_GELU_AUX_BIAS;
        memcpy(was, s->aux, sizeof was);
        bool good = !run(s, row[r].blas, s->bias, s->aux, M,
                         row[r].blas ? 0.0f : 1.0f);
        for (int j = 0; good && j < N; j++)
            for (int i = 0; good && i < M; i++) {
                float x = product_at(s, i, j) + (bias ? s->bias[i] : 0);
                float d = s->at_d[j * M + i], z = was[j * M + i];
                float h = 1e-2f, slope = (gelu(z + h) - gelu(z - h)) / (2 * h);
                if (row[r].blas == RT_BLAS_EPILOGUE_GELU_GRAD)
                    good = fabsf(d - x * slope) < 1e-2f;
                else if (row[r].blas & RT_BLAS_EPILOGUE_GELU_AUX &
                         ~(uint32_t)RT_BLAS_EPILOGUE_BIAS)
                    good = near(s->aux[j * M + i], x) && near(d, gelu(x));
                else
                    good = near(d, row[r].blas ? x : x + s->at_c[j * M + i]);
            }
        check(good, row[r].name);
    }
}

static void check_sums(Setup *s)
{
    bool good = !run(s, RT_BLAS_EPILOGUE_SUM_A, s->bias, NULL, 0, 0);
    for (int i = 0; good && i < M; i++) {
        float sum = 0;
        for (int k = 0; k < K; k++)
            sum += s->at_a[k * M + i];
        good = near(sum, s->bias[i]);
    }
    check(good, "sums of a");
    good = !run(s, RT_BLAS_EPILOGUE_SUM_B, s->bias, NULL, 0, 0);
    for (int j = 0; good && j < N; j++) {
        float sum = 0;
        for (int k = 0; k < K; k++)
            sum += s->at_b[j * K + k];
        good = near(sum, s->bias[j]);
    }
    check(good, "sums of b");
}

static void check_refusals(Setup *s)
{
    check(run(s, 4096, s->bias, s->aux, M, 0), "an unknown epilogue");
    check(run(s, RT_BLAS_EPILOGUE_BIAS, NULL, NULL, 0, 0), "no bias");
    check(run(s, RT_BLAS_EPILOGUE_GELU_AUX, NULL, NULL, M, 0), "no aux");
    check(run(s, RT_BLAS_EPILOGUE_GELU_AUX, NULL, s->aux, M / 2, 0),
          "rows of aux that are too short");
    check(run(s, RT_BLAS_EPILOGUE_GELU_AUX, NULL, s->aux, M + 2, 0),
          "rows of aux at no multiple of 8");
    float host[M];
    check(run(s, RT_BLAS_EPILOGUE_BIAS, host, NULL, 0, 0),
          "a bias in the host's memory");
}

/* A capture cannot load kernels: it accepts only those that have run before. */
static bool is_captured(Setup *s, uint32_t epilogue)
{
    CuGraph graph;
    if (cuStreamBeginCapture(s->stream, RT_CU_CAPTURE_RELAXED))
        exit(3);
    BlasStatus status = queued(s, epilogue, s->bias, NULL, 0, 0);
    if (cuStreamEndCapture(s->stream, &graph) || cuGraphDestroy(graph))
        exit(3);
    return !status;
}

static void check_capture(Setup *s)
{
    check(!is_captured(s, RT_BLAS_EPILOGUE_BIAS), "a kernel that is not loaded");
    check(!run(s, RT_BLAS_EPILOGUE_BIAS, s->bias, NULL, 0, 0), "run eagerly");
    check(is_captured(s, RT_BLAS_EPILOGUE_BIAS), "then captured");
}

int main(void)
{
    Setup s = {0};
    open_all(&s);
    check_capture(&s);
    check_numbers(&s);
    check_sums(&s);
    check_refusals(&s);
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
