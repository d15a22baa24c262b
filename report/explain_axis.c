/* explain_axis.c: explains an axis of the mesh (--explain tp): its use in the
 * plan, its process groups, the tensors that are split over it, and its
 * collectives with their bytes per step.
 */
#include "report/explain.h"

#include <string.h>

/* The axes of the program's mesh that the name stands for, 0 for none. */
static uint32_t axes_named(const Program *p, const char *name)
{
    UserAxis axis[MAX_AXES];
    int n = user_axes(p, axis);
    for (int i = 0; i < n; i++)
        if (!strcmp(axis[i].name, name))
            return ((1u << axis[i].parts) - 1) << axis[i].first;
    for (int a = 0; a < p->mesh.n; a++)
        if (!strcmp(p->mesh.name[a], name))
            return 1u << a;
    return 0;
}

static bool is_split(const Type *t, const Mesh *m, uint32_t axes)
{
    for (int a = 0; a < m->n; a++)
        if (axes >> a & 1 && t->place.ax[a].kind != AX_R)
            return true;
    return false;
}

static void axis_params(Out *o, const Program *p, uint32_t axes, bool split)
{
    int64_t bytes = 0;
    int n = 0;
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        if (pm->state_of >= 0 || is_split(&pm->type, &p->mesh, axes) != split)
            continue;
        if (n++ == 0)
            out_line(o, split ? "parameters split over it"
                              : "parameters replicated over it");
        int64_t local = type_local_bytes(&pm->type, &p->mesh);
        out_line(o, "  %-32s %-34s %s per rank", pm->name,
                 type_text(p->arena, &pm->type, &p->mesh),
                 bytes_text(p->arena, local));
        bytes += local;
    }
    if (n > 1)
        out_line(o, "  %s per rank in all", bytes_text(p->arena, bytes));
}

/* Prints how many bytes of the activations that are live at the memory peak are
 * sharded or partial over the axes, and how many are replicated. */
static void activations(Out *o, const Program *p, uint32_t axes)
{
    int64_t bytes[2] = {0, 0};
    int n;
    const LiveBlock *live = report_live(p, &n);
    for (int i = 0; i < n; i++) {
        const Block *b = live[i].block;
        if (b->class == MEM_ACTIVATIONS && live[i].type)
            bytes[is_split(live[i].type, &p->mesh, axes)] += live[i].bytes;
    }
    out_line(o, "activations at the peak: %s per rank are split or partial over "
             "it, %s are replicated",
             bytes_text(p->arena, bytes[1]),
             bytes_text(p->arena, bytes[0]));
}

static void axis_collectives(Out *o, const Program *p, uint32_t axes)
{
    int n, found = 0;
    int64_t calls[ORIGINS] = {0}, bytes[ORIGINS] = {0};
    const CollectiveInfo *c = collectives_of(p, &n);
    out_line(o, "collectives (calls per step x bytes per call, on each rank)");
    for (int i = 0; i < n; i++) {
        if (!(c[i].axes & axes))
            continue;
        explain_collective_line(o, p, &c[i]);
        Origin origin = c[i].op->why.origin;
        calls[origin] += c[i].count;
        bytes[origin] += c[i].in_place ? 0 : c[i].count * c[i].bytes;
        found++;
    }
    if (!found)
        out_line(o, "  none");
    for (Origin k = ORIGIN_NONE; k < ORIGINS; k++)
        if (calls[k])
            out_line(o, "  %-9s %lld call%s, %s per step on each rank",
                     *origin_name(k) ? origin_name(k) : "other",
                     (long long)calls[k], calls[k] == 1 ? "" : "s",
                     bytes_text(p->arena, bytes[k]));
}

bool explain_axis(Out *o, const Program *p, const char *name)
{
    uint32_t axes = axes_named(p, name);
    if (!axes)
        return false;
    out_line(o, "axis %s: %lld ranks; %s%s", name,
             (long long)mesh_group(&p->mesh, axes),
             p->plan.pipeline.axes & axes
                 ? "its coordinates run the stages of `pipeline`; all read the "
                   "same sequences"
             : p->plan.tensor_axes & axes
                 ? "named by `parallelize`, so its ranks read the same sequences"
             : p->plan.context.axes & axes & p->mesh.zigzag
                 ? "named by `context`, so each of its ranks reads two pieces of each "
                   "sequence, in zigzag order"
             : p->plan.context.axes & axes
                 ? "named by `context`, so each of its ranks reads a part of each sequence"
                 : "it splits the batch",
             p->plan.experts.axes & axes ? "; `expert_parallel` splits experts over it" : "");
    report_group(o, p, axes);
    axis_params(o, p, axes, true);
    axis_params(o, p, axes, false);
    activations(o, p, axes);
    axis_collectives(o, p, axes);
    if (p->plan.pipeline.axes & axes && p->memory)
        report_pipeline(o, p);
    return true;
}

void explain_collective_line(Out *o, const Program *p,
                             const CollectiveInfo *c)
{
    const Op *op = c->op;
    out_line(o, "  %-5s %-14s %-6s %4lld x %-11s %s", c->label, c->kind,
             c->axis, (long long)c->count, report_size(p->arena, c),
             c->tensor);
    const char *link = collective_link(p, c);
    out_line(o, "        %s: %s%s%s  (%s)", phase_name(op->phase),
             op->why.text ? op->why.text : "", *link ? ", " : "", link,
             diag_where(p->diag, p->arena, statement_loc(op)));
}
