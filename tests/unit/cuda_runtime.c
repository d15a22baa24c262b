/* cuda_runtime.c: tests decisions of the CUDA runtime that need no device: the
 * image for a GPU, the grid of a launch, the GPU's peak rate, the contents of
 * the cache of matmul choices, the workspace of attention.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "runtime/cuda/attention/rt_attention_workspace.h"
#include "runtime/cuda/core/rt_cuda_launch.h"
#include "runtime/cuda/matmul/rt_cuda_matmul.h"

/* ---- images -------------------------------------------------------------- */

static const struct {
    const char *images; /* separated by spaces */
    int major, minor;
    const char *best; /* NULL: none runs */
} image_rows[] = {
    {"sm_80 sm_90a compute_90", 9, 0, "sm_90a"},
    {"sm_90 sm_90a", 9, 0, "sm_90a"},
    {"sm_80 sm_90a compute_90", 8, 0, "sm_80"},
    {"sm_80 sm_90a compute_90", 8, 6, "sm_80"}, /* same major number */
    {"sm_80 sm_86", 8, 9, "sm_86"},
    {"sm_80 sm_89", 8, 6, "sm_80"},
    {"sm_80 sm_90a compute_90", 10, 0, "compute_90"},
    {"sm_80 compute_80 compute_90", 12, 0, "compute_90"},
    {"sm_90a compute_90a", 10, 0, NULL}, /* for 9.0 alone */
    {"sm_90a", 9, 2, NULL},
    {"sm_90a compute_90", 8, 0, NULL}, /* newer than the device */
    {"sm_80 compute_80", 8, 9, "sm_80"}, /* machine code before PTX */
    {"sm_100f", 10, 3, "sm_100f"},
    {"sm_100f", 12, 0, NULL},
    {"sm_103 sm_100f", 10, 3, "sm_103"},
    {"compute_100f compute_90", 12, 0, "compute_90"},
    {"", 9, 0, NULL},
    {"sm_ sm_x gfx90a", 9, 0, NULL},
};

static void check_images(Check *c)
{
    for (size_t i = 0; i < sizeof image_rows / sizeof *image_rows; i++) {
        char text[128];
        ParcImage image[8];
        int n = 0;
        snprintf(text, sizeof text, "%s", image_rows[i].images);
        for (char *s = strtok(text, " "); s; s = strtok(NULL, " "))
            image[n++] = (ParcImage){.arch = s};
        int best = rt_cuda_best_image(image, n, image_rows[i].major,
                                      image_rows[i].minor);
        CHECK_TEXT(c, best < 0 ? NULL : image[best].arch, image_rows[i].best);
    }
}

/* ---- grids --------------------------------------------------------------- */

static void check_grids(Check *c)
{
    static const int64_t few = INT32_MAX;
    const int64_t blocks[] = {1, 1000, few, few + 1, 48592008000, few * 65535};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        unsigned columns = 0, rows = 0;
        CHECK(c, rt_cuda_grid(blocks[i], &columns, &rows));
        int64_t more = (int64_t)columns * rows - blocks[i];
        CHECK(c, more >= 0 && more < rows && columns <= INT32_MAX);
        CHECK(c, (rows == 1) == (blocks[i] <= few) && rows <= 65535);
        CHECK(c, !rt_cuda_grid(-blocks[i], &columns, &rows));
    }
    unsigned columns, rows;
    CHECK(c, !rt_cuda_grid(0, &columns, &rows));
    CHECK(c, !rt_cuda_grid(few * 65535 + 1, &columns, &rows));
}

/* ---- rates --------------------------------------------------------------- */

static const struct {
    const char *device;
    int major, minor;
    CudaPrecision precision;
    double tera;
} rate_rows[] = {
    {"NVIDIA H200", 9, 0, CUDA_HALF, 989},
    {"NVIDIA H100 80GB HBM3", 9, 0, CUDA_HALF, 989},
    {"NVIDIA H100 80GB HBM3", 9, 0, CUDA_SINGLE, 67},
    {"NVIDIA H100 PCIe", 9, 0, CUDA_HALF, 756},
    {"NVIDIA A100-SXM4-80GB", 8, 0, CUDA_HALF, 312},
    {"NVIDIA A100-SXM4-80GB", 8, 0, CUDA_TF32, 156},
    {"NVIDIA A10G", 8, 6, CUDA_HALF, 70},
    {"NVIDIA B200", 10, 0, CUDA_HALF, 2250},
    {"NVIDIA unheard-of", 9, 0, CUDA_HALF, 989}, /* by its architecture */
    {"NVIDIA unheard-of", 8, 6, CUDA_HALF, 0},
};

static void check_rates(Check *c)
{
    for (size_t i = 0; i < sizeof rate_rows / sizeof *rate_rows; i++) {
        double is = rt_cuda_peak_flops(rate_rows[i].device, rate_rows[i].major,
                                       rate_rows[i].minor,
                                       rate_rows[i].precision) / 1e12;
        CHECK(c, is > rate_rows[i].tera - 1e-6 && is < rate_rows[i].tera + 1e-6);
    }
}

/* ---- the cache ----------------------------------------------------------- */

static BlasAlgorithm algorithm(uint64_t first)
{
    return (BlasAlgorithm){{first, 1, 2, 3, 4, 5, 6, ~(uint64_t)0}};
}

static bool holds(const CudaCache *cache, const char *key, uint64_t first)
{
    BlasAlgorithm is, should = algorithm(first);
    return rt_cuda_cache_find(cache, key, &is) &&
           memcmp(&is, &should, sizeof is) == 0;
}

static void damage(const char *path, long at)
{
    FILE *f = fopen(path, "r+");
    fseek(f, at, SEEK_SET);
    fputc('?', f);
    fclose(f);
}

static const char *const key = "bf16 bf16 f32 batch 1 m 64 n 64 k 64";

/* A later run finds the entries of this device and library. */
static void check_kept(Check *c, const char *path)
{
    CudaCache *cache = rt_cuda_cache_open("NVIDIA H200", 130000);
    BlasAlgorithm a = algorithm(17), b = algorithm(18);
    CHECK(c, !rt_cuda_cache_find(cache, key, &a));
    rt_cuda_cache_add(cache, "another", &b);
    rt_cuda_cache_add(cache, key, &b);
    rt_cuda_cache_add(cache, key, &a);
    CHECK(c, holds(cache, key, 17) && holds(cache, "another", 18));
    rt_cuda_cache_close(cache);
    CHECK(c, access(path, R_OK) == 0);
    cache = rt_cuda_cache_open("NVIDIA H200", 130000);
    CHECK(c, holds(cache, key, 17) && holds(cache, "another", 18));
    rt_cuda_cache_close(cache);
    cache = rt_cuda_cache_open("NVIDIA H200", 130100); /* another library */
    CHECK(c, !rt_cuda_cache_find(cache, key, &b));
    rt_cuda_cache_close(cache);
}

/* A file with any damage is ignored as a whole. */
static void check_damaged(Check *c, const char *path)
{
    struct stat st;
    BlasAlgorithm a = algorithm(17), b = algorithm(18);
    CudaCache *cache;
    CHECK(c, stat(path, &st) == 0 && st.st_size > 100);
    for (long at = 0; at < st.st_size; at += 41) {
        BlasAlgorithm none;
        damage(path, at);
        cache = rt_cuda_cache_open("NVIDIA H200", 130000);
        CHECK(c, !rt_cuda_cache_find(cache, key, &none) &&
                     !rt_cuda_cache_find(cache, "another", &none));
        rt_cuda_cache_add(cache, "another", &b);
        rt_cuda_cache_add(cache, key, &a);
        rt_cuda_cache_close(cache);
    }
    CHECK(c, truncate(path, st.st_size - 1) == 0);
    cache = rt_cuda_cache_open("NVIDIA H200", 130000);
    CHECK(c, !rt_cuda_cache_find(cache, key, &b));
    rt_cuda_cache_close(cache);
}

/* The directory's parent is a file: the run continues without a cache. */
static void check_nowhere(Check *c, const char *path)
{
    BlasAlgorithm a = algorithm(17);
    setenv("PARC_CACHE", path, 1);
    CudaCache *cache = rt_cuda_cache_open("NVIDIA H200", 130000);
    rt_cuda_cache_add(cache, key, &a);
    CHECK(c, holds(cache, key, 17));
    rt_cuda_cache_close(cache);
}

static void check_cache(Check *c)
{
    char root[] = "/tmp/parc-cache-XXXXXX", directory[64], path[128];
    if (!mkdtemp(root) || !freopen("/dev/null", "w", stderr)) {
        perror(root);
        c->failed++;
        return;
    }
    snprintf(directory, sizeof directory, "%s/not there/yet", root);
    snprintf(path, sizeof path, "%s/matmul-NVIDIA-H200-130000.txt", directory);
    setenv("PARC_CACHE", directory, 1);
    check_kept(c, path);
    check_damaged(c, path);
    check_nowhere(c, path);
    unlink(path);
    rmdir(directory);
    *strrchr(directory, '/') = 0;
    rmdir(directory);
    CHECK(c, rmdir(root) == 0);
}

/* ---- workspace of attention ---------------------------------------------- */

/* Gradients of bf16 attention of [b, s, kv * g, d], and the expected pieces. A
 * piece with b = 0: one group of heads takes more than the limit. */
static const struct {
    int64_t b, s, kv, g, d;
    bool deterministic;
    AttentionPiece piece;
} piece_rows[] = {
    {4, 4096, 8, 4, 64, true, {1, 4}}, /* Llama 1B: 132 MiB for a KV head */
    {4, 4096, 8, 4, 64, false, {4, 8}}, /* 12 MiB: the whole call */
    {4, 2048, 8, 4, 64, true, {2, 8}},
    {32, 1024, 12, 1, 64, true, {16, 12}}, /* GPT-2 */
    {32, 1024, 12, 1, 64, false, {32, 12}},
    {8, 128, 2, 2, 64, true, {8, 2}},
    {2, 8192, 8, 4, 128, true, {1, 1}}, /* 528 MiB */
    {2, 8192, 8, 4, 128, false, {1, 8}},
    {1, 16384, 8, 4, 128, true, {1, 1}}, /* more than 576 MiB, below 4 GiB */
    {1, 32768, 8, 4, 128, true, {0, 0}},
    {1, 32768, 8, 4, 128, false, {1, 2}},
};

static void check_workspace(Check *c)
{
    for (size_t i = 0; i < sizeof piece_rows / sizeof *piece_rows; i++) {
        ParcAttention a = {.b = piece_rows[i].b,
                           .s = piece_rows[i].s,
                           .t = piece_rows[i].s,
                           .kv = piece_rows[i].kv,
                           .g = piece_rows[i].g,
                           .d = piece_rows[i].d,
                           .e = piece_rows[i].d,
                           .causal = true,
                           .deterministic = piece_rows[i].deterministic,
                           .type = PARC_BF16};
        int64_t workspace_bytes =
            rt_attention_bytes(&a, true) -
            rt_cuda_aligned(rt_attention_own_bytes(&a, true));
        AttentionPiece p = rt_attention_piece(&a, workspace_bytes);
        int64_t one = rt_attention_piece_bytes(&a, 1);
        CHECK(c,
              p.b == piece_rows[i].piece.b && p.kv == piece_rows[i].piece.kv);
        CHECK(c, workspace_bytes <= ATTENTION_LIMIT_WORKSPACE);
        CHECK(c, workspace_bytes <= ATTENTION_MOST_WORKSPACE ||
                     workspace_bytes == one);
        CHECK(c, (workspace_bytes > 0) == (one <= ATTENTION_LIMIT_WORKSPACE));
        /* A piece is the whole call, or twice its heads exceed the limit. */
        CHECK(c, p.b == 0 || p.b * p.kv == a.b * a.kv ||
                     rt_attention_piece_bytes(&a, 2 * p.b * p.kv) >
                         ATTENTION_MOST_WORKSPACE);
    }
}

int main(void)
{
    Check c = {0};
    check_images(&c);
    check_grids(&c);
    check_rates(&c);
    check_workspace(&c); /* before messages are turned off */
    check_cache(&c);
    return check_end(&c);
}
