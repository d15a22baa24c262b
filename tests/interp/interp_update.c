/* interp_update.c: evaluates the optimizer's update, element by element; Muon's
 * direction is computed from global matrices first, Adafactor's update from all of them.
 */
#include "tests/interp/interp_impl.h"

#include <math.h>
#include <string.h>

typedef struct Rates {
    double lr, bias1, bias2, factor, decay, eps;
    double adjustment; /* of Muon: multiplies lr */
    double direction;  /* of Muon: the element's */
} Rates;

static void sgd(const Train *t, Rates r, double *x, double grad)
{
    double g = grad + r.decay * x[0];
    if (t->momentum != 0)
        g = x[1] = t->momentum * x[1] + g;
    x[0] -= r.lr * g;
}

static void adam_step(const Train *t, Rates r, double *x, double grad)
{
    x[1] = t->beta1 * x[1] + (1 - t->beta1) * grad;
    x[2] = t->beta2 * x[2] + (1 - t->beta2) * grad * grad;
    x[0] -= r.lr * (x[1] / r.bias1) / (sqrt(x[2] / r.bias2) + r.eps);
}

static void adam(const Train *t, Rates r, double *x, double grad)
{
    adam_step(t, r, x, grad + r.decay * x[0]);
}

static void adamw(const Train *t, Rates r, double *x, double grad)
{
    x[0] -= r.lr * r.decay * x[0];
    adam_step(t, r, x, grad);
}

static void lion(const Train *t, Rates r, double *x, double grad)
{
    double c = t->beta1 * x[1] + (1 - t->beta1) * grad;
    double direction = c > 0 ? 1 : c < 0 ? -1 : c;
    x[0] -= r.lr * (direction + r.decay * x[0]);
    x[1] = t->beta2 * x[1] + (1 - t->beta2) * grad;
}

static double averaged(const Train *t, double momentum, double grad)
{
    return t->momentum * momentum + (1 - t->momentum) * grad;
}

static void muon(const Train *t, Rates r, double *x, double grad)
{
    x[0] -= r.lr * (r.decay * x[0] + r.adjustment * r.direction);
    x[1] = averaged(t, x[1], grad);
}

/* Updates one element: x[0] is the parameter's, the others are its states'. */
typedef void UpdateElement(const Train *t, Rates r, double *x, double grad);
static const struct Rule {
    UpdateElement *update;
    int states; /* SGD without momentum has none */
} rules[OPTIMIZERS] = {
    [OPT_SGD] = {sgd, 1},
    [OPT_ADAM] = {adam, 2},
    [OPT_ADAMW] = {adamw, 2},
    [OPT_LION] = {lion, 1},
    [OPT_MUON] = {muon, 1},
    [OPT_ADAFACTOR] = {NULL, 2},
};

static double scalar_operand(Interp *in, const Op *op, int i, int64_t rank)
{
    return interp_local(in, op->arg[i], rank).at[0];
}

/* What a rank multiplies gradients by. */
static double factor_of(Interp *in, const Op *op, int64_t rank)
{
    return update_first_state(op) > UPDATE_FACTOR
               ? scalar_operand(in, op, UPDATE_FACTOR, rank)
               : 1;
}

/* ---- Muon's direction --------------------------------------------------- */

/* z[m, n] = x[m, k] y[k, n], with strides of rows and columns. */
typedef struct Matrix {
    double *at;
    int64_t row, column;
} Matrix;

static void multiply(Matrix x, Matrix y, Matrix z, int64_t m, int64_t k, int64_t n)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < k; l++)
                sum += x.at[i * x.row + l * x.column] *
                       y.at[l * y.row + j * y.column];
            z.at[i * z.row + j * z.column] = sum;
        }
}

/* The Newton-Schulz iterations of a matrix [m, n] with m <= n, by the author's
 * definition: X = a X + (b A + c A A) X, with A = X X'. */
static void orthogonalize(Interp *in, const Train *t, Matrix x, int64_t m,
                          int64_t n)
{
    const double *by = muon_coefficients(t);
    Matrix a = {NEW_ARRAY(in->arena, double, m * m + 1), m, 1};
    Matrix b = {NEW_ARRAY(in->arena, double, m * m + 1), m, 1};
    Matrix y = {NEW_ARRAY(in->arena, double, m * n + 1), n, 1};
    double squares = 0;
    for (int64_t i = 0; i < m * n; i++)
        squares += x.at[i] * x.at[i];
    double norm = fmax(sqrt(squares), t->eps);
    for (int64_t i = 0; i < m * n; i++)
        x.at[i] /= norm;
    for (int64_t step = 0; step < t->ns_steps; step++) {
        Matrix transposed = {x.at, x.column, x.row};
        multiply(x, transposed, a, m, n, m);
        multiply(a, a, b, m, m, m);
        for (int64_t i = 0; i < m * m; i++)
            b.at[i] = by[1] * a.at[i] + by[2] * b.at[i];
        multiply(b, x, y, m, m, n);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double *to = &x.at[i * x.row + j * x.column];
                *to = by[0] * *to + y.at[i * n + j];
            }
    }
}

/* All ranks' parts of the direction of a stack of matrices; NULL: the optimizer
 * has none. */
static const double *directions(Interp *in, const Op *op, const Param *param,
                                const double *grad)
{
    const Train *t = &in->p->train;
    if (param_optimizer(t, param) != OPT_MUON)
        return NULL;
    const Value *v = op->arg[UPDATE_PARAM];
    int64_t n = in->slot[v->id].shape.n, all = type_elements(&v->type);
    int64_t rows = v->type.dim[0], columns = v->type.dim[1];
    double *part = NEW_ARRAY(in->arena, double, in->ranks * n + 1);
    double *global = NEW_ARRAY(in->arena, double, all + 1);
    for (int64_t rank = 0; rank < in->ranks; rank++) {
        double factor = factor_of(in, op, rank);
        const double *state = interp_local(in, update_old(op, 1), rank).at;
        for (int64_t i = 0; i < n; i++) {
            double g = factor * grad[rank * n + i], m = averaged(t, state[i], g);
            part[rank * n + i] = t->nesterov ? averaged(t, m, g) : m;
        }
    }
    interp_assemble(in, &v->type, part, global);
    for (int64_t at = 0; at < all; at += rows * columns) {
        bool wide = rows <= columns;
        Matrix x = {global + at, wide ? columns : 1, wide ? 1 : columns};
        orthogonalize(in, t, x, wide ? rows : columns, wide ? columns : rows);
    }
    interp_split(in, &v->type, global, part);
    return part;
}

static double lr_adjustment(const Train *t, const Param *param)
{
    Type shape = param_shape(param);
    double m = (double)shape.dim[0], n = (double)shape.dim[1];
    return t->adjust_lr == ADJUST_RMS         ? 0.2 * sqrt(fmax(m, n))
           : t->adjust_lr == ADJUST_UNCLAMPED ? sqrt(m / n)
                                              : sqrt(fmax(1, m / n));
}

/* ---- Adafactor ---------------------------------------------------------- */

/* A layer's parameter, gradient and means: [outer, m, n], row [outer, m], column [outer, n]; a
 * vector has squares [n] in row, and no column. all: its elements without padding, m_valid and
 * n_valid those of its last dims. */
typedef struct Layer {
    double *x, *g, *row, *column;
    int64_t outer, m, n, m_valid, n_valid, all;
} Layer;

static double rms(const double *x, int64_t n, int64_t all)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum / (double)all);
}

/* The mean squares of matrix `at` of the layer, in `square`. */
static void matrix_squares(const Train *t, const Layer *l, int64_t at, double share,
                           double *square)
{
    const double *g = l->g + at * l->m * l->n;
    double *row = l->row + at * l->m, *column = l->column + at * l->n, rows = 0;
    for (int64_t i = 0; i < l->m; i++) {
        double sum = 0;
        for (int64_t j = 0; j < l->n; j++)
            sum += g[i * l->n + j] * g[i * l->n + j];
        row[i] += share * (sum / (double)l->n_valid - row[i]);
        rows += row[i];
    }
    for (int64_t j = 0; j < l->n; j++) {
        double sum = 0;
        for (int64_t i = 0; i < l->m; i++)
            sum += g[i * l->n + j] * g[i * l->n + j];
        column[j] += share * (sum / (double)l->m_valid - column[j]);
    }
    for (int64_t i = 0; i < l->m * l->n; i++)
        square[at * l->m * l->n + i] = row[i / l->n] * column[i % l->n] /
                                       fmax(rows / (double)l->m_valid, t->eps1);
}

/* share, root: t^beta2_decay and 1 / sqrt(t). */
static void adafactor(Interp *in, const Layer *l, double lr, double share, double root,
                      double decay)
{
    const Train *t = &in->p->train;
    int64_t n = l->outer * l->m * l->n;
    double *step = NEW_ARRAY(in->arena, double, n + 1);
    double rate = fmin(lr, root) * fmax(t->eps2, rms(l->x, n, l->all));
    for (int64_t at = 0; at < l->outer && l->column; at++)
        matrix_squares(t, l, at, share, step);
    for (int64_t i = 0; i < n; i++) {
        if (!l->column)
            step[i] = l->row[i] += share * (l->g[i] * l->g[i] - l->row[i]);
        step[i] = l->g[i] / sqrt(fmax(step[i], t->eps1 * t->eps1));
    }
    rate /= t->clip_threshold > 0 ? fmax(1, rms(step, n, l->all) / t->clip_threshold) : 1;
    for (int64_t i = 0; i < n; i++)
        l->x[i] = l->x[i] * (1 - lr * decay) - rate * step[i];
}

static double *assembled(Interp *in, const Value *v, const double *parts)
{
    double *global = NEW_ARRAY(in->arena, double, type_elements(&v->type) + 1);
    interp_assemble(in, &v->type, parts, global);
    return global;
}

/* Updates all layers of a parameter; the average of its weights is the last state. */
static void update_adafactor(Interp *in, const Op *op, const Param *param, const double *grad)
{
    const Train *t = &in->p->train;
    const Type *type = &op->arg[UPDATE_PARAM]->type;
    Type shape = param_shape(param);
    int nd = type->ndim, nstates = op->nargs - update_first_state(op) - (t->ema > 0);
    double *now[1 + MAX_UPDATE_STATES], factor = factor_of(in, op, 0);
    double lr = scalar_operand(in, op, UPDATE_LR, 0) * param_lr_factor(param);
    Layer l = {.outer = 1, .m = 1, .n = nd ? type->dim[nd - 1] : 1, .m_valid = 1, .all = 1};
    for (int d = 0; d < nd; d++)
        l.all *= shape.dim[d];
    for (int d = 0; d < nd - 2; d++)
        l.outer *= type->dim[d];
    l.n_valid = nd ? shape.dim[nd - 1] : 1;
    if (nd > 1) {
        l.m = type->dim[nd - 2];
        l.m_valid = shape.dim[nd - 2];
    }
    int64_t each = l.outer * l.m * l.n, layers = type_elements(type) / each;
    double *g = assembled(in, op->arg[UPDATE_PARAM], grad);
    for (int i = 0; i < op->nouts; i++) {
        const Value *old = update_old(op, i);
        now[i] = assembled(in, old, in->slot[old->id].at);
    }
    for (int64_t i = 0; i < layers * each; i++)
        g[i] *= factor;
    for (int64_t i = 0; i < layers; i++) {
        l.x = now[0] + i * each;
        l.g = g + i * each;
        l.row = now[1] + i * (nd > 1 ? l.outer * l.m : each);
        l.column = nstates > 1 ? now[2] + i * l.outer * l.n : NULL;
        adafactor(in, &l, lr, scalar_operand(in, op, UPDATE_BIAS1, 0),
                  scalar_operand(in, op, UPDATE_BIAS2, 0), param_weight_decay(t, param));
    }
    for (int64_t i = 0; i < layers * each && t->ema > 0; i++)
        now[op->nouts - 1][i] =
            t->ema * now[op->nouts - 1][i] + (1 - t->ema) * now[0][i];
    bool good = update_first_state(op) <= UPDATE_GOOD ||
                scalar_operand(in, op, UPDATE_GOOD, 0) != 0;
    for (int i = 0; i < op->nouts; i++) {
        const Value *out = op->out[i], *old = update_old(op, i);
        Slot *to = &in->slot[out->id];
        if (good)
            interp_split(in, &out->type, now[i], to->at);
        else
            memcpy(to->at, in->slot[old->id].at,
                   sizeof *to->at * (size_t)(in->ranks * to->shape.n));
    }
}

/* ---- the op ------------------------------------------------------------- */


void interp_update(Interp *in, const Op *op)
{
    const Train *t = &in->p->train;
    const Param *param = &in->p->param.at[attr_param(op)];
    const double *grad = interp_summed(in, op->arg[UPDATE_GRAD]);
    int64_t n = in->slot[op->arg[UPDATE_PARAM]->id].shape.n;
    int nstates = op->nargs - update_first_state(op);
    OptimizerKind kind = param_optimizer(t, param);
    const struct Rule *rule = &rules[kind];
    bool plain = kind == OPT_SGD && t->momentum == 0;
    int own = plain ? 0 : rule->states;
    if (kind == OPT_ADAFACTOR && param->type.ndim < 2)
        own = 1;
    int wanted = own + (t->ema > 0);
    if (in->slot[op->arg[UPDATE_GRAD]->id].shape.n != n || nstates != wanted ||
        op->nouts != nstates + 1) {
        interp_fail(in, op, "operands do not fit the optimizer");
        return;
    }
    if (kind == OPT_ADAFACTOR) {
        update_adafactor(in, op, param, grad);
        return;
    }
    const double *direction = directions(in, op, param, grad);
    for (int64_t rank = 0; rank < in->ranks; rank++) {
        Rates r = {.lr = scalar_operand(in, op, UPDATE_LR, rank) *
                         param_lr_factor(param),
                   .bias1 = scalar_operand(in, op, UPDATE_BIAS1, rank),
                   .bias2 = scalar_operand(in, op, UPDATE_BIAS2, rank),
                   .factor = factor_of(in, op, rank),
                   .eps = kind == t->optimizer ? t->eps : t->adamw_eps,
                   .decay = param_weight_decay(t, param)};
        if (direction)
            r.adjustment = lr_adjustment(t, param);
        bool good = update_first_state(op) <= UPDATE_GOOD ||
                    scalar_operand(in, op, UPDATE_GOOD, rank) != 0;
        for (int64_t i = 0; i < n; i++) {
            double x[1 + MAX_UPDATE_STATES], g = r.factor * grad[rank * n + i];
            for (int s = 0; s <= nstates; s++)
                x[s] = interp_local(in, update_old(op, s), rank).at[i];
            if (direction)
                r.direction = direction[rank * n + i];
            if (good)
                rule->update(t, r, x, g);
            if (good && t->ema > 0)
                x[own + 1] = t->ema * x[own + 1] + (1 - t->ema) * x[0];
            for (int s = 0; s <= nstates; s++)
                interp_local(in, op->out[s], rank).at[i] = x[s];
        }
    }
}
