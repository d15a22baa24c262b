/* styles.c: writes the lines of `parallelize` of an automatic plan; see autoplan.h.
 *
 * A module with one weight has a style; other parameters that are split have a placement:
 *
 *   layers.*.attention.wq:       ColwiseParallel
 *   layers.*.attention.in_proj:  Shard(0)
 */
#include "autoplan/flow.h"

#include <string.h>

#include "ir/path.h"

typedef struct Styles {
    const Flow *f;
    const PlanDraft *d;
    DraftLines *line; /* by module */
} Styles;

static int module_index(const Program *p, const char *path)
{
    const Module *m = ir_module(p, path);
    return m ? (int)(m - p->module.at) : -1;
}

static void add_line(Styles *s, int module, const char *path, const char *style)
{
    DraftLine new = {path, style};
    vec_push(s->f->arena, &s->line[module], new);
}

/* ---- modules with a weight ----------------------------------------------- */

static const char *column_style(const Styles *s, const FlowWeight *w)
{
    const Op *entry = flow_entry(s->f, s->d, w);
    int d = entry && strcmp(attr_path(entry), w->path) == 0
                ? flow_sequence_dim(s->f, s->d, entry->arg[0]) : -1;
    return d < 0 ? "ColwiseParallel"
                 : arena_printf(s->f->arena, "ColwiseParallel(input=Shard(%d))", d);
}

static const char *row_style(const Styles *s, const FlowWeight *w)
{
    int d = flow_sequence_dim(s->f, s->d, w->op->out[0]);
    const char *input = w->op->kind == OP_embedding ? "input=Replicate" : "";
    const char *output = d < 0 ? "" : arena_printf(s->f->arena, "output=Shard(%d)", d);
    if (!*input && !*output)
        return "RowwiseParallel";
    return arena_printf(s->f->arena, "RowwiseParallel(%s%s%s)", input,
                        *input && *output ? ", " : "", output);
}

static void add_weights(Styles *s)
{
    for (int i = 0; i < s->f->weight.n; i++) {
        const FlowWeight *w = &s->f->weight.at[i];
        bool column = draft_splits(s->f, s->d, w->out), row = draft_splits(s->f, s->d, w->in);
        int m = w->path ? module_index(s->f->p, w->path) : -1;
        if (m >= 0 && (column || row) && s->line[m].n == 0)
            add_line(s, m, w->path, column ? column_style(s, w) : row_style(s, w));
    }
}

/* ---- where a sequence becomes whole --------------------------------------- */

/* Whether a weight that is split by columns is read through this port. */
static bool is_entry(const Styles *s, const Op *port)
{
    for (int i = 0; i < s->f->weight.n; i++) {
        const FlowWeight *w = &s->f->weight.at[i];
        if (draft_splits(s->f, s->d, w->out) && w->op->kind != OP_embedding &&
            flow_entry(s->f, s->d, w) == port)
            return true;
    }
    return false;
}

/* The dim of input k of a module that becomes whole there; -1: none does. */
static int entry_dim(const Styles *s, int module, int k)
{
    const ModulePorts *port = &s->f->port[module];
    for (int i = 0; i < port->n; i++)
        if (port_equal(attr_port(port->at[i]), (Port){true, k}) && is_entry(s, port->at[i]))
            return flow_sequence_dim(s->f, s->d, port->at[i]->arg[0]);
    return -1;
}

/* Adds PrepareModuleInput to a module whose inputs become whole. */
static void add_entries(Styles *s, int module)
{
    const Module *m = &s->f->p->module.at[module];
    const char *layouts = "";
    bool any = false;
    for (int k = 0; k < m->nin && k < MAX_PORTS; k++) {
        int d = entry_dim(s, module, k);
        any |= d >= 0;
        layouts = arena_printf(s->f->arena, d >= 0 ? "%s%sShard(%d) -> Replicate" : "%s%snone",
                               layouts, k ? ", " : "", d);
    }
    if (any)
        add_line(s, module, m->path,
                 arena_printf(s->f->arena, "PrepareModuleInput(%s)", layouts));
}

/* ---- other modules with parameters ----------------------------------------- */

static bool is_of_module(const Styles *s, const Param *q, const Module *m)
{
    return strcmp(path_parent(s->f->arena, q->name), m->path) == 0;
}

/* The dim of the sequence in all inputs and outputs of a module; -1: it is not the same, or
 * one has none. */
static int common_sequence_dim(const Styles *s, int module)
{
    const ModulePorts *port = &s->f->port[module];
    int d = port->n ? flow_sequence_dim(s->f, s->d, port->at[0]->arg[0]) : -1;
    for (int i = 1; i < port->n; i++)
        if (flow_sequence_dim(s->f, s->d, port->at[i]->arg[0]) != d)
            return -1;
    return d;
}

/* Adds placements of the module's own parameters that have a dim to split; a module with
 * parameters but without such dims and other lines runs on parts of the sequence. */
static void add_parameters(Styles *s, int module)
{
    const Program *p = s->f->p;
    const Module *m = &p->module.at[module];
    bool owns = false;
    for (int i = m->first_param; i < m->first_param + m->nparams; i++) {
        if (!is_of_module(s, &p->param.at[i], m))
            continue;
        owns = true;
        int d = flow_split_dim(s->f, s->d, i);
        if (d >= 0)
            add_line(s, module, p->param.at[i].name,
                     arena_printf(s->f->arena, "Shard(%d)", d));
    }
    int d = owns && s->line[module].n == 0 ? common_sequence_dim(s, module) : -1;
    if (d >= 0 && flow_can_name(m->path))
        add_line(s, module, m->path,
                 d == 1 ? "SequenceParallel"
                        : arena_printf(s->f->arena, "SequenceParallel(Shard(%d))", d));
}

/* ---- all lines ------------------------------------------------------------- */

/* Whether all modules in module `parent` have the same line, and nothing else. *first: the
 * index of the first one. */
static bool children_agree(const Styles *s, const char *parent, int *first)
{
    const Program *p = s->f->p;
    int n = 0;
    for (int i = 0; i < p->module.n; i++) {
        const char *path = p->module.at[i].path;
        if (!*path || strcmp(path_parent(s->f->arena, path), parent) != 0)
            continue;
        if (s->line[i].n != 1 || strcmp(s->line[i].at[0].path, path) != 0 ||
            (n > 0 && strcmp(s->line[i].at[0].style, s->line[*first].at[0].style) != 0))
            return false;
        if (n++ == 0)
            *first = i;
    }
    return n > 1;
}

/* Writes one line "attention.*" for the modules in a module that have the same line. */
static void join_children(Styles *s)
{
    const Program *p = s->f->p;
    for (int i = 0; i < p->module.n; i++) {
        const char *parent = p->module.at[i].path;
        int first = -1;
        if (!*parent || !children_agree(s, parent, &first))
            continue;
        for (int k = 0; k < p->module.n; k++)
            if (*p->module.at[k].path &&
                strcmp(path_parent(s->f->arena, p->module.at[k].path), parent) == 0 &&
                k != first)
                s->line[k].n = 0;
        s->line[first].at[0].path = arena_printf(s->f->arena, "%s.*", parent);
    }
}

DraftLines flow_style_lines(const Flow *f, const PlanDraft *d)
{
    const Program *p = f->p;
    DraftLines all = {0};
    Styles s = {f, d, NEW_ARRAY(f->arena, DraftLines, p->module.n + 1)};
    add_weights(&s);
    for (int i = 0; i < p->module.n; i++) {
        if (s.line[i].n > 0)
            continue;
        add_entries(&s, i);
        add_parameters(&s, i);
    }
    join_children(&s);
    for (int i = 0; i < p->module.n; i++)
        for (int k = 0; k < s.line[i].n; k++)
            vec_push(f->arena, &all, s.line[i].at[k]);
    return all;
}
