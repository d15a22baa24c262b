/* lower_style.c: resolves the styles of `parallelize` to layouts, and the
 * placements of single parameters.
 *
 * A style gives each input and output of a module a pair of layouts: the layout
 * of the tensor, and the layout that it is resharded to. Arguments that are not
 * given have PyTorch's defaults; a layout that the style determines may not be
 * changed. lower_prepare.c resolves the PrepareModule styles.
 *
 * before   layers.*.wo: RowwiseParallel(output=Shard(1))
 * after    in (S(-1) -> S(-1)), out (P -> S(1))
 */
#include <limits.h>
#include <string.h>

#include "frontend/plan/plan.h"

static Layout replicate(void)
{
    return (Layout){.kind = LAYOUT_REPLICATE};
}

/* ---- styles of modules with a weight ------------------------------------- */

static bool same_layout(Layout a, Layout b)
{
    return a.kind == b.kind && a.dim == b.dim;
}

/* input=, output=: one layout of the pair is determined by the style. */
static bool read_style_side(Lower *l, const Item *item, const StyleArg *arg,
                            bool input, Layout own, Layout *given)
{
    const Expr *mine = input ? arg->to : arg->to ? arg->from : NULL;
    const Expr *theirs = input || !arg->to ? arg->from : arg->to;
    Layout fixed;
    if (!lower_layout(l, theirs, given))
        return false;
    if (mine && (!lower_layout(l, mine, &fixed) || !same_layout(fixed, own))) {
        diag_error(l->diag, mine->loc, "'%s' determines the layout %s '->', "
                   "which is not this one", item->style,
                   input ? "after" : "before");
        return diag_help(l->diag, "write only the layout %s '->'",
                         input ? "before" : "after");
    }
    if (given->kind == LAYOUT_NONE ||
        (!input && given->kind == LAYOUT_PARTIAL &&
         own.kind != LAYOUT_PARTIAL)) {
        diag_error(l->diag, theirs->loc, "'%s' does not support this layout of "
                   "its %s", item->style, input ? "input" : "output");
        return diag_help(l->diag, "write Replicate or Shard(DIM), or omit %s=",
                         input ? "input" : "output");
    }
    return true;
}

/* ColwiseParallel and RowwiseParallel need one weight to split. For a module
 * that is not called the weight is unknown; its style has no effect. */
static bool find_weight(Lower *l, const Item *item, const Module *m,
                        bool called, bool *lookup)
{
    int n = m->weight.n;
    const Weight *own = module_weight(m);
    const char *name = *m->path ? m->path : "model";
    *lookup = own && own->lookup;
    if (own || !called)
        return true;
    if (n == 0)
        diag_error(l->diag, item->style_loc, "'%s' (%s) has no weight for "
                   "'%s' to split", name, m->class, item->style);
    else
        diag_error(l->diag, item->style_loc, "'%s' (%s) has %d weights: "
                   "'%s' splits one", name, m->class, n, item->style);
    diag_note(l->diag, m->loc, "the module is declared here");
    if (n == 0)
        diag_help(l->diag, "a weight is a 2-D parameter of the module itself, "
                  "which its forward contracts with the last dim of its first "
                  "input; name the child that has it, or place a parameter: "
                  "'%s%sNAME: Shard(0)'", m->path, *m->path ? "." : "");
    for (int i = 0; i < n; i++) {
        const Weight *w = &m->weight.at[i];
        diag_help(l->diag, "place each weight by itself: '%s: Shard(%d)'",
                  l->p->param.at[w->param].name,
                  item->style[0] == 'C' ? w->out_dim : w->in_dim);
    }
    return false;
}

static bool linear_style(Lower *l, const Item *item, const Module *m,
                         bool called, Style *s)
{
    bool colwise = s->kind == STYLE_COLWISE;
    bool embedding;
    if (!find_weight(l, item, m, called, &embedding))
        return false;
    s->nin = s->nout = 1;
    Layout in = colwise || embedding ? replicate() : layout_shard(-1);
    Layout out = colwise ? layout_shard(-1) : (Layout){LAYOUT_PARTIAL, 0};
    s->in_from[0] = s->in_to[0] = in;
    s->out_from[0] = out;
    s->out_to[0] = colwise ? out : replicate();
    for (int i = 0; i < item->nargs; i++) {
        const StyleArg *arg = &item->arg[i];
        const char *name = arg->name ? style_setting(arg->name) : "";
        bool input = strcmp(name, "input") == 0;
        if (!input && strcmp(name, "output") != 0)
            return false; /* read_style reported it */
        if (!read_style_side(l, item, arg, input, input ? in : out,
                             input ? &s->in_from[0] : &s->out_to[0]))
            return false;
    }
    return true;
}

/* ---- the others ---------------------------------------------------------- */

static bool sequence_style(Lower *l, const Item *item, const Module *m,
                           Style *s)
{
    Layout along = layout_shard(1);
    const StyleArg *arg = item->nargs > 0 ? &item->arg[0] : NULL;
    bool dim = arg && arg->name && arg->from->kind == EX_INT &&
               arg->from->integer <= INT_MAX;
    if (dim)
        along = layout_shard((int)arg->from->integer);
    else if (arg && !lower_layout(l, arg->from, &along))
        return false;
    if (item->nargs > 1 || along.kind != LAYOUT_SHARD || (arg && arg->to)) {
        diag_error(l->diag, item->style_loc,
                   "'SequenceParallel' takes one layout, Shard(dim) of the "
                   "sequence's dim");
        return diag_help(l->diag,
                         "write, for example, SequenceParallel(Shard(1))");
    }
    s->nin = m->nin;
    s->nout = m->nout;
    for (int i = 0; i < m->nin; i++)
        s->in_from[i] = s->in_to[i] = along;
    for (int i = 0; i < m->nout; i++)
        s->out_from[i] = s->out_to[i] = along;
    return true;
}

/* ---- placements of parameters -------------------------------------------- */

static void no_such_dim(Lower *l, const Expr *e, const Param *q)
{
    int ndim = q->type.ndim;
    diag_error(l->diag, e->range, "'%s' does not have this dim: it has %d "
               "dim%s", q->name, ndim, ndim == 1 ? "" : "s");
    diag_note(l->diag, q->loc, "'%s' is %s", q->name,
              type_text(l->arena, &q->type, &(Mesh){0}));
    if (ndim == 0)
        diag_help(l->diag, "a number cannot be split: write Replicate");
    else
        diag_help(l->diag, "its dims are 0 to %d, or -%d to -1 from the end",
                  ndim - 1, ndim);
}

/* Shard(0) has the syntax of a style with one argument, the dim. */
static bool placement_dim(Lower *l, const Item *item, const Param *q, int *dim)
{
    const Expr *given = item->nargs == 1 && !item->arg[0].to
                            ? item->arg[0].from : NULL;
    bool negative = given && given->kind == EX_NEG;
    const Expr *e = negative ? given->arg[0].value : given;
    int ndim = q->type.ndim;
    if (!e || e->kind != EX_INT) {
        diag_error(l->diag, e ? e->range : item->style_loc,
                   "'Shard' takes one whole number, the dim that it splits");
        diag_help(l->diag, "write, for example, Shard(0)");
        return false;
    }
    int64_t d = negative ? ndim - e->integer : e->integer;
    if (d >= 0 && d < ndim) {
        *dim = (int)d;
        return true;
    }
    no_such_dim(l, given, q);
    return false;
}

bool lower_placement(Lower *l, const Item *item, int param, Style *style)
{
    Layout to = replicate();
    int dim;
    if (strcmp(item->style, "Shard") == 0) {
        if (!placement_dim(l, item, &l->p->param.at[param], &dim))
            return false;
        to = layout_shard(dim);
    } else if (item->nargs > 0) {
        diag_error(l->diag, item->style_loc, "'Replicate' takes no argument");
        return diag_help(l->diag,
                         "write Replicate, or Shard(dim) to split a dim");
    }
    style->nin = 1;
    style->in_from[0] = style->in_to[0] = to;
    return true;
}

bool lower_style(Lower *l, const Item *item, int module, Style *style)
{
    const Module *m = &l->p->module.at[module];
    switch (style->kind) {
    case STYLE_COLWISE:
    case STYLE_ROWWISE:
        return linear_style(l, item, m, l->instance.at[module]->called, style);
    case STYLE_SEQUENCE:
        return sequence_style(l, item, m, style);
    case STYLE_PREPARE_INPUT:
    case STYLE_PREPARE_OUTPUT:
    case STYLE_PREPARE_INPUT_OUTPUT:
        return lower_prepare(l, item, m, l->instance.at[module]->called,
                             style);
    case STYLE_PARAMETER: /* lower_placement */
    case STYLE_KINDS:
        break;
    }
    return false;
}
