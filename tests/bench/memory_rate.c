/* memory_rate.c: prints the machine's memory rate in GB/s with all threads:
 * the best of several passes that read and write an array larger than any
 * cache. The passes work in place, since a copy would also fetch the lines that
 * it overwrites, and those bytes would not be counted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void)
{
    enum { N = 1 << 27, RUNS = 9 };
    size_t bytes = sizeof(float) * N;
    float *x = aligned_alloc(1 << 21, bytes);
    double best = 1e9;
    if (!x) {
        fprintf(stderr, "memory_rate: out of memory\n");
        return 1;
    }
    madvise(x, bytes, MADV_HUGEPAGE);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < N; i++)
        x[i] = 1;
    for (int run = 0; run < RUNS; run++) {
        double start = now();
#pragma omp parallel for simd schedule(static)
        for (int i = 0; i < N; i++)
            x[i] *= 0.5f;
        double t = now() - start;
        best = t < best ? t : best;
    }
    printf("%.1f\n", 2.0 * (double)bytes / best * 1e-9);
    free(x);
    return 0;
}
