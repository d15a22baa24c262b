/* nvrtc_library.h: between nvrtc.c and nvrtc_library.c. */
#ifndef PARC_CODEGEN_NVRTC_LIBRARY_H
#define PARC_CODEGEN_NVRTC_LIBRARY_H

#include <stddef.h>

#include "base/arena.h"

/* The calls of nvrtc.h that parc makes; the library's own types are an int and
 * a pointer. Results: 0 is success, NVRTC_COMPILATION an error in the source,
 * which the log tells. */
enum { NVRTC_COMPILATION = 6 };
typedef struct NvrtcProgramObject *NvrtcProgram;
typedef struct NvrtcLibrary {
    const char *path; /* as it was opened */
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

/* Opens the library that $PARC_NVRTC names, or the one found where the loader
 * looks or where toolkits lie, and compares it with the architectures (a list
 * that NULL ends). NULL, or a message. */
const char *nvrtc_open(Arena *a, const char *const *arch, NvrtcLibrary *lib);

#endif
