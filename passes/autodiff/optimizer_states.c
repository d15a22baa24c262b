/* optimizer_states.c: updates the states of modules of an array in a loop over its
 * layers, where one kernel cannot compute all layers.
 *
 * before   %a = mul %s, %x : f32[4 x 8] optimizer           %s : f32[4 x ]
 *          %m.new = add %m, %a : f32[4 x 8] optimizer
 *          assign{param="layers.*.m"} %m.new optimizer
 * after    %m.new = loop{n=4, reverse=false} : f32[4 x 8] optimizer {
 *            stack %s.2 = %s : f32[]
 *            stack %x.2 = %x : f32[8]
 *            stack %m.2 = %m : f32[8]
 *            %a = mul %s.2, %x.2 : f32[8] optimizer
 *            %m.new.2 = add %m.2, %a : f32[8] optimizer
 *            yield %m.new.2
 *          }
 *          assign{param="layers.*.m"} %m.new optimizer
 *
 * That holds for operands of different shapes, and for ranks of a pipeline, which
 * have unequal numbers of layers. One loop updates all states whose arrays have
 * equal sizes.
 */
#include "passes/autodiff/autodiff.h"

typedef struct Updates {
    Program *p;
    const Type *like;   /* of one of the states */
    bool *taken;        /* by op id: computes the new value of such a state */
    bool needs_loop;
} Updates;

static bool same_stack(const Type *a, const Type *b)
{
    bool same = a->nstack == b->nstack && type_cut(a) == type_cut(b);
    for (int i = 0; same && i < a->nstack; i++)
        same = a->stack[i] == b->stack[i];
    return same;
}

static bool is_elementwise(const Op *op)
{
    const char *rule = op_info(op->kind)->rule;
    return rule && *rule == '=' && op->phase == PH_OPTIMIZER;
}

/* Whether no kernel computes the op for all layers. */
static bool needs_layers(const Op *op)
{
    const Type *all = &op->out[0]->type;
    bool needs = type_cut(all) > 0;
    for (int i = 0; i < op->nargs; i++) {
        const Type *t = &op->arg[i]->type;
        needs |= t->nstack > 0 && !type_same_shape(t, all);
    }
    return needs;
}

/* Marks the ops on stacks that compute v, up to the last conversion. */
static void take(Updates *u, const Value *v)
{
    const Op *op = v->def;
    if (!op || u->taken[op->id] || !same_stack(&v->type, u->like) || !is_elementwise(op))
        return;
    u->taken[op->id] = true;
    u->needs_loop |= needs_layers(op);
    for (int i = 0; i < op->nargs; i++)
        take(u, op->arg[i]);
}

static bool assigns_state(const Program *p, const Op *op)
{
    return op->kind == OP_assign && p->param.at[attr_param(op)].module_state &&
           op->arg[0]->type.nstack > 0;
}

typedef VEC(Op *) Ops;

static void move_all(const Ops *ops, Op *before)
{
    for (int i = 0; i < ops->n; i++)
        ir_move(ops->at[i], ops->at[i]->region, before);
}

/* Moves the ops that are taken to the last of them, and assignments after it;
 * returns the first, and in *end the op after the last. */
static Op *gather(const Updates *u, Op **end)
{
    Ops op = {0}, assign = {0}, passed = {0};
    for (Op *at = u->p->step->first; at; at = at->next) {
        if (u->taken[at->id]) {
            vec_push(u->p->arena, &op, at);
            assign = passed;
        }
        if (assigns_state(u->p, at))
            vec_push(u->p->arena, &passed, at);
    }
    *end = op.at[op.n - 1]->next;
    move_all(&op, *end);
    move_all(&assign, *end);
    *end = assign.n ? assign.at[0] : *end;
    return op.at[0];
}

/* Marks the optimizer's ops that v depends on. */
static void mark(bool *marked, const Value *v)
{
    const Op *op = v->def;
    if (!op || op->phase != PH_OPTIMIZER || marked[op->id])
        return;
    marked[op->id] = true;
    for (int i = 0; i < op->nargs; i++)
        mark(marked, op->arg[i]);
}

/* Gives loops to the ops before the conversions from which states are computed. */
static void before_conversions(Program *p)
{
    uint32_t nops = p->nops;
    bool *marked = NEW_ARRAY(p->arena, bool, nops);
    for_ops(op, p->step)
        if (assigns_state(p, op))
            mark(marked, op->arg[0]);
    for (Op *op = p->step->first, *next; op; op = next) {
        next = op->next;
        if (op->id < nops && marked[op->id] && is_elementwise(op) &&
            op->out[0]->type.nstack > 0 && needs_layers(op))
            optimizer_by_layers(p, op, next);
    }
}

void optimizer_states(Program *p)
{
    for (Op *op = p->step->first; op; op = op->next) {
        if (!assigns_state(p, op) || !op->arg[0]->def || op->arg[0]->def->kind == OP_loop)
            continue;
        Updates u = {.p = p, .like = &op->arg[0]->type,
                     .taken = NEW_ARRAY(p->arena, bool, p->nops)};
        for (Op *other = op; other; other = other->next)
            if (assigns_state(p, other))
                take(&u, other->arg[0]);
        if (u.needs_loop) {
            Op *end, *first = gather(&u, &end);
            optimizer_by_layers(p, first, end);
        }
    }
    before_conversions(p);
}
