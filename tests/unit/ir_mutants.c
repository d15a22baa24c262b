/* ir_mutants.c: puts faults into the collectives of a program (ir_mutants.h).
 *
 * A fault simulates a compiler bug: the op changes, and all later placements
 * are derived as that compiler would have derived them.
 */
#include "tests/unit/ir_mutants.h"

#include "ir/rules/rules.h"

/* ---- ops that a fault can change ----------------------------------------- */

typedef struct Find {
    int number; /* number of the op to find; counted down */
    Op *op;
} Find;

static void find_nth(Op *op, void *context)
{
    Find *f = context;
    if (op_is_conversion(op->kind) && f->number-- == 0)
        f->op = op;
}

Op *mutable_op(const Program *p, int n)
{
    Find f = {n, NULL};
    ir_walk(p->step, find_nth, &f);
    return f.op;
}

int mutable_ops(const Program *p)
{
    Find f = {0, NULL};
    ir_walk(p->step, find_nth, &f);
    return -f.number;
}

static bool is_read(const Op *op)
{
    for (int i = 0; i < op->nouts; i++)
        if (ir_count_uses(op->out[i]) > 0)
            return true;
    return false;
}

int fault_count(const Program *p, const Op *op, FaultKind kind)
{
    if (!is_read(op))
        return 0;
    if (kind == ASTRAY)
        return 1 << p->mesh.n;
    if (kind == REDIRECTED)
        return op->kind == OP_move;
    if (kind == ONE_OUT || kind == EXCHANGED)
        return op->nargs == 1 ? 0 : op->nargs - (kind == EXCHANGED);
    return 1;
}

/* ---- placements that the faulty compiler derives ------------------------- */

/* The type of an operand in the loop's body. */
static Type inside(const Op *op, int i)
{
    Type t = op->arg[i]->type;
    bool loop = op->kind == OP_loop;
    if (loop && loop_is_stack(op, i))
        type_pop_stack(&t);
    for (int a = 0; a < MAX_AXES && loop && op->cut && i < op->ncarry; a++)
        if (t.place.ax[a].kind == AX_AT)
            t.place.ax[a] = (AxisPlace){AX_HERE, 0, 0};
    return t;
}

/* The type of a yield outside of the loop. */
static Type outside(const Program *p, const Op *op, int i)
{
    Type t = op->body->yield[i]->type;
    if (op->kind == OP_loop && i < op->ncarry)
        return loop_carry_type(p, op, t, true);
    if (op->kind == OP_loop)
        type_push_stack(&t, loop_trips(op), op->cut);
    return t;
}

static bool derive_region(Program *p, Region *r);

static bool derive_body(Program *p, Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        op->body->arg[i]->type = inside(op, i);
    if (!derive_region(p, op->body))
        return false;
    for (int i = 0; i < op->nouts; i++)
        op->out[i]->type.place = outside(p, op, i).place;
    return true;
}

/* A conversion changes the axes that it names and no others. */
static void derive_conversion(const Program *p, Op *op)
{
    int64_t axes = attr_axes(op);
    for (int i = 0; i < op->nargs; i++)
        for (int a = 0; a < p->mesh.n; a++)
            if (!(axes >> a & 1))
                op->out[i]->type.place.ax[a] = op->arg[i]->type.place.ax[a];
}

/* False if an op has no valid placement for its operands. */
static bool derive_op(Program *p, Op *op)
{
    if (op->body)
        return derive_body(p, op);
    if (op_is_conversion(op->kind))
        derive_conversion(p, op);
    if (op->kind == OP_finish_grad)
        op->out[0]->type = op->arg[0]->type;
    if (!op_info(op->kind)->rule)
        return true;
    Rule r;
    Placement place[MAX_RULE_TENSORS];
    rule_of(p, op, &r);
    for (int i = 0; i < op->nouts; i++)
        place[i] = op->out[i]->type.place;
    if (rule_derive(p, op, &r, place, NULL))
        return false;
    for (int i = 0; i < op->nouts; i++)
        op->out[i]->type.place = place[i];
    return true;
}

static bool derive_region(Program *p, Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        if (!derive_op(p, op))
            return false;
    return true;
}

bool derive_placements(Program *p)
{
    return derive_region(p, p->step);
}

/* ---- faults -------------------------------------------------------------- */

static bool leave_out(Program *p, Op *op)
{
    for (int i = 0; i < op->nouts; i++)
        ir_replace_uses(p->step, op->out[i], op->arg[i]);
    ir_remove(op);
    return true;
}

static bool do_twice(Program *p, Op *op)
{
    Value **map = NEW_ARRAY(p->arena, Value *, p->nvalues);
    Build b = {.p = p,
               .region = op->region,
               .before = op->next,
               .phase = op->phase,
               .path = ""};
    Op *second = ir_clone(&b, op, map);
    for (int i = 0; i < op->nouts; i++) {
        ir_replace_uses(op->region, op->out[i], second->out[i]);
        second->arg[i] = op->out[i];
    }
    return true;
}

/* Gives `axis` of t the placement that the op gave its own axes in `was`; if
 * that splits a dim, `axis` becomes the minor axis of the dim. */
static void change_axis(const Program *p, const Type *was, int64_t own,
                        Type *t, int axis)
{
    AxisPlace to = {AX_R, 0, 0};
    for (int a = 0; a < p->mesh.n; a++)
        if (own >> a & 1)
            to = was->place.ax[a];
    to.order = 0;
    for (int a = 0; a < p->mesh.n; a++)
        if (to.kind == AX_S && a != axis && t->place.ax[a].kind == AX_S &&
            t->place.ax[a].dim == to.dim)
            to.order++;
    t->place.ax[axis] = to;
}

static bool send_astray(Program *p, Op *op, int64_t axes)
{
    int64_t own = attr_axes(op);
    if (!axes || axes == own)
        return false;
    set_attr_axes(op, (uint32_t)axes);
    for (int i = 0; i < op->nouts && op_is_conversion(op->kind); i++) {
        Type was = op->out[i]->type;
        op->out[i]->type.place = op->arg[i]->type.place;
        for (int a = 0; a < p->mesh.n; a++)
            if (axes >> a & 1)
                change_axis(p, &was, own, &op->out[i]->type, a);
    }
    return true;
}

static bool redirect(const Program *p, Op *op)
{
    int axis = __builtin_ctz(attr_axes(op));
    AxisPlace *to = &op->out[0]->type.place.ax[axis];
    to->dim = (uint8_t)((to->dim + 1) % p->mesh.size[axis]);
    return to->kind == AX_AT;
}

static bool leave_one_out(Program *p, Op *op, int which)
{
    ir_replace_uses(p->step, op->out[which], op->arg[which]);
    op->nargs--;
    op->nouts--;
    for (int i = which; i < op->nouts; i++) {
        op->arg[i] = op->arg[i + 1];
        op->out[i] = op->out[i + 1];
        op->out[i]->index = i;
    }
    return true;
}

/* The sum that v is a term of, which a kernel may compute; v itself if it is
 * none. */
static const Value *sum_of(const Value *v)
{
    const Op *op = v->def ? v->def->next : v->region->first;
    if (ir_count_uses(v) != 1)
        return v;
    for (; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v)
                continue;
            return op->kind == OP_fused ? sum_of(op->body->arg[i])
                   : op->kind == OP_add ? sum_of(op->out[0])
                                        : v;
        }
    const Op *kernel = v->region->owner;
    for (int i = 0; kernel && kernel->kind == OP_fused && i < kernel->nouts; i++)
        if (kernel->body->yield[i] == v)
            return sum_of(kernel->out[i]);
    return v;
}

static bool exchange(Op *op, int which)
{
    Value **arg = &op->arg[which];
    /* The terms of a sum may be exchanged. */
    if (arg[0] == arg[1] ||
        sum_of(op->out[which]) == sum_of(op->out[which + 1]) || !type_equal(&arg[0]->type, &arg[1]->type) ||
        !type_equal(&op->out[which]->type, &op->out[which + 1]->type))
        return false;
    Value *first = arg[0];
    arg[0] = arg[1];
    arg[1] = first;
    return true;
}

bool inject(Program *p, int n, Fault fault)
{
    Op *op = mutable_op(p, n);
    switch (fault.kind) {
    case LEFT_OUT: return leave_out(p, op);
    case TWICE: return do_twice(p, op);
    case ASTRAY: return send_astray(p, op, fault.which);
    case REDIRECTED: return redirect(p, op);
    case ONE_OUT: return leave_one_out(p, op, fault.which);
    case EXCHANGED: return exchange(op, fault.which);
    }
    return false;
}
