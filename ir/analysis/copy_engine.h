/* copy_engine.h: which collectives take no multiprocessors of a GPU. */
#ifndef PARC_IR_ANALYSIS_COPY_ENGINE_H
#define PARC_IR_ANALYSIS_COPY_ENGINE_H

#include "ir/ir.h"

/* The axes, inside a node, over which copy engines gather (-D copy_engines=true). NCCL 2.28 does
 * so for memory that all ranks have registered as a symmetric window (NCCL_CTA_POLICY_ZERO); with
 * a pipeline the arena is none (runtime/cuda/rt_cuda_arena.c). */
uint32_t copy_engine_axes(const Program *p);
/* Whether copy engines execute the collective. */
bool op_uses_copy_engines(const Program *p, const Op *op);

#endif
