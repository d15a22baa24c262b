/* report_side.c: prints the side programs of a plan, as text and as JSON.
 *
 *   Side programs (between training steps, in the same memory)
 *     evaluation  1.31 MiB per rank at the peak, 24.1 Mflop per run
 *                 14 kernels, 5 matmuls, 1 attention
 *                 dp: 4 calls, 98.00 KiB per rank and run
 *     outputs     1.20 MiB per rank at the peak …
 *                 logits f32[8/dp, 32, 512/tp], one microbatch
 *
 * A program that needs more memory than the training step makes the arena
 * larger; the line says by how much.
 */
#include "codegen/numbers.h"
#include "ir/analysis/flops.h"
#include "report/json.h"
#include "report/report.h"

#include <string.h>

/* The bytes that a side program needs more than the training step. */
static int64_t raised(const Program *f)
{
    int64_t more = f->memory->peak - f->training->memory->peak;
    return more > 0 ? more : 0;
}

/* The number of calls of one run, by kind of statement. */
static int64_t calls_of(const Statement *w, int n, const char *kind)
{
    int64_t calls = 0;
    for (int i = 0; i < n; i++)
        if (!strcmp(w[i].kind, kind))
            calls += w[i].count;
    return calls;
}

static const char *statements(const Program *f)
{
    static const char *const kind[][2] = {{"kernel", "kernels"},
                                          {"matmul", "matmuls"},
                                          {"convolution", "convolutions"},
                                          {"attention", "attentions"},
                                          {"transfer", "transfers"}};
    int n;
    const Statement *w = statements_of(f, &n);
    const char *text = "";
    for (size_t k = 0; k < sizeof kind / sizeof *kind; k++) {
        int64_t calls = calls_of(w, n, kind[k][0]);
        if (calls)
            text = arena_printf(f->arena, "%s%s%lld %s", text,
                                *text ? ", " : "", (long long)calls,
                                kind[k][calls > 1]);
    }
    return text;
}

static void program(Out *o, const Program *f)
{
    static const char *const name[PURPOSES] = {[FOR_LOSS] = "evaluation",
                                               [FOR_OUTPUTS] = "outputs",
                                               [FOR_ROUNDS] = "rounds"};
    Arena *a = f->arena;
    int64_t more = raised(f);
    out_line(o, "  %-11s %s per rank at the peak%s, %sflop per run",
             name[f->purpose],
             bytes_text(a, f->memory->peak),
             more ? arena_printf(a, ", %s more than the training step",
                                 bytes_text(a, more))
                  : "",
             count_text(a, program_flops_executed(f)));
    for (int i = 0; i < f->output.n; i++)
        out_line(o, "              %s %s", f->output.at[i].name,
                 type_text(a, &program_output(f, f->output.at[i].name)->type,
                           &f->mesh));
    if (f->output.n && f->training->train.accumulate > 1)
        out_line(o, "              of one microbatch of %lld",
                 (long long)f->train.batch);
    const char *calls = statements(f);
    if (*calls)
        out_line(o, "              %s", calls);
    report_traffic(o, f, "", 14, "run");
}

void report_side(Out *o, const Program *p)
{
    bool any = false;
    for (int k = 0; k < PURPOSES; k++) {
        if (!p->side[k])
            continue;
        if (!any)
            out_line(o,
                     "\nSide programs (they run between training steps, in "
                     "the same memory)");
        any = true;
        program(o, p->side[k]);
    }
}

/* ---- JSON ---------------------------------------------------------------- */

static void tensors(Out *o, const Program *f)
{
    out(o, ",\n    \"tensors\": [");
    for (int i = 0; i < f->output.n; i++) {
        const Output *of = &f->output.at[i];
        out(o, i ? ", {" : "{");
        json_text(o, "name", of->name);
        json_text(o, "dtype",
                  dtype_name(program_output(f, of->name)->type.dtype));
        json_shape(o, of->ndim, of->dim);
        out(o, "}");
    }
    out(o, "]");
}

static void side_collectives(Out *o, const Program *f)
{
    int n;
    const CollectiveInfo *c = collectives_of(f, &n);
    out(o, ",\n    \"collectives\": [");
    for (int i = 0; i < n; i++) {
        out(o, "%s      {", i ? ",\n" : "\n");
        json_text(o, "id", c[i].label);
        json_text(o, "kind", c[i].kind);
        json_text(o, "axis", c[i].axis);
        json_text(o, "tensor", c[i].tensor);
        json_number(o, "bytes", c[i].bytes);
        json_number(o, "count", c[i].count);
        out(o, ", \"in_place\": %s}", c[i].in_place ? "true" : "false");
    }
    out(o, "%s]", n ? "\n    " : "");
}

void report_json_side(Out *o, const Program *p)
{
    for (int k = 0; k < PURPOSES; k++) {
        const Program *f = p->side[k];
        int n;
        if (!f)
            continue;
        const Statement *w = statements_of(f, &n);
        out(o, "  \"%s\": {\n    ", program_word(f));
        json_number(o, "peak", f->memory->peak);
        json_number(o, "more", raised(f));
        json_real(o, "flops", program_flops_executed(f));
        out(o, ",\n    ");
        json_number(o, "kernels", calls_of(w, n, "kernel"));
        json_number(o, "matmuls", calls_of(w, n, "matmul"));
        if (f->output.n)
            tensors(o, f);
        side_collectives(o, f);
        out(o, "\n  },\n");
    }
}
