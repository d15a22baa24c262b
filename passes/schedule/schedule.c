/* schedule.c: assigns streams, and adds copies where a result cannot be written
 * in place.
 *
 * requires: STAGE_FUSED
 * ensures:  the step's ops are sorted by phase; every op has a stream; a value
 *           that a loop carries or stacks, or that a step assigns, can be
 *           written to its destination by its producer, because a `copy` is
 *           inserted wherever that would overwrite a value that is still to be
 *           read
 *
 * before   %r, %s = loop{n=4, reverse=false} : … {
 *            carry %x = %h : f32[8/dp, 64]
 *            %y = fused{…} … { arg %x.2 = %x : f32[8/dp, 64] … }
 *            yield %y, %x
 *          }
 *          %loss = all_reduce{axes={dp}} %z : f32[] forward
 * after    %h.2 = copy %h : f32[8/dp, 64] forward      (h must stay: an input)
 *          %r, %s = loop{n=4, reverse=false} : … {
 *            carry %x = %h.2 : f32[8/dp, 64]
 *            %x.3 = copy %x : f32[8/dp, 64] forward
 *            %y = fused{…} … { arg %x.2 = %x : f32[8/dp, 64] … }
 *            yield %y, %x.3
 *          }
 *          %loss = all_reduce{axes={dp}} %z : f32[] forward stream=2
 *
 * The order of ops is the program's, phase by phase: gathers already precede
 * their first reader, and reductions follow their last producer; a gather's
 * attribute `prefetch` says how much earlier it is issued. schedule_streams.c assigns the
 * streams; what stages send each other is on stream 0, but for the transfers of a staged loop
 * (transfer_events.c).
 * Where streams run concurrently, schedule_overlap.c orders ops so that compute has
 * work while stream 1 communicates.
 */
#include "ir/plan/pipeline.h"
#include "ir/units.h"
#include "passes/pipeline/staged_loop.h"
#include "passes/schedule/issue.h"
#include "passes/schedule/liveness.h"

typedef struct Schedule {
    Program *p;
    const TargetInfo *t;
    Liveness live;
    bool *claimed; /* by value id: has a prescribed destination */
    uint32_t n;    /* values that live and claimed cover; later ones are
                    * copies, made in their destination */
    uint32_t nops; /* ops that live covers */
} Schedule;

/* The copy gets the phase of its reader: emitted code has a function for each
 * phase. In a staged loop it gets that of the op that makes x. */
static Value *copy_before(Schedule *s, Value *x, Region *r, Op *before)
{
    Phase phase = r->owner ? r->owner->phase : before->phase;
    if (r->owner && r->owner->staged) {
        const Op *def = value_root(x)->def;
        phase = def && def->region == r ? def->phase : phase;
        before = before ? before : staged_phase_end(r->owner, phase);
    }
    Build b = {.p = s->p, .region = r, .before = before, .phase = phase,
               .loc = x->loc, .path = ""};
    Op *op = ir_op_typed(&b, OP_copy, 1, &x, NULL, 1, &x->type, &x->name);
    return op->out[0];
}

static bool claimed(const Schedule *s, const Value *v)
{
    return v->id < s->n && s->claimed[v->id];
}

/* Whether the producer of v may overwrite `old`, which is stored at v's
 * destination. */
static bool may_overwrite(const Schedule *s, const Value *v, const Value *old);
static bool writes_anywhere(const Schedule *s, Value *root);

/* Whether a loop that stacks v may overwrite `old`: it reads `old` slice by
 * slice, each before it writes there. */
static bool may_overwrite_slices(const Schedule *s, const Value *v,
                                 const Value *old)
{
    const Op *loop = v->def;
    Value *made = value_root(loop->body->yield[v->index]);
    if (v->index < loop->ncarry || made->id >= s->n ||
        !writes_anywhere(s, made))
        return false;
    for (int i = 0; i < loop->nargs; i++) {
        if (value_root(loop->arg[i]) != old)
            continue;
        bool slice = loop_is_stack(loop, i);
        if (!slice || !may_overwrite(s, made, loop->body->arg[i]))
            return false;
    }
    return true;
}

static bool may_overwrite(const Schedule *s, const Value *v, const Value *old)
{
    const Op *def = v->def;
    int last = s->live.last_use[old->id];
    if (last < s->live.begin[def->id])
        return true;
    if (last > s->live.finish[def->id])
        return false;
    if (def->kind == OP_loop)
        return may_overwrite_slices(s, v, old);
    for (int i = 0; i < def->nargs; i++)
        if (value_root(def->arg[i]) == old &&
            !s->t->in_place(s->p, def, v->index, i))
            return false;
    return true;
}

/* The only operand of the loop that is a view of `old`, if it is stacked; -1:
 * there is none, or the loop reads `old` in another way too. */
static int stack_operand(const Op *loop, const Value *old)
{
    int found = -1;
    for (int i = 0; i < loop->nargs; i++) {
        if (value_root(loop->arg[i]) != old)
            continue;
        bool stack = loop_is_stack(loop, i);
        if (!stack || found >= 0)
            return -1;
        found = i;
    }
    return found;
}

/* Copies each slice instead of the whole stack, if possible. */
static bool copy_slices(Schedule *s, const Value *v, const Value *old)
{
    Op *loop = v->def;
    if (!loop || loop->kind != OP_loop || v->index < loop->ncarry ||
        stack_operand(loop, old) < 0 ||
        s->live.last_use[old->id] != s->live.finish[loop->id])
        return false;
    Value **yield = &loop->body->yield[v->index];
    *yield = copy_before(s, *yield, loop->body, NULL);
    return true;
}

static bool writes_anywhere(const Schedule *s, Value *root)
{
    const Op *def = root->def;
    if (!def || value_gathered_from(s->p, root))
        return false;
    if (def->kind == OP_loop)
        return root->index >= def->ncarry;
    if ((def->kind == OP_all_gather && attr_prefetch(def) > 0) ||
        (def->kind == OP_fetch && attr_prefetch(def) > 0))
        return false;
    return def->kind != OP_param && def->kind != OP_input &&
           def->kind != OP_scalar && def->phase != PH_INIT;
}

/* ---- loops --------------------------------------------------------------- */

/* Whether operand i is the only one of the loop that is a view of its root, and
 * no later op reads that. */
static bool is_last_view(const Schedule *s, const Op *loop, int i)
{
    const Value *root = value_root(loop->arg[i]);
    int views = 0;
    for (int k = 0; k < loop->nargs; k++)
        views += value_root(loop->arg[k]) == root;
    return views == 1 &&
           s->live.last_use[root->id] == s->live.finish[loop->id];
}

/* Whether carry i starts from a carry of the enclosing loop that continues with
 * its result: all of them share one buffer. */
static bool continues_carry(const Schedule *s, const Op *loop, int i)
{
    const Value *root = value_root(loop->arg[i]);
    const Op *outer = root->def ? NULL : root->region->owner;
    return outer && outer->kind == OP_loop && root->index < outer->ncarry &&
           value_root(outer->body->yield[root->index]) == loop->out[i] &&
           is_last_view(s, loop, i);
}

static bool is_continued(const Schedule *s, const Op *loop, int i)
{
    const Value *root = value_root(loop->body->yield[i]);
    const Op *inner = root->def;
    return inner && inner->kind == OP_loop && root->index < inner->ncarry &&
           value_root(inner->arg[root->index]) == loop->body->arg[i] &&
           continues_carry(s, inner, root->index);
}

static bool may_start_carry(const Schedule *s, const Op *loop, int i)
{
    Value *root = value_root(loop->arg[i]);
    if (continues_carry(s, loop, i))
        return true;
    bool carried_on = root->def && root->def->kind == OP_loop &&
                      root->index < root->def->ncarry;
    return (writes_anywhere(s, root) || carried_on) && !claimed(s, root) &&
           is_last_view(s, loop, i);
}

static void start_carries(Schedule *s, Op *loop)
{
    for (int i = 0; i < loop->ncarry; i++)
        if (!may_start_carry(s, loop, i))
            loop->arg[i] = copy_before(s, loop->arg[i], loop->region, loop);
}

/* Copies stacked yields that are arguments at the start of the body, before a
 * carry is overwritten; also carries that become another carry. */
static void copy_arguments(Schedule *s, Op *loop)
{
    Region *body = loop->body;
    for (int i = 0; i < body->nyields; i++) {
        Value *root = value_root(body->yield[i]);
        if (root->def || (i < loop->ncarry && root == body->arg[i]))
            continue;
        Value **use = &body->yield[i];
        while (*use != root) /* skip views of the argument */
            use = &(*use)->def->arg[0];
        *use = copy_before(s, root, body, body->first);
    }
}

static void claim_yields(Schedule *s, Op *loop)
{
    Region *body = loop->body;
    for (int i = 0; i < body->nyields; i++) {
        Value *root = value_root(body->yield[i]);
        bool carry = i < loop->ncarry;
        if (carry && (root == body->arg[i] || is_continued(s, loop, i)))
            continue;
        if (root->id >= s->n ||
            (!carry && value_gathered_from(s->p, loop->out[i])))
            continue;
        /* A prefetched gather writes the next slice of a stack. */
        bool ahead = !carry && root->def && op_is_unit_gather(root->def);
        bool fits = (ahead || writes_anywhere(s, root)) &&
                    !s->claimed[root->id] &&
                    (!carry || may_overwrite(s, root, body->arg[i]) ||
                     copy_slices(s, root, body->arg[i]));
        if (fits)
            s->claimed[root->id] = true;
        else
            body->yield[i] = copy_before(s, body->yield[i], body, NULL);
    }
}

static void analyse(Schedule *s)
{
    s->n = s->p->nvalues;
    s->nops = s->p->nops;
    s->claimed = NEW_ARRAY(s->p->arena, bool, s->n);
    live_analyse(s->p, &s->live);
}

/* ---- assigned parameters ------------------------------------------------- */

/* The last op after `assign` that reads the parameter; NULL: none. */
static Op *last_param_reader(const Schedule *s, const Op *assign,
                             const Value *old)
{
    for (Op *op = assign->next; op; op = op->next)
        if (op->id < s->nops &&
            s->live.finish[op->id] == s->live.last_use[old->id])
            return op;
    return NULL;
}

/* Moves the assignment after the last reader of the old value, so that the new one can be
 * written there: by a copy, or, in host memory, by the store, of which no op makes a copy. */
static void write_late(Schedule *s, Op *assign, const Value *old)
{
    Op *reader = last_param_reader(s, assign, old), *store = assign->arg[0]->def;
    if (reader)
        ir_move(assign, assign->region, reader->next);
    if (!store || store->kind != OP_store) {
        assign->arg[0] = copy_before(s, assign->arg[0], assign->region, assign);
        return;
    }
    const Op *def = value_root(store->arg[0])->def;
    if (def && def->kind == OP_param) /* its own update may come first */
        store->arg[0] = copy_before(s, store->arg[0], store->region, store);
    ir_move(store, assign->region, assign);
}

static void claim_assigned(Schedule *s)
{
    bool *done = NEW_ARRAY(s->p->arena, bool, s->nops);
    for (Op *op = s->p->step->first, *next; op; op = next) {
        next = op->next;
        if (op->kind != OP_assign)
            continue;
        Value *old = s->p->param.at[attr_param(op)].value;
        Value *root = value_root(op->arg[0]);
        if (done[op->id])
            continue;
        done[op->id] = true;
        if (writes_anywhere(s, root) && !claimed(s, root) && may_overwrite(s, root, old))
            s->claimed[root->id] = true;
        else
            write_late(s, op, old);
    }
}

/* ---- phases -------------------------------------------------------------- */

/* Raises an op's phase to that of its operands (a bucket has the latest phase
 * of its members). */
static void raise_phases(Region *r)
{
    for (Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            const Op *def = op->arg[i]->def;
            if (def && def->phase > op->phase)
                op->phase = def->phase;
        }
}

/* Sorts top-level ops by phase: emitted code has a function for each phase. */
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

/* A stage runs the ops of each phase of a microbatch at another time. */
static void sort_staged(Program *p)
{
    if (pipeline_loop(p))
        sort_phases(pipeline_loop(p)->body);
}

/* ---- the pass ------------------------------------------------------------ */

void pass_schedule(Program *p, const TargetInfo *t)
{
    Schedule s = {.p = p, .t = t};
    sort_phases(p->step);
    sort_staged(p);
    p->streams = t->streams;
    if (t->streams > 1) {
        schedule_streams(p);
        schedule_list(p);
        schedule_overlap(p);
        issue_sink_producers(p, t);
        sort_staged(p);
    }
    for_ops(op, p->step)
        if (op->kind == OP_loop)
            copy_arguments(&s, op);
    analyse(&s);
    for_ops(op, p->step)
        if (op->kind == OP_loop)
            claim_yields(&s, op);
    analyse(&s);
    for_ops(op, p->step)
        if (op->kind == OP_loop)
            start_carries(&s, op);
    analyse(&s);
    claim_assigned(&s);
}
