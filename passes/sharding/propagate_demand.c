/* propagate_demand.c: finds the placements that the readers of a value want.
 *
 * A boundary wants the plan's layout on the axes that it constrains, and on the
 * others what its own readers want. A stacked or free operand of a loop is
 * wanted as the readers in the body want it, a stacked yield as the readers of
 * the stack.
 */
#include "passes/sharding/propagate.h"

/* The axes that boundaries between value and reader fix, and their
 * placements. */
typedef struct Settled {
    uint32_t axes;
    AxisPlace with[MAX_AXES];
} Settled;

typedef struct Collector {
    const Propagate *g;
    Demands *list;
    const Op *skip; /* a reader that is ignored */
} Collector;

static void add_demand(const Collector *c, const Value *v, const Settled *s,
                       const Placement *place, uint32_t either)
{
    const Mesh *m = &c->g->p->mesh;
    Placement at = s->axes
                       ? place_override(m, &v->type, place, s->axes, s->with)
                       : *place;
    demands_add(c->list, &(Demand){UINT32_MAX, either & ~s->axes, at});
}

static void collect_demands(const Collector *c, const Value *v,
                            const Settled *s);

static void collect_boundary(const Collector *c, const Op *op,
                             const Settled *s)
{
    const Value *v = op->arg[0];
    AxisPlace with[MAX_AXES];
    uint32_t axes = constrained_axes(c->g->layout[op->id], true, with);
    Settled more = *s;
    for (int a = 0; a < MAX_AXES; a++)
        if (axes & ~s->axes & 1u << a)
            more.with[a] = with[a];
    more.axes |= axes;
    if (more.axes) {
        Placement none = {0};
        Placement place = place_override(&c->g->p->mesh, &v->type, &none,
                                         more.axes, more.with);
        demands_add(c->list, &(Demand){more.axes, 0, place});
    }
    collect_demands(c, op->out[0], &more);
}

/* The placement of a carry holds for its start and for its yield. */
static void collect_carry(const Collector *c, const Op *loop, int i,
                          const Settled *s)
{
    const Value *arg = loop->body->arg[i];
    if (c->g->settled[loop->id])
        add_demand(c, arg, s, &arg->type.place, 0);
}

/* Collects the demand of operand `index` of op. */
static void collect_use(const Collector *c, const Op *op, int index,
                        const Settled *s)
{
    if (op->kind == OP_loop && index < op->ncarry) {
        collect_carry(c, op, index, s);
    } else if (op->kind == OP_loop) {
        collect_demands(c, op->body->arg[index], s);
    } else if (op->kind == OP_boundary) {
        collect_boundary(c, op, s);
    } else if (op_is_fixed(op)) {
        Placement place = fixed_want(c->g->p, op, index);
        /* The gradient of a replicated parameter arrives as a Partial and is
         * reduced here, together with others, instead of earlier, layer by
         * layer. */
        const Mesh *m = &c->g->p->mesh;
        uint32_t either = 0;
        for (int a = 0; op->kind == OP_finish_grad && a < m->n; a++)
            if (place.ax[a].kind != AX_S && m->size[a] > 1) {
                place.ax[a].kind = AX_P;
                either |= 1u << a;
            }
        bool scalar = op->kind == OP_output && op->arg[0]->type.ndim == 0;
        if (op->kind == OP_finish_grad || scalar)
            add_demand(c, op->arg[index], s, &place, either);
    } else if (c->g->choice[op->id]) {
        add_demand(c, op->arg[index], s,
                   &c->g->choice[op->id]->want[index], 0);
    }
}

static void collect_demands(const Collector *c, const Value *v,
                            const Settled *s)
{
    int n;
    Op *const *reader = uses_readers(&c->g->uses, v, &n);
    const Region *r = v->region;
    const Op *loop = r->owner;
    for (int i = 0; i < r->nyields && loop != c->skip; i++)
        if (r->yield[i] == v && i < loop->ncarry)
            collect_carry(c, loop, i, s);
        else if (r->yield[i] == v)
            collect_demands(c, loop->out[i], s);
    for (int k = 0; k < n; k++)
        for (int i = 0; i < reader[k]->nargs && reader[k] != c->skip; i++)
            if (reader[k]->arg[i] == v)
                collect_use(c, reader[k], i, s);
}

void propagate_demands(const Propagate *g, const Value *v, Demands *list)
{
    Collector c = {g, list, NULL};
    Settled none = {0};
    collect_demands(&c, v, &none);
}

bool propagate_shared(void *context, const Op *op, int i,
                      const Placement *want)
{
    const Propagate *g = context;
    Demands list = {0};
    Collector c = {g, &list, op};
    Settled none = {0};
    collect_demands(&c, op->arg[i], &none);
    for (int k = 0; k < list.n; k++) {
        const Type *t = &op->arg[i]->type;
        Placement to = list.at[k].place;
        if (list.at[k].axes != UINT32_MAX)
            to = place_override(&g->p->mesh, t, &t->place, list.at[k].axes,
                                to.ax);
        if (place_equal(&to, want))
            return true;
    }
    return false;
}
