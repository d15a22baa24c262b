/* forecast.c: checks the forecast of a step's time.
 *
 * On each example, leaving out periods of loops gives the times of the whole walk; the
 * parts of a step sum to it; no statement takes less than on an idle machine, and the
 * step not less than any stream's work. Durations of matmuls are those of tiles and
 * waves. Machine files without a source, or with an unknown constant, are refused.
 */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "codegen/target/target.h"
#include "forecast/forecast.h"
#include "forecast/rates.h"
#include "passes/sharding/reshard.h"
#include "runtime/cuda/core/rt_experts_plan.h"
#include "tests/unit/check.h"
#include "tests/unit/pdl_program.h"

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)) + 1e-18;
}

/* ---- programs ------------------------------------------------------------ */

static bool same_forecast(const Forecast *x, const Forecast *y)
{
    bool same = near(x->seconds, y->seconds);
    for (int i = 0; i < x->n; i++)
        same &= near(x->time[i].run, y->time[i].run) &&
                fabs(x->time[i].exposed - y->time[i].exposed) <= 1e-9 * x->seconds;
    return same;
}

static void check_sums(Check *c, const Forecast *f)
{
    double classes = f->waits + f->bubble, phases = classes, stream[STREAMS] = {0};
    bool alone = true;
    for (int k = 0; k < WORK_CLASSES; k++)
        classes += f->by_class[k];
    for (int k = 0; k < FORECAST_PHASES; k++)
        phases += f->by_phase[k];
    for (int i = 0; i < f->n; i++) {
        /* A rank of a pipeline does not run all statements, and not equally often. */
        double all = f->pipeline ? 0
                                 : f->work[i].seconds * (double)f->statement[i].count;
        stream[f->statement[i].op->stream] += f->time[i].run;
        alone &= f->time[i].run >= all * (1 - 1e-9);
        alone &= f->time[i].exposed <= f->time[i].run * (1 + 1e-9);
    }
    CHECK(c, near(classes, f->seconds));
    CHECK(c, near(phases, f->seconds));
    CHECK(c, alone);
    for (int k = 0; k < STREAMS; k++)
        CHECK(c, stream[k] <= f->seconds);
    CHECK(c, f->mfu > 0 && f->mfu < 1);
}

/* Whether leaving out periods changes nothing; returns the forecast. */
static Forecast check_periods(Check *c, const Program *p, const char *name)
{
    const char *error = "";
    const Machine *m = machine_load(p->arena, "h100-sxm", &error);
    CHECK(c, m != NULL);
    Forecast some = forecast_of(p, m, false), all = forecast_of(p, m, true);
    if (!same_forecast(&some, &all))
        printf("%s: %.12g and %.12g s\n", name, some.seconds, all.seconds);
    CHECK(c, same_forecast(&some, &all));
    check_sums(c, &some);
    return some;
}

static Program *compiled(Check *c, Arena *a, const char *text, const char *mesh,
                         const char *const *define)
{
    Diag *d = diag_new(a, COLOR_NEVER);
    TargetInfo t = target_info(TARGET_CUDA, 1);
    Program *p = pdl_program(a, d, text, mesh, NULL, define);
    bool good = p && !run_all_passes(p, &t);
    diag_flush(d, stderr);
    CHECK(c, good);
    return good ? p : NULL;
}

static void check_step(Check *c, const char *file, const char *mesh,
                       const char *const *define)
{
    Arena *a = arena_new();
    size_t size;
    const Program *p = compiled(c, a, file_read(a, file, &size), mesh, define);
    if (p)
        check_periods(c, p, file);
    arena_free(a);
}

/* The text of a model with another schedule. */
static const char *scheduled(Arena *a, const char *text, const char *schedule)
{
    const char *old = "{ schedule=1f1b }", *at = strstr(text, old);
    return arena_printf(a, "%.*s{ schedule=%s }%s", (int)(at - text), text, schedule,
                        at + strlen(old));
}

/* The part of a step in which the slowest rank waits, relative to its ideal, where
 * transfers take no time and all stages are equal. */
static void check_bubble(Check *c, const char *schedule, const char *mesh, double ideal)
{
    static const char *const define[] = {"vocab=512", "n_layers=32", NULL};
    Arena *a = arena_new();
    size_t size;
    const char *text = file_read(a, "examples/three_d.pdl", &size);
    const Program *p = compiled(c, a, scheduled(a, text, schedule), mesh, define);
    if (p) {
        Forecast f = check_periods(c, p, schedule);
        double bubble = f.bubble / f.seconds;
        if (fabs(bubble - ideal) > 0.03)
            printf("%s on %s: waits %.3f of a step, ideally %.3f\n", schedule, mesh,
                   bubble, ideal);
        CHECK(c, fabs(bubble - ideal) <= 0.03);
    }
    arena_free(a);
}

static void check_pipelines(Check *c)
{
    check_bubble(c, "gpipe", "2x2x2", 1.0 / 9);
    check_bubble(c, "1f1b", "2x2x2", 1.0 / 9);
    check_bubble(c, "1f1b", "4x2x2", 3.0 / 11);
    check_bubble(c, "interleaved", "2x2x2", 1.0 / 17);
    check_bubble(c, "zero_bubble", "2x2x2", 1.0 / 25);
    check_bubble(c, "zero_bubble", "4x2x2", 3.0 / 27);
}

static void check_examples(Check *c)
{
    static const char *const as_it_is[] = {NULL};
    static const char *const deep[] = {"n_layers=40", "accumulate=8", NULL};
    static const char *const once[] = {"n_layers=33", "accumulate=2", "clip=none", NULL};
    static const char *const chunks[] = {"n_layers=17", "head_chunk=128", NULL};
    static const char *const depth[] = {"n_layers=40", NULL};
    check_step(c, "examples/llama.pdl", "8x8", as_it_is);
    check_step(c, "examples/llama.pdl", "8x8", deep);
    check_step(c, "examples/llama.pdl", "4x2", once);
    check_step(c, "examples/llama.pdl", "2x4", chunks);
    check_step(c, "examples/llama3.pdl", "8x8", as_it_is);
    check_step(c, "examples/gpt2.pdl", "4x2", deep);
    check_step(c, "examples/hsdp.pdl", "2x4x2", as_it_is);
    check_step(c, "examples/mistral.pdl", "4x2", as_it_is);
    check_step(c, "examples/qwen3.pdl", "4x2", as_it_is);
    check_step(c, "examples/vit.pdl", "4x2", depth);
    check_step(c, "examples/translation.pdl", "4x2", as_it_is);
    check_step(c, "examples/feedforward.pdl", "4x1", as_it_is);
    check_step(c, "examples/toy.pdl", "2x2", as_it_is);
}

/* ---- durations ----------------------------------------------------------- */

/* Measured on an H100 SXM5 (matmuls.csv), in flop/s: within 8% (docs/forecast.md). */
static void check_matmuls(Check *c)
{
    static const struct {
        int64_t m, n, k;
        double rate;
    } row[] = {{8192, 8192, 8192, 714e12}, {16384, 3072, 2048, 649e12},
               {2048, 2048, 16384, 707e12}, {65536, 1024, 8192, 688e12}};
    Arena *a = arena_new();
    const char *error;
    const Machine *h = machine_load(a, "h100-sxm", &error);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        double flops = 2.0 * (double)row[i].m * (double)row[i].n * (double)row[i].k;
        double t = matmul_seconds(h, 1, row[i].m, row[i].n, row[i].k, 2, 2, 132);
        CHECK(c, fabs(t * row[i].rate / flops - 1) < 0.08);
        CHECK(c, matmul_seconds(h, 1, row[i].m, row[i].n, row[i].k, 2, 2, 108) > t);
    }
    arena_free(a);
}

/* Grouped matmuls of large experts reach the rate of their kernel; those of small ones are limited
 * by tiles that are mostly empty, or by the bytes of the matrices. */
static void check_grouped(Check *c)
{
    Arena *a = arena_new();
    const char *error;
    const Machine *h = machine_load(a, "h100-sxm", &error);
    double rate = machine_value(h, peak_bf16) * machine_value(h, matmul_sustained) *
                  machine_value(h, matmul_mma);
    const int64_t rows = 8192, f = 14336, d = 4096;
    double ideal = 2.0 * 8 * (double)(rows * f * d) / rate;
    ParcGrouped y = {PARC_GROUPED_Y, 1, 1, 8 * rows, 8 * rows, 8, f, d, PARC_BF16, PARC_BF16};
    ParcGrouped gradient = y, exact = y, few = y, apart = y;
    gradient.computes = PARC_GROUPED_WEIGHT;
    exact.type = PARC_F32;
    double t = grouped_seconds(h, &y, 1, 132), dw = grouped_seconds(h, &gradient, 1, 132);
    CHECK(c, t > ideal && t < 1.05 * ideal);
    CHECK(c, dw > ideal && dw < 1.05 * ideal);
    CHECK(c, grouped_seconds(h, &exact, 1, 132) > 5 * t);
    CHECK(c, grouped_seconds(h, &y, 1, 100) > 1.2 * t);
    few.experts = 256, few.used = few.r = 256 * 16, few.f = 2048;
    double empty = grouped_seconds(h, &few, 1, 132);
    few.used = few.r *= 2;
    CHECK(c, grouped_seconds(h, &few, 1, 132) < 1.5 * empty);
    /* The same rows from 64 groups, of which a rank has one shard of 8: more tiles are cut. */
    few.experts = 8, few.used = few.r = 8 * 2048;
    apart = few;
    apart.groups = 64, apart.r /= 8, apart.used = apart.r / 8;
    CHECK(c, rt_grouped_rows(&few) > rt_grouped_rows(&apart));
    CHECK(c, grouped_seconds(h, &apart, 1, 132) > 1.2 * grouped_seconds(h, &few, 1, 132));
    few.used = few.r = 8 * 16;
    CHECK(c, near(grouped_seconds(h, &few, (int64_t)1 << 40, 132),
                  machine_value(h, matmul_start) + (double)((int64_t)1 << 40) /
                      (machine_value(h, hbm_rate) * machine_value(h, hbm_streaming))));
    arena_free(a);
}

/* A size that was measured has its own rate, others one between those of the nearest. */
static void check_rates(Check *c)
{
    static MachineProduct product[] = {{"f32", 1, 64, 64, 64, {.value = 1e9, .spread = 0.1}},
                                       {"f32", 1, 256, 256, 256, {.value = 4e9}},
                                       {"bf16", 1, 64, 64, 64, {.value = 7e9}}};
    static MachineKernel kernel[] = {{"row", 1 << 20, {.value = 2e9}},
                                     {"row", 1 << 10, {.value = 8e9}},
                                     {"streaming", 1 << 15, {.value = 5e9}}};
    Machine m = {.product = {product, 3, 3}, .kernel = {kernel, 3, 3}};
    double spread;
    CHECK(c, fabs(product_rate(&m, true, 1, 64, 64, 64, &spread) / 1e9 - 1) < 1e-6);
    CHECK(c, fabs(spread - 0.1) < 1e-6);
    CHECK(c, near(product_rate(&m, true, 1, 128, 128, 128, &spread), 2e9));
    CHECK(c, product_rate(&m, true, 1, 512, 512, 512, &spread) > 3.5e9);
    CHECK(c, near(product_rate(&m, false, 1, 128, 128, 128, &spread), 7e9));
    CHECK(c, near(kernel_rate(&m, "row", 1 << 15, &spread), 4e9));
    CHECK(c, near(kernel_rate(&m, "row", 1 << 10, &spread), 8e9));
    CHECK(c, near(kernel_rate(&m, "row", 1 << 30, &spread), 2e9));
    CHECK(c, near(kernel_rate(&m, "row", 1, &spread), 8e9));
    CHECK(c, near(kernel_rate(&m, "streaming", 1 << 20, &spread), 5e9));
    CHECK(c, kernel_rate(&m, "column", 1 << 20, &spread) == 0);
}

/* The pass propagate assumes the links of the machine, if it is given. */
static void check_links(Check *c)
{
    Arena *a = arena_new();
    const char *error;
    const Machine *h = machine_load(a, "h100-sxm", &error);
    Mesh mesh = {.n = 2, .name = {"dp", "tp"}, .size = {4, 8}, .link = h->link};
    double inside = collective_seconds(&mesh, OP_all_gather, 1, 1 << 30);
    double between = collective_seconds(&mesh, OP_all_gather, 0, 1 << 30);
    CHECK(c, fabs(inside * 370e9 / (7.0 / 8 * (1 << 30)) - 1) < 0.01);
    CHECK(c, fabs(between * 48e9 / (3.0 / 4 * (1 << 30)) - 1) < 0.01);
    mesh.link = NULL;
    CHECK(c, collective_seconds(&mesh, OP_all_gather, 1, 1 << 30) > 2 * inside);
    arena_free(a);
}

/* ---- machine files ------------------------------------------------------- */

static const char *error_of(Arena *a, const char *text)
{
    const char *error = "", *path = "build/unit/machine.json";
    FILE *file = fopen(path, "w");
    if (!file)
        return "cannot write";
    fputs(text, file);
    fclose(file);
    return machine_load(a, path, &error) ? "" : error;
}

static void check_errors(Check *c)
{
    static const struct {
        const char *text, *error;
    } row[] = {
        {"{}", "the machine's 'target'"},
        {"{\"target\": \"cuda\"}", "the constant device.sms is missing"},
        {"{\"target\": \"cpu\"}", "the constant device.straggler is missing"},
        {"{\"hbm\": {\"rate\": {\"value\": 1, \"date\": \"2026-11\"}}}",
         "hbm.rate: a constant needs its source"},
        {"{\"hbm\": {\"rate\": {\"value\": 1, \"from\": \"me\"}}}",
         "hbm.rate: a constant needs its source"},
        {"{\"hbm\": {\"rate\": {\"value\": -1, \"from\": \"me\", \"date\": \"x\"}}}",
         "hbm.rate: its 'value' has to be from"},
        {"{\"hbm\": {\"rate\": {\"value\": 0, \"from\": \"me\", \"date\": \"x\"}}}",
         "hbm.rate: its 'value' has to be from 1 to 1e+18"},
        {"{\"tile\": [{\"m\": 0}]}", "tile.m: it has to be a whole number from 1"},
        {"{\"hbm\": {\"speed\": {\"value\": 1}}}", "hbm.speed: there is no such"},
        {"{\"tile\": [{\"m\": 1}]}", "tile: an entry lacks a field"},
        {"{\"tile\": [{\"o\": 1}]}", "tile.o: there is no such field"},
        {"{\"kernel\": [{\"form\": \"rows\"}]}",
         "kernel.form: 'rows' is none of: streaming, row, column"},
        {"{\"attention\": [{\"pass\": \"both\"}]}", "attention.pass: 'both' is none of"},
        {"{\"hbm\": 3}", "1: "},
        {"", "1: "},
    };
    Arena *a = arena_new();
    const char *error = NULL;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *is = error_of(a, row[i].text);
        if (!strstr(is, row[i].error))
            printf("machine file %s: '%s'\n", row[i].text, is);
        CHECK(c, strstr(is, row[i].error) != NULL);
    }
    CHECK(c, !machine_load(a, "h101", &error) && strstr(error, "h100-sxm"));
    arena_free(a);
}

int main(void)
{
    Check c = {0};
    check_matmuls(&c);
    check_grouped(&c);
    check_rates(&c);
    check_links(&c);
    check_errors(&c);
    check_examples(&c);
    check_pipelines(&c);
    return check_end(&c);
}
