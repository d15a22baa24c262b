/* schedule.c: streams, and copies where memory could not be shared.
 *
 * requires: STAGE_FUSED
 * ensures:  every op has a stream; what a loop carries, stacks or a step
 *           assigns can be written in place by its maker, because a `copy`
 *           stands wherever that would overwrite a value still to be read
 *
 * before   %r, %s = loop{n=4, reverse=false} : … {
 *            carry %x = %h : f32[8/dp, 64]
 *            %y = fused{…} … { arg %x.2 = %x : f32[8/dp, 64] … }
 *            yield %y, %x
 *          }
 *          %loss = all_reduce{axes={dp}} %z : f32[] forward
 * after    %h.2 = copy %h : f32[8/dp, 64] forward
 *          %r, %s = loop{n=4, reverse=false} : … {
 *            carry %x = %h.2 : f32[8/dp, 64]
 *            %x.3 = copy %x : f32[8/dp, 64] forward
 *            %y = fused{…} … { arg %x.2 = %x : f32[8/dp, 64] … }
 *            yield %y, %x.3
 *          }
 *          %loss = all_reduce{axes={dp}} %z : f32[] forward stream=2
 *
 * The order of ops is the program's, phase by phase: gathers already stand
 * before their first reader and reductions behind their last producer; how
 * far a gather runs ahead is its `prefetch`. Streams: 0 computes, 1 moves
 * data over tensor axes, 2 over data axes.
 */
#include "passes/memory.h"

typedef struct Schedule {
    Program *p;
    const TargetInfo *t;
    Liveness live;
    bool *claimed; /* by value id: has a place that it must be written to */
    uint32_t n;    /* values that live and claimed know; later ones are copies,
                      made to be written where they are wanted */
} Schedule;

static Value *copy_before(Schedule *s, Value *x, Region *r, Op *before)
{
    Build b = {.p = s->p, .region = r, .before = before,
               .phase = x->def ? x->def->phase : PH_FORWARD, .loc = x->loc,
               .path = ""};
    if (r->owner)
        b.phase = r->owner->phase;
    Op *op = ir_op_typed(&b, OP_copy, 1, &x, NULL, 1, &x->type, &x->name);
    return op->out[0];
}

static bool claimed(const Schedule *s, const Value *v)
{
    return v->id < s->n && s->claimed[v->id];
}

/* Whether the op that makes v may write it over `old`, which lies where v is
 * to go. */
static bool may_overwrite(const Schedule *s, const Value *v, const Value *old)
{
    int last = s->live.last_use[old->id], made = s->live.begin[v->def->id];
    if (last < made)
        return true;
    if (last > made)
        return false;
    for (int i = 0; i < v->def->nargs; i++)
        if (live_root(v->def->arg[i]) == old &&
            !s->t->in_place(s->p, v->def, v->index, i))
            return false;
    return true;
}

static bool writes_anywhere(const Value *root)
{
    const Op *def = root->def;
    if (!def)
        return false;
    if (def->kind == OP_loop)
        return root->index >= def->ncarry;
    if (def->kind == OP_all_gather && def->attr[2].i > 0)
        return false;
    return def->kind != OP_param && def->kind != OP_input &&
           def->kind != OP_scalar && def->phase != PH_INIT;
}

/* ---- loops --------------------------------------------------------------- */

static bool may_start_carry(const Schedule *s, const Op *loop, int i)
{
    Value *root = live_root(loop->arg[i]);
    int uses = 0;
    for (int k = 0; k < loop->nargs; k++)
        uses += live_root(loop->arg[k]) == root;
    bool carried_on = root->def && root->def->kind == OP_loop &&
                      root->index < root->def->ncarry;
    return (writes_anywhere(root) || carried_on) && uses == 1 &&
           !claimed(s, root) &&
           s->live.last_use[root->id] == s->live.finish[loop->id];
}

static void start_carries(Schedule *s, Op *loop)
{
    for (int i = 0; i < loop->ncarry; i++) {
        if (!may_start_carry(s, loop, i))
            loop->arg[i] = copy_before(s, loop->arg[i], loop->region, loop);
    }
}

/* Stacked yields that are arguments are copied first thing, before a carry is
 * overwritten; so are carries that go round to another carry. */
static void copy_arguments(Schedule *s, Op *loop)
{
    Region *body = loop->body;
    for (int i = 0; i < body->nyields; i++) {
        Value *root = live_root(body->yield[i]);
        if (root->def || (i < loop->ncarry && root == body->arg[i]))
            continue;
        Value **use = &body->yield[i];
        while (*use != root) /* through views, to what shows the argument */
            use = &(*use)->def->arg[0];
        *use = copy_before(s, root, body, body->first);
    }
}

static void claim_yields(Schedule *s, Op *loop)
{
    Region *body = loop->body;
    for (int i = 0; i < body->nyields; i++) {
        Value *root = live_root(body->yield[i]);
        bool carry = i < loop->ncarry;
        if (carry && root == body->arg[i])
            continue;
        if (root->id >= s->n)
            continue;
        bool fits = writes_anywhere(root) && !s->claimed[root->id] &&
                    (!carry || may_overwrite(s, root, body->arg[i]));
        if (fits)
            s->claimed[root->id] = true;
        else
            body->yield[i] = copy_before(s, body->yield[i], body, NULL);
    }
}

static void analyse(Schedule *s)
{
    s->n = s->p->nvalues;
    s->claimed = NEW_ARRAY(s->p->arena, bool, s->n);
    live_analyse(s->p, &s->live);
}

static void visit_loops(Region *r, Schedule *s,
                        void (*visit)(Schedule *, Op *))
{
    for (Op *op = r->first; op; op = op->next) {
        if (op->kind != OP_loop)
            continue;
        visit(s, op);
        visit_loops(op->body, s, visit);
    }
}

/* ---- assigned parameters ------------------------------------------------- */

static void claim_assigned(Schedule *s)
{
    for (Op *op = s->p->step->first; op; op = op->next) {
        if (op->kind != OP_assign)
            continue;
        Value *old = s->p->param.at[op->attr[0].i].value;
        Value *root = live_root(op->arg[0]);
        if (writes_anywhere(root) && !claimed(s, root) &&
            may_overwrite(s, root, old))
            s->claimed[root->id] = true;
        else
            op->arg[0] = copy_before(s, op->arg[0], op->region, op);
    }
}

/* ---- phases -------------------------------------------------------------- */

/* An op belongs to no earlier phase than what it reads (a bucket takes the
 * latest phase of its members). */
static void raise_phases(Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            const Op *def = op->arg[i]->def;
            if (def && def->phase > op->phase)
                op->phase = def->phase;
        }
}

/* Emitted code has a function for each phase, so top-level ops stand sorted
 * by phase. */
static void sort_phases(Region *r)
{
    raise_phases(r);
    for (Phase phase = PH_FORWARD; phase <= PH_OPTIMIZER; phase++) {
        Op *end = r->last;
        for (Op *op = r->first, *next; op; op = next) {
            next = op == end ? NULL : op->next;
            if (op->phase == phase && op != r->last)
                ir_move(op, r, NULL);
        }
    }
}

/* ---- streams ------------------------------------------------------------- */

static void set_stream(Op *op, void *context)
{
    const Program *p = context;
    op->stream = 0;
    if (op_is_collective(op->kind))
        op->stream = op->attr[0].i & p->plan.tensor_axes ? 1 : 2;
}

void pass_schedule(Program *p, const TargetInfo *t)
{
    Schedule s = {.p = p, .t = t};
    sort_phases(p->step);
    visit_loops(p->step, &s, copy_arguments);
    analyse(&s);
    visit_loops(p->step, &s, claim_yields);
    analyse(&s);
    visit_loops(p->step, &s, start_carries);
    analyse(&s);
    claim_assigned(&s);
    ir_walk(p->step, set_stream, p);
}
