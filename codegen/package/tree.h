/* tree.h: collects the source files of an emitted program in memory and writes
 * them to a directory. It also declares how each target builds its program: the
 * Recipe of compiler flags, sources and libraries. */
#ifndef PARC_CODEGEN_PACKAGE_TREE_H
#define PARC_CODEGEN_PACKAGE_TREE_H

#include "base/file.h"
#include "base/out.h"
#include "codegen/package/program.h"

typedef struct TreeFile {
    const char *name; /* path within the tree: "runtime/rt.h" */
    const char *text;
    size_t size;
} TreeFile;

typedef struct Tree {
    Arena *arena;
    VEC(TreeFile) file; /* in the order of writing */
} Tree;

void tree_add(Tree *t, const char *name, const char *text, size_t size);
void tree_add_out(Tree *t, const char *name, const Out *text);
/* Adds the files from number `first` on to the outputs, in `directory`. Returns NULL, or
 * a message. */
const char *tree_write(const Tree *t, int first, Outputs *outputs,
                       const char *directory);

/* ---- a target's tree and build ------------------------------------------- */

/* How the C compiler builds a target's program. */
typedef struct Recipe {
    const char *const *directory; /* directories of the runtime that only some
                                     programs have: "cpu/" */
    const char *compiler;        /* "cc"; "mpicc" */
    const char *library;         /* the runtime, built with parc; NULL: the
                                    CPU level names it */
    const char *const *flag;     /* flags of the C compiler; NULL ends lists */
    const char *const *include;  /* "-Iruntime" */
    const char *const *source;   /* sources besides the runtime's */
    int early;                   /* as many of these, the first ones, are compiled
                                    while the images of the kernels are made */
    const char *baseline;        /* a source of the runtime that is compiled
                                    without the CPU level's flags, or NULL */
    const char *const *link;     /* "-lm" */
} Recipe;

/* The runtime embedded in parc: the files for all programs, and those in the
 * recipe's directories. */
void tree_add_runtime(Tree *t, const Recipe *b);

/* ---- program_cuda.c ---- */

/* Adds the files of a program for GPUs to `tree`, without the images of the kernels,
 * and starts to compile these. NULL and *failure: a message. */
struct NvrtcJobs *cuda_tree(Tree *tree, const Program *p, const TargetInfo *t,
                            const EmitOptions *options, const char **failure);
/* Waits for the images and adds them. Returns NULL, or a message. */
const char *cuda_add_images(Tree *tree, struct NvrtcJobs *jobs,
                            const EmitOptions *options);
extern const Recipe cuda_recipe;

/* "CFLAGS = …", the first lines of a tree's Makefile. `cpu`: NULL on CUDA. */
struct CpuLevel;
void makefile_head(Out *o, const Recipe *b, const struct CpuLevel *cpu);

#endif
