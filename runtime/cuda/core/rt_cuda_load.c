/* rt_cuda_load.c: opens the CUDA libraries at run time.
 *
 * A function table is a struct of function pointers only. Its members and the
 * list of symbols have the same order, because both are generated from the
 * same list.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "cuda/api/api_cudnn.h"
#include "cuda/core/rt_cuda.h"
#include "launch/world.h"

#define CALL(result, name, suffix, arguments) #name #suffix,
static const char *const driver_symbols[] = {
#include "cuda/api/calls_driver.h"
};

static const char *const blas_symbols[] = {
#include "cuda/api/calls_blas.h"
};

static const char *const nccl_symbols[] = {
#include "cuda/api/calls_nccl.h"
};

static const char *const cudnn_symbols[] = {
#include "cuda/api/calls_cudnn.h"
};

/* POSIX guarantees that function pointers convert to object pointers. */
typedef void (*Function)(void);
_Static_assert(sizeof(Function) == sizeof(void *), "dlsym");
#define COUNT(symbols) (sizeof symbols / sizeof *symbols)
#define TABLE(type, symbols)                                                   \
    _Static_assert(sizeof(type) == COUNT(symbols) * sizeof(Function),          \
                   "a member for each symbol")
TABLE(CudaDriver, driver_symbols);
TABLE(CudaBlas, blas_symbols);
TABLE(CudaNccl, nccl_symbols);
TABLE(CudaDnn, cudnn_symbols);

const CudaLibrary rt_cuda_driver_library = {
    .what = "the CUDA driver",
    .names = {"libcuda.so.1"},
    .advice = "it comes with NVIDIA's driver, which this machine needs to run "
              "a program built for CUDA; in a container, pass the GPUs on "
              "(docker run --gpus all)",
    .symbol = driver_symbols,
    .nsymbols = COUNT(driver_symbols),
};

const CudaLibrary rt_cuda_blas_library = {
    .what = "cuBLASLt",
    .names = {"libcublasLt.so.13", "libcublasLt.so.12"},
    .advice = "install the CUDA libraries (package libcublas, or pip's "
              "nvidia-cublas) and put their directory into LD_LIBRARY_PATH",
    .symbol = blas_symbols,
    .nsymbols = COUNT(blas_symbols),
};

const CudaLibrary rt_cuda_nccl_library = {
    .what = "NCCL",
    .names = {"libnccl.so.2"},
    .advice = "install it (package libnccl2, or pip's nvidia-nccl) and put its "
              "directory into LD_LIBRARY_PATH; a program of one rank needs none",
    .symbol = nccl_symbols,
    .nsymbols = COUNT(nccl_symbols),
    .noptional = 4,
};

const CudaLibrary rt_cudnn_library = {
    .what = "cuDNN",
    .names = {"libcudnn.so.9"},
    .advice = "nothing needs it; attention is faster with it",
    .symbol = cudnn_symbols,
    .nsymbols = COUNT(cudnn_symbols),
};

static bool is_listed(const CudaLibrary *library, int i)
{
    int most = (int)(sizeof library->names / sizeof *library->names);
    return i < most && library->names[i];
}

/* Opens the first name that can be opened; else composes why each one
 * cannot. */
static void *open_library(const CudaLibrary *library, const char **name,
                          char *error, size_t capacity)
{
    size_t n =
        (size_t)snprintf(error, capacity, "%s is missing:", library->what);
    for (int i = 0; is_listed(library, i); i++) {
        *name = library->names[i];
        void *handle = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (handle)
            return handle;
        const char *why = dlerror();
        if (n < capacity)
            n += (size_t)snprintf(error + n, capacity - n, "%s %s",
                                  i ? ";" : "", why ? why : *name);
    }
    if (n < capacity)
        snprintf(error + n, capacity - n, "; %s", library->advice);
    return NULL;
}

/* The path of the opened file. */
static const char *file_of(void *address, const char *name)
{
    Dl_info info;
    return address && dladdr(address, &info) && info.dli_fname ? info.dli_fname
                                                               : name;
}

bool rt_cuda_load(const CudaLibrary *library, void *table, char *error,
                  size_t capacity)
{
    const char *name = NULL, *lacks = NULL;
    int missing = 0;
    void *known = NULL, *handle = open_library(library, &name, error, capacity);
    for (int i = 0; handle && i < library->nsymbols; i++) {
        void *address = dlsym(handle, library->symbol[i]);
        memcpy((char *)table + (size_t)i * sizeof address, &address,
               sizeof address);
        if (address) {
            known = address;
        } else if (i < library->nsymbols - library->noptional) {
            missing++;
            lacks = lacks ? lacks : library->symbol[i];
        }
    }
    if (!handle || !missing)
        return handle;
    snprintf(error, capacity,
             "%s (%s) is too old or incomplete: it lacks %s%s; %s",
             library->what, file_of(known, name), lacks,
             missing > 1 ? " and others" : "", library->advice);
    dlclose(handle);
    return false;
}

void rt_cuda_require(ParcRt *rt, const CudaLibrary *library, void *table)
{
    char error[1024];
    if (!rt_cuda_load(library, table, error, sizeof error))
        rt_fail(rt, "%s", error);
}
