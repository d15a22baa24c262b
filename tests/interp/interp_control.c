/* interp_control.c: evaluates parameters, inputs, scalars, outputs, loops and
 * fused bodies. */
#include "tests/interp/interp_impl.h"

#include <string.h>

/* ---- inputs and outputs of the step ------------------------------------- */

static void from_outside(Interp *in, const Op *op, const double *global,
                         const char *name)
{
    const Value *v = op->out[0];
    if (!global)
        interp_fail(in, op, "'%s' has not been set", name);
    else
        interp_split(in, &v->type, global, in->slot[v->id].at);
}

void interp_param_op(Interp *in, const Op *op)
{
    int64_t i = attr_param(op);
    from_outside(in, op, in->param[i], in->p->param.at[i].name);
}

void interp_input_op(Interp *in, const Op *op)
{
    int64_t i = attr_input(op);
    from_outside(in, op, in->input[i], in->p->input.at[i].name);
}

void interp_scalar_op(Interp *in, const Op *op)
{
    const char *name = attr_name(op);
    const double *value = NULL;
    for (int i = 0; i < in->scalar.n; i++)
        if (strcmp(in->scalar.at[i].name, name) == 0)
            value = &in->scalar.at[i].value;
    from_outside(in, op, value, name);
}

/* The padding of a parameter must be zero. */
static void check_zeros(Interp *in, const Op *op, const Param *param,
                        const double *parts)
{
    int64_t n = type_elements(&param->type);
    double *whole = NEW_ARRAY(in->arena, double, n + 1);
    interp_assemble(in, &param->type, parts, whole);
    for (int64_t i = 0; i < n && !in->error; i++)
        if (param_true_index(param, i) < 0 && !(whole[i] == 0))
            interp_fail(in, op, "'%s' has %g in its padding", param->name,
                        whole[i]);
}

/* The assigned value must have the parameter's placement. */
void interp_assign(Interp *in, const Op *op)
{
    int64_t i = attr_param(op);
    const Param *param = &in->p->param.at[i];
    const Value *v = op->arg[0];
    const Slot *slot = &in->slot[v->id];
    Shape s;
    interp_shape(in, &param->type, &s);
    for (int a = 0; a < in->mesh.n; a++)
        if (v->type.place.ax[a].kind != param->type.place.ax[a].kind ||
            v->type.place.ax[a].dim != param->type.place.ax[a].dim)
            interp_fail(in, op, "'%s' is %s, but is assigned a %s", param->name,
                        type_text(in->arena, &param->type, &in->mesh),
                        type_text(in->arena, &v->type, &in->mesh));
    if (in->assigned[i])
        interp_fail(in, op, "'%s' is assigned twice", param->name);
    if (s.n != slot->shape.n)
        interp_fail(in, op, "'%s' has %lld elements on a rank, not %lld",
                    param->name, (long long)s.n, (long long)slot->shape.n);
    if (in->error)
        return;
    interp_check_padding(in, op, &v->type, slot->at);
    in->assigned[i] = arena_copy(in->arena, slot->at,
                                 sizeof(double) * (size_t)(in->ranks * s.n));
    if (param_is_padded(param))
        check_zeros(in, op, param, in->assigned[i]);
}

void interp_output_op(Interp *in, const Op *op)
{
    const Value *v = op->arg[0];
    if (v->type.ndim > 0 && in->p->purpose == FOR_OUTPUTS) {
        double *whole = NEW_ARRAY(in->arena, double, type_elements(&v->type) + 1);
        interp_assemble(in, &v->type, in->slot[v->id].at, whole);
        return; /* interp_value returns it */
    }
    if (type_elements(&v->type) != 1) {
        interp_fail(in, op, "%%%s is not a single number", v->name);
        return;
    }
    NamedScalar s = {attr_name(op), 0};
    interp_assemble(in, &v->type, in->slot[v->id].at, &s.value);
    vec_push(in->arena, &in->output, s);
}

/* ---- bodies ------------------------------------------------------------ */

static void copy_elements(Interp *in, const Op *op, const Value *from,
                          const Value *to)
{
    if (!in->slot[from->id].at) {
        interp_fail(in, op, "%%%s has not been computed", from->name);
        return;
    }
    Slot *slot = interp_make(in, to);
    if (slot->shape.n != in->slot[from->id].shape.n)
        interp_fail(in, op, "%%%s and %%%s differ in size", from->name,
                    to->name);
    else
        memcpy(slot->at, in->slot[from->id].at,
               sizeof(double) * (size_t)(in->ranks * slot->shape.n));
}

/* Copies one layer between a stack and a slice, on all ranks. */
static void copy_layer(Interp *in, const Op *op, const Value *stack,
                       const Value *slice, int64_t layer, bool into_stack)
{
    if (!into_stack)
        interp_make(in, slice);
    const Slot *whole = &in->slot[stack->id], *part = &in->slot[slice->id];
    int64_t n = part->shape.n, all = whole->shape.n;
    if (!part->at || n * loop_trips(op) != all) {
        interp_fail(in, op, "%%%s is not a layer of %%%s", slice->name,
                    stack->name);
        return;
    }
    for (int64_t rank = 0; rank < in->ranks; rank++) {
        double *big = whole->at + rank * all + layer * n;
        double *small = part->at + rank * n;
        memcpy(into_stack ? big : small, into_stack ? small : big,
               sizeof(double) * (size_t)n);
    }
}

/* Assigns all carries simultaneously: one may yield another's argument. */
static void take_carries(Interp *in, const Op *op)
{
    const Region *body = op->body;
    double **next = NEW_ARRAY(in->arena, double *, op->ncarry + 1);
    for (int i = 0; i < op->ncarry; i++) {
        const Slot *slot = &in->slot[body->yield[i]->id];
        if (!slot->at || slot->shape.n != in->slot[body->arg[i]->id].shape.n) {
            interp_fail(in, op, "yield %d does not fit its carry", i);
            return;
        }
        next[i] =
            arena_copy(in->arena, slot->at,
                       sizeof(double) * (size_t)(in->ranks * slot->shape.n));
    }
    for (int i = 0; i < op->ncarry; i++) {
        Slot *slot = &in->slot[body->arg[i]->id];
        memcpy(slot->at, next[i],
               sizeof(double) * (size_t)(in->ranks * slot->shape.n));
        interp_check_equal(in, op, body->arg[i]);
    }
}

/* Lets the stage of the iteration work: the carries are passed to it. */
static void begin_stage(Interp *in, const Op *op, int64_t layer, bool first)
{
    int before = in->here;
    for (int a = 0; a < in->mesh.n && op->cut; a++)
        if (in->p->plan.pipeline.axes >> a & 1)
            in->here = (int)(cut_stage(&in->mesh, op->cut, layer) %
                             in->mesh.size[a]);
    for (int i = 0; i < op->nargs; i++) {
        const Value *v = op->body->arg[i];
        if (i < op->ncarry && !first && in->here != before)
            interp_pass(in, v, before, in->here);
        if (op->cut && !loop_is_free(op, i))
            interp_forget(in, v);
    }
}

void interp_loop(Interp *in, const Op *op)
{
    const Region *body = op->body;
    int64_t n = loop_trips(op);
    for (int i = 0; i < op->nargs; i++)
        if (i < op->ncarry || i >= op->ncarry + op->nstack)
            copy_elements(in, op, op->arg[i], body->arg[i]);
    for (int64_t iteration = 0; iteration < n && !in->error; iteration++) {
        int64_t layer = attr_reverse(op) ? n - 1 - iteration : iteration;
        in->layer[op->id] = layer;
        for (int i = op->ncarry; i < op->ncarry + op->nstack; i++)
            copy_layer(in, op, op->arg[i], body->arg[i], layer, false);
        begin_stage(in, op, layer, iteration == 0);
        interp_region(in, body);
        if (in->error)
            return;
        for (int i = op->ncarry; i < body->nyields; i++)
            copy_layer(in, op, op->out[i], body->yield[i], layer, true);
        take_carries(in, op);
    }
    for (int i = 0; i < op->ncarry && !in->error; i++)
        copy_elements(in, op, body->arg[i], op->out[i]);
}

void interp_fused(Interp *in, const Op *op)
{
    const Region *body = op->body;
    for (int i = 0; i < op->nargs; i++)
        copy_elements(in, op, op->arg[i], body->arg[i]);
    interp_region(in, body);
    for (int i = 0; i < op->nouts && !in->error; i++)
        copy_elements(in, op, body->yield[i], op->out[i]);
}

/* The schedule does not change what a step computes. */
void interp_nothing(Interp *in, const Op *op)
{
    (void)in, (void)op;
}
