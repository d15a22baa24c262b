/* kernels_cuda.c: runs the CUDA kernels of programs in the tests' engine and
 * compares them with the CPU's kernels of the same fused ops.
 *
 *   kernels_cuda [--count N] [--seed S]    of random programs
 *   kernels_cuda [--sites] [--x KIND,…] FILE.ir…
 *                                          of programs as --emit ir prints them
 *
 * Both versions get the same random operands. CUDA's results are stored once
 * in buffers of their own, once in place of operands that they may overwrite;
 * a kernel with a low-shared-memory variant runs in both variants. The engine
 * (tests/standin) checks every access for bounds and races. --sites removes
 * each barrier in turn and expects a race: no barrier is redundant. --x names
 * the contents of operands named x, kinds of kernel_numbers.h; each kind is a
 * run. The emitted launch.c is compiled and launches the kernels.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "codegen/cuda/cuda.h"
#include "codegen/cuda/cuda_kernel.h"
#include "codegen/target/target.h"
#include "runtime/cuda/core/rt_block_memory.h"
#include "tests/standin/engine.h"
#include "tests/unit/fuse_tools.h"
#include "tests/unit/kernel_numbers.h"
#include "tests/unit/random.h"

/* The engine's library, which tests/standin/build compiles, and its calls. */
typedef struct Engine {
    const char *directory;
    int (*launch)(const StandinLaunch *l);
    void *(*alloc)(int64_t bytes);
    bool (*free)(void *at);
    int (*sites)(const StandinSite **site);
    void (*skip)(int site);
    void (*hear)(void (*)(void *, const char *), void *);
} Engine;

typedef struct Run {
    const Engine *engine;
    Check *check;
    Program *p;
    Arena *arena;
    void *cpu;   /* library of the CPU's kernels */
    void *calls; /* launch.c */
    const StandinModule *module;
    CudaKernels list;
    int64_t *block_memory; /* in launch.c: shared memory that a block may use */
    bool in_place, quiet;
    int errors; /* reported by the engine */
    uint64_t seed;
    const char *x; /* a kind of numbers */
} Run;

/* The run in which parc_launch() of the compiled launch.c is called. */
static Run *running;

static void load(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    if (!symbol)
        printf("the engine lacks %s\n", name);
}

static const char *run_tool(Arena *a, const char *const *argv)
{
    char *errors = NULL;
    return process_run(a, argv, NULL, &errors) ? (errors ? errors : "?") : NULL;
}

static bool open_engine(Arena *a, Engine *e)
{
    const char *build = getenv("BUILD");
    e->directory = build ? build : "build";
    const char *const argv[] = {"sh", "tests/standin/build", NULL};
    const char *failure = run_tool(a, argv);
    if (failure)
        printf("%s\n", failure);
    void *library = dlopen(
        arena_printf(a, "%s/standin/libstandin.so", e->directory), RTLD_NOW);
    if (!library) {
        printf("%s\n", dlerror());
        return false;
    }
    load(library, "standin_launch", &e->launch);
    load(library, "standin_alloc", &e->alloc);
    load(library, "standin_free", &e->free);
    load(library, "standin_sites", &e->sites);
    load(library, "standin_skip_site", &e->skip);
    load(library, "standin_hear", &e->hear);
    return true;
}

/* ---- compiling ----------------------------------------------------------- */

static void print_call(void *context, const Program *p, const Op *op, int n)
{
    Out *o = context;
    int count = op->nouts + op->nargs + (cuda_kernel_workspace(p, op) > 0);
    out(o,
        "void call_%d(void **a);\nvoid call_%d(void **a)\n{\n"
        "    %s((ParcRt *)a[0]",
        n, n, kernel_name(p, op, n));
    for (int i = 0; i < count; i++)
        out(o, ", a[%d]", i + 1);
    out(o, ");\n}\n");
}

/* Joins kernels.h and launch.c, with a function for each kernel. */
static void *compile_launches(Run *r)
{
    Out o, header;
    out_init(&o, r->arena);
    out_init(&header, r->arena);
    cuda_prototypes_emit(&header, r->p);
    out(&o, "%s", header.text);
    Out launch;
    out_init(&launch, r->arena);
    cuda_launch_emit(&launch, r->p, &r->list);
    const char *rest = strchr(strstr(launch.text, "#include"), '\n');
    out(&o,
        "typedef void Hook(int, int64_t, int, int64_t, void **);\n"
        "extern Hook *launch_hook;\nHook *launch_hook;\n"
        "void parc_launch(ParcRt *rt, int stream, int kernel, int64_t grid, int block,\n"
        "                 int64_t shared, void **args)\n{\n    (void)rt, (void)stream;\n"
        "    launch_hook(kernel, grid, block, shared, args);\n}\n"
        "extern int64_t launch_block_memory;\nint64_t launch_block_memory;\n"
        "bool parc_block_has(const ParcRt *rt, int kernel, int64_t shared)\n"
        "{\n    (void)rt, (void)kernel;\n"
        "    return shared <= launch_block_memory;\n}\n%s",
        rest);
    kernel_each(r->p, print_call, &o);
    return fuse_compile(r->arena, o.text, "-O0");
}

static const StandinModule *compile_kernels(Run *r)
{
    char directory[] = "/tmp/parc-cuda-XXXXXX";
    Out cu;
    out_init(&cu, r->arena);
    cuda_kernels_emit(&cu, r->p);
    if (!mkdtemp(directory))
        return NULL;
    const char *source = arena_printf(r->arena, "%s/kernels.cu", directory);
    const char *object = arena_printf(r->arena, "%s/kernels.so", directory);
    FILE *f = fopen(source, "w");
    if (!f)
        return NULL;
    fwrite(cu.text, 1, cu.size, f);
    fclose(f);
    const char *const argv[] = {"sh", "tests/standin/build", source, object,
                                NULL};
    const char *failure = run_tool(r->arena, argv);
    void *library = failure ? NULL : dlopen(object, RTLD_NOW);
    if (!library)
        printf("%s\n%s\n", cu.text, failure ? failure : dlerror());
    directory_remove(directory);
    return library ? dlsym(library, "standin_module") : NULL;
}

/* ---- launching ----------------------------------------------------------- */

static void launch(int kernel, int64_t grid, int block, int64_t shared,
                   void **args)
{
    Run *r = running;
    const char *symbol = r->list.symbol.at[kernel];
    StandinLaunch l = {.module = r->module,
                       .grid = grid,
                       .block = block,
                       .shared_bytes = shared};
    for (int i = 0; i < r->module->nkernels; i++)
        if (strcmp(r->module->kernel[i].name, symbol) == 0)
            l.kernel = &r->module->kernel[i];
    CHECK(r->check, l.kernel != NULL);
    if (!l.kernel)
        return;
    CHECK(r->check, l.kernel->threads >= block && block % 32 == 0);
    CHECK(r->check, shared <= *r->block_memory);
    for (int i = 0; i < l.kernel->nargs; i++)
        memcpy(&l.arg[i], args[i], sizeof l.arg[i]);
    r->errors += r->engine->launch(&l);
}

/* ---- one op -------------------------------------------------------------- */

static int64_t size_of(const Run *r, const Value *v)
{
    return type_local_elements(&v->type, &r->p->mesh) *
           (int64_t)dtype_size(v->type.dtype);
}

/* Runs the CPU's kernel. argument[0] is the runtime; results and operands
 * follow, and the operands are given. */
static void run_cpu(Run *r, const Op *op, int n, void **argument)
{
    const Kernel *k = kernel_build(r->p, op);
    argument[1 + op->nouts + op->nargs] =
        arena_alloc(r->arena, (size_t)k->workspace + 64);
    for (int i = 0; i < op->nouts; i++)
        argument[1 + i] =
            arena_alloc(r->arena, (size_t)size_of(r, op->out[i]) + 64);
    fuse_kernel(r->arena, r->cpu, n)(argument);
}

/* Allocates device memory with the operands' numbers. With `in_place` results
 * overwrite operands where that is allowed. */
static void **device_arguments(Run *r, const Op *op, void *const *host)
{
    int n = op->nouts + op->nargs;
    void **at = NEW_ARRAY(r->arena, void *, n + 3);
    for (int i = 0; i < op->nargs; i++) {
        int64_t bytes = size_of(r, op->arg[i]);
        void *x = r->engine->alloc(bytes);
        memcpy(x, host[1 + op->nouts + i], (size_t)bytes);
        at[1 + op->nouts + i] = x;
    }
    bool *taken = NEW_ARRAY(r->arena, bool, op->nargs + 1);
    for (int i = 0; i < op->nouts; i++) {
        for (int j = 0; j < op->nargs && r->in_place && !at[1 + i]; j++)
            if (!taken[j] && cuda_kernel_in_place(r->p, op, i, j)) {
                taken[j] = true;
                at[1 + i] = at[1 + op->nouts + j];
            }
        if (!at[1 + i])
            at[1 + i] = r->engine->alloc(size_of(r, op->out[i]));
    }
    int64_t workspace = cuda_kernel_workspace(r->p, op);
    if (workspace)
        at[1 + n] = r->engine->alloc(workspace);
    return at;
}

static void free_arguments(Run *r, const Op *op, void **at)
{
    int n = op->nouts + op->nargs;
    for (int i = 1; i <= n + 1; i++) {
        bool again = !at[i];
        for (int j = 1; j < i; j++)
            again |= at[i] == at[j];
        if (!again)
            r->engine->free(at[i]);
    }
}

/* The CPU's kernel rounds a result that a later phase reads back, if it has a
 * 16-bit type. */
static double tolerance_of(const Run *r, const Op *op)
{
    const Kernel *k = kernel_build(r->p, op);
    double tolerance = 1e-5;
    for (int p = 0; p < k->nphases; p++)
        for (int i = 0; i < k->phase[p].nelement; i++) {
            int reload = k->phase[p].element[i].buffer;
            if (reload >= 0 && reload < k->nbuffers &&
                dtype_size(k->buffer[reload].dtype) == 2)
                tolerance = 4e-3;
        }
    return tolerance;
}

/* Operands of other kernels are unrelated numbers: an operand that should be
 * the maximum of x is not. */
static bool has_max(const Op *fused)
{
    for (const Op *op = fused->body->first; op; op = op->next)
        if (op->kind == OP_max)
            return true;
    return false;
}

/* A smaller result is what rounding errors leave of a sum of terms that cancel, as the
 * gradient of a number that is added to all columns before their mean is subtracted. The
 * operand of a maximum may have numbers as large as its type has. */
static double least_result(const Run *r, const Op *op, void *const *host)
{
    double largest = 1e-28;
    for (int i = 0; i < op->nargs && !has_max(op); i++) {
        DType t = op->arg[i]->type.dtype;
        if (dtype_is_float(t))
            largest = kernel_largest(t, host[1 + op->nouts + i],
                                     size_of(r, op->arg[i]) / dtype_size(t), largest);
    }
    return 1e-2 * largest;
}

static void run_cuda(Run *r, const Op *op, int n, void *const *host)
{
    void **at = device_arguments(r, op, host);
    running = r;
    r->errors = 0;
    fuse_kernel(r->arena, r->calls, n)(at);
    for (int i = 0; i < op->nouts && !r->quiet; i++) {
        DType t = op->out[i]->type.dtype;
        double off = kernel_distance(t, host[1 + i], at[1 + i],
                              size_of(r, op->out[i]) / dtype_size(t),
                              least_result(r, op, host));
        bool near = off < tolerance_of(r, op);
        CHECK(r->check, near);
        if (!near)
            printf("%s%s, %lld KiB: %%%s is off by %g\n",
                   kernel_name(r->p, op, n), r->in_place ? " in place" : "",
                   (long long)*r->block_memory >> 10, op->out[i]->name, off);
    }
    if (!r->quiet)
        CHECK(r->check, r->errors == 0);
    free_arguments(r, op, at);
}

static void hear_nothing(void *context, const char *text)
{
    (void)context;
    (void)text;
}

/* Removes each barrier of the op's kernels in turn and expects a race. */
static void run_sites(Run *r, const Op *op, int n, void *const *host, int from)
{
    const StandinSite *site;
    int to = r->engine->sites(&site);
    r->quiet = true;
    r->engine->hear(hear_nothing, NULL);
    for (int i = from; i < to; i++) {
        r->engine->skip(i);
        run_cuda(r, op, n, host);
        CHECK(r->check, r->errors > 0);
        if (!r->errors)
            printf("%s: its barrier %d is superfluous\n",
                   kernel_name(r->p, op, n), i - from);
    }
    r->engine->skip(-1);
    r->engine->hear(NULL, NULL);
    r->quiet = false;
}

typedef struct Visit {
    Run *run;
    bool sites;
} Visit;

/* Runs on a device whose blocks may use `block_memory` bytes of shared memory.
 */
static void run_device(const Visit *v, const Op *op, int n, void *const *host,
                       int64_t block_memory)
{
    Run *r = v->run;
    const StandinSite *site;
    int from = r->engine->sites(&site);
    *r->block_memory = block_memory;
    r->in_place = false;
    run_cuda(r, op, n, host);
    if (v->sites)
        run_sites(r, op, n, host, from);
    r->in_place = true;
    run_cuda(r, op, n, host);
}

static void fill_argument(const Run *r, const Op *op, int arg, void *at,
                          uint64_t *state)
{
    const Value *v = op->arg[arg];
    int64_t n = size_of(r, v) / dtype_size(v->type.dtype);
    bool x = strcmp(v->name, "x") == 0 && has_max(op);
    CHECK(r->check, kernel_numbers(v, at, n, state, x ? r->x : "any"));
}

static void run_op(void *context, const Program *p, const Op *op, int n)
{
    const Visit *v = context;
    Run *r = v->run;
    if (p != r->p)
        return; /* fuse_print prints the kernels of the training step */
    uint64_t state = r->seed + (uint64_t)n * 77;
    void **host = NEW_ARRAY(r->arena, void *, op->nouts + op->nargs + 3);
    for (int i = 0; i < op->nargs; i++) {
        int64_t bytes = size_of(r, op->arg[i]);
        host[1 + op->nouts + i] = arena_alloc(r->arena, (size_t)bytes + 64);
        fill_argument(r, op, i, host[1 + op->nouts + i], &state);
    }
    run_cpu(r, op, n, host);
    run_device(v, op, n, host, RT_SHARED_MAX);
    if (cuda_plan(r->p, op)->low_shared)
        run_device(v, op, n, host, RT_SHARED_MIN);
}

static void run_program(Check *c, const Engine *e, Program *p, uint64_t seed,
                        bool sites, const char *x)
{
    int kernels;
    Run r = {.engine = e,
             .check = c,
             .p = p,
             .arena = p->arena,
             .seed = seed,
             .list = {.arena = p->arena}};
    r.cpu = fuse_compile(p->arena, fuse_print(p, &kernels), "-O1");
    r.calls = compile_launches(&r);
    r.module = compile_kernels(&r);
    CHECK(c, r.cpu && r.calls && r.module);
    if (!r.cpu || !r.calls || !r.module)
        return;
    void (*hook)(int, int64_t, int, int64_t, void **) = launch;
    memcpy(dlsym(r.calls, "launch_hook"), &hook, sizeof hook);
    r.block_memory = dlsym(r.calls, "launch_block_memory");
    for (char *kind = arena_strdup(p->arena, x); *kind;) {
        char *end = kind + strcspn(kind, ",");
        bool more = *end == ',';
        *end = 0;
        r.x = kind;
        Visit v = {&r, sites && strcmp(kind, "any") == 0};
        int before = c->failed;
        kernel_each(p, run_op, &v);
        if (c->failed > before)
            printf("seed %llu, %s: of %d kernels\n", (unsigned long long)seed,
                   kind, kernels);
        kind = end + more;
    }
}

/* ---- programs ------------------------------------------------------------ */

static void run_seed(Check *c, const Engine *e, uint64_t seed)
{
    Arena *a = arena_new();
    Program *p = ir_program(a, diag_new(a, COLOR_NEVER));
    if (fuse_random_program(p, seed, TARGET_CUDA))
        run_program(c, e, p, seed, false, "any");
    arena_free(a);
}

static void run_file(Check *c, const Engine *e, const char *name, bool sites,
                     const char *x)
{
    Arena *a = arena_new();
    Diag *d = diag_new(a, COLOR_NEVER);
    size_t size = 0;
    FILE *f = fopen(name, "r");
    CHECK(c, f != NULL);
    if (!f)
        return;
    fseek(f, 0, SEEK_END);
    size = (size_t)ftell(f);
    rewind(f);
    char *text = arena_alloc(a, size + 1);
    CHECK(c, fread(text, 1, size, f) == size);
    fclose(f);
    Program *p = ir_parse(a, d, diag_source(d, name, text, size));
    CHECK(c, p != NULL);
    if (p)
        run_program(c, e, p, 1, sites, x);
    diag_flush(d, stdout);
    arena_free(a);
}

int main(int argc, char **argv)
{
    Check c = {0};
    Arena *a = arena_new();
    Engine engine = {0};
    uint64_t seed = 1000, count = 6;
    int files = 0;
    bool sites = false;
    const char *x = "any";
    if (!open_engine(a, &engine))
        return 1;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (strcmp(argv[i], "--seed") == 0 && more)
            seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0 && more)
            count = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--x") == 0 && more)
            x = argv[++i];
        else if (strcmp(argv[i], "--sites") == 0)
            sites = true;
        else if (++files)
            run_file(&c, &engine, argv[i], sites, x);
    }
    for (uint64_t i = 0; i < count && !files; i++)
        run_seed(&c, &engine, seed + i);
    arena_free(a);
    return check_end(&c);
}
