/* defer_reduce.c: defers the all-reduce of gradients of shared KV heads.
 *
 * before   %b = all_reduce{axes={tp.rep}} %a : f32[8, 16]
 *          %x = einsum{…} %b, %w : f32[8, 64]+tp.kv
 *          %x.2 = mask_to_partial{axes={tp.rep}} %x : f32[8, 64]+tp.kv+tp.rep
 *          %y = add %x.2, %z : f32[8, 64]+tp.kv+tp.rep
 *          %dw = einsum{…} %b, %h : f32[16, 64]
 *          yield %y, %dw
 * after    %x = einsum{…} %a, %w : f32[8, 64]+tp.kv+tp.rep
 *          %y = add %x, %z : f32[8, 64]+tp.kv+tp.rep
 *          %dw = einsum{…} %a, %h : f32[16, 64]+tp.rep
 *          yield %y, %dw             and after the loop, for all layers:
 *          %dws.2 = all_reduce{axes={tp.rep}} %dws : f32[4 x 16, 64]
 *
 * Gradients of keys and values are Partial over the axis whose ranks share a KV
 * head. All ops up to the gradients of the weights, and up to the addition to
 * the gradient of the queries, are linear in them. So the all-reduce is done
 * once a step, on the small weight gradients, and together with the all-reduce
 * of the query gradient, which exists anyway.
 */
#include "passes/simplify/simplify.h"

#include <string.h>

typedef struct End {
    Op *op; /* the finish_grad that reads it; NULL: a stacked yield */
    int yield;
} End;

typedef struct Deferral {
    Program *p;
    Region *r;
    int axis;
    uint32_t nvalues;
    bool *partial; /* by value id: becomes Partial */
    VEC(Op *) reduce;
    VEC(Op *) share;
    VEC(End) end;
} Deferral;

static bool is_partial(const Deferral *l, const Value *v)
{
    return v->id < l->nvalues && l->partial[v->id];
}

static bool over_axis(const Deferral *l, const Op *op, OpKind kind)
{
    return op->kind == kind && op->nargs == 1 &&
           attr_axes(op) == 1u << l->axis;
}

/* Whether the op is linear in those of its operands that become Partial. */
static bool passes_on(const Deferral *l, const Op *op)
{
    const char *linear = op_info(op->kind)->linear;
    int n = 0, last = 0;
    for (int i = 0; i < op->nargs; i++)
        if (is_partial(l, op->arg[i])) {
            n++;
            last = i;
        }
    if (!op_info(op->kind)->rule || op->nouts != 1)
        return false;
    if (strcmp(linear, "all") == 0)
        return n == op->nargs;
    return n == 1 && strncmp(linear, "one", 3) == 0 &&
           strchr(linear, '0' + last);
}

/* Whether v is the gradient of keys or values, possibly reshaped or rotated. */
static bool is_of_heads(const Value *v)
{
    while (v->def && v->def->nargs > 0 &&
           (v->def->kind == OP_rotary || v->def->nargs == 1) &&
           op_info(v->def->kind)->linear[0])
        v = v->def->arg[0];
    return v->def && v->def->kind == OP_attention_grad;
}

/* Follows the partial sums to the ops that need them reduced; false: they
 * cannot be deferred. */
static bool follow_partial(Deferral *l)
{
    Arena *a = l->p->arena;
    for (Op *op = l->r->first; op; op = op->next)
        if (over_axis(l, op, OP_all_reduce) && is_of_heads(op->arg[0])) {
            vec_push(a, &l->reduce, op);
            l->partial[op->out[0]->id] = true;
        } else if (!op_reads_any(op, l->partial)) {
            continue;
        } else if (over_axis(l, op, OP_mask_to_partial)) {
            vec_push(a, &l->share, op);
        } else if (op->kind == OP_finish_grad) {
            vec_push(a, &l->end, ((End){op, 0}));
        } else if (passes_on(l, op)) {
            l->partial[op->out[0]->id] = true;
        } else {
            return false;
        }
    for (int i = 0; i < l->r->nyields; i++) {
        if (!is_partial(l, l->r->yield[i]))
            continue;
        if (i < l->r->owner->ncarry)
            return false;
        vec_push(a, &l->end, ((End){NULL, i}));
    }
    return l->reduce.n > 0;
}

static Value *reduce_after(Deferral *l, Build *b, Value *v)
{
    Type t = v->type;
    t.place.ax[l->axis] = (AxisPlace){AX_R, 0, 0};
    Attr attr[MAX_ATTRS] = {{.i = (int64_t)1 << l->axis}};
    Op *op = ir_op_typed(b, OP_all_reduce, 1, &v, attr, 1, &t, &v->name);
    op->why = l->reduce.at[0]->why;
    op->why.text = "ranks that share a head sum their parts of its gradient";
    op->why.origin = ORIGIN_GRADIENT;
    for (int a = 0; a < l->p->mesh.n; a++)
        op->out[0]->why[a] = v->why[a];
    return op->out[0];
}

static void put_end(Deferral *l, const End *end)
{
    if (end->op) {
        Build b = {.p = l->p, .region = l->r, .before = end->op, .phase = PH_BACKWARD,
                   .loc = end->op->loc, .path = end->op->path};
        end->op->arg[0] = reduce_after(l, &b, end->op->arg[0]);
        return;
    }
    Op *loop = l->r->owner;
    Value *stack = loop->out[end->yield];
    stack->type.place.ax[l->axis] = (AxisPlace){AX_P, 0, 0};
    Build b = {.p = l->p, .region = loop->region, .before = loop->next,
               .phase = PH_BACKWARD, .loc = loop->loc, .path = loop->path};
    Value *sum = reduce_after(l, &b, stack);
    ir_replace_uses(loop->region, stack, sum);
    sum->def->arg[0] = stack;
}

static void apply(Deferral *l)
{
    for (Op *op = l->r->first; op; op = op->next)
        for (int i = 0; i < op->nouts; i++)
            if (is_partial(l, op->out[i]))
                op->out[i]->type.place.ax[l->axis] = (AxisPlace){AX_P, 0, 0};
    for (int i = 0; i < l->end.n; i++)
        put_end(l, &l->end.at[i]);
    for (int i = 0; i < l->share.n; i++) {
        Op *op = l->share.at[i];
        ir_replace_uses(l->r, op->out[0], op->arg[0]);
        ir_remove(op);
    }
    for (int i = 0; i < l->reduce.n; i++) {
        Op *op = l->reduce.at[i];
        ir_replace_uses(l->r, op->out[0], op->arg[0]);
        ir_remove(op);
    }
}

/* Whether ranks of the axis share KV heads (pass split_kv_axis). */
static bool shares_heads(const Program *p, int axis)
{
    for (int i = 0; i < p->plan.nstyles; i++)
        if (p->plan.style[i].axis == axis && p->plan.style[i].whole)
            return true;
    return false;
}

void defer_reduce(Program *p, Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        if (op->kind == OP_loop)
            defer_reduce(p, op->body);
    for (int a = 0; a < p->mesh.n; a++) {
        Deferral l = {.p = p, .r = r, .axis = a, .nvalues = p->nvalues};
        if (!shares_heads(p, a))
            continue;
        l.partial = NEW_ARRAY(p->arena, bool, p->nvalues + 1);
        if (follow_partial(&l))
            apply(&l);
    }
}
