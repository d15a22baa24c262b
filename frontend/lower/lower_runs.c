/* lower_runs.c: cuts arrays of modules into runs of elements that the plan
 * treats alike, and that lines of `names hf` name alike.
 *
 * An array is one module, with '*' in its path, if the plan treats all its
 * elements alike. If a path names one element or a range, or an item takes
 * every n-th element (`every=2`), the array is cut into runs: the longest
 * ranges of elements that are treated alike, each a stack of parameters with a
 * loop of its own.
 *
 *   checkpoint { layers.3 }          layers.0-2, layers.3, layers.4-7
 *   checkpoint { layers.*: every=2 } layers.0-6:2 with layers.1-7:2
 *
 * Alternating elements share one loop, whose body holds a whole period; the
 * size of the program does not depend on the length of the array.
 */
#include <string.h>

#include "base/text.h"
#include "frontend/lower/lower.h"
#include "ir/path.h"

enum { MAX_PERIOD = 16 }; /* longer periods do not share a loop */

/* An item of the plan or line of names that concerns some elements of the array. */
typedef struct Treatment {
    PathRange range;  /* the elements, if `every` is 0 */
    int64_t every;    /* the elements 0, every, 2 every, … */
    Loc loc;          /* location of the item */
    const char *text; /* the item; equal texts are equal treatments */
} Treatment;

typedef struct Cut {
    Lower *l;
    const char *path;  /* path of the array, without an index */
    const char *class; /* class of its elements */
    int64_t n;
    VEC(Treatment) treatment;
    int *kind;         /* by element: equal kinds are treated alike */
} Cut;

/* ---- the plan's items ---------------------------------------------------- */

static const char *item_text(Cut *c, const Clause *clause, const Item *item,
                             const char *rest)
{
    Path path = {.text = rest};
    Item only = *item;
    Out o;

    only.path = &path;
    only.npaths = 1;
    out_init(&o, c->l->arena);
    out(&o, "%d", (int)clause->kind);
    for (int i = 0; i < clause->naxes; i++)
        out(&o, " %s", clause->axis[i].name);
    if (item->npaths > 1 && clause->kind != CL_PARALLELIZE)
        out(&o, " %u:%u", (unsigned)item->loc.line, (unsigned)item->loc.col);
    out(&o, " ");
    ast_print_item(&o, &only);
    return o.text;
}

/* The segment of a pattern for the array's index, of *size characters; NULL: the
 * pattern is for another array or ends before. */
static const char *index_segment(Cut *c, const char *pattern, size_t *size)
{
    int depth = path_depth(c->path);
    if (path_depth(pattern) <= depth)
        return NULL;
    const char *index = path_segment(pattern, depth, size);
    const char *above =
        arena_strndup(c->l->arena, pattern, (size_t)(index - pattern - 1));
    return path_matches(above, c->path) ? index : NULL;
}

static void treat(Cut *c, const Clause *clause, const Item *item,
                  Treatment t, const char *rest)
{
    t.loc = item->loc;
    t.text = item_text(c, clause, item, rest);
    vec_push(c->l->arena, &c->treatment, t);
}

/* Adds a treatment for a pattern that names a number or a range at the array's
 * index, or whose last '*' is the array's index in an item with `every`. */
static void look_at_path(Cut *c, const PlanItem *planned, const char *pattern)
{
    const Clause *clause = planned->clause;
    const Item *item = planned->item;
    int64_t every = planned->checkpoint.every;
    size_t size;
    PathRange r;

    const char *index = index_segment(c, pattern, &size);
    if (!index)
        return;
    const char *rest = index + size;
    bool number = path_range(index, size, &r);
    bool star = size == 1 && *index == '*';
    if (number && r.first < c->n)
        treat(c, clause, item, (Treatment){.range = r}, rest);
    else if (star && every > 1 && !path_has_star(rest))
        treat(c, clause, item, (Treatment){.every = every}, rest);
}

static void look_at(Cut *c, const PlanItem *planned)
{
    const Item *item = planned->item;
    int64_t every = planned->checkpoint.every;
    bool class = item->class_name && strcmp(item->class_name, c->class) == 0;

    for (int i = 0; i < item->npaths; i++)
        look_at_path(c, planned, item->path[i].text);
    if (class && every > 1)
        treat(c, planned->clause, item, (Treatment){.every = every}, "");
}

/* Adds a treatment for each line of names that names a number or a range at the
 * array's index. */
static void look_at_names(Cut *c, const NamesDecl *names)
{
    for (int i = 0; i < names->item.n; i++)
        for (int k = 0; k < names->item.at[i].npaths; k++) {
            const Path *path = &names->item.at[i].path[k];
            size_t size;
            Treatment t = {.loc = path->loc};
            const char *index = index_segment(c, path->text, &size);
            if (!index || !path_range(index, size, &t.range) ||
                t.range.first >= c->n)
                continue;
            t.text = arena_printf(c->l->arena, "names %d %d", i, k);
            vec_push(c->l->arena, &c->treatment, t);
        }
}

/* ---- kinds of elements --------------------------------------------------- */

static bool concerns(const Treatment *t, int64_t element)
{
    return t->every ? element % t->every == 0
                    : path_range_holds(t->range, element);
}

static void find_kinds(Cut *c)
{
    VEC(const char *) known = {0};

    c->kind = NEW_ARRAY(c->l->arena, int, c->n);
    for (int64_t i = 0; i < c->n; i++) {
        const char *text = "";
        for (int k = 0; k < c->treatment.n; k++)
            if (concerns(&c->treatment.at[k], i))
                text = arena_printf(c->l->arena, "%s%s\n", text,
                                    c->treatment.at[k].text);
        int kind = 0;
        while (kind < known.n && strcmp(known.at[kind], text) != 0)
            kind++;
        if (kind == known.n)
            vec_push(c->l->arena, &known, text);
        c->kind[i] = kind;
    }
}

/* ---- runs ---------------------------------------------------------------- */

/* The least common period of all treatments; 1 if it is too long. */
static int64_t period(const Cut *c)
{
    int64_t p = 1;

    for (int i = 0; i < c->treatment.n; i++) {
        const Treatment *t = &c->treatment.at[i];
        int64_t every = t->every ? t->every : t->range.step, x = p, y = every;
        while (y > 0) {
            int64_t rest = x % y;
            x = y;
            y = rest;
        }
        if (every > MAX_PERIOD)
            return 1;
        p = p / x * every;
        if (p > MAX_PERIOD)
            return 1;
    }
    return p;
}

/* The number of elements from `first` on whose kinds repeat with period `by`, a
 * multiple of `by`. */
static int64_t repeats(const Cut *c, int64_t first, int64_t by)
{
    int64_t end = first + by;

    while (end < c->n && c->kind[end] == c->kind[end - by])
        end++;
    return end > c->n ? 0 : (end - first) / by * by;
}

static void add_runs(Lower *l, LayerRuns *runs, int64_t first, int64_t n,
                     int64_t by)
{
    for (int64_t i = 0; i < by; i++) {
        LayerRun run = {.range = {first + i, first + n - by + i, by},
                        .count = n / by,
                        .period = i == 0 ? (int)by : 0};
        vec_push(l->arena, runs, run);
    }
}

/* Reports items with `every` for an array that is too long; lower_path_known
 * reports paths. */
static void refuse_every(const Cut *c)
{
    for (int i = 0; i < c->treatment.n; i++)
        if (c->treatment.at[i].every)
            diag_error(c->l->diag, c->treatment.at[i].loc, "'every=%lld' needs "
                       "an array of at most %d elements: '%s' has %lld",
                       (long long)c->treatment.at[i].every, MAX_CUT_ELEMENTS,
                       c->path, (long long)c->n);
}

LayerRuns lower_runs(Lower *l, const char *path, const char *class, int64_t n)
{
    Cut c = {.l = l, .path = path, .class = class, .n = n};
    LayerRuns runs = {0};

    for (int i = 0; i < l->planned.n; i++)
        look_at(&c, &l->planned.at[i]);
    for (int i = 0; i < l->file->names.n; i++)
        look_at_names(&c, l->file->names.at[i]);
    if (n > MAX_CUT_ELEMENTS)
        refuse_every(&c);
    if (c.treatment.n == 0 || n > MAX_CUT_ELEMENTS) {
        LayerRun all = {.range = {0, n - 1, 1}, .count = n, .period = 1,
                        .whole = true};
        vec_push(l->arena, &runs, all);
        return runs;
    }
    find_kinds(&c);
    int64_t by = period(&c);
    for (int64_t first = 0; first < n;) {
        int64_t alike = repeats(&c, first, 1);
        int64_t repeated = by > 1 ? repeats(&c, first, by) : 0;
        bool alternate = repeated >= 2 * by && repeated > alike;
        add_runs(l, &runs, first, alternate ? repeated : alike,
                 alternate ? by : 1);
        first += alternate ? repeated : alike;
    }
    return runs;
}
