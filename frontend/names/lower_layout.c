/* lower_layout.c: computes how a tensor of a file holds a parameter, from the
 * layouts of a line of `names hf`.
 *
 * Layouts are applied from the parameter to the file, from left to right. The
 * row-major index of the parameter is a number in mixed radix: one digit for
 * each dim, or several after rotary. Layouts only reorder these digits, so the
 * result is one stride for each digit:
 *
 *   each            [n, …] -> n tensors […], one for each element of dim 0
 *   transpose       [out, in] -> [in, out]; no effect on a parameter of one dim
 *   rotary(heads)   reorders the d rows of each head from the pairs
 *                   (2i, 2i + 1) of rope's default style to the pairs
 *                   (i, i + d/2)
 *   concat(dim)     joins the parameters of the line
 *
 *   [q, k] -> qk: transpose, concat(-1) with q, k: [8, 4]
 *   k: tensor [4, 16], sizes {8, 4}, strides {1, 16}, first 8
 */
#include <string.h>

#include "frontend/names/names.h"

/* A tensor whose dims are lists of digits, the last of which varies fastest.
 * size[] has the radix of each digit. Digits are numbered in the order of the
 * parameter's index. */
typedef struct Shape {
    int ndim, ndigits;
    struct {
        int n, digit[MAX_FILE_DIGITS];
    } dim[MAX_DIMS];
    int64_t size[MAX_FILE_DIGITS];
    int64_t parts; /* tensors, each of this shape */
} Shape;

static Shape shape_of(const Param *p)
{
    Type t = param_shape(p);
    Shape s = {.ndim = t.ndim, .ndigits = t.ndim, .parts = 1};
    for (int d = 0; d < t.ndim; d++) {
        s.dim[d].n = 1;
        s.dim[d].digit[0] = d;
        s.size[d] = t.dim[d];
    }
    return s;
}

static int64_t dim_size(const Shape *s, int d)
{
    int64_t n = 1;
    for (int i = 0; i < s->dim[d].n; i++)
        n *= s->size[s->dim[d].digit[i]];
    return n;
}

/* Makes a tensor of each element of dim 0. */
static bool each(Lower *l, const Expr *e, const Param *p, Shape *s)
{
    if (s->ndim == 0)
        return lower_error(l, e->range, NULL, "'%s' has no dims", p->name);
    s->parts = s->size[0];
    s->ndim--;
    s->ndigits--;
    for (int d = 0; d < s->ndim; d++) {
        s->size[d] = s->size[d + 1];
        s->dim[d].digit[0] = d;
    }
    return true;
}

static void transpose(Shape *s)
{
    if (s->ndim < 2)
        return;
    Shape was = *s;
    s->dim[s->ndim - 1] = was.dim[s->ndim - 2];
    s->dim[s->ndim - 2] = was.dim[s->ndim - 1];
}

/* Replaces a digit by three digits of these sizes, numbered from it on. Updates
 * the numbers of later digits; the caller updates the digit's own dim. */
static void split_digit(Shape *s, int digit, const int64_t size[3])
{
    for (int d = 0; d < s->ndim; d++)
        for (int i = 0; i < s->dim[d].n; i++)
            if (s->dim[d].digit[i] > digit)
                s->dim[d].digit[i] += 2;
    memmove(s->size + digit + 3, s->size + digit + 1,
            sizeof s->size[0] * (size_t)(s->ndigits - digit - 1));
    memcpy(s->size + digit, size, sizeof s->size[0] * 3);
    s->ndigits += 2;
}

static bool rotary(Lower *l, const Expr *e, const Param *p, Shape *s)
{
    int64_t heads;
    if (!lower_size(l, e->arg[0].value, "the number of heads", &heads))
        return false;
    int64_t rows = s->ndim ? dim_size(s, 0) : 0;
    if (rows == 0 || s->dim[0].n > 1)
        return lower_error(l, e->range, NULL, "'rotary' reorders the rows of a "
                           "parameter once; '%s' has no such rows", p->name);
    if (rows % (2 * heads) != 0)
        return lower_error(l, e->range, NULL,
                           "the %lld rows of '%s' are not %lld heads of even "
                           "size", (long long)rows, p->name, (long long)heads);
    int f = s->dim[0].digit[0];
    const int64_t size[] = {heads, rows / heads / 2, 2};
    split_digit(s, f, size);
    s->dim[0].n = 3;
    s->dim[0].digit[0] = f;
    s->dim[0].digit[1] = f + 2;
    s->dim[0].digit[2] = f + 1;
    return true;
}

/* The dim of concat(dim); negative numbers count from the end. */
static bool concat_dim(Lower *l, const Expr *e, const Param *p, const Shape *s,
                       int *dim)
{
    int64_t d;
    if (!lower_int(l, e->arg[0].value, "the dim", &d))
        return false;
    if (d < -s->ndim || d >= s->ndim)
        return lower_error(l, e->range, NULL,
                           "'%s' has %d dims: there is no dim %lld", p->name,
                           s->ndim, (long long)d);
    *dim = (int)(d < 0 ? d + s->ndim : d);
    return true;
}

/* Applies the item's layouts to a parameter; *joined: the dim of concat,
 * unchanged if the item has none. */
static bool apply(Lower *l, const NameItem *item, const Param *p, Shape *s,
                  int *joined)
{
    *s = shape_of(p);
    for (int i = 0; i < item->nlayouts; i++) {
        const Expr *e = item->layout[i];
        if (strcmp(e->name, "each") == 0 && !each(l, e, p, s))
            return false;
        if (strcmp(e->name, "transpose") == 0)
            transpose(s);
        else if (strcmp(e->name, "rotary") == 0 && !rotary(l, e, p, s))
            return false;
        else if (strcmp(e->name, "concat") == 0 &&
                 !concat_dim(l, e, p, s, joined))
            return false;
    }
    return true;
}

/* Writes strides and shape; dim `joined` of the tensor has the size `total`,
 * and the parameter begins at index `begin` of it. Merges adjacent digits that
 * one stride describes. */
static void fill(const Shape *s, int joined, int64_t total, int64_t begin,
                 FileTensor *to)
{
    int64_t stride = 1, by_digit[MAX_FILE_DIGITS] = {0};
    to->ndim = s->ndim;
    to->parts = s->parts;
    for (int d = s->ndim - 1; d >= 0; d--) {
        int64_t dim_stride = stride;
        to->dim[d] = d == joined ? total : dim_size(s, d);
        to->first += d == joined ? begin * dim_stride : 0;
        for (int i = s->dim[d].n - 1; i >= 0; i--) {
            by_digit[s->dim[d].digit[i]] = stride;
            stride *= s->size[s->dim[d].digit[i]];
        }
        stride = dim_stride * to->dim[d];
    }
    for (int i = 0; i < s->ndigits; i++) {
        bool merges = to->n > 0 &&
                      to->stride[to->n - 1] == s->size[i] * by_digit[i];
        if (s->size[i] == 1)
            continue;
        if (!merges)
            to->size[to->n++] = 1;
        to->size[to->n - 1] *= s->size[i];
        to->stride[to->n - 1] = by_digit[i];
    }
    if (to->n == 0)
        to->size[to->n++] = to->stride[0] = 1;
}

/* Whether two parts of a tensor agree in all dims except `joined`. */
static bool parts_fit(const Shape *a, const Shape *b, int joined)
{
    bool fits = a->ndim == b->ndim && a->parts == b->parts;
    for (int d = 0; fits && d < a->ndim; d++)
        fits = d == joined || dim_size(a, d) == dim_size(b, d);
    return fits;
}

bool lower_layouts(Lower *l, const NameItem *item, const Param *const *part,
                   int n, int index, FileTensor *to)
{
    Shape shape, other;
    int joined = -1, dim = -1;
    int64_t total = 0, begin = 0;
    if (!apply(l, item, part[index], &shape, &joined))
        return false;
    for (int i = 0; i < n && joined >= 0; i++) {
        if (!apply(l, item, part[i], &other, &dim))
            return false;
        if (!parts_fit(&shape, &other, joined))
            return lower_error(l, item->loc, NULL,
                               "'%s' and '%s' cannot be joined: their shapes "
                               "differ in a dim other than %d",
                               part[index]->name, part[i]->name, joined);
        begin += i < index ? dim_size(&other, joined) : 0;
        total += dim_size(&other, joined);
    }
    fill(&shape, joined, total, begin, to);
    return true;
}
