/* units.c: finds the FSDP unit of a parameter; see units.h. */
#include "ir/units.h"

#include <string.h>

/* The number of arrays that contain a module: the indices in its path. */
static int arrays_above(const Module *m)
{
    int n = path_numbers(m->path);
    for (int i = 0; i < path_depth(m->path); i++) {
        size_t size;
        n += *path_segment(m->path, i, &size) == '*';
    }
    return n;
}

int64_t module_elements(const Program *p, const Module *m)
{
    int64_t n = 0;
    int outer = arrays_above(m);
    for (int i = 0; i < m->nparams; i++) {
        const Param *q = &p->param.at[m->first_param + i];
        if (q->state_of >= 0 || q->module_state)
            continue;
        Type t = param_shape(q);
        for (int k = 0; k < outer && k < t.nstack; k++)
            t.stack[k] = 1;
        if (__builtin_add_overflow(n, type_elements(&t), &n))
            return INT64_MAX; /* ir_check_total will refuse the model */
    }
    return n;
}

const Unit *unit_of_param(const Program *p, int param)
{
    const Param *q = &p->param.at[param];
    if (q->state_of >= 0)
        q = &p->param.at[q->state_of];
    return q->item ? &p->plan.unit[q->item - 1] : NULL;
}

uint32_t unit_axes(const Program *p, const Unit *u)
{
    uint32_t axes = u->axes;
    for (int a = 0; a < p->mesh.n; a++)
        if (p->mesh.size[a] == 1)
            axes &= ~(1u << a);
    return axes;
}

const Unit *sharding_unit(const Program *p, int param)
{
    const Unit *u = unit_of_param(p, param);
    return u && u->strategy != STRATEGY_NO_SHARD && unit_axes(p, u) ? u : NULL;
}

const char *unit_name_of_param(const Program *p, int param)
{
    const Param *q = &p->param.at[param];
    return q->state_of >= 0 ? p->param.at[q->state_of].unit : q->unit;
}

static const Unit *unit_named(const Program *p, const char *name)
{
    for (int i = 0; i < p->param.n; i++) {
        const char *unit = p->param.at[i].unit;
        if (unit && strcmp(unit, name) == 0)
            return unit_of_param(p, i);
    }
    return NULL;
}

int unit_prefetch_of(const Program *p, const char *name, int otherwise)
{
    const Unit *u = unit_named(p, name);
    return u && u->prefetch >= 0 ? u->prefetch : otherwise;
}

bool unit_stays_gathered(const Program *p, const char *name)
{
    const Unit *u = unit_named(p, name);
    return u && u->reshard == 0;
}

bool unit_gathers_per_step(const Program *p, const char *name)
{
    const Unit *u = unit_named(p, name);
    return u && u->gather == PER_STEP;
}

bool unit_overlaps(const Program *p, const char *name)
{
    const Unit *u = unit_named(p, name);
    return !u || u->overlap;
}

bool op_gathers_unit(const Op *op)
{
    return op->kind == OP_all_gather && attr_unit(op) && attr_unit(op)[0];
}

bool op_is_part_gather(const Op *op)
{
    return op_gathers_unit(op) && type_flat_axes(&op->out[0]->type);
}

bool op_is_unit_gather(const Op *op)
{
    return op_gathers_unit(op) && !type_flat_axes(&op->out[0]->type);
}
