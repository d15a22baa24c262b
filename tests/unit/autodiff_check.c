/* autodiff_check.c: compares the gradients of small programs with central
 * differences in the interpreter. */
#include "tests/unit/autodiff_check.h"

#include <math.h>
#include <string.h>

/* ---- building ---------------------------------------------------------- */

Small small_new(void)
{
    Small s = {.arena = arena_new()};
    Diag *diag = diag_new(s.arena, COLOR_NEVER);

    s.p = ir_program(s.arena, diag);
    s.p->mesh = (Mesh){.n = 1, .name = {"dp"}, .size = {1}};
    s.p->train = (Train){.batch = 2, .seq = 2, .optimizer = OPT_SGD};
    s.b =
        (Build){.p = s.p, .region = s.p->step, .phase = PH_FORWARD, .path = ""};
    return s;
}

void small_free(Small *s)
{
    arena_free(s->arena);
}

static Type tensor_type(DType dtype, int ndim, const int64_t *dim)
{
    Type t = {.dtype = dtype, .ndim = ndim};
    for (int i = 0; i < ndim; i++)
        t.dim[i] = dim[i];
    return t;
}

Value *small_param(Small *s, const char *name, bool trainable, int stack,
                   int ndim, const int64_t *dim)
{
    Param param = {.name = name,
                   .type = tensor_type(DT_F32, ndim, dim),
                   .trainable = trainable,
                   .decay = true,
                   .state_of = -1};
    if (stack > 0) {
        param.type.nstack = 1;
        param.type.stack[0] = stack;
    }
    Attr attr[MAX_ATTRS] = {{.i = s->p->param.n}};
    vec_push(s->arena, &s->p->param, param);
    Value *v = ir_value(&s->b, OP_param, 0, NULL, attr, name);
    s->p->param.at[s->p->param.n - 1].value = v;
    return v;
}

Value *small_ids(Small *s, const char *name, int64_t below, int ndim,
                 const int64_t *dim)
{
    Input input = {
        .name = name, .type = tensor_type(DT_I32, ndim, dim), .below = below};
    Attr attr[MAX_ATTRS] = {{.i = s->p->input.n}};
    vec_push(s->arena, &s->p->input, input);
    Value *v = ir_value(&s->b, OP_input, 0, NULL, attr, name);
    s->p->input.at[s->p->input.n - 1].value = v;
    return v;
}

void small_loss(Small *s, Value *y)
{
    AttrList all = {.n = y->type.ndim};
    for (int i = 0; i < all.n; i++)
        all.v[i] = i;
    Value *weights =
        small_param(s, "probe", false, 0, y->type.ndim, y->type.dim);
    Value *loss = ir_binary(&s->b, OP_mul, y, weights);
    loss = ir_sum(&s->b, loss, all, false);
    Attr attr[MAX_ATTRS] = {{.s = "loss"}};
    ir_op(&s->b, OP_output, 1, &loss, attr, NULL);
}

/* ---- numbers ----------------------------------------------------------- */

/* A number in 0 … 1 that depends only on the tensor's name and the index. */
static double number_at(const char *name, int64_t k)
{
    uint64_t x = 0x9e3779b97f4a7c15u + (uint64_t)k;
    for (const char *c = name; *c; c++)
        x = (x ^ (unsigned char)*c) * 0x100000001b3u;
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    return (double)(x >> 11) / 9007199254740992.0;
}

static double *param_numbers(Arena *a, const Param *param)
{
    int64_t n = type_elements(&param->type);
    double *x = NEW_ARRAY(a, double, n + 1);
    for (int64_t k = 0; k < n; k++)
        x[k] = 0.3 + 1.4 * number_at(param->name, k);
    return x;
}

void small_values(Interp *in, const Program *p)
{
    for (int i = 0; i < p->param.n; i++)
        interp_set_param(in, i, param_numbers(p->arena, &p->param.at[i]));
    for (int i = 0; i < p->input.n; i++) {
        const Input *input = &p->input.at[i];
        int64_t n = type_elements(&input->type);
        double *x = NEW_ARRAY(p->arena, double, n + 1);
        for (int64_t k = 0; k < n; k++)
            x[k] = floor(number_at(input->name, k) * (double)input->below);
        interp_set_input(in, i, x);
    }
    interp_set_scalar(in, "lr", 0.125);
    interp_set_scalar(in, "bias1", 0.3);
    interp_set_scalar(in, "loss_scale", p->train.loss_scale);
    interp_set_scalar(in, "bias2", 0.2);
    interp_set_scalar(in, "random", 12345678901.0);
}

/* ---- differences ------------------------------------------------------- */

static const char *loss_of(Interp *in, double *loss)
{
    const char *fault = interp_run(in);
    if (fault == NULL && !interp_output(in, "loss", loss))
        fault = "there is no loss";
    return fault;
}

/* The loss's derivative by one element, by a four-point difference. */
static const char *slope(Interp *in, int param, double *x, int64_t k,
                         double *result)
{
    static const double at[] = {-2, -1, 1, 2}, weight[] = {1, -8, 8, -1};
    const double h = 1e-3, middle = x[k];
    const char *fault = NULL;

    *result = 0;
    for (int i = 0; i < 4 && fault == NULL; i++) {
        double loss = 0;
        x[k] = middle + at[i] * h;
        interp_set_param(in, param, x);
        fault = loss_of(in, &loss);
        *result += weight[i] * loss / (12 * h);
    }
    x[k] = middle;
    interp_set_param(in, param, x);
    return fault;
}

static const Value *gradient_of(const Program *p, int param)
{
    for (const Op *op = p->step->first; op != NULL; op = op->next)
        if (op->kind == OP_finish_grad && attr_param(op) == param)
            return op->out[0];
    return NULL;
}

static const char *check_param(Small *s, Interp *forward, Interp *full,
                               int param)
{
    const Param *at = &s->p->param.at[param];
    const Value *v = gradient_of(s->p, param);
    const double *d = v ? interp_value(full, v->name, NULL) : NULL;
    double *x = param_numbers(s->arena, at);

    for (int64_t k = 0; k < type_elements(&at->type); k++) {
        double is = d ? d[k] : 0, expected;
        const char *fault = slope(forward, param, x, k, &expected);
        if (fault != NULL)
            return arena_strdup(s->arena, fault);
        if (!(fabs(is - expected) <= 1e-8 * (1 + fabs(expected))))
            return arena_printf(s->arena, "%s[%lld]: %.12g, should be %.12g",
                                at->name, (long long)k, is, expected);
    }
    return NULL;
}

const char *small_check_gradients(Small *s)
{
    Program *before = ir_copy(s->p);
    int nparams = before->param.n;

    pass_autodiff(s->p, NULL);
    if (diag_error_count(s->p->diag) > 0)
        return "autodiff reported an error";
    Interp *forward = interp_new(before), *full = interp_new(s->p);
    small_values(forward, before);
    small_values(full, s->p);
    const char *fault = interp_run(full);
    if (fault != NULL)
        fault = arena_strdup(s->arena, fault);
    for (int i = 0; i < nparams && fault == NULL; i++)
        if (before->param.at[i].trainable)
            fault = check_param(s, forward, full, i);
    interp_free(forward);
    interp_free(full);
    return fault;
}

/* ---- comparing two programs -------------------------------------------- */

static const char *compare_numbers(Arena *a, const char *name, double x,
                                   double y)
{
    if (fabs(x - y) <= 1e-12 * (1 + fabs(x)))
        return NULL;
    return arena_printf(a, "%s: %.17g and %.17g", name, x, y);
}

const char *small_compare(Arena *a, const Program *x, const Program *y)
{
    static const char *const outputs[] = {"loss", "grad_norm"};
    Interp *ix = interp_new(x), *iy = interp_new(y);
    small_values(ix, x);
    small_values(iy, y);
    const char *fault = interp_run(ix);
    if (fault == NULL)
        fault = interp_run(iy);
    if (fault != NULL)
        fault = arena_strdup(a, fault);
    for (int i = 0; i < 2 && fault == NULL; i++) {
        double vx = 0, vy = 0;
        interp_output(ix, outputs[i], &vx);
        interp_output(iy, outputs[i], &vy);
        fault = compare_numbers(a, outputs[i], vx, vy);
    }
    for (int i = 0; i < x->param.n && fault == NULL; i++) {
        const double *px = interp_param(ix, i), *py = interp_param(iy, i);
        int64_t n = type_elements(&x->param.at[i].type);
        for (int64_t k = 0; k < n && fault == NULL; k++)
            fault = compare_numbers(a, x->param.at[i].name, px[k], py[k]);
    }
    interp_free(ix);
    interp_free(iy);
    return fault;
}

static int count_in(const Region *r, OpKind kind)
{
    int n = 0;
    for (const Op *op = r->first; op != NULL; op = op->next) {
        n += op->kind == kind;
        if (op->body != NULL)
            n += count_in(op->body, kind);
    }
    return n;
}

int small_count(const Program *p, OpKind kind)
{
    return count_in(p->step, kind);
}
