/* program_cuda.c: builds the source tree of a program for GPUs in memory,
 * compiles its kernels, and holds the flags with which its C code is compiled.
 *
 *   train.c, model.h, model.c   the step, as for the CPU
 *   kernels.cu the kernels of fused ops
 *   instances.cu  instances of hand-written kernels, if the program needs any
 *   launch.c   a C function for each fused op, which launches its kernel
 *   kernels.h  the prototypes of these functions, for train.c and launch.c
 *   kernels.sm_90a.cubin, …   the images: the compiled kernels, a file for each
 *              source and architecture
 *   images.c   includes the images in the program as data
 *   Makefile, runtime/        for builds without parc
 *
 * The host code is plain C and does not link CUDA libraries: the runtime opens
 * the driver and the libraries when the program starts.
 */
#include "codegen/c_text.h"
#include "codegen/cuda/cuda.h"
#include "codegen/machine.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/emit/train_c.h"
#include "codegen/package/tree.h"

#include "base/embedded.h"

#include <stdio.h>
#include <string.h>

/* No flag for this machine's CPU: the program may run on other machines. */
static const char *const flags[] = {
    "-std=c11", "-O2", "-fopenmp", "-D_GNU_SOURCE",
#ifdef __SANITIZE_ADDRESS__
    "-fsanitize=address,undefined", "-g",
#endif
    NULL};
static const char *const include[] = {"-Iruntime", NULL};
static const char *const sources[] = {"train.c", "model.c", "launch.c",
                                      "images.c", NULL};
static const char *const libraries[] = {"-ldl", "-lm", NULL};
static const char *const directories[] = {"cuda/", NULL};
const Recipe cuda_recipe = {
    directories, "cc", "libparc_rt_cuda.a", flags, include, sources, 3, NULL,
    libraries};

/* ---- images -------------------------------------------------------------- */

/* "kernels.sm_90a.cubin", "instances.compute_80.ptx" */
static const char *image_file(Arena *a, const NvrtcImage *image)
{
    return arena_printf(a, "%.*s.%s.%s",
                        (int)(strlen(image->source) - strlen(".cu")),
                        image->source, image->arch,
                        image->arch[0] == 's' ? "cubin" : "ptx");
}

/* A string of assembler, on a line of C. */
#define ASSEMBLE(o, fmt, ...) out_line(o, "    \"" fmt "\\n\"", __VA_ARGS__)

/* The table is written in assembler, so that it contains the sizes of images
 * that are compiled after parc wrote this file. */
static void images_text(Out *o, const NvrtcImage *image)
{
    Arena *a = o->arena;
    out_line(o, "/* images.c: includes the compiled kernels of this directory "
                "in the program.");
    out_line(o, " *");
    out_line(o, " * const ParcImage images[]: {arch, data, size} of each; PTX "
                "is a string. */");
    out_line(o, "__asm__(");
    ASSEMBLE(o, "    .section .rodata%s", "");
    for (int i = 0; image[i].arch; i++) {
        ASSEMBLE(o, "    .balign %d", 64);
        ASSEMBLE(o, ".Ldata%d:", i);
        ASSEMBLE(o, "    .incbin \\\"%s\\\"", image_file(a, &image[i]));
        ASSEMBLE(o, ".Lend%d:", i);
        ASSEMBLE(o, "    .byte %d", 0);
        ASSEMBLE(o, ".Larch%d: .asciz \\\"%s\\\"", i, image[i].arch);
    }
    ASSEMBLE(o, "    .section .data.rel.ro,\\\"aw\\\"%s", "");
    ASSEMBLE(o, "    .balign %d", 8);
    ASSEMBLE(o, "    .globl %s", "images");
    ASSEMBLE(o, "%s:", "images");
    for (int i = 0; image[i].arch; i++)
        ASSEMBLE(o, "    .quad .Larch%d, .Ldata%d, .Lend%d - .Ldata%d", i, i, i,
                 i);
    ASSEMBLE(o, "    .section .note.GNU-stack,\\\"\\\"%s", "");
    ASSEMBLE(o, "    .text%s", "");
    out_line(o, ");");
}

/* ---- sources ------------------------------------------------------------- */

/* The rules for the images of a source. */
static void image_rules(Out *o, const char *source)
{
    static const char *const kind[] = {"cubin", "ptx"};
    int stem = (int)(strlen(source) - strlen(".cu"));
    for (int i = 0; i < 2; i++)
        out(o,
            "%.*s.%%.%s: %s $(DEVICE)\n"
            "\t$(NVCC) $(NVCCFLAGS) -arch=$* -%s -o $@ $<\n\n",
            stem, source, kind[i], source, kind[i]);
}

static void makefile_text(Out *o, const NvrtcImage *image)
{
    out(o,
        "# Builds ./train from the sources that parc wrote. The images of the "
        "kernels are\n"
        "# in this directory; nvcc recompiles them if device code is newer.\n");
    makefile_head(o, &cuda_recipe, NULL);
    out(o,
        "NVCC ?= nvcc\n"
        "NVCCFLAGS = -std=c++17 -lineinfo -Iruntime -Iruntime/cuda/device\n\n"
        "SOURCES = train.c model.c launch.c images.c \\\n"
        "          $(wildcard runtime/*/*.c runtime/*/*/*.c)\n"
        "HEADERS = model.h kernels.h \\\n"
        "          $(wildcard runtime/*.h runtime/*/*.h runtime/*/*/*.h)\n"
        "DEVICE = runtime/parc_order.h runtime/parc_random.h $(wildcard runtime/cuda/device/*)\n"
        "IMAGES =");
    for (int i = 0; image[i].arch; i++)
        out(o, " %s", image_file(o->arena, &image[i]));
    out(o, "\n\n"
           "train: $(SOURCES) $(HEADERS) $(IMAGES)\n"
           "\t$(CC) $(CFLAGS) -o $@ $(SOURCES) -ldl -lm\n\n");
    for (int i = 0; image[i].arch; i++)
        if (i == 0 || image[i].source != image[i - 1].source)
            image_rules(o, image[i].source);
    out(o, "clean:\n"
           "\trm -f train\n\n"
           ".PHONY: clean\n");
}

/* ---- compiling ----------------------------------------------------------- */

static void print_compiled(const NvrtcResult *r)
{
    for (int i = 0; i < r->kernel.n; i++) {
        const NvrtcKernel *k = &r->kernel.at[i];
        fprintf(stderr, "parc: %s: %s: %d registers, %d bytes shared",
                k->arch, k->name, k->registers, k->shared);
        if (k->stack > 0)
            fprintf(stderr, ", %d bytes of stack", k->stack);
        if (k->spill_stores + k->spill_loads > 0)
            fprintf(stderr, ", spills %d bytes and loads %d",
                    k->spill_stores, k->spill_loads);
        fputc('\n', stderr);
    }
    for (int i = 0; i < r->time.n; i++)
        fprintf(stderr, "parc: %s: %s compiled in %.2f s\n",
                r->time.at[i].arch, r->time.at[i].source,
                r->time.at[i].seconds);
}

typedef VEC(NvrtcText) Headers;

/* The headers of a directory of the runtime ("": those for all targets) as
 * device code includes them: by base name; the first of several with the same
 * name. */
static void add_headers(Arena *a, Headers *to, const char *directory)
{
    size_t n = strlen(directory);
    for (const EmbeddedFile *f = runtime_files; f->name; f++) {
        if (strncmp(f->name, directory, n) != 0)
            continue;
        NvrtcText h = {f->name + n, f->text};
        const char *end = strrchr(h.name, '.');
        bool wanted = !strchr(h.name, '/') && end && strcmp(end, ".c") != 0;
        for (int i = 0; i < to->n; i++)
            wanted &= strcmp(to->at[i].name, h.name) != 0;
        if (wanted)
            vec_push(a, to, h);
    }
}

static NvrtcJobs *compile_device_code(Arena *a, const Out *kernels,
                                      const Out *instances,
                                      const EmitOptions *options,
                                      const char **failure)
{
    NvrtcText *source = NEW_ARRAY(a, NvrtcText, 2);
    source[0] = (NvrtcText){"kernels.cu", kernels->text};
    source[1] = (NvrtcText){"instances.cu", instances->text};
    Headers header = {0};
    add_headers(a, &header, "cuda/device/");
    add_headers(a, &header, "");
    return nvrtc_start(a, source, instances->size ? 2 : 1, header.at, header.n,
                       options->arch, failure);
}

/* ---- the tree ------------------------------------------------------------ */

static void add_sources(Tree *tree, const Program *p, const TargetInfo *t,
                        const EmitOptions *options, const CudaKernels *kernels,
                        const NvrtcImage *image)
{
    SourceFiles files;
    CudaProgram cuda = {.kernels = kernels};
    Out images, make;
    out_init(&images, tree->arena);
    out_init(&make, tree->arena);
    while (image[cuda.nimages].arch)
        cuda.nimages++;
    train_c_emit(&files, p, t, options, &cuda);
    images_text(&images, image);
    makefile_text(&make, image);
    tree_add_out(tree, "train.c", &files.train_c);
    tree_add_out(tree, "model.h", &files.model_h);
    tree_add_out(tree, "model.c", &files.model_c);
    tree_add_out(tree, "images.c", &images);
    tree_add_out(tree, "Makefile", &make);
}

NvrtcJobs *cuda_tree(Tree *tree, const Program *p, const TargetInfo *t,
                     const EmitOptions *options, const char **failure)
{
    CudaKernels kernels = {.arena = tree->arena};
    Out launch, cu, instances, header;
    out_init(&launch, tree->arena);
    out_init(&cu, tree->arena);
    out_init(&instances, tree->arena);
    out_init(&header, tree->arena);
    cuda_launch_emit(&launch, p, &kernels);
    cuda_kernels_emit(&cu, p);
    cuda_instances_emit(&instances, p, &kernels);
    NvrtcJobs *jobs = compile_device_code(tree->arena, &cu, &instances, options,
                                          failure);
    if (!jobs)
        return NULL;
    cuda_prototypes_emit(&header, p);
    add_sources(tree, p, t, options, &kernels, nvrtc_images(jobs));
    tree_add_out(tree, "launch.c", &launch);
    tree_add_out(tree, "kernels.h", &header);
    tree_add_out(tree, "kernels.cu", &cu);
    if (instances.size)
        tree_add_out(tree, "instances.cu", &instances);
    tree_add_runtime(tree, &cuda_recipe);
    return jobs;
}

/* The images come last, so that they are newer than their sources. */
const char *cuda_add_images(Tree *tree, NvrtcJobs *jobs,
                            const EmitOptions *options)
{
    NvrtcResult result;
    const char *failure = nvrtc_finish(jobs, &result);
    if (failure)
        return failure;
    if (options->verbose)
        print_compiled(&result);
    for (int i = 0; i < result.image.n; i++)
        tree_add(tree, image_file(tree->arena, &result.image.at[i]),
                 result.image.at[i].data, result.image.at[i].size);
    return NULL;
}
