/* kernel_indices.c: checks that CUDA kernels index tensors of more than 2^31
 * elements correctly, which an int cannot number.
 *
 * The kernels are compiled as host functions and called for the threads of
 * their last block; one small tensor checks the test itself. The tensors are
 * address ranges in which only the accessed pages have memory, and an equal
 * range precedes them: an index that wraps around reads zeros there, and its
 * write is not compared. A sum reads all elements, which are too many to
 * allocate: for sums the test only inspects the emitted text.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/target/target.h"
#include "tests/unit/fuse_tools.h"

#define ABOVE_INT (((int64_t)1 << 31) + 4096)

/* Replaces the device's functions that identify a thread. */
static const char thread_functions[] =
    "#include <stdint.h>\n"
    "int64_t block_now, blocks_now;\nint thread_now, threads_now;\n"
    "int standin_thread_index(void) { return thread_now; }\n"
    "int64_t standin_block_index(void) { return block_now; }\n"
    "int64_t standin_block_count(void) { return blocks_now; }\n"
    "int standin_block_threads(void) { return threads_now; }\n";

static void *load(Arena *a, const char *text)
{
    char directory[] = "/tmp/parc-indices-XXXXXX";
    if (!mkdtemp(directory))
        return NULL;
    const char *source = arena_printf(a, "%s/kernels.c", directory);
    const char *object = arena_printf(a, "%s/kernels.so", directory);
    FILE *f = fopen(source, "w");
    if (f) {
        fprintf(f, "%s%s", thread_functions, text);
        fclose(f);
    }
    const char *const argv[] = {
        "cc",      "-std=c11",       "-w",      "-O1",  "-fwrapv",
        "-shared", "-fPIC",          "-Iruntime", "-Iruntime/cuda/device",
        "-Itests/standin", "-o", object, source, "-lm", NULL};
    char *errors = NULL;
    if (process_run(a, argv, NULL, &errors))
        printf("%s\n%s\n", text, errors ? errors : "");
    void *library = dlopen(object, RTLD_NOW);
    unlink(source);
    unlink(object);
    rmdir(directory);
    return library;
}

/* n floats after an equal range; pages are allocated at the first access. */
static float *reserve(int64_t n)
{
    void *at = mmap(NULL, (size_t)n * 2 * sizeof(float), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : (float *)at + n;
}

static void release(float *at, int64_t n)
{
    if (at)
        munmap(at - n, (size_t)n * 2 * sizeof(float));
}

static void set(void *library, const char *name, int64_t value)
{
    void *at = dlsym(library, name);
    if (at && strstr(name, "block") == name)
        *(int64_t *)at = value;
    else if (at)
        *(int *)at = (int)value;
}

/* Runs the threads of the last block. */
static void call_last(void *library, const char *name, const CudaPlan *plan,
                      float *to, float *from)
{
    void *symbol = dlsym(library, name);
    void (*kernel)(float *, const float *);
    memcpy(&kernel, &symbol, sizeof kernel);
    set(library, "blocks_now", plan->grid);
    set(library, "block_now", plan->grid - 1);
    set(library, "threads_now", plan->threads);
    for (int t = 0; t < plan->threads && symbol; t++) {
        set(library, "thread_now", t);
        kernel(to, from);
    }
}

/* Checks y = x * 2 at the end of a tensor with these dims. */
static void check_end_of(Check *c, int ndim, const int64_t *dim)
{
    FuseTest t = fuse_test(PH_FORWARD);
    Value *x = fuse_param(&t, "x", ndim, dim, 0, 1);
    fuse_keep(&t, fuse_factor(&t, OP_scale, x, 2));
    TargetInfo info = target_info(TARGET_CUDA, 1);
    pass_fuse(t.p, &info);
    const Op *op = fuse_first(t.p);
    CHECK(c, op != NULL);
    if (!op)
        return;
    Out text;
    out_init(&text, t.arena);
    cuda_kernels_emit(&text, t.p);
    void *library = load(t.arena, text.text);
    int64_t n = 1;
    for (int d = 0; d < ndim; d++)
        n *= dim[d];
    float *from = reserve(n), *to = reserve(n);
    CHECK(c, library && from && to);
    if (library && from && to) {
        for (int64_t i = n - 256; i < n; i++)
            from[i] = (float)(i % 1000) + 1;
        call_last(library, kernel_name(t.p, op, 0), cuda_plan(t.p, op), to,
                  from);
        int wrong = 0;
        for (int64_t i = n - 256; i < n; i++)
            wrong += to[i] != 2 * from[i];
        CHECK(c, wrong == 0);
        if (wrong)
            printf("%d of 256 are wrong:\n%s\n", wrong, text.text);
    }
    release(from, n);
    release(to, n);
    arena_free(t.arena);
}

/* Checks the index types in the text of kernels: int for 2^28 elements, int64_t
 * for more than 2^31. */
static void check_types(Check *c, int64_t n, bool small)
{
    FuseTest t = fuse_test(PH_FORWARD);
    Value *x = fuse_param(&t, "x", DIMS(n), 0, 1);
    fuse_keep(&t, fuse_sum(&t, fuse_factor(&t, OP_scale, x, 2), 0, false));
    fuse_keep(&t, fuse_factor(&t, OP_scale, x, 3));
    TargetInfo info = target_info(TARGET_CUDA, 1);
    pass_fuse(t.p, &info);
    Out text;
    out_init(&text, t.arena);
    cuda_kernels_emit(&text, t.p);
    CHECK(c, (strstr(text.text, "int64_t at =") == NULL) == small);
    CHECK(c, (strstr(text.text, "int64_t j =") == NULL) == small);
    arena_free(t.arena);
}

int main(void)
{
    Check c = {0, 0};
    check_end_of(&c, DIMS(1 << 20));
    check_end_of(&c, DIMS(ABOVE_INT));
    check_end_of(&c, DIMS(3, 1 << 30));
    check_end_of(&c, DIMS(65536, 40000));
    check_end_of(&c, DIMS(ABOVE_INT / 2, 3));
    check_types(&c, (int64_t)1 << 28, true);
    check_types(&c, ABOVE_INT, false);
    return check_end(&c);
}
