/* random_programs.c: compares random models under random plans, partitioned
 * against global, after every pass.
 *
 *   random_programs [--count N] [--seed S] [--mesh 2x2] [--until PASS]
 *                   [--dump]
 *
 * Each seed makes a model, a mesh and a plan. The model as written, with its
 * backward pass, is interpreted once. After `autodiff`, and from `partition` on
 * after each pass, the program is interpreted on all ranks of the mesh, and
 * must give the same loss, gradient norm, parameters and optimizer states, up to the effect
 * of rounding errors.
 * After every pass the verifier runs, and the dump must read back identically;
 * after `matmul` a matmul computes every einsum. If the compiler refuses a plan, which
 * it may, the test takes another seed. A step that computes experts in rounds must give
 * what one gives whose buffers have a row for every choice. Once memory is planned, the program runs
 * next to an arena (random_memory.c). The same holds for the side programs of
 * the model (random_side.c). Every seed runs in a separate process, so
 * a crash counts as a failure. With --dump a single seed prints its program
 * after every pass.
 */
#include "base/bug.h"
#include "codegen/target/target.h"
#include "ir/plan/pipeline.h"
#include "passes/pass.h"
#include "tests/unit/check.h"
#include "tests/unit/random.h"
#include "tests/unit/random_seeds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double tolerance = 1e-12, largest_tolerance = 1e-9;

typedef struct Options {
    int64_t count, seed;
    const char *mesh, *until;
    bool dump;
    const char *program;
} Options;

static const PassInfo passes[] = {
#define PASS(directory, name, meaning) {#name, meaning, pass_##name},
#include "passes/passes.def"
#undef PASS
};
enum { PASSES = sizeof passes / sizeof *passes };

/* ---- one seed ---------------------------------------------------------- */

typedef struct Case {
    const Options *options;
    uint64_t seed;
    Arena *arena;
    Diag *diag;
    Program *p;
    Interp *global;   /* the reference; NULL before it has run */
    Program *copy;    /* the program that the reference runs */
    const char *at;   /* the last pass that ran */
    const char *text; /* the program after it, printed */
    bool same;        /* the pass changed nothing */
    bool refused;     /* a pass reported errors in the plan */
} Case;

static void print_program(Case *c, FILE *to)
{
    Out o;
    out_init(&o, c->arena);
    ir_print(&o, c->p);
    fputs(o.text, to);
}

static void print_failure(Case *c, const char *what)
{
    fprintf(stderr, "\nseed %lld, after %s: %s\n", (long long)c->seed, c->at,
            what);
    fprintf(stderr, "repeat: %s --seed %lld --count 1", c->options->program,
            (long long)c->seed);
    if (c->options->mesh)
        fprintf(stderr, " --mesh %s", c->options->mesh);
    fprintf(stderr, "\n");
    diag_flush(c->diag, stderr);
    const char *directory = getenv("TMPDIR");
    const char *name =
        arena_printf(c->arena, "%s/parc-random-%lld.ir",
                     directory ? directory : "/tmp", (long long)c->seed);
    FILE *f = fopen(name, "w");
    if (f) {
        print_program(c, f);
        fclose(f);
        fprintf(stderr, "its program: %s\n", name);
    }
}

static void on_bug(void *context)
{
    print_failure(context, "internal error");
}

/* The target's workspace for kernels, but a small one for library calls, which
 * request more than this test should plan. */
static int64_t workspace(const Program *p, const Op *op, const TargetInfo *t)
{
    if (op_is_einsum(op->kind) || op->kind == OP_attention)
        return 100;
    return target_info(TARGET_CUDA, t->threads).workspace(p, op, t);
}

/* Of a model in which rounding errors grow from layer to layer: four times the effect of one
 * in each parameter. */
static double measured_tolerance(const Case *c)
{
    Interp *in = interp_new(c->copy);
    random_rounded_values(in, c->copy, c->seed);
    double effect = tolerance / 4;
    bool runs = !interp_run(in);
    while (runs && effect < largest_tolerance / 4 &&
           compare_runs(c->arena, c->copy, c->global, in, effect))
        effect *= 2;
    interp_free(in);
    return 4 * effect;
}

/* Compares the current program with the reference. */
static const char *interpret(Case *c)
{
    Interp *in = interp_new(c->p);
    random_values(in, c->p, c->seed);
    const char *error = interp_run(in);
    if (!error && compare_runs(c->arena, c->p, c->global, in, tolerance))
        error = compare_runs(c->arena, c->p, c->global, in, measured_tolerance(c));
    if (!error && c->p->memory)
        error = check_memory(c->p, in);
    if (error) /* it may be in the interpreter's memory */
        error = arena_strdup(c->arena, error);
    interp_free(in);
    return error;
}

/* The reference is the model as written: its backward pass is that of its own
 * ops, not of those that passes before autodiff made of them. */
static const char *run_reference(Case *c, const TargetInfo *t)
{
    pass_count_dropped(c->copy, t);
    pass_rounds(c->copy, t); /* of a step that may overflow, it decides the result */
    pass_autodiff(c->copy, t);
    c->global = interp_new(c->copy);
    random_values(c->global, c->copy, c->seed);
    return interp_run(c->global);
}

static void count_collective(Op *op, void *context)
{
    *(int *)context += op_is_collective(op->kind);
}

/* A mesh of one rank needs no communication. */
static const char *check_alone(const Case *c)
{
    int n = 0;
    if (mesh_parts(&c->p->mesh) == 1)
        ir_walk(c->p->step, count_collective, &n);
    return n > 0 ? "one rank has collectives" : NULL;
}

typedef struct Nests {
    const Program *p;
    const TargetInfo *t;
    int n;
} Nests;

static void count_nest(Op *op, void *context)
{
    Nests *nests = context;
    nests->n += op->kind == OP_einsum && !nests->t->is_matmul(nests->p, op);
}

/* After the pass `matmul` the library computes every einsum. */
static const char *check_matmuls(const Case *c, const TargetInfo *t)
{
    Nests nests = {c->p, t, 0};
    if (strcmp(c->at, "matmul") == 0)
        ir_walk(c->p->step, count_nest, &nests);
    return nests.n > 0 ? "no matmul computes an einsum" : NULL;
}

/* Every dump must read back and print identically. */
static const char *read_back(Case *c)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    Out first, second;
    out_init(&first, a);
    ir_print(&first, c->p);
    uint16_t file = diag_source(d, "dump.ir", first.text, first.size);
    Program *p = ir_parse(a, d, file);
    const char *fault = p ? ir_verify(p) : "the dump cannot be read";
    if (!p)
        diag_flush(d, stderr);
    if (!fault) {
        out_init(&second, a);
        ir_print(&second, p);
        if (strcmp(first.text, second.text) != 0)
            fault = "the dump, read back, prints otherwise";
    }
    fault = fault ? arena_strdup(c->arena, fault) : NULL;
    c->same = c->text && strcmp(c->text, first.text) == 0;
    c->text = arena_strdup(c->arena, first.text);
    arena_free(a);
    return fault;
}

static const char *after_pass(Case *c, const TargetInfo *t)
{
    if (diag_error_count(c->diag) > 0) {
        c->refused = random_may_refuse(c->at);
        return "the pass reported errors";
    }
    const char *fault = ir_verify(c->p);
    if (!fault)
        fault = check_alone(c);
    if (!fault)
        fault = check_matmuls(c, t);
    if (!fault)
        fault = read_back(c);
    if (fault)
        return fault;
    if (c->options->dump) {
        printf("---- after %s\n", c->at);
        print_program(c, stdout);
        fflush(stdout);
    }
    const char *error = NULL;
    if (strcmp(c->at, "autodiff") == 0)
        error = run_reference(c, t);
    if (error)
        return error;
    bool whole = strcmp(c->at, "autodiff") == 0 || strcmp(c->at, "pad") == 0;
    if ((c->p->stage < STAGE_PARTITIONED && !whole) ||
        (c->same && !c->p->memory))
        return NULL;
    error = interpret(c);
    return error ? error : check_side_programs(c->p, c->global, c->seed,
                                                   tolerance);
}

static const char *run_passes(Case *c, const TargetInfo *t)
{
    const char *fault = ir_verify(c->p);
    bool in_rounds = c->p->purpose == FOR_ROUNDS;
    if (in_rounds || !c->p->plan.experts.nitems || c->p->plan.experts.item->buffer == 0)
        random_side(c->p);
    for (int i = 0; i < PASSES && !fault; i++) {
        bool rounds = in_rounds && strcmp(passes[i].name, "rounds") == 0;
        c->p->purpose = rounds ? FOR_ROUNDS : FOR_TRAINING;
        passes[i].run(c->p, t);
        for (int k = 0; k < PURPOSES; k++)
            if (c->p->side[k] && diag_error_count(c->diag) == 0)
                passes[i].run(c->p->side[k], t);
        c->at = passes[i].name;
        c->p->purpose = FOR_TRAINING;
        fault = after_pass(c, t);
        if (strcmp(c->at, c->options->until) == 0)
            break;
    }
    return fault;
}

/* What a seed tests of the buffers of experts. */
typedef enum Buffers {
    ALL_ROWS,  /* every choice has a row */
    OVERFLOW,  /* the step changes nothing if one has none */
    IN_ROUNDS, /* as if every choice had a row */
    BUFFERS
} Buffers;

static Program *make_program(const Case *c, Rng r, bool bounded, Buffers b, int *prefetch)
{
    Program *p = ir_program(c->arena, c->diag);
    p->plan.experts = (Experts){0, NEW(p->arena, ExpertItem), bounded};
    p->plan.experts.item->buffer = bounded;
    p->plan.experts.item->overlap = true;
    p->purpose = bounded && b == IN_ROUNDS ? FOR_ROUNDS : FOR_TRAINING;
    uint32_t data_axes = random_mesh(p, &r, c->options->mesh);
    random_model(p, &r, data_axes);
    random_pipeline(p, r);
    random_plan(p, &r, data_axes);
    *prefetch = (int)rng_below(&r, 2);
    return p;
}

static SeedResult run_seed(void *context, uint64_t seed)
{
    const Options *options = context;
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    Case c = {.options = options,
              .seed = seed,
              .arena = a,
              .diag = d,
              .at = "start"};
    Rng r = {seed};
    bug_set_hook(on_bug, &c);
    Buffers buffers = (Buffers)(seed % BUFFERS);
    TargetInfo t = target_info(TARGET_CUDA, 1);
    c.p = make_program(&c, r, buffers != ALL_ROWS, buffers, &t.default_prefetch);
    c.copy = make_program(&c, r, buffers == OVERFLOW, buffers, &t.default_prefetch);
    t.alignment = 64;
    t.workspace = workspace;
    const char *fault = run_passes(&c, &t);
    if (c.refused && options->count == 1)
        diag_flush(d, stderr);
    else if (fault && !c.refused)
        print_failure(&c, fault);
    if (c.global)
        interp_free(c.global);
    bug_set_hook(NULL, NULL);
    arena_free(a);
    return c.refused ? SEED_REFUSED : fault ? SEED_FAILED : SEED_PASSED;
}

/* ---- the command line -------------------------------------------------- */

static int usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [--count N] [--seed S] [--mesh 2x2] [--until PASS] "
            "[--dump]\n",
            program);
    return 2;
}

int main(int argc, char **argv)
{
    Options o = {
        .count = few_or_all(15, 500),
        .seed = 1,
        .until = "memory",
        .program = argv[0],
    };
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(name, "--dump") == 0) {
            o.dump = true;
            continue;
        }
        if (!value)
            return usage(argv[0]);
        i++;
        if (strcmp(name, "--count") == 0)
            o.count = atoll(value);
        else if (strcmp(name, "--seed") == 0)
            o.seed = atoll(value);
        else if (strcmp(name, "--mesh") == 0)
            o.mesh = value;
        else if (strcmp(name, "--until") == 0)
            o.until = value;
        else
            return usage(argv[0]);
    }
    SeedRuns runs = {.count = o.count,
                     .seed = o.seed,
                     .refused_percent = 30, /* mostly pipelines of too many stages */
                     .run = run_seed,
                     .context = &o};
    return run_seeds(&runs);
}
