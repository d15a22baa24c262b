/* explain_kernel.c: explains a kernel (--explain k05_ffn_norm): its module and
 * line, its calls and bytes, the tensors that it reads and writes, and the ops
 * that it fuses.
 */
#include "report/explain.h"

#include <string.h>

static void values(Out *o, const Program *p, const char *what, int n,
                   Value *const *v)
{
    out_line(o, "%s", what);
    for (int i = 0; i < n; i++)
        out_line(o, "  %%%-20s %-36s %s per rank", v[i]->name,
                 type_text(p->arena, &v[i]->type, &p->mesh),
                 bytes_text(p->arena,
                              type_local_bytes(&v[i]->type, &p->mesh)));
}

static void explain_work(Out *o, const Program *p, const Statement *w)
{
    out_line(o, "kernel %s: %s%s%s  (%s)", w->id, phase_name(w->op->phase),
             *w->op->path ? ", in " : "", w->op->path,
             diag_where(p->diag, p->arena, statement_loc(w->op)));
    out_line(o, "%lld call%s per step, %s per call on each rank",
             (long long)w->count, w->count == 1 ? "" : "s",
             bytes_text(p->arena, w->bytes));
    values(o, p, "reads", w->op->nargs, w->op->arg);
    values(o, p, "writes", w->op->nouts, w->op->out);
    out_line(o, "fuses");
    for (const Op *op = w->op->body->first; op; op = op->next)
        out_line(o, "  %-10s %%%-24s %s%s", op_info(op->kind)->name,
                 op->nouts ? op->out[0]->name : "",
                 diag_where(p->diag, p->arena, op->loc),
                 op->recomputed ? ", recomputed" : "");
}

bool explain_kernel(Out *o, const Program *p, const char *name)
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
