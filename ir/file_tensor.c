/* file_tensor.c: checks the layouts in which files hold parameters
 * (FileTensor). A dump of the IR may have been edited, and the training program
 * computes addresses in a file from these numbers.
 */
#include "ir/ir.h"

/* The product of sizes; 0 if one is below 1 or the product is too large. */
static int64_t checked_product(const int64_t *size, int n)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++) {
        if (size[i] < 1 || all > (INT64_C(1) << MAX_ELEMENTS_LOG2) / size[i])
            return 0;
        all *= size[i];
    }
    return all;
}

bool file_tensor_fits(const FileTensor *f, const Type *t)
{
    int64_t elements = checked_product(f->dim, f->ndim), last = f->first;
    if (elements == 0 || f->n < 1 || f->first < 0 || f->first >= elements ||
        checked_product(f->size, f->n) != checked_product(t->dim, t->ndim))
        return false;
    for (int i = 0; i < f->n; i++) {
        if (f->stride[i] < 0 || (f->size[i] > 1 && f->stride[i] >
                                 (elements - 1 - last) / (f->size[i] - 1)))
            return false;
        last += f->stride[i] * (f->size[i] - 1);
    }
    return true;
}

const char *file_tensor_text(Arena *a, const FileTensor *f)
{
    const char *text = " [";
    for (int d = 0; d < f->ndim; d++)
        text = arena_printf(a, "%s%s%lld", text, d ? ", " : "",
                            (long long)f->dim[d]);
    text = arena_printf(a, "%s]", text);
    bool same = f->n == 1 && f->stride[0] == 1 && f->first == 0;
    if (same)
        return text;
    text = arena_printf(a, "%s, from element %lld:", text, (long long)f->first);
    for (int i = 0; i < f->n; i++)
        text = arena_printf(a, "%s %lld (stride %lld)", text,
                            (long long)f->size[i], (long long)f->stride[i]);
    return text;
}
