/* nvrtc_log.c: parses the log of a compilation.
 *
 *   kernels.cu(12): warning #550-D: variable "x" was set but never used
 *   ptxas info    : Compiling entry function 'k01_norm' for 'sm_90a'
 *   ptxas         .     0 bytes stack frame, 0 bytes spill stores, …
 *   ptxas info    : Used 13 registers, used 0 barriers, 1024 bytes smem
 *
 * The first line is a diagnostic, followed by lines of source and carets; the
 * others report the resources of a kernel; ptxas outside NVRTC begins the third
 * one with spaces only.
 */
#include "codegen/cuda/nvrtc.h"

#include "base/out.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number before a word of the line: "1024" for ", 1024 bytes smem". */
static int number_before(const char *line, const char *word)
{
    const char *at = strstr(line, word);
    while (at && at > line && at[-1] == ' ')
        at--;
    while (at && at > line && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at ? atoi(at) : 0;
}

static const char *quoted(Arena *a, const char *text)
{
    const char *end = strchr(text, '\'');
    return end ? arena_strndup(a, text, (size_t)(end - text)) : text;
}

/* A line written by ptxas. */
static void read_report(Arena *a, const char *line, const char *arch,
                        NvrtcKernels *kernels)
{
    static const char entry[] = "Compiling entry function '";
    const char *name = strstr(line, entry);
    if (name) {
        NvrtcKernel k = {.name = quoted(a, name + sizeof entry - 1),
                         .arch = arch};
        vec_push(a, kernels, k);
    }
    if (kernels->n == 0)
        return;
    NvrtcKernel *k = &kernels->at[kernels->n - 1];
    if (strstr(line, "bytes stack frame")) {
        k->stack = number_before(line, "bytes stack frame");
        k->spill_stores = number_before(line, "bytes spill stores");
        k->spill_loads = number_before(line, "bytes spill loads");
    } else if (strstr(line, " registers")) {
        k->registers = number_before(line, "registers");
        k->shared = number_before(line, "bytes smem");
    }
}

/* The kernel that contains a line of the source: the last one declared at or
 * before it; NULL if there is none. */
static const char *kernel_at(Arena *a, const char *text, int line)
{
    static const char mark[] = "PARC_KERNEL(";
    const char *kernel = NULL;
    for (int i = 1; i <= line && text; i++) {
        if (starts_with(text, mark))
            kernel = text;
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    const char *name = kernel ? strchr(kernel, ')') : NULL;
    if (!name)
        return NULL;
    name += 1 + strspn(name + 1, " \n");
    return arena_strndup(a, name, strcspn(name, "(\n "));
}

/* Adds the kernel's name before "kernels.cu(12): warning …". */
static void put_message(Arena *a, const NvrtcText *source, const char *line,
                        Out *to)
{
    size_t n = strlen(source->name);
    if (starts_with(line, source->name) && line[n] == '(') {
        const char *kernel = kernel_at(a, source->text, atoi(line + n + 1));
        out(to, "%s: ", kernel ? kernel : "(before all kernels)");
    }
    out(to, "%s\n", line);
}

const char *nvrtc_read_log(Arena *a, const NvrtcText *source, const char *log,
                           const char *arch, NvrtcKernels *kernels)
{
    Out messages;
    out_init(&messages, a);
    while (*log) {
        size_t n = strcspn(log, "\n");
        const char *line = arena_strndup(a, log, n);
        bool report = starts_with(line, "ptxas ") ||
                      strstr(line, "bytes stack frame");
        if (report && !strstr(line, "warning") && !strstr(line, "error"))
            read_report(a, line, arch, kernels);
        else if (line[strspn(line, " ")])
            put_message(a, source, line, &messages);
        log += n + (log[n] == '\n');
    }
    return messages.size ? messages.text : NULL;
}
