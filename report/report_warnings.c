/* report_warnings.c: warns of communication and repeated computation that no
 * line of the plan asks for, and notes parameters in no FSDP unit.
 *
 * It finds collectives that no style asks for (ORIGIN_IMPLIED, recorded by
 * partition), and matmuls or attention that all ranks of an axis repeat on the
 * same operands. There is one warning for each line of the model, with the
 * number of calls and of bytes or flops. hints_find (hint.c) adds the lines of a
 * plan that cost less.
 *
 *   model.pdl:38:27: warning: the plan does not ask for 3 collectives over 'tp' …
 *     help: in 'parallelize tp': layers.*.attention.wq: ColwiseParallel
 *
 * Matmuls and attention count as repeated if their operands and results are
 * Replicate on an axis that a style names, and if the redundant part, summed
 * over the operations of one line, is at least 1% of a rank's flops per step. A
 * module that a style itself replicates on an axis (a KV head shared by several
 * ranks) is not reported.
 */
#include "report/report.h"
#include "ir/units.h"
#include "passes/sharding/layouts.h"

#include <string.h>

enum { LEAST_SHARE = 100 }; /* least part of a rank's flops: 1/LEAST_SHARE */

bool warning_is_at(const Warning *w, WarningKind kind, Loc loc)
{
    return w->kind == kind && w->loc.file == loc.file &&
           w->loc.line == loc.line;
}

/* The warning of a line; it is added if it does not exist yet. */
static Warning *warning_at(const Program *p, Warnings *all, WarningKind kind,
                           Loc loc)
{
    for (int i = 0; i < all->n; i++)
        if (warning_is_at(&all->at[i], kind, loc))
            return &all->at[i];
    Warning w = {.kind = kind, .loc = loc, .axis = "", .what = "",
                 .text = ""};
    vec_push(p->arena, all, w);
    return &all->at[all->n - 1];
}

const char *report_listed(Arena *a, const char *list, const char *more,
                          const char *by)
{
    size_t n = more ? strlen(more) : 0, between = strlen(by);
    if (!n || !list || !*list)
        return n ? more : list;
    for (const char *at = list; at; at = strstr(at, by)) {
        at += at == list ? 0 : between;
        if (!strncmp(at, more, n) && (!at[n] || !strncmp(at + n, by, between)))
            return list;
    }
    return arena_printf(a, "%s%s%s", list, by, more);
}

/* ---- collectives --------------------------------------------------------- */

static void implied(const Program *p, Warnings *all)
{
    int n;
    const CollectiveInfo *c = collectives_of(p, &n);
    for (int i = 0; i < n; i++) {
        const Why *why = &c[i].op->why;
        if (why->origin != ORIGIN_IMPLIED || c[i].op->phase == PH_INIT)
            continue;
        Warning *w =
            warning_at(p, all, WARN_COLLECTIVE, statement_loc(c[i].op));
        w->ops++;
        w->calls += c[i].count;
        w->bytes += c[i].in_place ? 0 : c[i].count * c[i].bytes;
        w->axis = report_listed(p->arena, w->axis, c[i].axis, ",");
        if (!*w->what) {
            w->what = c[i].kind;
            w->text = why->text ? why->text : "";
        }
    }
}

/* ---- repeated computation ------------------------------------------------ */

/* Whether the value is the same on all ranks of the user's axis. */
static bool is_whole(const Value *v, const UserAxis *axis)
{
    for (int a = axis->first; a < axis->first + axis->parts; a++)
        if (v->type.place.ax[a].kind != AX_R)
            return false;
    return true;
}

/* The frontend already warns about an axis without any style. */
static bool has_style(const Program *p, const UserAxis *axis)
{
    for (int i = 0; i < p->plan.nstyles; i++)
        if (p->plan.style[i].axis >= axis->first &&
            p->plan.style[i].axis < axis->first + axis->parts)
            return true;
    return false;
}

static bool stays_whole(const Program *p, const Op *op, const UserAxis *axis)
{
    for (int a = axis->first; a < axis->first + axis->parts; a++) {
        const Style *s = style_of_path(p, op->path, a);
        if (s && s->whole)
            return true;
    }
    return false;
}

static bool is_repeated(const Program *p, const Op *op, const UserAxis *axis)
{
    if (op->phase == PH_OPTIMIZER) /* Muon: all ranks need all of a matrix */
        return false;
    if (axis->size == 1 || !has_style(p, axis) || stays_whole(p, op, axis))
        return false;
    for (int i = 0; i < op->nargs; i++)
        if (!is_whole(op->arg[i], axis))
            return false;
    for (int i = 0; i < op->nouts; i++)
        if (!is_whole(op->out[i], axis))
            return false;
    return op->nargs > 0;
}

static void repeated(const Program *p, Warnings *all)
{
    int n, first = all->n;
    double total = 0;
    UserAxis axis[MAX_AXES];
    int naxes = user_axes(p, axis);
    const Statement *statement = statements_of(p, &n);
    for (int i = 0; i < n; i++)
        total += statement[i].flops * (double)statement[i].count;
    for (int i = 0; i < n; i++)
        for (int a = 0; a < naxes && statement[i].flops > 0; a++) {
            const Op *op = statement[i].op;
            if (!is_repeated(p, op, &axis[a]))
                continue;
            Warning *w = warning_at(p, all, WARN_REPEATED, op->loc);
            double flops = statement[i].flops * (double)statement[i].count;
            if (!w->ops++)
                w->mesh_axis = axis[a].first;
            w->calls += statement[i].count;
            w->flops += flops;
            w->wasted += flops * (1 - 1 / (double)axis[a].size);
            w->share = w->flops / total;
            w->axis = report_listed(p->arena, w->axis, axis[a].name, ",");
            w->what = report_listed(
                p->arena, w->what,
                op_is_einsum(op->kind) ? "matmuls"
                : op_is_conv(op->kind) ? "convolutions"
                : op_is_grouped_matmul(op->kind) ? "products with experts"
                                       : "attention",
                " and ");
        }
    int kept = first;
    for (int i = first; i < all->n; i++)
        if (all->at[i].wasted * LEAST_SHARE >= total)
            all->at[kept++] = all->at[i];
    all->n = kept;
}

Warnings report_find_warnings(const Program *p)
{
    Warnings all = {0};
    implied(p, &all);
    repeated(p, &all);
    return all;
}

/* ---- output -------------------------------------------------------------- */

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static const char *warning_text(const Program *p, const Warning *w)
{
    Arena *a = p->arena;
    const char *calls = arena_printf(a, "%lld call%s", (long long)w->calls,
                                     plural(w->calls));
    if (w->kind == WARN_REPEATED)
        return arena_printf(a, "all ranks of '%s' compute the same %s here: no "
                            "operand is split over it (%s, %sflop per step on "
                            "each rank, %.1f%% of its work; %sflop if split)",
                            w->axis, w->what, calls, count_text(a, w->flops),
                            100 * w->share,
                            count_text(a, w->flops - w->wasted));
    const char *cost = arena_printf(a, "(%s, %s per step on each rank)", calls,
                                    bytes_text(a, w->bytes));
    if (w->ops == 1)
        return arena_printf(a, "the plan does not ask for this %s over '%s' %s: "
                            "%s", w->what, w->axis, cost, w->text);
    return arena_printf(a, "the plan does not ask for %d collectives over '%s' "
                        "here %s; the first is this %s: %s", w->ops, w->axis,
                        cost, w->what, w->text);
}

/* "with these 3 lines a rank sends 1.13 MiB in a step instead of 4.13 MiB": what
 * all hints save together. */
static const char *savings_text(const Program *p, const Savings *s)
{
    Arena *a = p->arena;
    const char *lines =
        s->lines == 1 ? "this line"
                      : arena_printf(a, "these %d lines", s->lines);
    bool sends = s->sent_after != s->sent, works = s->flops_after != s->flops;
    const char *sent = bytes_text(a, (int64_t)s->sent);
    if (!sends && !works)
        return arena_printf(a, "with %s the plan names what it does; a rank "
                            "sends %s in a step, as before", lines, sent);
    const char *text = "";
    if (sends)
        text = arena_printf(a, " sends %s in a step instead of %s",
                            bytes_text(a, (int64_t)s->sent_after), sent);
    if (works)
        text = arena_printf(a, "%s%s computes %sflop instead of %sflop", text,
                            sends ? " and" : "",
                            count_text(a, s->flops_after),
                            count_text(a, s->flops));
    return arena_printf(a, "with %s a rank%s", lines, text);
}

void report_warnings(const Program *p, const Warnings *all)
{
    int left = all->saved.lines;
    for (int i = 0; i < all->n; i++) {
        const Warning *w = &all->at[i];
        diag_warning(p->diag, w->loc, "%s", warning_text(p, w));
        if (w->tried && !w->hint.n)
            diag_help(p->diag, "parc tried %d other plan%s for this line: none "
                      "costs less", w->tried, plural(w->tried));
        for (int k = 0; k < w->hint.n; k++) {
            const PlanLine *line = &w->hint.at[k];
            diag_help(p->diag, "in 'parallelize %s': %s: %s", line->axis,
                      line->path, line->style);
            if (--left == 0)
                diag_help(p->diag, "%s", savings_text(p, &all->saved));
        }
    }
}

/* ---- parameters in no unit ----------------------------------------------- */

enum { LEAST_PART = 20, NAMES = 3 }; /* least part of a rank's parameters and
                                       * states: 1/LEAST_PART */

typedef struct Rest {
    int64_t bytes, all; /* of parameters and states on a rank: those without a
                         * unit, and all */
    int n;              /* parameters without a unit */
    const char *names;  /* "a, b, c" */
    uint32_t axes;      /* that units shard over */
    Loc loc;            /* of the first unit that shards */
} Rest;

/* Whether the parameter is split over one of the axes, as experts are. */
static bool is_split(const Program *p, const Param *q, uint32_t axes)
{
    for (int a = 0; a < p->mesh.n; a++)
        if (axes >> a & 1 && q->type.place.ax[a].kind != AX_R)
            return true;
    return false;
}

static void add_unit(const Program *p, int i, Rest *r)
{
    const Unit *u = sharding_unit(p, i);
    if (!u)
        return;
    r->loc = r->axes ? r->loc : u->loc;
    r->axes |= unit_axes(p, u);
}

static void add_param(const Program *p, int i, Rest *r)
{
    const Param *q = &p->param.at[i];
    int64_t bytes = type_local_bytes(&q->type, &p->mesh);
    if (q->init.kind == INIT_COPY || q->module_state)
        return; /* of the compute type; of no unit */
    r->all += bytes;
    if (unit_of_param(p, i) || is_split(p, q, r->axes))
        return;
    r->bytes += bytes;
    if (q->state_of >= 0)
        return;
    if (r->n < NAMES)
        r->names = arena_printf(p->arena, "%s%s%s", r->names,
                                r->n ? ", " : "", q->name);
    r->n++;
}

/* PyTorch's fully_shard(model) puts what its inner units leave into the root's
 * unit; a plan that names only the layers looks the same and is not. */
void report_unsharded(const Program *p)
{
    Rest r = {.names = ""};
    for (int i = 0; i < p->param.n; i++)
        add_unit(p, i, &r);
    for (int i = 0; i < p->param.n; i++)
        add_param(p, i, &r);
    if (!r.axes || r.bytes == 0 || r.bytes * LEAST_PART < r.all)
        return;
    const char *more =
        r.n > NAMES ? arena_printf(p->arena, " and %d more", r.n - NAMES) : "";
    const char *axes = user_axes_text(p, r.axes);
    diag_note(p->diag, r.loc, "%s%s %s in no unit: every rank of '%s' stores "
              "all of %s (%s of parameters and optimizer states)",
              r.names, more, r.n == 1 ? "is" : "are", axes,
              r.n == 1 ? "it" : "them", bytes_text(p->arena, r.bytes));
    diag_help(p->diag, "add 'model' to 'fully_shard' for one unit of the rest, "
              "as PyTorch's fully_shard(model)");
}
