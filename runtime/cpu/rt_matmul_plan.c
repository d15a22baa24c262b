/* rt_matmul_plan.c: converts a matmul's spec (ParcMatmulSpec) to the form in
 * which the CPU computes it (Plan, rt_matmul.h).
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
