/* train_c.h: declares the functions that write the C files of an emitted
 * program: train.c, model.h and model.c and, for the CPU, kernels.c and
 * kernels.h. */
#ifndef PARC_CODEGEN_EMIT_TRAIN_C_H
#define PARC_CODEGEN_EMIT_TRAIN_C_H

#include "codegen/cuda/cuda.h"
#include "passes/pass.h"

/* What the user asks of an emitted program. */
typedef struct EmitOptions {
    const char *source;      /* base name of the PDL file */
    const char *command;     /* the command line, for the header comment */
    const char *plan;        /* the text of --emit plan, which --info prints */
    const char *directory;   /* -S DIR, or NULL */
    const char *binary;      /* -o FILE, or NULL */
    const char *self;        /* path of the running parc, to find the built
                                runtime library; may be NULL */
    const char *const *arch; /* GPU architectures; NULL ends the list */
    bool verbose;            /* print the commands that are run, and ptxas'
                              * report on each kernel */
} EmitOptions;

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
