/* cuda_sums.h: between cuda_sums.c, which adds up what a block has, and
 * cuda_combine.c, which goes on from whole sums. `instr` is a total. */
#ifndef PARC_CODEGEN_CUDA_SUMS_H
#define PARC_CODEGEN_CUDA_SUMS_H

#include "codegen/cuda_kernel.h"

/* "0.0f" or "-INFINITY"; "sum" or "max". */
const char *cuda_sum_start(const CudaPlan *p, int instr);
const char *cuda_sum_kind(const CudaPlan *p, int instr);
/* Columns of a row, with both lanes of a pair. */
int64_t cuda_all_columns(const CudaPlan *p);
/* "name + offset" */
const char *cuda_at_offset(Arena *a, const char *name, int64_t offset);
/* The running number of columns: "c", or "j" where that is the same. */
const char *cuda_flat_column(const CudaPlan *p);

/* cuda_combine.c: whether anything is summed, or follows, by column. */
bool cuda_has_columns(const CudaPlan *p);
/* Names a whole sum, whose value is `text`. */
void cuda_name_sum(CudaPrinter *c, int instr, int lane, const char *text);
/* What is computed once a unit, and its stores, in thread `one`; and for a
 * column. */
void cuda_epilogue_scalars(CudaPrinter *c, const char *one);
void cuda_epilogue_column(CudaPrinter *c);

#endif
