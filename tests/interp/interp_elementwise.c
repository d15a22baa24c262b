/* interp_elementwise.c: evaluates elementwise ops with broadcasting,
 * reductions and the sum of squares.
 *
 * Broadcasting aligns dims at the right. Stack dims align with each other, or
 * an operand without them is repeated. A flat run can be combined with flat
 * runs of the same length and scalars only.
 */
#include "tests/interp/interp_impl.h"

#include <math.h>
#include <string.h>

/* ---- elementwise ------------------------------------------------------- */

/* x/2 (1 + tanh(a (x + b x^3))), and its derivative. */
static const double A = 0.79788456080286535588 /* sqrt(2/pi) */, B = 0.044715;

double interp_gelu(double x)
{
    return x / 2 * (1 + tanh(A * (x + B * x * x * x)));
}

double interp_gelu_slope(double x)
{
    double t = tanh(A * (x + B * x * x * x));
    return (1 + t) / 2 + x / 2 * (1 - t * t) * A * (1 + 3 * B * x * x);
}

typedef double Function(const double *x, const Op *op);

/* clang-format off */
#define FUNCTION(name, expression)                         \
    static double f_##name(const double *x, const Op *op)  \
    {                                                      \
        (void)op;                                          \
        return (expression);                               \
    }
FUNCTION(add, x[0] + x[1])
FUNCTION(sub, x[0] - x[1])
FUNCTION(mul, x[0] * x[1])
FUNCTION(div, x[0] / x[1])
FUNCTION(maximum, x[0] > x[1] ? x[0] : x[1])
FUNCTION(minimum, x[0] < x[1] ? x[0] : x[1])
FUNCTION(equal, x[0] == x[1])
FUNCTION(less, x[0] < x[1])
FUNCTION(select, x[0] != 0 ? x[1] : x[2])
FUNCTION(neg, -x[0])
FUNCTION(scale, x[0] * attr_by(op))
FUNCTION(offset, x[0] + attr_by(op))
FUNCTION(power, pow(x[0], attr_exponent(op)))
FUNCTION(exp, exp(x[0]))
FUNCTION(log, log(x[0]))
FUNCTION(sqrt, sqrt(x[0]))
FUNCTION(rsqrt, 1 / sqrt(x[0]))
FUNCTION(recip, 1 / x[0])
FUNCTION(tanh, tanh(x[0]))
FUNCTION(sigmoid, 1 / (1 + exp(-x[0])))
FUNCTION(erf, erf(x[0]))
FUNCTION(gelu, interp_gelu(x[0]))
FUNCTION(gelu_grad, x[0] * interp_gelu_slope(x[1]))
FUNCTION(sin, sin(x[0]))
FUNCTION(cos, cos(x[0]))
FUNCTION(abs, fabs(x[0]))
FUNCTION(floor, floor(x[0]))
FUNCTION(relu, x[0] > 0 ? x[0] : 0)
FUNCTION(step, x[0] > 0)
FUNCTION(same, x[0])
FUNCTION(cast, dtype_is_float(attr_to(op)) ? x[0] : trunc(x[0]))

static Function *const functions[OP_COUNT] = {
    [OP_add] = f_add,         [OP_sub] = f_sub,
    [OP_mul] = f_mul,         [OP_div] = f_div,
    [OP_maximum] = f_maximum, [OP_minimum] = f_minimum,
    [OP_equal] = f_equal,     [OP_less] = f_less,
    [OP_select] = f_select,   [OP_neg] = f_neg,
    [OP_scale] = f_scale,     [OP_offset] = f_offset,
    [OP_power] = f_power,     [OP_exp] = f_exp,
    [OP_log] = f_log,         [OP_sqrt] = f_sqrt,
    [OP_rsqrt] = f_rsqrt,     [OP_recip] = f_recip,
    [OP_tanh] = f_tanh,       [OP_sigmoid] = f_sigmoid,
    [OP_erf] = f_erf,         [OP_sin] = f_sin,
    [OP_gelu] = f_gelu,       [OP_gelu_grad] = f_gelu_grad,
    [OP_cos] = f_cos,         [OP_abs] = f_abs,
    [OP_relu] = f_relu,       [OP_step] = f_step,
    [OP_floor] = f_floor,     [OP_cast] = f_cast,
    [OP_detach] = f_same,
    [OP_broadcast] = f_same,  [OP_boundary] = f_same,
    [OP_finish_grad] = f_same, [OP_copy] = f_same,
    [OP_fetch] = f_same,      [OP_store] = f_same,
};
/* clang-format on */

bool interp_has_function(OpKind kind)
{
    return functions[kind] != NULL;
}

/* The strides of an operand for each index of the result. */
static bool align(const Shape *arg, const Shape *out, int64_t *stride)
{
    int64_t own[MAX_SHAPE];
    interp_strides(arg, own);
    memset(stride, 0, sizeof *stride * MAX_SHAPE);
    if (arg->n == 1)
        return true;
    if (arg->flat != out->flat || arg->ndim > out->ndim)
        return false;
    if (arg->nstack != 0 && arg->nstack != out->nstack)
        return false;
    for (int d = 0; d < arg->nstack; d++) {
        if (arg->dim[d] != out->dim[d])
            return false;
        stride[d] = own[d];
    }
    for (int d = 0; d < arg->ndim; d++) {
        int i = arg->nstack + d;
        int o = out->nstack + out->ndim - arg->ndim + d;
        if (arg->dim[i] == out->dim[o])
            stride[o] = own[i];
        else if (arg->dim[i] != 1)
            return false;
    }
    return true;
}

void interp_elementwise(Interp *in, const Op *op, int64_t rank)
{
    Local out = interp_local(in, op->out[0], rank);
    const Shape *s = out.shape;
    const double *arg[MAX_WALK];
    Walk w;
    interp_walk_start(&w, s->nstack + s->ndim, s->dim, op->nargs);
    for (int i = 0; i < op->nargs; i++) {
        Local a = interp_local(in, op->arg[i], rank);
        arg[i] = a.at;
        if (!align(a.shape, s, w.stride[i])) {
            interp_fail(in, op, "operand %d does not fit the result", i);
            return;
        }
    }
    Function *f = functions[op->kind];
    for (int64_t at = 0; w.left > 0; at++, interp_walk_next(&w)) {
        double x[MAX_WALK];
        for (int i = 0; i < op->nargs; i++)
            x[i] = arg[i][w.at[i]];
        out.at[at] = f(x, op);
    }
}

/* ---- reductions -------------------------------------------------------- */

void interp_reduce(Interp *in, const Op *op, int64_t rank)
{
    Local a = interp_local(in, op->arg[0], rank);
    Local out = interp_local(in, op->out[0], rank);
    const AttrList dims = *attr_dims(op);
    bool keep = attr_keep(op);
    bool by_max = op->kind == OP_max;
    bool reduced[MAX_SHAPE] = {false};
    for (int i = 0; i < dims.n; i++)
        reduced[a.shape->nstack + dims.v[i]] = true;
    int64_t stride[MAX_SHAPE];
    interp_strides(out.shape, stride);
    Walk w;
    interp_walk_start(&w, a.shape->nstack + a.shape->ndim, a.shape->dim, 1);
    for (int d = 0, o = 0; d < w.ndim; d++) {
        w.stride[0][d] = reduced[d] ? 0 : stride[o];
        o += keep || !reduced[d];
    }
    for (int64_t i = 0; by_max && i < out.shape->n; i++)
        out.at[i] = -INFINITY;
    for (int64_t at = 0; w.left > 0; at++, interp_walk_next(&w)) {
        double *to = &out.at[w.at[0]];
        if (!by_max)
            *to += a.at[at];
        else if (a.at[at] > *to)
            *to = a.at[at];
    }
}

/* Between partition and storage a gradient may still be Partial over its unit's
 * axis; the sum of squares is that of the summed gradient. */
void interp_sumsq(Interp *in, const Op *op)
{
    const Value *v = op->arg[0], *out = op->out[0];
    const double *parts = interp_summed(in, v);
    int64_t n = in->slot[v->id].shape.n;
    interp_check_padding(in, op, &v->type, parts);
    for (int64_t rank = 0; rank < in->ranks; rank++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            if (interp_has(in, &v->type, rank, i / (n / type_layers(&v->type))))
                sum += parts[rank * n + i] * parts[rank * n + i];
        bool counts =
            interp_is_first(in, rank, &v->type, AX_P, &out->type, AX_P);
        interp_local(in, out, rank).at[0] = counts ? sum : 0;
    }
}
