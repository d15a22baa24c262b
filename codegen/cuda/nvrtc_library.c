/* nvrtc_library.c: finds and opens the NVRTC library, and checks that it
 * supports the architectures of a program.
 *
 * parc does not link CUDA libraries: the CPU target must work without them. It
 * opens $PARC_NVRTC if that is set. Otherwise it opens the newest version that
 * dlopen finds, else that of a toolkit: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda
 * or the toolkit of the nvcc in PATH.
 */
#include "codegen/cuda/nvrtc_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The library's file names, newest first. Version 12 is the first that supports
 * sm_90a. */
static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
enum { NAMES = sizeof names / sizeof *names };

static const char *const directories[] = {
    "lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib"};
enum { DIRECTORIES = sizeof directories / sizeof *directories };

/* ---- search -------------------------------------------------------------- */

static void *open_in(Arena *a, const char *toolkit, NvrtcLibrary *lib)
{
    for (int n = 0; n < NAMES; n++)
        for (int f = 0; f < DIRECTORIES; f++) {
            lib->path =
                arena_printf(a, "%s/%s/%s", toolkit, directories[f], names[n]);
            void *handle = access(lib->path, R_OK) == 0
                               ? dlopen(lib->path, RTLD_NOW | RTLD_LOCAL)
                               : NULL;
            if (handle)
                return handle;
        }
    return NULL;
}

/* The toolkit of the nvcc on the PATH: the parent of the directory that
 * contains it. */
static const char *toolkit_on_path(Arena *a)
{
    const char *path = getenv("PATH");
    char *rest, *list = arena_strdup(a, path ? path : "");
    for (char *dir = strtok_r(list, ":", &rest); dir;
         dir = strtok_r(NULL, ":", &rest)) {
        const char *nvcc = arena_printf(a, "%s/nvcc", dir);
        if (access(nvcc, X_OK) != 0)
            continue;
        char *real = realpath(nvcc, NULL);
        const char *toolkit =
            arena_printf(a, "%s/../..", real ? real : nvcc);
        free(real);
        return toolkit;
    }
    return NULL;
}

static void *load_library(Arena *a, NvrtcLibrary *lib)
{
    for (int i = 0; i < NAMES; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        lib->path = names[i];
        if (handle)
            return handle;
    }
    const char *const toolkit[] = {getenv("CUDA_HOME"), getenv("CUDA_PATH"),
                                   "/usr/local/cuda", toolkit_on_path(a)};
    for (size_t i = 0; i < sizeof toolkit / sizeof *toolkit; i++) {
        void *handle = toolkit[i] && *toolkit[i]
                           ? open_in(a, toolkit[i], lib)
                           : NULL;
        if (handle)
            return handle;
    }
    return NULL;
}

static const char *open_library(Arena *a, NvrtcLibrary *lib, void **handle)
{
    const char *given = getenv("PARC_NVRTC");
    if (!given || !*given) {
        *handle = load_library(a, lib);
        return *handle ? NULL
                       : "the CUDA target compiles its kernels with NVRTC "
                         "(libnvrtc.so.12 or newer), which is not found here: "
                         "install it (CUDA toolkit 12 or newer, or its package "
                         "cuda-nvrtc), set CUDA_HOME to the toolkit's directory "
                         "or PARC_NVRTC to the library; --target cpu needs "
                         "none of it";
    }
    char *real = realpath(given, NULL);
    lib->path = arena_strdup(a, real ? real : given);
    free(real);
    *handle = dlopen(lib->path, RTLD_NOW | RTLD_LOCAL);
    return *handle ? NULL
                   : arena_printf(a,
                                  "cannot open NVRTC '%s': %s; correct "
                                  "PARC_NVRTC or unset it",
                                  given, dlerror());
}

/* ---- functions and architectures ----------------------------------------- */

/* Stores the address that dlsym returns in a field of the table. */
static bool look_up(void *handle, const char *symbol, void *field)
{
    void *address = dlsym(handle, symbol);
    memcpy(field, &address, sizeof address);
    return address != NULL;
}

static const char *look_up_all(Arena *a, void *handle, NvrtcLibrary *lib)
{
    const struct {
        const char *symbol;
        void *field;
    } row[] = {
        {"nvrtcGetErrorString", &lib->error_string},
        {"nvrtcVersion", &lib->version},
        {"nvrtcGetNumSupportedArchs", &lib->count_archs},
        {"nvrtcGetSupportedArchs", &lib->archs},
        {"nvrtcCreateProgram", &lib->create},
        {"nvrtcCompileProgram", &lib->compile},
        {"nvrtcGetProgramLogSize", &lib->log_size},
        {"nvrtcGetProgramLog", &lib->log},
        {"nvrtcGetCUBINSize", &lib->cubin_size},
        {"nvrtcGetCUBIN", &lib->cubin},
        {"nvrtcGetPTXSize", &lib->ptx_size},
        {"nvrtcGetPTX", &lib->ptx},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!look_up(handle, row[i].symbol, row[i].field))
            return arena_printf(a,
                                "'%s' is not NVRTC 12 or newer: it lacks the "
                                "function %s; set CUDA_HOME or PARC_NVRTC "
                                "to CUDA 12 or newer",
                                lib->path, row[i].symbol);
    return NULL;
}

static const char *too_old(Arena *a, const NvrtcLibrary *lib, const char *arch)
{
    return arena_printf(a, "NVRTC %d.%d ('%s') cannot compile for %s: install a "
                           "newer CUDA toolkit and set CUDA_HOME or PARC_NVRTC "
                           "to it, or leave %s out of --arch",
                        lib->major, lib->minor, lib->path, arch, arch);
}

static const char *check_archs(Arena *a, const NvrtcLibrary *lib,
                               const char *const *arch)
{
    int n = 0;
    if (lib->count_archs(&n) != 0 || n < 1)
        return arena_printf(a,
                            "NVRTC '%s' returned no list of architectures; "
                            "set PARC_NVRTC to another library",
                            lib->path);
    int *known = NEW_ARRAY(a, int, n);
    lib->archs(known);
    for (; *arch; arch++) {
        bool found = false;
        for (int i = 0; i < n; i++)
            found |= known[i] == atoi(*arch + strlen("sm_"));
        if (!found)
            return too_old(a, lib, *arch);
    }
    return NULL;
}

/* The file that the loader has opened. */
static const char *file_of(Arena *a, const NvrtcLibrary *lib)
{
    Dl_info about;
    void *address;
    memcpy(&address, &lib->version, sizeof address);
    if (!dladdr(address, &about) || !about.dli_fname)
        return lib->path;
    char *real = realpath(about.dli_fname, NULL);
    const char *file = arena_strdup(a, real ? real : about.dli_fname);
    free(real);
    return file;
}

const char *nvrtc_open(Arena *a, const char *const *arch, NvrtcLibrary *lib)
{
    void *handle = NULL;
    const char *failure = open_library(a, lib, &handle);
    if (!failure)
        failure = look_up_all(a, handle, lib);
    if (failure)
        return failure;
    lib->version(&lib->major, &lib->minor);
    lib->file = file_of(a, lib);
    return check_archs(a, lib, arch);
}
