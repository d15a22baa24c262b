/* explain_module.c: explains a module (--explain layers.*.attention): the
 * styles that name it, the tensors that cross its boundary, its parameters,
 * collectives, flops and memory.
 */
#include "ir/analysis/producer.h"
#include "ir/analysis/statement.h"
#include "ir/path.h"
#include "ir/plan/checkpoint.h"
#include "passes/sharding/layouts.h"
#include "report/explain.h"

#include <string.h>

/* ---- styles -------------------------------------------------------------- */

static const char *layout_text(Arena *a, Layout l)
{
    switch (l.kind) {
    case LAYOUT_NONE:
        return "as it comes";
    case LAYOUT_REPLICATE:
        return "Replicate";
    case LAYOUT_SHARD:
        return arena_printf(a, "Shard(%d)", l.dim);
    case LAYOUT_PARTIAL:
        return "Partial";
    }
    return "";
}

static void layouts(Out *o, const Program *p, const char *what, int n,
                    const Layout *from, const Layout *to)
{
    for (int i = 0; i < n; i++)
        out_line(o, "        %s %d: %s -> %s", what, i,
                 layout_text(p->arena, from[i]), layout_text(p->arena, to[i]));
}

static void styles(Out *o, const Program *p, const Module *m)
{
    bool any = false;
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (strcmp(s->path, m->path) != 0)
            continue;
        out_line(o, "  %-4s  %s  (%s)", p->mesh.name[s->axis],
                 style_text(p->arena, s),
                 diag_where(p->diag, p->arena, s->loc));
        layouts(o, p, "input", s->nin, s->in_from, s->in_to);
        layouts(o, p, "output", s->nout, s->out_from, s->out_to);
        any = true;
    }
    if (!any)
        out_line(o, "  none");
}

/* ---- boundary ------------------------------------------------------------ */

/* A loop over the elements of an array is inside the module that has the array,
 * not inside an element. */
static bool is_inside(const Op *op, const Module *m)
{
    return op->phase == PH_FORWARD && op->kind != OP_param &&
           op->kind != OP_input && op->kind != OP_output &&
           path_is_below(op->path, m->path);
}

/* Whether an op of the module computes the value, or a loop in the module
 * carries one that such an op computes. */
static bool is_made_inside(const Value *v, const Module *m)
{
    while (!v->def && v->region->owner && is_inside(v->region->owner, m))
        v = v->region->owner->arg[v->index];
    return v->def && is_inside(v->def, m);
}

/* Whether v is a parameter or a constant, possibly after views, casts and
 * gathers, or as an argument of a loop. */
static bool is_parameter(const Value *v)
{
    const Op *op = value_before_loops(v)->def;
    return parameter_of(v) || (op && op->phase == PH_INIT);
}

void explain_value_line(Out *o, const Program *p, const Value *v)
{
    out_line(o, "  %%%-20s %-36s %s per rank", v->name,
             type_text(p->arena, &v->type, &p->mesh),
             bytes_text(p->arena, type_local_bytes(&v->type, &p->mesh)));
}

static bool read_outside(const Region *r, const Value *v, const Module *m)
{
    /* Only carried results count: the backward pass reads the stacked ones. */
    bool leaves = r->owner && !is_inside(r->owner, m);
    for (int i = 0; leaves && i < r->owner->ncarry; i++)
        if (r->yield[i] == v)
            return true;
    for (const Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (op->arg[i] == v && op->phase == PH_FORWARD &&
                !is_inside(op, m))
                return true;
    return false;
}

/* Lists the values that the module's forward ops read from other modules, or
 * (not `inputs`) compute for them; returns their number. */
static int boundary(Out *o, const Program *p, const Region *r, const Module *m,
                    bool inputs, bool *seen)
{
    int n = 0;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            n += boundary(o, p, op->body, m, inputs, seen);
        if (!is_inside(op, m))
            continue;
        for (int i = 0; i < (inputs ? op->nargs : op->nouts); i++) {
            const Value *v = inputs ? op->arg[i] : op->out[i];
            bool crosses = inputs
                ? !is_made_inside(v, m) && !is_parameter(v)
                : read_outside(r, v, m);
            if (!crosses || seen[v->id])
                continue;
            seen[v->id] = true;
            explain_value_line(o, p, v);
            n++;
        }
    }
    return n;
}

/* ---- parameters, collectives, cost --------------------------------------- */

static void module_params(Out *o, const Program *p, const Module *m,
                          int64_t sum[2])
{
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        int owner = pm->state_of >= 0 ? pm->state_of : i;
        if (owner < m->first_param || owner >= m->first_param + m->nparams)
            continue;
        int64_t bytes = type_local_bytes(&pm->type, &p->mesh);
        sum[pm->state_of >= 0] += bytes;
        if (pm->state_of >= 0)
            continue;
        const char *place = user_placements(p, &pm->type);
        out_line(o, "  %-32s %-30s %s%s%s%s  %s per rank", pm->name,
                 type_text(p->arena, &pm->type, &p->mesh), place,
                 *place ? " " : "", pm->unit ? "unit " : "",
                 pm->unit ? pm->unit : "", bytes_text(p->arena, bytes));
    }
}

/* Whether the collective gathers the unit of one of the module's parameters, or
 * reduces the unit's gradients. */
static bool moves_unit(const Program *p, const CollectiveInfo *c,
                       const Module *m)
{
    for (int i = m->first_param; i < m->first_param + m->nparams; i++)
        if (p->param.at[i].unit && !strcmp(p->param.at[i].unit, c->tensor))
            return c->op->why.origin == ORIGIN_UNIT ||
                   c->op->why.origin == ORIGIN_GRADIENT;
    return false;
}

/* Whether a style on the module, or on a module inside it, causes the
 * collective. */
static bool asked_by(const Program *p, const CollectiveInfo *c,
                     const Module *m)
{
    for (int i = 0; i < p->plan.nstyles; i++) {
        const Style *s = &p->plan.style[i];
        if (!loc_equal(s->loc, c->op->why.loc))
            continue;
        for (int k = 0; k < p->module.n; k++)
            if (path_is_below(p->module.at[k].path, m->path) &&
                strcmp(s->path, p->module.at[k].path) == 0)
                return true;
    }
    return false;
}

static void module_collectives(Out *o, const Program *p, const Module *m)
{
    int n, found = 0;
    const CollectiveInfo *c = collectives_of(p, &n);
    for (int i = 0; i < n; i++) {
        bool here = *c[i].op->path && path_is_below(c[i].op->path, m->path);
        if (!*m->path || here || asked_by(p, &c[i], m) ||
            moves_unit(p, &c[i], m)) {
            explain_collective_line(o, p, &c[i]);
            found++;
        }
    }
    if (!found)
        out_line(o, "  none");
}

static void module_work(Out *o, const Program *p, const Module *m)
{
    int n;
    double flops[3] = {0}, total = 0;
    const Statement *w = statements_of(p, &n);
    for (int i = 0; i < n; i++) {
        double f = w[i].flops * (double)w[i].count;
        total += f;
        if (!path_is_below(w[i].op->path, m->path))
            continue;
        flops[w[i].op->recomputed ? 2 : op_is_backward(w[i].op)] += f;
    }
    double all = flops[0] + flops[1] + flops[2];
    out_line(o, "work    %sflop per step on each rank, %.1f%% of the rank's "
             "(forward %s, backward %s%s%s)",
             count_text(p->arena, all), total > 0 ? 100 * all / total : 0.0,
             count_text(p->arena, flops[0]),
             count_text(p->arena, flops[1]),
             flops[2] > 0 ? ", recomputed " : "",
             flops[2] > 0 ? count_text(p->arena, flops[2]) : "");
}

static void module_memory(Out *o, const Program *p, const Module *m,
                          const int64_t sum[2])
{
    int n;
    int64_t bytes[MEM_CLASSES] = {0};
    const LiveBlock *live = report_live(p, &n);
    for (int i = 0; i < n; i++)
        if (live[i].path && path_is_below(live[i].path, m->path))
            bytes[live[i].block->class] += live[i].bytes;
    out_line(o, "memory  per rank: parameters %s, optimizer states %s; at the "
             "peak activations %s, gradients %s",
             bytes_text(p->arena, sum[0]), bytes_text(p->arena, sum[1]),
             bytes_text(p->arena, bytes[MEM_ACTIVATIONS]),
             bytes_text(p->arena, bytes[MEM_GRADS]));
}

static void explain_module(Out *o, const Program *p, const Module *m)
{
    int64_t sum[2] = {0, 0};
    bool *seen = NEW_ARRAY(p->arena, bool, p->nvalues + 1);
    out_line(o, "module %s : %s  (%s)", *m->path ? m->path : "model", m->class,
             diag_where(p->diag, p->arena, m->loc));
    out_line(o, "styles");
    styles(o, p, m);
    out_line(o, "inputs, as the forward pass reads them");
    if (!boundary(o, p, p->step, m, true, seen))
        out_line(o, "  none");
    out_line(o, "outputs, as the forward pass computes them");
    if (!boundary(o, p, p->step, m, false, seen))
        out_line(o, "  none, or computed by a kernel of another module");
    out_line(o, "parameters");
    module_params(o, p, m, sum);
    out_line(o, "collectives (calls per step x bytes per call, on each rank)");
    module_collectives(o, p, m);
    report_experts(o, p, m->path);
    module_work(o, p, m);
    module_memory(o, p, m, sum);
}

/* A parameter inside the arrays that `path` indexes by '*': its stack has their
 * lengths. NULL if the arrays have no parameter. */
static const Param *indexed_by(const Program *p, const char *path)
{
    const char *star = strrchr(path, '*');
    if (!star)
        return NULL;
    for (int i = 0; i < p->param.n; i++)
        if (!strncmp(p->param.at[i].name, path, (size_t)(star - path) + 1))
            return &p->param.at[i];
    return NULL;
}

bool explain_modules(Out *o, const Program *p, const char *name)
{
    bool found = false;
    for (int i = 0; i < p->module.n; i++) {
        const Module *m = &p->module.at[i];
        bool here = !strcmp(name, "model")
            ? !*m->path
            : *m->path && explain_names(indexed_by(p, m->path), m->path, name);
        if (!here)
            continue;
        if (found)
            out_line(o, "");
        explain_module(o, p, m);
        found = true;
    }
    return found;
}

bool explain_names(const Param *pm, const char *path, const char *name)
{
    if (!path_overlaps(path, name))
        return false;
    for (int array = 0; *path && *name;) {
        size_t n = strcspn(name, ".");
        PathRange r;
        if (*path == '*' && *name != '*' &&
            (!path_range(name, n, &r) ||
             (pm && array < pm->type.nstack &&
              r.last >= pm->type.stack[array])))
            return false;
        array += *path == '*' || path_range(path, strcspn(path, "."), &r);
        path += strcspn(path, ".");
        name += n;
        path += *path == '.';
        name += *name == '.';
    }
    return true;
}
