/* kernel_internal.h: declares what the files that build the kernel IR share.
 *
 *   kernel_build.c   creates buffers and instructions from a fused op
 *   kernel_phase.c   orders instructions into phases, assigns memory to sums
 *   kernel_online.c  merges the phases of a softmax (optional, for CUDA)
 */
#ifndef PARC_CODEGEN_KERNEL_KERNEL_INTERNAL_H
#define PARC_CODEGEN_KERNEL_KERNEL_INTERNAL_H

#include "codegen/kernel/kernel.h"

typedef struct Builder {
    const Program *p;
    Kernel *k;
    VEC(KernelInstr) instr;
    VEC(KernelRoot) root;
    int *map; /* by index of a value in the space: the instruction that computes
               * it; -1: none yet */
} Builder;

/* Orders instructions into phases and assigns memory to sums over rows.
 * `cached`: values for later phases may be read back, because the row is in the
 * cache. */
void kernel_phases(const Program *p, Kernel *k, bool cached);

/* Orders instructions into phases, without assigning memory: lists what each
 * phase computes, from the phases of roots and instructions. */
void kernel_order(const Program *p, Kernel *k, bool cached);

#endif
