/* auto_mesh.c: chooses the sizes of mesh axes for --mesh auto; see
 * auto_mesh.h. */
#include "driver/auto/auto_choice.h"

#include <string.h>

#include "driver/auto/fit.h"
#include "report/report.h"

/* MOST_COMPILED: no further candidates are tried when this many compile. */
enum { MOST_COMPILED = 10, MOST_GROWTH = 16 };

/* ---- trials -------------------------------------------------------------- */

/* Tries the candidates from n on, and drops those that are not tried. With several
 * stages these are the ones of the first tensor size that compiles: smaller ones need
 * more memory. */
static const Candidate *best_from(Choice *c, int n)
{
    const Candidate *best = NULL, *compiles = NULL;
    int compiled = 0;
    while (n < c->candidate.n && compiled < MOST_COMPILED) {
        Candidate *t = &c->candidate.at[n];
        if (c->stages > 1 && compiles &&
            choice_ranks(c, t, SPLITS_TENSORS) != choice_ranks(c, compiles, SPLITS_TENSORS))
            break;
        choice_compile(c, t, true);
        n++;
        compiles = t->error ? compiles : t;
        compiled += !t->error;
        if (choice_fits(c, t) && (!best || (best->across && !t->across)))
            best = t;
    }
    c->candidate.n = n;
    return best;
}

/* The best candidate with the fewest stages; NULL: none fits. */
static const Candidate *choose(Choice *c)
{
    bool all = choice_auto_axis(c, SPLITS_LAYERS) < 0;
    const Candidate *best = NULL;
    for (c->stages = 1; !best && c->stages <= (all ? 1 : c->ranks); c->stages++) {
        int n = c->candidate.n;
        if (c->ranks % c->stages)
            continue;
        choice_add_candidates(c);
        best = best_from(c, n);
    }
    return best;
}

/* ---- reports ------------------------------------------------------------- */

static const char *bytes(const Choice *c, int64_t n)
{
    return bytes_text(c->a, n);
}

/* The ranks of a candidate's axes that split experts. */
static int64_t expert_ranks(const Choice *c, const Candidate *t)
{
    int64_t n = 1;
    for (int a = 0; a < c->n; a++)
        n *= c->p->plan.experts.axes >> a & 1 ? t->size[a] : 1;
    return n;
}

/* Why the candidate is not chosen. */
static const char *loss_text(const Choice *c, const Candidate *t,
                             const Candidate *best)
{
    if (t->error)
        return t->error;
    if (!choice_fits(c, t))
        return arena_printf(c->a, "a rank needs %s, more than %s",
                            bytes(c, t->peak), bytes(c, fit_limit(c->o)));
    const char *why = t->across ? "tensor parallelism spans several nodes"
                      : choice_ranks(c, t, SPLITS_SEQUENCES) > choice_ranks(c, best, SPLITS_SEQUENCES)
                          ? "sequences are split over more ranks"
                      : choice_ranks(c, t, SPLITS_TENSORS) < choice_ranks(c, best, SPLITS_TENSORS)
                          ? "less tensor parallelism inside a node"
                      : expert_ranks(c, t) < expert_ranks(c, best)
                          ? "experts are split over fewer ranks"
                          : "fewer replicas";
    return arena_printf(c->a, "%s; a rank needs %s", why, bytes(c, t->peak));
}

static const char *tensor_reason(const Choice *c, const Candidate *best)
{
    int64_t tensor = choice_ranks(c, best, SPLITS_TENSORS);
    const char *sizes = choice_sizes(c, best, SPLITS_TENSORS);
    if (tensor == 1)
        return "";
    if (choice_auto_axis(c, SPLITS_TENSORS) < 0)
        return arena_printf(c->a, "%s as given", sizes);
    if (best->across)
        return arena_printf(c->a, "%s spans several nodes of %lld ranks: no "
                            "smaller size compiles and fits", sizes,
                            (long long)c->node);
    if (tensor == c->node)
        return arena_printf(c->a, "%s spans a node of %lld ranks", sizes,
                            (long long)c->node);
    return arena_printf(c->a, "%s is the largest size inside a node of %lld "
                        "ranks that compiles and fits", sizes,
                        (long long)c->node);
}

static const char *batch_reason(const Choice *c, const Candidate *best)
{
    int64_t nodes = c->ranks / c->node / choice_ranks(c, best, SPLITS_LAYERS);
    const char *batch = choice_sizes(c, best, SPLITS_BATCH);
    if (!*batch)
        return "";
    return arena_printf(c->a, "%s %s the batch%s", batch,
                        strchr(batch, ',') ? "split" : "splits",
                        nodes > 1 ? arena_printf(c->a, " over %lld nodes",
                                                 (long long)nodes)
                                  : "");
}

static const char *stages_reason(const Choice *c, const Candidate *best)
{
    const char *stages = choice_sizes(c, best, SPLITS_LAYERS);
    if (!*stages)
        return "";
    return arena_printf(c->a, "%s %s", stages,
                        choice_auto_axis(c, SPLITS_LAYERS) < 0
                            ? "as given"
                            : "has the fewest stages that fit");
}

static const char *sequences_reason(const Choice *c, const Candidate *best)
{
    const char *parts = choice_sizes(c, best, SPLITS_SEQUENCES);
    if (!*parts)
        return "";
    return arena_printf(c->a, "%s %s", parts,
                        choice_auto_axis(c, SPLITS_SEQUENCES) < 0
                            ? "as given"
                            : "splits sequences over the fewest ranks that compile and fit");
}

static const char *reason(const Choice *c, const Candidate *best)
{
    const char *part[] = {stages_reason(c, best), tensor_reason(c, best),
                          sequences_reason(c, best), batch_reason(c, best)};
    const char *text = "";
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        text = arena_printf(c->a, "%s%s%s", text, *text && *part[i] ? ", " : "",
                            part[i]);
    return *text ? text : "one rank";
}

static void report_losers(const Choice *c, const Candidate *best)
{
    for (int i = 0; i < c->candidate.n; i++) {
        const Candidate *t = &c->candidate.at[i];
        if (t != best)
            diag_note(c->d, (Loc){0}, "not %s: %s", t->mesh,
                      loss_text(c, t, best));
    }
}

/* Tries more ranks until a mesh fits. */
static void suggest_ranks(const Choice *c)
{
    for (int64_t by = 2; by <= MOST_GROWTH; by *= 2) {
        Choice more = *c;
        memset(&more.candidate, 0, sizeof more.candidate);
        more.ranks = c->ranks * by;
        if (more.ranks > MAX_RANKS)
            return;
        const Candidate *best = choose(&more);
        if (best) {
            diag_help(c->d, "with --ranks %lld the mesh %s fits: a rank needs "
                      "%s", (long long)more.ranks, best->mesh,
                      bytes(c, best->peak));
            return;
        }
    }
}

static const char *refuse(Choice *c)
{
    diag_error(c->d, c->o->mesh.loc, "no mesh of %lld ranks %s",
               (long long)c->ranks,
               c->candidate.n == 0   ? "has the given sizes"
               : c->o->memory_limit ? "compiles and fits the memory"
                                    : "compiles");
    for (int i = 0; i < c->candidate.n; i++)
        diag_note(c->d, (Loc){0}, "%s: %s", c->candidate.at[i].mesh,
                  loss_text(c, &c->candidate.at[i], NULL));
    if (c->untried)
        diag_help(c->d, "%d other meshes were not tried: --search %d tries them too",
                  c->untried, c->candidate.n + c->untried);
    suggest_ranks(c);
    return NULL;
}

/* Of the meshes that compile, the one after `than` by the memory of a rank; NULL: none. */
static const Candidate *next_smallest(const Choice *c, const Candidate *than)
{
    const Candidate *next = NULL;
    for (int i = 0; i < c->candidate.n; i++) {
        const Candidate *t = &c->candidate.at[i];
        bool after = !than || t->peak > than->peak || (t->peak == than->peak && t > than);
        if (!t->error && after && (!next || t->peak < next->peak))
            next = t;
    }
    return next;
}

/* The mesh that needs the least memory, though it does not fit; NULL: none compiles. */
static const char *choose_smallest(const Choice *c, OtherMeshes *others)
{
    const Candidate *best = next_smallest(c, NULL), *other = best;
    if (!best)
        return NULL;
    diag_note(c->d, (Loc){0}, "--mesh auto is %s, which needs the least memory: a rank needs %s, "
              "%s more than it may use, without changes of the plan", best->mesh,
              bytes(c, best->peak), bytes(c, best->peak - fit_limit(c->o)));
    while (others->n < MOST_OTHER_MESHES && (other = next_smallest(c, other)))
        others->mesh[others->n++] = other->mesh;
    return best->mesh;
}

const char *auto_mesh_choose(const Program *p, const PlanSource *from, const Options *o,
                             Diag *d, bool any_memory, OtherMeshes *others)
{
    const char *smallest;
    *others = (OtherMeshes){0};
    Choice c = {.p = p, .from = from, .o = o, .d = d, .a = p->arena,
                .n = p->mesh.n, .ranks = o->ranks,
                .option = "--mesh auto", .things = "meshes"};
    if (!choice_read_mesh(&c))
        return NULL;
    if (from->t->machine) {
        int tried;
        const Candidate *best = choice_by_time(&c, &tried);
        if (!best && any_memory && (smallest = choose_smallest(&c, others)))
            return smallest;
        if (!best)
            return refuse(&c);
        choice_report_times(&c, best, tried);
        const Candidate **timed;
        int n = choice_others(&c, best, &timed);
        for (int i = 0; i < n && i < MOST_OTHER_MESHES; i++)
            others->mesh[others->n++] = timed[i]->mesh;
        return best->mesh;
    }
    const Candidate *best = choose(&c);
    if (!best && any_memory && (smallest = choose_smallest(&c, others)))
        return smallest;
    if (!best)
        return refuse(&c);
    diag_note(d, (Loc){0}, "--mesh auto is %s: %s; a rank needs %s", best->mesh,
              reason(&c, best), bytes(&c, best->peak));
    report_losers(&c, best);
    return best->mesh;
}
