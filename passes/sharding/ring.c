/* ring.c: rewrites attention whose keys are split over ranks to a ring.
 *
 * requires: STAGE_STORED; with `exchange=ring` the keys of an attention, and of its gradient,
 *           are split over the axis of the context as its queries are
 * ensures:  no attention has split keys. Each rank attends to the keys and values of one rank
 *           at a time: first to its own, then to those that the previous rank of the group
 *           passes on (Liu et al.: "Ring Attention with Blockwise Transformers", 2023). A
 *           rank never has keys and values of whole sequences, and saves none of a step
 *
 * before   %o, %lse = attention{…} %q, %k, %v, %base : bf16[8, 2048/cp:zz, 8, 64], …
 * after    %k.1, %v.1, %b.1 = shift{axes={cp}} %k, %v, %base
 *          %o.1, %lse.1 = attention_step{…, first=true} %q, %k, %v, %base, %base : f32[…], …
 *          %k.4, %v.4, %b.4, %o.4, %lse.4 = loop{n=3, reverse=false} … {     cp = 8
 *            carry %k.2 = %k.1 …
 *            %k.3, %v.3, %b.3 = shift{axes={cp}} %k.2, %v.2, %b.2
 *            %o.3, %lse.3 = attention_step{…, first=false} %q.2, %k.2, %v.2, %o.2, %lse.2, …
 *            …                                                              the same once more
 *            yield %k.6, %v.6, %b.6, %o.6, %lse.6
 *          }
 *          %o.7, %lse = attention_step{…, first=false} %q, %k.4, %v.4, %o.4, %lse.4, …
 *          %o = cast{to=bf16} %o.7
 *
 * A shift is before the step that it does not depend on, so that both run at one time. Where
 * the keys of a step begin travels with them. Of the gradient dk and dv travel too, in f32,
 * one step later than their keys: a step computes its terms while the sum of the steps
 * before arrives; the last shift takes each sum to the rank whose keys it belongs to.
 */
#include <string.h>

#include "base/bug.h"
#include "ir/analysis/attention.h"
#include "passes/pass.h"
#include "passes/sharding/context.h"

enum {
    MOST_HELD = 4,      /* k, v, their segments and base */
    MOST_SUMS = 3,      /* o and lse, or dq, dk and dv */
    MOST_OPERANDS = 16, /* of an attention */
    MOST_CARRIES = MOST_HELD + MOST_SUMS,
};

/* One attention, or its gradient. */
typedef struct Ring {
    Program *p;
    Op *op;
    bool grad;
    AttentionOperands at;
    uint32_t axes;
    int nheld, nsums;
    int held[MOST_HELD]; /* indices of operands; the base of the keys is that of the queries */
} Ring;

/* The values of a region: the operands of the attention; what the rank holds; the sums. */
typedef struct Values {
    Value *arg[MOST_OPERANDS];
    Value *held[MOST_HELD], *sum[MOST_SUMS];
} Values;

static Ring ring_of(Program *p, Op *op)
{
    Ring r = {.p = p, .op = op, .grad = attention_is_backward(op->kind),
              .at = attention_operands(op), .axes = attention_ring(p, op)};
    if (op->nargs > MOST_OPERANDS || r.at.query_base < 0)
        bug("attention %s cannot be a ring", op->out[0]->name);
    r.held[r.nheld++] = r.at.q + 1;
    r.held[r.nheld++] = r.at.q + 2;
    if (r.at.key_segment >= 0)
        r.held[r.nheld++] = r.at.key_segment;
    r.held[r.nheld++] = r.at.query_base;
    r.nsums = r.grad ? 3 : 2;
    return r;
}

/* What all stages of a pipeline have is then where `like` is. */
static Type shifted_type(const Ring *r, const Value *v, const Value *like)
{
    Type t = v->type;
    for (int a = 0; a < r->p->mesh.n; a++)
        if (axis_place_is_held(like->type.place.ax[a]) && t.place.ax[a].kind == AX_R)
            t.place.ax[a] = like->type.place.ax[a];
    return t;
}

/* Passes on n values, in place of which the previous rank's come. */
static void shift(const Ring *r, Build *b, int n, Value **const v)
{
    Type types[MOST_CARRIES] = {{0}};
    const char *hints[MOST_CARRIES] = {0};
    const Context *c = &r->p->plan.context;
    Attr attr[MAX_ATTRS] = {{.i = r->axes}};
    for (int i = 0; i < n; i++) {
        types[i] = shifted_type(r, v[i], v[0]);
        hints[i] = v[i]->name;
    }
    Op *op = ir_op_typed(b, OP_shift, n, v, attr, n, types, hints);
    op->why = (Why){.text = context_text(r->p), .loc = c->loc, .origin = ORIGIN_STYLE};
    for (int i = 0; i < n; i++)
        v[i] = op->out[i];
}

/* A step with the keys in x->held. Its results are the sums, but for dk and dv, which are
 * those of the step alone. */
static void step(const Ring *r, Build *b, Values *x, bool first)
{
    const Op *op = r->op;
    Value *args[MOST_OPERANDS + MOST_CARRIES], *of[MOST_OPERANDS];
    Type types[MOST_SUMS];
    const char *hints[MOST_SUMS];
    int n = 0, states = first ? 0 : r->grad ? 1 : 2;
    Attr attr[MAX_ATTRS];
    memcpy(attr, op->attr, sizeof attr);
    attr[op_attr_index(OP_attention_step, ATTR_first)].i = first;
    memcpy(of, x->arg, sizeof of);
    for (int i = 0; i + 1 < r->nheld; i++)
        of[r->held[i]] = x->held[i];
    for (int i = 0; i < op->nargs; i++) {
        for (int k = 0; i == r->at.own && k < states; k++)
            args[n++] = x->sum[k];
        if (i == r->at.query_base)
            args[n++] = x->held[r->nheld - 1];
        args[n++] = of[i];
    }
    for (int i = 0; i < r->nsums; i++) {
        types[i] = op->out[i]->type;
        types[i].dtype = DT_F32;
        hints[i] = op->out[i]->name;
    }
    OpKind kind = r->grad ? OP_attention_grad_step : OP_attention_step;
    Op *made = ir_op_typed(b, kind, n, args, attr, r->nsums, types, hints);
    made->recomputed = op->recomputed;
    for (int i = 0; i < r->nsums; i++)
        x->sum[i] = made->out[i];
}

/* A step that is not the first: passes on what is held, if a further step follows, and the
 * sums of dk and dv, to which it adds its terms. */
static void next_step(const Ring *r, Build *b, Values *x, bool last)
{
    Value *moved[MOST_CARRIES];
    Values now = *x;
    int n = 0, held = last ? 0 : r->nheld, travel = r->grad ? 2 : 0;
    for (int i = 0; i < held; i++)
        moved[n++] = x->held[i];
    for (int i = 0; i < travel; i++)
        moved[n++] = x->sum[1 + i];
    if (n > 0)
        shift(r, b, n, moved);
    step(r, b, &now, false);
    for (int i = 0; i < held; i++)
        x->held[i] = moved[i];
    for (int i = 0; i < r->nsums; i++)
        x->sum[i] = now.sum[i];
    for (int i = 0; i < travel; i++)
        x->sum[1 + i] = ir_binary(b, OP_add, moved[held + i], now.sum[1 + i]);
}

/* Whether the operand travels. */
static bool is_held(const Ring *r, int operand)
{
    for (int i = 0; i + 1 < r->nheld; i++)
        if (r->held[i] == operand)
            return true;
    return false;
}

/* A loop of `pairs` times two steps. What is held after the second one has the memory of what was
 * held before the first: nothing is copied at the end of an iteration. */
static void step_pairs(const Ring *r, Build *b, Values *x, int64_t pairs)
{
    Value *args[MOST_OPERANDS + MOST_CARRIES], *yields[MOST_CARRIES];
    Attr attr[MAX_ATTRS] = {{.i = pairs}, {.i = 0}};
    int n = 0, ncarry = r->nheld + r->nsums;
    for (int i = 0; i < r->nheld; i++)
        args[n++] = x->held[i];
    for (int i = 0; i < r->nsums; i++)
        args[n++] = x->sum[i];
    for (int i = 0; i < r->op->nargs; i++)
        if (!is_held(r, i))
            args[n++] = x->arg[i];
    Op *loop = ir_open(b, OP_loop, n, args, ncarry, 0, attr);
    loop->recomputed = r->op->recomputed;
    Value **inside = loop->body->arg;
    Values in = {.arg = {0}};
    memcpy(in.held, inside, sizeof *inside * (size_t)r->nheld);
    memcpy(in.sum, inside + r->nheld, sizeof *inside * (size_t)r->nsums);
    for (int i = 0, at = ncarry; i < r->op->nargs; i++)
        if (!is_held(r, i))
            in.arg[i] = inside[at++];
    Build body = *b;
    body.region = loop->body;
    body.before = NULL;
    for (int i = 0; i < 2; i++)
        next_step(r, &body, &in, false);
    memcpy(yields, in.held, sizeof *yields * (size_t)r->nheld);
    memcpy(yields + r->nheld, in.sum, sizeof *yields * (size_t)r->nsums);
    ir_yield(r->p, loop->body, ncarry, yields);
    ir_close(r->p, loop);
    memcpy(x->held, loop->out, sizeof *x->held * (size_t)r->nheld);
    memcpy(x->sum, loop->out + r->nheld, sizeof *x->sum * (size_t)r->nsums);
}

static void rewrite(Program *p, Op *op)
{
    Ring r = ring_of(p, op);
    Build b = ir_build_at(p, op, op);
    int64_t n = mesh_group(&p->mesh, r.axes);
    Values x = {.arg = {0}};
    memcpy(x.arg, op->arg, sizeof *op->arg * (size_t)op->nargs);
    for (int i = 0; i < r.nheld; i++)
        x.held[i] = op->arg[r.held[i]];
    Values own = x;
    shift(&r, &b, r.nheld, x.held);
    step(&r, &b, &own, true);
    memcpy(x.sum, own.sum, sizeof x.sum);
    int64_t between = n - 2, pairs = between < 4 ? 0 : between / 2;
    if (pairs > 0)
        step_pairs(&r, &b, &x, pairs);
    for (int64_t i = 2 * pairs; i < between; i++)
        next_step(&r, &b, &x, false);
    next_step(&r, &b, &x, true);
    if (r.grad)
        shift(&r, &b, 2, x.sum + 1);
    for (int i = 0; i < r.nsums; i++) {
        Value *result = ir_cast(&b, x.sum[i], op->out[i]->type.dtype);
        memcpy(result->why, op->out[i]->why, sizeof result->why);
        ir_swap_names(result, op->out[i]);
        ir_replace_uses(op->region, op->out[i], result);
    }
    ir_remove(op);
}

void pass_ring(Program *p, const TargetInfo *t)
{
    (void)t;
    for (Op *op = ir_next(p->step, NULL), *next; op; op = next) {
        next = ir_next(p->step, op);
        if ((op->kind == OP_attention || op->kind == OP_attention_grad) &&
            attention_ring(p, op))
            rewrite(p, op);
    }
}
