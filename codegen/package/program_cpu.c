/* program_cpu.c: builds the source tree of a program for the CPU in memory, and
 * holds the flags, sources and libraries with which it is compiled. */
#include "codegen/emit/train_c.h"
#include "codegen/package/tree.h"

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
static const char *const sources[] = {"train.c", "model.c", "kernels.c", NULL};
static const char *const libraries[] = {"-ldnnl", "-lm", NULL};
#define BASELINE "runtime/cpu/rt_cpu_check.c"
const Recipe cpu_recipe = {"cpu/",  NULL,     flags,    include,
                           sources, BASELINE, libraries};

static void makefile_text(Out *o, const TargetInfo *t)
{
    out_line(o, "# Builds ./train from the sources that parc wrote.");
    makefile_head(o, &cpu_recipe, t->cpu);
    out(o, "RUNTIME = $(filter-out " BASELINE ", \\\n"
           "    $(wildcard runtime/*/*.c))\n\n"
           "SOURCES = train.c model.c kernels.c\n\n"
           "train: $(SOURCES) model.h kernels.h cpu_check.o \\\n"
           "    $(wildcard runtime/*.[ch] runtime/*/*)\n"
           "\t$(CC) $(CFLAGS) $(CPU) -o $@ $(SOURCES) cpu_check.o \\\n"
           "\t    $(RUNTIME) -ldnnl -lm\n\n"
           "# The check of the CPU's features, compiled to run on every CPU.\n"
           "cpu_check.o: " BASELINE " $(wildcard runtime/*.h)\n"
           "\t$(CC) $(CFLAGS) -c -o $@ $<\n\n"
           "clean:\n"
           "\trm -f train cpu_check.o\n\n"
           ".PHONY: clean\n");
}

const char *cpu_tree(Tree *tree, const Program *p, const TargetInfo *t,
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
    makefile_text(&make, t);
    tree_add_out(tree, "train.c", &files.train_c);
    tree_add_out(tree, "model.h", &files.model_h);
    tree_add_out(tree, "model.c", &files.model_c);
    tree_add_out(tree, "kernels.c", &kernels);
    tree_add_out(tree, "kernels.h", &header);
    tree_add_out(tree, "Makefile", &make);
    tree_add_runtime(tree, cpu_recipe.directory);
    return NULL;
}
