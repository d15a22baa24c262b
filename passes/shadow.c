/* shadow.c: keeps low-precision copies of parameters, which the updates write.
 *
 * requires: STAGE_STORED: casts of parameters apply to shards, in every loop
 *           and phase that gathers them
 * ensures:  before the optimizer no parameter is cast to a 16-bit type. A copy
 *           is read instead, which persists between steps and has the
 *           parameter's storage layout. After the update the new value is cast
 *           and assigned to the copy, so that one kernel writes both
 *
 * before   %w = param{param="layers.*.weight"} : f32[4 x 64, 64]~dp forward
 *          %out = loop{n=4, reverse=false} : … {
 *            stack %wi = %w : f32[64, 64]~dp
 *            %c = cast{to=bf16} %wi : bf16[64, 64]~dp forward
 *            %g = all_gather{axes={dp}, …} %c : bf16[64, 64] forward
 *          %w.new = update{param="layers.*.weight"} %w, … optimizer
 *          assign{param="layers.*.weight"} %w.new optimizer
 * after    %w = param{param="layers.*.weight"} : f32[4 x 64, 64]~dp forward
 *          %w.bf16 = param{param="layers.*.weight.bf16"}
 *                    : bf16[4 x 64, 64]~dp forward
 *          %out = loop{n=4, reverse=false} : … {
 *            stack %wi.2 = %w.bf16 : bf16[64, 64]~dp
 *            %g = all_gather{axes={dp}, …} %wi.2 : bf16[64, 64] forward
 *          %w.new = update{param="layers.*.weight"} %w, … optimizer
 *          %w.bf16.new = cast{to=bf16} %w.new : bf16[4 x 64, 64]~dp optimizer
 *          assign{param="layers.*.weight.bf16"} %w.bf16.new optimizer
 *          assign{param="layers.*.weight"} %w.new optimizer
 *
 * A copy costs two bytes per element permanently, and saves a cast kernel
 * before the gather in every phase and microbatch. The runtime makes the first
 * copy from the initial or loaded value. The copy of a unit that stays gathered
 * is a shard too, stored beside the gathered tensor.
 */
#include "passes/pass.h"

#include <string.h>

static bool narrows(const Op *op)
{
    return op->kind == OP_cast && op->phase < PH_OPTIMIZER &&
           dtype_is_float(op->out[0]->type.dtype) &&
           dtype_size(op->out[0]->type.dtype) == 2;
}

/* Whether operand i is passed into the loop, as slices or as a free operand. */
static bool enters(const Op *op, int i)
{
    return op->kind == OP_loop && i >= op->ncarry;
}

/* A cast of v to 16 bits, in its region or in a loop that v is passed into;
 * NULL: none. */
static const Op *find_cast(const Value *v)
{
    const Region *r = v->region;
    for (const Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v)
                continue;
            if (narrows(op))
                return op;
            const Op *inner =
                enters(op, i) ? find_cast(op->body->arg[i]) : NULL;
            if (inner)
                return inner;
        }
    return NULL;
}

static void read_copy(Program *p, Value *v, Value *copy);

/* Passes the copy into a loop that casts operand i; removes the operand if
 * nothing else reads it. */
static void bring_in(Program *p, Op *loop, int i, Value *copy)
{
    bool stack = i < loop->ncarry + loop->nstack;
    Value *v = loop->body->arg[i];
    read_copy(p, v, stack ? ir_loop_add_stack(p, loop, copy)
                          : ir_loop_add_free(p, loop, copy));
    for (int k = loop->ncarry; k < loop->nargs; k++)
        if (loop->body->arg[k] == v && ir_count_uses(v) == 0) {
            ir_loop_drop_arg(p, loop, k);
            return;
        }
}

/* Replaces casts of v by the copy. */
static void read_copy(Program *p, Value *v, Value *copy)
{
    const Region *r = v->region;
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        for (int i = op->nargs; i-- > 0;) {
            if (op->arg[i] != v)
                continue;
            if (narrows(op) && op->out[0]->type.dtype == copy->type.dtype) {
                ir_replace_uses(op->region, op->out[0], copy);
                ir_remove(op);
                break;
            }
            if (enters(op, i) && find_cast(op->body->arg[i]))
                bring_in(p, op, i, copy);
        }
    }
}

static Value *add_copy(Program *p, int of, DType type)
{
    Param copy = p->param.at[of];
    const Value *whole = copy.value;
    const Op *def = whole->def;
    const char *word = dtype_name(type);
    copy.name = arena_printf(p->arena, "%s.%s", copy.name, word);
    copy.type.dtype = type;
    copy.init = (Init){.kind = INIT_COPY};
    copy.trainable = copy.decay = copy.kept = false;
    copy.state_of = of;
    copy.slot = word;
    copy.alias = NULL;
    copy.nalias = 0;
    Build b = {.p = p, .region = p->step, .before = def->next,
               .phase = def->phase, .loc = def->loc, .path = def->path};
    Attr attr[MAX_ATTRS] = {{.i = p->param.n}};
    const char *hint = arena_printf(p->arena, "%s.%s", whole->name, word);
    copy.value =
        ir_op_typed(&b, OP_param, 0, NULL, attr, 1, &copy.type, &hint)->out[0];
    memcpy(copy.value->why, whole->why, sizeof whole->why);
    vec_push(p->arena, &p->param, copy);
    return copy.value;
}

/* Assigns the copy where the parameter is assigned. */
static void assign_copy(Program *p, int of, const Value *copy)
{
    for (Op *op = p->step->first; op; op = op->next) {
        if (op->kind != OP_assign || op_attr(op, "param").i != of)
            continue;
        Build b = {.p = p, .region = op->region, .before = op,
                   .phase = op->phase, .loc = op->loc, .path = op->path};
        Value *cast = ir_cast(&b, op->arg[0], copy->type.dtype);
        cast->name = ir_unique_name(
            p, arena_printf(p->arena, "%s.new", copy->name));
        memcpy(cast->why, op->arg[0]->why, sizeof cast->why);
        Attr attr[MAX_ATTRS] = {{.i = copy->def->attr[0].i}};
        ir_op(&b, OP_assign, 1, &cast, attr, NULL);
        return;
    }
}

void pass_shadow(Program *p, const TargetInfo *t)
{
    (void)t;
    for (int i = 0, n = p->param.n; i < n; i++) {
        Value *v = p->param.at[i].value;
        const Op *cast = v && p->param.at[i].state_of < 0 ? find_cast(v) : NULL;
        if (!cast)
            continue;
        Value *copy = add_copy(p, i, cast->out[0]->type.dtype);
        read_copy(p, v, copy);
        assign_copy(p, i, copy);
    }
}
