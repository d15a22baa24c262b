/* kernel_internal.h: between kernel_build.c, kernel_phase.c and
 * kernel_online.c. */
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

/* Orders instructions into phases, and lays out sums over rows. `cached`: what
 * a later phase needs may be read back, because the row is in the cache. */
void kernel_phases(const Program *p, Kernel *k, bool cached);

/* The first of both alone: what each phase computes, by the phases of roots and
 * instructions. */
void kernel_order(const Program *p, Kernel *k, bool cached);

#endif
