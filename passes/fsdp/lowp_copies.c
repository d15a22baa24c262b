/* lowp_copies.c: keeps low-precision copies of parameters, which the updates
 * write.
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
 *            stack %w.bf16.2 = %w.bf16 : bf16[64, 64]~dp
 *            %g = all_gather{axes={dp}, …} %w.bf16.2 : bf16[64, 64] forward
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

#include "ir/analysis/uses.h"

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

/* The program, and its readers when the pass began. */
typedef struct Copies {
    Program *p;
    Uses uses;
} Copies;

/* A cast of v to 16 bits, in its region or in a loop that v is passed into;
 * NULL: none. */
static const Op *find_cast(const Copies *c, const Value *v)
{
    int n;
    Op *const *reader = uses_readers(&c->uses, v, &n);
    for (int k = 0; k < n; k++) {
        const Op *op = reader[k];
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v)
                continue;
            if (narrows(op))
                return op;
            const Op *inner =
                enters(op, i) ? find_cast(c, op->body->arg[i]) : NULL;
            if (inner)
                return inner;
        }
    }
    return NULL;
}

static void read_copy(const Copies *c, Value *v, Value *copy);

/* Passes the copy into a loop that casts operand i; removes the operand if
 * nothing else reads it. */
static void pass_into_loop(const Copies *c, Op *loop, int i, Value *copy)
{
    Program *p = c->p;
    bool stack = i < loop->ncarry + loop->nstack;
    Value *v = loop->body->arg[i];
    read_copy(c, v, stack ? ir_loop_add_stack(p, loop, copy)
                          : ir_loop_add_free(p, loop, copy));
    for (int k = loop->ncarry; k < loop->nargs; k++)
        if (loop->body->arg[k] == v && ir_count_uses(v) == 0) {
            ir_loop_drop_arg(p, loop, k);
            return;
        }
}

/* Replaces casts of v by the copy. */
static void read_copy(const Copies *c, Value *v, Value *copy)
{
    int n;
    Op *const *reader = uses_readers(&c->uses, v, &n);
    for (int k = 0; k < n; k++) {
        Op *op = reader[k];
        for (int i = op->nargs; i-- > 0;) {
            if (op->arg[i] != v)
                continue;
            if (narrows(op) && op->out[0]->type.dtype == copy->type.dtype) {
                uses_replace(&c->uses, op->out[0], copy);
                ir_remove(op);
                break;
            }
            if (enters(op, i) && find_cast(c, op->body->arg[i]))
                pass_into_loop(c, op, i, copy);
        }
    }
}

static Value *add_copy(Program *p, int of, DType type)
{
    const Value *whole = p->param.at[of].value;
    Build b = ir_build_at(p, whole->def, whole->def->next);
    Type t = p->param.at[of].type;
    t.dtype = type;
    Value *copy = ir_add_state(&b, of, dtype_name(type), &t, INIT_COPY);
    memcpy(copy->why, whole->why, sizeof whole->why);
    return copy;
}

/* Assigns the copy where the parameter is assigned. */
static void assign_copy(Program *p, Op *assign, const Value *copy)
{
    Build b = ir_build_at(p, assign, assign);
    Value *cast = ir_cast(&b, assign->arg[0], copy->type.dtype);
    cast->name =
        ir_unique_name(p, arena_printf(p->arena, "%s.new", copy->name));
    memcpy(cast->why, assign->arg[0]->why, sizeof cast->why);
    Attr attr[MAX_ATTRS] = {{.i = attr_param(copy->def)}};
    ir_op(&b, OP_assign, 1, &cast, attr, NULL);
}

/* Whether there is a copy of the parameter: in a side program, if the
 * training step keeps one. */
static bool keeps_copy(const Program *p, int param, DType type)
{
    const Program *t = p->training;
    const char *name = arena_printf(p->arena, "%s.%s", p->param.at[param].name,
                                    dtype_name(type));
    return !t || ir_param_index(t, name) >= 0;
}

void pass_lowp_copies(Program *p, const TargetInfo *t)
{
    (void)t;
    Copies c = {p, uses_find(p)};
    int n = p->param.n;
    Op **assign = NEW_ARRAY(p->arena, Op *, n + 1);
    for (Op *op = p->step->first; op; op = op->next)
        if (op->kind == OP_assign && !assign[attr_param(op)])
            assign[attr_param(op)] = op;
    for (int i = 0; i < n; i++) {
        Value *v = p->param.at[i].value;
        const Op *cast =
            v && p->param.at[i].state_of < 0 ? find_cast(&c, v) : NULL;
        if (!cast || !keeps_copy(p, i, cast->out[0]->type.dtype))
            continue;
        Value *copy = add_copy(p, i, cast->out[0]->type.dtype);
        read_copy(&c, v, copy);
        if (assign[i])
            assign_copy(p, assign[i], copy);
    }
}
