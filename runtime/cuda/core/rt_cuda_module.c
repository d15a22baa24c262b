/* rt_cuda_module.c: loads the compiled kernels and launches them.
 *
 * A binary contains images for each architecture that it was built for, one of
 * each source (kernels.cu, instances.cu): machine code ("sm_90a"), and PTX
 * ("compute_90") for newer devices, which the driver compiles when it loads it.
 *
 * Emitted code launches a kernel by its number (parc_launch). The runtime
 * itself launches hand-written kernels (copies, attention, embedding). Their
 * numbers differ between programs, so it finds the number from the name. */
#include <string.h>

#include "common/message.h"
#include "cuda/core/rt_cuda.h"
#include "cuda/core/rt_cuda_launch.h"
#include "launch/world.h"
#include "rt.h"

/* ---- choice of an image -------------------------------------------------- */

/* "sm_90a": 9, 0 and 'a'. */
typedef struct Arch {
    bool ptx;
    int major, minor;
    char suffix; /* 'a': only this architecture; 'f': its family; else 0 */
} Arch;

static bool read_arch(const char *text, Arch *a)
{
    int number, length = 0;
    a->ptx = strncmp(text, "compute_", 8) == 0;
    if (!a->ptx && strncmp(text, "sm_", 3) != 0)
        return false;
    text += a->ptx ? 8 : 3;
    if (sscanf(text, "%d%n", &number, &length) != 1 || number < 10)
        return false;
    a->major = number / 10;
    a->minor = number % 10;
    a->suffix = text[length];
    return true;
}

/* A score of an image for a device; 0: cannot run. Machine code of the
 * device's own architecture is best, then that of an older one with the same
 * major number, then the newest PTX. */
static int fitness(const Arch *a, int major, int minor)
{
    enum { OWN = 1 << 16, MACHINE = 1 << 12, SPECIAL = 1 };
    bool same = a->major == major && a->minor == minor;
    bool family = a->major == major && a->minor <= minor;
    bool runs = a->suffix == 'a'             ? same
                : a->suffix == 'f' || !a->ptx ? family
                                              : a->major < major || family;
    if (!runs)
        return 0;
    return (same ? OWN : 0) * !a->ptx + (a->ptx ? 0 : MACHINE) +
           (a->major * 10 + a->minor) * 2 + (a->suffix ? SPECIAL : 0);
}

int rt_cuda_best_image(const ParcImage *image, int n, int major, int minor)
{
    int best = -1, most = 0;
    for (int i = 0; i < n; i++) {
        Arch a;
        int fits = read_arch(image[i].arch, &a) ? fitness(&a, major, minor) : 0;
        if (fits > most) {
            most = fits;
            best = i;
        }
    }
    return best;
}

/* Whether an image is of the same architecture as the one at `at`. */
static bool is_same_arch(const ParcModel *m, int i, int at)
{
    return strcmp(m->image[i].arch, m->image[at].arch) == 0;
}

/* "sm_80, sm_90a, compute_90" */
static const char *list_archs(const ParcModel *m, char text[RT_WHERE])
{
    RtText t = {.at = text, .capacity = RT_WHERE};
    for (int i = 0; i < m->nimages; i++) {
        int first = 0;
        while (!is_same_arch(m, first, i))
            first++;
        if (first == i)
            rt_add(&t, "%s%s", i ? ", " : "", m->image[i].arch);
    }
    return m->nimages ? text : "no GPU";
}

/* The first image of the architecture that fits the device best. */
static int choose_arch(ParcRt *rt)
{
    const RtDevice *d = rt->device;
    const ParcModel *m = rt->model;
    char text[RT_WHERE];
    int i = rt_cuda_best_image(m->image, m->nimages, d->major, d->minor);
    if (i < 0)
        rt_fail(rt,
                "GPU %d is a %s (sm_%d%d), and this program was built for %s: "
                "build it again with parc --arch sm_%d%d",
                d->ordinal, d->name, d->major, d->minor, list_archs(m, text),
                d->major, d->minor);
    return i;
}

/* ---- the driver that an image needs --------------------------------------- */

/* The major version of the CUDA compiler that made an image. Machine code names
 * the version of its file format, 8 from CUDA 13 on; PTX names its own, 9.x
 * for CUDA 13.x and 8.x for CUDA 12.x. 0: unknown. */
static int compiler_of(const ParcImage *image)
{
    enum { FORMAT_AT = 8, FORMAT_OF_13 = 8, PTX_HEADER = 1024 };
    const char *data = image->data;
    char header[PTX_HEADER + 1] = "";
    size_t n = image->size < PTX_HEADER ? (size_t)image->size : PTX_HEADER;
    int ptx = 0;
    if (n > FORMAT_AT && memcmp(data, "\177ELF", 4) == 0)
        return data[FORMAT_AT] >= FORMAT_OF_13 ? 13 : 12;
    memcpy(header, data, n);
    const char *version = strstr(header, ".version ");
    return version && sscanf(version, ".version %d", &ptx) == 1 ? ptx + 4 : 0;
}

/* A driver loads machine code and PTX of its own major version and of older
 * ones. */
static void check_driver(ParcRt *rt, const ParcImage *image)
{
    const RtDevice *d = rt->device;
    int compiler = compiler_of(image);
    if (d->driver / 1000 < compiler)
        rt_fail(rt,
                "CUDA %d compiled the kernels for %s, and the driver of GPU %d "
                "(%s) is of CUDA %d.%d: install a driver of CUDA %d or newer, "
                "or build the program with NVRTC of CUDA %d (PARC_NVRTC)",
                compiler, image->arch, d->ordinal, d->name, d->driver / 1000,
                d->driver % 1000 / 10, compiler, d->driver / 1000);
}

/* Bytes of shared memory that every block has by default. */
enum { GRANTED = 48 * 1024 };

/* ---- load ---------------------------------------------------------------- */

static void load(ParcRt *rt, const ParcImage *image)
{
    RtDevice *d = rt->device;
    CuModule module;
    char log[2048] = "", why[RT_WHERE];
    CuJitOption option[] = {RT_CU_JIT_ERROR_LOG, RT_CU_JIT_ERROR_LOG_BYTES};
    void *value[] = {log, (void *)(uintptr_t)sizeof log};
    CuResult r =
        d->cu.cuModuleLoadDataEx(&module, image->data, 2, option, value);
    if (r != RT_CU_SUCCESS)
        rt_fail(rt, "GPU %d (%s, sm_%d%d): cannot load the kernels for %s: "
                    "%s%s%s",
                d->ordinal, d->name, d->major, d->minor, image->arch,
                rt_cuda_reason(d, r, why), *log ? ": " : "", log);
    d->module[d->nmodules++] = module;
}

static CuFunction find_kernel(ParcRt *rt, const char *symbol, const char *arch)
{
    const RtDevice *d = rt->device;
    CuFunction function = NULL;
    CuResult r = RT_CU_NOT_FOUND;
    for (int i = 0; i < d->nmodules && r == RT_CU_NOT_FOUND; i++)
        r = d->cu.cuModuleGetFunction(&function, d->module[i], symbol);
    if (r == RT_CU_NOT_FOUND)
        rt_fail(rt, "the kernels for %s lack '%s', which train.c calls: "
                    "compile kernels.cu and instances.cu again",
                arch, symbol);
    rt_cuda_check(rt, r, symbol);
    return function;
}

void rt_cuda_module_open(ParcRt *rt)
{
    RtDevice *d = rt->device;
    const ParcModel *m = rt->model;
    if (m->nkernels == 0)
        return;
    int chosen = choose_arch(rt);
    check_driver(rt, &m->image[chosen]);
    d->module = rt_allocate((size_t)m->nimages * sizeof *d->module);
    for (int i = chosen; i < m->nimages; i++)
        if (is_same_arch(m, i, chosen))
            load(rt, &m->image[i]);
    d->kernel = rt_allocate((size_t)m->nkernels * sizeof *d->kernel);
    for (int i = 0; i < m->nkernels; i++) {
        d->kernel[i].function =
            find_kernel(rt, m->kernel[i], m->image[chosen].arch);
        int own = 0;
        CU(rt, cuFuncGetAttribute(&own, RT_CU_FUNCTION_STATIC_SHARED,
                                  d->kernel[i].function));
        d->kernel[i].own_shared = own;
        d->kernel[i].shared_bytes = GRANTED - own;
    }
}

/* ---- launch -------------------------------------------------------------- */

int64_t rt_cuda_block_memory(const ParcRt *rt)
{
    return rt->device->shared_most;
}

bool parc_block_has(const ParcRt *rt, int kernel, int64_t shared_bytes)
{
    const RtDevice *d = rt->device;
    return shared_bytes + d->kernel[kernel].own_shared <= d->shared_most;
}

static void grant_shared(ParcRt *rt, int kernel, int64_t bytes)
{
    const RtDevice *d = rt->device;
    CudaKernel *k = &d->kernel[kernel];
    if (!parc_block_has(rt, kernel, bytes))
        rt_fail(rt,
                "'%s' needs %lld bytes of shared memory, but a block of GPU "
                "%d (%s) has %lld: build it again with parc --arch sm_%d%d",
                rt->model->kernel[kernel],
                (long long)(bytes + k->own_shared), d->ordinal,
                d->name, (long long)d->shared_most, d->major, d->minor);
    CU(rt, cuFuncSetAttribute(k->function, RT_CU_FUNCTION_DYNAMIC_SHARED,
                              (int)bytes));
    k->shared_bytes = bytes;
}

bool rt_cuda_grid(int64_t blocks, unsigned *columns, unsigned *rows)
{
    enum { MOST_ROWS = 65535 };
    int64_t n = rt_blocks(blocks, INT32_MAX);
    if (blocks < 1 || n > MOST_ROWS)
        return false;
    *rows = (unsigned)n;
    *columns = (unsigned)rt_blocks(blocks, n);
    return true;
}

_Noreturn static void fail_grid(ParcRt *rt, const char *symbol, int64_t grid,
                                const char *most)
{
    rt_fail(rt, "'%s' is launched with %lld blocks, and a GPU takes up to %s: "
                "split the batch over more ranks",
            symbol, (long long)grid, most);
}

void parc_launch(ParcRt *rt, int stream, int kernel, int64_t grid, int block,
                 int64_t shared_bytes, void **args)
{
    const RtDevice *d = rt->device;
    char where[RT_WHERE], why[RT_WHERE];
    CudaKernel *k = &d->kernel[kernel];
    const char *symbol = rt->model->kernel[kernel];
    unsigned columns, rows;
    if (!rt_cuda_grid(grid, &columns, &rows))
        fail_grid(rt, symbol, grid, "2^46");
    if (shared_bytes > k->shared_bytes)
        grant_shared(rt, kernel, shared_bytes);
    if (stream != PARC_COMPUTE)
        rt_cuda_progress_settle(rt, stream);
    CuResult r = d->cu.cuLaunchKernel(
        k->function, columns, rows, 1, (unsigned)block, 1, 1,
        (unsigned)shared_bytes, d->stream[stream], args, NULL);
    if (r != RT_CU_SUCCESS)
        rt_fail(rt,
                "rank %d: launching '%s' (%lld blocks of %d threads, %lld "
                "bytes of shared memory)%s: %s",
                rt->rank, symbol, (long long)grid, block,
                (long long)shared_bytes, rt_cuda_where(rt, where),
                rt_cuda_reason(d, r, why));
    rt_cuda_queued(rt, stream, symbol);
}

/* The number of a kernel for parc_launch. */
static int kernel_named(ParcRt *rt, const char *symbol)
{
    const ParcModel *m = rt->model;
    for (int i = 0; i < m->nkernels; i++)
        if (strcmp(m->kernel[i], symbol) == 0)
            return i;
    rt_fail(rt, "train.c lists no kernel '%s', which the runtime launches: "
                "run parc again", symbol);
}

void rt_cuda_launch(ParcRt *rt, const char *symbol, int64_t grid, int block,
                    int64_t shared_bytes, int n, int64_t *argument)
{
    void *args[RT_MOST_ARGUMENTS];
    if (n > RT_MOST_ARGUMENTS)
        rt_fail(rt, "'%s' is launched with %d arguments, more than %d: report "
                    "this error of the runtime",
                symbol, n, RT_MOST_ARGUMENTS);
    for (int i = 0; i < n; i++)
        args[i] = &argument[i];
    if (grid > INT32_MAX)
        fail_grid(rt, symbol, grid, "2147483647");
    if (grid > 0)
        parc_launch(rt, PARC_COMPUTE, kernel_named(rt, symbol), grid, block,
                    shared_bytes, args);
}
