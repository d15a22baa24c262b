/* lower_prepare.c: resolves the styles PrepareModuleInput, PrepareModuleOutput
 * and PrepareModuleInputOutput, each of which gives a pair of layouts to every
 * input or output tensor of a module: the layout that the tensor has, and the
 * layout to which it is resharded. `none` leaves a tensor as it is.
 *
 * The pairs have three spellings:
 *
 *   PrepareModuleInput(Shard(1) -> Replicate, none)
 *   PrepareModuleInput((Shard(1), none) -> (Replicate, none))
 *   PrepareModuleInput(input_layouts=(Shard(1), none),
 *                      desired_input_layouts=(Replicate, none))
 *
 * The last one is PyTorch's. The Style has the same pairs for all three, which
 * dumps print as in(S(1) -> R, none -> none). PrepareModuleInputOutput takes
 * the pairs as input= and output=, or in PyTorch's spelling.
 */
#include "base/text.h"
#include "frontend/plan/plan.h"
#include "ir/plan/styles.h"

/* The layouts of the inputs or outputs: `from` is the layout of the tensor,
 * `to` the layout that it is resharded to, or NULL for no change. */
typedef struct Pairs {
    const Expr *from[MAX_PORTS], *to[MAX_PORTS];
    int n; /* may exceed MAX_PORTS; the excess is not stored */
} Pairs;

static void add_pair(Pairs *p, const Expr *from, const Expr *to)
{
    if (p->n < MAX_PORTS) {
        p->from[p->n] = from;
        p->to[p->n] = to;
    }
    p->n++;
}

/* Adds one pair, or the pairs of two tuples; false after an error, if their
 * lengths differ. */
static bool add_pairs(Lower *l, Pairs *p, const Expr *from, const Expr *to)
{
    if (from->kind != EX_TUPLE && (!to || to->kind != EX_TUPLE)) {
        add_pair(p, from, to);
        return true;
    }
    int n = from->kind == EX_TUPLE ? from->nargs : 1;
    int nto = !to ? n : to->kind == EX_TUPLE ? to->nargs : 1;
    if (n != nto)
        return diag_error(l->diag, to->range, "%d layout%s become%s %d: both "
                          "sides need one for each tensor", n,
                          n == 1 ? "" : "s", n == 1 ? "s" : "", nto);
    for (int i = 0; i < n; i++)
        add_pair(p, from->kind == EX_TUPLE ? from->arg[i].value : from,
                 !to                    ? NULL
                 : to->kind == EX_TUPLE ? to->arg[i].value
                                        : to);
    return true;
}

static const StyleArg *find_arg(const Item *item, const char *name)
{
    return row_find(item->arg, item->nargs, name);
}

/* Adds the pairs in PyTorch's spelling, if the item has them: two arguments,
 * each of which requires the other. False after an error. */
static bool keyword_pairs(Lower *l, const Item *item, bool input, Pairs *p)
{
    const char *name = input ? "input_layouts" : "output_layouts";
    const char *desired = input ? "desired_input_layouts"
                                : "desired_output_layouts";
    const StyleArg *from = find_arg(item, name);
    const StyleArg *to = find_arg(item, desired);
    if (!from && !to)
        return true;
    const StyleArg *given = from ? from : to;
    if (!from || !to) {
        diag_error(l->diag, given->name_loc, "'%s' needs '%s'", given->name,
                   from ? desired : name);
        return diag_help(l->diag, "%s= gives the layout of each tensor before, "
                         "%s= after; or write both as %s(Shard(1) -> "
                         "Replicate)", name, desired, item->style);
    }
    if (from->to || to->to)
        return diag_error(l->diag, (from->to ? from : to)->from->loc,
                          "'%s' and '%s' take layouts without '->'", name,
                          desired);
    return add_pairs(l, p, from->from, to->from);
}

/* Adds the pairs of all inputs or all outputs in any spelling; `both`: the
 * style has pairs for inputs and for outputs. False after an error. */
static bool side_pairs(Lower *l, const Item *item, bool input, bool both,
                       Pairs *p)
{
    const StyleArg *own = find_arg(item, input ? "input" : "output");
    if (!keyword_pairs(l, item, input, p))
        return false;
    if (both)
        return !own || add_pairs(l, p, own->from, own->to);
    int named = p->n;
    for (int i = 0; i < item->nargs; i++) {
        const StyleArg *arg = &item->arg[i];
        if (arg->name)
            continue;
        if (named)
            return diag_error(l->diag, arg->from->loc, "'%s' takes its layouts "
                              "by position or by name, not both", item->style);
        if (!add_pairs(l, p, arg->from, arg->to))
            return false;
    }
    return true;
}

/* Evaluates a pair; without `to` the tensor keeps the layout `from`. */
static bool read_pair(Lower *l, const Expr *from, const Expr *to, Layout *f,
                      Layout *t)
{
    if (!lower_layout(l, from, f))
        return false;
    *t = *f;
    if (to && !lower_layout(l, to, t))
        return false;
    if (t->kind == LAYOUT_PARTIAL && f->kind != LAYOUT_PARTIAL) {
        diag_error(l->diag, to->loc, "a layout cannot change to Partial");
        return diag_help(l->diag, "write Replicate or Shard(dim): only an op "
                         "makes a partial sum");
    }
    return true;
}

/* Checks the number of pairs and evaluates them. Only a module that was called
 * has known numbers of inputs and outputs, which are at most MAX_PORTS. */
static bool read_pairs_side(Lower *l, const Item *item, const Module *m,
                            bool input, bool called, const Pairs *p, Style *s)
{
    int want = !called ? p->n : input ? m->nin : m->nout;
    const char *name = *m->path ? m->path : "model";
    const char *verb = input ? "takes" : "returns";
    if (p->n == want && want > MAX_PORTS)
        return diag_error(l->diag, item->style_loc, "a style gives at most %d "
                          "layouts for each side of a module", MAX_PORTS);
    if (p->n != want) {
        diag_error(l->diag, item->style_loc, "'%s' %s %d tensor%s, but the "
                   "style has %d layout%s for its %s%s", name, verb, want,
                   want == 1 ? "" : "s", p->n, p->n == 1 ? "" : "s",
                   input ? "input" : "output", want == 1 ? "" : "s");
        diag_note(l->diag, m->loc, "the module is declared here");
        return diag_help(l->diag, "give a layout for each; none leaves a "
                         "tensor as it is");
    }
    *(input ? &s->nin : &s->nout) = p->n;
    for (int i = 0; i < p->n; i++)
        if (!read_pair(l, p->from[i], p->to[i],
                       input ? &s->in_from[i] : &s->out_from[i],
                       input ? &s->in_to[i] : &s->out_to[i]))
            return false;
    return true;
}

bool lower_prepare(Lower *l, const Item *item, const Module *m, bool called,
                   Style *s)
{
    uint32_t sides = style_sides(s->kind);
    if (item->nargs == 0)
        return false; /* read_style reported the missing layouts */
    for (int i = 0; i < item->nargs; i++)
        if (item->arg[i].name &&
            !style_takes(l->arena, style_find(item->style), item->arg[i].name))
            return false; /* read_style reported the argument */
    bool both = sides == (STYLE_INPUTS | STYLE_OUTPUTS), fine = true;
    for (int side = 0; side < 2; side++) {
        bool input = side == 0;
        Pairs p = {.n = 0};
        if (!(sides & (input ? STYLE_INPUTS : STYLE_OUTPUTS)))
            continue;
        fine = side_pairs(l, item, input, both, &p) &&
               read_pairs_side(l, item, m, input, called, &p, s) && fine;
    }
    return fine;
}
