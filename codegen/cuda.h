/* cuda.h: what the writers of a CUDA program share.
 *
 *   launch.c    for each fused op a function with the prototype of kernels.h,
 *               which launches its kernels
 *   kernels.cu  the kernels: those of fused ops, and instances of device code
 *               written by hand (runtime/cuda)
 *
 * parc_launch names a kernel by its number in one list of symbols, which
 * train.c gives the runtime. */
#ifndef PARC_CODEGEN_CUDA_H
#define PARC_CODEGEN_CUDA_H

#include "base/out.h"
#include "ir/ir.h"

/* The symbols of kernels.cu that are launched, in the order of their numbers. */
typedef struct CudaKernels {
    Arena *arena;
    VEC(const char *) symbol;
} CudaKernels;

/* The number of a symbol, which is added where it is new. */
int cuda_kernel_number(CudaKernels *k, const char *symbol);

/* cuda_launch.c: the fused ops' kernels, the functions that launch them, and
 * kernels.h with their prototypes: results, operands, and the workspace where
 * target_info() asks for any. */
void cuda_kernels_emit(Out *cu, const Program *p);
void cuda_launch_emit(Out *c, const Program *p, CudaKernels *k);
void cuda_prototypes_emit(Out *h, const Program *p);

/* cuda_instances.c: what the ops of p need of the device code that is written
 * by hand, one instance for each set of types and sizes. */
void cuda_instances_emit(Out *cu, const Program *p, CudaKernels *k);

#endif
