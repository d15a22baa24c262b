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
    Plan p = {.batch = spec->batch, .loops = 1,
              .segments = spec->ranks > 0 ? spec->ranks : 1};
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

bool rt_is_all_f32(const Plan *p)
{
    return p->view[SRC].type == PARC_F32 && p->view[WEIGHTS].type == PARC_F32 &&
           p->view[DST].type == PARC_F32;
}
