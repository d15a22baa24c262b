/* ops_gradients.c: compares the gradient of every operator with finite
 * differences.
 *
 * For each sample the test builds a global program: the operands are
 * parameters, and the loss is the sum of the op's result times fixed weights.
 * The gradient that the pass autodiff adds must agree with central differences
 * in the interpreter, for every element of every float operand. Loops, which
 * have no row in the table of samples, are built by hand.
 */
#include "passes/autodiff/gradients.h"
#include "passes/pass.h"
#include "tests/unit/check.h"
#include "tests/unit/op_samples.h"

#include <math.h>

static const double step = 1e-5, tolerance = 1e-7;

/* ---- building ---------------------------------------------------------- */

typedef struct Built {
    Program *p;
    Build b;
    Diag *diag;
    double **param, **input; /* numbers of parameters and inputs */
} Built;

enum { MOST = 16 }; /* parameters or inputs of a test program */

static void begin(Built *t, Arena *a)
{
    t->diag = diag_new(a, COLOR_NEVER);
    t->p = ir_program(a, t->diag);
    t->p->train = (Train){.optimizer = OPT_SGD};
    t->b = (Build){
        .p = t->p, .region = t->p->step, .phase = PH_FORWARD, .path = ""};
    t->param = NEW_ARRAY(a, double *, MOST);
    t->input = NEW_ARRAY(a, double *, MOST);
}

static Value *make_param(Built *t, Type type, const SampleArg *like)
{
    Arena *a = t->p->arena;
    int i = t->p->param.n;
    Param param = {.name = arena_printf(a, "p%d", i),
                   .type = type,
                   .trainable = true,
                   .state_of = -1};
    Attr attr[MAX_ATTRS] = {{.i = i}};
    Op *op = ir_op_typed(&t->b, OP_param, 0, NULL, attr, 1, &type, &param.name);
    param.value = op->out[0];
    vec_push(a, &t->p->param, param);
    t->param[i] = NEW_ARRAY(a, double, type_elements(&type) + 1);
    sample_numbers(like, (uint64_t)i + 1, t->param[i]);
    return op->out[0];
}

static Value *make_input(Built *t, Type type, const SampleArg *like)
{
    Arena *a = t->p->arena;
    int i = t->p->input.n;
    Input input = {
        .name = arena_printf(a, "x%d", i), .type = type, .below = like->below};
    Attr attr[MAX_ATTRS] = {{.i = i}};
    Op *op = ir_op_typed(&t->b, OP_input, 0, NULL, attr, 1, &type, &input.name);
    input.value = op->out[0];
    vec_push(a, &t->p->input, input);
    t->input[i] = NEW_ARRAY(a, double, type_elements(&type) + 1);
    sample_numbers(like, (uint64_t)i + 101, t->input[i]);
    return op->out[0];
}

static SampleArg arg_like(const Type *t)
{
    SampleArg arg = {.range = ANY, .ndim = t->ndim};
    for (int d = 0; d < t->ndim; d++)
        arg.dim[d] = t->dim[d];
    return arg;
}

/* The loss: the sum of y times weights that differ between elements. */
static void make_loss(Built *t, Value *y)
{
    SampleArg like = arg_like(&y->type);
    Value *w = make_input(t, sample_type(&like), &like);
    Value *z = ir_binary(&t->b, OP_mul, y, w);
    AttrList all = {.n = z->type.ndim};
    for (int d = 0; d < all.n; d++)
        all.v[d] = d;
    Value *loss = ir_sum(&t->b, z, all, false);
    Attr attr[MAX_ATTRS] = {{.s = "loss"}};
    ir_op(&t->b, OP_output, 1, &loss, attr, NULL);
}

static void build_sample(Built *t, const OpSample *s)
{
    Value *args[SAMPLE_ARGS];
    for (int i = 0; i < s->nargs; i++) {
        const SampleArg *arg = &s->arg[i];
        args[i] =
            (arg->constant ? make_input : make_param)(t, sample_type(arg), arg);
    }
    make_loss(t, ir_op(&t->b, s->kind, s->nargs, args, s->attr, "y")->out[0]);
}

/* ---- comparing --------------------------------------------------------- */

static void set_numbers(Built *t, Interp *in)
{
    for (int i = 0; i < t->p->param.n; i++) /* SGD keeps no states */
        interp_set_param(in, i, t->param[i]);
    for (int i = 0; i < t->p->input.n; i++)
        interp_set_input(in, i, t->input[i]);
    interp_set_scalar(in, "lr", 0.1);
    interp_set_scalar(in, "bias1", 1);
    interp_set_scalar(in, "bias2", 1);
}

static double loss_at(Built *t, Interp *in, int param, int64_t i, double by)
{
    double was = t->param[param][i], loss = NAN;
    t->param[param][i] += by;
    interp_set_param(in, param, t->param[param]);
    t->param[param][i] = was;
    if (!interp_run(in))
        interp_output(in, "loss", &loss);
    interp_set_param(in, param, t->param[param]);
    return loss;
}

/* The parameter's gradient after autodiff; NULL: zero. */
static const double *gradient_of(const Program *p, Interp *in, int param)
{
    for (const Op *op = p->step->first; op; op = op->next)
        if (op->kind == OP_finish_grad && attr_param(op) == param)
            return interp_value(in, op->out[0]->name, NULL);
    return NULL;
}

static bool agrees(const double *gradient, const double *difference, int64_t n)
{
    double largest = 1;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(difference[i]));
    for (int64_t i = 0; i < n; i++) {
        double g = gradient ? gradient[i] : 0;
        if (!(fabs(g - difference[i]) <= tolerance * largest)) {
            printf("element %lld: gradient %.12g, difference %.12g\n",
                   (long long)i, g, difference[i]);
            return false;
        }
    }
    return true;
}

/* Runs autodiff on a copy and compares; prints the mismatches. */
static bool check_gradients(Built *t, const char *what)
{
    Arena *a = t->p->arena;
    const char *fault = ir_verify(t->p);
    Program *full = ir_copy(t->p);
    if (!fault) {
        pass_autodiff(full, NULL);
        fault = ir_verify(full);
    }
    if (fault || diag_error_count(t->diag) > 0) {
        printf("%s: %s\n", what, fault ? fault : "refused");
        diag_flush(t->diag, stdout);
        return false;
    }
    Interp *forward = interp_new(t->p), *whole = interp_new(full);
    set_numbers(t, forward);
    set_numbers(t, whole);
    fault = interp_run(whole);
    if (fault)
        printf("%s: %s\n", what, fault);
    bool good = !fault;
    for (int k = 0; k < t->p->param.n && good; k++) {
        int64_t n = type_elements(&t->p->param.at[k].type);
        double *difference = NEW_ARRAY(a, double, n + 1);
        for (int64_t i = 0; i < n; i++)
            difference[i] = (loss_at(t, forward, k, i, step) -
                             loss_at(t, forward, k, i, -step)) /
                            (2 * step);
        good = agrees(gradient_of(full, whole, k), difference, n);
        if (!good)
            printf("%s: the gradient of operand %d is wrong\n", what, k);
    }
    interp_free(forward);
    interp_free(whole);
    return good;
}

/* ---- the table of operators -------------------------------------------- */

static bool check_sample(const OpSample *s)
{
    Arena *a = arena_new();
    Built t;
    begin(&t, a);
    build_sample(&t, s);
    bool good;
    if (s->kind == OP_max || s->kind == OP_attention_sinks) {
        /* max has no gradient, the other one only after attention */
        pass_autodiff(t.p, NULL);
        good = diag_error_count(t.diag) == 1;
    } else {
        good = check_gradients(&t, sample_text(a, s));
    }
    arena_free(a);
    return good;
}

static void check_table(Check *c)
{
    for (int kind = 0; kind < OP_COUNT; kind++) {
        int rows = 0;
        for (int i = 0; i < op_sample_count; i++) {
            const OpSample *s = &op_sample[i];
            if ((int)s->kind != kind || s->nargs == 0)
                continue;
            rows++;
            if (gradient_rule(s->kind))
                CHECK(c, check_sample(s));
        }
        if (gradient_rule((OpKind)kind) && rows == 0) {
            printf("no sample of '%s'\n", op_info((OpKind)kind)->name);
            CHECK(c, rows > 0);
        }
    }
}

/* ---- loops ------------------------------------------------------------- */

static Value *tensor(Built *t, int nstack, const int64_t *stack,
                     const SampleArg *arg)
{
    Type type = sample_type(arg);
    SampleArg like = *arg; /* numbers for the whole stack */
    type.nstack = nstack;
    like.ndim = 0;
    for (int i = 0; i < nstack; i++)
        like.dim[like.ndim++] = type.stack[i] = stack[i];
    for (int i = 0; i < arg->ndim; i++)
        like.dim[like.ndim++] = arg->dim[i];
    return make_param(t, type, &like);
}

static Op *open_loop(Built *t, int nargs, Value **args, int ncarry, int nstack,
                     int64_t n, bool reverse, Build *body)
{
    Attr attr[MAX_ATTRS] = {{.i = n}, {.i = reverse}};
    Op *loop = ir_open(&t->b, OP_loop, nargs, args, ncarry, nstack, attr);
    *body = t->b;
    body->region = loop->body;
    return loop;
}

static const SampleArg state = {.range = ANY, .ndim = 2, .dim = {4, 4}};

/* x = tanh(x w[i]) + s, with w stacked and s free; the other carry swaps. */
static bool check_loop(Arena *a, bool reverse, bool swap)
{
    Built t;
    Build b;
    begin(&t, a);
    Value *args[] = {tensor(&t, 0, NULL, &state), tensor(&t, 0, NULL, &state),
                     tensor(&t, 1, (int64_t[]){3}, &state),
                     tensor(&t, 0, NULL, &state)};
    Op *loop = open_loop(&t, 4, args, 2, 1, 3, reverse, &b);
    Value **in = loop->body->arg;
    Value *x = ir_einsum(&b, "ab,cb->ac", DT_F32, in[0], in[2]);
    x = ir_binary(&b, OP_add, ir_unary(&b, OP_tanh, x), in[3]);
    Value *y = ir_binary(&b, OP_mul, in[1], ir_unary(&b, OP_sigmoid, in[3]));
    Value *yield[] = {swap ? y : x, swap ? x : y};
    ir_yield(t.p, loop->body, 2, yield);
    ir_close(t.p, loop);
    make_loss(&t, ir_binary(&t.b, OP_sub, loop->out[0], loop->out[1]));
    return check_gradients(&t, "loop");
}

/* A loop that reads a carry of the outer loop, with weights stacked twice. */
static bool check_nested(Arena *a)
{
    Built t;
    Build outer, inner;
    begin(&t, a);
    Value *args[] = {tensor(&t, 0, NULL, &state),
                     tensor(&t, 2, (int64_t[]){2, 3}, &state),
                     tensor(&t, 1, (int64_t[]){2}, &state)};
    Op *loop = open_loop(&t, 3, args, 1, 2, 2, false, &outer);
    Value **in = loop->body->arg;
    Built at = t;
    at.b = outer;
    Value *nested[] = {in[0], in[1], in[2]};
    Op *again = open_loop(&at, 3, nested, 1, 1, 3, false, &inner);
    Value **deep = again->body->arg;
    Value *x = ir_einsum(&inner, "ab,cb->ac", DT_F32, deep[0], deep[1]);
    x = ir_binary(&inner, OP_mul, ir_unary(&inner, OP_tanh, x), deep[2]);
    ir_yield(t.p, again->body, 1, &x);
    ir_close(t.p, again);
    Value *y = ir_binary(&outer, OP_add, again->out[0], in[0]);
    ir_yield(t.p, loop->body, 1, &y);
    ir_close(t.p, loop);
    make_loss(&t, loop->out[0]);
    return check_gradients(&t, "nested loops");
}

static void check_loops(Check *c)
{
    Arena *a = arena_new();
    CHECK(c, check_loop(a, false, false));
    CHECK(c, check_loop(a, false, true));
    CHECK(c, check_loop(a, true, true));
    CHECK(c, check_nested(a));
    arena_free(a);
}

int main(void)
{
    Check c = {0, 0};
    check_table(&c);
    check_loops(&c);
    return check_end(&c);
}
