/* accumulate.c: gradient accumulation: a loop over the microbatches.
 *
 * requires: STAGE_STORED; where `train` accumulates, an axis in time as the
 *           mesh's last, which the pass `plan` has put there
 * ensures:  the same stage, without that axis: the forward and backward ops
 *           of a step run in a loop, once for each microbatch; what a step
 *           sums up over all of its batch (the loss, gradients) is carried in
 *           f32 from one to the next; all-reduces of such sums over other
 *           axes run once, behind the loop, and so does what is made of them
 *           (a gradient that is summed up, then gathered or reduced to shards)
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
 * A total over the batch that the microbatches themselves read (how many
 * labels count) has a loop of its own in front, which computes it from the
 * inputs; one that depends on parameters cannot be had, and is an error.
 */
#include <string.h>

#include "passes/pass.h"
#include "passes/simplify.h"
#include "passes/turns.h"

/* ---- faults -------------------------------------------------------------- */

static void refuse(const Turns *t, const Op *op, const char *what)
{
    Program *p = t->p;
    diag_error(p->diag, op->loc,
               "%s, but accumulate = %lld works through the batch in "
               "microbatches", what, (long long)t->n);
    if (op->why.loc.line && op->why.loc.line != op->loc.line)
        diag_note(p->diag, op->why.loc, "it is made here");
    diag_help(p->diag, "leave accumulate away, or compute what every "
                       "microbatch needs from its own rows or from inputs");
}

static bool check_region(const Turns *t, const Region *r)
{
    bool fine = true;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->body)
            fine &= check_region(t, op->body);
        if (!turns_over(op, t->axis) || op->kind == OP_take_share)
            continue;
        bool total = op->kind == OP_all_reduce && r == t->r;
        for (int i = 0; total && i < op->nargs; i++)
            total = op->arg[i]->type.place.ax[t->axis].kind == AX_P;
        if (total)
            continue;
        refuse(t, op, "this needs the rows of the whole batch at once");
        fine = false;
    }
    return fine;
}

/* ---- totals -------------------------------------------------------------- */

/* A share of what is the same in all turns: as much in each of them. */
static void share_evenly(Turns *t, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            share_evenly(t, op->body);
        if (op->kind != OP_take_share || !turns_over(op, t->axis))
            continue;
        Attr attr[MAX_ATTRS] = {{.f = 1.0 / (double)t->n}};
        Build b = {.p = t->p, .region = r, .before = op, .phase = op->phase,
                   .loc = op->loc, .path = op->path};
        Value *x = op->arg[0], *old = op->out[0];
        Op *made = ir_op_typed(&b, OP_scale, 1, &x, attr, 1, &old->type,
                               &old->name);
        ir_replace_uses(r, old, made->out[0]);
        ir_remove(op);
    }
}

static bool is_total(const Turns *t, const Op *op)
{
    return op->kind == OP_all_reduce && turns_over(op, t->axis);
}

/* An op of its own for n members of a grouped collective. */
static void take_members(Turns *t, Op *op, const int *member, int n)
{
    Build b = {.p = t->p, .region = t->r, .before = op, .phase = op->phase,
               .loc = op->loc, .path = op->path};
    Value **arg = NEW_ARRAY(t->p->arena, Value *, n);
    Type *type = NEW_ARRAY(t->p->arena, Type, n);
    const char **name = NEW_ARRAY(t->p->arena, const char *, n);
    for (int i = 0; i < n; i++) {
        arg[i] = op->arg[member[i]];
        type[i] = op->out[member[i]]->type;
        name[i] = op->out[member[i]]->name;
    }
    Op *own = ir_op_typed(&b, op->kind, n, arg, op->attr, n, type, name);
    own->why = op->why;
    for (int i = 0; i < n; i++) {
        Value *old = op->out[member[i]];
        memcpy(own->out[i]->why, old->why, sizeof old->why);
        ir_replace_uses(t->r, old, own->out[i]);
        own->out[i]->name = old->name;
    }
}

/* Members may belong to different loops. */
static void split_total(Turns *t, Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        take_members(t, op, &i, 1);
    ir_remove(op);
}

/* What is the same in all turns does not wait in a turn for what differs: it
 * may stand behind a total, as a gradient does that is summed up before it is
 * reduced to shards with the rest of its unit. */
static void split_collective(Turns *t, Op *op)
{
    int *same = NEW_ARRAY(t->p->arena, int, op->nargs);
    int *differs = NEW_ARRAY(t->p->arena, int, op->nargs);
    int nsame = 0, ndiffers = 0;
    for (int i = 0; i < op->nargs; i++)
        if (turns_differs(op->arg[i], t->axis))
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

static void split_groups(Turns *t)
{
    for (Op *op = t->r->first, *next; op; op = next) {
        next = op->next;
        if (!is_group(op))
            continue;
        if (is_total(t, op))
            split_total(t, op);
        else
            split_collective(t, op);
    }
}

static bool stands_outside(const Op *op)
{
    return op->kind == OP_input || op->kind == OP_base;
}

static void find_inside(Turns *t)
{
    t->nops = t->p->nops;
    t->inside = NEW_ARRAY(t->p->arena, bool, t->nops);
    for (const Op *op = t->r->first; op; op = op->next)
        t->inside[op->id] = !turns_over(op, t->axis) && !stands_outside(op) &&
                            turns_touch(op, t->axis);
}

/* Whether a turn reads the total. */
static bool is_read_inside(const Turns *t, const Op *total)
{
    bool *depends = NEW_ARRAY(t->p->arena, bool, t->p->nvalues);
    turns_mark_users(t->r, total->out[0], depends);
    for (const Op *op = total->next; op; op = op->next)
        if (t->inside[op->id] && turns_reads_any(op, depends))
            return true;
    return false;
}

/* ---- totals that turns read ---------------------------------------------- */

/* Marks what `op` is computed from; false where a parameter is among it. */
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

/* A loop of its own for one total: what it is computed from is cloned. */
static void total_first(Turns *t, Op *total)
{
    Program *p = t->p;
    bool *source = NEW_ARRAY(p->arena, bool, p->nops);
    if (!mark_sources(total, source)) {
        refuse(t, total, "every row's work depends on a total over the whole "
                         "batch here");
        return;
    }
    Value **map = NEW_ARRAY(p->arena, Value *, p->nvalues);
    Turns own = *t;
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
    turns_make_loop(&own);
}

static void make_loops(Turns *t)
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
    turns_sink(t);
    turns_make_loop(t);
}

/* Inputs that nothing reads have their rows in the same order. */
static void stack_inputs(const Turns *t)
{
    for (int i = 0; i < t->p->input.n; i++) {
        Input *in = &t->p->input.at[i];
        if (in->type.place.ax[t->axis].kind == AX_S)
            in->type = turns_stack(t, in->type);
        if (in->value)
            in->value->type = in->type;
    }
}

void pass_accumulate(Program *p, const TargetInfo *target)
{
    (void)target;
    if (p->mesh.ntime == 0)
        return;
    Turns t = {.p = p, .r = p->step, .axis = p->mesh.n - 1, .path = "",
               .loc = p->train.loc};
    t.n = p->mesh.size[t.axis];
    if (!check_region(&t, p->step))
        return;
    share_evenly(&t, p->step);
    split_groups(&t);
    make_loops(&t);
    if (diag_error_count(p->diag) > 0)
        return;
    stack_inputs(&t);
    p->mesh.n--;
    p->mesh.ntime--;
    ir_eliminate_dead(p);
    simplify_buckets(p, p->step);
}
