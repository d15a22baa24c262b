/* program_cpu.c: builds the source tree of a program for the CPU in memory, and
 * holds the flags, sources and libraries with which it is compiled. */
#include "codegen/emit/train_c.h"
#include "codegen/package/tree.h"

/* The flags besides those of the CPU level (cpu_level.c). The code does not
 * depend on errno or on floating-point traps. */
static const char *const flags[] = {
    "-std=c11", "-O3", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=fast", "-fopenmp", "-D_GNU_SOURCE",
#ifdef __SANITIZE_ADDRESS__
    "-fsanitize=address,undefined", "-g",
#endif
    NULL};
static const char *const include[] = {"-Iruntime", NULL};
static const char *const sources[] = {"train.c", "kernels.c", NULL};
static const char *const libraries[] = {"-ldnnl", "-lm", NULL};
#define BASELINE "runtime/cpu/rt_cpu_check.c"
const Recipe cpu_recipe = {"cpu/",  NULL,     flags,    include,
                           sources, BASELINE, libraries};

static void makefile_text(Out *o, const TargetInfo *t)
{
    out_line(o, "# Builds ./train from the sources that parc wrote.");
    makefile_head(o, &cpu_recipe, t->cpu);
    out_line(o, "RUNTIME = $(filter-out " BASELINE ", \\");
    out_line(o, "    $(wildcard runtime/*.c runtime/*/*.c))");
    out_line(o, "");
    out_line(o, "train: train.c kernels.c kernels.h cpu_check.o \\");
    out_line(o, "    $(wildcard runtime/*.[ch] runtime/*/*)");
    out_line(o, "\t$(CC) $(CFLAGS) $(CPU) -o $@ train.c kernels.c cpu_check.o "
                "\\");
    out_line(o, "\t    $(RUNTIME) -ldnnl -lm");
    out_line(o, "");
    out_line(o, "# The check of the CPU's features, compiled to run on every "
                "CPU.");
    out_line(o, "cpu_check.o: " BASELINE " $(wildcard runtime/*.h)");
    out_line(o, "\t$(CC) $(CFLAGS) -c -o $@ $<");
    out_line(o, "");
    out_line(o, "clean:");
    out_line(o, "\trm -f train cpu_check.o");
    out_line(o, "");
    out_line(o, ".PHONY: clean");
}

const char *cpu_tree(Tree *tree, const Program *p, const TargetInfo *t,
                     const EmitOptions *options)
{
    Out train, kernels, header, make;
    Out *const all[] = {&train, &kernels, &header, &make};
    static const char *const name[] = {"train.c", "kernels.c", "kernels.h",
                                       "Makefile"};
    for (int i = 0; i < 4; i++)
        out_init(all[i], tree->arena);
    train_c_emit(&train, p, t, options, NULL);
    kernels_c_emit(&kernels, p);
    kernels_h_emit(&header, p);
    makefile_text(&make, t);
    for (int i = 0; i < 4; i++)
        tree_add_out(tree, name[i], all[i]);
    tree_add_runtime(tree, cpu_recipe.folder);
    return NULL;
}
