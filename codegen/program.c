/* program.c: the source tree on disk, and the binary made from it.
 *
 * -S writes the tree where the user wants it. -o writes it to a temporary
 * folder, compiles and links it there with the C compiler ($CC, else cc), and
 * takes the folder away again. The runtime comes from the library built with
 * parc where that lies beside it, else from the copy inside parc.
 */
#include "codegen/program.h"

#include "base/embedded.h"
#include "codegen/train_c.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Kernels are vectorised for this machine; nothing depends on errno or on
 * floating-point traps. */
static const char *const compile_flags[] = {
    "-std=c11", "-O3", "-march=native", "-fno-math-errno",
    "-fno-trapping-math", "-ffp-contract=fast", "-fopenmp", "-D_GNU_SOURCE",
#ifdef __SANITIZE_ADDRESS__
    "-fsanitize=address,undefined", "-g",
#endif
};
enum { COMPILE_FLAGS = sizeof compile_flags / sizeof *compile_flags };

typedef struct TreeFile {
    const char *name; /* within the tree */
    const char *text;
    size_t size;
} TreeFile;

typedef struct Tree {
    Arena *arena;
    VEC(TreeFile) file;
} Tree;

static void tree_add(Tree *t, const char *name, const char *text, size_t size)
{
    TreeFile f = {name, text, size};
    vec_push(t->arena, &t->file, f);
}

static void makefile_text(Out *o)
{
    out_line(o, "# Builds ./train from the sources that parc wrote.");
    out_line(o, "CC ?= cc");
    out(o, "CFLAGS =");
    for (int i = 0; i < COMPILE_FLAGS; i++)
        out(o, " %s", compile_flags[i]);
    out_line(o, "");
    out_line(o, "");
    out_line(o, "train: train.c kernels.c kernels.h $(wildcard runtime/*.[ch] "
                "runtime/cpu/*)");
    out_line(o, "\t$(CC) $(CFLAGS) -Iruntime -o $@ train.c kernels.c "
                "runtime/*.c \\");
    out_line(o, "\t    runtime/cpu/*.c -ldnnl -lm");
    out_line(o, "");
    out_line(o, "clean:");
    out_line(o, "\trm -f train");
    out_line(o, "");
    out_line(o, ".PHONY: clean");
}

static void make_tree(Tree *tree, const Program *p, const TargetInfo *t,
                      const EmitOptions *options)
{
    Out train, kernels, header, make;
    Out *const all[] = {&train, &kernels, &header, &make};
    static const char *const name[] = {"train.c", "kernels.c", "kernels.h",
                                       "Makefile"};
    for (int i = 0; i < 4; i++)
        out_init(all[i], tree->arena);
    train_c_emit(&train, p, t, options);
    kernels_c_emit(&kernels, p);
    kernels_h_emit(&header, p);
    makefile_text(&make);
    for (int i = 0; i < 4; i++)
        tree_add(tree, name[i], all[i]->text, all[i]->size);
    for (const EmbeddedFile *f = runtime_files; f->name; f++)
        if (!strchr(f->name, '/') || !strncmp(f->name, "cpu/", 4))
            tree_add(tree, arena_printf(tree->arena, "runtime/%s", f->name),
                 f->text, f->size);
}

static const char *write_tree(const Tree *tree, Outputs *outputs,
                              const char *directory)
{
    const char *runtime =
        arena_printf(tree->arena, "%s/runtime/cpu", directory);
    const char *failure = outputs_mkdir(outputs, runtime);
    for (int i = 0; i < tree->file.n && !failure; i++) {
        const TreeFile *f = &tree->file.at[i];
        const char *path =
            arena_printf(tree->arena, "%s/%s", directory, f->name);
        failure = outputs_add(outputs, path, f->text, f->size, false);
    }
    return failure;
}

/* ---- the binary ---------------------------------------------------------- */

/* libparc_rt.a beside the running parc, or where `make install` puts it. */
static const char *runtime_library(Arena *a, const char *self)
{
    const char *slash = self ? strrchr(self, '/') : NULL;
    if (!slash)
        return NULL;
    const char *folder = arena_strndup(a, self, (size_t)(slash - self));
    const char *const path[] = {
        arena_printf(a, "%s/libparc_rt.a", folder),
        arena_printf(a, "%s/../lib/parc/libparc_rt.a", folder)};
    for (int i = 0; i < 2; i++)
        if (access(path[i], R_OK) == 0)
            return path[i];
    return NULL;
}

static const char *compile(const Tree *tree, const char *folder,
                           const EmitOptions *options, const char *binary)
{
    Arena *a = tree->arena;
    VEC(const char *) argv = {0};
    const char *cc = getenv("CC");
    bool given = cc && cc[strspn(cc, " ")];
    char *words = arena_printf(a, "%s", given ? cc : "cc"), *rest;
    for (char *word = strtok_r(words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest))
        vec_push(a, &argv, (const char *)word);
    for (int i = 0; i < COMPILE_FLAGS; i++)
        vec_push(a, &argv, compile_flags[i]);
    vec_push(a, &argv, "-Iruntime");
    vec_push(a, &argv, "-o");
    vec_push(a, &argv, binary);
    vec_push(a, &argv, "train.c");
    vec_push(a, &argv, "kernels.c");
    const char *library = runtime_library(a, options->self);
    if (library)
        vec_push(a, &argv, library);
    for (int i = 0; i < tree->file.n && !library; i++) {
        const char *name = tree->file.at[i].name;
        size_t n = strlen(name);
        if (!strncmp(name, "runtime/", 8) && !strcmp(name + n - 2, ".c"))
            vec_push(a, &argv, name);
    }
    vec_push(a, &argv, "-ldnnl");
    vec_push(a, &argv, "-lm");
    vec_push(a, &argv, NULL);
    if (options->verbose) {
        for (int i = 0; argv.at[i]; i++)
            fprintf(stderr, "%s%s", i ? " " : "", argv.at[i]);
        fputc('\n', stderr);
    }
    char *errors = NULL;
    int status = process_run(a, argv.at, folder, &errors);
    if (status == 0)
        return NULL;
    return arena_printf(a, "the C compiler '%s' failed:\n%s", argv.at[0],
                        errors ? errors : "");
}

static const char *absolute(Arena *a, const char *path)
{
    char folder[4096];
    if (path[0] == '/' || !getcwd(folder, sizeof folder))
        return path;
    return arena_printf(a, "%s/%s", folder, path);
}

static const char *build(const Tree *tree, const EmitOptions *options,
                         Outputs *outputs)
{
    Arena *a = tree->arena;
    const char *binary = outputs_temp(outputs, options->binary);
    if (!binary)
        return arena_printf(a, "cannot write '%s': %s", options->binary,
                            strerror(errno));
    const char *tmp = getenv("TMPDIR");
    char *folder = arena_printf(a, "%s/parc-XXXXXX",
                                tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(folder))
        return arena_printf(a, "cannot make a folder '%s': %s", folder,
                            strerror(errno));
    Outputs *sources = outputs_new(a);
    const char *failure = write_tree(tree, sources, folder);
    if (!failure)
        failure = outputs_commit(sources);
    else
        outputs_abandon(sources);
    if (!failure)
        failure = compile(tree, folder, options, absolute(a, binary));
    folder_remove(folder);
    return failure;
}

const char *emit_program(const Program *p, const TargetInfo *t,
                         const EmitOptions *options, Outputs *outputs)
{
    Tree tree = {.arena = p->arena};
    const char *failure = NULL;
    make_tree(&tree, p, t, options);
    if (options->directory)
        failure = write_tree(&tree, outputs, options->directory);
    if (!failure && options->binary)
        failure = build(&tree, options, outputs);
    return failure;
}
