/* accumulate.c: gradient accumulation: builds the loop over the microbatches.
 *
 * requires: STAGE_STORED; where `train` accumulates, a microbatch axis as the
 *           mesh's last, which the pass `plan` added
 * ensures:  the same stage without the microbatch axis. Forward and backward
 *           ops run in a loop, once for each microbatch. Sums over the whole
 *           batch (the loss, gradients) are carries in f32. Their all-reduces
 *           over other axes run once, after the loop, with all that depends on
 *           them (a gradient that is summed up, then gathered or
 *           reduce-scattered).
 *
 * before   %dw = einsum{…} %dy, %x : f32[64, 64]+dp+micro backward
 *          %dw.2 = reduce_scatter{axes={dp}, …} %dw : f32[64, 64]~dp+micro …
 *          %dw.3 = all_reduce{axes={micro}} %dw.2 : f32[64, 64]~dp backward
 * after    %zero = zeros{…} : f32[64, 64]~dp forward
 *          %dw.3, … = loop{n=4, reverse=false} : f32[64, 64]~dp, … forward {
 *            carry %sum = %zero : f32[64, 64]~dp
 *            …
 *            %dw = einsum{…} %dy, %x : f32[64, 64]+dp backward
 *            %dw.2 = reduce_scatter{axes={dp}, …} %dw : f32[64, 64]~dp …
 *            %sum.2 = add %sum, %dw.2 : f32[64, 64]~dp backward
 *            yield %sum.2, …
 *          }
 *
 * A total over the batch that the microbatches read (the number of valid
 * labels) is computed from the inputs by a loop of its own, before the main
 * loop. A total that depends on parameters is an error.
 */
#include "passes/microbatch/loop_axis.h"
#include "passes/pass.h"
#include "passes/simplify/simplify.h"

/* ---- errors -------------------------------------------------------------- */

static void refuse(const LoopAxis *t, const Op *op, const char *what)
{
    Program *p = t->p;
    diag_error(p->diag, op->loc,
               "%s, but accumulate = %lld works through the batch in "
               "microbatches", what, (long long)t->n);
    if (op->why.loc.line && op->why.loc.line != op->loc.line)
        diag_note(p->diag, op->why.loc, "the collective comes from here");
    diag_help(p->diag, "omit accumulate, or compute what every microbatch "
                       "needs from its own rows or from inputs");
}

static bool check_region(const LoopAxis *t, const Region *r)
{
    bool fine = true;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->body)
            fine &= check_region(t, op->body);
        if (!loop_axis_converts(op, t->axis) || op->kind == OP_mask_to_partial)
            continue;
        bool total = op->kind == OP_all_reduce && r == t->r;
        for (int i = 0; total && i < op->nargs; i++)
            total = op->arg[i]->type.place.ax[t->axis].kind == AX_P;
        if (total)
            continue;
        refuse(t, op, "this op needs all rows of the batch");
        fine = false;
    }
    return fine;
}

/* ---- totals -------------------------------------------------------------- */

/* Of a value that is the same in all iterations: what each iteration adds to a total. */
static Value *even_part(const LoopAxis *t, Build *b, Value *x)
{
    Attr attr[MAX_ATTRS] = {{.f = 1.0 / (double)t->n}};
    Type part = x->type;
    part.place.ax[t->axis] = (AxisPlace){AX_P, 0, 0};
    return ir_op_typed(b, OP_scale, 1, &x, attr, 1, &part, &x->name)->out[0];
}

/* Replaces masks to partial over the microbatch axis. */
static void share_evenly(LoopAxis *t, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            share_evenly(t, op->body);
        if (op->kind != OP_mask_to_partial || !loop_axis_converts(op, t->axis))
            continue;
        Build b = ir_build_at(t->p, op, op);
        ir_replace_uses(r, op->out[0], even_part(t, &b, op->arg[0]));
        ir_remove(op);
    }
}

static bool is_total(const LoopAxis *t, const Op *op)
{
    return op->kind == OP_all_reduce && loop_axis_converts(op, t->axis);
}

/* Adds a collective for n members of a grouped collective. */
static void take_members(LoopAxis *t, Op *op, const int *member, int n)
{
    Build b = ir_build_at(t->p, op, op);
    Value **arg = NEW_ARRAY(t->p->arena, Value *, n);
    Value **out = NEW_ARRAY(t->p->arena, Value *, n);
    for (int i = 0; i < n; i++) {
        arg[i] = op->arg[member[i]];
        out[i] = op->out[member[i]];
    }
    Op *own = ir_op_typed(&b, op->kind, 0, NULL, op->attr, 0, NULL, NULL);
    own->why = op->why;
    ir_set_members(own, n, arg, out);
}

/* Splits a grouped collective into loop-invariant members and the others. An
 * invariant member may depend on a total, as a gradient that is summed up
 * before it is reduce-scattered with its unit, and must run after the loop. */
static void split_collective(LoopAxis *t, Op *op)
{
    int *same = NEW_ARRAY(t->p->arena, int, op->nargs);
    int *differs = NEW_ARRAY(t->p->arena, int, op->nargs);
    int nsame = 0, ndiffers = 0;
    for (int i = 0; i < op->nargs; i++)
        if (loop_axis_varies(op->arg[i], t->axis))
            differs[ndiffers++] = i;
        else
            same[nsame++] = i;
    if (nsame == 0 || ndiffers == 0)
        return;
    take_members(t, op, differs, ndiffers);
    take_members(t, op, same, nsame);
    ir_remove(op);
}

static bool is_group(const Op *op)
{
    return op_is_conversion(op->kind) && op->nargs > 1 &&
           op->nargs == op->nouts;
}

static void split_groups(LoopAxis *t)
{
    for (Op *op = t->r->first, *next; op; op = next) {
        next = op->next;
        if (!is_group(op))
            continue;
        if (!is_total(t, op)) {
            split_collective(t, op);
            continue;
        }
        /* Members of a total may belong to different loops. */
        for (int i = 0; i < op->nargs; i++)
            take_members(t, op, &i, 1);
        ir_remove(op);
    }
}

/* Whether the op reads a result of the loop that is the same in all iterations,
 * such as a carry that an inner loop only passes on. */
static bool reads_inside(const LoopAxis *t, const Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        if (op->arg[i]->def && t->inside[op->arg[i]->def->id])
            return true;
    return false;
}

static void find_inside(LoopAxis *t)
{
    t->nops = t->p->nops;
    t->inside = NEW_ARRAY(t->p->arena, bool, t->nops);
    for (const Op *op = t->r->first; op; op = op->next)
        t->inside[op->id] = !loop_axis_converts(op, t->axis) &&
                            op->kind != OP_input && op->kind != OP_base &&
                            (loop_axis_touches(op, t->axis) ||
                             reads_inside(t, op));
}

/* Makes a total of a value that iterations compute alike and an op reads together with a
 * total: the op need not be in the loop.
 *
 *   %y = add %loss, %balance      after   %balance.2 = scale{by=0.25} %balance : f32[]+micro
 *                                         %balance.3 = all_reduce{axes={micro}} %balance.2
 *                                         %y = add %loss, %balance.3
 */
static void total_operands(LoopAxis *t, Op *op, const bool *after_totals)
{
    for (int i = 0; i < op->nargs; i++) {
        Value *x = op->arg[i];
        if (!x->def || !t->inside[x->def->id] || after_totals[x->id] ||
            !dtype_is_float(x->type.dtype))
            continue;
        Build b = ir_build_at(t->p, op, op);
        Value *part = even_part(t, &b, x);
        Attr attr[MAX_ATTRS] = {{.i = 1u << t->axis}};
        op->arg[i] = ir_op_typed(&b, OP_all_reduce, 1, &part, attr, 1, &x->type,
                                 &x->name)->out[0];
    }
}

static void total_invariants(LoopAxis *t)
{
    bool *after_totals = NEW_ARRAY(t->p->arena, bool, t->p->nvalues);
    find_inside(t);
    for (Op *op = t->r->first, *next; op; op = next) {
        next = op->next;
        bool reads = op_reads_any(op, after_totals);
        if (reads && !loop_axis_touches(op, t->axis) && reads_inside(t, op))
            total_operands(t, op, after_totals);
        for (int i = 0; i < op->nouts && (reads || is_total(t, op)); i++)
            after_totals[op->out[i]->id] = true;
    }
}

/* Whether an op of the loop reads the total. */
static bool is_read_inside(const LoopAxis *t, const Op *total)
{
    bool *depends = NEW_ARRAY(t->p->arena, bool, t->p->nvalues);
    loop_axis_mark_users(t->r, total->out[0], depends);
    for (const Op *op = total->next; op; op = op->next)
        if (t->inside[op->id] && op_reads_any(op, depends))
            return true;
    return false;
}

/* ---- totals that iterations read ----------------------------------------- */

/* Marks the ops that `op` is computed from. False if a parameter is among
 * them. */
static bool mark_sources(const Op *op, bool *source)
{
    bool fine = op->kind != OP_param;
    for (int i = 0; i < op->nargs; i++) {
        const Op *def = op->arg[i]->def;
        if (!def || source[def->id])
            continue;
        source[def->id] = true;
        fine &= mark_sources(def, source);
    }
    return fine;
}

/* Builds a loop for one total, from clones of the ops that compute it. */
static void total_first(LoopAxis *t, Op *total)
{
    Program *p = t->p;
    bool *source = NEW_ARRAY(p->arena, bool, p->nops);
    if (!mark_sources(total, source)) {
        refuse(t, total, "every row depends on a total over the whole batch "
                         "here");
        return;
    }
    Value **map = NEW_ARRAY(p->arena, Value *, p->nvalues);
    LoopAxis own = *t;
    VEC(Op *) made = {0};
    for (Op *op = t->r->first; op != total; op = op->next) {
        if (!source[op->id] || !t->inside[op->id])
            continue;
        Build b = {.p = p, .region = t->r, .before = total,
                   .phase = PH_FORWARD};
        Op *clone = ir_clone(&b, op, map);
        vec_push(p->arena, &made, clone);
    }
    if (map[total->arg[0]->id])
        total->arg[0] = map[total->arg[0]->id];
    own.nops = p->nops;
    own.inside = NEW_ARRAY(p->arena, bool, own.nops);
    for (int i = 0; i < made.n; i++)
        own.inside[made.at[i]->id] = true;
    own.total = (OpVec){0};
    vec_push(p->arena, &own.total, total);
    loop_axis_make_loop(&own);
}

static void make_loops(LoopAxis *t)
{
    find_inside(t);
    for (Op *op = t->r->first, *next; op; op = next) {
        next = op->next;
        if (!is_total(t, op) || !is_read_inside(t, op))
            continue;
        total_first(t, op);
        if (diag_error_count(t->p->diag) > 0)
            return;
        find_inside(t);
    }
    for (Op *op = t->r->first; op; op = op->next)
        if (is_total(t, op))
            vec_push(t->p->arena, &t->total, op);
    loop_axis_sink(t);
    loop_axis_make_loop(t);
}

/* Stores inputs that no op reads like the others: stacked by microbatch. */
static void stack_inputs(const LoopAxis *t)
{
    for (int i = 0; i < t->p->input.n; i++) {
        Input *in = &t->p->input.at[i];
        if (in->type.place.ax[t->axis].kind == AX_S)
            in->type = loop_axis_stack(t, in->type);
        if (in->value)
            in->value->type = in->type;
    }
}

void pass_accumulate(Program *p, const TargetInfo *target)
{
    (void)target;
    if (p->mesh.nloop == 0)
        return;
    LoopAxis t = {.p = p,
                  .r = p->step,
                  .axis = p->mesh.n - 1,
                  .path = "",
                  .loc = p->train.loc};
    t.n = p->mesh.size[t.axis];
    if (!check_region(&t, p->step))
        return;
    share_evenly(&t, p->step);
    split_groups(&t);
    total_invariants(&t);
    make_loops(&t);
    if (diag_error_count(p->diag) > 0)
        return;
    stack_inputs(&t);
    p->mesh.n--;
    p->mesh.nloop--;
    ir_eliminate_dead(p);
    simplify_buckets(p, p->step);
}
