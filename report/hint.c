/* hint.c: tries sets of plan lines for each warning and keeps the best.
 *
 * The search starts at the plan, moves to the cheapest plan that a set of lines
 * makes, and repeats this until no set makes the plan cheaper. Following the
 * hints therefore leads to no further hint: if a line causes a new warning, the
 * search has tried lines for that warning too.
 *
 *   plan                              tp sends 4.13 MiB
 *   + down: RowwiseParallel           1.13 MiB         best of 11 sets: a hint
 *   + wo: ColwiseParallel, …          more             no further hint
 *
 * For a collective that nothing asks for, a plan is cheaper if a rank sends fewer
 * bytes and computes no more. For repeated computation it is cheaper if a rank
 * computes less, by at least flops_per_byte for each further byte that it sends.
 * Lines that ask for a collective explicitly are hints too, if they cost
 * nothing.
 *
 * Time: a trial lowers the file and runs two thirds of the passes, without the
 * verifier; there are at most MAX_TRIALS, and none without a warning.
 */
#include <string.h>

#include "ir/analysis/alias.h"
#include "report/hint.h"

enum { MAX_TRIALS = 48 };

/* The flops that a GPU computes while it sends one byte: 300 Tflop/s and
 * 150 GB/s. A CPU computes fewer. */
static const double flops_per_byte = 2000;

/* Differences below this part of a cost are none. */
static const double tolerance = 1e-3;

/* What a step costs a rank. */
typedef struct PlanCost {
    double sent;  /* bytes that collectives send, over all axes */
    double flops; /* of matmuls and attention */
    int implied;  /* collectives that nothing in the plan asks for */
} PlanCost;

typedef struct Search {
    Program *p;
    const PlanSource *from;
    Warnings *all;
    PlanLines lines; /* of all hints so far */
    PlanCost cost;   /* of the plan with these lines */
    int trials;
    Warning *last;   /* the warning of the last hint */
    VEC(Warning) tried; /* warnings of the present plan without a hint */
} Search;

/* ---- costs --------------------------------------------------------------- */

/* Whether the gather will be in place: all operands are parameters that the
 * ranks share. Before the memory plan exists, no value has an address. */
static bool gathers_shared(const Program *p, const Op *op)
{
    if (op->kind != OP_all_gather)
        return false;
    for (int i = 0; i < op->nouts; i++) {
        const Value *v = value_gathered_from(p, op->out[i]);
        while (v && !v->def)
            v = v->region->owner->arg[v->index];
        if (!v || v->def->kind != OP_param ||
            !p->param.at[attr_param(v->def)].shared)
            return false;
    }
    return true;
}

static PlanCost plan_cost(const Program *p)
{
    PlanCost cost = {0};
    int n;
    const CollectiveInfo *c = collectives_of(p, &n);
    for (int i = 0; i < n; i++) {
        if (!gathers_shared(p, c[i].op))
            cost.sent += (double)c[i].count * collective_sent(&c[i]);
        cost.implied += c[i].op->why.origin == ORIGIN_IMPLIED;
    }
    const Statement *s = statements_of(p, &n);
    for (int i = 0; i < n; i++)
        cost.flops += s[i].flops * (double)s[i].count;
    return cost;
}

static double combined(const PlanCost *c)
{
    return c->sent + c->flops / flops_per_byte;
}

static bool is_less(double a, double b)
{
    return a < b * (1 - tolerance);
}

/* Whether `c` is a better plan than `now` as to a warning of this kind. */
static bool improves(WarningKind kind, const PlanCost *c, const PlanCost *now)
{
    if (is_less(now->flops, c->flops))
        return false;
    if (kind == WARN_REPEATED)
        return is_less(c->flops, now->flops) &&
               is_less(combined(c), combined(now));
    return is_less(c->sent, now->sent) ||
           (!is_less(now->sent, c->sent) && c->implied < now->implied);
}

static bool is_better(const PlanCost *c, const PlanCost *best)
{
    if (is_less(combined(c), combined(best)))
        return true;
    return !is_less(combined(best), combined(c)) && c->implied < best->implied;
}

/* ---- trials -------------------------------------------------------------- */

/* Removes the line for the same axis and path. */
static void remove_line(PlanLines *list, const PlanLine *line)
{
    int kept = 0;
    for (int i = 0; i < list->n; i++)
        if (strcmp(list->at[i].axis, line->axis) != 0 ||
            strcmp(list->at[i].path, line->path) != 0)
            list->at[kept++] = list->at[i];
    list->n = kept;
}

/* The program after the pass `until` with the lines of the hints so far, then
 * `more` (NULL: none); NULL after an error. */
static Program *plan_with(const Search *s, Arena *a, const PlanLines *more,
                          const char *until)
{
    Replan *r = replan_new(a, s->p, s->from);
    for (int i = 0; i < s->lines.n; i++)
        replan_style(r, &s->lines.at[i]);
    for (int i = 0; more && i < more->n; i++)
        replan_style(r, &more->at[i]);
    return replan_run(r, until);
}

static bool measure(Search *s, const PlanLines *more, PlanCost *cost)
{
    Arena *a = arena_new();
    const Program *q = plan_with(s, a, more, "share_params");
    if (q)
        *cost = plan_cost(q);
    arena_free(a);
    s->trials++;
    return q != NULL;
}

/* ---- the search ---------------------------------------------------------- */

/* The warning of the plan without hints that w is, or is a consequence of. */
static Warning *root_of(const Search *s, const Warning *w)
{
    for (int i = 0; i < s->all->n; i++)
        if (warning_is_at(&s->all->at[i], w->kind, w->loc))
            return &s->all->at[i];
    return s->last;
}

/* A warning of the plan with the hints so far that has not been tried; false:
 * none. Collectives come first, those with the most bytes. */
static bool next_warning(const Search *s, const Warnings *now, Warning *found)
{
    const Warning *best = NULL;
    for (int i = 0; i < now->n; i++) {
        const Warning *w = &now->at[i];
        bool tried = !root_of(s, w);
        for (int k = 0; k < s->tried.n; k++)
            tried |= warning_is_at(&s->tried.at[k], w->kind, w->loc);
        if (!tried && (!best || w->kind < best->kind ||
                       (w->kind == best->kind && w->bytes > best->bytes)))
            best = w;
    }
    if (best)
        *found = *best;
    return best != NULL;
}

/* A copy in the arena of the final program. */
static PlanLines copied(const Search *s, const PlanLines *lines)
{
    Arena *a = s->p->arena;
    PlanLines copy = {0};
    for (int i = 0; i < lines->n; i++) {
        const PlanLine *l = &lines->at[i];
        PlanLine line = {arena_strdup(a, l->axis), arena_strdup(a, l->path),
                         arena_strdup(a, l->style)};
        vec_push(a, &copy, line);
    }
    return copy;
}

static void accept(Search *s, const Warning *w, const PlanLines *move,
                   const PlanCost *cost)
{
    Warning *root = root_of(s, w);
    PlanLines lines = copied(s, move);
    for (int i = 0; i < lines.n; i++) {
        remove_line(&s->lines, &lines.at[i]);
        vec_push(s->p->arena, &s->lines, lines.at[i]);
        for (int k = 0; k < s->all->n; k++)
            remove_line(&s->all->at[k].hint, &lines.at[i]);
        vec_push(s->p->arena, &root->hint, lines.at[i]);
    }
    s->cost = *cost;
    s->last = root;
    s->tried.n = 0;
}

/* Accepts the best move of the warning, or notes that it has none. */
static void solve(Search *s, Arena *a, const Warning *w)
{
    Program *q = plan_with(s, a, NULL, "partition");
    HintMoves moves = {0};
    if (q)
        moves = hint_moves(q, w);
    int best = -1, before = s->trials;
    PlanCost least = {0};
    for (int i = 0; i < moves.n && s->trials < MAX_TRIALS; i++) {
        PlanCost cost;
        if (measure(s, &moves.at[i], &cost) && improves(w->kind, &cost, &s->cost) &&
            (best < 0 || is_better(&cost, &least))) {
            best = i;
            least = cost;
        }
    }
    root_of(s, w)->tried += s->trials - before;
    if (best >= 0) {
        accept(s, w, &moves.at[best], &least);
        return;
    }
    Warning tried = {.kind = w->kind, .loc = w->loc};
    vec_push(s->p->arena, &s->tried, tried);
}

/* One warning of the present plan; false: none is left. */
static bool step(Search *s)
{
    Arena *a = arena_new();
    Warning w;
    const Program *q = plan_with(s, a, NULL, "share_params");
    Warnings now = {0};
    if (q)
        now = report_find_warnings(q);
    bool found = next_warning(s, &now, &w);
    if (found)
        solve(s, a, &w);
    arena_free(a);
    return found;
}

void hints_find(Program *p, Warnings *all, const PlanSource *from)
{
    Search s = {.p = p, .from = from, .all = all};
    if (!all->n || !measure(&s, NULL, &s.cost))
        return;
    Savings *saved = &all->saved;
    saved->sent = s.cost.sent;
    saved->flops = s.cost.flops;
    while (s.trials < MAX_TRIALS && step(&s)) {
    }
    saved->sent_after = s.cost.sent;
    saved->flops_after = s.cost.flops;
    saved->lines = s.lines.n;
}
