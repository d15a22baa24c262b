/* cuda_lower.h: functions that the files share that lower a kernel to loops
 * (codegen/kernel/loops.h) by its plan (cuda_kernel.h).
 *
 *   cuda_lower.c    functions and their loops over rows
 *   cuda_columns.c  the phases of the part of a row that a thread processes
 *   cuda_strips.c   the loops over these columns
 *   cuda_online.c   sums relative to a running maximum
 *   cuda_vector.c   vectors in memory and on the chip
 *   cuda_sums.c, cuda_combine.c
 *                   sums over rows
 *
 * Names in printed kernels, besides those that lower.h lists: t is the thread's
 * index in its row, s the strip, e the element of a vector. in<n> holds a
 * vector that was read, out<b> one that will be written, kept<n> values kept on
 * the chip between phases, sum<n> the array through which warps reduce, held<n>
 * the elements of a vector until its maximum top<n> is known, base<n> the value
 * subtracted from them. In a ragged row, whose length is not a multiple of the
 * vector's (cuda_ragged.c), edge<n> are the kept values outside of its vectors,
 * and `head` is the column at which its vectors begin.
 */
#ifndef PARC_CODEGEN_CUDA_CUDA_LOWER_H
#define PARC_CODEGEN_CUDA_CUDA_LOWER_H

#include "codegen/cuda/cuda_kernel.h"
#include "codegen/kernel/lower.h"

/* One function of a kernel, with its launch parameters. */
typedef struct CudaFunction {
    const char *symbol;
    int nargs, *arg; /* buffers; the workspace comes after all of them */
    int threads, min_blocks; /* as in CudaPlan */
    int64_t grid, shared_bytes;
} CudaFunction;

/* cuda_lower.c: prints a kernel's function and the second function, which adds
 * the parts (grid 0 if there is none). `bare`: without comments. */
void cuda_functions(Out *o, const CudaPlan *plan, const char *name, bool bare,
                    CudaFunction *first, CudaFunction *second);

/* cuda_strips.c. Declares an array of floats in shared memory; the address, as
 * a pointer to `type`, of a byte of the dynamic shared memory. */
void lower_shared(Lowering *c, const char *name);
const char *cuda_in_shared(const Lowering *c, const char *type, int64_t bytes);

/* Opens the loop over a thread's strips of columns, names the
 * columns and tests that they exist. An iteration reads `loads` bytes into
 * registers. */
void cuda_open_strips(Lowering *c, int64_t loads);
/* Opens a loop over pairs of strips, for a phase that reads `loads` bytes of a
 * strip and stores; false: the phase reads single strips. In it, cuda_open_pair
 * opens the loop over both strips. */
bool cuda_open_pairs(Lowering *c, int64_t loads);
void cuda_open_pair(Lowering *c);
/* Opens the loop over a vector's elements if there are several. */
void cuda_open_vector(Lowering *c);
/* Closes all blocks in `outer`. */
void cuda_close(Lowering *c, Stmt *outer);
/* The running index of columns: "c", or "j" if the inner axis is the only
 * column axis. */
const char *cuda_flat_column(const Lowering *c);
/* "head", the column at which a ragged row's vectors begin ("0" if it is always
 * 0), and its definition. */
const char *cuda_row_head(const CudaPlan *c);
void cuda_name_head(Lowering *c);
/* Declares an index of columns. */
void cuda_let_column(Lowering *c, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Names the column of the edge for a work item and tests that it exists. */
void cuda_open_edge(Lowering *c, const char *item);
/* Declares j and the indices along the outer column axes, computed from the
 * running index `from`. */
void cuda_split_columns(Lowering *c, const char *from);
/* cuda_columns.c: as in KernelTarget. */
void cuda_columns(Lowering *c, int phase);
void cuda_finish(Lowering *c, int phase);

/* cuda_online.c: sums relative to a running maximum, computed in the maximum's
 * loop (KERNEL_ONLINE). cuda_online_element: in the loop over a vector's
 * elements, keeps what the sum needs later (false: the root is neither the
 * maximum nor such a sum); cuda_online_begin and _end: the code before and
 * after that loop. */
bool cuda_online_element(Lowering *c, const KernelRoot *root);
void cuda_online_begin(Lowering *c, int phase);
void cuda_online_end(Lowering *c, int phase);

/* cuda_vector.c: vectors in memory and on the chip. */
/* "kept3[s][e]": a thread's own value in an array by strip, lane and element.
 */
const char *cuda_own(const Lowering *c, const char *array, int lane);
/* "e": the index of a lane's element in a vector of computed values. */
const char *cuda_place(const Lowering *c, int lane);
/* The strip in arrays by strip: "s" or "0". */
const char *cuda_strip(const Lowering *c);
/* The buffer that a load reads; NULL: not a load. */
const KernelBuffer *cuda_loaded_buffer(const CudaPlan *p, int instr);
/* Whether 16-bit elements are kept in their memory format, two in a
 * register. */
bool cuda_is_raw(const CudaPlan *p, int instr);
/* Whether the step's values in this phase come from in<n>. */
bool cuda_is_staged(const CudaPlan *p, const KernelStep *step);
/* Whether a step reads a vector that is kept in registers; reads it to
 * kept<n>. */
bool cuda_reads_kept(const CudaPlan *p, const KernelStep *step);
void cuda_read_kept(Lowering *c, const KernelStep *step);
/* Declares in<n> if the step's values come from it. cuda_stage_in: fills it from
 * memory or from kept<n>, unless it is computed; declares it if it does not
 * belong to a pair of vectors. */
void cuda_declare_in(Lowering *c, const KernelStep *step);
void cuda_stage_in(Lowering *c, const KernelStep *step);
/* Writes values that are kept in shared memory, after the loop over
 * elements. */
void cuda_stage_kept(Lowering *c, const KernelStep *step);
/* Declares out<b> of the buffers that a phase stores; with `end`, writes it. */
void cuda_stage_out(Lowering *c, int phase, bool end);
/* As in KernelTarget. */
const char *cuda_element(const Lowering *c, int buffer, int lane);
const char *cuda_value(const Lowering *c, int instr, int lane);
const char *cuda_reused(const Lowering *c, const KernelStep *step, int lane);
const char *cuda_kept(const Lowering *c, int instr, int lane);
bool cuda_stores_vector(const Lowering *c, int buffer);

/* cuda_sums.c: whether reductions of consecutive rows alternate between two
 * arrays, because some warps may still read the sums of the previous row. */
bool cuda_double_buffers_sums(const CudaPlan *c);
/* "sum3", or in a loop with one barrier "sum3[i0 & 1]". */
const char *cuda_sum_array(const Lowering *c, int instr);
/* The sums of a block, and the code that uses them when they are complete:
 * within the block, and in the second kernel (cuda_combine.c). */
void cuda_begin_totals(Lowering *c);
void cuda_end_totals(Lowering *c);
void cuda_combine(Lowering *c);
/* Calls `visit` for each sum by column and lane. */
void cuda_each_column(Lowering *c, void (*visit)(Lowering *,
                                                 const KernelTotal *, int lane));
/* "a8[…]": where a thread accumulates a sum by column. `instr` is the index of
 * a KERNEL_TOTAL instruction. */
const char *cuda_column_sum(const Lowering *c, int instr, int lane);
/* Whether anything is summed by column or computed from such a sum. */
bool cuda_has_column_sums(const CudaPlan *p);
/* Columns of a row, including both lanes of a pair. */
int64_t cuda_row_length(const CudaPlan *p);

#endif
