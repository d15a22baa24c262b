/* dumps.c: tests that the dump after every pass is complete.
 *
 *   dumps [--sources] [PATTERN]    only cases whose name contains PATTERN
 *
 * Every plan of every example is compiled for CPU and CUDA, in every precision
 * that the model has, on several meshes; in `make check` in the last precision
 * on the last mesh, for one of the targets. The dump after each pass is parsed,
 * and the next pass runs on it: its dump must be that of the direct
 * compilation. The sources emitted from the dump after the last pass must be
 * those of an uninterrupted compilation, byte for byte. With --sources all
 * remaining passes run on each dump, and the sources are compared (`make dumps`).
 *
 * A reason that names a value names one that exists, or says which pass removed
 * it, in every dump; plan and JSON name no others.
 */
#include <malloc.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "codegen/cuda/cuda.h"
#include "codegen/emit/train_c.h"
#include "codegen/kernel/kernel.h"
#include "codegen/machine.h"
#include "codegen/target/target.h"
#include "driver/passes/pipeline.h"
#include "passes/side_program.h"
#include "report/report.h"
#include "tests/unit/check.h"
#include "tests/unit/pdl_program.h"
#include "tests/unit/random.h"

enum { MESHES = 4, PRECISIONS = 3 };

/* An example's plan (NULL: its only one) and the meshes to compile it for. */
typedef struct Example {
    const char *model, *plan;
    const char *mesh[MESHES];
    const char *precision[PRECISIONS]; /* settings; none: the default */
} Example;

#define TWO_AXES {"1x1", "2x1", "1x2", "2x2"}
#define BOTH {"precision=f32", "precision=bf16"}
static const Example examples[] = {
    {"deepseek_moe", NULL, TWO_AXES, BOTH},
    {"feedforward", NULL, TWO_AXES, {0}},
    {"gpt2", NULL, TWO_AXES, BOTH},
    {"hsdp", NULL, {"1x1x1", "2x1x1", "2x2x1", "2x2x2"}, BOTH},
    {"llama", NULL, TWO_AXES, BOTH},
    {"llama3", NULL, TWO_AXES, BOTH},
    {"mistral", NULL, TWO_AXES, BOTH},
    {"mixtral", NULL, TWO_AXES, BOTH},
    {"qwen3", NULL, TWO_AXES, BOTH},
    {"regression", NULL, TWO_AXES, {0}},
    {"toy", NULL, TWO_AXES, {0}},
    {"transformer", "full_shard", {"1", "2"}, {0}},
    {"transformer", "shard_grad_op", {"1", "2"}, {0}},
    {"transformer", "no_shard", {"1", "2"}, {0}},
    {"transformer", "full_shard_checkpoint", {"1", "2"}, {0}},
    {"transformer", "tensor_parallel", TWO_AXES, {0}},
    {"translation", NULL, TWO_AXES, BOTH},
    {"vit", NULL, TWO_AXES, BOTH},
};

/* One compilation. */
typedef struct Case {
    Check *c;
    const char *name, *text;
    const Example *example;
    const char *mesh, *precision;
    TargetInfo target;
    bool sources; /* compares the sources after every pass */
} Case;

typedef struct Sources {
    SourceFiles files;
    Out kernels, header;
} Sources;

static void emit(Arena *a, Sources *s, Program *p, const TargetInfo *t)
{
    Out plan;
    out_init(&plan, a);
    out_init(&s->kernels, a);
    out_init(&s->header, a);
    for (int k = 0; k < PURPOSES; k++)
        if (p->side[k] && side_differs(p->side[k]))
            p->side[k] = NULL;
    kernels_share(p);
    report_plan(&plan, p, t, NULL);
    EmitOptions options = {
        .source = "model.pdl", .command = "parc", .plan = plan.text};
    if (t->target == TARGET_CPU) {
        kernels_c_emit(&s->kernels, p);
        kernels_h_emit(&s->header, p);
        train_c_emit(&s->files, p, t, &options, NULL);
        return;
    }
    CudaKernels kernels = {.arena = a};
    CudaProgram cuda = {&kernels, 1};
    cuda_launch_emit(&s->header, p, &kernels);
    cuda_kernels_emit(&s->kernels, p);
    cuda_instances_emit(&s->kernels, p, &kernels);
    train_c_emit(&s->files, p, t, &options, &cuda);
}

static Program *lowered(const Case *k, Arena *a, Diag *d)
{
    const char *define[] = {k->precision, NULL};
    return pdl_programs(a, d, k->text, k->mesh, k->example->plan, define);
}

/* The sources of an uninterrupted compilation. */
static bool compile(const Case *k, Arena *a, Diag *d, Sources *s)
{
    PipelineOptions o = {0};
    Program *p = lowered(k, a, d);
    const char *module = p ? weights_differ(p) : NULL;
    if (module) {
        printf("%s: '%s' has other weights than its ops use\n", k->name, module);
        CHECK(k->c, false);
    }
    if (!p || !pipeline_run(p, &k->target, &o, NULL, 0))
        return false;
    emit(a, s, p, &k->target);
    return true;
}

/* The first line that differs, or NULL. */
static const char *difference(Arena *a, const Out *x, const Out *y)
{
    const char *s = x->text, *t = y->text;
    for (int line = 1;; line++) {
        size_t n = strcspn(s, "\n");
        if (strcspn(t, "\n") != n || strncmp(s, t, n) != 0)
            return arena_printf(a, "line %d: '%.*s' and '%.*s'", line, (int)n,
                                s, (int)strcspn(t, "\n"), t);
        if (!s[n] || !t[n])
            return s[n] == t[n] ? NULL : "the lengths differ";
        s += n + 1;
        t += n + 1;
    }
}

/* What differs between the sources of the direct compilation and of p. */
static const char *other_sources(const Case *k, Arena *a, Program *p,
                                 const Sources *direct)
{
    Sources s;
    emit(a, &s, p, &k->target);
    const Out *const one[] = {&direct->files.train_c, &direct->files.model_h,
                              &direct->files.model_c, &direct->kernels,
                              &direct->header};
    const Out *const other[] = {&s.files.train_c, &s.files.model_h,
                                &s.files.model_c, &s.kernels, &s.header};
    const char *fault = NULL;
    for (size_t i = 0; i < sizeof one / sizeof *one && !fault; i++)
        fault = difference(a, one[i], other[i]);
    return fault;
}

/* ---- references to values ------------------------------------------------ */

typedef struct Names {
    const Program *p;
    const char *text; /* the name to be found, or NULL */
    bool found;
    const char *dangling;
} Names;

static const char marker[] = "marked";

static void visit_value(Names *n, const Value *v)
{
    n->found |= n->text && strcmp(v->name, n->text) == 0;
    for (int a = 0; a < n->p->mesh.n; a++)
        if (v->why[a].removed_by == marker)
            n->dangling = v->why[a].follows;
}

static void visit_names(Op *op, void *context)
{
    for (int i = 0; i < op->nouts; i++)
        visit_value(context, op->out[i]);
    for (int i = 0; op->body && i < op->body->nargs; i++)
        visit_value(context, op->body->arg[i]);
}

/* A name in a reason of the program that no value has, though no pass is said
 * to have removed it; NULL: none. */
static const char *dangling_reason(const Program *p)
{
    Names n = {.p = p};
    why_update(p, marker);
    ir_walk(p->step, visit_names, &n);
    return n.dangling;
}

/* A name such as %x.3 in a report that no value has. */
static const char *dangling_name(Arena *a, const Program *p, const Out *report)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz_."
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    const char *at = report->text;
    while ((at = strchr(at, '%'))) {
        size_t size = strspn(++at, letters);
        Names n = {.p = p, .text = arena_strndup(a, at, size)};
        if (size == 0)
            continue;
        ir_walk(p->step, visit_names, &n);
        for (int k = 0; k < PURPOSES; k++)
            if (p->side[k])
                ir_walk(p->side[k]->step, visit_names, &n);
        if (!n.found)
            return n.text;
    }
    return NULL;
}

static const char *dangling_in_reports(Arena *a, const Program *p,
                                       const TargetInfo *t)
{
    Out plan, json;
    out_init(&plan, a);
    out_init(&json, a);
    report_plan(&plan, p, t, NULL);
    Warnings warnings = report_find_warnings(p);
    report_json(&json, p, t, &warnings, NULL);
    const char *name = dangling_name(a, p, &plan);
    return name ? name : dangling_name(a, p, &json);
}

static const char *other_dump(Arena *a, const Program *p, const Out *direct)
{
    Out dump;
    out_init(&dump, a);
    ir_print(&dump, p);
    return difference(a, direct, &dump);
}

/* Continues from dump[pass], the dump after `pass`; NULL, or what differs. */
static const char *continues(const Case *k, Arena *result, const Out *dump,
                             int pass, const Sources *direct)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    bool last = pass == pass_count - 1, sources = last || k->sources;
    PipelineOptions o = {.starts = true, .start_after = pass,
                         .stops = !sources, .stop_after = pass + 1};
    Program *p = ir_parse(a, d, diag_source(d, "dump.ir", dump[pass].text,
                                            dump[pass].size));
    const char *fault = p ? ir_verify(p) : "the dump cannot be read";
    const char *name = p ? dangling_reason(p) : NULL;
    if (name)
        fault = arena_printf(a, "no value is called %%%s", name);
    if (!fault && !pipeline_run(p, &k->target, &o, NULL, 0))
        fault = "the next pass fails";
    name = !fault && last ? dangling_in_reports(a, p, &k->target) : NULL;
    if (name)
        fault = arena_printf(a, "the reports name %%%s", name);
    if (!fault)
        fault = sources ? other_sources(k, a, p, direct)
                        : other_dump(a, p, &dump[pass + 1]);
    if (fault)
        diag_flush(d, stdout);
    fault = fault ? arena_strdup(result, fault) : NULL;
    arena_free(a);
    return fault;
}

/* The dumps of a compilation, pass by pass. */
static Out *all_dumps(const Case *k, Arena *a, Diag *d)
{
    Program *p = lowered(k, a, d);
    Out *dump = NEW_ARRAY(a, Out, pass_count);
    for (int i = 0; i < pass_count; i++) {
        PipelineOptions o = {.starts = true, .start_after = i - 1,
                             .stops = true, .stop_after = i};
        out_init(&dump[i], a);
        if (pipeline_run(p, &k->target, &o, NULL, 0))
            ir_print(&dump[i], p);
    }
    return dump;
}

static void test(const Case *k)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    Sources direct;
    bool compiled = compile(k, a, d, &direct);
    Out *dump = compiled ? all_dumps(k, a, d) : NULL;
    if (!compiled)
        diag_flush(d, stdout);
    check_that(k->c, compiled, __FILE__, __LINE__, k->name);
    int first = few_or_all((int)(k->example - examples) / 2 % 16, 0);
    for (int i = first; compiled && i < pass_count; i += few_or_all(16, 1)) {
        const char *fault = continues(k, a, dump, i, &direct);
        check_that(k->c, !fault, __FILE__, __LINE__,
                   arena_printf(a, "%s after %s: %s", k->name, pass_name(i),
                                fault ? fault : ""));
    }
    arena_free(a);
}

static void test_example(Check *c, Arena *a, const Example *e, bool sources,
                         const char *only)
{
    size_t size;
    const char *text =
        file_read(a, arena_printf(a, "examples/%s.pdl", e->model), &size);
    CHECK(c, text != NULL);
    int meshes = 0, precisions = 0;
    while (meshes < MESHES && e->mesh[meshes])
        meshes++;
    while (precisions < PRECISIONS && e->precision[precisions])
        precisions++;
    if (precisions == 0)
        precisions = 1; /* the default */
    for (int target = 0; text && target < 2; target++) {
        if (few_or_all((int)(e - examples + target) % 2, 0))
            continue;
        for (int m = few_or_all(meshes - 1, 0); m < meshes; m++)
            for (int i = few_or_all(precisions - 1, 0); i < precisions; i++) {
                bool cuda = target > 0;
                Case k = {.c = c, .text = text, .example = e,
                          .mesh = e->mesh[m], .precision = e->precision[i],
                          .sources = sources};
                k.target = target_info(cuda ? TARGET_CUDA : TARGET_CPU, 1);
                if (!cuda)
                    k.target.cpu = &cpu_level[PARC_CPU_X86_64_V3];
                k.name = arena_printf(a, "%s %s %s %s %s", e->model,
                                      e->plan ? e->plan : "-",
                                      cuda ? "cuda" : "cpu", k.mesh,
                                      k.precision ? k.precision : "-");
                if (strstr(k.name, only))
                    test(&k);
            }
    }
}

int main(int argc, char **argv)
{
    Check c = {0};
    Arena *a = arena_new();
    bool sources = argc > 1 && strcmp(argv[1], "--sources") == 0;
    const char *only = argc > 1 + sources ? argv[1 + sources] : "";
    /* Keeps freed memory for the next case: returning it takes much time. */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    mallopt(M_MMAP_THRESHOLD, 1 << 30);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        test_example(&c, a, &examples[i], sources, only);
    arena_free(a);
    return check_end(&c);
}
