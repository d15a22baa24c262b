/* tree.c: collects the source files of an emitted program in memory, writes
 * them to a directory, and prints the first lines of its Makefile. */
#include "codegen/package/tree.h"

#include "base/embedded.h"
#include "base/text.h"
#include "codegen/machine.h"

#include <string.h>

void tree_add(Tree *t, const char *name, const char *text, size_t size)
{
    TreeFile f = {name, text, size};
    vec_push(t->arena, &t->file, f);
}

void tree_add_out(Tree *t, const char *name, const Out *text)
{
    tree_add(t, name, text->text, text->size);
}

static bool is_listed(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

/* Whether a file of the runtime belongs to other programs than those that have
 * these directories. Directories that are not named here belong to all. */
static bool is_of_others(const char *name, const char *const *directory)
{
    static const char *const some[] = {"cpu/", "cuda/", "mpi/"};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        if (starts_with(name, some[i]) && !is_listed(directory, some[i]))
            return true;
    return false;
}

void tree_add_runtime(Tree *t, const Recipe *b)
{
    for (const EmbeddedFile *f = runtime_files; f->name; f++)
        if (!is_of_others(f->name, b->directory))
            tree_add(t, arena_printf(t->arena, "runtime/%s", f->name), f->text,
                     f->size);
}

const char *tree_write(const Tree *t, int first, Outputs *outputs,
                       const char *directory)
{
    const char *failure = outputs_mkdir(outputs, directory), *last = "";
    for (int i = first; i < t->file.n && !failure; i++) {
        const TreeFile *f = &t->file.at[i];
        const char *path = arena_printf(t->arena, "%s/%s", directory, f->name);
        const char *parent =
            arena_strndup(t->arena, path, (size_t)(strrchr(path, '/') - path));
        if (strcmp(parent, last)) /* files of a directory are adjacent */
            failure = outputs_mkdir(outputs, parent);
        last = parent;
        if (!failure)
            failure = outputs_add(outputs, path, f->text, f->size, false);
    }
    return failure;
}

void makefile_head(Out *o, const Recipe *b, const CpuLevel *cpu)
{
    out_line(o, strcmp(b->compiler, "cc") == 0 ? "CC ?= %s" : "CC = %s",
             b->compiler);
    out(o, "CFLAGS =");
    for (const char *const *flag = b->flag; *flag; flag++)
        out(o, " %s", *flag);
    for (const char *const *path = b->include; *path; path++)
        out(o, " %s", *path);
    out_line(o, "");
    if (cpu) {
        out(o, "CPU =");
        for (const char *const *flag = cpu->flag; *flag; flag++)
            out(o, " %s", *flag);
        out_line(o, "");
    }
    out_line(o, "");
}
