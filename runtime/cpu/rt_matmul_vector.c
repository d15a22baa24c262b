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

#include "cpu/rt_matmul.h"
#include "cpu/rt_prefetch.h"
#include "cpu/rt_vector.h"

enum {
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
    s.grid = rt_grid(c, RT_STRIP_A, RT_MOST_STRIP_B, RT_MOST_EDGES,
                     p->batch < threads ? threads : 1);
    s.deep = rt_evenly(s.depth, RT_MOST_DEPTH, ALIGN);
    int64_t columns = rt_least(s.grid.columns, RT_MOST_EDGES);
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

/* ---- the part of one thread ---------------------------------------------- */

typedef struct Work {
    const Sizes *sizes;
    RtOperand a, b;
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
    const RtOperand *a = &w->a;
    if (x->rows <= 0 || x->depth <= 0)
        return (RtPrefetch){0};
    const void *at = rt_operand_at(a, x->row, x->k);
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
    float whole[RT_STRIP_A * RT_STRIP_B];
    RtTile t = {.k = depth, .a = a, .a_row = 1, .a_column = RT_STRIP_A, .b = b,
                .b_row = RT_STRIP_B, .c = c, .c_row = c_row, .add = add};
    if (rows >= RT_STRIP_A && columns >= RT_STRIP_B) {
        rt_tile_kernel(&t, 0, 0, RT_STRIP_A, 2);
        return;
    }
    rows = rt_least(rows, RT_STRIP_A);
    columns = rt_least(columns, RT_STRIP_B);
    t.c = whole;
    t.c_row = RT_STRIP_B;
    t.add = false;
    rt_tile_kernel(&t, 0, 0, RT_STRIP_A, 2);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            c[i * c_row + j] = whole[i * RT_STRIP_B + j] +
                               (add ? c[i * c_row + j] : 0);
}

/* Multiplies packed rows of a, block x, with the packed columns of b. */
static void multiply_block(const Work *w, const Block *x, RtPrefetch prefetch,
                           float *c, int64_t c_row)
{
    for (int64_t j = 0; j < x->columns; j += RT_STRIP_B)
        for (int64_t i = 0; i < x->rows; i += RT_STRIP_A) {
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
    int64_t strips = rt_pieces(x->columns, RT_STRIP_B);
    rt_pack_b(&w->b, x->column, x->columns, x->k, x->depth, w->packed_b);
    for (int64_t i = x->row; i < x->row + x->rows; i += ROWS) {
        Block some = rows_of(x, i, ROWS), next = rows_of(x, i + ROWS, ROWS);
        if (next.rows <= 0) {
            next = rows_of(x, x->row, ROWS);
            next.k += x->depth;
            next.depth = rt_least(x->depth, w->sizes->depth - next.k);
        }
        int64_t calls = rt_pieces(some.rows, RT_STRIP_A) * strips;
        rt_pack_a(&w->a, i, some.rows, x->k, x->depth, w->packed_a);
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
    for (int64_t j = 0; j < w->columns; j += RT_MOST_EDGES)
        for (int64_t i = 0; i < w->rows; i += most) {
            Block x = {.row = w->row + i,
                       .rows = rt_least(most, w->rows - i),
                       .column = w->column + j,
                       .columns = rt_least(RT_MOST_EDGES, w->columns - j)};
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
