/* program.c: writes the source tree of a program, and the binary built from it.
 *
 * -S writes the tree to the user's directory. -o writes it to a temporary
 * directory, compiles and links it there with the C compiler ($CC, else cc),
 * and removes the directory. The runtime is the library that was built with
 * parc for the CPU level if it is installed with parc, else it is compiled from
 * the sources embedded in parc. program_cuda.c builds the tree of a program for
 * GPUs.
 */
#include "codegen/package/program.h"

#include "base/text.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/machine.h"
#include "codegen/package/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- the tree of a program for the CPU ----------------------------------- */

/* The flags besides those of the CPU level (machine.c). The code does not
 * depend on errno or on floating-point traps. */
static const char *const flags[] = {
    "-std=c11", "-O3", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=fast", "-fopenmp", "-D_GNU_SOURCE",
#ifdef __SANITIZE_ADDRESS__
    "-fsanitize=address,undefined", "-g",
#endif
    NULL};
static const char *const include[] = {"-Iruntime", NULL};
static const char *const cpu_sources[] = {"train.c", "model.c", "kernels.c",
                                          NULL};
static const char *const libraries[] = {"-ldnnl", "-lm", NULL};
#define BASELINE "runtime/cpu/rt_cpu_check.c"
static const char *const cpu_directories[] = {"cpu/", NULL};
static const Recipe cpu_recipe = {cpu_directories, "cc", NULL, flags, include,
                                  cpu_sources, 0, BASELINE, libraries};

/* A program for several nodes. */
static const char *const node_directories[] = {"cpu/", "mpi/", NULL};
static const char *const node_sources[] = {"train.c", "model.c", "kernels.c",
                                           "runtime/mpi/rt_mpi.c", NULL};
static const Recipe node_recipe = {node_directories, "mpicc", NULL, flags, include,
                                   node_sources, 0, BASELINE, libraries};

static const Recipe *recipe_of(const Program *p, const TargetInfo *t)
{
    return t->target == TARGET_CUDA           ? &cuda_recipe
           : mesh_between_nodes(&p->mesh) != 0 ? &node_recipe
                                              : &cpu_recipe;
}

static void makefile_text(Out *o, const Recipe *b, const TargetInfo *t)
{
    out_line(o, "# Builds ./train from the sources that parc wrote.");
    makefile_head(o, b, t->cpu);
    out(o, "RUNTIME = $(filter-out " BASELINE ", \\\n"
           "    $(wildcard runtime/*/*.c runtime/*/*/*.c))\n\n"
           "SOURCES = train.c model.c kernels.c\n\n"
           "train: $(SOURCES) model.h kernels.h cpu_check.o \\\n"
           "    $(wildcard runtime/*.[ch] runtime/*/*.[ch] runtime/*/*/*.[ch])\n"
           "\t$(CC) $(CFLAGS) $(CPU) -o $@ $(SOURCES) cpu_check.o \\\n"
           "\t    $(RUNTIME) -ldnnl -lm\n\n"
           "# The check of the CPU's features, compiled to run on every CPU.\n"
           "cpu_check.o: " BASELINE " $(wildcard runtime/*.h)\n"
           "\t$(CC) $(CFLAGS) -c -o $@ $<\n\n"
           "clean:\n"
           "\trm -f train cpu_check.o\n\n"
           ".PHONY: clean\n");
}

static void cpu_tree(Tree *tree, const Program *p, const TargetInfo *t,
                     const EmitOptions *options)
{
    SourceFiles files;
    Out kernels, header, make;
    train_c_emit(&files, p, t, options, NULL);
    out_init(&kernels, tree->arena);
    out_init(&header, tree->arena);
    out_init(&make, tree->arena);
    kernels_c_emit(&kernels, p);
    kernels_h_emit(&header, p);
    makefile_text(&make, recipe_of(p, t), t);
    tree_add_out(tree, "train.c", &files.train_c);
    tree_add_out(tree, "model.h", &files.model_h);
    tree_add_out(tree, "model.c", &files.model_c);
    tree_add_out(tree, "kernels.c", &kernels);
    tree_add_out(tree, "kernels.h", &header);
    tree_add_out(tree, "Makefile", &make);
    tree_add_runtime(tree, recipe_of(p, t));
}

/* ---- the C compiler ------------------------------------------------------ */

/* The target's runtime library: in the directory of the running parc, or where
 * `make install` puts it. */
static const char *runtime_library(Arena *a, const char *self,
                                   const char *name)
{
    const char *slash = self ? strrchr(self, '/') : NULL;
    if (!slash)
        return NULL;
    const char *directory = arena_strndup(a, self, (size_t)(slash - self));
    const char *const path[] = {
        arena_printf(a, "%s/%s", directory, name),
        arena_printf(a, "%s/../lib/parc/%s", directory, name)};
    for (int i = 0; i < 2; i++)
        if (access(path[i], R_OK) == 0)
            return path[i];
    return NULL;
}

typedef VEC(const char *) Words;

static void add_all(Arena *a, Words *to, const char *const *list)
{
    for (; *list; list++)
        vec_push(a, to, *list);
}

/* The variable of the environment that names another compiler than "cc", or
 * than "mpicc". */
static const char *compiler_variable(const Recipe *b)
{
    return strcmp(b->compiler, "cc") == 0 ? "CC" : "MPICC";
}

static bool has_compiler(const Recipe *b)
{
    const char *cc = getenv(compiler_variable(b));
    return cc && cc[strspn(cc, " ")];
}

/* Adds the words of the C compiler's command: "ccache gcc" has two. */
static void add_compiler(Arena *a, const Recipe *b, Words *to)
{
    char *words = arena_printf(a, "%s", has_compiler(b)
                                            ? getenv(compiler_variable(b))
                                            : b->compiler);
    char *rest;
    for (char *word = strtok_r(words, " ", &rest); word;
         word = strtok_r(NULL, " ", &rest))
        vec_push(a, to, (const char *)word);
}

/* The object file that compile_baseline writes. */
#define BASELINE_OBJECT "baseline.o"

static bool is_source(const Recipe *b, const char *name)
{
    for (const char *const *source = b->source; *source; source++)
        if (strcmp(*source, name) == 0)
            return true;
    return false;
}

static void add_runtime_sources(const Tree *tree, const Recipe *b, Words *to)
{
    if (b->baseline)
        vec_push(tree->arena, to, (const char *)BASELINE_OBJECT);
    for (int i = 0; i < tree->file.n; i++) {
        const char *name = tree->file.at[i].name;
        size_t n = strlen(name);
        bool separate = b->baseline && !strcmp(name, b->baseline);
        if (starts_with(name, "runtime/") && !strcmp(name + n - 2, ".c") &&
            !separate && !is_source(b, name))
            vec_push(tree->arena, to, name);
    }
}

/* Whether a file is an ELF file: the compiler has written a program or an
 * object. */
static bool is_elf(const char *path)
{
    char magic[4] = {0};
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    size_t n = fread(magic, 1, sizeof magic, f);
    fclose(f);
    return n == sizeof magic && memcmp(magic, "\177ELF", n) == 0;
}

/* A level of an architecture other than this machine's needs a cross compiler.
 * Returns NULL, or a message. */
static const char *check_compiler(Arena *a, const Recipe *b,
                                  const CpuLevel *cpu)
{
    struct utsname here;
    if (!cpu || !cpu->machine || uname(&here) != 0 ||
        strcmp(here.machine, cpu->machine) == 0 || has_compiler(b))
        return NULL;
    return arena_printf(a, "--cpu %s needs a C compiler for %s: name one, as in "
                        "%s=%s-linux-gnu-gcc", cpu->name, cpu->machine,
                        compiler_variable(b), cpu->machine);
}

/* Runs a command in the directory that writes `result`. Returns NULL, or a
 * message. */
static const char *run_compiler(Arena *a, const Recipe *b, Words *argv,
                                const char *directory,
                                const EmitOptions *options, const char *result)
{
    vec_push(a, argv, NULL);
    if (options->verbose) {
        for (int i = 0; argv->at[i]; i++)
            fprintf(stderr, "%s%s", i ? " " : "", argv->at[i]);
        fputc('\n', stderr);
    }
    char *errors = NULL;
    int status = process_run(a, argv->at, directory, &errors);
    if (status == 0 && is_elf(result))
        return NULL;
    if (status == 0)
        return arena_printf(a, "the C compiler '%s' has written no program, "
                            "though its exit status is 0%s%s", argv->at[0],
                            errors && *errors ? ":\n" : "",
                            errors ? errors : "");
    bool mpi = strcmp(b->compiler, "mpicc") == 0;
    return arena_printf(a, "the C compiler '%s' failed%s%s:\n%s", argv->at[0],
                        status < 0 && mpi
                            ? "; a program for several machines needs an MPI "
                              "library with its compiler, such as Debian's "
                              "libopenmpi-dev"
                            : "",
                        status >= 0 ? ""
                        : mpi       ? "; MPICC in the environment names another"
                                    : "; CC in the environment names another",
                        errors ? errors : "");
}

/* Compiles the file that must not use the level's flags to an object. */
static const char *compile_baseline(Arena *a, const Recipe *b,
                                    const char *directory,
                                    const EmitOptions *options)
{
    Words argv = {0};
    add_compiler(a, b, &argv);
    add_all(a, &argv, b->flag);
    add_all(a, &argv, b->include);
    add_all(a, &argv, (const char *const[]){"-c", "-o", BASELINE_OBJECT,
                                            b->baseline, NULL});
    return run_compiler(a, b, &argv, directory, options,
                        arena_printf(a, "%s/" BASELINE_OBJECT, directory));
}

/* ---- the binary ---------------------------------------------------------- */

typedef struct BinaryBuild {
    const Tree *tree;
    const Recipe *recipe;
    const TargetInfo *t;
    const EmitOptions *options;
    const char *directory; /* a temporary one, with the tree's files */
    int written;        /* the number of the tree's files there */
    const char *binary; /* the temporary name of the binary */
} BinaryBuild;

static void add_flags(const BinaryBuild *b, Words *argv)
{
    Arena *a = b->tree->arena;
    add_compiler(a, b->recipe, argv);
    add_all(a, argv, b->recipe->flag);
    if (b->t->cpu)
        add_all(a, argv, b->t->cpu->flag);
    add_all(a, argv, b->recipe->include);
}

/* "train.o" of "train.c". */
static const char *object_of(Arena *a, const char *source)
{
    return arena_printf(a, "%.*s.o", (int)(strlen(source) - strlen(".c")), source);
}

/* Compiles the sources that need no images of kernels. */
static const char *compile_early(const BinaryBuild *b)
{
    Arena *a = b->tree->arena;
    Words argv = {0};
    const char *last = b->recipe->source[b->recipe->early - 1];
    add_flags(b, &argv);
    /* These sources only queue work: more optimization would not pay. */
    add_all(a, &argv, (const char *const[]){"-O1", "-c", NULL});
    for (int i = 0; i < b->recipe->early; i++)
        vec_push(a, &argv, b->recipe->source[i]);
    return run_compiler(a, b->recipe, &argv, b->directory, b->options,
                        arena_printf(a, "%s/%s", b->directory, object_of(a, last)));
}

static const char *link_binary(const BinaryBuild *b)
{
    Arena *a = b->tree->arena;
    const Recipe *r = b->recipe;
    Words argv = {0};
    const char *library = runtime_library(
        a, b->options->self, r->library ? r->library : b->t->cpu->library);
    if (!library && r->baseline) {
        const char *failure = compile_baseline(a, r, b->directory, b->options);
        if (failure)
            return failure;
    }
    add_flags(b, &argv);
    add_all(a, &argv, (const char *const[]){"-o", b->binary, NULL});
    for (int i = 0; r->source[i]; i++)
        vec_push(a, &argv, i < r->early ? object_of(a, r->source[i]) : r->source[i]);
    if (library)
        vec_push(a, &argv, library);
    else
        add_runtime_sources(b->tree, r, &argv);
    add_all(a, &argv, r->link);
    return run_compiler(a, r, &argv, b->directory, b->options, b->binary);
}

static const char *absolute(Arena *a, const char *path)
{
    char directory[4096];
    if (path[0] == '/' || !getcwd(directory, sizeof directory))
        return path;
    return arena_printf(a, "%s/%s", directory, path);
}

/* Writes the files that the tree has got since the last call. */
static const char *write_sources(BinaryBuild *b)
{
    Outputs *sources = outputs_new(b->tree->arena);
    const char *failure = tree_write(b->tree, b->written, sources, b->directory);
    b->written = b->tree->file.n;
    if (!failure)
        return outputs_commit(sources);
    outputs_abandon(sources);
    return failure;
}

static const char *begin_build(BinaryBuild *b, Outputs *outputs)
{
    Arena *a = b->tree->arena;
    const char *unfit = check_compiler(a, b->recipe, b->t->cpu);
    if (unfit)
        return unfit;
    const char *binary = outputs_temp(outputs, b->options->binary);
    if (!binary)
        return arena_printf(a, "cannot write '%s': %s", b->options->binary,
                            strerror(errno));
    b->binary = absolute(a, binary);
    b->directory = outputs_directory(outputs);
    if (!b->directory)
        return arena_printf(a, "cannot make a directory for temporary files: %s",
                            strerror(errno));
    const char *failure = write_sources(b);
    return !failure && b->recipe->early ? compile_early(b) : failure;
}

static const char *end_build(BinaryBuild *b)
{
    const char *failure = write_sources(b);
    return failure ? failure : link_binary(b);
}

/* Of a program for GPUs, the C code is compiled while its kernels are. */
const char *emit_program(const Program *p, const TargetInfo *t,
                         const EmitOptions *options, Outputs *outputs)
{
    Tree tree = {.arena = p->arena};
    BinaryBuild build = {.tree = &tree, .recipe = recipe_of(p, t), .t = t,
                   .options = options};
    struct NvrtcJobs *images = NULL;
    const char *failure = NULL;
    if (t->target == TARGET_CPU)
        cpu_tree(&tree, p, t, options);
    else
        images = cuda_tree(&tree, p, t, options, &failure);
    if (!failure && options->binary)
        failure = begin_build(&build, outputs);
    if (images && failure)
        nvrtc_cancel(images);
    else if (images)
        failure = cuda_add_images(&tree, images, options);
    if (!failure && options->directory)
        failure = tree_write(&tree, 0, outputs, options->directory);
    if (!failure && options->binary)
        failure = end_build(&build);
    return failure;
}
