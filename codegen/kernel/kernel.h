/* kernel.h: defines the kernel IR, from which CPU and CUDA code is printed.
 *
 * A kernel is one fused op: instructions over an iteration space of rows x
 * columns (passes/fusion/fuse_space.h), ordered in phases. The axes of the rows
 * are either kept (results have them) or summed over:
 *
 *   for each task = (index over the kept axes, part of the summed rows)
 *       accumulators = 0
 *       for each row of the part
 *           for each phase
 *               row instructions, stores and accumulations
 *               for each column: element instructions; stores, row
 *                   reductions, accumulations by column
 *       accumulators -> workspace, or straight to the result
 *   combine the parts in order; epilogue instructions and stores
 *
 * A row reduction ends a phase: instructions that use its result belong to the
 * next. (These phases divide the work on one row; they are not the phases of a
 * step.) Element values that a later phase needs are recomputed from memory
 * there, or read back if the row has stored them. A costly value is kept in the
 * row of a result that is written later, or, if that has 16 bits, in a separate
 * row.
 *
 * The number of parts depends on shapes only, so that sums do not depend on the
 * number of threads.
 *
 * Buffers have element types; between a load and a store every float is f32,
 * including a cast to bf16 or f16 in between: the value is rounded once, when
 * it is stored.
 *
 * Calling convention: results, then operands, in the order of the fused op,
 * then the workspace (float *) if the kernel needs one. A result and an operand
 * may be the same memory if kernel_in_place() says so.
 */
#ifndef PARC_CODEGEN_KERNEL_KERNEL_H
#define PARC_CODEGEN_KERNEL_KERNEL_H

#include "passes/fusion/fuse_space.h"

typedef enum KernelCode {
    KERNEL_LOAD,   /* an element of `buffer` */
    KERNEL_CONST,  /* `number` */
    KERNEL_INDEX,  /* the index along a dim (plus arg 0, its base, if given) */
    KERNEL_RANDOM, /* drawn from the key arg 0 and the index; the other args
                    * are the bases of the index, one for each dim or none */
    KERNEL_ONEHOT, /* 1 where the index is arg 0 (minus arg 1, the base) */
    KERNEL_ROTARY, /* arg 0 rotated by cos arg 1, sin arg 2 with the other
                    * element of its pair; `number` is -1 for the inverse */
    KERNEL_OP,     /* elementwise `op` on the args; `number` its attribute */
    KERNEL_REDUCE, /* row reduction of arg 0 */
    KERNEL_TOTAL,  /* accumulation of arg 0 over rows: `accumulator` */
    KERNEL_ONLINE, /* the row's sum of exp(x - arg 0), times arg 1 if given, in
                    * the phase that computes arg 0, the row's maximum x */
    KERNEL_PICK,   /* arg 0 (not the result of an op) in the column given by
                    * arg 1, a ONEHOT; 0 if the column is not in the row */
} KernelCode;

typedef struct KernelInstr {
    KernelCode code;
    OpKind op;        /* OP; REDUCE, TOTAL, ONLINE: OP_sum or OP_max */
    const Op *source; /* NULL: a load */
    DType dtype;
    int nargs, arg[MAX_DIMS + 1]; /* instructions */
    double number;
    int buffer;                 /* LOAD */
    int accumulator;            /* TOTAL */
    uint32_t axes;              /* axes along which its value varies */
    int64_t stride[SPACE_AXES]; /* INDEX, ONEHOT, RANDOM: index strides */
    int phase;                  /* first phase that can compute it */
    bool epilogue;              /* a TOTAL, or computed from one */
} KernelInstr;

typedef struct KernelBuffer {
    const char *name;   /* a C identifier, unique in the kernel */
    const Value *value; /* the fused op's result or operand */
    DType dtype;
    bool out, shared; /* shared: may overlap another buffer */
    uint32_t axes;
    int64_t stride[SPACE_AXES];
    int64_t elements;
    int64_t alignment; /* in elements: the buffer begins at a multiple of it
                        * from an aligned address of the arena; 0: aligned */
} KernelBuffer;

/* An effect of a row or an element. */
typedef enum RootKind { ROOT_STORE, ROOT_REDUCE, ROOT_TOTAL } RootKind;
typedef struct KernelRoot {
    RootKind kind;
    int instr;    /* the instruction whose value is used */
    int target;   /* STORE: buffer; REDUCE, TOTAL: the instruction */
    bool element; /* runs for each column, not once for a row */
    bool epilogue;
    int phase;
} KernelRoot;

typedef struct KernelStep {
    int instr;
    bool reused; /* not computed: an earlier phase has computed and kept it */
    bool early;  /* CUDA: only read, for a later phase */
    int buffer;  /* reused on the CPU: the buffer from which it is read back */
} KernelStep;

typedef struct KernelPhase {
    int nrow, *row; /* instructions computed once for a row */
    int nelement;
    KernelStep *element; /* instructions in the loop over columns */
    bool loop;           /* whether the phase has a loop over columns */
    int reductions;      /* number of row reductions (CUDA) */
} KernelPhase;

/* Sums over rows. `columns`: one for each column, else a scalar. Stored in the
 * workspace as [task][columns], or directly in the result `buffer`. */
typedef struct KernelTotal {
    int instr, arg;
    bool columns, direct;
    int buffer;                 /* direct: the result */
    int64_t offset;             /* not direct: floats into the workspace */
    int64_t stride[SPACE_AXES]; /* strides along column axes */
} KernelTotal;

typedef struct Kernel {
    const char *name;
    const Op *op; /* the fused op */
    Space space;
    int ninstrs, nbuffers, nroots, nphases, ntotals;
    KernelInstr *instr;
    KernelBuffer *buffer; /* results, then operands */
    bool keeps_row;       /* buffer[nbuffers]: an additional row of f32, for a
                           * value that no result's row can keep */
    KernelRoot *root;
    KernelPhase *phase;
    KernelTotal *total;
    int nkept, *kept;           /* epilogue instructions, once for each kept
                                 * index */
    int ncolumn, *column;       /* epilogue, once for each column */
    int64_t tasks, parts, rows; /* kept indices; parts of summed rows; summed
                                   rows */
    int64_t columns;            /* elements of a row */
    int64_t work;               /* elements, of all rows */
    int64_t workspace;          /* bytes */
} Kernel;

/* The kernel of a fused op, in the program's arena. */
const Kernel *kernel_build(const Program *p, const Op *fused);
/* NULL, or why a fused op of an edited dump cannot be a kernel. */
const char *kernel_fault(const Program *p, const Op *fused);

/* The kernel without choices for a CPU's cache: no value is kept or read back,
 * no buffer is marked as shared; the caller chooses parts, workspace and direct
 * sums. */
Kernel *kernel_build_plain(const Program *p, const Op *fused);

/* The number of indices over a set of axes. */
int64_t space_size(const Space *s, uint32_t axes);

/* The innermost column axis; -1: the kernel has no columns. */
int kernel_inner_axis(const Kernel *k);
/* 2 for values that vary along the pair axis, else 1. */
int kernel_lanes(const Kernel *k, uint32_t axes);

/* kernel_phase.c. kernel_phases: orders instructions into phases and assigns
 * memory to sums over rows. `cached`: values for later phases may be read back,
 * because the row is in the cache. kernel_order: only lists what each phase
 * computes, from the phases of roots and instructions. */
void kernel_phases(const Program *p, Kernel *k, bool cached);
void kernel_order(const Program *p, Kernel *k, bool cached);

/* Moves sums relative to a maximum into the maximum's phase if that saves a
 * loop over the columns; returns whether the kernel (of kernel_build_plain)
 * changed. For rows that are read from memory in each phase.
 * (kernel_online.c) */
bool kernel_online(const Program *p, Kernel *k);

/* Whether one of n instructions loads an element of the buffer. */
bool kernel_loads(const Kernel *k, int n, const int *instr, int buffer);

/* Whether result `out` may overwrite operand `arg`. */
bool kernel_in_place(const Kernel *k, int out, int arg);

/* Bytes read and written if every buffer is accessed once. */
int64_t kernel_bytes(const Kernel *k);

/* "llama.pdl:41", or "" if the location is unknown. */
const char *kernel_where(const Program *p, Loc loc);

/* ---- cpu_kernel.c: kernels as C ------------------------------------------ */

/* Finds the kernels of p's side programs that p or an earlier one has too:
 * they take its name and are emitted once. */
void kernels_share(Program *p);

/* "k07_attention_norm" */
const char *kernel_name(const Program *p, const Op *fused, int number);

/* Calls `visit` for each kernel of a training step and its side programs in
 * order, with its number; of equal kernels (kernels_share) for the first. */
typedef void KernelVisit(void *context, const Program *p, const Op *fused,
                         int number);
void kernel_each(const Program *p, KernelVisit *visit, void *context);
/* Print the function to an Out, and its prototype. Kernels include parc_rt.h and
 * parc_math.h; they compile as C11 with OpenMP, without warnings. */
KernelVisit cpu_kernel_emit, cpu_kernel_prototype;

static inline bool kernel_is_element(const Kernel *k, uint32_t axes)
{
    return (axes & k->space.column) != 0;
}

#endif
