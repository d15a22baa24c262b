/* report_explain.c: explains what a name of the plan means (--explain NAME).
 *
 * NAME is a parameter ("layers.*.attention.wq.weight", or with a layer's
 * number), a collective ("ag3"), an axis of the mesh ("tp"), "memory", a module
 * ("layers.*.attention", "model"), a kernel ("k05_ffn_norm"), a value of the
 * program ("h.3") or a result of the model ("logits"). The last components of a
 * path are enough: "wq". This file prints the placement of a value with its
 * reasons, and the reason of a collective. explain.h declares the functions for
 * parameters, axes, memory, modules and kernels.
 */
#include "report/explain.h"
#include "ir/memory.h"
#include "ir/path.h"
#include "ir/plan/pipeline.h"
#include "ir/units.h"
#include "ir/analysis/alias.h"
#include "ir/analysis/copy_engine.h"

#include <string.h>

static void readers_in(Out *o, const Region *r, const Value *v)
{
    for (const Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (op->arg[i] == v)
                out_line(o, "  %s %%%s (%s)", op_info(op->kind)->name,
                         op->nouts ? op->out[0]->name : "-",
                         phase_name(op->phase));
}

static void explain_value(Out *o, const Program *p, const Value *v)
{
    out_line(o, "%%%s : %s", v->name,
             type_text(p->arena, &v->type, &p->mesh));
    out_line(o, "defined by %s%s at %s",
             v->def ? op_info(v->def->kind)->name : "an argument of a loop or kernel",
             v->def && v->def->path[0]
                 ? arena_printf(p->arena, " in %s", v->def->path)
                 : "",
             diag_where(p->diag, p->arena, v->loc));
    out_line(o, "placed");
    explain_placement(o, p, v);
    out_line(o, "read by");
    readers_in(o, v->region, v);
}

/* "from stage to stage: 0, 1, 2": who sends to whom in a transfer of a loop. */
static void explain_stages(Out *o, const Program *p, const Op *op)
{
    Arena *a = p->arena;
    if (op->kind == OP_move && value_stage(p, op->arg[0]) >= 0)
        out_line(o, "stage %d sends it to stage %d", value_stage(p, op->arg[0]),
                 value_stage(p, op->out[0]));
    if (!op_transfers(op))
        return;
    const StageCut *c = &p->mesh.cut[op->cut - 1];
    const char *list = "", *count = "";
    const Address *at = op->out[0]->address;
    for (int i = 0; i < c->nstages; i++) {
        int s = attr_reverse(op) ? c->nstages - 1 - i : i;
        if (c->begin[s + 1] > c->begin[s])
            list = report_listed(a, list, arena_printf(a, "%d", s), ", ");
        if (at && at->rotation)
            count = arena_printf(
                a, "%s%s%lld", count, i ? ", " : "",
                (long long)p->memory->rotation[at->rotation - 1].buffers[i]);
    }
    out_line(o, "from stage to stage: %s", list);
    if (*count)
        out_line(o, "buffers of each stage: %s", count);
}

static void explain_collective(Out *o, const Program *p,
                               const CollectiveInfo *c)
{
    const Op *op = c->op;
    const char *link = collective_link(p, c);
    out_line(o, "%s: %s over %s (%lld ranks%s%s), %s, %lld call%s per step, "
             "%lld bytes per call on each rank",
             c->label, c->kind, c->axis, (long long)c->group_size,
             *link ? ", " : "", link, phase_name(op->phase), (long long)c->count,
             c->count == 1 ? "" : "s", (long long)c->bytes);
    out_line(o, "because %s  (%s)", op->why.text ? op->why.text : "",
             diag_where(p->diag, p->arena, statement_loc(op)));
    explain_stages(o, p, op);
    if (c->in_place)
        out_line(o, "in place: the ranks share the memory, no data is copied");
    if (op_uses_copy_engines(p, op))
        out_line(o, "copy engines execute it, and take no multiprocessors from other statements");
    for (int i = 0; i < op->nargs; i++)
        out_line(o, "  %%%s : %s -> %s", op->arg[i]->name,
                 type_text(p->arena, &op->arg[i]->type, &p->mesh),
                 type_text(p->arena, &op->out[i]->type, &p->mesh));
}

static void explain_work(Out *o, const Program *p, const Statement *w)
{
    out_line(o, "kernel %s: %s%s%s  (%s)", w->id, phase_name(w->op->phase),
             *w->op->path ? ", in " : "", w->op->path,
             diag_where(p->diag, p->arena, statement_loc(w->op)));
    out_line(o, "%lld call%s per step, %s per call on each rank",
             (long long)w->count, w->count == 1 ? "" : "s",
             bytes_text(p->arena, w->bytes));
    out_line(o, "reads");
    for (int i = 0; i < w->op->nargs; i++)
        explain_value_line(o, p, w->op->arg[i]);
    out_line(o, "writes");
    for (int i = 0; i < w->op->nouts; i++)
        explain_value_line(o, p, w->op->out[i]);
    out_line(o, "fuses");
    for (const Op *op = w->op->body->first; op; op = op->next)
        out_line(o, "  %-10s %%%-24s %s%s", op_info(op->kind)->name,
                 op->nouts ? op->out[0]->name : "",
                 diag_where(p->diag, p->arena, op->loc),
                 op->recomputed ? ", recomputed" : "");
}

static bool explain_kernel(Out *o, const Program *p, const char *name)
{
    int n;
    bool found = false;
    const Statement *w = statements_of(p, &n);
    for (int i = 0; i < n; i++) {
        if (w[i].op->kind != OP_fused ||
            (strcmp(w[i].id, name) != 0 &&
             strcmp(attr_name(w[i].op), name) != 0))
            continue;
        if (found)
            out_line(o, "");
        explain_work(o, p, &w[i]);
        found = true;
    }
    return found;
}

static bool called(const Param *pm, const char *name)
{
    bool found = explain_names(pm, pm->name, name);
    for (int i = 0; i < pm->nalias && !found; i++)
        found = explain_names(pm, pm->alias[i], name);
    return found;
}

static const char *nearest(const Program *p, const char *name)
{
    int n = 0, nstatements;
    const Statement *w = statements_of(p, &nstatements);
    const char **all =
        NEW_ARRAY(p->arena, const char *,
                  p->param.n + p->module.n + p->mesh.n + nstatements + 1);
    for (int i = 0; i < p->param.n; i++)
        if (p->param.at[i].state_of < 0)
            all[n++] = p->param.at[i].name;
    for (int i = 0; i < p->module.n; i++)
        if (*p->module.at[i].path)
            all[n++] = p->module.at[i].path;
    for (int i = 0; i < p->mesh.n; i++)
        all[n++] = p->mesh.name[i];
    for (int i = 0; i < nstatements; i++)
        all[n++] = w[i].id;
    all[n++] = "memory";
    return diag_near_miss(name, all, n);
}

static bool explain_params(Out *o, const Program *p, const char *name)
{
    bool found = false;
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        if (pm->state_of < 0 && called(pm, name)) {
            explain_param(o, p, pm);
            found = true;
        }
    }
    return found;
}

static bool explain_label(Out *o, const Program *p, const char *name)
{
    int n;
    const CollectiveInfo *c = collectives_of(p, &n);
    for (int i = 0; i < n; i++)
        if (!strcmp(c[i].label, name)) {
            explain_collective(o, p, &c[i]);
            return true;
        }
    return false;
}

static bool explain_named_value(Out *o, const Program *p, const char *name)
{
    const Value *v = ir_find_value(p->step, name);
    const Program *outputs = p->side[FOR_OUTPUTS];
    if (!v) /* a number that the step returns beside the loss: "dropped" */
        v = program_output(p, name);
    if (!v && outputs) { /* a result of the model: "logits" */
        v = program_output(outputs, name);
        v = v ? ir_find_value(p->step, v->name) : NULL;
    }
    if (v)
        explain_value(o, p, v);
    return v != NULL;
}

/* Explains a name that a boundary had: the variable q of `q = wq(x)`. */
static bool explain_boundary(Out *o, const Program *p, const char *name)
{
    for (int i = 0; i < p->boundary_name.n; i++) {
        const BoundaryName *b = &p->boundary_name.at[i];
        if (strcmp(b->name, name) != 0)
            continue;
        const Value *v = ir_find_value(p->step, b->value);
        if (v)
            explain_value(o, p, v);
        else
            out_line(o, "%s: no tensor stores it; the statement that reads it "
                     "also computes it  (%s)", name,
                     diag_where(p->diag, p->arena, b->loc));
        return true;
    }
    return false;
}

static bool explain_exactly(Out *o, const Program *p, const TargetInfo *t,
                            const Forecast *f, const char *name)
{
    bool found = explain_params(o, p, name) || explain_label(o, p, name) ||
                 explain_axis(o, p, name) || explain_memory(o, p, t, name) ||
                 explain_modules(o, p, name) || explain_kernel(o, p, name) ||
                 explain_named_value(o, p, name) || explain_boundary(o, p, name);
    if (found && f)
        explain_time(o, p, f, name);
    return found;
}

/* ---- the last components of a name --------------------------------------- */

/* Whether `name` is the end of the path, from a component on: "wq.weight" of
 * "layers.*.wq.weight". */
static bool ends_path(const char *path, const char *name)
{
    size_t n = strlen(path), size = strlen(name);
    return n > size && path[n - size - 1] == '.' &&
           strcmp(path + n - size, name) == 0;
}

/* Explains the only module or parameter whose path ends with the name, or lists
 * them. */
static bool explain_ending(Out *o, const Program *p, const TargetInfo *t,
                           const Forecast *f, const char *name)
{
    VEC(const char *) found = {0};
    for (int i = 0; i < p->module.n; i++)
        if (ends_path(p->module.at[i].path, name))
            vec_push(p->arena, &found, p->module.at[i].path);
    for (int i = 0; i < p->param.n; i++)
        if (p->param.at[i].state_of < 0 && ends_path(p->param.at[i].name, name))
            vec_push(p->arena, &found, p->param.at[i].name);
    if (found.n == 1)
        return explain_exactly(o, p, t, f, found.at[0]);
    if (found.n > 1)
        out_line(o, "%d names end with '%s'; give one of them:", found.n, name);
    for (int i = 0; i < found.n; i++)
        out_line(o, "  %s", found.at[i]);
    return found.n > 0;
}

bool report_explain(Out *o, const Program *p, const TargetInfo *t, const Forecast *f,
                    const char *name, const char **near)
{
    *near = NULL;
    if (explain_exactly(o, p, t, f, name) || explain_ending(o, p, t, f, name))
        return true;
    *near = nearest(p, name);
    return false;
}
