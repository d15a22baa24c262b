/* stage_loop.c: places the values of a loop of the step.
 *
 * before   %h.3 = loop{n=4, reverse=false} : f32[8, 64] forward {
 *            carry %x = %h : f32[8, 64]
 *            stack %w = %ws : f32[64, 64]
 *            free %e = %encoded : f32[8, 64]
 *            %y = einsum{…} %x, %w : f32[8, 64] forward
 *            yield %y
 *          }
 * after    %h.2 = move{axes={pp}} %h : f32[8, 64]@pp=1
 *          %h.3, %e.2 = loop{n=4, reverse=false} : f32[8, 64]@pp=2, … cut=1 {
 *            carry %x = %h.2 : f32[8, 64]@pp
 *            carry %e = %encoded : f32[8, 64]@pp
 *            stack %w = %ws : f32[64, 64]@pp      of f32[4/pp x 64, 64]
 *            %y = einsum{…} %x, %w : f32[8, 64]@pp forward
 *            yield %y, %e
 *          }
 *
 * A carry arrives at the stage of the first iteration and leaves from that of
 * the last one. A value that one stage has, and all iterations read, becomes a
 * carry: each stage passes it on. A backward loop reads the stacks of its forward
 * loop, and has its cut.
 */
#include "passes/pipeline/stages.h"

typedef VEC(Value *) Values;

/* The number of the cut that the loop has; 0: none. */
static int find_cut(const Stages *s, const Op *loop)
{
    if (loop->id < s->nops && s->cut_of[loop->id])
        return s->cut_of[loop->id];
    int cut = 0;
    for (int i = loop->ncarry; i < loop->ncarry + loop->nstack && !cut; i++)
        cut = type_cut(&loop->arg[i]->type);
    return cut;
}

/* ---- bodies -------------------------------------------------------------- */

/* v at a place of the body. */
static Value *drop_elsewhere(Stages *s, Value *v, AxisPlace at, Region *r,
                             Op *before)
{
    bool there = axis_place_equal(stages_place(s, v), at);
    return there ? v
                 : stages_convert(s, OP_move, v, at,
                                  "only this coordinate needs it", r, before);
}

static void place_body(Stages *s, Region *r, AxisPlace at);

/* A loop, or another op with a body, inside of a loop that is placed. */
static void place_inner(Stages *s, Op *op, AxisPlace at)
{
    for (int i = 0; i < op->nargs; i++) {
        if (i < op->ncarry)
            op->arg[i] = drop_elsewhere(s, op->arg[i], at, op->region, op);
        stages_put_at(s, op->body->arg[i], stages_place(s, op->arg[i]));
    }
    place_body(s, op->body, at);
    for (int i = 0; i < op->nouts; i++)
        stages_put_at(s, op->out[i], stages_place(s, op->body->yield[i]));
}

/* Places all that a body computes; its arguments are placed. */
static void place_body(Stages *s, Region *r, AxisPlace at)
{
    for (Op *op = r->first; op; op = op->next) {
        if (op->body)
            place_inner(s, op, at);
        for (int i = 0; i < op->nouts && !op->body; i++)
            stages_put_at(s, op->out[i], at);
    }
    for (int i = 0; i < r->nyields; i++)
        r->yield[i] = drop_elsewhere(s, r->yield[i], at, r, NULL);
}

/* ---- operands ------------------------------------------------------------ */

/* The start of a carry, on the stage. */
static Value *carry_start(Stages *s, Op *loop, Value *v, int stage)
{
    const Op *def = v->def;
    bool constant = def && def->nargs == 0 &&
                    (def->kind == OP_full || def->kind == OP_zeros);
    if (constant && stages_place(s, v).kind == AX_R) {
        Build b = ir_build_at(s->p, loop, loop);
        b.phase = def->phase;
        v = ir_clone(&b, def, NULL)->out[0];
        stages_put(s, v, stage);
        return v;
    }
    v = stages_move(s, v, stage, loop);
    return drop_elsewhere(s, v, stages_at(stage), loop->region, loop);
}

static void refuse_stack(Stages *s, const Op *loop, const Value *v)
{
    Program *p = s->p;
    diag_error(p->diag, loop->loc, "the layers of '%s' are on other stages than "
               "the iterations of this loop", v->name);
    diag_help(p->diag, "omit `pipeline`, or let one loop use an array");
}

/* Makes carries of the values that one stage has and the iterations read: `passed`
 * has them. */
static void carry_frees(Stages *s, Op *loop, int first, Values *passed)
{
    Program *p = s->p;
    for (int i = loop->ncarry + loop->nstack; i < loop->nargs; i++) {
        Value *v = loop->arg[i], *free = loop->body->arg[i];
        if (stages_place(s, v).kind == AX_P)
            v = loop->arg[i] = stages_replicate(s, v, loop);
        if (stages_place(s, v).kind != AX_AT)
            continue;
        vec_push(p->arena, passed, v);
        v = ir_loop_add_carry(p, loop, stages_move(s, v, first, loop));
        ir_replace_uses(loop->body, free, v);
        ir_loop_drop_arg(p, loop, i + 1);
    }
}

/* ---- loops --------------------------------------------------------------- */

/* Of a stack that all ranks have, each takes the layers of its stages. */
static void place_operands(Stages *s, Op *loop)
{
    const AxisPlace cut = {AX_CUT, 0, (uint8_t)loop->cut};
    for (int i = 0; i < loop->nargs; i++) {
        AxisPlace is = stages_place(s, loop->arg[i]);
        if (loop_is_stack(loop, i) && is.kind == AX_R) {
            loop->arg[i] = stages_convert(
                s, OP_local_slice, loop->arg[i], cut,
                "a coordinate needs the layers of its stages", loop->region,
                loop);
            is = cut;
        }
        if (loop_is_stack(loop, i) && !axis_place_equal(is, cut))
            refuse_stack(s, loop, loop->arg[i]);
        stages_put_at(s, loop->body->arg[i],
                      is.kind == AX_R ? is : (AxisPlace){AX_HERE, 0, 0});
    }
}

static void place_results(Stages *s, Op *loop, int last)
{
    const AxisPlace cut = {AX_CUT, 0, (uint8_t)loop->cut};
    for (int i = 0; i < loop->ncarry; i++)
        stages_put(s, loop->out[i], last);
    for (int i = loop->ncarry; i < loop->nouts; i++)
        stages_put_at(s, loop->out[i], cut);
}

static void cut_loop(Stages *s, Op *loop)
{
    const Mesh *m = &s->p->mesh;
    int ends[] = {cut_stage(m, loop->cut, 0),
                  cut_stage(m, loop->cut, loop_trips(loop) - 1)};
    int first = ends[attr_reverse(loop)], last = ends[!attr_reverse(loop)];
    int own = loop->ncarry;
    Values passed = {0};
    for (int i = 0; i < own; i++)
        loop->arg[i] = carry_start(s, loop, loop->arg[i], first);
    carry_frees(s, loop, first, &passed);
    place_operands(s, loop);
    place_body(s, loop->body, (AxisPlace){AX_HERE, 0, 0});
    place_results(s, loop, last);
    for (int i = 0; i < passed.n; i++)
        stages_add_copy(s, passed.at[i], loop->out[own + i], last);
}

/* A loop all of whose iterations one stage runs. */
static void keep_together(Stages *s, Op *loop, int stage)
{
    AxisPlace at = stages_at(stage);
    for (int i = 0; i < loop->nargs; i++) {
        loop->arg[i] = i < loop->ncarry
                           ? carry_start(s, loop, loop->arg[i], stage)
                           : stages_move(s, loop->arg[i], stage, loop);
        stages_put_at(s, loop->body->arg[i], stages_place(s, loop->arg[i]));
    }
    place_body(s, loop->body, at);
    for (int i = 0; i < loop->nouts; i++)
        stages_put(s, loop->out[i], stage);
}

void stages_loop(Stages *s, Op *loop)
{
    loop->cut = find_cut(s, loop);
    int stage = loop->cut ? EVERYWHERE : stages_choose(s, loop);
    if (loop->cut)
        cut_loop(s, loop);
    else if (stage != EVERYWHERE)
        keep_together(s, loop, stage);
}
