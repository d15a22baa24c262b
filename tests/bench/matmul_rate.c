/* matmul_rate.c: prints the machine's f32 matmul rate through oneDNN, in
 * Gflop/s: the best of several runs of a 2048 x 2048 x 2048 product.
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(dnnl_status_t status)
{
    if (status != dnnl_success) {
        fprintf(stderr, "matmul_rate: oneDNN failed (%d)\n", (int)status);
        exit(1);
    }
}

int main(void)
{
    enum { N = 2048, RUNS = 7 };
    const dnnl_dims_t dims = {N, N};
    dnnl_memory_desc_t md;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_matmul_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t matmul;
    must(dnnl_engine_create(&engine, dnnl_cpu, 0));
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    must(dnnl_memory_desc_init_by_tag(&md, 2, dims, dnnl_f32, dnnl_ab));
    must(dnnl_matmul_desc_init(&desc, &md, &md, NULL, &md));
    must(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL));
    must(dnnl_primitive_create(&matmul, pd));
    dnnl_memory_t m[3];
    for (int i = 0; i < 3; i++) {
        float *data = malloc(sizeof(float) * N * N);
        for (int k = 0; data && k < N * N; k++)
            data[k] = (float)(k % 7) * 0.25f;
        must(dnnl_memory_create(&m[i], &md, engine, data));
    }
    dnnl_exec_arg_t args[] = {{DNNL_ARG_SRC, m[0]},
                              {DNNL_ARG_WEIGHTS, m[1]},
                              {DNNL_ARG_DST, m[2]}};
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        double start = now();
        must(dnnl_primitive_execute(matmul, stream, 3, args));
        must(dnnl_stream_wait(stream));
        double t = now() - start;
        best = t < best ? t : best;
    }
    printf("%.1f\n", 2.0 * N * N * N / best * 1e-9);
    return 0;
}
