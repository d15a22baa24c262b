/* pass.h: passes over a Program.
 *
 * passes.def is the only list of passes; pipeline.c runs them in its order,
 * verifies after each, dumps and times. A pass that finds the user's plan at
 * fault reports through p->diag and returns; the pipeline stops after it.
 */
#ifndef PARC_PASSES_PASS_H
#define PARC_PASSES_PASS_H

#include "ir/ir.h"
#include "ir/rules.h"

typedef enum Target { TARGET_CUDA, TARGET_CPU } Target;

/* What passes may ask of the target, supplied by the driver (codegen knows). */
typedef struct TargetInfo {
    Target target;
    int threads;            /* CPU threads of a rank that workspace serves */
    int streams;            /* 4 on CUDA (streams.h), 1 on the CPU */
    int default_prefetch;   /* units gathered ahead: 1 on CUDA, 0 on the CPU */
    int64_t alignment;      /* of every tensor in the arena, in bytes */
    bool shares_memory;     /* ranks are in one box and map the same memory */
    bool adds_rows;         /* has the op embedding_add */
    /* Scratch bytes that an op needs while it runs, by rank-local types. */
    int64_t (*workspace)(const Program *p, const Op *op, int threads);
    /* Whether the target multiplies an einsum of these types, and does to the
     * product what the op says; NULL: any, and nothing. */
    bool (*multiplies)(const Program *p, const Op *op);
    /* Whether the ranks of a box had better make their shards of an einsum,
     * operand i of a reduce_scatter, out of each other's operands; NULL: they
     * cannot. */
    bool (*makes_shards)(const Program *p, const Op *einsum,
                         const Op *scatter, int i);
    /* Whether result `out` of the op may take the memory of operand `arg`,
     * which dies there. */
    bool (*in_place)(const Program *p, const Op *op, int out, int arg);
} TargetInfo;

#define PASS(name, meaning) void pass_##name(Program *p, const TargetInfo *t);
#include "passes/passes.def"
#undef PASS

typedef struct PassInfo {
    const char *name, *meaning;
    void (*run)(Program *p, const TargetInfo *t);
} PassInfo;
extern const PassInfo pass_table[];
extern const int pass_count;

#endif
