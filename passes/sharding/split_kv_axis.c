/* split_kv_axis.c: splits a tensor axis in two where an attention has fewer KV
 * heads than the axis has ranks.
 *
 * requires: STAGE_GLOBAL; Program.plan as the frontend resolved it
 * ensures:  where a plan splits the query heads of an attention over an axis
 *           with more ranks than KV heads, the axis becomes two: `.kv` numbers
 *           the KV heads, `.rep` the ranks that share one. Styles of the axis
 *           apply to both, except that the projections of keys and values are
 *           split over the KV heads only and replicated on the ranks that share
 *           a head. Or an error says that heads and ranks do not divide
 *
 * before   mesh dp=2 tp=4                        (8 heads, 2 KV heads)
 *            style ColwiseParallel "wq" axis=tp in(R -> R) out(S(-1) -> S(-1))
 *            style ColwiseParallel "wk" axis=tp in(R -> R) out(S(-1) -> S(-1))
 * after    mesh dp=2 tp.kv=2 tp.rep=2
 *            style ColwiseParallel "wq" axis=tp.kv …
 *            style ColwiseParallel "wq" axis=tp.rep …
 *            style ColwiseParallel "wk" axis=tp.kv …
 *            style ColwiseParallel "wk" axis=tp.rep whole in(R -> R) out(R -> R)
 *
 * The rest follows by propagation: attention splits its KV heads over the first
 * axis, and the query heads of each over the second (rules.h); gradients of
 * tensors that ranks share are Partial there and are summed. A single KV head
 * needs no second axis: its projections are replicated on the axis.
 */
#include "passes/pass.h"

#include <string.h>

#include "ir/analysis/producer.h"
#include "ir/plan/styles.h"
#include "ir/units.h"
#include "passes/sharding/layouts.h"
#include "passes/sharding/projection.h"
#include "passes/sharding/split_axis.h"

/* An attention whose query heads a style splits. */
typedef struct Site {
    const Op *op;
    const Style *style; /* the query projection's style */
    int64_t heads, kv;
    const char *path[2]; /* modules of the key and value projections, or NULL */
} Site;

typedef struct Refine {
    Program *p;
    int axis;
    int64_t kv;          /* 0: the axis is not split */
    const Op *because;   /* the first attention that needs it */
    VEC(const char *) whole;
    VEC(Site) site;
} Refine;

static void find_site(Refine *g, Op *op)
{
    if (op->kind != OP_attention || op->phase != PH_FORWARD)
        return;
    Site s = {.op = op, .heads = op->arg[0]->type.dim[2],
              .kv = op->arg[1]->type.dim[2]};
    s.style = projection_style(g->p, projection_param(op->arg[0]), g->axis);
    for (int i = 0; i < 2; i++) {
        int param = projection_param(op->arg[1 + i]);
        if (projection_style(g->p, param, g->axis))
            s.path[i] = path_parent(g->p->arena, g->p->param.at[param].name);
    }
    if (s.style)
        vec_push(g->p->arena, &g->site, s);
}

/* ---- errors -------------------------------------------------------------- */

/* "1, 2 or 4": the sizes of the axis that these heads permit. */
static const char *sizes_text(Arena *a, const Site *s)
{
    const char *text = "", *last = "";
    for (int64_t n = 1; n <= s->heads; n++) {
        if (s->heads % n || (s->kv % n && n % s->kv))
            continue;
        if (*last)
            text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", last);
        last = arena_printf(a, "%lld", (long long)n);
    }
    return *text ? arena_printf(a, "%s or %s", text, last) : last;
}

static void refuse(const Refine *g, const Site *s)
{
    Program *p = g->p;
    const char *axis = p->mesh.name[g->axis];
    long long size = p->mesh.size[g->axis];
    if (s->heads % size)
        diag_error(p->diag, s->style->loc, "axis '%s' of size %lld does not "
                   "divide the %lld heads of the attention in '%s'", axis,
                   size, (long long)s->heads,
                   *s->op->path ? s->op->path : "model");
    else
        diag_error(p->diag, s->style->loc, "axis '%s' of size %lld neither "
                   "divides the %lld key and value heads of the attention in "
                   "'%s' nor is a multiple of them", axis, size,
                   (long long)s->kv, *s->op->path ? s->op->path : "model");
    diag_note(p->diag, s->op->loc, "here are n_heads = %lld and n_kv_heads = "
              "%lld", (long long)s->heads, (long long)s->kv);
    diag_help(p->diag, "with these heads '%s' can be %s", axis,
              sizes_text(p->arena, s));
}

static void refuse_second(const Refine *g, const Site *s)
{
    Program *p = g->p;
    diag_error(p->diag, s->style->loc, "axis '%s' cannot split two attentions "
               "with %lld and with %lld key and value heads",
               p->mesh.name[g->axis], (long long)g->kv, (long long)s->kv);
    diag_note(p->diag, g->because->loc, "the first attention is here");
    diag_note(p->diag, s->op->loc, "the second is here");
    diag_help(p->diag, "choose an axis that divides both, or give one of "
                       "them an axis of its own");
}

/* ---- splitting an axis --------------------------------------------------- */

static void keep_whole(Refine *g, const Site *s)
{
    for (int i = 0; i < 2; i++)
        if (s->path[i])
            vec_push(g->p->arena, &g->whole, s->path[i]);
}

static void consider_site(Refine *g, const Site *s)
{
    int64_t size = g->p->mesh.size[g->axis];
    if (s->heads % size || (s->kv % size && size % s->kv)) {
        refuse(g, s);
    } else if (s->kv % size) {
        if (g->kv && g->kv != s->kv) {
            refuse_second(g, s);
            return;
        }
        if (!g->kv)
            g->because = s->op;
        g->kv = s->kv;
        keep_whole(g, s);
    }
}

static bool is_whole(const Refine *g, const Style *s)
{
    for (int i = 0; i < g->whole.n; i++)
        if (s->kind == STYLE_COLWISE && strcmp(g->whole.at[i], s->path) == 0)
            return true;
    return false;
}

/* Makes a style replicate the module's computation on this axis. */
static void make_whole(Style *s)
{
    s->whole = true;
    for (int i = 0; i < s->nout; i++) {
        Layout *to = &s->out_to[i];
        s->out_from[i] = (Layout){LAYOUT_REPLICATE, 0};
        if (to->kind == LAYOUT_SHARD && (to->dim == -1 || to->dim == 2))
            *to = s->out_from[i];
    }
}

/* Changes the styles of the projections that are not split over the axis. */
static void keep_whole_on(const Refine *g, int axis)
{
    const PlanSpec *plan = &g->p->plan;
    for (int i = 0; i < plan->nstyles; i++)
        if (plan->style[i].axis == axis && is_whole(g, &plan->style[i]))
            make_whole(&plan->style[i]);
}

static void refine_axis(Program *p, int axis)
{
    Refine g = {.p = p, .axis = axis};
    for_ops(op, p->step)
        find_site(&g, op);
    for (int i = 0; i < g.site.n; i++)
        consider_site(&g, &g.site.at[i]);
    if (!g.kv || diag_error_count(p->diag) > 0)
        return;
    bool two = g.kv > 1;
    const char *name = p->mesh.name[axis];
    if (two && !split_axis_fits(
            p, g.site.at[0].style->loc,
            arena_printf(p->arena, "axis '%s' is larger than the number of key "
                         "and value heads", name),
            arena_printf(p->arena, "choose an axis of at most %lld ranks, or "
                         "omit an axis", (long long)g.kv)))
        return;
    if (two) {
        split_axis(p, axis,
                   (AxisPart[]){{".kv", g.kv, 0},
                                {".rep", p->mesh.size[axis] / g.kv, 0}});
        split_axis_styles(p, axis);
    }
    keep_whole_on(&g, axis + two);
    styles_attach(p);
}

void pass_split_kv_axis(Program *p, const TargetInfo *t)
{
    (void)t;
    for (int a = p->mesh.n - 1; a >= 0; a--)
        if ((p->plan.tensor_axes >> a & 1) && p->mesh.size[a] > 1)
            refine_axis(p, a);
}
