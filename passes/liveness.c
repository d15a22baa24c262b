/* liveness.c: computes the time of each value's last use, and finds the values
 * that use another value's memory.
 *
 * Times count ops in program order, but not those that only say when others
 * run. Bodies of loops are inside their loop: a loop
 * begins before its body's first op and finishes after the last. A loop reads
 * its operands until it finishes; a yield is read when its loop finishes.
 * Regions are closed (bodies read only their arguments), so that a use is in
 * the region of the definition.
 *
 * A value uses another's memory if it is a view of it, or gathered in place
 * from it, a parameter's shard. memory.c decides which other values share.
 */
#include "passes/memory.h"

bool live_is_view(OpKind kind)
{
    return op_is_view(kind);
}

Value *live_root(Value *v)
{
    while (v->def && live_is_view(v->def->kind))
        v = v->def->arg[0];
    return v;
}

const Place *live_place(const Value *v)
{
    static const Place nowhere = {.block = -1};
    const Place *at = live_root((Value *)v)->place;
    return at ? at : &nowhere;
}

/* Whether v is the stored shard of a parameter that stays gathered, or a layer
 * of it. */
static bool is_kept(const Program *p, const Value *v)
{
    while (!v->def) {
        const Op *loop = v->region->owner;
        if (!loop || loop->kind != OP_loop || v->index < loop->ncarry)
            return false;
        v = loop->arg[v->index];
    }
    return v->def->kind == OP_param && p->param.at[v->def->attr[0].i].kept &&
           type_is_flat(&v->type, &p->mesh);
}

Value *live_gathered_from(const Program *p, Value *v)
{
    const Op *def = v->def;
    if (!def)
        return NULL;
    if (def->kind == OP_all_gather)
        return is_kept(p, def->arg[v->index]) ? def->arg[v->index] : NULL;
    if (def->kind != OP_loop || v->index < def->ncarry)
        return NULL;
    const Value *shard =
        live_gathered_from(p, live_root(def->body->yield[v->index]));
    /* Only a layer of this loop: a parameter gathered in every iteration is not
     * a stack. */
    bool slice = shard && !shard->def && shard->index >= def->ncarry &&
                 shard->index < def->ncarry + def->nstack;
    return slice ? def->arg[shard->index] : NULL;
}

Value *live_kept_shard(const Program *p, Value *v)
{
    v = live_root(v);
    while (!v->def && !is_kept(p, v)) {
        const Op *loop = v->region->owner;
        if (!loop || loop->kind != OP_loop || v->index < loop->ncarry)
            return NULL;
        v = live_root(loop->arg[v->index]);
    }
    return is_kept(p, v) ? v : live_gathered_from(p, v);
}

const Value *live_made_as(const Value *v)
{
    int i;
    const Op *scatter = v->def && v->def->kind == OP_einsum_shard
                            ? op_scatter_of(v->def, &i)
                            : NULL;
    return scatter ? scatter->out[i] : v;
}

bool live_is_shard(const Op *scatter, int i)
{
    const Op *def =
        scatter->kind == OP_reduce_scatter ? scatter->arg[i]->def : NULL;
    return def && def->kind == OP_einsum_shard;
}

static void look_for_shard(Op *op, void *context)
{
    *(bool *)context |= op->kind == OP_einsum_shard;
}

bool live_has_shards(const Program *p)
{
    bool has = false;
    ir_walk(p->step, look_for_shard, &has);
    return has;
}

bool live_is_unit_gather(const Op *op)
{
    return op->kind == OP_all_gather && op->attr[1].s && op->attr[1].s[0];
}

static bool reads_result(const Op *op, const Op *of)
{
    for (int i = 0; i < op->nargs; i++)
        if (live_root(op->arg[i])->def == of)
            return true;
    return false;
}

int64_t live_prefetch_slots(const Op *gather)
{
    int64_t ahead = gather->attr[2].i, units = 0, during = 0, seen = 0;
    for (const Op *op = gather->region->first; op; op = op->next)
        units += live_is_unit_gather(op);
    for (const Op *op = gather->next; op; op = op->next) {
        if (reads_result(op, gather))
            during = seen;
        seen += live_is_unit_gather(op);
    }
    return (ahead + during + units) / units;
}

static int number(Region *r, Liveness *l, int time)
{
    for (Op *op = r->first; op; op = op->next) {
        if (op_is_schedule(op->kind)) { /* takes no time */
            l->begin[op->id] = l->finish[op->id] = time;
            continue;
        }
        l->begin[op->id] = time++;
        if (op->kind == OP_loop)
            time = number(op->body, l, time) + 1;
        l->finish[op->id] = time - 1;
    }
    return time;
}

static void use(Liveness *l, Value *v, int time)
{
    Value *root = live_root(v);
    if (l->last_use[root->id] < time)
        l->last_use[root->id] = time;
}

/* Other ranks read the operands of a fused einsum until its reduce_scatter
 * begins. */
static int read_until(const Liveness *l, const Op *op)
{
    int operand;
    const Op *scatter =
        op->kind == OP_einsum_shard ? op_scatter_of(op, &operand) : NULL;
    return l->finish[scatter ? scatter->id : op->id];
}

static void visit(Region *r, Liveness *l)
{
    for (int i = 0; i < r->nargs; i++)
        l->last_use[r->arg[i]->id] = l->begin[r->owner->id];
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nouts; i++)
            if (l->last_use[op->out[i]->id] < l->finish[op->id])
                l->last_use[op->out[i]->id] = l->finish[op->id];
        for (int i = 0; i < op->nargs; i++)
            use(l, op->arg[i], read_until(l, op));
        if (op->kind == OP_loop)
            visit(op->body, l);
        if (op->kind == OP_output)
            use(l, op->arg[0], l->end - 1);
    }
    for (int i = 0; i < r->nyields && r->owner; i++)
        use(l, r->yield[i], l->finish[r->owner->id]);
}

void live_analyse(const Program *p, Liveness *l)
{
    l->begin = NEW_ARRAY(p->arena, int, p->nops);
    l->finish = NEW_ARRAY(p->arena, int, p->nops);
    l->last_use = NEW_ARRAY(p->arena, int, p->nvalues);
    l->end = number(p->step, l, 0);
    visit(p->step, l);
}
