/* device_test.c: compares hand-written device code, and the functions that
 * launch it, with the CPU's functions.
 *
 *   device_test KERNELS.so [CASE]   only that case of attention
 *
 * The test also counts the work of attention with a window (device_attention.h), and
 * checks that each barrier is needed: at the end it repeats the
 * recorded launches without the barrier and expects a race. Their operands are
 * therefore not freed.
 */
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/type.h"
#include "cuda/conv/rt_cuda_conv.h"
#include "cuda/core/rt_block_memory.h"
#include "cuda/core/rt_cuda_launch.h"
#include "cuda/core/rt_instances.h"
#include "device_attention.h"
#include "device_cases.h"
#include "device_experts.h"
#include "engine.h"
#include "rt.h"
#include "test_numbers.h"

/* runtime/cuda is compiled with -include device_names.h. */
__typeof__(parc_copy) cuda_copy;
__typeof__(parc_copy_rows) cuda_copy_rows;
__typeof__(parc_local_slice) cuda_local_slice;
__typeof__(parc_mask_to_partial) cuda_mask_to_partial;
__typeof__(parc_split_key) cuda_split_key;
__typeof__(parc_embedding) cuda_embedding;
__typeof__(parc_embedding_grad) cuda_embedding_grad;
__typeof__(parc_topk) cuda_topk;
__typeof__(parc_topk_grad) cuda_topk_grad;

enum { MOST_LAUNCHES = 2000 };

static struct {
    const StandinModule *module;
    int passed, failed, errors;
    int64_t block_memory; /* shared memory that a block may have, in bytes */
    int nlaunches; /* recorded launches, which are repeated at the end */
    StandinLaunch launch[MOST_LAUNCHES];
} test;

static void check(bool fine, const char *what)
{
    test.passed += fine;
    test.failed += !fine;
    if (!fine)
        printf("FAILED %s\n", what);
}

static const Device device = {check, &test.errors, &test.block_memory};

int64_t rt_cuda_block_memory(const ParcRt *rt)
{
    (void)rt;
    return test.block_memory;
}

void rt_cuda_launch(ParcRt *rt, const char *symbol, int64_t grid, int block,
                    int64_t shared_bytes, int n, int64_t *argument)
{
    StandinLaunch l = {.module = test.module,
                       .grid = grid,
                       .block = block,
                       .shared_bytes = shared_bytes};
    (void)rt;
    for (int i = 0; i < test.module->nkernels; i++) {
        if (strcmp(test.module->kernel[i].name, symbol) == 0)
            l.kernel = &test.module->kernel[i];
    }
    if (!l.kernel || l.kernel->nargs != n || block > l.kernel->threads ||
        shared_bytes > test.block_memory) {
        printf("no kernel %s of %d arguments and %d bytes\n", symbol, n,
               (int)shared_bytes);
        exit(1);
    }
    memcpy(l.arg, argument, sizeof *argument * (size_t)n);
    test.errors += standin_launch(&l);
    if (test.nlaunches < MOST_LAUNCHES)
        test.launch[test.nlaunches++] = l;
}

/* ---- numbers ------------------------------------------------------------- */

static bool same(const void *a, const void *b, int64_t bytes)
{
    return memcmp(a, b, (size_t)bytes) == 0;
}

/* ---- tables -------------------------------------------------------------- */

static void embedding(const EmbeddingCase *c)
{
    ParcType type = (ParcType)c->type;
    ParcRt rt = {.threads = 1};
    int64_t *base = standin_alloc(sizeof *base);
    int32_t *ids = standin_alloc(c->n * (int64_t)sizeof *ids);
    void *table = test_numbers(type, c->rows * c->width, 5);
    void *dy = test_numbers(type, c->n * c->width, 6);
    void *is = test_numbers(type, c->n * c->width, 0);
    void *should = test_numbers(type, c->n * c->width, 0);
    float *grad = test_numbers(PARC_F32, c->rows * c->width, 0);
    float *expected = test_numbers(PARC_F32, c->rows * c->width, 0);
    char what[100];
    *base = c->rows / 2;
    const int64_t *at = c->base ? base : NULL;
    for (int64_t i = 0; i < c->n; i++)
        ids[i] =
            (int32_t)((uint32_t)(i * 2654435761u + 7) % (uint64_t)c->below);
    snprintf(what, sizeof what, "embedding %d", (int)(c - embedding_cases));
    parc_embedding(&rt, type, should, table, ids, c->n, c->rows, c->width, at);
    parc_embedding_grad(&rt, type, expected, dy, ids, c->n, c->rows, c->width,
                        at);
    test.errors = 0;
    cuda_embedding(&rt, type, is, table, ids, c->n, c->rows, c->width, at);
    cuda_embedding_grad(&rt, type, grad, dy, ids, c->n, c->rows, c->width, at);
    check(test.errors == 0 &&
              same(is, should, c->n * c->width * rt_type_size(type)),
          what);
    /* Gradients are added in the order of positions, so the bits are equal. */
    check(same(grad, expected, c->rows * c->width * 4), what);
}

static void topk(const TopkCase *c)
{
    ParcType type = (ParcType)c->type;
    ParcRt rt = {.threads = 1};
    int64_t all = c->rows * c->width, chosen = c->rows * c->n;
    float *wide = test_numbers(PARC_F32, all, 11);
    void *x = test_numbers(type, all, 0), *values = test_numbers(type, chosen, 0);
    void *expected = test_numbers(type, chosen, 0);
    int32_t *ids = standin_alloc(chosen * 4), *expected_ids = standin_alloc(chosen * 4);
    void *dx = test_numbers(type, all, 0), *expected_dx = test_numbers(type, all, 0);
    void *own = standin_alloc(parc_topk_scratch(c->width, c->n, 1));
    void *scratch = standin_alloc(rt_topk_bytes(c->rows, c->n) + 1);
    char what[50];
    for (int64_t i = 0; i < all; i++) {
        if (c->distinct)
            wide[i] = (float)(i * 31 % c->distinct);
        if (i % 50 == 49)
            wide[i] = NAN;
    }
    rt_narrow(type, x, wide, all);
    snprintf(what, sizeof what, "topk %d", (int)(c - topk_cases));
    test.errors = 0;
    parc_topk(&rt, type, expected, expected_ids, x, c->rows, c->width, c->n, c->largest, own);
    cuda_topk(&rt, type, values, ids, x, c->rows, c->width, c->n, c->largest, scratch);
    check(test.errors == 0 && same(values, expected, chosen * rt_type_size(type)) &&
              same(ids, expected_ids, chosen * 4), what);
    parc_topk_grad(&rt, type, expected_dx, values, ids, c->rows, c->width, c->n);
    cuda_topk_grad(&rt, type, dx, values, ids, c->rows, c->width, c->n);
    check(test.errors == 0 && same(dx, expected_dx, all * rt_type_size(type)), what);
}

/* ---- convolutions --------------------------------------------------------- */

static void conv(const ConvCase *c, ParcConvResult computes)
{
    ParcRt cpu = {.threads = 1}, cuda = {.threads = 1};
    int64_t result = (c->image + 2 * c->padding - c->dilation * (c->kernel - 1) - 1) / c->stride + 1;
    ParcConvSpec s = {.name = "case", .computes = computes, .n = c->n, .g = c->g, .c = c->c,
                      .k = c->k, .type = (ParcType)c->type, .out = (ParcType)c->out};
    for (int d = 0; d < 2; d++) {
        s.image[d] = c->image;
        s.kernel[d] = c->kernel;
        s.result[d] = result;
        s.stride[d] = c->stride;
        s.padding[d] = c->padding;
        s.dilation[d] = c->dilation;
    }
    int64_t n[] = {[PARC_CONV_Y] = c->n * c->g * c->k * result * result,
                   [PARC_CONV_X] = c->n * c->g * c->c * c->image * c->image,
                   [PARC_CONV_WEIGHT] = c->g * c->k * c->c * c->kernel * c->kernel};
    int a = computes == PARC_CONV_Y ? PARC_CONV_X : PARC_CONV_Y;
    int b = computes == PARC_CONV_WEIGHT ? PARC_CONV_X : PARC_CONV_WEIGHT;
    void *first = test_numbers(s.type, n[a], 5), *second = test_numbers(s.type, n[b], 6);
    void *is = test_numbers(s.out, n[computes], 0), *should = test_numbers(s.out, n[computes], 0);
    char what[50];
    snprintf(what, sizeof what, "convolution %d, result %d", (int)(c - conv_cases), computes);
    s.scratch_bytes = parc_conv_scratch(&s, 1, PARC_CPU_NATIVE);
    cpu.arena = standin_alloc(s.scratch_bytes + 1);
    test.errors = 0;
    parc_conv(&cpu, parc_conv_new(&cpu, &s), first, second, should);
    rt_conv_own(&cuda, &s, first, second, is);
    check(test.errors == 0 && test_near(s.out, is, should, n[computes]), what);
}

/* ---- copies -------------------------------------------------------------- */

typedef struct CopyCase {
    ParcType type;
    int ndim;
    int64_t dim[8], stride[8];
} CopyCase;

static const CopyCase copy_cases[] = {
    {PARC_F32, 2, {3, 4}, {4, 1}},
    {PARC_F32, 2, {35, 70}, {1, 35}},
    {PARC_BF16, 4, {2, 3, 5, 8}, {120, 8, 24, 1}},
    {PARC_BF16, 4, {2, 40, 3, 33}, {3960, 1, 1320, 40}},
    {PARC_I64, 3, {3, 5, 7}, {35, 1, 5}},
    {PARC_F16, 3, {4, 6, 2}, {1, 8, 4}},
    {PARC_I32, 3, {1, 6, 4}, {0, 10, 1}},
    {PARC_F32, 8, {2, 2, 2, 2, 2, 2, 2, 2}, {1, 4, 2, 16, 8, 64, 32, 128}},
    {PARC_F32, 3, {0, 5, 7}, {35, 1, 5}},
};

static void copy(const CopyCase *c)
{
    ParcRt rt = {.threads = 1};
    int64_t n = 1, extent = 1, size = rt_type_size(c->type);
    for (int d = 0; d < c->ndim; d++) {
        n *= c->dim[d];
        extent += (c->dim[d] - 1) * c->stride[d];
    }
    int64_t most = n > extent ? n : extent;
    char *from = (char *)test_numbers(PARC_F32, most * 2 + 1, 7), what[50];
    char *is = standin_alloc(most * size + 1);
    char *should = standin_alloc(most * size + 1);
    snprintf(what, sizeof what, "copy %d", (int)(c - copy_cases));
    test.errors = 0;
    parc_copy(&rt, c->type, should, from, c->ndim, c->dim, c->stride);
    cuda_copy(&rt, c->type, is, from, c->ndim, c->dim, c->stride);
    check(test.errors == 0 && same(is, should, n * size), what);
}

static void rows(ParcType type, int64_t to_row, int64_t from_row, int64_t n,
                 int64_t width)
{
    ParcRt rt = {.threads = 1};
    int64_t size = rt_type_size(type), bytes = n * to_row * size;
    char *from = test_numbers(type, n * from_row, 8);
    char *is = standin_alloc(bytes), *should = standin_alloc(bytes);
    char what[100];
    snprintf(what, sizeof what, "rows of %d: %d from %d", (int)width,
             (int)to_row, (int)from_row);
    test.errors = 0;
    parc_copy_rows(&rt, type, should, to_row, from, from_row, n, width);
    cuda_copy_rows(&rt, type, is, to_row, from, from_row, n, width);
    check(test.errors == 0 && same(is, should, bytes), what);
}

/* A rank's part of rows that three ranks share. */
static void parts(int64_t outer, int64_t inner, int64_t valid)
{
    enum { RANKS = 3 };
    int64_t row = valid ? valid : RANKS * inner, most = outer * RANKS * inner;
    char what[100];
    for (int i = 0; i < RANKS; i++) {
        ParcRt rt = {.threads = 1};
        rt.group[1] = (RtGroup){.n = RANKS, .index = i};
        char *is = test_numbers(PARC_F32, 2 * most, 9);
        char *should = test_numbers(PARC_F32, 2 * most, 9);
        ParcPart p = {.src = 0,
                      .dst = most * 4,
                      .outer = outer,
                      .inner = inner,
                      .valid = valid};
        snprintf(what, sizeof what, "part %d of %d x %d, valid %d", i,
                 (int)outer, (int)row, (int)valid);
        test.errors = 0;
        rt.arena = should;
        parc_local_slice(&rt, 1, &p);
        rt.arena = is;
        cuda_local_slice(&rt, 1, &p);
        check(test.errors == 0 && same(is, should, 8 * most), what);
        rt.arena = should;
        parc_mask_to_partial(&rt, 1, 0, &p);
        rt.arena = is;
        cuda_mask_to_partial(&rt, 1, 0, &p);
        check(test.errors == 0 && same(is, should, 8 * most), what);
    }
}

/* ---- the rest ------------------------------------------------------------ */

static void keys(void)
{
    ParcRt rt = {.threads = 1};
    int64_t *from = standin_alloc(8), is[5], *should = is;
    int64_t *to = standin_alloc(5 * 8);
    *from = 0x1fedcba987654;
    test.errors = 0;
    parc_split_key(&rt, should, from, 2, 3, 5);
    cuda_split_key(&rt, to, from, 2, 3, 5);
    check(test.errors == 0 && same(to, should, sizeof is), "split_key");
}

static void small(void)
{
    for (int i = 0; i < EMBEDDING_CASES; i++)
        embedding(&embedding_cases[i]);
    for (int i = 0; i < TOPK_CASES; i++)
        topk(&topk_cases[i]);
    for (int i = 0; i < 3 * CONV_CASES; i++)
        conv(&conv_cases[i / 3], (ParcConvResult)(i % 3));
    test.block_memory = RT_SHARED_MIN;
    for (int i = 0; i < 2 * EXPERTS_CASES; i++)
        device_experts(&device, i);
    for (size_t i = 0; i < sizeof copy_cases / sizeof *copy_cases; i++)
        copy(&copy_cases[i]);
    rows(PARC_F32, 8, 12, 5, 8);
    rows(PARC_BF16, 9, 9, 5, 9);
    rows(PARC_BF16, 7, 300, 300, 6);
    rows(PARC_F32, 1, 3, 70, 1);
    rows(PARC_I64, 3, 5, 1, 3);
    parts(1, 8, 0);
    parts(5, 4, 0);
    parts(2, 5, 11);
    parts(1, 4, 3);
    keys();
}

/* ---- barriers ------------------------------------------------------------ */

static void hear_nothing(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
}

/* Every barrier is needed: without it some launch has a race. */
static void barriers(void)
{
    const StandinSite *site;
    int n = standin_sites(&site);
    standin_hear(hear_nothing, NULL);
    for (int i = 0; i < n; i++) {
        bool raced = false;
        char text[200];
        standin_skip_site(i);
        for (int j = 0; j < test.nlaunches && !raced; j++)
            raced = test.launch[j].kernel == site[i].kernel &&
                    standin_launch(&test.launch[j]) > 0;
        standin_skip_site(-1);
        snprintf(text, sizeof text,
                 "%s: nothing needs the %s barrier at 0x%llx",
                 site[i].kernel->name, site[i].warp ? "warp's" : "block's",
                 (unsigned long long)site[i].offset);
        check(raced, text);
    }
}

int main(int argc, char **argv)
{
    void *so = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    test.module = so ? dlsym(so, "standin_module") : NULL;
    if (!test.module) {
        printf("no kernels: %s\n", dlerror());
        return 1;
    }
    omp_set_num_threads(1);
    int only = argc > 2 ? atoi(argv[2]) : -1;
    if (only < 0)
        small();
    device_attention(&device, only);
    barriers();
    if (only < 0)
        device_windows(&device);
    printf("%d passed, %d failed\n", test.passed, test.failed);
    return test.failed != 0;
}
