/* cuda_kernel.h: the plan by which a kernel of the kernel IR (kernel.h) runs on
 * a GPU.
 *
 *   cuda_plan.c     assigns rows and columns to blocks and threads
 *   cuda_access.c   chooses the vectors in which buffers are read and written
 *   cuda_ragged.c   plans rows whose length is not a multiple of the vector's
 *   cuda_phases.c   lists what each phase computes, and what stays on the chip
 *   cuda_cost.c     counts the bytes that a kernel moves
 *   cuda_lower.h    lowers the kernel by its plan to loops, which are printed
 *   cuda_launch.c   prints the kernels and the host functions that launch them
 *
 * A pair axis has size 2: one thread processes both elements (lanes) of a pair,
 * as rotary embeddings need. A total (KERNEL_TOTAL) is a sum over rows; a
 * reduction (KERNEL_REDUCE) is a sum or maximum within a row.
 */
#ifndef PARC_CODEGEN_CUDA_CUDA_KERNEL_H
#define PARC_CODEGEN_CUDA_CUDA_KERNEL_H

#include "codegen/kernel/kernel.h"

/* Threads of a warp, most threads of a block, bytes of the widest access of a
 * thread, bytes of a float. */
enum {
    CUDA_WARP = 32,
    MAX_THREADS = 1024,
    VECTOR_BYTES = 16,
    FLOAT_BYTES = sizeof(float)
};

/* How elements are assigned to threads. */
typedef enum CudaForm {
    CUDA_FLAT, /* no row is reduced: a thread processes any vector */
    CUDA_ROWS, /* a warp or a block processes a row */
    CUDA_TILES /* sums by column without row reductions: a block processes the
                * columns of one warp's vectors, each of its warps some of the
                * rows */
} CudaForm;

/* Where the values of a row are kept between phases. */
typedef enum CudaStorage {
    CUDA_REGISTERS,
    CUDA_SHARED,  /* in dynamic shared memory; each thread accesses only its
                   * own columns */
    CUDA_STREAMED /* not kept: read and recomputed */
} CudaStorage;

typedef struct CudaPlan {
    const Program *p;
    Kernel *k; /* a private copy: planning changes its roots and totals */
    CudaForm form;
    CudaStorage storage;
    uint32_t kept_axes, summed,
        outer;         /* sets without the merged axis; outer:
                        * the column axes except inner and pair */
    int inner, merged; /* axes, -1: none; an axis of column blocks is merged
                        * into the inner one */
    int64_t length;    /* length of the inner axis */
    int64_t tasks, rows, columns; /* columns: without the pair axis */
    int lanes;                    /* 2: columns include a pair axis; else 1 */
    int vector;        /* neighbors on the inner axis that a thread processes
                        * at a time */
    const KernelBuffer *guide; /* rows are ragged: they begin at any element,
                                * and vectors begin where this buffer is
                                * aligned; NULL: vectors fill a row */
    const struct CudaPlan *edge; /* plan of a ragged row's edge; else NULL */
    bool at_edge;                /* this plan is the plan of an edge */
    int threads;       /* threads of a block */
    int min_blocks;    /* resident blocks of a multiprocessor, at least, as in
                        * __launch_bounds__; 0: the compiler's choice */
    int row_threads;   /* threads that process a row */
    int block_rows;    /* rows that a block processes at a time */
    int strips;        /* vectors of a row that a thread processes */
    int64_t items;     /* flat form: number of work items, for all elements or
                        * for those of a task's sums */
    int nphases;
    KernelPhase *phase;
    bool *on_chip;    /* by instruction: kept on the chip between phases */
    bool *uniform;    /* by total: all threads of a row have the row's term */
    int64_t *on_chip_at; /* by instruction: byte offset in shared memory */
    bool totals;      /* a block processes many rows or vectors and sums over
                       * them */
    bool global_sums; /* column sums are in the workspace from the start */
    int64_t parts, tiles, grid;
    bool combine; /* a second kernel adds the parts */
    int combine_warps;
    int64_t combine_grid;
    int64_t block_memory;          /* shared memory that a block may use */
    int64_t shared_bytes, sums_at; /* dynamic shared memory; offset of the
                                    * column sums in it */
    const struct CudaPlan *low_shared; /* the variant for GPUs whose blocks have
                                        * only RT_SHARED_MIN; NULL: this plan */
} CudaPlan;

/* The plan of a fused op on a GPU, with its variant for less shared memory, in
 * the program's arena. The kernel's workspace is large enough for both. */
const CudaPlan *cuda_plan(const Program *p, const Op *fused);

/* The number of sums by column. */
int cuda_column_totals(const CudaPlan *c);

/* Bytes that a call moves (cuda_cost.c). `least`: every input and output once;
 * `reread`: repeated reads of rows that do not fit on the chip; `sums`: partial
 * sums, written and read by the second kernel. */
typedef struct CudaCost {
    int64_t least, read, written, reread, sums;
} CudaCost;
CudaCost cuda_cost(const CudaPlan *c);

/* Bytes of workspace that the kernel needs; whether result `out` may overwrite
 * operand `arg`. Threads run in any order: an element may be overwritten only
 * by the only thread that reads it. */
int64_t cuda_kernel_workspace(const Program *p, const Op *fused);
bool cuda_kernel_in_place(const Program *p, const Op *fused, int out, int arg);

/* cuda_access.c. cuda_shares: cuda_kernel_in_place for a plan and its
 * variant. */
bool cuda_shares(const CudaPlan *c, int out, int arg);
/* How many elements of a vector one access to a buffer moves: in each lane, the
 * most that are aligned at every start of a vector; 1: single elements. */
int cuda_width(const CudaPlan *c, const KernelBuffer *b);
/* Whether elements of a buffer are moved as vectors, and whether such a vector
 * contains both lanes of a pair. */
bool cuda_is_vector(const CudaPlan *c, const KernelBuffer *b);
bool cuda_is_interleaved(const CudaPlan *c, const KernelBuffer *b);
/* Whether a row value of the phase is picked from the buffer's elements. */
bool cuda_is_picked(const CudaPlan *c, const KernelPhase *phase, int buffer);
/* Whether groups of four random numbers coincide with parts of a vector. */
bool cuda_draws_four(const CudaPlan *c, const KernelInstr *instr);

/* cuda_ragged.c: sets the vector width for the plan's form; `ragged`: ragged
 * rows are allowed. */
void cuda_choose_vector(CudaPlan *c, bool ragged);
/* Work items of a row of a flat kernel. */
int64_t cuda_row_items(const CudaPlan *c);
/* The plan of a ragged row's edge: one element for each work item. */
const CudaPlan *cuda_edge_plan(const CudaPlan *c);
/* The plan for code outside the loop over rows, in which a thread has the same
 * columns for every row. */
const CudaPlan *cuda_column_plan(const CudaPlan *c);

/* cuda_phases.c: lists the steps and row values of each phase in the plan, and
 * chooses the values to keep between phases: none, those that save a read of the
 * row or a costly computation, or also those that are better read early. */
typedef enum CudaKeeping {
    CUDA_KEEP_NOTHING,
    CUDA_KEEP_COSTLY,
    CUDA_READ_EARLY
} CudaKeeping;
void cuda_plan_phases(CudaPlan *c, CudaKeeping keeping);

#endif
