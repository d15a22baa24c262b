/* autodiff_update.c: from the parameters' gradients to their new values.
 *
 * In the order of Program.param, so that nothing depends on the walk: each
 * gradient is finished, the norm of all of them taken, then each parameter
 * and its optimizer states are updated and assigned.
 */
#include <string.h>

#include "base/bug.h"
#include "passes/autodiff.h"

/* The states that an optimizer keeps for each parameter. */
typedef struct StateSlots {
    int n;
    const char *slot[2];
} StateSlots;

static StateSlots state_slots(const Train *t)
{
    switch (t->optimizer) {
    case OPT_SGD:
        if (t->momentum == 0.0)
            return (StateSlots){0};
        return (StateSlots){1, {"momentum"}};
    case OPT_ADAM:
    case OPT_ADAMW:
        return (StateSlots){2, {"m", "v"}};
    }
    bug("optimizer %d", (int)t->optimizer);
}

/* The module that a parameter is declared in. */
static const char *module_path(Arena *a, const char *param)
{
    const char *dot = strrchr(param, '.');
    return dot ? arena_strndup(a, param, (size_t)(dot - param)) : "";
}

static Value *finish(Frame *f, int param, Value *d)
{
    Program *p = f->a->p;
    const Param *at = &p->param.at[param];
    Attr attr[MAX_ATTRS] = {{.i = param}};

    f->b.phase = PH_BACKWARD;
    f->b.loc = at->loc;
    f->b.path = module_path(p->arena, at->name);
    const char *hint = arena_printf(p->arena, "d%s", at->value->name);
    return ir_value(&f->b, OP_finish_grad, 1, &d, attr, hint);
}

/* sqrt of the sum of all squares */
static void put_norm(Build *b, Value **grads, int n)
{
    Value *sum = NULL;

    for (int i = 0; i < n; i++) {
        if (grads[i] == NULL)
            continue;
        Value *part = ir_unary(b, OP_sumsq, grads[i]);
        sum = sum ? ir_binary(b, OP_add, sum, part) : part;
    }
    if (sum == NULL)
        sum = ir_scalar_const(b, 0.0);
    Value *norm = ir_value(b, OP_sqrt, 1, &sum, NULL, "grad_norm");
    Attr attr[MAX_ATTRS] = {{.s = "grad_norm"}};
    ir_op(b, OP_output, 1, &norm, attr, NULL);
}

static Value *add_state(Build *b, int of, const char *slot)
{
    Program *p = b->p;
    Param state = p->param.at[of];

    state.name = arena_printf(p->arena, "%s.%s", state.name, slot);
    state.init = (Init){.kind = INIT_ZEROS};
    state.type.dtype = DT_F32;
    state.trainable = false;
    state.decay = false;
    state.state_of = of;
    state.slot = slot;
    state.alias = NULL;
    state.nalias = 0;
    Attr attr[MAX_ATTRS] = {{.i = p->param.n}};
    const char *hint =
        arena_printf(p->arena, "%s.%s", p->param.at[of].value->name, slot);
    Op *op = ir_op_typed(b, OP_param, 0, NULL, attr, 1, &state.type, &hint);
    state.value = op->out[0];
    vec_push(p->arena, &p->param, state);
    return state.value;
}

static void put_assign(Build *b, int param, Value *v)
{
    Attr attr[MAX_ATTRS] = {{.i = param}};
    ir_op(b, OP_assign, 1, &v, attr, NULL);
}

enum { UPDATE_SCALARS = 3, ARG_STATES = 2 + UPDATE_SCALARS };

static void put_update(Build *b, int param, Value *grad, Value *const *scalars)
{
    Program *p = b->p;
    StateSlots slots = state_slots(&p->train);
    Value *args[ARG_STATES + 2] = {p->param.at[param].value, grad};
    int n = 2, first_state = p->param.n;

    for (int i = 0; i < UPDATE_SCALARS; i++)
        args[n++] = scalars[i];
    b->loc = p->param.at[param].loc;
    b->path = module_path(p->arena, p->param.at[param].name);
    for (int i = 0; i < slots.n; i++)
        args[n++] = add_state(b, param, slots.slot[i]);
    Attr attr[MAX_ATTRS] = {{.i = param}};
    const char *hint = arena_printf(p->arena, "%s.new", args[0]->name);
    Op *op = ir_op(b, OP_update, n, args, attr, hint);
    put_assign(b, param, op->out[0]);
    for (int i = 0; i < slots.n; i++) {
        hint = arena_printf(p->arena, "%s.new", args[ARG_STATES + i]->name);
        op->out[1 + i]->name = ir_unique_name(p, hint);
        put_assign(b, first_state + i, op->out[1 + i]);
    }
}

static Value *put_scalar(Build *b, const char *name)
{
    Attr attr[MAX_ATTRS] = {{.s = name}};
    return ir_value(b, OP_scalar, 0, NULL, attr, name);
}

void autodiff_update(Frame *f)
{
    Program *p = f->a->p;
    int n = p->param.n;
    Value **grads = NEW_ARRAY(p->arena, Value *, n + 1);

    for (int i = 0; i < n; i++) {
        Param *at = &p->param.at[i];
        if (!at->trainable || at->state_of >= 0 || at->value == NULL)
            continue;
        Value *d = autodiff_collect(f, at->value);
        if (d != NULL)
            grads[i] = finish(f, i, d);
    }
    f->b.phase = PH_OPTIMIZER;
    f->b.loc = p->train.loc;
    f->b.path = "";
    put_norm(&f->b, grads, n);
    Value *scalars[UPDATE_SCALARS] = {put_scalar(&f->b, "lr"),
                                      put_scalar(&f->b, "bias1"),
                                      put_scalar(&f->b, "bias2")};
    for (int i = 0; i < n; i++)
        if (grads[i] != NULL)
            put_update(&f->b, i, grads[i], scalars);
}
