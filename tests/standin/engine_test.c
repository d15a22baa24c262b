/* engine_test.c: checks that the engine finds all faults, and no others.
 *
 *   engine_test KERNELS.so    engine_kernels.cu, compiled with its checks
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "parc_math.h"

typedef struct Heard {
    int n;
    char first[1024];
} Heard;

typedef struct Test {
    const StandinModule *module;
    Heard heard;
    int passed, failed;
} Test;

static void hear(void *ctx, const char *text)
{
    Heard *h = ctx;
    if (h->n++ == 0)
        snprintf(h->first, sizeof h->first, "%s", text);
}

static void check(Test *t, bool fine, const char *what)
{
    t->passed += fine;
    t->failed += !fine;
    if (!fine)
        printf("FAILED %s: heard %d: %s\n", what, t->heard.n,
               t->heard.n ? t->heard.first : "nothing");
}

/* Launches a kernel; returns the number of errors. */
static int launch(Test *t, const char *name, int64_t grid, int block,
                  int64_t shared, int nargs, const int64_t *arg)
{
    StandinLaunch l = {.module = t->module, .grid = grid, .block = block,
                       .shared_bytes = shared};
    t->heard = (Heard){0};
    for (int i = 0; i < t->module->nkernels; i++)
        if (strcmp(t->module->kernel[i].name, name) == 0)
            l.kernel = &t->module->kernel[i];
    if (!l.kernel || l.kernel->nargs != nargs) {
        printf("no kernel %s of %d arguments\n", name, nargs);
        exit(1);
    }
    memcpy(l.arg, arg, sizeof *arg * (size_t)nargs);
    return standin_launch(&l);
}

#define ARGS(...)                                                              \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
        (int64_t[]) { __VA_ARGS__ }
#define P(p) ((int64_t)(uintptr_t)(p))

static float *floats(int64_t n)
{
    float *x = standin_alloc(n * 4);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)(i * 37 % 101) / 16.0f;
    return x;
}

static void plain_kernels(Test *t)
{
    enum { N = 1000, ROWS = 9, WIDTH = 300 };
    float *x = floats(ROWS * WIDTH), *y = floats(N);
    int errors = launch(t, "scale", 4, 256, 0, ARGS(P(y), P(x), N));
    bool fine = errors == 0;
    for (int i = 0; i < N; i++)
        fine = fine && y[i] == 2.0f * x[i];
    check(t, fine, "scale");
    errors = launch(t, "scale_too_far", 4, 256, 0, ARGS(P(y), P(x), N));
    check(t, errors == 1 && strstr(t->heard.first, "not the kernel's") &&
              strstr(t->heard.first, "block 3, thread 232 writes 4 bytes"),
          "an access out of bounds");
    errors = launch(t, "row_sum", ROWS, 256, 0, ARGS(P(y), P(x), WIDTH));
    fine = errors == 0;
    for (int r = 0; r < ROWS; r++) {
        double sum = 0.0;
        for (int i = 0; i < WIDTH; i++)
            sum += (double)x[r * WIDTH + i];
        fine = fine && sum - (double)y[r] < 1e-3 && (double)y[r] - sum < 1e-3;
    }
    check(t, fine, "row_sum");
    check(t, standin_free(x), "free");
    errors = launch(t, "row_sum", ROWS, 256, 0, ARGS(P(y), P(x), WIDTH));
    check(t, errors == 1, "an access to memory that was freed");
    check(t, !standin_free(y + 1), "half an allocation is not freed");
    int64_t *z = standin_alloc(8);
    errors = launch(t, "many_arguments", 1, 64, 0,
                    ARGS(P(z), 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14,
                         15, 16, 17, 18, 19, 20, 21, 22, 23));
    check(t, errors == 0 && *z == 253 + 2300, "24 arguments");
}

typedef struct Case {
    const char *kernel;
    int grid, block, shared;
    bool fault;
    const char *says;
} Case;

/* Kernels with one array and, for some, a second one or a number. */
static const Case cases[] = {
    {"two_sums", 2, 256, 0, false, ""},
    {"two_sums_racing", 2, 256, 0, true, "no barrier between"},
    {"reverse_right", 1, 256, 1024, false, ""},
    {"reverse_early", 1, 256, 1024, true, "shared memory +"},
    {"reverse_again", 1, 256, 1024, true, "no barrier between"},
    {"warp_reverse", 1, 256, 0, false, ""},
    {"warp_reverse_racing", 1, 256, 0, true, "static shared memory"},
    {"warp_reverse_other_warp", 1, 256, 0, true, "static shared memory"},
    {"halves", 1, 256, 0, false, ""},
    {"blocks_collide", 4, 256, 0, true, "another block wrote"},
    {"blocks_read_what_one_writes", 4, 256, 0, true, "another block reads"},
    {"blocks_read_what_one_writes", 1, 256, 0, true, "no barrier between"},
    {"shared_unset", 1, 256, 0, true, "thread 77 reads"},
    {"half_a_barrier", 1, 256, 0, true, "hangs: thread 0 waits at the block"},
    {"lanes_disagree", 1, 256, 0, true, "other lanes of its warp at"},
    {"odd_vector", 1, 256, 0, true, "not aligned"},
    {"writes_constants", 1, 256, 0, false, ""},
    {"pipeline_right", 1, 128, 128 * 48, false, ""},
    {"pipeline_too_few_slots", 1, 128, 128 * 48, true, "shared memory +"},
    {"pipeline_not_landed", 1, 128, 128 * 48, true, "has not landed"},
};

static void faulty_kernels(Test *t)
{
    float *x = floats(1 << 14), *y = floats(1 << 14);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const Case *c = &cases[i];
        bool number = strncmp(c->kernel, "reverse", 7) == 0;
        int64_t arg[3] = {P(x), number ? 3 : P(y), 5};
        int nargs = 0;
        for (int k = 0; k < t->module->nkernels; k++)
            if (strcmp(t->module->kernel[k].name, c->kernel) == 0)
                nargs = t->module->kernel[k].nargs;
        int errors = launch(t, c->kernel, c->grid, c->block, c->shared, nargs,
                            arg);
        check(t, c->fault ? errors > 0 && strstr(t->heard.first, c->says)
                          : errors == 0, c->kernel);
    }
}

static void together(Test *t)
{
    enum { BLOCK = 96 };
    int32_t *y = standin_alloc(4 * 4 * BLOCK);
    bool fine = launch(t, "shuffles", 1, BLOCK, 0, ARGS(P(y))) == 0;
    for (int i = 0; i < BLOCK; i++) {
        int first = i / 32 * 32;
        fine = fine && y[4 * i] == (i ^ 5) &&
               y[4 * i + 1] == first + i / 2 % 32 &&
               y[4 * i + 2] == first + 31 && y[4 * i + 3] == 31;
    }
    check(t, fine, "shuffles");
}

static void products(Test *t)
{
    uint16_t *a = standin_alloc(512), *b = standin_alloc(256);
    float *d = floats(128), expect[128];
    for (int f16 = 0; f16 < 2; f16++) {
        for (int i = 0; i < 256; i++) {
            float x = (float)(i * 29 % 64 - 31), y = (float)(i * 13 % 32 - 9);
            a[i] = f16 ? parc_to_f16(x) : parc_to_bf16(x);
            b[i % 128] = f16 ? parc_to_f16(y) : parc_to_bf16(y);
        }
        for (int i = 0; i < 128; i++) {
            expect[i] = d[i];
            for (int k = 0; k < 16; k++) {
                uint16_t x = a[i / 8 * 16 + k], y = b[k * 8 + i % 8];
                expect[i] += f16 ? parc_from_f16(x) * parc_from_f16(y)
                                 : parc_from_bf16(x) * parc_from_bf16(y);
            }
        }
        bool fine = launch(t, f16 ? "product_f16" : "product_bf16", 1, 32, 0,
                           ARGS(P(d), P(a), P(b))) == 0;
        for (int i = 0; i < 128; i++)
            fine = fine && parc_abs(d[i] - expect[i]) < 1e-3f;
        check(t, fine, f16 ? "mma_f16" : "mma_bf16");
    }
}

/* two_sums and reverse_right need each of their barriers. */
static void skipped_barriers(Test *t)
{
    const StandinSite *site;
    float *x = floats(1 << 10), *y = floats(1 << 10);
    int n = standin_sites(&site), tried = 0;
    for (int i = 0; i < n; i++) {
        bool sums = strcmp(site[i].kernel->name, "two_sums") == 0;
        if (!sums && strcmp(site[i].kernel->name, "reverse_right") != 0)
            continue;
        standin_skip_site(i);
        int errors = sums ? launch(t, "two_sums", 2, 256, 0, ARGS(P(y), P(x)))
                          : launch(t, "reverse_right", 1, 256, 1024,
                                   ARGS(P(x), 3));
        standin_skip_site(-1);
        tried++;
        check(t, errors > 0, site[i].kernel->name);
    }
    check(t, tried == 5, "five barriers in two kernels");
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Prints the engine's speed; no speed is required. */
static void rates(Test *t)
{
    enum { N = 1 << 20 };
    float *x = floats(N), *y = floats(N);
    launch(t, "scale", N / 256, 256, 0, ARGS(P(y), P(x), N));
    double begin = seconds();
    launch(t, "scale", N / 256, 256, 0, ARGS(P(y), P(x), N));
    double end = seconds();
    printf("scale: %.1f ns an element\n", (end - begin) * 1e9 / N);
    begin = seconds();
    launch(t, "row_sum", N / 1024, 256, 0, ARGS(P(y), P(x), 1024));
    end = seconds();
    printf("row_sum: %.1f us a row of 1024 by 256 threads\n",
           (end - begin) * 1e6 / (N / 1024));
}

int main(int argc, char **argv)
{
    Test t = {0};
    void *so = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!so) {
        fprintf(stderr, "usage: engine_test KERNELS.so: %s\n", dlerror());
        return 2;
    }
    t.module = dlsym(so, "standin_module");
    standin_hear(hear, &t.heard);
    plain_kernels(&t);
    faulty_kernels(&t);
    together(&t);
    products(&t);
    skipped_barriers(&t);
    rates(&t);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed > 0;
}
