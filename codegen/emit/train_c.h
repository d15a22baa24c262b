/* train_c.h: declares the functions that write the C files of an emitted
 * program: train.c, model.h and model.c and, for the CPU, kernels.c and
 * kernels.h. */
#ifndef PARC_CODEGEN_EMIT_TRAIN_C_H
#define PARC_CODEGEN_EMIT_TRAIN_C_H

#include "codegen/cuda/cuda.h"
#include "codegen/emit_options.h"
#include "passes/pass.h"

/* The kernels of a program for GPUs. */
typedef struct CudaProgram {
    const CudaKernels *kernels;
    int nimages; /* number of compiled kernel files in images.c */
} CudaProgram;

/* train.c: the functions of a step. model.h: the memory map. model.c: the tables
 * that describe the program to the runtime, and main. */
typedef struct SourceFiles {
    Out train_c, model_h, model_c;
} SourceFiles;

/* `cuda`: NULL on the CPU. */
void train_c_emit(SourceFiles *files, const Program *p, const TargetInfo *t,
                  const EmitOptions *options, const CudaProgram *cuda);
void kernels_c_emit(Out *o, const Program *p);
void kernels_h_emit(Out *o, const Program *p);

#endif
