/* fuse_random.c: compares the kernels of random programs under random plans
 * with the interpreter.
 *
 *   fuse_random [--count N] [--seed S]
 *
 * The interpreter runs the fused program on all ranks of its mesh. After every
 * fused op, the emitted and compiled kernel gets each rank's operands, rounded
 * to their types; its results must equal the rank's results, rounded to
 * theirs. (The interpreter rounds nothing itself: the test rounds 16-bit
 * operands before the op.)
 */
#include <math.h>
#include <stdlib.h>

#include "base/bug.h"
#include "codegen/kernel/kernel.h"
#include "codegen/target/target.h"
#include "passes/pass.h"
#include "runtime/parc_math.h"
#include "tests/unit/fuse_tools.h"
#include "tests/unit/random.h"

/* The error that is allowed in addition to the rounding of results, as a share
 * of the largest magnitude among a kernel's tensors, since sums may cancel and
 * operands are rounded. */
static const double tolerance = 1e-5;

/* The error of storing a result, half a unit in the last place: relative to the
 * number itself, or to the largest number in a kernel that reads back a rounded
 * result. */
static const double rounding[] = {[DT_F32] = 0,
                                  [DT_BF16] = 0x1p-8,
                                  [DT_F16] = 0x1p-11,
                                  [DT_I32] = 0,
                                  [DT_I64] = 0};

typedef struct Watcher {
    Program *p;
    void *library;
    int *number; /* by op id */
    Check *check;
    bool told; /* the first fault was printed */
    int64_t runs;
} Watcher;

static void number_kernels(Watcher *w, const Region *r, int *n)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            number_kernels(w, op->body, n);
        if (op->kind == OP_fused)
            w->number[op->id] = (*n)++;
    }
}

static void *make_tensor(Arena *a, DType t, const double *x, int64_t n)
{
    char *at = arena_alloc(a, (size_t)(n + 16) * 8);
    for (int64_t i = 0; i < n && x; i++) {
        if (t == DT_I32)
            ((int32_t *)at)[i] = (int32_t)x[i];
        else if (t == DT_I64)
            ((int64_t *)at)[i] = (int64_t)x[i];
        else if (t == DT_BF16)
            ((uint16_t *)at)[i] = parc_to_bf16((float)x[i]);
        else if (t == DT_F16)
            ((uint16_t *)at)[i] = parc_to_f16((float)x[i]);
        else
            ((float *)at)[i] = (float)x[i];
    }
    return at;
}

static double number(DType t, const void *at, int64_t i)
{
    const uint16_t *half = at;
    if (t == DT_BF16)
        return (double)parc_from_bf16(half[i]);
    if (t == DT_F16)
        return (double)parc_from_f16(half[i]);
    return t == DT_I32   ? ((const int32_t *)at)[i]
           : t == DT_I64 ? (double)((const int64_t *)at)[i]
                         : (double)((const float *)at)[i];
}

/* The difference that exceeds the rounding of the result. */
static double difference(DType t, const void *is, const double *want, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double x = number(t, is, i), y = (double)(float)want[i];
        double error = fabs(x - y) - rounding[t] * fabs(y);
        if (!isnan(want[i]) && !(error <= worst))
            worst = error;
    }
    return worst;
}

/* Rounds the interpreter's numbers to the operand's type. */
static void round_operand(const Value *v, double *x, int64_t n)
{
    DType t = v->type.dtype;
    for (int64_t i = 0; i < n && dtype_size(t) == 2; i++) {
        float f = (float)x[i];
        x[i] = (double)(t == DT_BF16 ? parc_from_bf16(parc_to_bf16(f))
                                     : parc_from_f16(parc_to_f16(f)));
    }
}

static double magnitude(double at_least, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (fabs(x[i]) > at_least)
            at_least = fabs(x[i]);
    return at_least;
}

/* A result that a later phase of the kernel reads back is rounded. */
static double tolerance_of(const Op *op)
{
    double most = 0;
    for (int i = 0; i < op->nouts; i++)
        most = fmax(most, rounding[op->out[i]->type.dtype]);
    return tolerance + most;
}

static void run_rank(Watcher *w, Interp *in, const Op *op, int64_t rank)
{
    Arena *a = arena_new();
    const Kernel *k = kernel_build(w->p, op);
    void **argument = NEW_ARRAY(a, void *, op->nouts + op->nargs + 2);
    int64_t n;
    double largest = 1e-20;
    for (int i = 0; i < op->nouts; i++) {
        const double *x = interp_parts(in, op->out[i], &n);
        largest = magnitude(largest, x + rank * n, n);
        argument[1 + i] = make_tensor(a, op->out[i]->type.dtype, NULL, n);
    }
    for (int i = 0; i < op->nargs; i++) {
        const double *x = interp_parts(in, op->arg[i], &n);
        if (dtype_is_float(op->arg[i]->type.dtype))
            largest = magnitude(largest, x + rank * n, n);
        argument[1 + op->nouts + i] =
            make_tensor(a, op->arg[i]->type.dtype, x + rank * n, n);
    }
    argument[1 + op->nouts + op->nargs] =
        arena_alloc(a, (size_t)k->workspace + 16);
    fuse_kernel(a, w->library, w->number[op->id])(argument);
    for (int i = 0; i < op->nouts; i++) {
        const double *want = interp_parts(in, op->out[i], &n);
        double worst = difference(op->out[i]->type.dtype, argument[1 + i],
                                  want + rank * n, n);
        bool good = worst < tolerance_of(op) * largest;
        CHECK(w->check, good);
        if (!good && !w->told)
            printf("kernel %d '%s' on rank %lld: %%%s is off by %g\n",
                   w->number[op->id], k->name, (long long)rank,
                   op->out[i]->name, worst / largest);
        w->told |= !good;
    }
    arena_free(a);
}

static const char *watch(void *context, Interp *in, const Op *op, bool done)
{
    Watcher *w = context;
    int64_t n, ranks = mesh_ranks(&w->p->mesh);
    if (op->kind != OP_fused)
        return NULL;
    for (int i = 0; i < op->nargs && !done; i++) {
        double *x = interp_parts(in, op->arg[i], &n);
        round_operand(op->arg[i], x, n * ranks);
    }
    if (!done)
        return NULL;
    for (int64_t rank = 0; rank < ranks; rank++)
        run_rank(w, in, op, rank);
    w->runs++;
    return NULL;
}

static void run_seed(Check *c, uint64_t seed)
{
    Arena *a = arena_new();
    Program *p = ir_program(a, diag_new(a, COLOR_NEVER));
    int kernels, failed = c->failed;
    if (!fuse_random_program(p, seed, TARGET_CPU)) {
        arena_free(a);
        return;
    }
    const char *source = fuse_print(p, &kernels);
    Watcher w = {.p = p, .check = c};
    w.number = NEW_ARRAY(a, int, p->nops + 1);
    kernels = 0;
    number_kernels(&w, p->step, &kernels);
    w.library = fuse_compile(a, source, "-O1");
    CHECK(c, w.library != NULL);
    if (w.library) {
        Interp *in = interp_new(p);
        random_values(in, p, seed);
        interp_watch(in, watch, &w);
        CHECK_TEXT(c, interp_run(in), NULL);
        interp_free(in);
    }
    if (c->failed > failed)
        printf("seed %llu: %d kernels, %lld runs; its source:\n%s\n",
               (unsigned long long)seed, kernels, (long long)w.runs, source);
    arena_free(a);
}

int main(int argc, char **argv)
{
    Check c = {0};
    uint64_t seed = 1000, count = 12;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0)
            seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--count") == 0)
            count = strtoull(argv[i + 1], NULL, 10);
    }
    for (uint64_t i = 0; i < count; i++)
        run_seed(&c, seed + i);
    return check_end(&c);
}
