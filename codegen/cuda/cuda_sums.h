/* cuda_sums.h: declares the functions that the printers of sums over rows in
 * CUDA kernels share: cuda_sums.c (sums within a block), cuda_combine.c (addition
 * of the blocks' sums) and cuda_epilogue.c (the code that uses the complete
 * sums). The parameter `instr` is the index of a KERNEL_TOTAL instruction. */
#ifndef PARC_CODEGEN_CUDA_CUDA_SUMS_H
#define PARC_CODEGEN_CUDA_CUDA_SUMS_H

#include "codegen/cuda/cuda_kernel.h"

/* The value that a sum or maximum starts with, "0.0f" or "-INFINITY"; its kind,
 * "sum" or "max". */
const char *cuda_sum_start(const CudaPlan *p, int instr);
const char *cuda_sum_kind(const CudaPlan *p, int instr);
/* Columns of a row, including both lanes of a pair. */
int64_t cuda_all_columns(const CudaPlan *p);
/* "name + offset" */
const char *cuda_at_offset(Arena *a, const char *name, int64_t offset);

/* Whether anything is summed by column or computed from such a
 * sum. */
bool cuda_has_columns(const CudaPlan *p);
/* Declares a complete sum with the value `text`. */
void cuda_name_sum(CudaPrinter *c, int instr, int lane, const char *text);
/* Print the epilogue: the code computed once for a work unit, whose stores run
 * in the thread for which `one` holds; the code for a column. */
void cuda_epilogue_scalars(CudaPrinter *c, const char *one);
void cuda_epilogue_column(CudaPrinter *c);

#endif
