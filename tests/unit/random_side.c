/* random_side.c: makes side programs of a random model, and compares them
 * with the reference after a pass.
 *
 * The random model draws its random numbers in a side program too: with the
 * same key the loss of the side program is that of the training step.
 */
#include "ir/memory.h"
#include "passes/side_program.h"
#include "tests/unit/random.h"

#include <math.h>
#include <string.h>

static Program *side_program(Program *p, Purpose purpose)
{
    Program *f = ir_copy(p);
    f->purpose = purpose;
    f->training = p;
    for (Op *op = f->step->first, *next; op; op = next) {
        next = op->next;
        if (op->kind == OP_assign) /* of a module's state */
            ir_remove(op);
    }
    ir_eliminate_dead(f);
    return f;
}

/* The last value of the step that can be an output: a tensor whose first dim is
 * the batch; NULL: there is none. */
static Op *last_tensor(const Program *p)
{
    Op *last = NULL;
    for (Op *op = p->step->first; op; op = op->next) {
        if (op->phase != PH_FORWARD || op->nouts == 0 || op->kind == OP_param ||
            op->kind == OP_input)
            continue;
        const Type *t = &op->out[0]->type;
        if (t->nstack == 0 && t->ndim > 0 && dtype_is_float(t->dtype) &&
            t->dim[0] == p->train.batch)
            last = op;
    }
    return last;
}

/* Replaces the loss by an output that is a tensor. */
static bool output_tensor(Program *f)
{
    const Op *last = last_tensor(f);
    Op *loss = f->step->last;
    while (loss && loss->kind != OP_output)
        loss = loss->prev;
    if (!last || !loss)
        return false;
    Value *v = last->out[0];
    Output of = {.name = v->name, .ndim = v->type.ndim};
    memcpy(of.dim, v->type.dim, sizeof of.dim);
    vec_push(f->arena, &f->output, of);
    loss->arg[0] = v;
    set_attr_name(loss, v->name);
    f->train.accumulate = 1;
    f->train.head_chunk = 0;
    ir_eliminate_dead(f);
    return true;
}

void random_side(Program *p)
{
    Program *loss = side_program(p, FOR_LOSS);
    Program *outputs = side_program(p, FOR_OUTPUTS);
    p->side[FOR_LOSS] = loss;
    if (output_tensor(outputs))
        p->side[FOR_OUTPUTS] = outputs;
}

/* Compares an output, which may be padded, with the value of the same name in
 * the reference. */
static const char *compare_tensor(const Program *f, const Output *of,
                                  Interp *global, Interp *in, double tolerance)
{
    Type t, u;
    const double *y = interp_value(in, program_output(f, of->name)->name, &t);
    const double *x = interp_value(global, of->name, &u);
    if (!x || !y)
        return "an output has no value";
    int64_t n = 1;
    for (int d = 0; d < of->ndim; d++)
        n *= of->dim[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0, rest = i, stride = 1;
        for (int d = of->ndim - 1; d >= 0; d--) {
            at += rest % of->dim[d] * stride;
            rest /= of->dim[d];
            stride *= t.dim[d];
        }
        if (!(fabs(x[i] - y[at]) <= tolerance * (1 + fabs(x[i]))))
            return arena_printf(f->arena,
                                "output '%s', element %lld: %.17g, and %.17g "
                                "in the side program", of->name,
                                (long long)i, x[i], y[at]);
    }
    return NULL;
}

static const char *compare_loss(const Program *f, Interp *global, Interp *in,
                                double tolerance)
{
    double x, y;
    if (!interp_output(global, "loss", &x) || !interp_output(in, "loss", &y))
        return "there is no loss";
    if (fabs(x - y) <= tolerance * (1 + fabs(x)))
        return NULL;
    return arena_printf(f->arena, "the loss is %.17g, and %.17g in the forward "
                        "program", x, y);
}

static const char *check_one(Program *f, Interp *global, uint64_t seed,
                             double tolerance)
{
    const char *fault = ir_verify(f);
    if (fault || f->stage < STAGE_PARTITIONED)
        return fault;
    Interp *in = interp_new(f);
    random_values(in, f, seed);
    fault = interp_run(in);
    if (!fault && f->purpose == FOR_LOSS)
        fault = compare_loss(f, global, in, tolerance);
    else if (!fault)
        fault = compare_tensor(f, &f->output.at[0], global, in, tolerance);
    if (!fault && f->memory)
        fault = check_memory(f, in);
    fault = fault ? arena_strdup(f->arena, fault) : NULL;
    interp_free(in);
    return fault;
}

/* No tensor of a side program overwrites what the training step keeps. */
static const char *check_resident(const Program *f)
{
    const MemoryPlan *m = f->memory, *t = f->training->memory;
    for (int i = 0; i < m->nblocks; i++) {
        const Block *b = &m->block[i];
        if (!b->training && !b->host && b->offset < t->resident)
            return arena_printf(f->arena, "block '%s' of the side program "
                                "overwrites the training step's", b->name);
    }
    if (m->own != t->own || m->extent != t->extent)
        return "the programs have arenas of different sizes";
    return side_differs(f);
}

const char *check_side_programs(const Program *p, Interp *global, uint64_t seed,
                          double tolerance)
{
    const char *fault = NULL;
    for (int k = 0; k < PURPOSES && !fault; k++) {
        Program *f = p->side[k];
        if (!f)
            continue;
        fault = check_one(f, global, seed, tolerance);
        if (!fault && f->memory)
            fault = check_resident(f);
        if (fault)
            fault = arena_printf(p->arena, "%s: %s", purpose_words[k], fault);
    }
    return fault;
}
