/* cuda_kernel.h: types and functions that the files of the CUDA kernel printer
 * share. They print a kernel of the kernel IR (kernel.h) as CUDA C++.
 *
 *   cuda_plan.c     assigns rows and columns to blocks and threads
 *   cuda_access.c   chooses the vectors in which buffers are read and written
 *   cuda_phases.c   lists what each phase computes, and what stays on the chip
 *   cuda_kernel.c   prints functions and their loops over rows
 *   cuda_body.c     prints the phases of a row
 *   cuda_online.c   prints sums relative to a running maximum
 *   cuda_columns.c, cuda_ragged.c, cuda_vector.c
 *                   print the part of a row that a thread processes
 *   cuda_sums.c, cuda_combine.c
 *                   print sums over rows
 *   cuda_launch.c   prints the host functions that launch the kernels
 *
 * Names in printed kernels, besides those that kernel_text.h lists: t is the
 * thread's index in its row, s the slot, e the element of a vector. in<n> holds
 * a vector that was read, out<b> one that will be written, kept<n> values kept
 * on the chip between phases, sum<n> the array through which warps reduce,
 * held<n> the elements of a vector until its maximum top<n> is known, base<n>
 * the value subtracted from them. In a ragged row, whose length is not a
 * multiple of the vector's (cuda_ragged.c), edge<n> are the kept values outside
 * of its vectors, and `head` is the column at which its vectors begin.
 *
 * A pair axis has size 2: one thread processes both elements (lanes) of a pair,
 * as rotary embeddings need. A total (KERNEL_TOTAL) is a sum over rows; a
 * reduction (KERNEL_REDUCE) is a sum or maximum within a row.
 */
#ifndef PARC_CODEGEN_CUDA_CUDA_KERNEL_H
#define PARC_CODEGEN_CUDA_CUDA_KERNEL_H

#include "codegen/kernel/kernel_text.h"

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

typedef struct CudaStep {
    int instr;
    bool reused; /* an earlier phase computed it, and it is on the chip */
} CudaStep;

typedef struct CudaPhase {
    int nsteps, nrow, *row;
    CudaStep *step;
    bool loop;      /* has a loop over columns */
    int reductions; /* number of row reductions */
} CudaPhase;

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
    int64_t units, rows, columns; /* columns: without the pair axis */
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
    int slots;         /* vectors of a row that a thread processes */
    int64_t items;     /* flat form: number of work items, for all elements or
                        * for those of a unit's sums */
    int nphases;
    CudaPhase *phase;
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
bool cuda_is_picked(const CudaPlan *c, const CudaPhase *phase, int buffer);
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

/* cuda_sums.c: whether reductions of consecutive rows alternate between two
 * arrays, because some warps may still read the sums of the previous row. */
bool cuda_double_buffers_sums(const CudaPlan *c);

/* cuda_phases.c: lists the steps and row values of each phase in the plan, and
 * chooses the values to keep between phases (none if `streamed`). */
void cuda_plan_phases(CudaPlan *c, bool streamed);

/* ---- printing ------------------------------------------------------------ */

typedef struct CudaPrinter {
    KernelPrinter text; /* first: the functions that print expressions receive
                         * this */
    const CudaPlan *plan;
    const bool *staged; /* by instruction: its values are in in<n> */
    const char *row;    /* the index of the row, as C */
    const char *column; /* the declaration of the column of a slot, and where it
                         * is inserted if it is used; NULL: outside of slots */
    size_t column_at;
    const char *block;  /* the number of the block, as C */
} CudaPrinter;

/* cuda_sums.c: "sum3", or in a loop with one barrier "sum3[i0 & 1]". */
const char *cuda_sum_array(const CudaPrinter *c, int instr);

/* One function of a kernel, with its launch parameters. */
typedef struct CudaFunction {
    const char *symbol;
    int nargs, *arg; /* buffers; the workspace comes after all of them */
    int threads, min_blocks; /* as in CudaPlan */
    int64_t grid, shared_bytes;
} CudaFunction;

/* cuda_kernel.c: prints a kernel's function and the second function, which adds
 * the parts (grid 0 if there is none). `bare`: without comments. */
void cuda_functions(Out *o, const CudaPlan *plan, const char *name, bool bare,
                    CudaFunction *first, CudaFunction *second);

/* cuda_body: prints all phases of a row or a vector. cuda_ahead: prints,
 * before the loop over rows or vectors, the values that are the same in all
 * iterations. */
void cuda_body(CudaPrinter *c);
void cuda_ahead(CudaPrinter *c);

/* cuda_online.c: sums relative to a running maximum, computed in the maximum's
 * loop (KERNEL_ONLINE). cuda_online_element: in the loop over a vector's
 * elements, keeps what the sum needs later (false: the root is neither the
 * maximum nor such a sum); cuda_online_begin and _end: the code before and
 * after that loop; cuda_online_warp and _block: the reduction across warps, in
 * place of the argument of block_put and of block_get. */
bool cuda_online_element(CudaPrinter *c, const KernelRoot *root);
void cuda_online_begin(CudaPrinter *c, int phase);
void cuda_online_end(CudaPrinter *c, int phase);
const char *cuda_online_warp(const CudaPrinter *c, int sum);
const char *cuda_online_block(const CudaPrinter *c, int sum);
/* Prints a PICK as statements. */
void cuda_pick(CudaPrinter *c, int instr);

/* cuda_columns.c: opens the loop over a thread's slots of columns, names the
 * columns and tests that they exist; returns the number of blocks opened. An
 * iteration reads `loads` bytes into registers. */
int cuda_open_slots(CudaPrinter *c, int64_t loads);
/* Closes these blocks. */
void cuda_close_slots(CudaPrinter *c, int opened);
int cuda_open_block(CudaPrinter *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void cuda_close_blocks(CudaPrinter *c, int n);
/* The running index of columns: "c", or "j" if the inner axis is the only
 * column axis. */
const char *cuda_flat_column(const CudaPrinter *c);
/* "head", the column at which a ragged row's vectors begin (""
 * if it is always 0), and its definition. */
const char *cuda_row_head(const CudaPlan *c);
void cuda_name_head(CudaPrinter *c);
/* Names the column of the edge for a work item and tests that it exists;
 * returns the number of blocks opened. */
int cuda_open_edge(CudaPrinter *c, const char *item);

/* Prints j and the indices along the outer column axes, computed from the
 * running index `from`. */
void cuda_split_columns(CudaPrinter *c, const char *from);
/* The C type of a column index: "int", or "int64_t" if offsets along the
 * columns need it. */
const char *cuda_column_type(const CudaPlan *c);
/* Opens the loop over a vector's elements if there are several; closes it. */
int cuda_open_vector(CudaPrinter *c);
void cuda_close_vector(CudaPrinter *c, int opened);

/* cuda_vector.c: vectors in memory and on the chip. */
KernelExpression cuda_load_expression, cuda_random_expression;
/* "kept3": the kept values of an instruction. */
const char *cuda_kept(const CudaPrinter *c, int instr);
/* "kept3[s][e]": a thread's own value in an array by slot, lane and element. */
const char *cuda_own(const CudaPrinter *c, const char *array, int lane);
/* "2 * e + 1": the index of a lane's element in a vector of a buffer, or (NULL)
 * of computed values. */
const char *cuda_place_in(const CudaPrinter *c, const KernelBuffer *b,
                          int lane);
/* "in3[e]": an element of a vector that was read. */
const char *cuda_in_vector(const CudaPrinter *c, int instr, int lane);
/* The buffer that a load reads; NULL: not a load. */
const KernelBuffer *cuda_loaded_buffer(const CudaPrinter *c, int instr);
/* Whether 16-bit elements are kept in their memory format, two in a
 * register. */
bool cuda_is_raw(const CudaPrinter *c, int instr);
/* Whether the step's values in this phase come from in<n>. */
bool cuda_is_staged(const CudaPrinter *c, const CudaStep *step);
/* Reads a step's vector into in<n> if it is not computed. */
void cuda_stage_in(CudaPrinter *c, const CudaStep *step);
/* Writes values that are kept in shared memory, after the loop over
 * elements. */
void cuda_stage_kept(CudaPrinter *c, const CudaStep *step);
/* Declares out<b> of a buffer; with `end`, writes it. */
void cuda_stage_out(CudaPrinter *c, const KernelBuffer *b, bool end);

/* cuda_sums.c, cuda_combine.c: the sums of a block, and the code that uses them
 * when they are complete. */
void cuda_begin_totals(CudaPrinter *c);
void cuda_end_totals(CudaPrinter *c);
void cuda_combine(CudaPrinter *c);
/* "a8[…]": where a thread accumulates a sum by column. `instr` is the index of
 * a KERNEL_TOTAL instruction, also below. */
const char *cuda_column_sum(const CudaPrinter *c, int instr, int lane);

/* cuda_epilogue.c, which holds what the printers of sums share. The value that
 * a sum or maximum starts with, "0.0f" or "-INFINITY"; its kind, "sum" or
 * "max". */
const char *cuda_sum_start(const CudaPlan *p, int instr);
const char *cuda_sum_kind(const CudaPlan *p, int instr);
/* Columns of a row, including both lanes of a pair. */
int64_t cuda_row_length(const CudaPlan *p);
/* "name + offset" */
const char *cuda_at_offset(Arena *a, const char *name, int64_t offset);

/* Whether anything is summed by column or computed from such a sum. */
bool cuda_has_column_sums(const CudaPlan *p);
/* Declares a complete sum with the value `text`. */
void cuda_declare_sum(CudaPrinter *c, int instr, int lane, const char *text);
/* Print the epilogue: the code computed once for a work unit, whose stores run
 * in the thread for which `one` holds; the code for a column. */
void cuda_epilogue_scalars(CudaPrinter *c, const char *one);
void cuda_epilogue_column(CudaPrinter *c);

#endif
