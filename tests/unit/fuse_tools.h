/* fuse_tools.h: fuses programs, prints them as C, compiles and loads them, and
 * compares them with the interpreter.
 *
 * A test builds ops with the ordinary builder. fuse_param and fuse_index
 * create tensors; fuse_keep names the values to compare. fuse_run interprets
 * the program as it was built, then runs the pass and every resulting kernel:
 * once with a buffer for each tensor, once with every result in place of an
 * operand, where an operand allows that.
 */
#ifndef PARC_TESTS_UNIT_FUSE_TOOLS_H
#define PARC_TESTS_UNIT_FUSE_TOOLS_H

#include "ir/ir.h"
#include "passes/pass.h"
#include "tests/unit/check.h"

typedef struct FuseTest {
    Arena *arena;
    Program *p;
    Build b;
    int kernels;        /* number of kernels of the fused program */
    const char *source; /* the emitted C */
} FuseTest;

FuseTest fuse_test(Phase phase);

/* f32 numbers within `spread` of `centre`, which differ between names. */
Value *fuse_param(FuseTest *t, const char *name, int ndim, const int64_t *dim,
                  double centre, double spread);
Value *fuse_index(FuseTest *t, const char *name, int ndim, const int64_t *dim,
                  int64_t below);
void fuse_keep(FuseTest *t, Value *v);

Value *fuse_factor(FuseTest *t, OpKind kind, Value *x, double by);
Value *fuse_sum(FuseTest *t, Value *x, int dim, bool keep);
Value *fuse_max(FuseTest *t, Value *x, int dim, bool keep);

/* Compares, and expects `kernels` kernels (-1: any number). */
void fuse_run(Check *c, FuseTest *t, const char *name, int kernels);

/* A random program up to the pass `fuse`; false if its plan is refused. */
bool fuse_random_program(Program *p, uint64_t seed, Target target);

/* ---- the steps of fuse_run ---- */

/* The step's first fused op; NULL: none. */
const Op *fuse_first(const Program *p);
/* Prints the kernels of a program and its loops as C, each with a function
 * call_<n> that takes its arguments from an array: [0] the runtime, then
 * results, operands, workspace. */
const char *fuse_print(const Program *p, int *kernels);
/* Compiles at -O<level> with warnings as errors, and loads; NULL on failure. */
void *fuse_compile(Arena *a, const char *source, const char *level);
typedef void FuseKernel(void **arguments);
FuseKernel *fuse_kernel(Arena *a, void *library, int number);

#define DIMS(...)                                                              \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])     \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

#endif
