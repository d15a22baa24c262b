/* offload.c: inserts the copies of tensors that the plan keeps in host memory.
 *
 * requires: STAGE_FUSED; the update of a stack that is offloaded is a loop over
 *           its layers (optimizer.c)
 * ensures:  Param.host is set for the tensors that the plan's `offload` names,
 *           except in units that stay gathered; only `fetch` reads such a
 *           tensor, and a value assigned to it is the result of `store`.
 *           Nothing changes on a target without device memory
 *
 * before   %w = param{param="layers.*.weight"} : f32[4 x 64, 64]~dp forward
 *          %out = loop{n=4, reverse=false} : … {
 *            stack %wi = %w : f32[64, 64]~dp
 *            %g = all_gather{axes={dp}, unit="layers.*", prefetch=1} %wi …
 *          %m = param{param="layers.*.weight.m"} : f32[4 x 64, 64]~dp optimizer
 *          %m.new, … = loop{n=4, reverse=false} : … {
 *            stack %mi = %m : f32[64, 64]~dp
 *            %y, … = fused{…} %mi, … optimizer { … }
 *            yield %y, …
 *          }
 *          assign{param="layers.*.weight.m"} %m.new optimizer
 * after    %out = loop{n=4, reverse=false} : … {
 *            stack %wi = %w : f32[64, 64]~dp
 *            %wi.2 = fetch{prefetch=2} %wi : f32[64, 64]~dp forward
 *            %g = all_gather{axes={dp}, unit="layers.*", prefetch=1} %wi.2 …
 *          %m.new, … = loop{n=4, reverse=false} : … {
 *            stack %mi = %m : f32[64, 64]~dp
 *            %mi.2 = fetch{prefetch=1} %mi : f32[64, 64]~dp optimizer
 *            %y, … = fused{…} %mi.2, … optimizer { … }
 *            %y.2 = store %y : f32[64, 64]~dp optimizer
 *            yield %y.2, …
 *          }
 *          assign{param="layers.*.weight.m"} %m.new optimizer
 *
 * A region has one fetch of a tensor for each phase that reads it, and another
 * one after a loop. The fetch of a loop's slice is prefetched across
 * iterations: one unit before its gather is issued, or without a gather one
 * iteration before it is read (issue.c). The fetch of an unstacked tensor is
 * placed one reader of fetched tensors, or one gather, before its own reader,
 * and is not moved across a loop. If a loop over layers reads the same tensor
 * in every iteration, the tensor is fetched once, before the loop. The loop
 * over microbatches fetches in each iteration, so that the device holds no more
 * than in a step without accumulation.
 */
#include "passes/fsdp/offload.h"

#include "ir/plan/pipeline.h"
#include "ir/units.h"
#include "passes/schedule/issue.h"

/* Whether the plan's `offload` names the parameter or state, the target has
 * device memory, and the tensor's unit does not stay gathered. A low-precision
 * copy is offloaded with its parameter. */
static bool takes(const Program *p, const TargetInfo *t, const Param *pm)
{
    bool state = pm->state_of >= 0 && pm->init.kind != INIT_COPY;
    uint32_t bit = state ? OFFLOAD_OPTIMIZER : OFFLOAD_PARAMETERS;
    return (p->plan.offload & bit) && t->target == TARGET_CUDA && pm->value &&
           !pm->gathered;
}

bool offload_takes_update(const Program *p, const TargetInfo *t, int param)
{
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        if ((i == param || pm->state_of == param) && takes(p, t, pm))
            return true;
    }
    return false;
}

typedef struct Mover {
    Program *p;
    VEC(Op *) fetch; /* in the current region */
    int after_loop;  /* the first fetch after the last loop so far */
} Mover;

/* ---- fetches ------------------------------------------------------------- */

/* The region's fetch of v in the op's phase; inserts one before the op if there
 * is none yet. */
static Value *fetched(Mover *o, Value *v, Op *op)
{
    for (int i = o->after_loop; i < o->fetch.n; i++)
        if (o->fetch.at[i]->arg[0] == v && o->fetch.at[i]->phase == op->phase)
            return o->fetch.at[i]->out[0];
    Build b = {.p = o->p, .region = op->region, .before = op,
               .phase = op->phase, .loc = o->p->plan.offload_loc,
               .path = op->path};
    Attr attr[MAX_ATTRS] = {{.i = 0}};
    Type t = v->type;
    for (const Op *loop = op_loop(op); loop; loop = op_loop(loop))
        if (loop->cut && t.place.ax[pipeline_axis(o->p)].kind == AX_R)
            t.place.ax[pipeline_axis(o->p)] = (AxisPlace){AX_HERE, 0, 0};
    Op *fetch = ir_op_typed(&b, OP_fetch, 1, &v, attr, 1, &t, &v->name);
    vec_push(o->p->arena, &o->fetch, fetch);
    return fetch->out[0];
}

/* The device copy of v: a view of host memory becomes a view of the fetched
 * tensor. */
static Value *on_device(Mover *o, Value *v, Op *reader)
{
    if (!v->def || !op_is_view(v->def->kind))
        return fetched(o, v, reader);
    const Op *view = v->def;
    Value *of = on_device(o, view->arg[0], reader);
    Build b = {.p = o->p, .region = reader->region, .before = reader,
               .phase = reader->phase, .loc = view->loc, .path = view->path};
    return ir_op_typed(&b, view->kind, 1, &of, view->attr, 1, &v->type,
                       &v->name)->out[0];
}

/* ---- fetches of unstacked tensors ---------------------------------------- */

static bool reads_fetched(const Mover *o, const Op *op)
{
    for (int i = 0; i < o->fetch.n; i++)
        if (issue_reads(op, o->fetch.at[i]))
            return true;
    return false;
}

/* Moves the fetch before the reader that precedes its own. */
static void move_ahead(const Mover *o, Op *fetch)
{
    Op *reader = fetch->next, *to = fetch;
    Op *param = fetch->arg[0]->def;
    if (param)
        ir_move(param, param->region, param->region->first);
    while (reader && !issue_reads(reader, fetch))
        reader = reader->next;
    for (Op *op = fetch->prev; op; op = op->prev) {
        if (op->phase < fetch->phase || op->kind == OP_loop || op == param)
            break;
        if (op->kind == OP_fetch || op->kind == OP_param)
            continue;
        to = op;
        if (op != reader && (reads_fetched(o, op) || op_is_unit_gather(op)))
            break;
    }
    if (to != fetch)
        ir_move(fetch, fetch->region, to);
}

/* ---- the walk ------------------------------------------------------------ */

static void visit_region(Program *p, Region *r);

/* Fetches the free operands of a loop before it. Slices, and all operands of
 * the loop over microbatches, are fetched in the body. */
static void visit_loop(Mover *o, Op *loop)
{
    for (int i = loop->ncarry + loop->nstack;
         i < loop->nargs && !loop_is_microbatches(o->p, loop); i++) {
        if (!ir_in_host(o->p, loop->arg[i]))
            continue;
        loop->arg[i] = on_device(o, loop->arg[i], loop);
        loop->body->arg[i]->type.place = loop->arg[i]->type.place;
    }
    visit_region(o->p, loop->body);
    o->after_loop = o->fetch.n;
}

static void visit_op(Mover *o, Op *op)
{
    if (op->kind == OP_loop) {
        visit_loop(o, op);
        return;
    }
    if (op_is_view(op->kind) || op->kind == OP_assign ||
        op->kind == OP_fetch)
        return;
    for (int i = 0; i < op->nargs; i++)
        if (ir_in_host(o->p, op->arg[i]))
            op->arg[i] = on_device(o, op->arg[i], op);
}

static void visit_region(Program *p, Region *r)
{
    Mover o = {.p = p};
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        visit_op(&o, op);
    }
    for (int i = 0; i < o.fetch.n; i++) {
        Op *fetch = o.fetch.at[i];
        const Value *v = fetch->arg[0];
        const Op *gather = fetch_gather(fetch);
        bool slice = r->owner && !v->def && !loop_is_free(r->owner, v->index);
        if (slice || (r->owner && gather))
            set_attr_prefetch(fetch, 1 + (gather ? attr_prefetch(gather) : 0));
        else
            move_ahead(&o, fetch);
    }
}

/* ---- stores -------------------------------------------------------------- */

/* Stores v to host memory after its producer. */
static Value *stored(Program *p, Value *v)
{
    if (v->def && v->def->kind == OP_loop && v->index >= v->def->ncarry)
        return ir_loop_add_yield(
            p, v->def, stored(p, v->def->body->yield[v->index]));
    Op *maker = v->def;
    Build b = {.p = p, .region = v->region,
               .before = maker ? maker->next : v->region->first,
               .phase = maker ? maker->phase : PH_OPTIMIZER,
               .loc = p->plan.offload_loc, .path = maker ? maker->path : ""};
    return ir_op_typed(&b, OP_store, 1, &v, NULL, 1, &v->type, &v->name)
        ->out[0];
}

static void store_assigned(Program *p)
{
    for (Op *op = p->step->first; op; op = op->next)
        if (op->kind == OP_assign && p->param.at[attr_param(op)].host)
            op->arg[0] = stored(p, op->arg[0]);
}

void pass_offload(Program *p, const TargetInfo *t)
{
    bool any = false;
    for (int i = 0; i < p->param.n; i++)
        any |= p->param.at[i].host = takes(p, t, &p->param.at[i]);
    if (!any)
        return;
    visit_region(p, p->step);
    store_assigned(p);
    ir_eliminate_dead(p);
}
