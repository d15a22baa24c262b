/* optimizer_adafactor.c: computes Adafactor's update: the gradient divided by the root of a
 * mean of its squares, of which a matrix has the product of the means of rows and columns.
 *
 * A rank gathers the gradient of a matrix over the axes of FSDP, which split it into flat
 * runs; over a tensor axis it keeps its rows or columns, and collectives of the means complete
 * them. The means are those of the complete matrix, whole on all ranks. A vector's squares are
 * split as the vector is.
 *
 * before (a matrix [m, n], flat over dp)
 *   %copy.2 = copy %row : f32[64, 1]           %row, %column: the means of earlier steps
 *   %copy.3 = copy %column : f32[1, 256]
 *   %copy.4 = copy %g : f32[64, 256]~dp
 * after
 *   %g.all = all_gather{axes={dp}} %g : f32[64, 256]
 *   %row.new = row + share (mean over columns of g.all^2 - row) : f32[64, 1]
 *   %column.new = … : f32[1, 256]
 *   %root = rsqrt(max(row.new column.new / max(mean of row.new, eps1), eps1^2)) : f32[64, 256]
 *   %part = local_slice{axes={dp}} (root g.all) : f32[64, 256]~dp
 *   %rate.2 = rate max(rms(w), eps2) / max(rms(part) / clip_threshold, 1) : f32[]
 *   %direction = mul %part, %rate.2 : f32[64, 256]~dp
 *
 * rms(x) is sqrt(mean(x^2)) of the complete tensor: an all-reduce adds the squares of the ranks.
 *
 * Shazeer, Stern, "Adafactor: Adaptive Learning Rates with Sublinear Memory Cost", 2018; the
 * order of operations is that of torch.optim.Adafactor.
 */
#include <math.h>

#include "passes/autodiff/autodiff.h"

typedef struct Factoring {
    Program *p;
    Build b;
    const Op *at;
    Type shape; /* of the parameter, without padding */
    Why why;
} Factoring;

static Value *at_least(Factoring *f, Value *x, double least)
{
    return ir_binary(&f->b, OP_maximum, x, optimizer_constant(f->p, f->at, least));
}

/* The mean over a dim, which stays with size 1, whole on every rank. Padding is 0. */
static Value *mean(Factoring *f, Value *x, int dim)
{
    Value *sum = ir_sum(&f->b, x, (AttrList){1, {dim}}, true);
    sum = optimizer_whole(&f->b, sum, f->why);
    return optimizer_scale(&f->b, sum, 1 / (double)f->shape.dim[dim]);
}

/* old + share (new - old) */
static Value *moved(Factoring *f, Value *old, Value *new, Value *share)
{
    Value *way = ir_binary(&f->b, OP_sub, new, old);
    return ir_binary(&f->b, OP_add, old, ir_binary(&f->b, OP_mul, way, share));
}

/* The root of the mean square of a tensor of which x is a rank's part. */
static Value *rms(Factoring *f, Value *x)
{
    double n = 1;
    for (int d = 0; d < f->shape.ndim; d++)
        n *= (double)f->shape.dim[d];
    Value *total = optimizer_whole(&f->b, ir_unary(&f->b, OP_sumsq, x), f->why);
    return optimizer_scale(&f->b, ir_unary(&f->b, OP_sqrt, total), 1 / sqrt(n));
}

static void replace(Op *copy, Value *by)
{
    Value *was = copy->out[0];
    ir_replace_uses(copy->region, was, by);
    ir_swap_names(was, by);
    ir_remove(copy);
}

/* The mean squares of a matrix's gradient g, from the means of its rows and columns, which it
 * updates. */
static Value *matrix_squares(Factoring *f, const Factored *u, Value *g, Value *share)
{
    int rows = g->type.ndim - 2, columns = rows + 1;
    Value *square = ir_binary(&f->b, OP_mul, g, g);
    Value *row = moved(f, u->row->arg[0], mean(f, square, columns), share);
    Value *column = moved(f, u->column->arg[0], mean(f, square, rows), share);
    Value *all = at_least(f, mean(f, row, rows), f->p->train.eps1);
    Value *product = ir_binary(&f->b, OP_mul,
                               optimizer_split_like(&f->b, row, &g->type, f->why),
                               optimizer_split_like(&f->b, column, &g->type, f->why));
    replace(u->row, row);
    replace(u->column, column);
    all = optimizer_split_like(&f->b, all, &g->type, f->why); /* one for each matrix */
    return ir_binary(&f->b, OP_div, product, all);
}

static Value *vector_squares(Factoring *f, const Factored *u, Value *g, Value *share)
{
    Value *square = ir_binary(&f->b, OP_mul, g, g);
    square = moved(f, u->row->arg[0], square, share);
    replace(u->row, square);
    return square;
}

void optimizer_factored(Program *p, const Factored *u)
{
    const Train *t = &p->train;
    const Param *of = &p->param.at[u->param];
    Op *at = u->gradient;
    Factoring f = {.p = p, .b = ir_build_at(p, at, at), .at = at, .shape = param_shape(of)};
    f.why = (Why){.text = arena_printf(p->arena, "Adafactor reads all of %s", of->name),
                  .loc = of->loc, .origin = ORIGIN_OPTIMIZER};
    Value *part = at->arg[0], *g = part, *square;
    Value *share = ir_loop_inside(p, u->share, at->region);
    Value *rate = ir_loop_inside(p, u->rate, at->region);
    if (u->column) {
        g = optimizer_gather_runs(&f.b, part, f.why);
        square = matrix_squares(&f, u, g, share);
    } else {
        square = vector_squares(&f, u, g, share);
    }
    Value *root = ir_unary(&f.b, OP_rsqrt, at_least(&f, square, t->eps1 * t->eps1));
    Value *step = ir_binary(&f.b, OP_mul, root, g);
    if (u->column)
        step = optimizer_take_part(&f.b, step, &part->type, f.why);
    Value *size = at_least(&f, rms(&f, u->weight->arg[0]), t->eps2);
    rate = ir_binary(&f.b, OP_mul, rate, size);
    if (t->clip_threshold > 0) {
        Value *excess = optimizer_scale(&f.b, rms(&f, step), 1 / t->clip_threshold);
        rate = ir_binary(&f.b, OP_div, rate, at_least(&f, excess, 1));
    }
    step = ir_binary(&f.b, OP_mul, step, rate);
    replace(at, step);
    ir_remove(u->weight);
}
