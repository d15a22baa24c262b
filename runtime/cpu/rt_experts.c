/* rt_experts.c: moves the tokens of a mixture of experts to the rows of their experts, and
 * back.
 *
 *   ids = [[2, 0], [2, 1]], one shard of 4 experts  ->  ends = [1, 2, 4, 4]
 *   tokens t0, t1                                   ->  rows  t0, t1, t0, t1
 *
 * A counting sort finds the rows: one pass counts the pairs of each expert, a second one gives
 * each pair the next row of its expert, in order.
 */
#include <string.h>

#include "common/type.h"
#include "parc_experts.h"
#include "rt.h"

enum { GRAIN = 1 << 12, PIECE = 256 };

/* The index in [g b, h s] of the first token of a group, and between two of its rows. */
static int64_t first_token(const ParcGroups *of, int64_t group)
{
    int64_t g = group / of->h, h = group % of->h;
    return g * of->b * of->h * of->s + h * of->s;
}

static int64_t token_row(const ParcGroups *of)
{
    return of->h * of->s;
}

/* The index in [g b, h s] of a token of a group. */
static int64_t token_at(const ParcGroups *of, int64_t group, int64_t token)
{
    return first_token(of, group) + token / of->s * token_row(of) + token % of->s;
}

/* ---- routing ------------------------------------------------------------- */

int64_t parc_limit_choices_scratch(const ParcChoices *of)
{
    return of->experts * (int64_t)sizeof(int64_t);
}

/* The rank's index of a token of a sequence; -1: another rank's. */
static int64_t own_token(const ParcChoices *of, const int64_t *base, int64_t token)
{
    int64_t each = of->own / of->pieces;
    for (int64_t p = 0; base && p < of->pieces; p++)
        if (token >= base[p] && token < base[p] + each)
            return p * each + token - base[p];
    return base ? -1 : token;
}

void parc_limit_choices(ParcRt *rt, const ParcChoices *of, int32_t *kept, float *rest,
                        float *blocks, const int32_t *ids, const int64_t *base, void *scratch)
{
    int64_t *had = scratch; /* by expert: choices of the sequence */
    (void)rt;
    for (int64_t q = 0; q < of->sequences; q++, kept += of->own * of->k) {
        int64_t more = 0;
        memset(had, 0, sizeof *had * (size_t)of->experts);
        for (int64_t t = 0; t < of->length; t++) {
            int64_t own = own_token(of, base, t);
            for (int64_t j = 0; j < of->k; j++) {
                int32_t id = *ids++;
                bool valid = id >= 0 && id < of->experts, fits = valid && had[id]++ < of->limit;
                if (own < 0)
                    continue;
                kept[own * of->k + j] = fits ? id : -1;
                more += valid && !fits;
            }
        }
        rest[q] = (float)(more % 256);
        blocks[q] = (float)(more / 256);
    }
}

int64_t parc_group_rows_scratch(int64_t shards, int64_t experts)
{
    return shards * experts * (int64_t)sizeof(int64_t);
}

typedef struct Sort {
    const ParcGroups *of;
    int64_t shards, experts, first; /* the rank's first shard */
    int64_t begin;                  /* the first row of the round */
    int64_t *next;                  /* [shards, experts] the next row of its shard */
    int32_t *pair, *row, *ends;     /* of one group: row at its first token */
    float *needed;
    const int32_t *ids;
} Sort;

static void count_pairs(const Sort *s)
{
    int64_t all = s->shards * s->experts, choices = s->of->s * s->of->k;
    memset(s->next, 0, sizeof *s->next * (size_t)all);
    for (int64_t b = 0; b < s->of->b; b++) {
        const int32_t *ids = s->ids + b * token_row(s->of) * s->of->k;
        for (int64_t i = 0; i < choices; i++)
            if (ids[i] >= 0 && ids[i] < all)
                s->next[ids[i]]++;
    }
}

/* The row of the round that is row `at` of a shard, or the nearest one. */
static int64_t row_in_round(const Sort *s, int64_t at)
{
    return at < s->begin ? 0 : rt_least(at - s->begin, s->of->r);
}

/* Replaces the counts by the experts' first rows. */
static void place_experts(const Sort *s)
{
    for (int64_t x = 0; x < s->shards; x++) {
        int64_t own = x - s->first, at = 0, r = s->of->r;
        bool mine = own >= 0 && own < s->of->x;
        for (int64_t e = 0; e < s->experts; e++) {
            int64_t count = s->next[x * s->experts + e];
            s->next[x * s->experts + e] = at;
            at += count;
            if (mine)
                s->ends[own * s->experts + e] = (int32_t)row_in_round(s, at);
        }
        if (!mine)
            continue;
        s->needed[own] = (float)at;
        for (int64_t i = row_in_round(s, at); i < r; i++)
            s->pair[own * r + i] = -1;
    }
}

static void place_pairs(const Sort *s)
{
    const ParcGroups *of = s->of;
    int64_t all = s->shards * s->experts, choices = of->s * of->k;
    for (int64_t b = 0; b < of->b; b++) {
        int64_t at = b * token_row(of) * of->k;
        for (int64_t i = 0; i < choices; i++) {
            int32_t id = s->ids[at + i];
            int64_t to = id >= 0 && id < all ? s->next[id]++ - s->begin : of->r;
            int64_t shard = id / s->experts, own = shard - s->first;
            bool fits = to >= 0 && to < of->r;
            s->row[at + i] = fits ? (int32_t)(shard * of->r + to) : -1;
            if (fits && own >= 0 && own < of->x)
                s->pair[own * of->r + to] = (int32_t)(b * choices + i);
        }
    }
}

void parc_group_rows(ParcRt *rt, const ParcGroups *of, int64_t shards, int64_t experts,
                     int32_t *pair, int32_t *row, int32_t *ends, float *needed,
                     const int32_t *ids, const int32_t *round, const int64_t *base,
                     void *scratch)
{
    (void)rt;
    for (int64_t i = 0; i < of->g * of->h; i++) {
        int64_t tokens = first_token(of, i) * of->k;
        Sort s = {of, shards, experts, base ? *base : 0, *round * of->r, scratch,
                  pair + i * of->x * of->r,
                  row + tokens, ends + i * of->x * experts, needed + i * of->x, ids + tokens};
        count_pairs(&s);
        place_experts(&s);
        place_pairs(&s);
    }
}

/* ---- rows and tokens ----------------------------------------------------- */

void parc_gather_rows(ParcRt *rt, const ParcGroups *of, ParcType type, int64_t width, void *rows,
                      const void *x, const int32_t *pair)
{
    int64_t own = of->x * of->r, n = of->g * of->h * own;
    size_t bytes = (size_t)(width * rt_type_size(type));
    (void)rt;
#pragma omp parallel for schedule(static) if (n * width > GRAIN)
    for (int64_t i = 0; i < n; i++)
        if (pair[i] >= 0)
            memcpy(rt_element_out(type, rows, i * width),
                   rt_element(type, x, token_at(of, i / own, pair[i] / of->k) * width), bytes);
}

/* The rows of the rank that a pair of a group may have: index `row` - first, below n. */
typedef struct Held {
    const void *rows;
    int64_t first, n;
} Held;

static Held held_rows(const ParcGroups *of, ParcType type, int64_t width, const void *rows,
                      int64_t group, const int64_t *base)
{
    int64_t n = of->x * of->r;
    return (Held){rt_element(type, rows, group * n * width), (base ? *base : 0) * of->r, n};
}

/* The index of a pair's row; -1: the rank has none. */
static int64_t held_row(const Held *held, int32_t row)
{
    int64_t at = row - held->first;
    return row >= 0 && at >= 0 && at < held->n ? at : -1;
}

/* Sums the rows of one token. */
static void combine_token(const Held *held, ParcType type, int64_t width, void *to,
                          const int32_t *row, int64_t k)
{
    float sum[PIECE], piece[PIECE];
    for (int64_t at = 0; at < width; at += PIECE) {
        int64_t n = rt_least(width - at, PIECE);
        memset(sum, 0, sizeof *sum * (size_t)n);
        for (int64_t j = 0; j < k; j++) {
            int64_t from = held_row(held, row[j]);
            if (from < 0)
                continue;
            const float *x = rt_as_floats(type, rt_element(type, held->rows, from * width + at),
                                          n, piece);
            for (int64_t i = 0; i < n; i++)
                sum[i] += x[i];
        }
        rt_narrow(type, rt_element_out(type, to, at), sum, n);
    }
}

void parc_combine_rows(ParcRt *rt, const ParcGroups *of, ParcType type, int64_t width, void *x,
                       const void *rows, const int32_t *row, const int64_t *base)
{
    int64_t own = of->b * of->s, n = of->g * of->h * own;
    (void)rt;
#pragma omp parallel for schedule(static) if (n * width > GRAIN)
    for (int64_t i = 0; i < n; i++) {
        Held held = held_rows(of, type, width, rows, i / own, base);
        int64_t token = token_at(of, i / own, i % own);
        combine_token(&held, type, width, rt_element_out(type, x, token * width),
                      row + token * of->k, of->k);
    }
}

/* ---- rows and pairs ------------------------------------------------------ */

void parc_gather_pairs(ParcRt *rt, const ParcGroups *of, ParcType type, void *rows, const void *x,
                       const int32_t *pair)
{
    int64_t own = of->x * of->r, n = of->g * of->h * own;
    size_t bytes = (size_t)rt_type_size(type);
    (void)rt;
#pragma omp parallel for schedule(static) if (n > GRAIN)
    for (int64_t i = 0; i < n; i++) {
        if (pair[i] < 0)
            continue;
        int64_t token = token_at(of, i / own, pair[i] / of->k);
        memcpy(rt_element_out(type, rows, i),
               rt_element(type, x, token * of->k + pair[i] % of->k), bytes);
    }
}

void parc_scatter_pairs(ParcRt *rt, const ParcGroups *of, ParcType type, void *x, const void *rows,
                        const int32_t *row, const int64_t *base)
{
    int64_t own = of->b * of->s, n = of->g * of->h * own;
    size_t bytes = (size_t)rt_type_size(type);
    (void)rt;
#pragma omp parallel for schedule(static) if (n * of->k > GRAIN)
    for (int64_t i = 0; i < n; i++) {
        Held held = held_rows(of, type, 1, rows, i / own, base);
        int64_t at = token_at(of, i / own, i % own) * of->k;
        for (int64_t j = 0; j < of->k; j++) {
            int64_t from = held_row(&held, row[at + j]);
            if (from >= 0)
                memcpy(rt_element_out(type, x, at + j), rt_element(type, held.rows, from), bytes);
            else
                memset(rt_element_out(type, x, at + j), 0, bytes);
        }
    }
}
