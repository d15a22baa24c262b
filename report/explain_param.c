/* explain_param.c: explains a parameter (--explain layers.*.attention.wq.weight):
 * its placement with reasons, its copy in the compute type, and every statement
 * of a step that gathers it, reads it, computes or reduces its gradient, or
 * updates it.
 *
 *   in a step
 *     forward    ag2           gathers it             all_gather over dp: …
 *     forward    wq_out        reads it               matmul abk,fk->abf
 *     backward   d_wq.weight   computes its gradient  matmul abf,abk->fk
 *     backward   rs9           reduces its gradient   reduce_scatter over dp …
 *     optimizer  k31_adamw_…   updates it             kernel
 */
#include "ir/analysis/producer.h"
#include "ir/analysis/statement.h"
#include "report/explain.h"

#include <string.h>

/* What statements do with the parameter, by op id. */
typedef struct Life {
    const Program *p;
    const char **does; /* "reads it"; NULL: nothing */
    bool *seen;        /* by value id */
} Life;

static void mark(Life *l, const Op *op, const char *does)
{
    if (!l->does[op->id])
        l->does[op->id] = does;
}

/* ---- from the parameter to its readers ----------------------------------- */

/* Marks the readers of `value`, of the parameter or of its copy. */
static void mark_readers(Life *l, const Value *value)
{
    for_ops(op, l->p->step)
        for (int i = 0; i < op->nargs && op->kind != OP_assign; i++)
            if (op->kind != OP_loop && parameter_of(op->arg[i]) == value)
                mark(l, op, op->phase == PH_OPTIMIZER     ? "updates it"
                            : op->kind == OP_all_gather ? "gathers it"
                            : op->kind == OP_fetch      ? "fetches it"
                            : op_passes_on(op)          ? "converts it"
                                                        : "reads it");
}

/* ---- from the update to the gradient ------------------------------------- */

static bool same_shape(const Type *a, const Type *b)
{
    return a->ndim == b->ndim &&
           memcmp(a->dim, b->dim, (size_t)a->ndim * sizeof *a->dim) == 0;
}

/* Marks what computes and reduces the gradient v; `like` is the parameter's
 * type. A kernel may add several gradients of its shape. */
static void follow_gradient(Life *l, const Value *v, const Type *like)
{
    for (;;) {
        v = value_before_loops(v);
        const Op *op = v->def;
        if (!op || l->seen[v->id])
            return;
        l->seen[v->id] = true;
        bool reduces = op_is_collective(op->kind);
        if (op->kind == OP_loop) {
            v = op->body->yield[v->index];
        } else if (reduces || op_passes_on(op)) {
            mark(l, op, reduces ? "reduces its gradient"
                                : "converts its gradient");
            v = op->arg[v->index < op->nargs ? v->index : 0];
        } else {
            if (op_is_backward(op))
                mark(l, op, "computes its gradient");
            for (int i = 0; op->kind == OP_fused && i < op->nargs; i++)
                if (same_shape(&op->arg[i]->type, like))
                    follow_gradient(l, op->arg[i], like);
            return;
        }
    }
}

/* The statement that computes the parameter's new value; NULL: it is frozen. */
static const Op *update_of(const Program *p, const Param *pm)
{
    const Value *v = NULL;
    for_ops(op, p->step)
        if (op->kind == OP_assign &&
            &p->param.at[attr_param(op)] == pm)
            v = op->arg[0];
    while (v && v->def && v->def->kind == OP_loop)
        v = v->def->body->yield[v->index];
    return v ? v->def : NULL;
}

static void follow_update(Life *l, const Param *pm)
{
    const Op *op = update_of(l->p, pm);
    if (!op)
        return;
    l->does[op->id] = "updates it";
    for (int i = 0; i < op->nargs; i++) {
        const Value *v = value_before_loops(op->arg[i]);
        bool stored = v->def && v->def->kind == OP_param;
        if (!stored && same_shape(&op->arg[i]->type, &pm->type))
            follow_gradient(l, op->arg[i], &pm->type);
    }
}

/* ---- output -------------------------------------------------------------- */

static void life(Out *o, const Program *p, const Param *pm)
{
    Life l = {p, NEW_ARRAY(p->arena, const char *, p->nops + 1),
              NEW_ARRAY(p->arena, bool, p->nvalues + 1)};
    int index = (int)(pm - p->param.at), n, width = 4;
    for (int i = 0; i < p->param.n; i++) {
        const Param *q = &p->param.at[i];
        bool copy = q->state_of == index && q->init.kind == INIT_COPY;
        if ((i == index || copy) && q->value)
            mark_readers(&l, q->value);
        if (copy)
            out_line(o, "its copy %s : %s, written by the update", q->name,
                     type_text(p->arena, &q->type, &p->mesh));
    }
    follow_update(&l, pm);
    const Statement *s = statements_of(p, &n);
    for (int i = 0; i < n; i++)
        if (l.does[s[i].op->id] && (int)strlen(s[i].id) > width)
            width = (int)strlen(s[i].id);
    out_line(o, "in a step");
    for (int i = 0; i < n; i++)
        if (l.does[s[i].op->id])
            out_line(o, "  %-9s %-*s  %-21s %s%s%s", phase_name(s[i].op->phase),
                     width, s[i].id, l.does[s[i].op->id],
                     strcmp(s[i].kind, "collective") ? s[i].kind : "",
                     *s[i].detail && strcmp(s[i].kind, "collective") ? " " : "",
                     s[i].detail);
}

void explain_placement(Out *o, const Program *p, const Value *v)
{
    for (int a = 0; a < p->mesh.n; a++) {
        const Why *w = &v->why[a];
        out_line(o, "  %-4s %-6s %s%s%s%s", p->mesh.name[a],
                 user_placement(p, &v->type, a), why_text(p->arena, w),
                 w->loc.line ? "  (" : "",
                 w->loc.line ? diag_where(p->diag, p->arena, w->loc) : "",
                 w->loc.line ? ")" : "");
    }
}

void explain_param(Out *o, const Program *p, const Param *pm)
{
    out_line(o, "parameter %s : %s  (%s)", pm->name,
             type_text(p->arena, &pm->type, &p->mesh),
             diag_where(p->diag, p->arena, pm->loc));
    for (int i = 0; i < pm->nalias; i++)
        out_line(o, "tied: %s is the same parameter", pm->alias[i]);
    for (int i = 0; i < pm->nfile; i++)
        out_line(o, "in files: %s", file_tensor_text(p->arena, &pm->file[i]));
    if (pm->unit)
        out_line(o, "in unit %s", pm->unit);
    const char *group = param_group_text(p, pm);
    if (*group)
        out_line(o, "in a group of the optimizer: %s", group);
    out_line(o, "%lld elements per rank",
             (long long)type_local_elements(&pm->type, &p->mesh));
    if (!pm->value)
        return;
    out_line(o, "placed");
    explain_placement(o, p, pm->value);
    life(o, p, pm);
}
