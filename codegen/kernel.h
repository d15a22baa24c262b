/* kernel.h: the kernel IR, from which CPU and CUDA code is printed.
 *
 * A kernel is one fused op: instructions over an iteration space (see
 * passes/fuse_space.h) of rows x columns, ordered in phases:
 *
 *   for each unit = (index over the kept axes, part of the summed rows)
 *       accumulators = 0
 *       for each row of the part
 *           for each phase
 *               row instructions, stores and accumulations
 *               for each column: element instructions; stores, row
 *                   reductions, accumulations by column
 *       accumulators -> workspace, or straight to the result
 *   combine the parts in order; epilogue instructions and stores
 *
 * A row reduction ends a phase: what uses its result belongs to the next.
 * Element values that a later phase needs are computed again there from what
 * is in memory, or read back where the row has stored them; a costly one is
 * kept in the row of a result that is written later, or, where that is of 16
 * bits, in a row of its own.
 *
 * The number of parts follows from shapes alone, so that sums do not depend
 * on the number of threads.
 *
 * Buffers have element types; between a load and a store every float is f32,
 * a cast to bf16 or f16 in between included: it is rounded once, where it is
 * stored.
 *
 * How a kernel is called: its results, then its operands, in the order of
 * the fused op, then the workspace (float *) if it wants any. A result and an
 * operand may be the same memory where kernel_in_place() says so.
 */
#ifndef PARC_CODEGEN_KERNEL_H
#define PARC_CODEGEN_KERNEL_H

#include "passes/fuse_space.h"

typedef enum KernelCode {
    KERNEL_LOAD,   /* an element of `buffer` */
    KERNEL_CONST,  /* `number` */
    KERNEL_INDEX,  /* the index along a dim (plus arg 0, its base, if any) */
    KERNEL_RANDOM, /* drawn by the key arg 0 and the index, which the other
                      args are the bases of, as many as dims or none */
    KERNEL_ONEHOT, /* 1 where the index is arg 0 (minus arg 1, the base) */
    KERNEL_ROTARY, /* arg 0 rotated by cos arg 1, sin arg 2 with its twin on
                      the pair axis; `number` is -1 to turn back */
    KERNEL_OP,     /* elementwise `op` on the args; `number` its attribute */
    KERNEL_REDUCE, /* row reduction of arg 0 */
    KERNEL_TOTAL,  /* accumulation of arg 0 over rows: `accumulator` */
    KERNEL_ONLINE, /* the row's sum of exp(x - arg 0), times arg 1 if given, in
                      the phase that finds arg 0, the row's greatest x */
    KERNEL_PICK,   /* arg 0 (what takes no op) in the column that arg 1, a
                      ONEHOT, says; 0 where the row lacks it */
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
    uint32_t axes;              /* that its value varies over */
    int64_t stride[SPACE_AXES]; /* INDEX, ONEHOT, RANDOM: of the index */
    int phase;                  /* the first in which it can be computed */
    bool epilogue;              /* a TOTAL, or computed from one */
} KernelInstr;

typedef struct KernelBuffer {
    const char *name;   /* a C identifier, unique in the kernel */
    const Value *value; /* the fused op's result or operand */
    DType dtype;
    bool out, shared; /* shared: may lie where another buffer lies */
    uint32_t axes;
    int64_t stride[SPACE_AXES];
    int64_t elements;
    int64_t apart; /* it begins some multiple of so many elements behind a
                      boundary of the arena's; 0: at a boundary */
} KernelBuffer;

/* Something that a row or an element does besides computing. */
typedef enum RootKind { ROOT_STORE, ROOT_REDUCE, ROOT_TOTAL } RootKind;
typedef struct KernelRoot {
    RootKind kind;
    int instr;    /* whose value it takes */
    int target;   /* STORE: buffer; REDUCE, TOTAL: the instruction */
    bool element; /* in the loop over columns, not once a row */
    bool epilogue;
    int phase;
} KernelRoot;

typedef struct KernelStep {
    int instr;
    int reload; /* -1: compute; else the buffer where this row has it */
} KernelStep;

typedef struct KernelPhase {
    int nrow, *row; /* instructions computed once a row */
    int nelement;
    KernelStep *element; /* in the loop over columns */
    bool loop;           /* whether there is one */
} KernelPhase;

/* Sums over rows. `columns`: one for each column, else a scalar. They lie in
 * the workspace as [unit][columns], or are the result `buffer` itself. */
typedef struct KernelTotal {
    int instr, arg;
    bool columns, direct;
    int buffer;                 /* direct: the result */
    int64_t offset;             /* else: floats into the workspace */
    int64_t stride[SPACE_AXES]; /* over column axes */
} KernelTotal;

typedef struct Kernel {
    const char *name;
    const Op *op; /* the fused op */
    Space space;
    int ninstrs, nbuffers, nroots, nphases, ntotals;
    KernelInstr *instr;
    KernelBuffer *buffer; /* results, then operands */
    bool keeps_row;       /* buffer[nbuffers]: a row of f32 beside them, for a
                             value that no result's row can keep */
    KernelRoot *root;
    KernelPhase *phase;
    KernelTotal *total;
    int nkept, *kept;           /* epilogue instructions, once a kept index */
    int ncolumn, *column;       /* and for each column */
    int64_t units, parts, rows; /* kept indices; parts of summed rows; summed
                                   rows */
    int64_t columns;            /* elements of a row */
    int64_t work;               /* elements, of all rows */
    int64_t workspace;          /* bytes */
} Kernel;

/* The kernel of a fused op, in the program's arena. */
const Kernel *kernel_build(const Program *p, const Op *fused);

/* The same before anything was chosen for a CPU's cache: no value is kept or
 * read back, no buffer is marked as shared; parts, workspace and what is direct
 * are for the caller to choose. */
Kernel *kernel_build_plain(const Program *p, const Op *fused);

/* Sums behind a maximum in the maximum's phase, where that saves a loop over
 * the columns; whether it has changed the kernel, one of kernel_build_plain's.
 * For rows that are read from memory in each phase. (kernel_online.c) */
bool kernel_online(const Program *p, Kernel *k);

/* Whether result `out` may be written where operand `arg` lies. */
bool kernel_in_place(const Kernel *k, int out, int arg);

/* Bytes read and written when every buffer is touched once. */
int64_t kernel_bytes(const Kernel *k);

/* "llama.pdl:41", or "" where nothing is known. */
const char *kernel_where(const Program *p, Loc loc);

/* ---- cpu_kernel.c: kernels as C ------------------------------------------ */

/* "k07_attention_norm" */
const char *kernel_name(const Program *p, const Op *fused, int number);

/* The function, and its prototype. Kernels include parc_rt.h and
 * parc_math.h; they compile as C11 with OpenMP, without warnings. */
void cpu_kernel_emit(Out *o, const Program *p, const Op *fused, int number);
void cpu_kernel_prototype(Out *o, const Program *p, const Op *fused,
                          int number);

static inline bool kernel_is_element(const Kernel *k, uint32_t axes)
{
    return (axes & k->space.column) != 0;
}

#endif
