/* kernel_internal.h: declarations that the files which build the kernel IR
 * share: kernel_build.c, kernel_phase.c and kernel_online.c. */
#ifndef PARC_CODEGEN_KERNEL_INTERNAL_H
#define PARC_CODEGEN_KERNEL_INTERNAL_H

#include "codegen/kernel.h"

typedef struct Builder {
    const Program *p;
    Kernel *k;
    VEC(KernelInstr) instr;
    VEC(KernelRoot) root;
    int *map; /* by number in the space: its instruction; -1: none yet */
} Builder;

/* Orders instructions into phases and assigns memory to sums over rows.
 * `cached`: values for later phases may be read back, because the row is in the
 * cache. */
void kernel_phases(const Program *p, Kernel *k, bool cached);

/* Only orders the instructions: lists what each phase computes, from the phases
 * of roots and instructions. */
void kernel_order(const Program *p, Kernel *k, bool cached);

#endif
