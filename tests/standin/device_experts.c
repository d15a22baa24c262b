/* device_experts.c: compares the device code of mixtures of experts with the CPU's functions.
 * Rows without a pair are NaN, or numbers that no kernel may change. */
#include <stdlib.h>
#include <string.h>

#include "cuda/core/rt_experts_plan.h"
#include "device_cases.h"
#include "device_experts.h"
#include "rt.h"
#include "test_numbers.h"

__typeof__(parc_limit_choices) cuda_limit_choices;
__typeof__(parc_group_rows) cuda_group_rows;
__typeof__(parc_gather_rows) cuda_gather_rows;
__typeof__(parc_combine_rows) cuda_combine_rows;
__typeof__(parc_gather_pairs) cuda_gather_pairs;
__typeof__(parc_scatter_pairs) cuda_scatter_pairs;
__typeof__(parc_grouped_matmul) cuda_grouped_matmul;

typedef struct Routed {
    int32_t *ids, *pair, *row, *ends;
    float *needed;
    int64_t *base;
} Routed;

typedef struct Experts {
    const ExpertsCase *c;
    int number;
    ParcGroups of;
    int64_t pairs, rows; /* of all groups */
    ParcRt rt;
    Routed is, should;
    void (*check)(bool fine, const char *what);
    int *errors;
} Experts;

static void expect(Experts *e, bool fine, const char *what)
{
    char text[100];
    snprintf(text, sizeof text, "experts %d: %s", e->number, what);
    e->check(fine && *e->errors == 0, text);
    *e->errors = 0;
}

static bool same(const void *a, const void *b, int64_t bytes)
{
    return memcmp(a, b, (size_t)bytes) == 0;
}

static int32_t *integers(int64_t n)
{
    return standin_alloc(n * (int64_t)sizeof(int32_t));
}

static int32_t expert_of(const ExpertsCase *c, int64_t i)
{
    int64_t all = c->shards * c->experts;
    switch (c->choice) {
    case 0: return (int32_t)((i * 7 + i / 5 * 3) % all);
    case 1: return (int32_t)all - 1;
    case 2: return (int32_t)(i % 3 ? 0 : all / 2);
    }
    return (int32_t)(i % (all + 2)) - 1;
}

static Routed routed(const Experts *e)
{
    int64_t groups = e->of.g * e->of.h;
    Routed r = {.ids = integers(e->pairs), .pair = integers(e->rows), .row = integers(e->pairs),
                .ends = integers(groups * e->of.x * e->c->experts),
                .needed = test_numbers(PARC_F32, groups * e->of.x, 0),
                .base = standin_alloc(sizeof *r.base)};
    for (int64_t i = 0; i < e->pairs; i++)
        r.ids[i] = expert_of(e->c, i);
    *r.base = e->c->first;
    return r;
}

static void routing_in_round(Experts *e, int32_t *round)
{
    const ExpertsCase *c = e->c;
    int64_t groups = c->g * c->h;
    const Routed *is = &e->is, *should = &e->should;
    void *own = malloc((size_t)parc_group_rows_scratch(c->shards, c->experts));
    void *scratch = standin_alloc(rt_group_bytes(&e->of, c->shards, c->experts));
    parc_group_rows(&e->rt, &e->of, c->shards, c->experts, should->pair, should->row, should->ends,
                    should->needed, should->ids, round, should->base, own);
    cuda_group_rows(&e->rt, &e->of, c->shards, c->experts, is->pair, is->row, is->ends, is->needed,
                    is->ids, round, is->base, scratch);
    free(own);
    expect(e, same(is->row, should->row, e->pairs * 4), "row");
    expect(e, same(is->pair, should->pair, e->rows * 4), "pair");
    expect(e, same(is->ends, should->ends, groups * c->x * c->experts * 4), "ends");
    expect(e, same(is->needed, should->needed, groups * c->x * 4), "needed");
}

/* The results of the first round stay. */
static void routing(Experts *e)
{
    int32_t *round = standin_alloc(sizeof *round);
    for (*round = 2; *round >= 0; --*round)
        routing_in_round(e, round);
}

/* The tokens of the groups as sequences. With `split` the rank has their second and their last
 * quarter, but for a rest. */
static void limits(Experts *e, int64_t limit, bool split)
{
    const ExpertsCase *c = e->c;
    int64_t tokens = c->b * c->h * c->s, piece = split ? tokens / 4 : tokens;
    ParcChoices of = {c->g, tokens, split ? 2 * piece : tokens, 1 + split, c->k,
                      c->shards * c->experts, limit};
    int64_t *base = standin_alloc(2 * sizeof *base), n = c->g * of.own * c->k;
    if (!piece)
        return;
    base[0] = piece, base[1] = 3 * piece;
    int32_t *is = integers(n), *should = integers(n);
    float *dropped = test_numbers(PARC_F32, 2 * c->g, 0);
    float *wanted = test_numbers(PARC_F32, 2 * c->g, 0);
    void *own = malloc((size_t)parc_limit_choices_scratch(&of));
    void *scratch = standin_alloc(rt_limit_bytes(&of));
    const int64_t *first = split ? base : NULL;
    parc_limit_choices(&e->rt, &of, should, wanted, wanted + c->g, e->should.ids, first, own);
    cuda_limit_choices(&e->rt, &of, is, dropped, dropped + c->g, e->is.ids, first, scratch);
    free(own);
    expect(e, same(is, should, n * 4), "kept choices");
    expect(e, same(dropped, wanted, 2 * c->g * 4), "numbers of dropped choices");
}

/* Numbers for all rows, which are NaN where there is no pair. */
static void *row_numbers(const Experts *e, ParcType type, int64_t width, int64_t seed)
{
    void *x = test_numbers(type, e->rows * width, seed);
    const float nan = NAN;
    for (int64_t i = 0; i < e->rows * width; i++)
        if (e->should.pair[i / width] < 0)
            rt_narrow(type, rt_element_out(type, x, i), &nan, 1);
    return x;
}

/* Moves between tokens, or pairs if width is 0, and rows. */
static void moves(Experts *e, int64_t width)
{
    ParcType type = (ParcType)e->c->type;
    const int32_t *pair = e->should.pair, *row = e->should.row;
    const int64_t *base = e->should.base;
    int64_t each = width ? width : 1;
    int64_t rows = e->rows * each, tokens = width ? e->pairs / e->of.k * width : e->pairs;
    void *x = test_numbers(type, tokens, 5), *y = row_numbers(e, type, each, 6);
    void *is = test_numbers(type, rows, 7), *should = test_numbers(type, rows, 7);
    void *sum = test_numbers(type, tokens, 0), *wanted = test_numbers(type, tokens, 0);
    if (width) {
        parc_gather_rows(&e->rt, &e->of, type, width, should, x, pair);
        cuda_gather_rows(&e->rt, &e->of, type, width, is, x, pair);
        parc_combine_rows(&e->rt, &e->of, type, width, wanted, y, row, base);
        cuda_combine_rows(&e->rt, &e->of, type, width, sum, y, row, base);
    } else {
        parc_gather_pairs(&e->rt, &e->of, type, should, x, pair);
        cuda_gather_pairs(&e->rt, &e->of, type, is, x, pair);
        parc_scatter_pairs(&e->rt, &e->of, type, wanted, y, row, base);
        cuda_scatter_pairs(&e->rt, &e->of, type, sum, y, row, base);
    }
    expect(e, same(is, should, rows * rt_type_size(type)), width ? "rows" : "pairs of rows");
    expect(e, test_near(type, sum, wanted, tokens), width ? "tokens" : "pairs of tokens");
}

/* The rank has all shards, as in a program without a mesh. */
static ParcGrouped product_of(const ExpertsCase *c, ParcGroupedResult computes)
{
    int64_t used = (c->r + c->x - 1) / c->x;
    return (ParcGrouped){computes, c->g * c->h, c->x, used, c->r, c->experts, c->f, c->d,
                         (ParcType)c->type, (ParcType)c->out};
}

static void product(Experts *e, ParcGroupedResult computes)
{
    static const double rounded[] = {
        [PARC_F32] = 2e-6, [PARC_BF16] = 0x1p-8, [PARC_F16] = 0x1p-11};
    const ExpertsCase *c = e->c;
    ParcGrouped s = product_of(c, computes);
    bool weight = computes == PARC_GROUPED_WEIGHT, forward = computes == PARC_GROUPED_Y;
    int64_t matrices = c->x * c->experts * c->f * c->d;
    int64_t n = weight ? matrices : e->rows * (forward ? c->f : c->d);
    void *a = row_numbers(e, s.type, forward ? c->d : c->f, 8);
    void *b = weight ? row_numbers(e, s.type, c->d, 9) : test_numbers(s.type, matrices, 9);
    void *is = test_numbers(s.out, n, 10), *should = test_numbers(s.out, n, 10);
    int64_t bytes = parc_grouped_scratch(&s, 1, PARC_CPU_NATIVE);
    void *own = malloc((size_t)bytes + 1);
    parc_grouped_matmul(&e->rt, &s, should, a, b, e->should.ends, own, bytes);
    cuda_grouped_matmul(&e->rt, &s, is, a, b, e->is.ends, NULL, 0);
    free(own);
    expect(e, test_distance(s.out, is, should, n) <= rounded[s.out],
           weight ? "gradient of the weight" : forward ? "y" : "gradient of rows");
}

static int64_t draw(uint64_t *state, int64_t least, int64_t most)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return least + (int64_t)(*state >> 33) % (most - least + 1);
}

/* A case with other groups, tokens, shards and experts, of the same instances: experts have on
 * average as many rows as a tile of its size. */
static ExpertsCase varied(const ExpertsCase *c, uint64_t seed)
{
    ExpertsCase v = *c;
    enum { SMALL = 64 };
    ParcGrouped s = product_of(c, PARC_GROUPED_Y);
    bool large = rt_grouped_rows(&s) > SMALL;
    int64_t least = large ? rt_grouped_mean(&s) : 1;
    v.g = draw(&seed, 1, 3), v.h = draw(&seed, 1, 3), v.b = draw(&seed, 1, 3);
    v.s = draw(&seed, 1, 40 / v.b), v.k = draw(&seed, 1, 4);
    v.shards = draw(&seed, 1, 4), v.x = draw(&seed, 1, v.shards);
    v.first = draw(&seed, 0, v.shards - v.x), v.experts = draw(&seed, 1, large ? 2 : 9);
    int64_t all = v.x * v.experts;
    v.r = draw(&seed, least * all, least * all + (large ? 30 : 60 * all));
    v.choice = (int)draw(&seed, 0, 3);
    return v;
}

void device_experts(const Device *d, int i)
{
    ExpertsCase v = experts_cases[i % EXPERTS_CASES], *c = &v;
    if (i >= EXPERTS_CASES)
        v = varied(&v, (uint64_t)i);
    Experts e = {.c = c, .number = i, .of = {c->g, c->h, c->b, c->s, c->k, c->x, c->r},
                 .pairs = c->g * c->h * c->b * c->s * c->k, .rows = c->g * c->h * c->x * c->r,
                 .rt = {.threads = 1}, .check = d->check, .errors = d->errors};
    *d->errors = 0;
    e.is = routed(&e);
    e.should = routed(&e);
    routing(&e);
    limits(&e, 1, false);
    limits(&e, 2 + c->s / 4, true);
    moves(&e, c->d);
    moves(&e, 0);
    for (int result = PARC_GROUPED_Y; result <= PARC_GROUPED_WEIGHT; result++)
        product(&e, (ParcGroupedResult)result);
}
