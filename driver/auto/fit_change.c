/* fit_change.c: lists the changes that may make a plan fit, cheapest first:
 * recomputation of cheap ops, smaller microbatches and chunks, sharding of
 * replicated tensors, recomputation of modules, host memory. Changes of the run itself come last: more devices
 * and a smaller batch. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "driver/auto/fit.h"
#include "ir/options.h"
#include "ir/path.h"
#include "ir/plan/user_axes.h"

enum { MAX_FACTOR = 64, LEAST_CHUNK = 64, CHUNKS = 5, CHUNK_STEP = 4 };

typedef struct Find {
    Arena *arena;
    const Program *p;
    const PlanSource *from;
    FitChanges changes;
    int family;
} Find;

static bool may_change_plan(const Find *f)
{
    UserAxis axis[MAX_AXES];
    return f->p->plan.name[0] != '\0' || user_axes(f->p, axis) == 1;
}

static void add_change(Find *f, FitChange c)
{
    c.family = f->family;
    vec_push(f->arena, &f->changes, c);
}

static void add_define(Find *f, OptionName id, int64_t value, bool other)
{
    const char *text =
        arena_printf(f->arena, "%s=%" PRId64, option_name(id), value);
    add_change(f, (FitChange){.text = arena_printf(f->arena, "-D %s", text),
                              .define = text, .other_run = other});
}

static void add_word(Find *f, OptionName id, int word)
{
    const char *text = arena_printf(f->arena, "%s=%s", option_name(id),
                                    option_word(id, word));
    add_change(f, (FitChange){.text = arena_printf(f->arena, "-D %s", text),
                              .define = text});
}

static void add_clause(Find *f, const char *clause)
{
    add_change(f, (FitChange){.text = arena_printf(f->arena, "'%s' in the plan",
                                                   clause),
                              .clause = clause});
}

/* ---- smaller pieces ---- */

static void smaller_pieces(Find *f)
{
    const Train *t = &f->p->train;
    int64_t mine = t->batch / mesh_group(&f->p->mesh, batch_axes(f->p));
    int64_t tokens = mine * t->seq / mesh_group(&f->p->mesh, f->p->plan.context.axes);

    f->family++;
    for (int64_t chunk = tokens / 2, k = 0;
         chunk > LEAST_CHUNK && k < CHUNKS; chunk /= CHUNK_STEP, k++)
        add_define(f, OPTION_head_chunk, chunk, false);
    f->family++;
    for (int64_t k = 2; k <= mine && k <= MAX_FACTOR; k *= 2)
        if (mine % k == 0)
            add_define(f, OPTION_accumulate, k, false);
}

static void recompute_more(Find *f)
{
    f->family++;
    for (int k = f->p->train.recompute - 1; k >= RECOMPUTE_ALL; k--)
        add_word(f, OPTION_recompute, k);
}

/* ---- the plan ---- */

/* The patterns of the outermost arrays, each with the suffix:
 * "encoder.layers.*, decoder.layers.*". */
static const char *stacks(const Find *f, const char *suffix)
{
    const char *list = "";
    VEC(const char *) known = {0};

    for (int i = 0; i < f->p->module.n; i++) {
        const char *path = f->p->module.at[i].path;
        const char *pattern = "";
        bool index = false;
        int depth = path_depth(path);
        for (int k = 0; k < depth && !index; k++) {
            size_t size;
            PathRange r;
            const char *segment = path_segment(path, k, &size);
            index = *segment == '*' || path_range(segment, size, &r);
            pattern = index ? arena_printf(f->arena, "%s%s*", pattern,
                                           k ? "." : "")
                            : arena_printf(f->arena, "%s%s%.*s", pattern,
                                           k ? "." : "", (int)size, segment);
        }
        if (!index || row_find(known.at, known.n, pattern))
            continue;
        vec_push(f->arena, &known, pattern);
        list = arena_printf(f->arena, "%s%s%s%s", list, *list ? ", " : "",
                            pattern, suffix);
    }
    return list;
}

static void find_attention(Op *op, void *context)
{
    *(bool *)context |= op->kind == OP_attention;
}

static void keep_less(Find *f)
{
    static const char *const with[] = {": keep=(attention, matmul)",
                                       ": keep=attention", ": every=2", ""};
    static const char *const without[] = {": keep=matmul", ": every=2", ""};
    bool attention = false;

    ir_walk(f->p->step, find_attention, &attention);
    f->family++;
    for (int i = 0; i < (attention ? 4 : 3); i++) {
        const char *list = stacks(f, attention ? with[i] : without[i]);
        if (*list)
            add_clause(f, arena_printf(f->arena, "checkpoint { %s }", list));
    }
}

static bool is_partly_sharded(const Find *f)
{
    const PlanSpec *plan = &f->p->plan;

    for (int i = 0; i < plan->nunits; i++)
        if (plan->unit[i].strategy == STRATEGY_NO_SHARD ||
            plan->unit[i].reshard == 0)
            return true;
    return false;
}

static void shard(Find *f)
{
    const Mesh *m = &f->p->mesh;
    int axis = 0;

    while (axis < m->n &&
           (f->p->plan.tensor_axes >> axis & 1 || m->size[axis] == 1))
        axis++;
    if (axis == m->n)
        return;
    f->family++;
    if (f->p->plan.nunits == 0) {
        const char *list = stacks(f, "");
        add_clause(f, arena_printf(f->arena, "fully_shard %s { %s%smodel }",
                                   mesh_user_name(f->arena, m, axis), list,
                                   *list ? ", " : ""));
    } else if (is_partly_sharded(f)) {
        add_change(f, (FitChange){.text = "strategy=full_shard for every unit",
                                  .full_shard = true});
    }
}

static void offload(Find *f)
{
    if (f->from->t->target != TARGET_CUDA)
        return;
    f->family++;
    add_clause(f, "offload { optimizer }");
    add_clause(f, "offload { optimizer, parameters }");
}

/* ---- another run ---- */

/* The text of --mesh with one axis enlarged. */
static const char *mesh_text(const Find *f, int axis, int64_t factor)
{
    UserAxis user[MAX_AXES];
    const char *given = f->from->mesh, *text = "";
    bool named = given && strchr(given, '=');
    int n = user_axes(f->p, user);

    for (int a = 0; a < n; a++) {
        long long size = user[a].size * (a == axis ? factor : 1);
        const char *between = a == 0 ? "" : named ? "," : "x";
        text = named ? arena_printf(f->arena, "%s%s%s=%lld", text, between,
                                    user[a].name, size)
                     : arena_printf(f->arena, "%s%s%lld", text, between, size);
    }
    return text;
}

static void other_runs(Find *f)
{
    const Program *p = f->p;
    UserAxis user[MAX_AXES];
    int n = user_axes(p, user);
    int64_t parts = mesh_group(&p->mesh, batch_axes(p));

    for (int a = 0; a < n; a++) {
        f->family++;
        for (int64_t k = 2; k <= MAX_FACTOR; k *= 2) {
            const char *mesh = mesh_text(f, a, k);
            const char *text = arena_printf(f->arena, "--mesh %s", mesh);
            add_change(f, (FitChange){.text = text, .mesh = mesh,
                                      .other_run = true});
        }
    }
    f->family++;
    for (int64_t k = 2; k <= MAX_FACTOR; k *= 2)
        if (p->train.batch % (k * parts) == 0)
            add_define(f, OPTION_batch, p->train.batch / k, true);
}

FitChanges fit_changes(const Program *p, const PlanSource *from)
{
    Find f = {.arena = p->arena, .p = p, .from = from};

    recompute_more(&f);
    smaller_pieces(&f);
    if (may_change_plan(&f)) {
        shard(&f);
        keep_less(&f);
        offload(&f);
    }
    other_runs(&f);
    return f.changes;
}
