/* program.h: writes the training program as a source tree (-S), as a binary
 * (-o), or both. The source tree has these files:
 *
 *   train.c     the code specific to the model, readable from top to bottom
 *   kernels.c   the fused kernels, kernels.h their prototypes; for GPUs
 *               kernels.cu, its compiled form, and launch.c, which launches
 *               the kernels (program_cuda.c)
 *   runtime/    a copy of parc's runtime
 *   Makefile    builds ./train
 */
#ifndef PARC_CODEGEN_PROGRAM_H
#define PARC_CODEGEN_PROGRAM_H

#include "base/file.h"
#include "passes/memory.h"

typedef struct EmitOptions {
    const char *source;      /* base name of the PDL file */
    const char *command;     /* the command line, for the header comment */
    const char *directory;   /* -S DIR, or NULL */
    const char *binary;      /* -o FILE, or NULL */
    const char *self;        /* path of the running parc, to find the built
                                runtime library; may be NULL */
    const char *const *arch; /* GPU architectures; NULL ends the list */
    bool verbose;            /* print the commands that are run, and ptxas'
                              * report on each kernel */
} EmitOptions;

/* Adds the source tree or the binary or both to `outputs` (the caller commits).
 * Returns NULL, or a message. */
const char *emit_program(const Program *p, const TargetInfo *t,
                         const EmitOptions *options, Outputs *outputs);

#endif
