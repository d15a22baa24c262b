/* runtime_shards.c: compares parc_matmul_shard (a rank's rows of a product that
 * is summed over ranks, computed from the operands of all ranks) with sums in
 * double: operands by rows and by columns, in f32 and in bf16, shards of one
 * row, ranks with one of the summed indices.
 */
#include <math.h>

#include "runtime/parc_rt.h"
#include "runtime/rt.h"
#include "runtime/common/type.h"
#include "tests/unit/check.h"
#include "tests/unit/runtime_tools.h"

enum { RANKS = 3, AXIS = 1, ROOM = 1 << 20, ROOMS = 4 };

/* Sizes of the whole product; k is a rank's part. */
typedef struct Sizes {
    int64_t m, n, k;
} Sizes;

static const Sizes sizes[] = {
    {RANKS, 5, 4}, {RANKS, 1, 7},  {RANKS * 4, 6, 1}, {RANKS, 3, 1},
    {RANKS * 7, 9, 5}, {RANKS * 32, 48, 33}, {RANKS * 160, 200, 96},
};

static float value_at(int rank, int operand, int64_t i)
{
    return (float)((i * 37 + rank * 11 + operand * 5) % 64 - 31) / 16;
}

/* The operand of rank `rank`, as this rank maps it. */
static void *operand_of(const ParcRt *rt, int rank, int operand)
{
    return rt_peer(rt, rank) + operand * ROOM;
}

static double element(ParcType type, const void *at, int64_t i)
{
    float x;
    rt_widen(&x, type, rt_element(type, at, i), 1);
    return (double)x;
}

/* Whether x is element (row, column) of the sum of all ranks' products. */
static bool is_sum(const ParcRt *rt, const ParcMatmulSpec *s, int64_t row,
                   int64_t column, double x)
{
    double sum = 0, size = 1;
    for (int r = 0; r < RANKS; r++)
        for (int64_t k = 0; k < s->k; k++) {
            double p = element(s->type.a, operand_of(rt, r, 0),
                               row * s->sa[1] + k * s->sa[2]) *
                       element(s->type.b, operand_of(rt, r, 1),
                               k * s->sb[1] + column * s->sb[2]);
            sum += p;
            size += fabs(p);
        }
    return fabs(x - sum) <= 1e-6 * size;
}

static void product(ParcRt *rt, Check *c, Sizes s, bool a_turned, bool b_turned,
                    ParcType type)
{
    int64_t rows = s.m / RANKS;
    ParcMatmulSpec spec = {
        .name = "shard", .batch = 1, .m = rows, .n = s.n, .k = s.k,
        .sa = {0, a_turned ? 1 : s.k, a_turned ? s.m : 1},
        .sb = {0, b_turned ? 1 : s.n, b_turned ? s.k : 1},
        .sc = {0, s.n, 1}, .type = {type, type, PARC_F32},
        .ranks = RANKS, .scratch = 3 * ROOM};
    spec.slice = rows * spec.sa[1];
    spec.scratch_bytes = parc_matmul_scratch(&spec, rt->threads, PARC_CPU_NATIVE);
    CHECK(c, spec.scratch_bytes <= ROOM);
    void *own[] = {operand_of(rt, rt->rank, 0), operand_of(rt, rt->rank, 1)};
    int64_t count[] = {s.m * s.k, s.k * s.n};
    for (int x = 0; x < 2; x++)
        for (int64_t i = 0; i < count[x]; i++) {
            float v = value_at(rt->rank, x, i);
            rt_narrow(type, rt_element_out(type, own[x], i), &v, 1);
        }
    float *to = (float *)(void *)(rt->arena + 2 * ROOM);
    parc_meet(rt, 0, AXIS);
    parc_matmul_shard(rt, parc_matmul_new(rt, &spec), AXIS, own[0], own[1], to);
    int64_t wrong = 0;
    for (int64_t i = 0; i < rows * s.n; i++)
        wrong += !is_sum(rt, &spec, rt->rank * rows + i / s.n, i % s.n,
                         (double)to[i]);
    if (wrong)
        printf("[%lld, %lld] of %lld a rank%s%s%s: %lld are wrong\n",
               (long long)s.m, (long long)s.n, (long long)s.k,
               a_turned ? ", a'" : "", b_turned ? ", b'" : "",
               type == PARC_BF16 ? ", bf16" : "", (long long)wrong);
    CHECK(c, wrong == 0);
    parc_meet(rt, 0, AXIS);
}

static int on_rank(ParcRt *rt, void *shared)
{
    Check c = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int layout = 0; layout < 8; layout++)
            product(rt, &c, sizes[i], layout & 1, layout & 2,
                    layout & 4 ? PARC_BF16 : PARC_F32);
    shared_check_add(shared, &c);
    return 0;
}

int main(void)
{
    static const int64_t ranks[] = {RANKS};
    Check c = {0};
    SharedCheck *shared = shared_check_new();
    ParcModel m = bare_model(1, ranks, ROOMS * ROOM);
    CHECK(&c, run_ranks(&m, 2, on_rank, shared) == 0);
    c.passed += shared->passed;
    c.failed += shared->failed;
    return check_end(&c);
}
