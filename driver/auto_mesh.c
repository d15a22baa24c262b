/* auto_mesh.c: chooses the sizes of mesh axes for --mesh auto; see
 * auto_mesh.h. */
#include "driver/auto_mesh.h"

#include <stdlib.h>
#include <string.h>

#include "driver/fit.h"
#include "report/report.h"

/* MOST_COMPILED: no further candidates are tried when this many compile. */
enum { AUTO = 0, MOST_COMPILED = 10, MOST_GROWTH = 16 };

typedef struct Candidate {
    int64_t size[MAX_MESH_AXES];
    bool across;       /* the tensor axes have several nodes */
    const char *mesh;  /* "dp=8,tp=8" */
    const char *error; /* why it does not compile; NULL: it does */
    int64_t peak;      /* bytes of a rank */
} Candidate;

typedef struct Choice {
    const Program *p;
    const PlanSource *from;
    const Options *o;
    Diag *d;
    Arena *a;
    int n;                        /* axes, in the plan's order */
    int64_t given[MAX_MESH_AXES]; /* AUTO: to be chosen */
    uint32_t named;              /* axes that --mesh names */
    int64_t ranks, node;
    int64_t stages; /* the ranks of an automatic axis of the pipeline */
    VEC(Candidate) candidate;
} Choice;

/* What an axis splits. */
typedef enum Splits { SPLITS_BATCH, SPLITS_TENSORS, SPLITS_LAYERS } Splits;

/* ---- the command line ---------------------------------------------------- */

/* The next size or name=size of the text; NULL at its end. */
static const char *next_part(const char **rest, size_t *size, char separator)
{
    const char *part = *rest;
    if (!part)
        return NULL;
    const char *end = strchr(part, separator);
    *size = end ? (size_t)(end - part) : strlen(part);
    *rest = end ? end + 1 : NULL;
    return part;
}

static char separator_of(const char *mesh)
{
    return strchr(mesh, '=') ? ',' : 'x';
}

static bool is_auto(const char *part, size_t size)
{
    return size >= 4 && memcmp(part + size - 4, "auto", 4) == 0 &&
           (size == 4 || part[size - 5] == '=');
}

bool auto_mesh_requested(const Options *o)
{
    if (!o->mesh.text)
        return false;
    const char *rest = o->mesh.text, *part;
    size_t size;
    while ((part = next_part(&rest, &size, separator_of(o->mesh.text))))
        if (is_auto(part, size))
            return true;
    return false;
}

static int axis_named(const Choice *c, const char *name, size_t size)
{
    for (int a = 0; a < c->n; a++)
        if (strlen(c->p->mesh.name[a]) == size &&
            memcmp(c->p->mesh.name[a], name, size) == 0)
            return a;
    return -1;
}

static bool wrong(Choice *c, const char *text)
{
    return diag_error(c->d, c->o->mesh.loc, "%s", text);
}

static const char *axes_text(const Choice *c)
{
    const char *text = "";
    for (int a = 0; a < c->n; a++)
        text = arena_printf(c->a, "%s%s%s", text, a ? ", " : "",
                            c->p->mesh.name[a]);
    return text;
}

/* Reads one part into Choice.given; `at`: its index among the parts. */
static bool read_part(Choice *c, const char *part, size_t size, int at)
{
    const char *equals = memchr(part, '=', size);
    int axis = equals ? axis_named(c, part, (size_t)(equals - part)) : at;
    if (axis < 0 || axis >= c->n)
        return wrong(c, arena_printf(c->a, "the plan's axes are %s, but --mesh "
                                     "has '%.*s'", axes_text(c), (int)size,
                                     part));
    if (c->named >> axis & 1)
        return wrong(c, arena_printf(c->a, "axis '%s' is given twice",
                                     c->p->mesh.name[axis]));
    c->named |= 1u << axis;
    char *end;
    const char *digits = equals ? equals + 1 : part;
    c->given[axis] = is_auto(part, size) ? AUTO : strtoll(digits, &end, 10);
    if (is_auto(part, size) || (end == part + size && c->given[axis] >= 1 &&
                                c->given[axis] <= MAX_RANKS))
        return true;
    return wrong(c, arena_printf(c->a, "'%.*s' is not the size of a mesh axis",
                                 (int)size, part));
}

/* Reads --mesh. An axis that it does not name is chosen too. */
static bool read_mesh(Choice *c)
{
    const char *rest = c->o->mesh.text, *part;
    char separator = separator_of(rest);
    size_t size;
    int n = 0;
    bool all = strcmp(rest, "auto") == 0;
    while (!all && (part = next_part(&rest, &size, separator)))
        if (!read_part(c, part, size, n++))
            return false;
    if (all || separator == ',' || n == c->n)
        return true;
    return wrong(c, arena_printf(c->a, "the mesh has %d axes, the plan has %d "
                                 "(%s)", n, c->n, axes_text(c)));
}

/* ---- candidates ---------------------------------------------------------- */

static Splits kind_of(const Choice *c, int axis)
{
    return c->p->plan.pipeline.axes >> axis & 1 ? SPLITS_LAYERS
           : c->p->plan.tensor_axes >> axis & 1 ? SPLITS_TENSORS
                                                : SPLITS_BATCH;
}

static bool is_tensor(const Choice *c, int axis)
{
    return kind_of(c, axis) == SPLITS_TENSORS;
}

/* Tensor axes are the innermost ones, so that their groups are inside a node. */
static const char *mesh_of(const Choice *c, const int64_t *size)
{
    const char *text = "";
    for (int tensor = 0; tensor < 2; tensor++)
        for (int a = 0; a < c->n; a++)
            if (is_tensor(c, a) == tensor)
                text = arena_printf(c->a, "%s%s%s=%lld", text,
                                    *text ? "," : "", c->p->mesh.name[a],
                                    (long long)size[a]);
    return text;
}

static void add_candidate(Choice *c, const int64_t *size)
{
    Candidate new = {.mesh = mesh_of(c, size)};
    int64_t tensor = 1, ranks = 1;
    for (int a = 0; a < c->n; a++) {
        new.size[a] = size[a];
        ranks *= size[a];
        tensor *= is_tensor(c, a) ? size[a] : 1;
    }
    new.across = tensor > c->node;
    bool known = false;
    for (int i = 0; i < c->candidate.n; i++)
        known |= strcmp(c->candidate.at[i].mesh, new.mesh) == 0;
    if (ranks == c->ranks && !known)
        vec_push(c->a, &c->candidate, new);
}

/* The first and the last axis of a kind whose size is to be chosen; -1: none. */
static int auto_axis(const Choice *c, Splits kind, bool last)
{
    int found = -1;
    for (int a = 0; a < c->n; a++)
        if (c->given[a] == AUTO && kind_of(c, a) == kind && (last || found < 0))
            found = a;
    return found;
}

/* Adds the meshes with this size of the tensor axis; other automatic tensor axes
 * have one rank. The ranks that are left go to the last automatic axis of the
 * batch; with two, the first may number the nodes. */
static void add_with_tensor(Choice *c, int tensor, int64_t tp)
{
    int64_t size[MAX_MESH_AXES], rest = c->ranks, stages = 1;
    int first = auto_axis(c, SPLITS_BATCH, false);
    int last = auto_axis(c, SPLITS_BATCH, true);
    for (int a = 0; a < c->n; a++) {
        bool layers = kind_of(c, a) == SPLITS_LAYERS;
        size[a] = a == tensor           ? tp
                  : c->given[a] != AUTO ? c->given[a]
                  : layers              ? c->stages
                                        : 1;
        if (rest % size[a])
            return;
        rest /= size[a];
        stages *= layers ? size[a] : 1;
    }
    int64_t nodes = c->ranks / c->node / stages; /* of a stage */
    if (last >= 0 && first != last && nodes > 1 && rest % nodes == 0) {
        size[first] = nodes;
        size[last] = rest / nodes;
        add_candidate(c, size);
        size[first] = 1;
    }
    if (last >= 0)
        size[last] = rest;
    add_candidate(c, size);
}

static void add_candidates(Choice *c)
{
    int tensor = auto_axis(c, SPLITS_TENSORS, true), before = c->candidate.n;
    int64_t fixed = 1, node = c->o->node_size            ? c->o->node_size
                              : c->o->target == TARGET_CPU ? c->ranks
                                                         : DEFAULT_NODE_SIZE;
    c->node = node < c->ranks ? node : c->ranks;
    for (int a = 0; a < c->n; a++)
        fixed *= is_tensor(c, a) && c->given[a] != AUTO ? c->given[a] : 1;
    for (int64_t tp = tensor < 0 ? 1 : c->node / fixed; tp >= 1; tp--)
        if (c->node % (tp * fixed) == 0)
            add_with_tensor(c, tensor, tp);
    if (c->candidate.n == before)
        for (int64_t tp = c->ranks; tp >= 1; tp--)
            if (c->ranks % tp == 0)
                add_with_tensor(c, tensor, tp);
}

/* ---- trials -------------------------------------------------------------- */

static void try_candidate(Choice *c, Candidate *t)
{
    PlanSource from = *c->from;
    from.mesh = t->mesh;
    const Program *q = fit_plan(c->p, &from, c->o, &t->error);
    t->peak = q ? q->memory->peak : 0;
}

static bool fits(const Choice *c, const Candidate *t)
{
    return !t->error && (c->o->memory_limit == 0 || t->peak <= fit_limit(c->o));
}

static int64_t ranks_of(const Choice *c, const Candidate *t, Splits kind)
{
    int64_t n = 1;
    for (int a = 0; a < c->n; a++)
        n *= kind_of(c, a) == kind ? t->size[a] : 1;
    return n;
}

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
            ranks_of(c, t, SPLITS_TENSORS) != ranks_of(c, compiles, SPLITS_TENSORS))
            break;
        try_candidate(c, t);
        n++;
        compiles = t->error ? compiles : t;
        compiled += !t->error;
        if (fits(c, t) && (!best || (best->across && !t->across)))
            best = t;
    }
    c->candidate.n = n;
    return best;
}

/* The best candidate with the fewest stages; NULL: none fits. */
static const Candidate *choose(Choice *c)
{
    bool all = auto_axis(c, SPLITS_LAYERS, false) < 0;
    const Candidate *best = NULL;
    for (c->stages = 1; !best && c->stages <= (all ? 1 : c->ranks); c->stages++) {
        int n = c->candidate.n;
        if (c->ranks % c->stages)
            continue;
        add_candidates(c);
        best = best_from(c, n);
    }
    return best;
}

/* ---- reports ------------------------------------------------------------- */

static const char *bytes(const Choice *c, int64_t n)
{
    return bytes_text(c->a, n);
}

/* Why the candidate is not chosen. */
static const char *loss_text(const Choice *c, const Candidate *t,
                             const Candidate *best)
{
    if (t->error)
        return t->error;
    if (!fits(c, t))
        return arena_printf(c->a, "a rank needs %s, more than %s",
                            bytes(c, t->peak), bytes(c, fit_limit(c->o)));
    const char *why = t->across ? "tensor parallelism spans several nodes"
                      : ranks_of(c, t, SPLITS_TENSORS) < ranks_of(c, best, SPLITS_TENSORS)
                          ? "less tensor parallelism inside a node"
                          : "fewer replicas";
    return arena_printf(c->a, "%s; a rank needs %s", why, bytes(c, t->peak));
}

/* "dp=8,tp=1" without the axes of one rank. */
static const char *sizes_of(const Choice *c, const Candidate *t, Splits kind)
{
    const char *text = "";
    for (int a = 0; a < c->n; a++)
        if (kind_of(c, a) == kind && t->size[a] > 1)
            text = arena_printf(c->a, "%s%s%s=%lld", text, *text ? "," : "",
                                c->p->mesh.name[a], (long long)t->size[a]);
    return text;
}

static const char *tensor_reason(const Choice *c, const Candidate *best)
{
    int64_t tensor = ranks_of(c, best, SPLITS_TENSORS);
    const char *sizes = sizes_of(c, best, SPLITS_TENSORS);
    if (tensor == 1)
        return "";
    if (auto_axis(c, SPLITS_TENSORS, true) < 0)
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
    int64_t nodes = c->ranks / c->node / ranks_of(c, best, SPLITS_LAYERS);
    const char *batch = sizes_of(c, best, SPLITS_BATCH);
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
    const char *stages = sizes_of(c, best, SPLITS_LAYERS);
    if (!*stages)
        return "";
    return arena_printf(c->a, "%s %s", stages,
                        auto_axis(c, SPLITS_LAYERS, false) < 0
                            ? "as given"
                            : "has the fewest stages that fit");
}

static const char *reason(const Choice *c, const Candidate *best)
{
    const char *part[] = {stages_reason(c, best), tensor_reason(c, best),
                          batch_reason(c, best)};
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
    suggest_ranks(c);
    return NULL;
}

const char *auto_mesh_choose(const Program *p, const PlanSource *from,
                             const Options *o, Diag *d)
{
    Choice c = {.p = p, .from = from, .o = o, .d = d, .a = p->arena,
                .n = p->mesh.n, .ranks = o->ranks};
    if (!read_mesh(&c))
        return NULL;
    const Candidate *best = choose(&c);
    if (!best)
        return refuse(&c);
    diag_note(d, (Loc){0}, "--mesh auto is %s: %s; a rank needs %s", best->mesh,
              reason(&c, best), bytes(&c, best->peak));
    report_losers(&c, best);
    return best->mesh;
}
