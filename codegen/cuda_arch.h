/* cuda_arch.h: the GPU architectures that a program can be compiled for. */
#ifndef PARC_CODEGEN_CUDA_ARCH_H
#define PARC_CODEGEN_CUDA_ARCH_H

/* By name, "sm_90a", oldest first; NULL ends the list. An 'a' stands for one
 * architecture alone, with all that it can do; the others run on newer ones of
 * the same major number too. */
extern const char *const cuda_archs[];

/* Where --arch is not given; NULL ends the list. */
extern const char *const cuda_default_archs[];

#endif
