/* interp_index.c: evaluates constants, shape ops, embedding, one-hot and rotary
 * on one rank's part.
 *
 * Sizes in attributes are global; loops here run over the rank's part. Ops that
 * use a global index (iota, embedding, onehot) read the beginning of the rank's
 * part from their base operand, if they have one.
 */
#include "tests/interp/interp_impl.h"

#include <math.h>
#include <string.h>

/* The base operand after the op's own operands; 0 without one. */
static double base_of(Interp *in, const Op *op, int own, int64_t rank)
{
    return op->nargs > own ? interp_local(in, op->arg[own], rank).at[0] : 0;
}

void interp_full(Interp *in, const Op *op, int64_t rank)
{
    Local out = interp_local(in, op->out[0], rank);
    double value = attr_value(op);
    for (int64_t i = 0; i < out.shape->n; i++)
        out.at[i] = value;
}

void interp_zeros(Interp *in, const Op *op, int64_t rank)
{
    Local out = interp_local(in, op->out[0], rank);
    memset(out.at, 0, sizeof *out.at * (size_t)out.shape->n);
}

void interp_iota(Interp *in, const Op *op, int64_t rank)
{
    Local out = interp_local(in, op->out[0], rank);
    double base = base_of(in, op, 0, rank);
    for (int64_t i = 0; i < out.shape->n; i++)
        out.at[i] = base + (double)i;
}

/* i64[iterations x parts]: numbered through all iterations, part k of `size`
 * elements begins at k * size / (iterations * parts). */
void interp_base(Interp *in, const Op *op, int64_t rank)
{
    const Value *v = op->out[0];
    Local out = interp_local(in, v, rank);
    int64_t part = attr_size(op) / type_elements(&v->type);
    int64_t held = type_local_dim(&v->type, &in->mesh, 0);
    for (int64_t i = 0; i < out.shape->n; i++)
        out.at[i] = (double)(
            (i / held * v->type.dim[0] +
             type_local_index(&v->type, &in->mesh, 0, rank, i % held)) * part);
}

/* A rank's part of a reshaped tensor is the reshaped part of the tensor: the
 * sharding rule only splits factors for which that holds. */
void interp_reshape(Interp *in, const Op *op, int64_t rank)
{
    Local a = interp_local(in, op->arg[0], rank);
    Local out = interp_local(in, op->out[0], rank);
    if (a.shape->n != out.shape->n)
        interp_fail(in, op, "a rank's parts differ in size");
    else
        memcpy(out.at, a.at, sizeof *a.at * (size_t)a.shape->n);
}

void interp_transpose(Interp *in, const Op *op, int64_t rank)
{
    Local a = interp_local(in, op->arg[0], rank);
    Local out = interp_local(in, op->out[0], rank);
    const AttrList perm = *attr_perm(op);
    int64_t stride[MAX_SHAPE];
    interp_strides(a.shape, stride);
    Walk w;
    int nstack = out.shape->nstack;
    interp_walk_start(&w, nstack + out.shape->ndim, out.shape->dim, 1);
    for (int d = 0; d < nstack; d++)
        w.stride[0][d] = stride[d];
    for (int d = 0; d < out.shape->ndim; d++)
        w.stride[0][nstack + d] = stride[nstack + perm.v[d]];
    for (int64_t at = 0; w.left > 0; at++, interp_walk_next(&w))
        out.at[at] = a.at[w.at[0]];
}

/* Copies `count` indices of one dim, from `from_start` of the source to
 * `to_start` of the destination. The other dims are equal. */
static void copy_block(Interp *in, const Op *op, Local from, int64_t from_start,
                       Local to, int64_t to_start, int64_t count, int dim)
{
    int nd = from.shape->nstack + from.shape->ndim;
    int at = from.shape->nstack + dim;
    if (to.shape->nstack + to.shape->ndim != nd ||
        from_start + count > from.shape->dim[at] ||
        to_start + count > to.shape->dim[at]) {
        interp_fail(in, op, "the range is not within a rank's part");
        return;
    }
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < nd; d++) {
        if (d != at && from.shape->dim[d] != to.shape->dim[d])
            interp_fail(in, op, "a rank's parts differ in dim %d", d);
        *(d < at ? &outer : &inner) *= d == at ? 1 : from.shape->dim[d];
    }
    for (int64_t o = 0; o < outer && !in->error; o++)
        memcpy(to.at + (o * to.shape->dim[at] + to_start) * inner,
               from.at + (o * from.shape->dim[at] + from_start) * inner,
               sizeof *to.at * (size_t)(count * inner));
}

void interp_slice(Interp *in, const Op *op, int64_t rank)
{
    copy_block(in, op, interp_local(in, op->arg[0], rank),
               attr_start(op), interp_local(in, op->out[0], rank), 0,
               attr_size(op), attr_dim(op));
}

void interp_pad(Interp *in, const Op *op, int64_t rank)
{
    Local a = interp_local(in, op->arg[0], rank);
    int dim = attr_dim(op);
    copy_block(in, op, a, 0, interp_local(in, op->out[0], rank),
               attr_before(op), a.shape->dim[a.shape->nstack + dim],
               dim);
}

void interp_concat(Interp *in, const Op *op, int64_t rank)
{
    int dim = attr_dim(op);
    Local out = interp_local(in, op->out[0], rank);
    int64_t start = 0;
    for (int i = 0; i < op->nargs; i++) {
        Local a = interp_local(in, op->arg[i], rank);
        int64_t count = a.shape->dim[a.shape->nstack + dim];
        copy_block(in, op, a, 0, out, start, count, dim);
        start += count;
    }
}

/* The row of the rank's part for an id; -1: another rank's row. */
static int64_t row_of(Interp *in, const Op *op, double id, double base,
                      int64_t rows, bool has_base)
{
    int64_t row = (int64_t)id - (int64_t)base;
    if (row >= 0 && row < rows)
        return row;
    if (!has_base && !isnan(id)) /* NaN: computed, on a rank of another stage */
        interp_fail(in, op, "index %g of a table of %lld rows", id,
                    (long long)rows);
    return -1;
}

void interp_embedding(Interp *in, const Op *op, int64_t rank)
{
    Local table = interp_local(in, op->arg[0], rank);
    Local ids = interp_local(in, op->arg[1], rank);
    Local out = interp_local(in, op->out[0], rank);
    double base = base_of(in, op, 2, rank);
    int64_t width = table.shape->dim[1];
    for (int64_t i = 0; i < ids.shape->n; i++) {
        int64_t row =
            row_of(in, op, ids.at[i], base, table.shape->dim[0], op->nargs > 2);
        for (int64_t j = 0; row >= 0 && j < width; j++)
            out.at[i * width + j] = table.at[row * width + j];
    }
}

/* dy and ids are operands `first` and `first` + 1. */
static void add_rows(Interp *in, const Op *op, int first, int64_t rank)
{
    Local dy = interp_local(in, op->arg[first], rank);
    Local ids = interp_local(in, op->arg[first + 1], rank);
    Local out = interp_local(in, op->out[0], rank);
    double base = base_of(in, op, first + 2, rank);
    int64_t width = out.shape->dim[1];
    for (int64_t i = 0; i < ids.shape->n; i++) {
        int64_t row = row_of(in, op, ids.at[i], base, out.shape->dim[0],
                             op->nargs > first + 2);
        for (int64_t j = 0; row >= 0 && j < width; j++)
            out.at[row * width + j] += dy.at[i * width + j];
    }
}

void interp_embedding_grad(Interp *in, const Op *op, int64_t rank)
{
    add_rows(in, op, 0, rank);
}

void interp_embedding_add(Interp *in, const Op *op, int64_t rank)
{
    Local x = interp_local(in, op->arg[0], rank);
    Local out = interp_local(in, op->out[0], rank);
    for (int64_t i = 0; i < out.shape->n; i++)
        out.at[i] = x.at[i];
    add_rows(in, op, 1, rank);
}

void interp_onehot(Interp *in, const Op *op, int64_t rank)
{
    Local ids = interp_local(in, op->arg[0], rank);
    Local out = interp_local(in, op->out[0], rank);
    double base = base_of(in, op, 1, rank);
    int64_t n = out.shape->dim[out.shape->nstack + out.shape->ndim - 1];
    for (int64_t i = 0; i < ids.shape->n; i++) {
        int64_t row = row_of(in, op, ids.at[i], base, n, op->nargs > 1);
        if (row >= 0)
            out.at[i * n + row] = 1;
    }
}

/* Whether x is before y in the order of topk; NaN is above all numbers. */
static bool is_first(double x, double y, bool largest)
{
    bool above = isnan(x) ? !isnan(y) : x > y, below = isnan(y) ? !isnan(x) : x < y;
    return largest ? above : below;
}

/* The index in the row x of `width` elements that follows `last` in the order; the first
 * one if `last` is -1. */
static int64_t next_index(const double *x, int64_t width, int64_t last, bool largest)
{
    int64_t best = -1;
    for (int64_t i = 0; i < width; i++) {
        bool later = last < 0 || is_first(x[last], x[i], largest) ||
                     (!is_first(x[i], x[last], largest) && i > last);
        if (later && (best < 0 || is_first(x[i], x[best], largest)))
            best = i;
    }
    return best;
}

void interp_topk(Interp *in, const Op *op, int64_t rank)
{
    Local x = interp_local(in, op->arg[0], rank);
    Local values = interp_local(in, op->out[0], rank);
    Local ids = interp_local(in, op->out[1], rank);
    int64_t width = x.shape->dim[x.shape->nstack + x.shape->ndim - 1], n = attr_n(op);
    for (int64_t row = 0; row < x.shape->n / width; row++) {
        const double *from = x.at + row * width;
        int64_t last = -1;
        for (int64_t j = row * n; j < (row + 1) * n; j++) {
            last = next_index(from, width, last, attr_largest(op));
            values.at[j] = from[last];
            ids.at[j] = (double)last;
        }
    }
}

void interp_topk_grad(Interp *in, const Op *op, int64_t rank)
{
    Local dy = interp_local(in, op->arg[0], rank);
    Local ids = interp_local(in, op->arg[1], rank);
    Local out = interp_local(in, op->out[0], rank);
    int64_t width = attr_n(op);
    int64_t n = dy.shape->dim[dy.shape->nstack + dy.shape->ndim - 1];
    for (int64_t i = 0; i < dy.shape->n; i++) {
        double *row = out.at + i / n * width;
        if (isnan(ids.at[i])) { /* of another stage's rank */
            for (int64_t j = 0; j < width; j++)
                row[j] = NAN;
            continue;
        }
        int64_t at = row_of(in, op, ids.at[i], 0, width, false);
        if (at >= 0)
            row[at] = dy.at[i];
    }
}

/* Pair i of the last dim is (2i, 2i+1), or (i, i+d/2) if `half` is set; it is
 * rotated by the angle whose cos and sin are in row s, column i. */
void interp_rotary(Interp *in, const Op *op, int64_t rank)
{
    Local x = interp_local(in, op->arg[0], rank);
    Local cosine = interp_local(in, op->arg[1], rank);
    Local sine = interp_local(in, op->arg[2], rank);
    Local out = interp_local(in, op->out[0], rank);
    bool half = attr_half(op);
    double sign = attr_inverse(op) ? -1 : 1;
    const int64_t *dim = x.shape->dim;
    int64_t pairs = dim[3] / 2;
    for (int64_t row = 0; row < dim[0] * dim[1] * dim[2]; row++) {
        int64_t s = row / dim[2] % dim[1];
        const double *from = x.at + row * dim[3];
        double *to = out.at + row * dim[3];
        for (int64_t i = 0; i < pairs; i++) {
            int64_t one = half ? i : 2 * i;
            int64_t two = half ? i + pairs : 2 * i + 1;
            double c = cosine.at[s * pairs + i];
            double n = sine.at[s * pairs + i] * sign;
            to[one] = from[one] * c - from[two] * n;
            to[two] = from[one] * n + from[two] * c;
        }
    }
}
