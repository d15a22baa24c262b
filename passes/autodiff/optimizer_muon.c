/* optimizer_muon.c: computes the direction of Muon's update: the averaged
 * gradient with all singular values near 1.
 *
 * A Newton-Schulz iteration reads the complete matrix. Every rank gathers it over
 * the axes that split it, in the compute type, computes all iterations, and keeps
 * its part of the result. All ranks of these axes compute the same.
 *
 * before (a matrix [m, n] with m <= n, flat over dp)
 *   %direction = copy %add : f32[64, 256]~dp
 * after
 *   %w.averaged = all_gather{axes={dp}} %add : f32[64, 256]
 *   %sumsq = sumsq %w.averaged : f32[]
 *   %sqrt = sqrt %sumsq : f32[]
 *   %norm = maximum %sqrt, %eps : f32[]
 *   %div = div %w.averaged, %norm : f32[64, 256]
 *   %loop = loop{n=5, reverse=false} : f32[64, 256] {
 *     carry %x = %div : f32[64, 256]
 *     %gram = einsum{spec="ik,jk->ij"} %x, %x : f32[64, 64]
 *     %square = einsum{spec="ij,jk->ik"} %gram, %gram : f32[64, 64]
 *     %poly = b %gram + c %square : f32[64, 64]
 *     %einsum = einsum{spec="ij,jk->ik"} %poly, %x : f32[64, 256]
 *     %x.new = a %x + %einsum : f32[64, 256]
 *     yield %x.new
 *   }
 *   %loop.2 = local_slice{axes={dp}} %loop : f32[64, 256]~dp
 *
 * A tall matrix has the Gram matrix X' X on the right. Last the direction is
 * multiplied by the factor of the learning rate for its shape.
 *
 * Keller Jordan, "Muon: An optimizer for hidden layers in neural networks", 2024.
 */
#include <math.h>

#include "passes/autodiff/autodiff.h"

/* The products of an iteration, with the smaller Gram matrix of the two. */
typedef struct Products {
    const char *gram;  /* of X with itself */
    const char *apply; /* of a polynomial of the Gram matrix P with X */
    bool right;        /* X P, not P X */
} Products;
static const Products wide = {"ik,jk->ij", "ij,jk->ik", false}, /* m <= n */
                      tall = {"ki,kj->ij", "ki,ij->kj", true};

/* X divided by its Frobenius norm, or by eps if that is larger: then no singular
 * value is above 1. The sum of squares is in f32. */
static Value *normalized(Build *b, Value *x, Value *eps)
{
    Value *norm = ir_unary(b, OP_sqrt, ir_unary(b, OP_sumsq, x));
    Value *args[] = {norm, eps};
    norm = ir_value(b, OP_maximum, 2, args, NULL, "norm");
    DType type = x->type.dtype;
    return ir_cast(b, ir_binary(b, OP_div, ir_cast(b, x, DT_F32), norm), type);
}

/* a X + (b G + c G G) X, with G = X X', or with X' X on the right. */
static Value *iteration(Build *b, const Products *with, const double *by,
                        Value *x)
{
    DType type = x->type.dtype;
    Value *gram = ir_einsum(b, with->gram, type, x, x);
    Value *square = ir_einsum(b, "ij,jk->ik", type, gram, gram);
    Value *poly =
        ir_binary(b, OP_add, optimizer_scale(b, gram, by[1]), optimizer_scale(b, square, by[2]));
    Value *step = with->right ? ir_einsum(b, with->apply, type, x, poly)
                              : ir_einsum(b, with->apply, type, poly, x);
    return ir_binary(b, OP_add, optimizer_scale(b, x, by[0]), step);
}

static Value *iterations(Build *b, const Train *t, const Products *with,
                         Value *x)
{
    Program *p = b->p;
    Attr attr[MAX_ATTRS] = {{.i = t->ns_steps}, {.i = false}};
    Op *loop = ir_open(b, OP_loop, 1, &x, 1, 0, attr);
    Build inside = *b;
    inside.region = loop->body;
    inside.before = NULL;
    Value *new = iteration(&inside, with, muon_coefficients(t),
                           loop->body->arg[0]);
    ir_yield(p, loop->body, 1, &new);
    ir_close(p, loop);
    return loop->out[0];
}

/* What the learning rate is multiplied by. */
static double lr_factor(const Train *t, const Type *shape)
{
    double m = (double)shape->dim[0], n = (double)shape->dim[1];
    switch (t->adjust_lr) {
    case ADJUST_ORIGINAL: return sqrt(fmax(1, m / n));
    case ADJUST_RMS: return 0.2 * sqrt(fmax(m, n));
    case ADJUST_UNCLAMPED: return sqrt(m / n);
    }
    return 1;
}

void optimizer_direction(Program *p, Op *copy, int param)
{
    const Train *t = &p->train;
    const Param *of = &p->param.at[param];
    Type shape = param_shape(of);
    Value *part = copy->arg[0], *was = copy->out[0];
    Why why = {.text = arena_printf(p->arena, "Muon reads all of %s", of->name),
               .loc = of->loc, .origin = ORIGIN_OPTIMIZER};

    Build b = ir_build_at(p, copy, copy);
    Value *x = ir_cast(&b, part, t->precision);
    x->name = ir_unique_name(p, arena_printf(p->arena, "%s.averaged", of->value->name));
    x = optimizer_whole(&b, optimizer_gather_runs(&b, x, why), why);
    x = normalized(&b, x, optimizer_constant(p, copy, t->eps));
    x = iterations(&b, t, shape.dim[0] <= shape.dim[1] ? &wide : &tall, x);
    x = optimizer_take_part(&b, x, &part->type, why);
    x = ir_cast(&b, x, DT_F32);
    double factor = lr_factor(t, &shape);
    x = factor == 1 ? x : optimizer_scale(&b, x, factor);
    ir_replace_uses(copy->region, was, x);
    ir_remove(copy);
}
