/* runtime_experts.c: compares the CPU's ops of a mixture of experts with simple loops, for all
 * element types and odd sizes: all tokens at one expert, experts without rows, rows that do not
 * fit, several groups and shards. Rows without a pair have NaN, and are not read.
 *
 * cpu: the machine's instructions decide which kernels oneDNN has */
#include <math.h>
#include <stdlib.h>

#include "runtime/common/type.h"
#include "runtime/parc_experts.h"
#include "tests/interp/routing.h"
#include "tests/unit/runtime_tools.h"

enum { MOST = 1 << 17, MOST_PAIRS = 1 << 12, GUARD = 64, MARK = 0x5a };
static const double TOLERANCE = 0x1p-20;

/* How the pairs choose their experts. */
typedef enum Choice { SPREAD, ONE_EXPERT, FEW, INVALID } Choice;

typedef struct Case {
    ParcGroups of;
    int64_t shards, experts, first; /* all shards; experts of one; the rank's first shard */
    int64_t f, d;
    Choice choice;
} Case;

/* The routing of a case: as the kernel gives it, and as `route` does. */
typedef struct Routed {
    int32_t ids[MOST_PAIRS], pair[MOST_PAIRS], row[MOST_PAIRS], ends[MOST_PAIRS];
    float needed[MOST_PAIRS];
} Routed;

static int64_t pairs_of(const Case *k)
{
    return k->of.b * k->of.s * k->of.k;
}

static int64_t groups_of(const Case *k)
{
    return k->of.g * k->of.h;
}

/* The index in [g b, h s, k] of a pair of a group. */
static int64_t place(const Case *k, int64_t group, int64_t pair)
{
    const ParcGroups *x = &k->of;
    int64_t token = pair / x->k, b = group / x->h * x->b + token / x->s;
    return ((b * x->h + group % x->h) * x->s + token % x->s) * x->k + pair % x->k;
}

static int32_t expert_of(const Case *k, int64_t i)
{
    int64_t all = k->shards * k->experts;
    switch (k->choice) {
    case SPREAD: return (int32_t)((i * 7 + i / 5 * 3) % all);
    case ONE_EXPERT: return (int32_t)(all - 1);
    case FEW: return (int32_t)(i % 3 ? 0 : all / 2);
    case INVALID: return (int32_t)(i % (all + 2)) - 1;
    }
    return 0;
}

static void check_round(ParcRt *rt, Check *c, const Case *k, Routed *r, int32_t round)
{
    const ParcGroups *of = &k->of;
    int64_t n = pairs_of(k), groups = groups_of(k), wrong = 0;
    int64_t rows = of->x * of->r, ends = of->x * k->experts;
    for (int64_t i = 0; i < groups * n; i++)
        r->ids[i] = expert_of(k, i);
    parc_group_rows(rt, of, k->shards, k->experts, r->pair, r->row, r->ends, r->needed, r->ids,
                    &round, &k->first, rt->arena);
    Routing as = {n, of->x, k->first, k->shards, of->r, k->experts, round};
    for (int64_t g = 0; g < groups; g++) {
        static double ids[MOST_PAIRS], pair[MOST_PAIRS], row[MOST_PAIRS], end[MOST_PAIRS];
        double needed[GUARD];
        for (int64_t p = 0; p < n; p++)
            ids[p] = r->ids[place(k, g, p)];
        route(&as, ids, pair, row, end, needed);
        for (int64_t p = 0; p < n; p++)
            wrong += r->row[place(k, g, p)] != (int32_t)row[p];
        for (int64_t i = 0; i < rows; i++)
            wrong += r->pair[g * rows + i] != (int32_t)pair[i];
        for (int64_t i = 0; i < ends; i++)
            wrong += r->ends[g * ends + i] != (int32_t)end[i];
        for (int64_t i = 0; i < of->x; i++)
            wrong += (double)r->needed[g * of->x + i] != needed[i];
    }
    CHECK(c, wrong == 0);
}

/* The results of the first round stay. */
static void check_routing(ParcRt *rt, Check *c, const Case *k, Routed *r)
{
    for (int32_t round = 2; round >= 0; round--)
        check_round(rt, c, k, r, round);
}

/* Each group as a sequence, of which the rank has two pieces: an expert keeps the first choices up
 * to the limit. */
static void check_limit(ParcRt *rt, Check *c, const Case *k, Routed *r, int64_t limit)
{
    int64_t n = k->of.h * pairs_of(k), all = k->shards * k->experts, tokens = n / k->of.k;
    int64_t piece = tokens / 3, own = 2 * piece * k->of.k, wrong = 0;
    int64_t base[] = {0, tokens - piece}, last = (tokens - 2 * piece) * k->of.k;
    ParcChoices of = {k->of.g, tokens, piece ? 2 * piece : tokens, piece ? 2 : 1, k->of.k, all, limit};
    for (int64_t i = 0; i < k->of.g * n; i++)
        r->ids[i] = expert_of(k, i);
    float *rest = r->needed, *blocks = r->needed + k->of.g;
    parc_limit_choices(rt, &of, r->row, rest, blocks, r->ids, piece ? base : NULL, rt->arena);
    for (int64_t q = 0; q < k->of.g; q++) {
        const int32_t *ids = r->ids + q * n;
        int64_t dropped = 0;
        for (int64_t i = 0; i < (piece ? own : n); i++) {
            int64_t at = piece && i >= own / 2 ? i + last : i, before = 0;
            for (int64_t j = 0; j < at; j++)
                before += ids[j] == ids[at];
            bool valid = ids[at] >= 0 && ids[at] < all, fits = valid && before < limit;
            wrong += r->row[q * (piece ? own : n) + i] != (fits ? ids[at] : -1);
            dropped += valid && !fits;
        }
        wrong += (int64_t)rest[q] != dropped % 256 || (int64_t)blocks[q] != dropped / 256;
    }
    CHECK(c, wrong == 0);
}

/* ---- numbers ---- */

/* n elements of the type, and their values in `wide`. */
static void *numbers(float *wide, int64_t n, ParcType type, int seed)
{
    char *narrow = rt_allocate((size_t)(n * rt_type_size(type)) + GUARD);
    for (int64_t i = 0; i < n; i++)
        wide[i] = value_of(seed, i);
    rt_narrow(type, narrow, wide, n);
    rt_widen(wide, type, narrow, n);
    memset(narrow + n * rt_type_size(type), MARK, GUARD);
    return narrow;
}

/* Makes the rows without a pair NaN. */
static void undefine(const Case *k, const Routed *r, ParcType type, int64_t width, void *rows)
{
    const float nan = NAN;
    for (int64_t i = 0; i < groups_of(k) * k->of.x * k->of.r; i++)
        for (int64_t j = 0; j < width && r->pair[i] < 0; j++)
            rt_narrow(type, rt_element_out(type, rows, i * width + j), &nan, 1);
}

/* Whether the element is `sum` within the rounding of the type and of its terms. */
static bool is_near(ParcType type, const void *x, int64_t i, double sum, double magnitude)
{
    static const double ulp[] = {[PARC_F32] = 0x1p-24, [PARC_BF16] = 0x1p-8, [PARC_F16] = 0x1p-11};
    float got;
    rt_widen(&got, type, rt_element(type, x, i), 1);
    return fabs((double)got - sum) <=
           ulp[type] * fabs(sum) + 1e-7 + TOLERANCE * (magnitude + 1e-9);
}

static bool is_guarded(const char *end)
{
    int beyond = 0;
    for (int i = 0; i < GUARD; i++)
        beyond += end[i] != MARK;
    return beyond == 0;
}

/* ---- rows and tokens ---- */

/* The sum of the rows of a token, or with `pair` of one of its pairs. */
static double combined(const Case *k, const Routed *r, const float *rows, int64_t width,
                       int64_t group, int64_t pair, int64_t j)
{
    int64_t own = k->of.x * k->of.r, row = r->row[place(k, group, pair)];
    int64_t at = row - k->first * k->of.r;
    bool held = row >= 0 && at >= 0 && at < own;
    return held ? (double)rows[(group * own + at) * width + j] : 0;
}

static void check_moves(ParcRt *rt, Check *c, const Case *k, const Routed *r, ParcType type)
{
    static float tokens[MOST], rows[MOST], pairs[MOST], of_rows[MOST];
    const ParcGroups *of = &k->of;
    int64_t width = k->d, n = pairs_of(k), groups = groups_of(k), own = of->x * of->r;
    void *x = numbers(tokens, groups * n / of->k * width, type, 1);
    void *y = numbers(rows, groups * own * width, type, 2);
    void *by = numbers(pairs, groups * n, type, 3), *of_y = numbers(of_rows, groups * own, type, 4);
    int64_t wrong = 0;
    undefine(k, r, type, width, y);
    undefine(k, r, type, 1, of_y);
    parc_combine_rows(rt, of, type, width, x, y, r->row, &k->first);
    parc_scatter_pairs(rt, of, type, by, of_y, r->row, &k->first);
    for (int64_t g = 0; g < groups; g++)
        for (int64_t p = 0; p < n; p++) {
            int64_t at = place(k, g, p);
            wrong += !is_near(type, by, at, combined(k, r, of_rows, 1, g, p, 0), 0);
            for (int64_t j = 0; j < width && p % of->k == 0; j++) {
                double sum = 0, magnitude = 0;
                for (int64_t q = p; q < p + of->k; q++) {
                    double one = combined(k, r, rows, width, g, q, j);
                    sum += one;
                    magnitude += fabs(one);
                }
                wrong += !is_near(type, x, at / of->k * width + j, sum, magnitude);
            }
        }
    rt_widen(tokens, type, x, groups * n / of->k * width);
    rt_widen(pairs, type, by, groups * n);
    parc_gather_rows(rt, of, type, width, y, x, r->pair);
    parc_gather_pairs(rt, of, type, of_y, by, r->pair);
    for (int64_t i = 0; i < groups * own; i++) {
        int64_t at = r->pair[i] < 0 ? 0 : place(k, i / own, r->pair[i]);
        double nan = r->pair[i] < 0 ? NAN : 0; /* as it was */
        wrong += !is_near(type, of_y, i, (double)pairs[at], 0) && nan == 0;
        for (int64_t j = 0; j < width; j++) {
            float is;
            rt_widen(&is, type, rt_element(type, y, i * width + j), 1);
            double wanted = (double)tokens[at / of->k * width + j] + nan;
            wrong += !((double)is == wanted || (isnan(is) && isnan(wanted)));
        }
    }
    CHECK(c, wrong == 0);
    CHECK(c, is_guarded((char *)y + groups * own * width * rt_type_size(type)));
    CHECK(c, is_guarded((char *)x + groups * n / of->k * width * rt_type_size(type)));
    free(x), free(y), free(by), free(of_y);
}

/* ---- products ---- */

static float a[MOST], b[MOST];
static double sum[MOST], magnitude[MOST];

static void add_product(ParcGroupedResult computes, int64_t x, int64_t w, int64_t y)
{
    int64_t to = computes == PARC_GROUPED_Y      ? y
                 : computes == PARC_GROUPED_ROWS ? x
                                                 : w;
    double one = computes == PARC_GROUPED_Y      ? (double)a[x] * (double)b[w]
                 : computes == PARC_GROUPED_ROWS ? (double)a[y] * (double)b[w]
                                                 : (double)a[y] * (double)b[x];
    sum[to] += one;
    magnitude[to] += fabs(one);
}

static void add_row(const ParcGrouped *s, int64_t row, int64_t matrix)
{
    for (int64_t f = 0; f < s->f; f++)
        for (int64_t d = 0; d < s->d; d++)
            add_product(s->computes, row * s->d + d, (matrix * s->f + f) * s->d + d,
                        row * s->f + f);
}

static void add_all(const Case *k, const Routed *r, const ParcGrouped *s)
{
    memset(sum, 0, sizeof sum);
    memset(magnitude, 0, sizeof magnitude);
    for (int64_t i = 0; i < s->groups * s->x; i++)
        for (int64_t e = 0, row = 0; e < s->experts; e++)
            for (; row < r->ends[i * s->experts + e]; row++)
                add_row(s, i * s->r + row, i % k->of.x * s->experts + e);
}

static void check_product(ParcRt *rt, Check *c, const Case *k, const Routed *r,
                          const ParcGrouped *s, int64_t scratch)
{
    bool weight = s->computes == PARC_GROUPED_WEIGHT, forward = s->computes == PARC_GROUPED_Y;
    int64_t rows = s->groups * s->x * s->r, matrices = s->x * s->experts * s->f * s->d;
    int64_t columns = forward ? s->f : s->d, n = weight ? matrices : rows * columns, wrong = 0;
    int64_t wide = forward ? s->d : s->f;
    void *of_a = numbers(a, rows * wide, s->type, 5);
    void *of_b = numbers(b, weight ? rows * s->d : matrices, s->type, 6);
    undefine(k, r, s->type, wide, of_a);
    if (weight)
        undefine(k, r, s->type, s->d, of_b);
    char *out = rt_allocate((size_t)(n * rt_type_size(s->out)) + GUARD);
    memset(out, MARK, (size_t)(n * rt_type_size(s->out)) + GUARD);
    memset(rt->arena + scratch, MARK, GUARD);
    add_all(k, r, s);
    for (int repeat = 0; repeat < 2; repeat++) /* the second call finds the kernel */
        parc_grouped_matmul(rt, s, out, of_a, of_b, r->ends, rt->arena, scratch);
    for (int64_t i = 0; i < n; i++) {
        bool used = weight || r->pair[i / columns] >= 0;
        uint32_t mark = 0;
        memcpy(&mark, out + i * rt_type_size(s->out), (size_t)rt_type_size(s->out));
        bool same = mark == (rt_type_size(s->out) == 4 ? 0x5a5a5a5au : 0x5a5au);
        wrong += used ? !is_near(s->out, out, i, sum[i], magnitude[i]) : !same;
    }
    if (wrong)
        printf("result %d of type %d from type %d, f %lld, d %lld: %lld are wrong\n", s->computes,
               s->out, s->type, (long long)s->f, (long long)s->d, (long long)wrong);
    CHECK(c, wrong == 0);
    CHECK(c, is_guarded(out + n * rt_type_size(s->out)));
    CHECK(c, is_guarded(rt->arena + scratch));
    free(of_a), free(of_b), free(out);
}

static void check_products(ParcRt *rt, Check *c, const Case *k, const Routed *r)
{
    static const struct {
        ParcType type, out;
    } types[] = {{PARC_F32, PARC_F32}, {PARC_BF16, PARC_BF16}, {PARC_BF16, PARC_F32},
                 {PARC_F16, PARC_F16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (int computes = PARC_GROUPED_Y; computes <= PARC_GROUPED_WEIGHT; computes++) {
            ParcGrouped s = {(ParcGroupedResult)computes, groups_of(k), k->of.x, k->of.r, k->of.r,
                             k->experts, k->f, k->d, types[i].type, types[i].out};
            for (int level = PARC_CPU_NATIVE; level <= PARC_CPU_AMX; level++)
                check_product(rt, c, k, r, &s,
                              parc_grouped_scratch(&s, rt->threads, (ParcCpuLevel)level));
        }
}

/* g, h, b, s, k, x, r; shards, experts, first; f, d */
static const Case cases[] = {
    {{1, 1, 1, 1, 1, 1, 1}, 1, 1, 0, 1, 1, SPREAD},
    {{1, 1, 4, 16, 2, 1, 128}, 1, 8, 0, 33, 40, SPREAD},
    {{1, 1, 3, 7, 2, 1, 42}, 1, 5, 0, 16, 17, ONE_EXPERT},
    {{1, 1, 3, 7, 2, 1, 42}, 1, 5, 0, 1, 9, FEW},
    {{1, 1, 2, 9, 3, 1, 60}, 1, 6, 0, 48, 1, INVALID},
    {{2, 3, 2, 4, 2, 2, 9}, 4, 2, 1, 20, 12, SPREAD},
    {{2, 2, 2, 3, 3, 1, 7}, 3, 3, 0, 8, 24, FEW},
    {{1, 1, 2, 160, 1, 1, 320}, 1, 2, 0, 300, 136, SPREAD}, /* several pieces of the result */
    {{2, 1, 1, 40, 2, 1, 80}, 1, 3, 0, 270, 33, FEW},
};

static int run_cases(ParcRt *rt, void *shared)
{
    static const ParcType types[] = {PARC_F32, PARC_BF16, PARC_F16};
    static Routed routed;
    Check c = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int64_t limit = 1; limit <= 9; limit += 4)
            check_limit(rt, &c, &cases[i], &routed, limit);
        check_routing(rt, &c, &cases[i], &routed);
        for (int t = 0; t < 3; t++)
            check_moves(rt, &c, &cases[i], &routed, types[t]);
        check_products(rt, &c, &cases[i], &routed);
    }
    shared_check_add(shared, &c);
    return 0;
}

int main(void)
{
    Check c = {0};
    static const int64_t one[] = {1};
    SharedCheck *shared = shared_check_new();
    ParcModel m = bare_model(1, one, 1 << 25);
    for (int threads = 1; threads <= 2; threads++)
        CHECK(&c, run_ranks(&m, threads, run_cases, shared) == 0);
    c.passed += shared->passed;
    c.failed += shared->failed;
    return check_end(&c);
}
