/* propagate_demand.c: finds the placements that the readers of a value want.
 *
 * A boundary wants the plan's layout on the axes that it constrains, and on the
 * others what its own readers want. A stacked or free operand of a loop is
 * wanted as the readers in the body want it, a stacked yield as the readers of
 * the stack.
 */
#include "passes/sharding/propagate.h"

/* ---- readers ------------------------------------------------------------- */

typedef struct Counter {
    Propagate *g;
    int *next; /* by value id: first counts, then the next index to fill */
    bool fill;
} Counter;

static void add_use(Counter *c, const Value *v, Use use)
{
    int *next = &c->next[v->id];
    if (c->fill)
        c->g->use[*next] = use;
    ++*next;
}

static void count_uses(Counter *c, Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        add_use(c, op->arg[i], (Use){op, i, false});
    for (int i = 0; op->body && i < op->body->nyields; i++)
        add_use(c, op->body->yield[i], (Use){op, i, true});
}

void propagate_find_uses(Propagate *g)
{
    Program *p = g->p;
    Counter c = {g, NEW_ARRAY(p->arena, int, p->nvalues + 1), false};
    for_ops(op, p->step)
        count_uses(&c, op);
    g->first_use = NEW_ARRAY(p->arena, int, p->nvalues + 1);
    int total = 0;
    for (uint32_t i = 0; i <= p->nvalues; i++) {
        int n = c.next[i];
        g->first_use[i] = c.next[i] = total;
        total += n;
    }
    g->use = NEW_ARRAY(p->arena, Use, total + 1);
    c.fill = true;
    for_ops(op, p->step)
        count_uses(&c, op);
}

/* ---- wanted placements --------------------------------------------------- */

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

static void collect_use(const Collector *c, const Use *u, const Settled *s)
{
    Op *op = u->op;
    if (op == c->skip)
        return;
    if (u->yield || op->kind == OP_loop) {
        /* A loop may have more yields than arguments. The placement of a carry
         * holds for its start and for its yield. */
        if (u->index < op->ncarry) {
            const Value *arg = op->body->arg[u->index];
            if (c->g->settled[op->id])
                add_demand(c, arg, s, &arg->type.place, 0);
        } else {
            collect_demands(
                c, u->yield ? op->out[u->index] : op->body->arg[u->index], s);
        }
    } else if (op->kind == OP_boundary) {
        collect_boundary(c, op, s);
    } else if (op_is_fixed(op)) {
        Placement place = fixed_want(c->g->p, op, u->index);
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
            add_demand(c, op->arg[u->index], s, &place, either);
    } else if (c->g->choice[op->id]) {
        add_demand(c, op->arg[u->index], s,
                   &c->g->choice[op->id]->want[u->index], 0);
    }
}

static void collect_demands(const Collector *c, const Value *v,
                            const Settled *s)
{
    for (int i = c->g->first_use[v->id]; i < c->g->first_use[v->id + 1]; i++)
        collect_use(c, &c->g->use[i], s);
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
