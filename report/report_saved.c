/* report_saved.c: lists what the forward pass saves for the backward pass, and
 * what the backward pass recomputes: in all, then for each item of the plan's
 * `checkpoint`. */
#include "report/report.h"
#include "ir/analysis/alias.h"
#include "ir/analysis/statement.h"
#include "ir/options.h"
#include "ir/plan/checkpoint.h"

enum { ANY_ITEM = -2 };

/* ---- saved values -------------------------------------------------------- */

static bool is_item(const Program *p, const Op *op, int item)
{
    return item == ANY_ITEM || checkpoint_item(p, op->path) == item;
}

/* Marks the values of the region, and of the bodies of its loops, that the
 * backward pass reads in modules of that item. */
static void mark_read(const Program *p, const Region *r, int item, bool *read)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            mark_read(p, op->body, item, read);
        if (!op_is_backward(op))
            continue;
        bool within = item != ANY_ITEM && op->kind == OP_loop;
        bool all = !within && is_item(p, op, item);
        for (int i = 0; i < op->nargs; i++)
            if (all || (within && read[op->body->arg[i]->id]))
                read[value_root(op->arg[i])->id] = true;
    }
}

static bool is_saved(const Op *op, const Value *v, const bool *read)
{
    return op->phase == PH_FORWARD && !op_is_view(op->kind) &&
           op->kind != OP_param && op->kind != OP_input && read[v->id];
}

static int list_region(Out *o, const Program *p, const Region *r,
                       const bool *read)
{
    int n = 0;
    for (const Op *op = r->first; op; op = op->next) {
        if (loop_has_forward_and_backward(op)) {
            n += list_region(o, p, op->body, read);
            continue;
        }
        for (int i = 0; i < op->nouts; i++) {
            Value *v = op->out[i];
            /* A gathered parameter that contains its shard in place has no
             * memory of its own. */
            if (!is_saved(op, v, read) || value_gathered_from(p, v))
                continue;
            n++;
            out_line(o, "  %-28s %-34s %s", v->name,
                     type_text(p->arena, &v->type, &p->mesh),
                     bytes_text(p->arena,
                                  type_local_bytes(&v->type, &p->mesh)));
        }
    }
    return n;
}

static int list_saved(Out *o, const Program *p, int item)
{
    bool *read = NEW_ARRAY(p->arena, bool, p->nvalues);
    mark_read(p, p->step, item, read);
    return list_region(o, p, p->step, read);
}

/* ---- recomputed ops ------------------------------------------------------ */

/* A kernel is listed if one of its ops is recomputed. */
static bool is_recomputed(const Program *p, const Op *op, int item)
{
    if (op->kind != OP_fused)
        return op->recomputed && op->kind != OP_loop && !op_is_view(op->kind) &&
               is_item(p, op, item);
    for (const Op *in = op->body->first; in; in = in->next)
        if (in->recomputed && is_item(p, in, item))
            return true;
    return false;
}

static int list_recomputed(Out *o, const Program *p, const Region *r, int item)
{
    int n = 0;
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            n += list_recomputed(o, p, op->body, item);
        if (!is_recomputed(p, op, item))
            continue;
        n++;
        out_line(o, "  %-28s %-34s %s",
                 op->nouts ? op->out[0]->name : op_info(op->kind)->name,
                 op->kind == OP_fused
                     ? arena_printf(p->arena, "in kernel %s", attr_name(op))
                     : op_info(op->kind)->name,
                 diag_where(p->diag, p->arena, op->loc));
    }
    return n;
}

static const char *keep_text(const Program *p, const Checkpoint *c)
{
    const Option *keep = &option_rows[OPTION_keep];
    const char *text = "";
    for (const OptionWord *k = keep->words; k->name; k++)
        if (c->keep >> k->value & 1)
            text = *text ? arena_printf(p->arena, "%s, %s", text, k->name)
                         : arena_printf(p->arena, ": %s=%s", keep->name,
                                        k->name);
    return text;
}

static void checkpoint(Out *o, const Program *p, int item)
{
    const Checkpoint *c = &p->plan.checkpoint[item];
    out_line(o, "\nUnder checkpoint %s%s  (%s)", checkpoint_text(p->arena, c),
             keep_text(p, c), diag_where(p->diag, p->arena, c->loc));
    out_line(o, " saved");
    int nkept = list_saved(o, p, item);
    if (nkept == 0)
        out_line(o, "  nothing");
    out_line(o, " recomputed");
    if (!list_recomputed(o, p, p->step, item))
        out_line(o, "  nothing%s",
                 nkept > 0 && !c->keep ? ": it would save no memory" : "");
}

void report_saved(Out *o, const Program *p)
{
    out_line(o, "\nSaved by the forward pass for the backward pass (bytes per "
                "rank)");
    if (!list_saved(o, p, ANY_ITEM))
        out_line(o, "  nothing");
    for (int i = 0; i < p->plan.ncheckpoints; i++)
        checkpoint(o, p, i);
}
