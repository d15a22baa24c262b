/* cuda_kernel.h: between the files that print CUDA kernels: cuda_plan.c (how a
 * kernel runs), cuda_access.c (how it reaches its buffers), cuda_steps.c (what
 * each phase computes, and what stays on the chip), cuda_kernel.c (the
 * functions), cuda_body.c (phases), cuda_online.c (maxima with the sums behind
 * them), cuda_columns.c, cuda_ragged.c and cuda_vector.c (what a thread owns of a
 * row), cuda_sums.c and cuda_combine.c (sums over rows) and cuda_launch.c; over
 * kernel_text.h.
 *
 * Names in printed kernels, beside those of kernel_text.h: t is the thread
 * within its row, s the slot of columns and e the element of a vector; in<n>
 * holds a vector that was read, out<b> one to be written, kept<n> what stays
 * on the chip between phases (edge<n>: at a ragged row's edge), sum<n> what
 * warps reduce through; held<n> the elements of a vector that wait for its
 * maximum top<n>, and base<n> what is taken off them; vectors of a row begin
 * `lead` elements on.
 */
#ifndef PARC_CODEGEN_CUDA_KERNEL_H
#define PARC_CODEGEN_CUDA_KERNEL_H

#include "codegen/kernel_text.h"

/* Which threads take which elements. */
typedef enum CudaForm {
    CUDA_FLAT, /* a thread takes a vector anywhere: no row is reduced */
    CUDA_ROWS, /* a warp or a block takes a row */
    CUDA_TILES /* sums by column and no row reductions: a block takes the
                  columns of a warp's vectors, its warps the rows */
} CudaForm;

/* Where a row stays from one phase to the next. */
typedef enum CudaPlace {
    CUDA_REGISTERS,
    CUDA_SHARED,  /* in dynamic shared memory, a thread's own columns */
    CUDA_STREAMED /* nowhere: it is read and computed again */
} CudaPlace;

typedef struct CudaStep {
    int instr;
    bool kept; /* by an earlier phase */
} CudaStep;

typedef struct CudaPhase {
    int nsteps, nrow, *row;
    CudaStep *step;
    bool loop;      /* over columns */
    int reductions; /* of the row */
} CudaPhase;

typedef struct CudaPlan {
    const Program *p;
    Kernel *k; /* its own: roots, totals and flags are as they run here */
    CudaForm form;
    CudaPlace place;
    uint32_t kept, summed, outer; /* axes without the merged one; outer: of
                                     columns, but for inner and pair */
    int inner, merged; /* axes: -1: none; blocks are merged into the inner */
    int64_t length;    /* of the inner axis */
    int64_t units, rows, columns; /* columns: without the pair axis */
    int lanes;                    /* of columns */
    int vector;        /* neighbours on the inner axis that a thread takes */
    const KernelBuffer *guide; /* rows are ragged: they begin at any element,
                                  vectors where this one's are aligned; NULL:
                                  vectors fill a row */
    const struct CudaPlan *edge; /* how a ragged row's edge runs; else NULL */
    bool at_edge;                /* this is such a plan */
    int threads;       /* of a block */
    int blocks;        /* that fit a multiprocessor's registers; 0: as many as
                          the compiler likes */
    int group, groups; /* threads of a row; rows that a block works on */
    int slots;         /* vectors of a row that a thread takes */
    int64_t turns;     /* flat: that threads take for all elements, or for
                          those of a unit's sums */
    int nphases;
    CudaPhase *phase;
    bool *keep;       /* by instruction: stays on the chip */
    bool *uniform;    /* by total: all threads of a row have the row's term */
    int64_t *keep_at; /* by instruction: bytes into shared memory */
    bool totals;      /* a block works on many rows, or vectors, and sums */
    bool global_sums; /* column sums lie in the workspace from the start */
    int64_t parts, tiles, grid;
    bool combine; /* parts are put together by a second kernel */
    int combine_warps;
    int64_t combine_grid;
    int64_t block_memory;          /* shared memory that a block may have */
    int64_t shared_bytes, sums_at; /* dynamic; where column sums lie in it */
    const struct CudaPlan *tight; /* how it runs where a block has no more than
                                     RT_BLOCK_LEAST; NULL: as it does here */
} CudaPlan;

/* How a fused op runs on a GPU, with its twin; in the program's arena. The
 * kernel's workspace is enough for both. */
const CudaPlan *cuda_plan(const Program *p, const Op *fused);

/* Bytes that a call moves (cuda_cost.c). `least`: what it reads and writes,
 * once; `again`: more, of rows that do not fit the chip; `sums`: written as
 * parts, and read by the second kernel. */
typedef struct CudaCost {
    int64_t least, read, written, again, sums;
} CudaCost;
CudaCost cuda_cost(const CudaPlan *c);

/* Bytes of workspace that it needs; whether result `out` may be written where
 * operand `arg` lies: threads run in any order, so that an element may be
 * overwritten only by the thread that read it, and nobody else reads it. */
int64_t cuda_kernel_workspace(const Program *p, const Op *fused);
bool cuda_kernel_in_place(const Program *p, const Op *fused, int out, int arg);

/* cuda_access.c. cuda_shares: cuda_kernel_in_place, of a plan and its twin. */
bool cuda_shares(const CudaPlan *c, int out, int arg);
/* Sets how many neighbours a thread takes, for the plan's form; `ragged`: rows
 * may be. */
void cuda_choose_vector(CudaPlan *c, bool ragged);
/* How many of a vector's elements a buffer moves at once: as many, of each
 * lane, as are aligned wherever a vector begins; 1: it has no vectors. */
int cuda_width(const CudaPlan *c, const KernelBuffer *b);
/* Whether elements of a buffer move as vectors, and if both lanes of a pair
 * lie in one. */
bool cuda_is_vector(const CudaPlan *c, const KernelBuffer *b);
bool cuda_is_interleaved(const CudaPlan *c, const KernelBuffer *b);
/* Whether a row's value of the phase is picked from among its elements. */
bool cuda_is_picked(const CudaPlan *c, const CudaPhase *phase, int buffer);
/* Whether four random numbers at a time fall into a thread's vector. */
bool cuda_draws_four(const CudaPlan *c, const KernelInstr *instr);

/* cuda_ragged.c: whether rows that vectors do not fill can have them all the
 * same; sets `guide`. */
bool cuda_is_ragged(CudaPlan *c);
/* Turns that threads of a flat kernel take for `length` elements. */
int64_t cuda_row_turns(const CudaPlan *c);
/* The plan of a ragged row's edge: an element a turn. */
const CudaPlan *cuda_edge_plan(const CudaPlan *c);
/* The plan by which a thread takes the same columns whatever row there is, for
 * what surrounds rows. */
const CudaPlan *cuda_column_plan(const CudaPlan *c);

/* Whether a row's reductions alternate between two places: see cuda_body.c. */
bool cuda_alternates(const CudaPlan *c);

/* Fills phases: steps, rows and what is kept (nothing where `streamed`). */
void cuda_steps(CudaPlan *c, bool streamed);

/* ---- printing ------------------------------------------------------------ */

typedef struct CudaPrinter {
    KernelPrinter text; /* first: expressions get this */
    const CudaPlan *plan;
    const bool *staged; /* by instruction: its values are in in<n> */
    const char *row;    /* the running number of rows, or their only index */
    const char *block;  /* the block's number */
} CudaPrinter;

/* One of a kernel's functions, as it is launched. */
typedef struct CudaFunction {
    const char *symbol;
    int nargs, *arg; /* buffers; behind all of them the workspace */
    int threads, blocks; /* blocks: as in CudaPlan */
    int64_t grid, shared_bytes;
} CudaFunction;

/* cuda_kernel.c: prints a kernel's function, and the second one that puts
 * parts together (its grid is 0 where there is none). `bare`: without
 * comments. */
void cuda_functions(Out *o, const CudaPlan *plan, const char *name, bool bare,
                    CudaFunction *first, CudaFunction *second);

/* cuda_body.c: all phases of a row, or of a vector; ahead of a loop over them,
 * what is the same in all. */
void cuda_body(CudaPrinter *c);
void cuda_ahead(CudaPrinter *c);

/* cuda_online.c: sums behind a maximum, in the maximum's loop (KERNEL_ONLINE).
 * In the loop over a vector's elements either's root leaves what is summed
 * later (false: the root is neither); what is declared ahead of that loop, and
 * what follows behind it, for all of the phase; how a sum is put where warps
 * meet, in place of block_put's argument, and taken from there. */
bool cuda_online_element(CudaPrinter *c, const KernelRoot *root);
void cuda_online_begin(CudaPrinter *c, int phase);
void cuda_online_end(CudaPrinter *c, int phase);
const char *cuda_online_warp(const CudaPrinter *c, int sum);
const char *cuda_online_block(const CudaPrinter *c, int sum);
/* "sum3", or in a loop with one barrier "sum3[i0 & 1]" (cuda_body.c). */
const char *cuda_sum_array(const CudaPrinter *c, int instr);
/* A PICK as statements. */
void cuda_pick(CudaPrinter *c, int instr);

/* cuda_columns.c: the loop over a thread's slots of columns: opens it, names the
 * columns, and asks whether they exist; how many blocks it opened. */
int cuda_open_slots(CudaPrinter *c);
int cuda_open_block(CudaPrinter *c, const char *line);
void cuda_close_blocks(CudaPrinter *c, int n);
/* cuda_ragged.c: "lead", the number of the column at which a ragged row's
 * vectors begin, where it is not 0 (""), and its definition. */
const char *cuda_lead(const CudaPlan *c);
void cuda_name_lead(CudaPrinter *c);
/* Names the column of a row's edge that is that turn's, and asks whether it
 * exists; how many blocks it opened. */
int cuda_open_edge(CudaPrinter *c, const char *turn);

/* j, and the outer column axes, from a running number. */
void cuda_split_columns(CudaPrinter *c, const char *from);
/* "const int j", or int64_t where offsets along the columns need it. */
const char *cuda_column_type(const CudaPlan *c);
/* Opens the loop over a vector's elements where there are several, and closes
 * what that opened. */
int cuda_open_vector(CudaPrinter *c);
void cuda_close_vector(CudaPrinter *c, int opened);

/* cuda_vector.c: vectors in memory and on the chip. */
KernelExpression cuda_load_expression, cuda_random_expression;
/* "kept3": what stays of an instruction. */
const char *cuda_kept(const CudaPrinter *c, int instr);
/* "kept3[s][e]": a thread's own value of an array by slot, lane and element. */
const char *cuda_own(const CudaPrinter *c, const char *array, int lane);
/* "2 * e + 1": the place of a lane's element in a vector, of a buffer or (NULL)
 * of computed values. */
const char *cuda_place_in(const CudaPrinter *c, const KernelBuffer *b,
                          int lane);
/* "in3[e]" */
const char *cuda_in_vector(const CudaPrinter *c, int instr, int lane);
/* What a load reads; NULL: it is no load. */
const KernelBuffer *cuda_loaded_buffer(const CudaPrinter *c, int instr);
/* Elements of 16 bits stay as they are in memory, two in a register. */
bool cuda_is_raw(const CudaPrinter *c, int instr);
/* Whether its values of this phase pass through in<n>. */
bool cuda_is_staged(const CudaPrinter *c, const CudaStep *step);
/* Brings a step's vector into in<n>, where it does not come of arithmetic. */
void cuda_stage_in(CudaPrinter *c, const CudaStep *step);
/* Values that are kept in shared memory go there behind the elements. */
void cuda_stage_kept(CudaPrinter *c, const CudaStep *step);
/* out<b> of a buffer is named, and at the `end` written. */
void cuda_stage_out(CudaPrinter *c, const KernelBuffer *b, bool end);

/* cuda_unused.c: whether a name stands in a text as a word; a function's lines
 * without constants that nobody uses. */
bool cuda_mentions(const char *text, const char *name);
const char *cuda_without_unused(Arena *a, const char *text);

/* cuda_sums.c, cuda_combine.c: what a block adds up, and what follows when all is
 * there. */
void cuda_begin_totals(CudaPrinter *c);
void cuda_end_totals(CudaPrinter *c);
void cuda_combine(CudaPrinter *c);
/* "a8[…]" where a thread adds to a sum by column. */
const char *cuda_column_sum(const CudaPrinter *c, int instr, int lane);

#endif
