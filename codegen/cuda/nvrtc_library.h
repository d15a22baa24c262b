/* nvrtc_library.h: declares the functions of NVRTC, and finds and opens the
 * library at run time. */
#ifndef PARC_CODEGEN_CUDA_NVRTC_LIBRARY_H
#define PARC_CODEGEN_CUDA_NVRTC_LIBRARY_H

#include <stddef.h>

#include "base/arena.h"

/* The functions of NVIDIA's nvrtc.h that parc calls. The types nvrtcResult
 * and nvrtcProgram of that header are an int and a pointer here. Results: 0 is
 * success, NVRTC_ERROR_COMPILATION an error in the source, which the log
 * describes.
 */
enum { NVRTC_ERROR_COMPILATION = 6 };
typedef struct NvrtcProgramObject *NvrtcProgram;
typedef struct NvrtcLibrary {
    const char *path; /* as it was opened */
    const char *file; /* its absolute path, without links */
    int major, minor;
    const char *(*error_string)(int result);
    int (*version)(int *major, int *minor);
    int (*count_archs)(int *n);
    int (*archs)(int *arch);
    int (*create)(NvrtcProgram *p, const char *text, const char *name, int n,
                  const char *const *header, const char *const *header_name);
    int (*compile)(NvrtcProgram p, int n, const char *const *option);
    int (*log_size)(NvrtcProgram p, size_t *n);
    int (*log)(NvrtcProgram p, char *text);
    int (*cubin_size)(NvrtcProgram p, size_t *n);
    int (*cubin)(NvrtcProgram p, char *data);
    int (*ptx_size)(NvrtcProgram p, size_t *n);
    int (*ptx)(NvrtcProgram p, char *text);
} NvrtcLibrary;

/* Opens the library that $PARC_NVRTC names, else the one that the loader or a
 * toolkit has, and checks that it supports the architectures (a NULL-terminated
 * list). Returns NULL, or a message. */
const char *nvrtc_open(Arena *a, const char *const *arch, NvrtcLibrary *lib);

#endif
