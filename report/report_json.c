/* report_json.c: prints the plan for other tools (--emit json).
 *
 * Other tools rely on the field names and their meanings; report_units.c states
 * the unit of measurement of each number. A stack of layers is one entry with
 * the number of layers as `count`, so that the output does not grow with depth.
 */
#include "base/version.h"
#include "codegen/cpu_level.h"
#include "report/report.h"
#include "ir/analysis/flops.h"

#include <string.h>

static void field(Out *o, const char *name, const char *text)
{
    out(o, "\"%s\": ", name);
    out_json_string(o, text);
}

static void number(Out *o, const char *name, int64_t n)
{
    out(o, "\"%s\": %lld", name, (long long)n);
}

static void mesh(Out *o, const Program *p)
{
    UserAxis axis[MAX_AXES];
    int n = user_axes(p, axis);
    out(o, "  \"mesh\": [");
    for (int a = 0; a < n; a++) {
        out(o, "%s{", a ? ", " : "");
        field(o, "name", axis[a].name);
        out(o, ", ");
        number(o, "size", axis[a].size);
        out(o, "}");
    }
    out(o, "],\n");
}

static void shape(Out *o, const Type *t)
{
    out(o, "\"shape\": [");
    for (int d = 0; d < t->ndim; d++)
        out(o, "%s%lld", d ? ", " : "", (long long)t->dim[d]);
    out(o, "]");
}

static void placement(Out *o, const Program *p, const Type *t)
{
    out(o, "\"placement\": {");
    UserAxis axis[MAX_AXES];
    int n = user_axes(p, axis);
    for (int a = 0; a < n; a++) {
        out(o, "%s", a ? ", " : "");
        field(o, axis[a].name, user_axis_placement(p, t, &axis[a]));
    }
    out(o, "}");
}

static void param(Out *o, const Program *p, const Param *pm)
{
    int64_t count = 1;
    for (int i = 0; i < pm->type.nstack; i++)
        count *= pm->type.stack[i];
    out(o, "    {");
    field(o, "name", pm->name);
    out(o, ", ");
    Type type = param_shape(pm);
    shape(o, &type);
    out(o, ", ");
    field(o, "dtype", dtype_name(pm->type.dtype));
    out(o, ", ");
    placement(o, p, &pm->type);
    out(o, ", ");
    number(o, "local_elements",
           type_local_elements(&pm->type, &p->mesh) / count);
    out(o, ", ");
    number(o, "count", count);
    out(o, ", \"unit\": ");
    if (pm->unit)
        out_json_string(o, pm->unit);
    else
        out(o, "null");
    out(o, ", ");
    field(o, "source", diag_where(p->diag, p->arena, pm->loc));
    out(o, "}");
}

static void params(Out *o, const Program *p)
{
    const char *separator = "\n";
    out(o, "  \"params\": [");
    for (int i = 0; i < p->param.n; i++) {
        if (p->param.at[i].state_of >= 0)
            continue;
        out(o, "%s", separator);
        param(o, p, &p->param.at[i]);
        separator = ",\n";
    }
    out(o, "\n  ],\n");
}

static void collective(Out *o, const Program *p, const CollectiveInfo *c)
{
    Loc loc = c->op->why.loc.line ? c->op->why.loc : c->op->loc;
    out(o, "    {");
    field(o, "id", c->label);
    out(o, ", ");
    field(o, "kind", c->kind);
    out(o, ", ");
    field(o, "axis", c->axis);
    out(o, ", ");
    number(o, "group_size", c->group_size);
    out(o, ", ");
    field(o, "tensor", c->tensor);
    out(o, ", ");
    field(o, "phase", phase_name(c->op->phase));
    out(o, ", ");
    field(o, "dtype", dtype_name(c->dtype));
    out(o, ", ");
    number(o, "bytes", c->bytes);
    out(o, ", ");
    number(o, "count", c->count);
    out(o, ", \"in_place\": %s, ", c->in_place ? "true" : "false");
    number(o, "as_shards", c->shards);
    out(o, ", ");
    field(o, "source", diag_where(p->diag, p->arena, loc));
    out(o, ", ");
    field(o, "why", c->op->why.text ? c->op->why.text : "");
    out(o, ", ");
    field(o, "origin", origin_name(c->op->why.origin));
    out(o, "}");
}

static void collectives(Out *o, const Program *p)
{
    int n;
    CollectiveInfo *c = collectives_of(p, &n);
    out(o, "  \"collectives\": [");
    for (int i = 0; i < n; i++) {
        out(o, "%s", i ? ",\n" : "\n");
        collective(o, p, &c[i]);
    }
    out(o, "%s],\n", n ? "\n  " : "");
}

static void work(Out *o, const Program *p)
{
    int n;
    WorkInfo *w = work_of(p, &n);
    out(o, "  \"work\": [");
    for (int i = 0; i < n; i++) {
        out(o, "%s    {", i ? ",\n" : "\n");
        field(o, "id", w[i].id);
        out(o, ", ");
        field(o, "kind", w[i].kind);
        out(o, ", ");
        field(o, "phase", phase_name(w[i].op->phase));
        out(o, ", ");
        number(o, "bytes", w[i].bytes);
        out(o, ", \"flops\": ");
        out_double(o, w[i].flops);
        out(o, ", ");
        number(o, "count", w[i].count);
        out(o, ", ");
        field(o, "path", w[i].op->path);
        out(o, ", ");
        field(o, "detail", w[i].detail);
        out(o, ", ");
        field(o, "source", diag_where(p->diag, p->arena, work_loc(&w[i])));
        out(o, "}");
    }
    out(o, "%s],\n", n ? "\n  " : "");
}

static void memory(Out *o, const Program *p)
{
    const MemoryPlan *m = p->memory;
    out(o, "  \"memory\": {");
    for (int c = 0; c < MEM_CLASSES; c++) {
        number(o, memory_class_words[c], m->at_peak[c]);
        out(o, ", ");
    }
    number(o, "peak", m->peak);
    out(o, ", ");
    number(o, "lower_bound", m->lower_bound);
    out(o, ", ");
    number(o, "host", m->host);
    out(o, ", ");
    number(o, "staging", report_staging(p));
    out(o, "},\n  \"at_peak\": [");
    int n;
    const Block **live = report_alive(p, &n);
    const BlockSource *from = report_block_sources(p);
    for (int i = 0; i < n; i++) {
        out(o, "%s    {", i ? ",\n" : "\n");
        field(o, "name", live[i]->name);
        out(o, ", ");
        field(o, "class", memory_class_words[live[i]->class]);
        out(o, ", ");
        number(o, "bytes", live[i]->counted);
        out(o, ", ");
        field(o, "source", report_block_where(p, from, live[i]));
        out(o, "}");
    }
    out(o, "\n  ],\n");
}

static void transfers(Out *o, const Program *p)
{
    int n;
    const TransferInfo *x = transfers_of(p, &n);
    out(o, "  \"transfers\": [");
    for (int i = 0; i < n; i++) {
        out(o, "%s    {", i ? ",\n" : "\n");
        field(o, "id", x[i].label);
        out(o, ", ");
        field(o, "tensor", x[i].param->name);
        out(o, ", ");
        field(o, "to", x[i].to_host ? "host" : "device");
        out(o, ", ");
        field(o, "phase", phase_name(x[i].op->phase));
        out(o, ", ");
        number(o, "bytes", x[i].bytes);
        out(o, ", ");
        number(o, "count", x[i].count);
        out(o, ", ");
        field(o, "source",
              diag_where(p->diag, p->arena, p->plan.offload_loc));
        out(o, "}");
    }
    out(o, "%s],\n", n ? "\n  " : "");
}

static void warning(Out *o, const Program *p, const Warning *w)
{
    out(o, "    {");
    field(o, "kind", w->kind == WARN_COLLECTIVE ? "collective" : "repeated");
    out(o, ", ");
    field(o, "axis", w->axis);
    out(o, ", ");
    field(o, "what", w->text);
    out(o, ", ");
    number(o, "ops", w->ops);
    out(o, ", ");
    number(o, "calls", w->calls);
    out(o, ", ");
    number(o, "bytes", w->bytes);
    out(o, ", \"flops\": ");
    out_double(o, w->flops);
    out(o, ", \"redundant_flops\": ");
    out_double(o, w->wasted);
    out(o, ", ");
    field(o, "source", diag_where(p->diag, p->arena, w->loc));
    out(o, ", \"help\": [");
    for (const char *at = w->help; at && *at;) {
        size_t n = strcspn(at, "\n");
        out(o, at == w->help ? "" : ", ");
        out_json_string(o, arena_strndup(p->arena, at, n));
        at += n + (at[n] != 0);
    }
    out(o, "]}");
}

static void warnings(Out *o, const Program *p)
{
    Warnings all = report_find_warnings(p);
    out(o, "  \"warnings\": [");
    for (int i = 0; i < all.n; i++) {
        out(o, "%s", i ? ",\n" : "\n");
        warning(o, p, &all.at[i]);
    }
    out(o, "%s],\n", all.n ? "\n  " : "");
}

void report_json(Out *o, const Program *p, const TargetInfo *t)
{
    out(o, "{\n  \"parc\": \"" PARC_VERSION "\",\n  ");
    field(o, "model", p->model);
    out(o, ",\n  ");
    field(o, "plan", p->plan.name);
    out(o, ",\n");
    if (t->cpu) {
        out(o, "  ");
        field(o, "cpu", t->cpu->name);
        out(o, ",\n");
    }
    report_units(o, p);
    mesh(o, p);
    params(o, p);
    collectives(o, p);
    report_json_groups(o, p);
    work(o, p);
    memory(o, p);
    transfers(o, p);
    warnings(o, p);
    report_json_forward(o, p);
    out(o, "  \"flops\": {");
    for (Phase phase = PH_FORWARD; phase <= PH_OPTIMIZER; phase++) {
        out(o, "%s\"%s\": ", phase == PH_FORWARD ? "" : ", ",
            phase_name(phase));
        out_double(o, program_flops(p, phase));
    }
    out(o, "},\n  \"recomputed_flops\": ");
    out_double(o, program_flops_again(p));
    out(o, ",\n  \"model_flops\": ");
    out_double(o, program_flops_model(p));
    out(o, "\n}\n");
}
