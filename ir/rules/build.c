/* build.c: builds ops with inferred result types and derived placements. */
#include <string.h>

#include "base/bug.h"
#include "ir/internal.h"
#include "ir/rules/rules.h"

enum { MAX_ARGS_ON_STACK = 16 };

Build ir_build_at(Program *p, const Op *like, Op *before)
{
    return (Build){p, like->region, before, like->phase, like->loc, like->path,
                   like->piece};
}

/* ---- one op -------------------------------------------------------------- */

static Op *start_op(Build *b, OpKind kind, int nargs, Value *const *args,
                    const Attr *attr, int nouts)
{
    Op *op = ir_raw_op(b->p, kind, nargs, nouts);
    for (int i = 0; i < nargs; i++)
        op->arg[i] = args[i];
    for (int i = 0; op_info(kind)->attr[i]; i++)
        op->attr[i] = attr[i];
    op->phase = b->phase;
    op->loc = b->loc;
    op->path = b->path ? b->path : "";
    op->piece = b->piece;
    return op;
}

Op *ir_op_typed(Build *b, OpKind kind, int nargs, Value *const *args,
                const Attr *attr, int nouts, const Type *types,
                const char *const *hints)
{
    Op *op = start_op(b, kind, nargs, args, attr, nouts);
    for (int i = 0; i < nouts; i++) {
        const char *hint = hints && hints[i] ? hints[i] : op_info(kind)->name;
        ir_set_out(op, i, ir_new_value(b->p, hint, types[i], b->loc));
    }
    ir_insert(op, b->region, b->before);
    return op;
}

/* Ops for a parameter or input get its placement; views of a tensor get its
 * operand's. */
static void place_structural(const Program *p, Op *op)
{
    if (op->kind == OP_param)
        op->out[0]->type = p->param.at[attr_param(op)].type;
    if (op->kind == OP_input)
        op->out[0]->type = p->input.at[attr_input(op)].type;
    if (op->kind == OP_finish_grad || op->kind == OP_fold ||
        op->kind == OP_unfold)
        op->out[0]->type.place = op->arg[0]->type.place;
    if (op->kind == OP_update)
        for (int i = 0; i < op->nouts; i++)
            op->out[i]->type.place = update_old(op, i)->type.place;
}

static void place_results(const Program *p, Op *op)
{
    if (!op_info(op->kind)->rule) {
        place_structural(p, op);
        return;
    }
    if (p->stage < STAGE_PARTITIONED)
        return;
    Rule r;
    Placement result[MAX_RULE_TENSORS] = {0};
    rule_of(p, op, &r);
    const char *fault = rule_derive(p, op, &r, result, NULL);
    if (fault)
        bug("new op %s: %s", op_info(op->kind)->name, fault);
    for (int i = 0; i < op->nouts; i++)
        op->out[i]->type.place = result[i];
}

Op *ir_op(Build *b, OpKind kind, int nargs, Value *const *args,
          const Attr *attr, const char *hint)
{
    Type few[MAX_ARGS_ON_STACK], *types = few;
    if (nargs + MAX_MORE_RESULTS > MAX_ARGS_ON_STACK)
        types = NEW_ARRAY(b->p->arena, Type, nargs + MAX_MORE_RESULTS);
    int nouts;
    if (op_is_conversion(kind))
        bug("op %s changes placements: its results need types",
            op_info(kind)->name);
    const char *fault = ir_infer(b->p, kind, nargs, args, attr, types, &nouts);
    for (int i = 0; i < nouts && fault; i++)
        ir_check_size(b->p, &types[i], b->loc);
    if (fault)
        bug("new op %s: %s", op_info(kind)->name, fault);
    Op *op = start_op(b, kind, nargs, args, attr, nouts);
    for (int i = 0; i < nouts; i++)
        ir_set_out(op, i,
                   ir_new_value(b->p, hint ? hint : op_info(kind)->name,
                                types[i], b->loc));
    place_results(b->p, op);
    ir_insert(op, b->region, b->before);
    return op;
}

Value *ir_value(Build *b, OpKind kind, int nargs, Value *const *args,
                const Attr *attr, const char *hint)
{
    return ir_op(b, kind, nargs, args, attr, hint)->out[0];
}

/* ---- shorthands ---------------------------------------------------------- */

Value *ir_unary(Build *b, OpKind kind, Value *x)
{
    return ir_value(b, kind, 1, &x, NULL, NULL);
}

Value *ir_binary(Build *b, OpKind kind, Value *x, Value *y)
{
    return ir_value(b, kind, 2, (Value *[]){x, y}, NULL, NULL);
}

static AttrList list_of(int n, const int64_t *v)
{
    AttrList l = {.n = n};
    if (n > MAX_DIMS)
        bug("a list of %d dims", n);
    for (int i = 0; i < n; i++)
        l.v[i] = v[i];
    return l;
}

Value *ir_full(Build *b, double value, DType t, int ndim, const int64_t *dim)
{
    Attr attr[] = {{.f = value}, {.i = t}, {.l = list_of(ndim, dim)}};
    return ir_value(b, OP_full, 0, NULL, attr, NULL);
}

Value *ir_scalar_const(Build *b, double value)
{
    return ir_full(b, value, DT_F32, 0, NULL);
}

Value *ir_step_scalar(Build *b, const char *name)
{
    Attr attr[MAX_ATTRS] = {{.s = name}};
    return ir_value(b, OP_scalar, 0, NULL, attr, name);
}

Value *ir_sum(Build *b, Value *x, AttrList dims, bool keep)
{
    Attr attr[] = {{.l = dims}, {.i = keep}};
    return ir_value(b, OP_sum, 1, &x, attr, NULL);
}

Value *ir_max(Build *b, Value *x, AttrList dims, bool keep)
{
    Attr attr[] = {{.l = dims}, {.i = keep}};
    return ir_value(b, OP_max, 1, &x, attr, NULL);
}

Value *ir_reshape(Build *b, Value *x, int ndim, const int64_t *dim)
{
    Attr attr[] = {{.l = list_of(ndim, dim)}};
    return ir_value(b, OP_reshape, 1, &x, attr, NULL);
}

Value *ir_broadcast(Build *b, Value *x, int ndim, const int64_t *dim)
{
    Attr attr[] = {{.l = list_of(ndim, dim)}};
    return ir_value(b, OP_broadcast, 1, &x, attr, NULL);
}

Value *ir_transpose(Build *b, Value *x, AttrList perm)
{
    Attr attr[] = {{.l = perm}};
    return ir_value(b, OP_transpose, 1, &x, attr, NULL);
}

Value *ir_einsum(Build *b, const char *spec, DType t, Value *x, Value *y)
{
    Attr attr[] = {{.s = spec}, {.i = t}};
    return ir_value(b, OP_einsum, 2, (Value *[]){x, y}, attr, NULL);
}

Value *ir_cast(Build *b, Value *x, DType t)
{
    Attr attr[] = {{.i = t}};
    return x->type.dtype == t ? x : ir_value(b, OP_cast, 1, &x, attr, NULL);
}

Op *ir_group_rows(Build *b, Value *ids, AttrList shape, int64_t limit, const char *hint)
{
    Attr attr[MAX_ATTRS] = {{.l = shape}, {.i = limit}};
    Value *args[] = {ids, ir_full(b, 0, DT_I32, 0, NULL)};
    return ir_op(b, OP_group_rows, 2, args, attr, hint);
}

Value *ir_boundary(Build *b, Value *x, const char *path, Port port,
                   bool grad)
{
    Attr attr[MAX_ATTRS] = {{.s = path}, {.port = port}, {.i = grad}};
    return ir_value(b, OP_boundary, 1, &x, attr, x->name);
}

Value *ir_add_state(Build *b, int of, const char *name, const Type *t, InitKind init)
{
    Program *p = b->p;
    Param state = p->param.at[of];
    const char *hint = arena_printf(p->arena, "%s.%s", state.value->name, name);
    Attr attr[MAX_ATTRS] = {{.i = p->param.n}};
    state.name = arena_printf(p->arena, "%s.%s", state.name, name);
    bool follows = type_same_shape(&state.type, t);
    state.type = *t;
    state.init = (Init){.kind = init};
    state.trainable = state.decay = state.gathered = state.module_state = false;
    state.group = (ParamGroup){0};
    state.state_of = of;
    state.state = name;
    if (!follows || param_is_mean(p, &state))
        memset(&state.split, 0, sizeof state.split);
    state.alias = NULL;
    state.file = NULL;
    state.nalias = state.nfile = 0;
    Op *op = ir_op_typed(b, OP_param, 0, NULL, attr, 1, &state.type, &hint);
    state.value = op->out[0];
    vec_push(p->arena, &p->param, state);
    return state.value;
}
