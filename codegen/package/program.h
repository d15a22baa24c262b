/* program.h: writes the training program as a source tree (-S), as a binary
 * (-o), or both. The source tree has these files:
 *
 *   train.c     the functions of a step, readable from top to bottom
 *   model.h     the memory map; prototypes of train.c's functions
 *   model.c     tables that describe the model to the runtime, and main
 *   kernels.c   the fused kernels, kernels.h their prototypes; for GPUs
 *               kernels.cu and instances.cu, their compiled forms, and
 *               launch.c, which launches the kernels (program_cuda.c)
 *   runtime/    a copy of parc's runtime
 *   Makefile    builds ./train
 */
#ifndef PARC_CODEGEN_PACKAGE_PROGRAM_H
#define PARC_CODEGEN_PACKAGE_PROGRAM_H

#include "base/file.h"
#include "codegen/emit/train_c.h"
#include "passes/pass.h"

/* Adds the source tree or the binary or both to `outputs` (the caller commits).
 * Returns NULL, or a message. */
const char *emit_program(const Program *p, const TargetInfo *t,
                         const EmitOptions *options, Outputs *outputs);

#endif
