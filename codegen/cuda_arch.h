/* cuda_arch.h: declares the lists of GPU architectures that a program can be
 * compiled for (--arch), and is by default. */
#ifndef PARC_CODEGEN_CUDA_ARCH_H
#define PARC_CODEGEN_CUDA_ARCH_H

/* The names of all architectures ("sm_90a"), oldest first; NULL ends the list.
 * Code for a name with 'a' uses all features and runs on that architecture
 * only; other code also runs on newer architectures of the same major
 * number. */
extern const char *const cuda_archs[];

/* The names that are used without --arch; NULL ends the list. */
extern const char *const cuda_default_archs[];

#endif
