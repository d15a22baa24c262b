/* pass.h: the interface of the passes over a Program.
 *
 * passes.def is the only list of passes. pipeline.c runs them in its order,
 * verifies the program after each, dumps and times. A pass that finds an error
 * in the user's plan reports it through p->diag and returns; the pipeline stops
 * after that pass.
 */
#ifndef PARC_PASSES_PASS_H
#define PARC_PASSES_PASS_H

#include "ir/ir.h"
#include "ir/rules/rules.h"

typedef enum Target { TARGET_CUDA, TARGET_CPU } Target;

/* An instruction set (codegen/machine.h). */
struct CpuLevel;
/* A machine file (forecast/machine.h). */
struct Machine;

/* The properties of the target that passes may use. The driver supplies them,
 * from codegen. */
typedef struct TargetInfo {
    Target target;
    int threads;            /* CPU threads of a rank: determines workspace */
    const struct CpuLevel *cpu; /* NULL on CUDA */
    const struct Machine *machine; /* --machine; NULL: not given … */
    const Link *link;              /* … its links (Mesh.link) */
    int streams;            /* 4 on CUDA (issue.h), 1 on the CPU */
    int default_prefetch;   /* units gathered early: 1 on CUDA, 0 on the CPU */
    int64_t device_memory;  /* bytes, as the user or the machine says; 0: not known */
    int64_t alignment;      /* every tensor's address is a multiple, in bytes */
    int64_t page;           /* bytes that a rank can allocate of an arena */
    bool aligns_rows;       /* matmuls in 16 bits are fast only if rows of their
                             * operands are multiples of 16 bytes */
    bool shares_memory;     /* the ranks of a node map the same memory */
    bool adds_rows;         /* the op embedding_add is implemented */
    bool has_epilogues;     /* matmuls may have epilogues, and need operands of
                             * certain types */
    /* Scratch bytes that an op needs while it runs, for its rank-local
     * types. */
    int64_t (*workspace)(const Program *p, const Op *op,
                         const struct TargetInfo *t);
    /* Whether matmuls compute this einsum as it is. */
    bool (*is_matmul)(const Program *p, const Op *op);
    /* Whether the target has a matmul for an einsum of these types, with the
     * op's epilogue. */
    bool (*multiplies)(const Program *p, const Op *op);
    /* Whether result `out` of the op may reuse the memory of operand `arg`,
     * whose live range ends there. */
    bool (*in_place)(const Program *p, const Op *op, int out, int arg);
} TargetInfo;

#define PASS(directory, name, meaning) \
    void pass_##name(Program *p, const TargetInfo *t);
#include "passes/passes.def"
#undef PASS

typedef struct PassInfo {
    const char *name, *meaning;
    void (*run)(Program *p, const TargetInfo *t);
} PassInfo;
extern const PassInfo pass_table[];
extern const int pass_count;

#endif
