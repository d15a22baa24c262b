/* ptxas.h: assembles PTX to machine code with ptxas, the assembler of NVIDIA's
 * toolkit.
 *
 * NVRTC contains the assembler, but compiles CUDA C++ only, once for each
 * architecture. With ptxas it compiles the source once, to PTX, which takes as
 * long as assembling it for one architecture:
 *
 *   NVRTC for sm_80 and sm_90a     2 x (to PTX + assemble)
 *   with ptxas                     to PTX + 2 x assemble
 */
#ifndef PARC_CODEGEN_CUDA_PTXAS_H
#define PARC_CODEGEN_CUDA_PTXAS_H

#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"

/* Finds a ptxas of the same version as NVRTC, whose PTX an older one may refuse:
 * $PARC_PTXAS (empty: none), else the one in the toolkit that contains the
 * library. *path is NULL if there is none. Returns NULL, or a message if
 * PARC_PTXAS names none. */
const char *ptxas_find(Arena *a, const char *library, int major, int minor,
                       const char **path);

/* A ptxas that runs. */
typedef struct PtxasRun {
    const char *path, *arch; /* "sm_90a" */
    int code, log;           /* files in memory that it writes */
    pid_t pid;
    double begin; /* seconds_now() */
} PtxasRun;

typedef struct PtxasCode {
    const char *failure; /* why there is no result, though the PTX may be right;
                            else NULL */
    const char *log;     /* the report about each kernel (-v), and messages */
    const char *data;    /* NULL: the log says why */
    size_t size;
    double seconds;
} PtxasCode;

/* Starts to assemble `ptx`, a file descriptor, for an architecture. The process ends
 * with its parent. Returns 0 or an errno. */
int ptxas_start(Arena *a, const char *path, const char *arch, int ptx,
                PtxasRun *run);
/* Waits for its end. */
PtxasCode ptxas_finish(Arena *a, const PtxasRun *run);

/* Writes data to a file in memory, which other processes may read and write as
 * /proc/self/fd/N. Returns its descriptor; -1 on failure, with errno set. */
int memory_file(const char *data, size_t size);

#endif
