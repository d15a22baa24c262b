/* program_cpu.c: the tree of a program for the CPU. */
#include "codegen/train_c.h"
#include "codegen/tree.h"

/* Kernels are vectorised for this machine; nothing depends on errno or on
 * floating-point traps. */
static const char *const flags[] = {
    "-std=c11", "-O3", "-march=native", "-fno-math-errno",
    "-fno-trapping-math", "-ffp-contract=fast", "-fopenmp", "-D_GNU_SOURCE",
#ifdef __SANITIZE_ADDRESS__
    "-fsanitize=address,undefined", "-g",
#endif
    NULL};
static const char *const include[] = {"-Iruntime", NULL};
static const char *const sources[] = {"train.c", "kernels.c", NULL};
static const char *const libraries[] = {"-ldnnl", "-lm", NULL};
const Recipe cpu_recipe = {"cpu/", "libparc_rt.a", flags,
                         include, sources,        libraries};

static void makefile_text(Out *o)
{
    out_line(o, "# Builds ./train from the sources that parc wrote.");
    makefile_head(o, &cpu_recipe);
    out_line(o, "train: train.c kernels.c kernels.h $(wildcard runtime/*.[ch] "
                "runtime/cpu/*)");
    out_line(o, "\t$(CC) $(CFLAGS) -o $@ train.c kernels.c runtime/*.c \\");
    out_line(o, "\t    runtime/cpu/*.c -ldnnl -lm");
    out_line(o, "");
    out_line(o, "clean:");
    out_line(o, "\trm -f train");
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
    makefile_text(&make);
    for (int i = 0; i < 4; i++)
        tree_add_out(tree, name[i], all[i]);
    tree_add_runtime(tree, cpu_recipe.folder);
    return NULL;
}
