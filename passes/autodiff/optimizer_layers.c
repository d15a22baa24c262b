/* optimizer_layers.c: turns the update of a stack into a loop over layers.
 *
 * before   %step = mul %g, %lr : f32[4 x 8]~dp optimizer
 *          %w.new = sub %w, %step : f32[4 x 8]~dp optimizer
 * after    %w.new = loop{n=4, reverse=false} : f32[4 x 8]~dp optimizer {
 *            stack %g.2 = %g : f32[8]~dp
 *            stack %w.2 = %w : f32[8]~dp
 *            free %lr.2 = %lr : f32[]
 *            %step = mul %g.2, %lr.2 : f32[8]~dp optimizer
 *            %w.new.2 = sub %w.2, %step : f32[8]~dp optimizer
 *            yield %w.new.2
 *          }
 *
 * All ops are elementwise, so that a layer's results depend only on the same
 * layer's operands.
 */
#include "base/bug.h"
#include "passes/autodiff/autodiff.h"

typedef struct Layers {
    Program *p;
    Op *loop;
    ValueMap inside; /* value outside → argument of the body */
    VEC(Op *) op;
} Layers;

static Value *argument(Layers *l, Value *v)
{
    if (v->region == l->loop->body)
        return v;
    Value *inside = value_map_get(&l->inside, v);
    if (inside)
        return inside;
    inside = v->type.nstack > 0 ? ir_loop_add_stack(l->p, l->loop, v)
                                : ir_loop_add_free(l->p, l->loop, v);
    value_map_set(l->p, &l->inside, v, inside);
    return inside;
}

/* Replaces v by `with` in the region; returns whether it was used. `with` =
 * NULL only asks. */
static bool read_instead(Region *r, const Value *v, Value *with)
{
    bool found = false;
    for (Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            found |= op->arg[i] == v;
            if (op->arg[i] == v && with)
                op->arg[i] = with;
        }
    for (int i = 0; i < r->nyields; i++) {
        found |= r->yield[i] == v;
        if (r->yield[i] == v && with)
            r->yield[i] = with;
    }
    return found;
}

/* Moves the ops into the body. Results that are read outside are yielded as
 * stacks. */
static void move_in(Layers *l, Region *outside)
{
    Region *body = l->loop->body;
    for (int i = 0; i < l->op.n; i++) {
        Op *op = l->op.at[i];
        ir_move(op, body, NULL);
        for (int k = 0; k < op->nargs; k++)
            op->arg[k] = argument(l, op->arg[k]);
        for (int k = 0; k < op->nouts; k++) {
            Value *v = op->out[k];
            v->region = body;
            type_pop_stack(&v->type);
        }
    }
    for (int i = 0; i < l->op.n; i++)
        for (int k = 0; k < l->op.at[i]->nouts; k++) {
            Value *v = l->op.at[i]->out[k];
            if (read_instead(outside, v, NULL))
                read_instead(outside, v,
                             ir_loop_add_yield(l->p, l->loop, v));
        }
}

void optimizer_by_layers(Program *p, Op *first, Op *end)
{
    Layers l = {.p = p};
    for (Op *op = first; op != end; op = op->next)
        if (op->nouts > 0 && op->out[0]->type.nstack > 0) {
            if (op->body)
                bug("an update with a body");
            vec_push(p->arena, &l.op, op);
        }
    if (l.op.n == 0)
        return;
    const Op *head = l.op.at[0];
    Region *r = head->region;
    Build b = ir_build_at(p, head, end);
    Attr attr[MAX_ATTRS] = {{.i = head->out[0]->type.stack[0]}, {.i = false}};
    l.loop = ir_open(&b, OP_loop, 0, NULL, 0, 0, attr);
    l.loop->cut = type_cut(&head->out[0]->type);
    ir_close(p, l.loop);
    move_in(&l, r);
    optimizer_by_layers(p, l.loop->body->first, NULL);
}
