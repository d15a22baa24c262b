/* random_binaries.c: compares the binaries of random models under random plans
 * with the interpreter.
 *
 *   random_binaries [--count N] [--seed S] [--mesh 2x2] [--steps N]
 *                   [--times N] [--keep] [--verbose]
 *
 * Each seed makes a model, a mesh and a plan. All passes run for the CPU; the
 * program is emitted, compiled and run for some steps. The interpreter runs
 * the global program in double precision from the weights that the binary
 * exports before its first step. Loss and gradient norm of every step and the
 * weights after the last step must agree (random_follow.c).
 *
 * Every fourth model has larger sizes, to fill vectors and to give several
 * threads work; --times sets the factor for all models. --keep keeps the
 * binary and its sources.
 */
#include "base/bug.h"
#include "base/file.h"
#include "codegen/machine.h"
#include "codegen/package/program.h"
#include "ir/options.h"
#include "report/report.h"
#include "codegen/target/target.h"
#include "tests/unit/check.h"
#include "tests/unit/random.h"
#include "tests/unit/random_follow.h"
#include "tests/unit/random_seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_STEPS = 3, SHAPES = 5 };

typedef struct Options {
    int64_t count, seed, steps, times; /* steps, times 0: from the seed */
    const char *mesh;
    bool keep, verbose;
    const char *program; /* path of this test */
} Options;

typedef struct Case {
    const Options *options;
    uint64_t seed;
    int64_t steps;
    Arena *arena;
    Program *p;
    Program *global;    /* with its backward pass, before placement */
    const char *directory; /* directory of the binary and its outputs */
    const char *shape;  /* shape of the mesh: "2x2" */
    TargetInfo target;
    bool refused; /* no plan for the model */
} Case;

static const PassInfo passes[] = {
#define PASS(directory, name, meaning) {#name, meaning, pass_##name},
#include "passes/passes.def"
#undef PASS
};
enum { PASSES = sizeof passes / sizeof *passes };

static const char *path_of(const Case *c, const char *name)
{
    return arena_printf(c->arena, "%s/%s", c->directory, name);
}

/* ---- the program ------------------------------------------------------- */

/* The level $CHECK_CPU, or native. */
static const CpuLevel *level_of_tests(void)
{
    const char *name = getenv("CHECK_CPU");
    for (int i = 0; name && i < CPU_LEVELS; i++)
        if (strcmp(cpu_level[i].name, name) == 0)
            return &cpu_level[i];
    return &cpu_level[PARC_CPU_NATIVE];
}

/* Runs all passes. They may refuse a plan that does not fit the model. */
static const char *make_program(Case *c)
{
    static const char *const shapes[SHAPES] = {"1x1", "2x1", "1x2", "2x2",
                                               "3x1"};
    Rng r = {c->seed};
    Program *p = c->p;
    int64_t times = c->options->times;
    if (times == 0)
        times = c->seed / SHAPES % 4 == 3
                    ? 2 + (int64_t)(c->seed / SHAPES / 4 % 3)
                    : 1;
    c->shape = c->options->mesh ? c->options->mesh : shapes[c->seed % SHAPES];
    uint32_t data_axes = random_mesh(p, &r, c->shape);
    random_large_model(p, &r, data_axes, times);
    random_pipeline(p, r);
    random_plan(p, &r, data_axes);
    p->mesh.node = 0; /* nodes need mpirun: tests/e2e/nodes.sh */
    for (int i = 0; i < p->param.n; i++)
        p->param.at[i].init.a = 0.3;
    c->target = target_info(TARGET_CPU, (int)rng_pick(&r, 1, 1, 2));
    c->target.cpu = level_of_tests();
    c->global = ir_copy(p);
    pass_autodiff(c->global, &c->target);
    for (size_t i = 0; i < PASSES && !c->refused; i++) {
        ir_renumber(p);
        passes[i].run(p, &c->target);
        c->refused = diag_error_count(p->diag) > 0;
        if (c->refused && !random_may_refuse(passes[i].name))
            return "a pass reports errors";
    }
    return NULL;
}

/* ---- the binary -------------------------------------------------------- */

static const char *build(Case *c)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 32);
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (!slash)
        return "the path of the test is unknown";
    *slash = 0; /* parc and the runtime's library are one directory above */
    Out plan;
    out_init(&plan, c->arena);
    report_plan(&plan, c->p, &c->target, NULL);
    EmitOptions o = {.source = "random.pdl",
                     .plan = plan.text,
                     .command = "random_binaries",
                     .binary = path_of(c, "train"),
                     .self = arena_printf(c->arena, "%s/../parc", self)};
    if (c->options->keep)
        o.directory = path_of(c, "source");
    Outputs *outputs = outputs_new(c->arena);
    const char *failure = emit_program(c->p, &c->target, &o, outputs);
    return failure ? failure : outputs_commit(outputs);
}

static const char *run_binary(const Case *c, int64_t steps, const char *weights)
{
    char number[32], seed[32], *errors = NULL;
    snprintf(number, sizeof number, "%lld", (long long)steps);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)c->seed);
    const char *const argv[] = {path_of(c, "train"),
                                "--steps",
                                number,
                                "--seed",
                                seed,
                                "--export",
                                weights,
                                "--log",
                                path_of(c, "log.jsonl"),
                                NULL};
    setenv("PARC_TIMEOUT", "60", 0);
    setenv("OMP_WAIT_POLICY", "passive", 0); /* ranks share the cores */
    int status = process_run(c->arena, argv, ".", &errors);
    return status == 0 ? NULL
                       : arena_printf(c->arena, "the binary ends with %d:\n%s",
                                      status, errors ? errors : "");
}

/* ---- one seed ---------------------------------------------------------- */

static void print_failure(const Case *c, const char *what)
{
    fprintf(stderr, "\nseed %lld, mesh %s, %lld steps: %s\n",
            (long long)c->seed, c->shape ? c->shape : "?", (long long)c->steps,
            what);
    fprintf(stderr, "repeat: %s --seed %lld --count 1 --keep",
            c->options->program, (long long)c->seed);
    if (c->options->mesh)
        fprintf(stderr, " --mesh %s", c->options->mesh);
    if (c->options->steps)
        fprintf(stderr, " --steps %lld", (long long)c->options->steps);
    if (c->options->times)
        fprintf(stderr, " --times %lld", (long long)c->options->times);
    fprintf(stderr, "\n");
    diag_flush(c->p->diag, stderr);
}

static void on_bug(void *context)
{
    print_failure(context, "internal error");
}

static void clean_up(const Case *c)
{
    if (c->options->keep)
        fprintf(stderr, "kept: %s\n", c->directory);
    else
        directory_remove(c->directory);
}

/* Exports the initial weights, runs the interpreter from them, runs the binary,
 * and compares. */
static const char *run_and_compare(Case *c)
{
    BinaryRun run = {.arena = c->arena,
                     .global = c->global,
                     .seed = (int64_t)c->seed,
                     .steps = c->steps,
                     .before = path_of(c, "before.safetensors"),
                     .after = path_of(c, "after.safetensors"),
                     .log = path_of(c, "log.jsonl")};
    const char *fault = run_binary(c, 0, run.before);
    if (!fault)
        fault = reference_run(&run);
    c->steps = run.steps;
    if (!fault)
        fault = run_binary(c, run.steps, run.after);
    if (!fault)
        fault = reference_compare(&run);
    if (c->options->verbose)
        printf("seed %lld: %s, %lld steps, error %.2f of its limit\n",
               (long long)c->seed,
               option_word(OPTION_optimizer, c->p->train.optimizer),
               (long long)run.steps, run.worst);
    return fault;
}

static const char *test(Case *c)
{
    const char *tmp = getenv("TMPDIR");
    char *directory = arena_printf(c->arena, "%s/parc-random-XXXXXX",
                                   tmp && *tmp ? tmp : "/tmp");
    c->directory = mkdtemp(directory);
    if (!c->directory)
        return "cannot make a temporary directory";
    const char *fault = build(c);
    if (!fault)
        fault = run_and_compare(c);
    clean_up(c);
    return fault;
}

static SeedResult run_seed(void *context, uint64_t seed)
{
    const Options *options = context;
    Arena *a = arena_new();
    Case c = {.options = options,
              .seed = seed,
              .arena = a,
              .p = ir_program(a, diag_new(a, COLOR_NEVER)),
              .steps = options->steps
                           ? options->steps
                           : 1 + (int64_t)(seed / SHAPES % MAX_STEPS)};
    bug_set_hook(on_bug, &c);
    const char *fault = make_program(&c);
    if (!fault && !c.refused)
        fault = test(&c);
    if (fault)
        print_failure(&c, fault);
    bug_set_hook(NULL, NULL);
    arena_free(a);
    return fault ? SEED_FAILED : c.refused ? SEED_REFUSED : SEED_PASSED;
}

/* ---- the command line -------------------------------------------------- */

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--count N] [--seed S] [--mesh 2x2] [--steps N] "
            "[--times N] [--keep] [--verbose]\n",
            program);
    return 2;
}

int main(int argc, char **argv)
{
    Options o = {
        .count = few_or_all(15, 40), .seed = 300, .program = argv[0]};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool *flag = strcmp(name, "--keep") == 0      ? &o.keep
                     : strcmp(name, "--verbose") == 0 ? &o.verbose
                                                      : NULL;
        if (flag) {
            *flag = true;
            continue;
        }
        if (!value)
            return usage(argv[0]);
        i++;
        if (strcmp(name, "--count") == 0)
            o.count = atoll(value);
        else if (strcmp(name, "--seed") == 0)
            o.seed = atoll(value);
        else if (strcmp(name, "--steps") == 0)
            o.steps = atoll(value);
        else if (strcmp(name, "--times") == 0)
            o.times = atoll(value);
        else if (strcmp(name, "--mesh") == 0)
            o.mesh = value;
        else
            return usage(argv[0]);
    }
    SeedRuns runs = {.count = o.count,
                     .seed = o.seed,
                     .refused_percent = 60,
                     .run = run_seed,
                     .context = &o};
    return run_seeds(&runs);
}
