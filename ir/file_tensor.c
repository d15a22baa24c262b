/* file_tensor.c: checks the layouts in which files hold parameters
 * (FileTensor). A dump of the IR may have been edited, and the training program
 * computes addresses in a file from these numbers.
 */
#include <string.h>

#include "ir/ir.h"
#include "ir/path.h"

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

/* Whether each '*' of the name has the number of a stack dim. */
static bool name_fits(const FileTensor *f, const Type *t)
{
    int stars = 0;
    for (const char *c = f->name; c && *c; c++)
        stars += *c == '*';
    for (int i = 0; i < f->nindex; i++)
        if (f->stack[i] < -(f->parts > 1) || f->stack[i] >= t->nstack || f->scale[i] < 1 ||
            f->scale[i] > MAX_INDEX_SCALE || f->offset[i] > MAX_INDEX_OFFSET ||
            f->offset[i] < -MAX_INDEX_OFFSET)
            return false;
    return f->name && stars == f->nindex;
}

bool file_tensor_fits(const FileTensor *f, const Type *t)
{
    int64_t elements = checked_product(f->dim, f->ndim), last = f->first;
    if (f->parts < 1 || (f->parts > 1 && (t->ndim == 0 || t->dim[0] != f->parts)))
        return false;
    if (!name_fits(f, t) || elements == 0 || f->n < 1 || f->first < 0 ||
        f->first >= elements ||
        checked_product(f->size, f->n) != checked_product(t->dim, t->ndim) / f->parts)
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
    const char *text = "", *name = f->name;
    for (int i = 0; i < f->nindex; i++) {
        int n = (int)strcspn(name, "*");
        PathIndex x = {.scale = f->scale[i], .offset = f->offset[i]};
        text = arena_printf(a, "%s%.*s%s", text, n, name, path_index_text(a, x));
        name += n + 1;
    }
    text = arena_printf(a, "%s%s [", text, name);
    for (int d = 0; d < f->ndim; d++)
        text = arena_printf(a, "%s%s%lld", text, d ? ", " : "",
                            (long long)f->dim[d]);
    text = arena_printf(a, "%s]", text);
    if (f->parts > 1)
        text = arena_printf(a, "%s for each of %lld", text, (long long)f->parts);
    bool same = f->n == 1 && f->stride[0] == 1 && f->first == 0;
    if (same)
        return text;
    text = arena_printf(a, "%s, from element %lld:", text, (long long)f->first);
    for (int i = 0; i < f->n; i++)
        text = arena_printf(a, "%s %lld (stride %lld)", text,
                            (long long)f->size[i], (long long)f->stride[i]);
    return text;
}
