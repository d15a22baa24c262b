/* cuda.h: declares the functions that write the device code of a CUDA program,
 * and the host code that launches it. They write these files of the program:
 *
 *   kernels.cu  the kernels of fused ops
 *   instances.cu  instances of hand-written kernels (runtime/cuda/device); empty if
 *               the program needs none
 *   launch.c    for each fused op a C function that launches its kernels
 *   kernels.h   the prototypes of these functions
 *
 * parc_launch names a kernel by its number in one list of symbols, which
 * train.c passes to the runtime.
 */
#ifndef PARC_CODEGEN_CUDA_CUDA_H
#define PARC_CODEGEN_CUDA_CUDA_H

#include "base/out.h"
#include "ir/ir.h"

/* The symbols of all kernels, in the order of their numbers. */
typedef struct CudaKernels {
    Arena *arena;
    VEC(const char *) symbol;
} CudaKernels;

/* cuda_launch.c: the number of a symbol; a new symbol is added. */
int cuda_kernel_number(CudaKernels *k, const char *symbol);

/* cuda_launch.c: the kernels of fused ops, the functions that launch them, and
 * kernels.h with their prototypes: results, operands, and the workspace if
 * target_info() says that the op needs one. */
void cuda_kernels_emit(Out *cu, const Program *p);
void cuda_launch_emit(Out *c, const Program *p, CudaKernels *k);
void cuda_prototypes_emit(Out *h, const Program *p);

/* cuda_instances.c: instances of hand-written device code for the ops of p, one
 * for each combination of types and sizes. */
void cuda_instances_emit(Out *instances, const Program *p, CudaKernels *k);

#endif
