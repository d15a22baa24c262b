/* cuda_arch.h: the GPU architectures that a program can be compiled for. */
#ifndef PARC_CODEGEN_CUDA_ARCH_H
#define PARC_CODEGEN_CUDA_ARCH_H

/* By name ("sm_90a"), oldest first; NULL ends the list. A name with 'a' enables
 * all features and runs on that architecture only; the others also run on newer
 * architectures of the same major number. */
extern const char *const cuda_archs[];

/* The default without --arch; NULL ends the list. */
extern const char *const cuda_default_archs[];

#endif
