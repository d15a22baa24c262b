/* attention_ring.c: runs the steps of rings one rank after another; see attention_ring.h. */
#include "tests/unit/attention_ring.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/common/message.h"
#include "runtime/common/type.h"
#include "runtime/rt.h"
#include "tests/unit/attention_reference.h"

/* The sequences of x, of which each token has `width` elements, as one rank of n has them: in
 * zigzag order two pieces of 2n. `out`: from x to the part; else back. */
typedef struct Part {
    int64_t b, all, width, n, rank;
    bool zigzag;
} Part;

static int64_t part_tokens(const Part *p)
{
    return p->all / p->n;
}

static int64_t first_of(const Part *p, int i)
{
    int64_t piece = p->all / (p->zigzag ? 2 * p->n : p->n);
    return (i ? 2 * p->n - 1 - p->rank : p->rank) * piece;
}

static void copy_part(const Part *p, char *x, char *part, bool out)
{
    int64_t held = part_tokens(p), piece = p->zigzag ? held / 2 : held;
    for (int64_t b = 0; b < p->b; b++)
        for (int64_t i = 0; i < held; i++) {
            int64_t at = first_of(p, (int)(i / piece)) + i % piece;
            char *to = x + (b * p->all + at) * p->width, *own = part + (b * held + i) * p->width;
            memcpy(out ? own : to, out ? to : own, (size_t)p->width);
        }
}

static void *part_of(const Part *p, void *x)
{
    char *part = rt_allocate((size_t)(p->b * part_tokens(p) * p->width));
    copy_part(p, x, part, true);
    return part;
}

/* One rank of a ring: its queries, keys and values, and what its steps make. */
typedef struct Rank {
    ParcAttention a;
    Part tokens;
    int64_t first[2];
    void *q, *k, *v, *d_o, *o16;
    int32_t *query, *key;
    float *o, *lse, *dq, *dk, *dv;
} Rank;

static Part with_width(Part p, int64_t width)
{
    p.width = width;
    return p;
}

static Rank rank_of(const ParcAttention *a, void *const in[4], int64_t n, int64_t rank,
                    bool zigzag)
{
    int64_t size = rt_type_size(a->type), heads = a->kv * a->g;
    Rank r = {.a = *a, .tokens = {a->b, a->s, 0, n, rank, zigzag}};
    for (int i = 0; i < 2; i++)
        r.first[i] = first_of(&r.tokens, i);
    int64_t held = part_tokens(&r.tokens);
    r.a.s = r.a.t = held;
    r.a.all_s = r.a.all_t = a->s;
    r.a.first_s = r.first[0];
    r.a.second_s = zigzag ? r.first[1] : 0;
    r.a.key_pieces = 1 + zigzag;
    Part q = with_width(r.tokens, heads * a->d * size), k = with_width(q, a->kv * a->d * size);
    Part v = with_width(q, a->kv * a->e * size), o = with_width(q, heads * a->e * size);
    r.q = part_of(&q, in[0]);
    r.k = part_of(&k, in[1]);
    r.v = part_of(&v, in[2]);
    r.d_o = part_of(&o, in[3]);
    if (a->segments) {
        Part ids = with_width(q, sizeof(int32_t));
        r.a.query_segment = r.query = part_of(&ids, (void *)(uintptr_t)a->query_segment);
        r.key = part_of(&ids, (void *)(uintptr_t)a->key_segment);
    }
    int64_t rows = a->b * held;
    r.o = random_floats(rows * heads * a->e, 9);
    r.o16 = rt_allocate((size_t)(rows * heads * a->e) * sizeof(float));
    r.lse = random_floats(rows * heads, 9);
    r.dq = random_floats(rows * heads * a->d, 9);
    r.dk = zero_floats(rows * a->kv * a->d);
    r.dv = zero_floats(rows * a->kv * a->e);
    return r;
}

static void free_rank(Rank *r)
{
    void *all[] = {r->q, r->k, r->v, r->d_o, r->o16, r->query, r->key, r->o, r->lse, r->dq,
                   r->dk, r->dv};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

/* The call of a rank with the keys of another. */
static ParcAttention with_keys(const Rank *r, const Rank *of)
{
    ParcAttention a = r->a;
    a.first_t = of->first;
    a.key_segment = of->key;
    return a;
}

/* All steps of all ranks. Every second step writes other memory than it reads. */
static void run_ring(ParcRt *rt, Rank *rank, int n)
{
    const ParcAttention *a = &rank->a;
    int64_t rows = a->b * a->s, o = rows * a->kv * a->g * a->e, q = rows * a->kv * a->g * a->d;
    int64_t k = rows * a->kv * a->d, v = rows * a->kv * a->e, lse = rows * a->kv * a->g;
    float *before = rt_allocate((size_t)(o + q + lse) * sizeof *before);
    omp_set_num_threads(1);
    float *dk = random_floats(k, 5), *dv = random_floats(v, 5);
    size_t bytes = (size_t)parc_attention_scratch(a, true, 1);
    size_t forward = (size_t)parc_attention_scratch(a, false, 1);
    float *scratch = rt_allocate(bytes > forward ? bytes : forward);
    for (Rank *r = rank; r < rank + n; r++)
        for (int i = 0; i < n; i++) {
            const Rank *of = &rank[(r - rank + n - i) % n];
            ParcAttention call = with_keys(r, of);
            float *from = i % 2 ? before : r->o, *sums = i % 2 ? before + o : r->lse;
            memcpy(before, r->o, (size_t)o * sizeof *before);
            memcpy(before + o, r->lse, (size_t)lse * sizeof *before);
            parc_attention_step(rt, &call, r->o, r->lse, r->q, of->k, of->v, i ? from : NULL,
                                i ? sums : NULL, scratch);
        }
    for (Rank *r = rank; r < rank + n; r++)
        rt_narrow(a->type, r->o16, r->o, o);
    for (Rank *r = rank; r < rank + n; r++)
        for (int i = 0; i < n; i++) {
            Rank *of = &rank[(r - rank + n - i) % n];
            ParcAttention call = with_keys(r, of);
            memcpy(before, r->dq, (size_t)q * sizeof *before);
            parc_attention_grad_step(rt, &call, r->dq, dk, dv, r->d_o, r->q, of->k, of->v,
                                     r->o16, r->lse, i ? i % 2 ? before : r->dq : NULL, scratch);
            for (int64_t x = 0; x < k; x++)
                of->dk[x] += dk[x];
            for (int64_t x = 0; x < v; x++)
                of->dv[x] += dv[x];
        }
    free(before);
    free(dk);
    free(dv);
    free(scratch);
}

/* The lse of one rank: [b, heads, queries]. */
static void put_sums(const Rank *r, float *lse)
{
    Part p = r->tokens;
    p.b *= r->a.kv * r->a.g;
    p.width = sizeof *lse;
    copy_part(&p, (char *)lse, (char *)r->lse, false);
}

AttentionResults ring_results(ParcRt *rt, const ParcAttention *a, void *const in[4], int n,
                                bool zigzag)
{
    AttentionSizes size = attention_sizes(a);
    int64_t f32 = sizeof(float), heads = a->kv * a->g;
    AttentionResults r = {random_floats(size.o, 9), random_floats(size.lse, 9), random_floats(size.q, 9),
                 random_floats(size.k, 9), random_floats(size.v, 9), NULL};
    Rank rank[8];
    for (int i = 0; i < n; i++)
        rank[i] = rank_of(a, in, n, i, zigzag);
    run_ring(rt, rank, n);
    for (int i = 0; i < n; i++) {
        Part q = with_width(rank[i].tokens, heads * a->d * f32), o = with_width(q, heads * a->e * f32);
        Part k = with_width(q, a->kv * a->d * f32), v = with_width(q, a->kv * a->e * f32);
        copy_part(&o, (char *)r.o, (char *)rank[i].o, false);
        copy_part(&q, (char *)r.dq, (char *)rank[i].dq, false);
        copy_part(&k, (char *)r.dk, (char *)rank[i].dk, false);
        copy_part(&v, (char *)r.dv, (char *)rank[i].dv, false);
        put_sums(&rank[i], r.lse);
        free_rank(&rank[i]);
    }
    return r;
}
