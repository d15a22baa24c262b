/* rt_matmul_gather.c: copies the segments of an operand to one contiguous
 * matrix.
 *
 * A product with segments (Plan.segments) has equal parts of the contracted
 * index at different addresses. rt_matmul_split.c packs tiles from each of
 * them, but oneDNN and rt_matmul_wide.c require one matrix.
 *
 *   2 segments of [k, n]  ->  [2k, n]      2 of [n, k]  ->  [n, 2k]
 */
#include <string.h>

#include "common/type.h"
#include "cpu/rt_matmul.h"

enum { ALIGN = 64, THREADS_FROM = 1 << 16 /* bytes */ };

/* The contracted dim of a view. */
static int summed(int operand)
{
    return operand == SRC ? 2 : 1;
}

static int64_t *extent(View *v, int dim)
{
    return dim == 1 ? &v->rows : &v->columns;
}

/* Whether an operand's rows run along the contracted dim: only if it is not
 * contiguous along the other dim. */
static bool is_along(const View *part, int operand)
{
    return part->stride[3 - summed(operand)] != 1;
}

Plan rt_gathered(const Plan *p)
{
    Plan whole = *p;
    for (int i = SRC; i <= WEIGHTS; i++) {
        View *v = &whole.view[i];
        int k = summed(i), other = 3 - k;
        whole.part[i] = *v;
        *extent(v, k) *= p->segments;
        int inner = is_along(&whole.part[i], i) ? k : other;
        v->stride[3 - inner] = *extent(v, inner);
        v->stride[inner] = 1;
    }
    return whole;
}

int64_t rt_gathered_bytes(const Plan *p, int operand)
{
    const View *v = &p->view[operand];
    int64_t bytes = v->rows * v->columns * rt_type_size(v->type);
    return p->segments > 1 ? (bytes + ALIGN - 1) / ALIGN * ALIGN : 0;
}

int64_t rt_gathered_all(const Plan *p)
{
    return rt_gathered_bytes(p, SRC) + rt_gathered_bytes(p, WEIGHTS);
}

void rt_gather(const Plan *p, int operand, const void *const *from, void *to)
{
    View part = p->part[operand];
    const View *v = &p->view[operand];
    bool along = is_along(&part, operand);
    int line = along ? 3 - summed(operand) : summed(operand);
    int64_t lines = *extent(&part, line), n = *extent(&part, 3 - line);
    int64_t bytes = n * rt_type_size(v->type);
    int64_t segment = along ? n : lines * v->stride[line];
#pragma omp parallel for collapse(2)                                           \
    schedule(static) if (p->segments * lines * bytes > THREADS_FROM)
    for (int64_t j = 0; j < p->segments; j++) {
        for (int64_t i = 0; i < lines; i++)
            memcpy(rt_element_out(v->type, to,
                                  j * segment + i * v->stride[line]),
                   rt_element(v->type, from[j], i * part.stride[line]),
                   (size_t)bytes);
    }
}
