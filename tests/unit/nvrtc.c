/* nvrtc.c: tests the parser of the CUDA compiler's log, and, where NVRTC is
 * installed, a compilation. */
#include "codegen/cuda/nvrtc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/check.h"

static const char kernels_cu[] = "#include \"parc_device.h\"\n"
                                 "static int x;\n"
                                 "PARC_KERNEL(256) k00_add(float *y)\n"
                                 "{\n"
                                 "    int unused = 0;\n"
                                 "}\n"
                                 "PARC_KERNEL(128)\n"
                                 "k01_norm(float *y)\n"
                                 "{\n"
                                 "}\n";

static const char reports[] =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : Compiling entry function 'k01_norm' for 'sm_90a'\n"
    "ptxas info    : Function properties for k01_norm\n"
    "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes "
    "spill loads\n"
    "ptxas info    : Used 40 registers, used 1 barriers, 16 bytes cumulative "
    "stack size, 1152 bytes smem\n"
    "ptxas info    : Compile time = 6.852 ms\n"
    "ptxas info    : Compiling entry function 'k00_add' for 'sm_90a'\n"
    "ptxas info    : Function properties for k00_add\n"
    "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
    "ptxas info    : Used 13 registers, used 0 barriers\n"
    "\n";

static void reads_reports(Check *c, Arena *a)
{
    NvrtcText source = {"kernels.cu", kernels_cu};
    NvrtcKernels k = {0};
    CHECK(c, !nvrtc_read_log(a, &source, reports, "sm_90a", &k));
    CHECK(c, k.n == 2);
    if (k.n != 2)
        return;
    CHECK(c, !strcmp(k.at[0].name, "k01_norm"));
    CHECK(c, !strcmp(k.at[0].arch, "sm_90a"));
    CHECK(c, k.at[0].registers == 40 && k.at[0].shared == 1152);
    CHECK(c, k.at[0].stack == 16 && k.at[0].spill_stores == 8);
    CHECK(c, k.at[0].spill_loads == 12);
    CHECK(c, k.at[1].registers == 13 && k.at[1].shared == 0);
    CHECK(c, k.at[1].spill_stores == 0);
}

static bool names(Arena *a, const char *log, const char *message)
{
    NvrtcText source = {"kernels.cu", kernels_cu};
    NvrtcKernels k = {0};
    const char *text = nvrtc_read_log(a, &source, log, "sm_80", &k);
    if (text && !strcmp(text, message))
        return true;
    printf("%s\n", text ? text : "nothing");
    return false;
}

static void names_kernels(Check *c, Arena *a)
{
    CHECK(c, names(a, "kernels.cu(5): warning #177-D: variable unused\n",
                   "k00_add: kernels.cu(5): warning #177-D: variable "
                   "unused\n"));
    CHECK(c, names(a, "kernels.cu(8): error: what\n\n",
                   "k01_norm: kernels.cu(8): error: what\n"));
    CHECK(c, names(a, "kernels.cu(2): error: what\n",
                   "(before all kernels): kernels.cu(2): error: what\n"));
    CHECK(c, names(a, "parc_device.h(7): error: what",
                   "parc_device.h(7): error: what\n"));
    CHECK(c, names(a, "ptxas warning : Registers are spilled\n",
                   "ptxas warning : Registers are spilled\n"));
}

/* Whether the image names the kernel: in the symbols of machine code, or in the
 * text of PTX. */
static bool holds(const NvrtcImage *image, const char *text)
{
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= image->size; i++)
        if (!memcmp(image->data + i, text, n))
            return true;
    return false;
}

static const char *const archs[] = {"sm_80", "sm_90a", NULL};
static const NvrtcText header = {"own.h", "#define TWO 2.0f\n"};

/* Compiles two sources; NULL, or a message. */
static const char *compile(Arena *a, NvrtcResult *r, const NvrtcImage **image)
{
    static const NvrtcText source[] = {
        {"kernels.cu", "#include \"own.h\"\n"
                       "extern \"C\" __global__ void first(float *x)\n"
                       "{ x[threadIdx.x] = TWO; }\n"},
        {"instances.cu", "#include \"own.h\"\n"
                         "extern \"C\" __global__ void second(float *x)\n"
                         "{ x[threadIdx.x] += TWO; }\n"}};
    const char *failure;
    NvrtcJobs *jobs = nvrtc_start(a, source, 2, &header, 1, archs, &failure);
    *image = jobs ? nvrtc_images(jobs) : NULL;
    return jobs ? nvrtc_finish(jobs, r) : failure;
}

/* Both sources have images for sm_80, sm_90a and compute_80, in this order, as
 * nvrtc_images has announced. */
static void check_images(Check *c, const NvrtcResult *r, const NvrtcImage *image)
{
    static const char *const arch[] = {"sm_80", "sm_90a", "compute_80"};
    static const char *const kernel[] = {"first", "second"};
    static const char *const entry[] = {".visible .entry first(",
                                        ".visible .entry second("};
    CHECK(c, r->image.n == 6 && r->kernel.n == 4);
    for (int i = 0; i < r->image.n && i < 6; i++) {
        const NvrtcImage *have = &r->image.at[i];
        CHECK(c, !strcmp(have->arch, arch[i % 3]));
        CHECK(c, !strcmp(image[i].arch, have->arch));
        CHECK(c, !strcmp(image[i].source, have->source));
        CHECK(c, holds(have, kernel[i / 3]) && !holds(have, kernel[1 - i / 3]));
        CHECK(c, i % 3 < 2 || holds(have, entry[i / 3]));
    }
    CHECK(c, !image[r->image.n].arch);
    for (int i = 0; i < r->kernel.n; i++)
        CHECK(c, r->kernel.at[i].registers > 0 && r->kernel.at[i].stack == 0);
}

/* With ptxas, each source has three times: of NVRTC and of two ptxas. */
static void compiles(Check *c, Arena *a, int times)
{
    NvrtcResult r;
    const NvrtcImage *image;
    const char *failure = compile(a, &r, &image);
    if (failure && strstr(failure, "which is not found here")) {
        printf("SKIPPED: no NVRTC here; nothing was compiled\n");
        return;
    }
    CHECK(c, !failure);
    if (failure) {
        printf("%s\n", failure);
        return;
    }
    CHECK(c, r.time.n == 4 || r.time.n == times);
    check_images(c, &r, image);
}

static void refuses_ptxas(Check *c, Arena *a)
{
    NvrtcResult r;
    const NvrtcImage *image;
    setenv("PARC_PTXAS", "true", 1);
    const char *failure = compile(a, &r, &image);
    CHECK(c, failure && (strstr(failure, "'true', is not a ptxas of CUDA ") ||
                         strstr(failure, "which is not found here")));
}

int main(void)
{
    Check c = {0, 0};
    Arena *a = arena_new();
    reads_reports(&c, a);
    names_kernels(&c, a);
    compiles(&c, a, 6);
    setenv("PARC_PTXAS", "", 1);
    compiles(&c, a, 4);
    refuses_ptxas(&c, a);
    arena_free(a);
    return check_end(&c);
}
