/* rt_matmul_plan.c: converts a matmul's spec (ParcMatmulSpec) to the form in
 * which the CPU computes it (Plan, rt_matmul.h), and computes an upper bound of
 * its scratch that does not depend on the machine.
 *
 * The operands are exchanged if that makes the result contiguous by rows, and
 * strides of dims of size 1 get the values that oneDNN reads as a plain layout.
 */
#include "cpu/rt_matmul.h"

static View transposed(View v)
{
    return (View){v.columns,
                  v.rows,
                  {v.stride[0], v.stride[2], v.stride[1]},
                  v.type};
}

/* Sets strides of dims of size 1. They address nothing, but oneDNN derives the
 * layout from them. */
static void tidy(View *v)
{
    int64_t *s = v->stride;
    if (v->columns == 1 && s[1] != 1) {
        s[2] = 1;
        s[1] = v->rows == 1 ? 1 : s[1];
    }
    if (v->rows == 1 && s[2] == 1)
        s[1] = v->columns;
}

Plan rt_plan_of(const ParcMatmulSpec *spec)
{
    const int64_t *sa = spec->sa, *sb = spec->sb, *sc = spec->sc;
    View a = {spec->m, spec->k, {sa[0], sa[1], sa[2]}, spec->type.a};
    View b = {spec->k, spec->n, {sb[0], sb[1], sb[2]}, spec->type.b};
    View c = {spec->m, spec->n, {sc[0], sc[1], sc[2]}, spec->type.c};
    Plan p = {.batch = spec->batch, .loops = 1};
    tidy(&a);
    tidy(&b);
    tidy(&c);
    p.swapped = c.stride[2] != 1;
    p.view[SRC] = p.swapped ? transposed(b) : a;
    p.view[WEIGHTS] = p.swapped ? transposed(a) : b;
    p.view[DST] = p.swapped ? transposed(c) : c;
    return p;
}

Plan rt_plan_one_by_one(const Plan *p)
{
    Plan one = *p;
    one.loops = p->batch;
    one.batch = 1;
    for (int i = 0; i <= DST; i++)
        one.step[i] = p->view[i].stride[0];
    return one;
}

int64_t rt_evenly(int64_t n, int64_t most, int64_t multiple)
{
    return rt_pieces(rt_pieces(n, rt_pieces(n, most)), multiple) * multiple;
}

/* The cost of `rows` by `columns` strips, in units of one product of two
 * strips. Packing a strip costs about two units, and the strips of a are
 * packed once for every `wide` strips of b. */
static int64_t cost_of(int64_t rows, int64_t columns, int64_t wide)
{
    return rows * columns + 2 * (rows * rt_pieces(columns, wide) + columns);
}

RtGrid rt_grid(const View *c, int64_t strip_a, int64_t strip_b, int64_t wide,
               int threads)
{
    int64_t down = rt_pieces(c->rows, strip_a), best = INT64_MAX;
    int64_t across = rt_pieces(c->columns, strip_b);
    RtGrid g = {0};
    for (int over = 1; over <= threads; over++) {
        int64_t rows = rt_pieces(down, over);
        int64_t columns = rt_pieces(across, threads / over);
        int64_t cost = cost_of(rows, columns, wide / strip_b);
        if (threads % over == 0 && cost < best) {
            best = cost;
            g = (RtGrid){rows * strip_a, columns * strip_b};
        }
    }
    return g;
}

bool rt_is_all_f32(const Plan *p)
{
    return p->view[SRC].type == PARC_F32 && p->view[WEIGHTS].type == PARC_F32 &&
           p->view[DST].type == PARC_F32;
}

/* ---- the bound of the scratch --------------------------------------------
 *
 * A program that is compiled for a named instruction set has the same memory
 * plan wherever it is planned. The scratch of its matrix products is therefore
 * not what oneDNN requests on one machine, but a bound for each level:
 *
 *   level               f32                      both operands in bf16
 *   x86-64-v3, aarch64  vector                   vector
 *   x86-64-v4           vector or brg, 704 KiB   vector
 *   amx                 vector, brg or split     vector or brg, 2 MiB
 *
 *   vector  rt_vector_scratch, the exact size for rt_matmul_vector.c
 *   split   rt_split_scratch, the exact size for rt_matmul_split.c
 *   brg     a bound for oneDNN's "brg…" kernels: threads x the smaller of the
 *           cap in the table and
 *           copies x (m k + k n) x size of an element + 4 m n + 4096
 *           bytes, where m, n and k are rounded up to multiples of 64, and
 *           copies is 1 in f32, 2 in bf16. oneDNN 2.6 requests this for most
 *           shapes
 *
 * ensures: the scratch is enough for `vector` in every case. At run time
 *          choose() takes the fastest implementation that fits (rt_matmul.c).
 */

typedef struct Bound {
    int64_t f32, bf16; /* caps of brg in bytes; 0: the level has no brg */
    bool tiles;
} Bound;

static const Bound bound_of[] = {
    [PARC_CPU_X86_64_V3] = {0, 0, false},
    [PARC_CPU_X86_64_V4] = {704 << 10, 0, false},
    [PARC_CPU_AMX] = {704 << 10, 2 << 20, true},
    [PARC_CPU_AARCH64] = {0, 0, false},
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t library_bound(const Plan *p, int threads, const Bound *b)
{
    enum { BLOCK = 64, CONSTANT = 4096 };
    const View *src = &p->view[SRC], *weights = &p->view[WEIGHTS];
    bool f32 = rt_is_all_f32(p);
    bool bf16 = src->type == PARC_BF16 && weights->type == PARC_BF16;
    int64_t most = f32 ? b->f32 : bf16 ? b->bf16 : 0;
    double m = (double)(rt_pieces(src->rows, BLOCK) * BLOCK);
    double k = (double)(rt_pieces(src->columns, BLOCK) * BLOCK);
    double n = (double)(rt_pieces(weights->columns, BLOCK) * BLOCK);
    double copies = (f32 ? 1 : 2) * rt_type_size(src->type);
    double bytes = copies * (m * k + k * n) + 4 * m * n + CONSTANT;
    return threads * (bytes < (double)most ? (int64_t)bytes : most);
}

int64_t rt_matmul_bound(const ParcMatmulSpec *spec, int threads,
                        ParcCpuLevel level)
{
    const Bound *b = &bound_of[level];
    Plan p = rt_plan_of(spec), one = rt_plan_one_by_one(&p);
    int64_t most = larger(rt_vector_scratch(&p, threads),
                          library_bound(&one, threads, b));
    if (b->tiles && rt_is_all_f32(&one) && rt_split_pays(&one))
        most = larger(most, rt_split_scratch(&one, threads));
    return most;
}
