/* rt_matmul_split.c: computes matrix products in f32 with the AMX tile
 * instructions for bf16. A strip is 32 rows of a or 32 columns of b; packing a
 * strip splits its f32 into bf16 parts in tiles (rt_split.h).
 *
 * For c = a b every thread has its own rows and columns of c. No two threads
 * share a sum, so the order of a sum does not depend on the number of threads.
 * Blocks have the size of a core's L2 cache:
 *
 *   for rows of c, for columns of c          limited by the buffer for sums
 *     for pieces of k
 *       pack b's columns                     at most 768 KiB
 *       for strips of these rows of a
 *         pack the strip                     at most 96 KiB
 *         for strips of these columns: 32 x 32 sums += six products of tiles
 *
 * If a is contiguous by columns, several neighboring strips are packed
 * together: each memory access then reads more than two adjacent cache lines.
 */
#include <string.h>

#include "cpu/rt_matmul.h"
#include "cpu/rt_split.h"
#include "cpu/rt_stream.h"

enum {
    WIDE = 512,       /* maximum columns of a block */
    DEEP = 512,       /* maximum size of a piece of k */
    PACKED = 1 << 17, /* maximum elements of b that are packed at a time */
    KEPT = 1 << 18,   /* maximum number of sums that wait for further pieces of
                         k */
    NEIGHBOURS = 4,   /* strips of a that are packed together */
};

/* The part of c that a thread computes, in multiples of 32. */
typedef struct Share {
    int64_t rows, columns; /* rows and columns of c */
    int64_t block_rows, block_columns, deep;
    bool whole;    /* k has one piece: each sum is complete after it */
    int64_t group; /* number of strips of a that are packed together */
    int64_t sums;  /* size of the buffer for sums */
} Share;

static Share share_of(const Plan *p, int threads)
{
    const View *a = &p->view[SRC], *c = &p->view[DST];
    RtGrid grid = rt_grid(c, RT_STRIP, RT_STRIP, WIDE, threads);
    Share s = {.rows = grid.rows, .columns = grid.columns};
    int64_t depth = a->columns;
    s.block_columns = rt_evenly(s.columns, WIDE, RT_STRIP);
    int64_t most = PACKED / s.block_columns / RT_STEP * RT_STEP;
    s.deep = rt_evenly(depth, rt_least(most, DEEP), RT_STRIP);
    s.whole = s.deep >= depth;
    int64_t kept = KEPT / s.block_columns / RT_STRIP * RT_STRIP;
    s.block_rows = s.whole ? s.rows : rt_least(s.rows, kept);
    s.group =
        rt_least(a->stride[2] == 1 ? 1 : NEIGHBOURS, s.block_rows / RT_STRIP);
    s.sums = (s.whole ? RT_STRIP : s.block_rows) * s.block_columns;
    return s;
}

static int64_t strips_bytes(const Share *s)
{
    return s->group * s->deep / RT_STEP * RT_STEP_SIZE * 2;
}

static int64_t panel_bytes(const Share *s)
{
    return s->block_columns / RT_STRIP * s->deep / RT_STEP * RT_STEP_SIZE * 2;
}

static int64_t thread_bytes(const Share *s)
{
    return strips_bytes(s) + panel_bytes(s) + s->sums * (int64_t)sizeof(float);
}

int64_t rt_split_scratch(const Plan *p, int threads)
{
    const View *c = &p->view[DST];
    int64_t most = 0;
    for (int n = 1; n <= threads; n++) { /* a run may use fewer threads */
        Share s = share_of(p, n);
        int64_t bytes = thread_bytes(&s) * rt_shares(c, s.rows, s.columns);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static bool has_rows_or_columns(const View *v)
{
    return v->stride[1] == 1 || v->stride[2] == 1;
}

/* Packing an operand pays if the other has enough strips, and if the product
 * of two strips is long enough. From these sizes on, this implementation is
 * 1.1 to 1.7 times as fast as the library. */
bool rt_split_pays(const Plan *p)
{
    enum { LEAST = 128 };
    const double flops = 6e7;
    const View *a = &p->view[SRC], *b = &p->view[WEIGHTS], *c = &p->view[DST];
    int64_t depth = a->columns;
    return p->batch == 1 && c->stride[2] == 1 &&
           has_rows_or_columns(a) && has_rows_or_columns(b) &&
           c->rows >= LEAST && c->columns >= LEAST && depth >= LEAST &&
           2.0 * (double)c->rows * (double)c->columns * (double)depth >=
               flops;
}

#if RT_HAS_TILES

#include <oneapi/dnnl/dnnl.h>

/* ---- the part of one thread ---------------------------------------------- */

typedef struct Work {
    const Share *share;
    const View *a, *b, *c;
    const float *from_a, *from_b; /* the part's first rows and columns */
    int64_t depth;                /* contracted size */
    float *to;
    int64_t rows, columns;
    uint16_t *strips, *panel; /* packed strips of a and of b */
    float *sums;
    bool far;
} Work;

/* A block of the part that is computed at a time. Functions below count rows
 * and columns from the start of the block. */
typedef struct Block {
    int64_t row, rows, column, columns, k, depth;
} Block;

/* Block i, of `across` along columns and `deep` along k. After the last block:
 * an empty one. */
static Block block_at(const Work *w, int64_t i, int64_t across, int64_t deep)
{
    const Share *s = w->share;
    int64_t row = i / (deep * across), column = i / deep % across, k = i % deep;
    Block x = {.row = row * s->block_rows,
               .column = column * s->block_columns,
               .k = k * s->deep};
    if (x.row < w->rows) {
        x.rows = rt_least(s->block_rows, w->rows - x.row);
        x.columns = rt_least(s->block_columns, w->columns - x.column);
        x.depth = rt_least(s->deep, w->depth - x.k);
    }
    return x;
}

/* Packs adjacent strips of a block. If memory is contiguous along the edges,
 * each step of k is packed for all strips before the next step, so rows are
 * read to their end. */
static void pack(const float *from, int64_t along_edges, int64_t along_depth,
                 int64_t edges, int64_t depth, bool pairs, int64_t soon,
                 uint16_t *to)
{
    int64_t strip = rt_pieces(depth, RT_STEP) * RT_STEP_SIZE;
    int64_t deep = along_depth == 1 ? depth : RT_STEP;
    for (int64_t k = 0; k < depth; k += deep, to += RT_STEP_SIZE)
        for (int64_t i = 0; i < edges; i += RT_STRIP)
            rt_split_pack(from + i * along_edges + k * along_depth, along_edges,
                          along_depth, edges - i, rt_least(deep, depth - k),
                          pairs, soon, to + i / RT_STRIP * strip);
}

/* If b is contiguous along k, the next strip is prefetched by software.
 * Otherwise the hardware prefetcher detects the rows. */
static void pack_panel(const Work *w, const Block *x)
{
    const int64_t *s = w->b->stride;
    pack(w->from_b + x->column * s[2] + x->k * s[1], s[2], s[1], x->columns,
         x->depth, true, s[1] == 1 ? RT_STRIP * s[2] : 0, w->panel);
}

static void pack_group(const Work *w, const Block *x, int64_t row, int64_t rows)
{
    const int64_t *s = w->a->stride;
    pack(w->from_a + (x->row + row) * s[1] + x->k * s[2], s[1], s[2], rows,
         x->depth, false, 0, w->strips);
}

/* Prefetch of the group of strips at `row` of the block, if it exists; it is
 * packed next. The prefetch takes `steps` steps of multiplication. */
static RtPrefetch prefetch_of_group(const Work *w, const Block *x, int64_t row,
                                    int64_t steps)
{
    const int64_t *s = w->a->stride;
    int64_t rows = rt_least(w->share->group * RT_STRIP, x->rows - row);
    if (rows <= 0)
        return (RtPrefetch){0};
    const float *at = w->from_a + (x->row + row) * s[1] + x->k * s[2];
    int64_t size = sizeof *at, calls = steps * RT_FETCHES;
    return s[2] == 1 ? rt_prefetch(at, size, s[1], x->depth, rows, calls)
                     : rt_prefetch(at, size, s[2], rows, x->depth, calls);
}

/* Copies the sums of a row from their tiles to the result. `far`: past the
 * cache, in whole cache lines for any alignment of the row. */
static void write_row(const float *sums, int64_t row, int64_t columns,
                      float *to, bool far)
{
    enum { HALF = RT_STRIP / 2, TILE_SUMS = HALF * HALF };
    float line[WIDE];
    const float *from = sums + row / HALF * 2 * TILE_SUMS + row % HALF * HALF;
    int64_t bytes = columns * (int64_t)sizeof *to, at = 0;
    for (int64_t j = 0; j < columns; j += HALF)
        memcpy(line + j,
               from + j / RT_STRIP * RT_SUMS + j / HALF % 2 * TILE_SUMS,
               HALF * sizeof *to);
    if (far) {
        at = rt_stream_head(to, bytes);
        memcpy(to, line, (size_t)at);
        for (; at + RT_FAR_LINE <= bytes; at += RT_FAR_LINE)
            rt_stream_line((char *)to + at, (const char *)line + at);
    }
    memcpy((char *)to + at, (const char *)line + at, (size_t)(bytes - at));
}

/* Multiplies a strip of rows by all columns of the block. */
static void multiply_strip(const Work *w, const Block *x, int64_t row,
                           const uint16_t *strip, RtPrefetch *prefetch)
{
    int64_t steps = rt_pieces(x->depth, RT_STEP);
    bool last = x->k + x->depth == w->depth;
    float *sums =
        w->sums + (w->share->whole ? 0 : row * w->share->block_columns);
    for (int64_t j = 0; j < x->columns; j += RT_STRIP)
        rt_tiles_multiply(strip, w->panel + j / RT_STRIP * steps * RT_STEP_SIZE,
                          steps, sums + j * RT_STRIP, x->k == 0, prefetch);
    int64_t rows = last ? rt_least(RT_STRIP, x->rows - row) : 0;
    float *to = w->to + (x->row + row) * w->c->stride[1] + x->column;
    for (int64_t i = 0; i < rows; i++)
        write_row(sums, i, x->columns, to + i * w->c->stride[1], w->far);
}

/* Computes a block. `next` is the block after it, which is prefetched. */
static void multiply_block(const Work *w, const Block *x, const Block *next)
{
    int64_t group = w->share->group * RT_STRIP;
    int64_t steps = rt_pieces(x->depth, RT_STEP);
    int64_t across = rt_pieces(x->columns, RT_STRIP);
    pack_panel(w, x);
    for (int64_t g = 0; g < x->rows; g += group) {
        int64_t rows = rt_least(group, x->rows - g);
        int64_t during = rt_pieces(rows, RT_STRIP) * across * steps;
        RtPrefetch prefetch = g + group < x->rows
                                  ? prefetch_of_group(w, x, g + group, during)
                                  : prefetch_of_group(w, next, 0, during);
        const uint16_t *strip = w->strips;
        pack_group(w, x, g, rows);
        for (int64_t i = 0; i < rows; i += RT_STRIP) {
            multiply_strip(w, x, g + i, strip, &prefetch);
            strip += steps * RT_STEP_SIZE;
        }
    }
}

static void do_share(const Work *w)
{
    const Share *s = w->share;
    int64_t down = rt_pieces(w->rows, s->block_rows);
    int64_t across = rt_pieces(w->columns, s->block_columns);
    int64_t deep = rt_pieces(w->depth, s->deep);
    Block x = block_at(w, 0, across, deep);
    rt_tiles_open();
    for (int64_t i = 0; i < down * across * deep; i++) {
        Block next = block_at(w, i + 1, across, deep);
        multiply_block(w, &x, &next);
        x = next;
    }
    rt_tiles_close();
    rt_stream_end();
}

/* ---- the product --------------------------------------------------------- */

void rt_split_product(const Plan *p, const void *src, const void *weights,
                      void *dst, void *scratch, int threads)
{
    const View *a = &p->view[SRC], *b = &p->view[WEIGHTS], *c = &p->view[DST];
    Share s = share_of(p, threads);
    int64_t across = rt_pieces(c->columns, s.columns);
    int64_t shares = rt_shares(c, s.rows, s.columns);
    bool far = c->rows * c->columns * (int64_t)sizeof(float) >= RT_FAR;
#pragma omp parallel for schedule(static, 1) num_threads(threads)
    for (int64_t i = 0; i < shares; i++) {
        int64_t row = i / across * s.rows, column = i % across * s.columns;
        char *own_scratch = (char *)scratch + i * thread_bytes(&s);
        Work w = {.share = &s,
                  .a = a,
                  .b = b,
                  .c = c,
                  .far = far,
                  .from_a = (const float *)src + row * a->stride[1],
                  .from_b = (const float *)weights + column * b->stride[2],
                  .depth = a->columns,
                  .to = (float *)dst + row * c->stride[1] + column,
                  .rows = rt_least(s.rows, c->rows - row),
                  .columns = rt_least(s.columns, c->columns - column),
                  .strips = (uint16_t *)(void *)own_scratch,
                  .panel =
                      (uint16_t *)(void *)(own_scratch + strips_bytes(&s))};
        w.sums =
            (float *)(void *)(own_scratch + strips_bytes(&s) + panel_bytes(&s));
        do_share(&w);
    }
}

/* Whether the machine has tiles, oneDNN may use them and the system permits
 * it. */
static bool knows_tiles(void)
{
    unsigned want = dnnl_cpu_isa_avx512_core_amx;
    return ((unsigned)dnnl_get_effective_cpu_isa() & want) == want &&
           rt_tiles_allowed();
}

bool rt_split_takes(const Plan *p)
{
    return rt_split_pays(p) && knows_tiles();
}

#else

bool rt_split_takes(const Plan *p)
{
    (void)p;
    return false;
}

void rt_split_product(const Plan *p, const void *src, const void *weights,
                      void *dst, void *scratch, int threads)
{
    (void)p, (void)src, (void)weights, (void)dst, (void)scratch, (void)threads;
}

#endif
