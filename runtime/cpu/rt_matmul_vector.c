/* rt_matmul_vector.c: computes matrix products in f32 with the CPU's vectors,
 * for operands of any float type and any strides.
 *
 * It is used where oneDNN has no fast kernel: for f32 without AVX-512, and for
 * element types without instructions on this machine.
 *
 * Every thread has its own rows and columns of c. Blocks have the size of a
 * core's caches (K. Goto and R. van de Geijn, Anatomy of High-Performance
 * Matrix Multiplication, ACM TOMS 34, 2008):
 *
 *   for columns of c                     at most 512
 *     for rows of c                      all; of a 16-bit result at most 480,
 *                                        whose sums wait in a buffer
 *       for pieces of k                  at most 384
 *         pack b's columns               at most 768 KiB, in the L2 or L3 cache
 *         for rows of these rows         at most 96
 *           pack a's rows                at most 144 KiB, in the L2 cache
 *           for strips of b, for strips of a: sums in registers
 *
 * The pieces of k depend on its size alone, so the bits of a sum do not depend
 * on the number of threads.
 */
#include <omp.h>
#include <stddef.h>
#include <string.h>

#include "cpu/rt_matmul.h"
#include "cpu/rt_prefetch.h"
#include "cpu/rt_tile.h"

enum {
    STRIP_A = RT_TILE_ROWS,
    STRIP_B = 2 * RT_LANES,
    MOST_STRIP_B = 32, /* the largest of all instruction sets */
    MOST_EDGES = 512,  /* edges and contracted indices of a packed block */
    MOST_DEPTH = 384,
    FOUR = 4,
    ROWS = 96,    /* rows of a that are packed at a time */
    SUMMED = 5 * ROWS, /* rows of a 16-bit result that are summed at a time;
                        * whole strips, so that all tiles add in one order */
    ALIGN = 16,   /* floats in a cache line */
    FLOPS_PER_THREAD = 1 << 16, /* below, a thread costs more than it saves */
};

/* Sizes of the blocks of a product, the same for all threads. */
typedef struct Sizes {
    RtGrid grid;
    int64_t depth, deep;               /* of k; of a piece of k */
    int64_t packed_a, packed_b, sums;  /* floats of a thread's buffers */
} Sizes;

static int64_t aligned(int64_t floats)
{
    return rt_pieces(floats, ALIGN) * ALIGN;
}

/* The sizes do not depend on the instruction set: parc plans the scratch. */
static Sizes sizes_of(const Plan *p, int threads)
{
    const View *c = &p->view[DST];
    Sizes s = {.depth = p->view[SRC].columns};
    s.grid = rt_grid(c, STRIP_A, MOST_STRIP_B, MOST_EDGES,
                     p->batch < threads ? threads : 1);
    s.deep = rt_evenly(s.depth, MOST_DEPTH, ALIGN);
    int64_t columns = rt_least(s.grid.columns, MOST_EDGES);
    s.packed_a = aligned(rt_least(s.grid.rows, ROWS) * s.deep);
    s.packed_b = aligned(columns * s.deep);
    if (c->type != PARC_F32)
        s.sums = aligned(rt_least(s.grid.rows, SUMMED) * columns);
    return s;
}

static int64_t thread_floats(const Sizes *s)
{
    return s->packed_a + s->packed_b + s->sums;
}

/* The number of parts of all products, and of threads that compute them. */
static int64_t parts_of(const Plan *p, const Sizes *s)
{
    return p->batch * rt_shares(&p->view[DST], s->grid.rows, s->grid.columns);
}

int64_t rt_vector_scratch(const Plan *p, int threads)
{
    int64_t most = 0;
    for (int n = 1; n <= threads; n++) { /* a run may use fewer threads */
        Sizes s = sizes_of(p, n);
        int64_t floats = thread_floats(&s) * rt_least(n, parts_of(p, &s));
        most = floats > most ? floats : most;
    }
    return most * (int64_t)sizeof(float);
}

int64_t rt_vector_most_scratch(const Plan *p, int threads)
{
    const View *c = &p->view[DST];
    int64_t deep = rt_least(aligned(p->view[SRC].columns), MOST_DEPTH);
    int64_t columns = rt_least(rt_pieces(c->columns, MOST_STRIP_B) * MOST_STRIP_B, MOST_EDGES);
    Sizes s = {.packed_a = ROWS * deep, .packed_b = columns * deep};
    if (c->type != PARC_F32)
        s.sums = SUMMED * columns;
    return threads * thread_floats(&s) * (int64_t)sizeof(float);
}

/* ---- packing -------------------------------------------------------------
 *
 * A strip is STRIP_A rows of a or STRIP_B columns of b, its edges. Packed, it
 * holds the edges of one contracted index after another:
 *
 *   a, row-major, edges = rows            packed, with strips of two edges
 *     a00 a01 a02                           a00 a10  a01 a11  a02 a12
 *     a10 a11 a12
 *
 * If memory is contiguous along the edges, a line of edges is copied to all
 * strips, so whole cache lines are read. Otherwise four edges at a time are
 * transposed. Elements in 16 bits are widened line by line. */

/* One operand of a product. Element (edge, k) has the index edge * along_edges +
 * k * along_depth. */
typedef struct Operand {
    const void *at;
    ParcType type;
    int64_t along_edges, along_depth;
} Operand;

/* The address of an element. */
static inline const void *operand_at(const Operand *x, int64_t edge, int64_t k)
{
    return rt_element(x->type, x->at,
                      edge * x->along_edges + k * x->along_depth);
}

static const float zeros[MOST_DEPTH];

/* n elements that are `stride` apart, as contiguous floats. */
static const float *line_of(ParcType type, const void *at, int64_t stride,
                            int64_t n, float *scratch)
{
    if (stride == 1)
        return rt_as_floats(type, at, n, scratch);
    for (int64_t i = 0; i < n; i++)
        rt_widen(scratch + i, type, rt_element(type, at, i * stride), 1);
    return scratch;
}

/* Store to[k * strip + i] = line[i][k] for two or four lines. */
__attribute__((always_inline)) static inline void
transpose_two(const float *const line[FOUR], int64_t n, int strip, float *to)
{
    enum { TWO = 2 * sizeof *to };
    int64_t k = 0;
    for (; k + FOUR <= n; k += FOUR, to += FOUR * strip) {
        RtFour a = rt_load_four(line[0] + k), b = rt_load_four(line[1] + k);
        RtFour first = RT_PICK(a, b, 0, 4, 1, 5);
        RtFour last = RT_PICK(a, b, 2, 6, 3, 7);
        memcpy(to, &first, TWO);
        memcpy(to + strip, (const char *)&first + TWO, TWO);
        memcpy(to + 2 * strip, &last, TWO);
        memcpy(to + 3 * strip, (const char *)&last + TWO, TWO);
    }
    for (; k < n; k++, to += strip) {
        to[0] = line[0][k];
        to[1] = line[1][k];
    }
}

__attribute__((always_inline)) static inline void
transpose_four(const float *const line[FOUR], int64_t n, int strip, float *to)
{
    int64_t k = 0;
    for (; k + FOUR <= n; k += FOUR)
        rt_transpose_four(to + k * strip, strip, line, k);
    for (; k < n; k++)
        for (int i = 0; i < FOUR; i++)
            to[k * strip + i] = line[i][k];
}

/* Callers pass constants for `strip`. */
__attribute__((always_inline)) static inline void
pack_columns(const Operand *x, const void *at, int64_t edges, int64_t n,
             int strip, float *to)
{
    float scratch[FOUR][MOST_DEPTH];
    for (int64_t s = 0; s < edges; s += strip, to += n * strip) {
#pragma GCC unroll 8
        for (int e = 0; e < strip; e += FOUR) {
            const float *line[FOUR];
            for (int i = 0; i < FOUR; i++) {
                bool exists = e + i < strip && s + e + i < edges;
                int64_t from = exists ? (s + e + i) * x->along_edges : 0;
                line[i] = !exists
                              ? zeros
                              : line_of(x->type, rt_element(x->type, at, from),
                                        x->along_depth, n, scratch[i]);
            }
            if (strip - e < FOUR)
                transpose_two(line, n, strip, to + e);
            else
                transpose_four(line, n, strip, to + e);
        }
    }
}

__attribute__((always_inline)) static inline void
pack_lines(const Operand *x, const void *at, int64_t edges, int64_t n,
           int strip, float *to)
{
    float scratch[MOST_EDGES];
    for (int64_t k = 0; k < n; k++, to += strip) {
        const void *from = rt_element(x->type, at, k * x->along_depth);
        const float *line = rt_as_floats(x->type, from, edges, scratch);
        float *strips = to;
        int64_t e = 0;
        for (; e + strip <= edges; e += strip, strips += n * strip)
            memcpy(strips, line + e, (size_t)strip * sizeof *to);
        for (int i = 0; e < edges && i < strip; i++)
            strips[i] = e + i < edges ? line[e + i] : 0;
    }
}

/* Packs edges [edge, edge + edges) by contracted indices [k, k + depth) as
 * strips. Edges that the last strip lacks are 0. `to` has whole strips of
 * `depth` indices. */
__attribute__((always_inline)) static inline void
pack(const Operand *x, int64_t edge, int64_t edges, int64_t k, int64_t depth,
     int strip, float *to)
{
    const void *at = operand_at(x, edge, k);
    if (x->along_edges == 1)
        pack_lines(x, at, edges, depth, strip, to);
    else
        pack_columns(x, at, edges, depth, strip, to);
}

/* ---- the part of one thread ---------------------------------------------- */

typedef struct Work {
    const Sizes *sizes;
    Operand a, b;
    ParcType type; /* of c */
    void *c;
    int64_t c_row;
    int64_t row, rows, column, columns; /* the part of c */
    float *packed_a, *packed_b, *sums;
} Work;

/* Rows by columns of c, and a piece of k. */
typedef struct Block {
    int64_t row, rows, column, columns, k, depth;
} Block;

/* The block of `rows` at `row`, or an empty one after the last row. */
static Block rows_of(const Block *x, int64_t row, int64_t most)
{
    Block some = *x;
    some.row = row;
    some.rows = rt_least(most, x->row + x->rows - row);
    return some;
}

/* Prefetch of the rows of a that are packed after `x`, within `calls` calls. */
static RtPrefetch prefetch_of(const Work *w, const Block *x, int64_t calls)
{
    const Operand *a = &w->a;
    if (x->rows <= 0 || x->depth <= 0)
        return (RtPrefetch){0};
    const void *at = operand_at(a, x->row, x->k);
    int64_t size = rt_type_size(a->type);
    return a->along_edges == 1
               ? rt_prefetch(at, size, a->along_depth, x->rows, x->depth, calls)
               : rt_prefetch(at, size, a->along_edges, x->depth, x->rows,
                             calls);
}

/* c (+)= the product of two strips. A tile at the edge of c, of `rows` by
 * `columns`, is computed whole and copied in part. */
static void multiply_strips(const float *a, const float *b, int64_t depth,
                            bool add, float *c, int64_t c_row, int64_t rows,
                            int64_t columns)
{
    float whole[STRIP_A * STRIP_B];
    RtTile t = {.k = depth, .a = a, .a_row = 1, .a_column = STRIP_A, .b = b,
                .b_row = STRIP_B, .c = c, .c_row = c_row, .add = add};
    if (rows >= STRIP_A && columns >= STRIP_B) {
        rt_tile_kernel(&t, 0, 0, STRIP_A, 2);
        return;
    }
    rows = rt_least(rows, STRIP_A);
    columns = rt_least(columns, STRIP_B);
    t.c = whole;
    t.c_row = STRIP_B;
    t.add = false;
    rt_tile_kernel(&t, 0, 0, STRIP_A, 2);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            c[i * c_row + j] = whole[i * STRIP_B + j] +
                               (add ? c[i * c_row + j] : 0);
}

/* Multiplies packed rows of a, block x, with the packed columns of b. */
static void multiply_block(const Work *w, const Block *x, RtPrefetch prefetch,
                           float *c, int64_t c_row)
{
    for (int64_t j = 0; j < x->columns; j += STRIP_B)
        for (int64_t i = 0; i < x->rows; i += STRIP_A) {
            rt_prefetch_next(&prefetch);
            multiply_strips(w->packed_a + i * x->depth,
                            w->packed_b + j * x->depth, x->depth, x->k > 0,
                            c + i * c_row + j, c_row, x->rows - i,
                            x->columns - j);
        }
}

/* Adds a piece of k to the sums of block x, at c. */
static void add_piece(const Work *w, const Block *x, float *c, int64_t c_row)
{
    int64_t strips = rt_pieces(x->columns, STRIP_B);
    pack(&w->b, x->column, x->columns, x->k, x->depth, STRIP_B, w->packed_b);
    for (int64_t i = x->row; i < x->row + x->rows; i += ROWS) {
        Block some = rows_of(x, i, ROWS), next = rows_of(x, i + ROWS, ROWS);
        if (next.rows <= 0) {
            next = rows_of(x, x->row, ROWS);
            next.k += x->depth;
            next.depth = rt_least(x->depth, w->sizes->depth - next.k);
        }
        int64_t calls = rt_pieces(some.rows, STRIP_A) * strips;
        pack(&w->a, i, some.rows, x->k, x->depth, STRIP_A, w->packed_a);
        multiply_block(w, &some, prefetch_of(w, &next, calls),
                       c + (i - x->row) * c_row, c_row);
    }
}

/* Computes block x of c over all of k. */
static void compute_block(const Work *w, Block *x)
{
    bool direct = w->type == PARC_F32;
    int64_t at = x->row * w->c_row + x->column;
    int64_t line = direct ? w->c_row : x->columns;
    float *c = direct ? (float *)w->c + at : w->sums;
    for (x->k = 0; x->k < w->sizes->depth; x->k += x->depth) {
        x->depth = rt_least(w->sizes->deep, w->sizes->depth - x->k);
        add_piece(w, x, c, line);
    }
    for (int64_t i = 0; i < x->rows && !direct; i++)
        rt_narrow(w->type, rt_element_out(w->type, w->c, at + i * w->c_row),
                  w->sums + i * line, x->columns);
}

static void compute_part(const Work *w)
{
    int64_t most = w->type == PARC_F32 ? w->rows : SUMMED;
    for (int64_t j = 0; j < w->columns; j += MOST_EDGES)
        for (int64_t i = 0; i < w->rows; i += most) {
            Block x = {.row = w->row + i,
                       .rows = rt_least(most, w->rows - i),
                       .column = w->column + j,
                       .columns = rt_least(MOST_EDGES, w->columns - j)};
            compute_block(w, &x);
        }
}

/* ---- the product --------------------------------------------------------- */

/* Part i of all products; the thread has scratch at `own_scratch`. */
static void multiply_part(const Plan *p, const Sizes *s, int64_t i,
                          const void *src, const void *weights, void *dst,
                          float *own_scratch)
{
    const View *a = &p->view[SRC], *b = &p->view[WEIGHTS], *c = &p->view[DST];
    int64_t of = parts_of(p, s) / p->batch, which = i / of;
    int64_t across = rt_pieces(c->columns, s->grid.columns);
    Work w = {
        .sizes = s,
        .a = {rt_element(a->type, src, which * a->stride[0]), a->type,
              a->stride[1], a->stride[2]},
        .b = {rt_element(b->type, weights, which * b->stride[0]), b->type,
              b->stride[2], b->stride[1]},
        .type = c->type,
        .c = rt_element_out(c->type, dst, which * c->stride[0]),
        .c_row = c->stride[1],
        .row = i % of / across * s->grid.rows,
        .column = i % of % across * s->grid.columns,
        .packed_a = own_scratch,
        .packed_b = own_scratch + s->packed_a,
        .sums = own_scratch + s->packed_a + s->packed_b,
    };
    w.rows = rt_least(s->grid.rows, c->rows - w.row);
    w.columns = rt_least(s->grid.columns, c->columns - w.column);
    compute_part(&w);
}

void rt_vector_product(const Plan *p, const void *src, const void *weights,
                       void *dst, void *scratch, int threads)
{
    const View *c = &p->view[DST];
    Sizes s = sizes_of(p, threads);
    int64_t parts = parts_of(p, &s);
    double flops = 2.0 * (double)(p->batch * c->rows) * (double)c->columns *
                   (double)s.depth;
    bool many = flops >= FLOPS_PER_THREAD && parts > 1;
#pragma omp parallel for schedule(static) num_threads(threads) if (many)
    for (int64_t i = 0; i < parts; i++) {
        float *own_scratch =
            (float *)scratch + omp_get_thread_num() * thread_floats(&s);
        multiply_part(p, &s, i, src, weights, dst, own_scratch);
    }
}
