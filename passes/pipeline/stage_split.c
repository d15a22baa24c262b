/* stage_split.c: divides the forward pass into stages.
 *
 * The forward pass is a sequence of units: iterations of loops over layers, and
 * between them modules of the model with the ops that follow them. A stage is a
 * run of units.
 *
 *   units      embedding, layers.0, … layers.7, norm, output
 *   2 stages   embedding, layers.0 … layers.4   | layers.5 … output
 *   split      stage 0: "embedding", "layers.0-4"
 *              stage 1: "layers.5-7", "norm", "output"
 *   cut        of the loop over layers: [0, 5, 8]
 *
 * Without the option `split` the work of the largest stage is as small as
 * possible; of the splits with that work, one is chosen whose largest stage has
 * the fewest parameters. Stages are filled from the last one on, because the
 * first ones have more microbatches in memory. What is chosen is stored in
 * PlanSpec.pipeline.split, which side programs follow.
 */
#include <string.h>

#include "ir/analysis/flops.h"
#include "ir/options.h"
#include "ir/path.h"
#include "ir/plan/pipeline.h"
#include "passes/pipeline/stages.h"

/* Units of one kind: the iterations of a loop, or one run of ops. */
typedef struct Item {
    Op *loop;          /* NULL: ops */
    const char *path;  /* of the module, or of an element of the array; "" for
                        * the model */
    PathRange element; /* of a loop: the elements that it visits */
    int64_t n;         /* units */
    double flops;      /* of each */
    int64_t elements;  /* of the parameters of each */
} Item;

typedef struct Division {
    Stages *s;
    VEC(Item) item;
    int *item_of;   /* by op id of top-level forward ops: from 1; 0: none */
    bool *counted;  /* by parameter: an item has it */
    int64_t nunits;
    int *unit_item; /* by unit */
    int *stage;     /* by unit */
} Division;

/* ---- units --------------------------------------------------------------- */

static bool is_numbered(const char *segment, size_t size)
{
    PathRange r;
    return path_is_open(segment, size) || path_range(segment, size, &r);
}

/* The path up to its first element of an array, else its first segment. */
static const char *unit_path(Arena *a, const char *path)
{
    size_t size;
    for (int i = 0; i < path_depth(path); i++) {
        const char *at = path_segment(path, i, &size);
        if (is_numbered(at, size))
            return arena_strndup(a, path, (size_t)(at - path) + size);
    }
    return arena_strndup(a, path, strcspn(path, "."));
}

/* The array that the loop visits: that of the ops in its body. */
static const char *loop_path(Arena *a, const Op *loop)
{
    for_ops(op, loop->body) {
        const char *path = unit_path(a, op->path);
        const char *last = strrchr(path, '.');
        if (last && is_numbered(last + 1, strlen(last + 1)))
            return path;
    }
    return "";
}

static void count_params(Division *d, Item *item, const Op *op)
{
    for (int i = 0; i < op->nargs; i++) {
        const Op *def = op->arg[i]->def;
        if (!def || def->kind != OP_param || d->counted[attr_param(def)])
            continue;
        d->counted[attr_param(def)] = true;
        item->elements += type_layer_elements(&def->out[0]->type);
    }
}

static void add_loop(Division *d, Op *loop)
{
    const Program *p = d->s->p;
    Item item = {.loop = loop, .path = loop_path(p->arena, loop),
                 .n = loop_trips(loop)};
    const char *last = strrchr(item.path, '.');
    if (!last || !path_range(last + 1, strlen(last + 1), &item.element))
        item.element = (PathRange){0, item.n - 1, 1};
    for_ops(op, loop->body)
        item.flops += op_flops(p, op) * (double)ir_trip_count(op) /
                      (double)item.n;
    count_params(d, &item, loop);
    vec_push(p->arena, &d->item, item);
}

/* Ops of the model itself continue the unit before them. */
static void add_op(Division *d, const Op *op)
{
    Program *p = d->s->p;
    const char *path = unit_path(p->arena, op->path);
    Item *last = d->item.n ? &d->item.at[d->item.n - 1] : NULL;
    bool same = last && !last->loop &&
                (!*path || !*last->path || strcmp(path, last->path) == 0);
    if (!same) {
        vec_push(p->arena, &d->item, ((Item){.path = path, .n = 1}));
        last = &d->item.at[d->item.n - 1];
    }
    if (!*last->path)
        last->path = path;
    last->flops += op_flops(p, op);
    count_params(d, last, op);
}

static bool belongs_to_unit(const Op *op)
{
    return op->phase == PH_FORWARD && op->kind != OP_param &&
           op->kind != OP_input && op->kind != OP_scalar &&
           op->kind != OP_base && op->kind != OP_output &&
           op->kind != OP_split_key;
}

static void find_units(Division *d)
{
    Program *p = d->s->p;
    d->item_of = NEW_ARRAY(p->arena, int, p->nops);
    d->counted = NEW_ARRAY(p->arena, bool, p->param.n + 1);
    for (Op *op = p->step->first; op; op = op->next) {
        if (!belongs_to_unit(op))
            continue;
        if (op->kind == OP_loop)
            add_loop(d, op);
        else
            add_op(d, op);
        d->item_of[op->id] = d->item.n;
    }
    for (int i = 0; i < d->item.n; i++)
        d->nunits += d->item.at[i].n;
    d->unit_item = NEW_ARRAY(p->arena, int, d->nunits + 1);
    d->stage = NEW_ARRAY(p->arena, int, d->nunits + 1);
    int64_t unit = 0;
    for (int i = 0; i < d->item.n; i++)
        for (int64_t k = 0; k < d->item.at[i].n; k++)
            d->unit_item[unit++] = i;
}

static const Item *item_at(const Division *d, int64_t unit)
{
    return &d->item.at[d->unit_item[unit]];
}

/* The first unit of an item. */
static int64_t first_unit(const Division *d, int item)
{
    int64_t unit = 0;
    for (int i = 0; i < item; i++)
        unit += d->item.at[i].n;
    return unit;
}

/* "layers.3": the path of iterations first … last of an item. */
static const char *units_path(const Division *d, const Item *item, int64_t first,
                              int64_t last)
{
    Arena *a = d->s->p->arena;
    if (!item->loop || !*item->path)
        return item->path;
    PathRange r = {item->element.first + first * item->element.step,
                   item->element.first + last * item->element.step,
                   item->element.step};
    return arena_printf(a, "%s.%s", path_parent(a, item->path),
                        path_range_text(a, r));
}

static const char *unit_text(const Division *d, int64_t unit)
{
    int64_t k = unit - first_unit(d, d->unit_item[unit]);
    return units_path(d, item_at(d, unit), k, k);
}

/* ---- a split that balances the stages ------------------------------------ */

/* Assigns units to stages, none of which exceeds the limits; false: they do not
 * suffice. */
static bool fill_stages(Division *d, double flops, int64_t elements)
{
    int64_t left = d->nunits;
    for (int stage = d->s->nstages - 1; stage >= 0; stage--) {
        double work = 0;
        int64_t size = 0, begin = left;
        while (left > stage) {
            const Item *next = item_at(d, left - 1);
            if (work + next->flops > flops || size + next->elements > elements)
                break;
            work += next->flops;
            size += next->elements;
            d->stage[--left] = stage;
        }
        if (left == begin)
            return false;
    }
    return left == 0;
}

static double most_work(const Division *d)
{
    double most = 0, work = 0;
    for (int64_t i = 0; i < d->nunits; i++) {
        work = i && d->stage[i] == d->stage[i - 1] ? work : 0;
        work += item_at(d, i)->flops;
        most = work > most ? work : most;
    }
    return most;
}

static void balance(Division *d)
{
    double low = 0, high = 0;
    int64_t all = 0;
    for (int64_t i = 0; i < d->nunits; i++) {
        high += item_at(d, i)->flops;
        all += item_at(d, i)->elements;
    }
    fill_stages(d, high, all);
    for (int i = 0; i < 60 && low < high; i++) {
        double half = (low + high) / 2;
        if (fill_stages(d, half, all))
            high = most_work(d);
        else
            low = half;
    }
    int64_t least = -1, most = all;
    while (least + 1 < most) {
        int64_t half = least + (most - least) / 2;
        if (fill_stages(d, high, half))
            most = half;
        else
            least = half;
    }
    fill_stages(d, high, most);
}

/* Stores the split by module in the plan. */
static void record(Division *d)
{
    Program *p = d->s->p;
    Pipeline *plan = &p->plan.pipeline;
    plan->split = NEW_ARRAY(p->arena, StagePaths, d->s->nstages);
    plan->nsplit = d->s->nstages;
    int64_t unit = 0;
    for (int stage = 0; stage < d->s->nstages; stage++) {
        VEC(const char *) path = {0};
        while (unit < d->nunits && d->stage[unit] == stage) {
            int item = d->unit_item[unit];
            int64_t base = first_unit(d, item), first = unit - base;
            while (unit < d->nunits && d->stage[unit] == stage &&
                   d->unit_item[unit] == item)
                unit++;
            vec_push(p->arena, &path,
                     units_path(d, &d->item.at[item], first, unit - base - 1));
        }
        plan->split[stage] = (StagePaths){path.at, path.n, plan->loc};
    }
}

/* ---- a split that is given ----------------------------------------------- */

/* How well a path of a stage names a unit: best if it is the unit's, less as that
 * of a module around it, least (INSIDE) as that of one inside of it; 0: it names
 * another. */
enum { INSIDE = 1 };
static int names_unit(Arena *a, const char *stage, const char *path)
{
    int n = path_depth(stage), k = path_depth(path);
    size_t size;
    if (n == 0 || k == 0)
        return n == k;
    int both = n < k ? n : k;
    const char *end = path_segment(stage, both - 1, &size);
    stage = arena_strndup(a, stage, (size_t)(end - stage) + size);
    end = path_segment(path, both - 1, &size);
    path = arena_strndup(a, path, (size_t)(end - path) + size);
    return !path_overlaps(stage, path) ? 0 : n > k ? INSIDE : 2 * n + (n == k);
}

static int stage_names(const Division *d, int stage, const char *path)
{
    const StagePaths *s = &d->s->p->plan.pipeline.split[stage];
    int best = 0;
    for (int i = 0; i < s->npaths; i++) {
        int names = names_unit(d->s->p->arena, s->path[i], path);
        best = names > best ? names : best;
    }
    return best;
}

/* The stage from `stage` on whose paths name the unit best; -1: none does. */
static int named_stage(const Division *d, int stage, const char *path)
{
    int found = -1, best = 0;
    for (; stage < d->s->nstages; stage++) {
        int names = stage_names(d, stage, path);
        if (names > best) {
            best = names;
            found = stage;
        }
    }
    return found;
}

/* Reports an iteration that is in no stage, or in one that ends before it. */
static bool refuse_unit(Division *d, const char *path)
{
    const Pipeline *plan = &d->s->p->plan.pipeline;
    Diag *diag = d->s->p->diag;
    for (int stage = 0; stage < plan->nsplit; stage++)
        if (stage_names(d, stage, path)) {
            diag_error(diag, plan->split[stage].loc, "the stages are not in the "
                       "order of the forward pass: '%s' comes later there",
                       path);
            return diag_help(diag, "name the layers of each stage in their order, or "
                             "omit `split` if the forward pass visits them several "
                             "times");
        }
    diag_error(diag, plan->loc, "no stage of `split` has '%s'", path);
    return diag_help(diag, "name the layers of each stage, in order: %s=%s",
                     option_name(OPTION_split),
                     option_rows[OPTION_split].example);
}

/* Reports a stage that names only a module inside of an iteration. */
static bool refuse_part(Division *d, int stage, const char *path)
{
    diag_error(d->s->p->diag, d->s->p->plan.pipeline.split[stage].loc,
               "stage %d of `split` names a part of '%s'", stage, path);
    return diag_help(d->s->p->diag, "a stage has whole layers: name '%s'", path);
}

static bool follow(Division *d)
{
    int stage = 0;
    for (int64_t i = 0; i < d->nunits; i++) {
        const char *path = unit_text(d, i);
        int next = named_stage(d, stage, path);
        if (next < 0 && item_at(d, i)->loop)
            return refuse_unit(d, path);
        if (next >= 0 && item_at(d, i)->loop && stage_names(d, next, path) == INSIDE)
            return refuse_part(d, next, path);
        stage = next < 0 ? stage : next;
        d->stage[i] = stage;
    }
    return true;
}

/* Whether a stage runs the module, which the forward pass may run several times. */
static bool runs_on(const Division *d, int stage, const char *path)
{
    for (int64_t i = 0; i < d->nunits; i++)
        if (d->stage[i] == stage && strcmp(unit_text(d, i), path) == 0)
            return true;
    return false;
}

/* Reports a module that several stages name, or one that is not on the stage which
 * names it. */
static bool check_names(Division *d)
{
    const Pipeline *plan = &d->s->p->plan.pipeline;
    Diag *diag = d->s->p->diag;
    for (int64_t i = 0; i < d->nunits && d->s->p->purpose == FOR_TRAINING; i++) {
        const char *path = unit_text(d, i);
        int own = stage_names(d, d->stage[i], path);
        for (int s = 0; s < plan->nsplit; s++) {
            int names = stage_names(d, s, path);
            if (s == d->stage[i] || names == 0 || names < own || runs_on(d, s, path))
                continue;
            if (names == own)
                return diag_error(diag, plan->split[s].loc, "'%s' is in stages %d and "
                                  "%d of `split`", path, d->stage[i], s);
            diag_error(diag, plan->split[s].loc, "'%s' is in stage %d of `split`, but "
                       "the forward pass runs it between modules of stage %d", path,
                       s, d->stage[i]);
            return diag_help(diag, "name it in stage %d, or not at all: modules that "
                             "`split` does not name follow those before them",
                             d->stage[i]);
        }
    }
    return true;
}

static bool check_stages(Division *d)
{
    const Program *p = d->s->p;
    const Pipeline *plan = &p->plan.pipeline;
    bool *used = NEW_ARRAY(p->arena, bool, plan->nsplit + 1);
    for (int64_t i = 0; i < d->nunits; i++)
        used[d->stage[i]] = true;
    for (int stage = 0; stage < plan->nsplit; stage++)
        if (!used[stage] && p->purpose == FOR_TRAINING)
            return diag_error(p->diag, plan->split[stage].loc, "stage %d of "
                              "`split` has no module of the model", stage);
    return true;
}

/* ---- the result ---------------------------------------------------------- */

/* The number of the cut with these stages. */
static int number_cut(Division *d, const int64_t *begin)
{
    Program *p = d->s->p;
    Mesh *m = &p->mesh;
    int n = d->s->nstages;
    for (int i = 0; i < m->ncuts; i++)
        if (m->cut[i].nstages == n &&
            !memcmp(m->cut[i].begin, begin, sizeof *begin * (size_t)(n + 1)))
            return i + 1;
    if (m->ncuts == MAX_CUTS) {
        diag_error(p->diag, p->plan.pipeline.loc, "the stages cut loops in more "
                   "than %d different ways", (int)MAX_CUTS);
        return 0;
    }
    StageCut *grown = NEW_ARRAY(p->arena, StageCut, m->ncuts + 1);
    for (int i = 0; i < m->ncuts; i++)
        grown[i] = m->cut[i];
    grown[m->ncuts] = (StageCut){
        n, arena_copy(p->arena, begin, sizeof *begin * (size_t)(n + 1))};
    m->cut = grown;
    return ++m->ncuts;
}

static int cut_item(Division *d, int item)
{
    int64_t begin[MAX_STAGES + 1] = {0}, first = first_unit(d, item);
    for (int64_t k = 0; k < d->item.at[item].n; k++)
        for (int stage = d->stage[first + k] + 1; stage <= d->s->nstages;
             stage++)
            begin[stage]++;
    return number_cut(d, begin);
}

static void number_ops(Division *d)
{
    Stages *s = d->s;
    Program *p = s->p;
    if (p->training) { /* the same numbers */
        p->mesh.cut = p->training->mesh.cut;
        p->mesh.ncuts = p->training->mesh.ncuts;
    }
    s->nops = p->nops;
    s->stage_of = NEW_ARRAY(p->arena, int, p->nops);
    s->cut_of = NEW_ARRAY(p->arena, int, p->nops);
    for (const Op *op = p->step->first; op; op = op->next) {
        int item = d->item_of[op->id] - 1;
        s->stage_of[op->id] =
            item < 0 ? EVERYWHERE : d->stage[first_unit(d, item)];
        if (item >= 0 && op->kind == OP_loop)
            s->cut_of[op->id] = cut_item(d, item);
    }
}

static bool check_count(const Division *d)
{
    const Program *p = d->s->p;
    const Pipeline *plan = &p->plan.pipeline;
    int n = d->s->nstages;
    if (n > MAX_STAGES)
        return diag_error(p->diag, plan->loc, "a pipeline of %d stages, at most "
                          "%d are possible", n, (int)MAX_STAGES);
    if (plan->nsplit && plan->nsplit != n)
        return diag_error(p->diag, plan->loc, "`split` has %d stage%s, but the "
                          "pipeline has %d: %lld for each of %lld ranks of '%s'",
                          plan->nsplit, plan->nsplit == 1 ? "" : "s", n,
                          (long long)rank_stages(p),
                          (long long)p->mesh.size[d->s->axis],
                          p->mesh.name[d->s->axis]);
    if (d->nunits >= n || p->purpose != FOR_TRAINING)
        return true;
    diag_error(p->diag, plan->loc, "a pipeline of %d stages, but the forward "
               "pass has %lld unit%s: layers of arrays, and modules of the "
               "model", n, (long long)d->nunits, d->nunits == 1 ? "" : "s");
    return diag_help(p->diag, "use fewer ranks for '%s'%s",
                     p->mesh.name[d->s->axis],
                     rank_stages(p) > 1 ? ", or fewer stages_per_rank"
                                               : "");
}

/* With one microbatch a rank has one stage: consecutive ones of the split are joined. */
static void join_stages(Program *p, Pipeline *plan, int n)
{
    int64_t each = pipeline_stages_per_rank(plan);
    if (each == 1 || plan->nsplit != n * each)
        return;
    StagePaths *joined = NEW_ARRAY(p->arena, StagePaths, n);
    for (int s = 0; s < n; s++) {
        const StagePaths *from = &plan->split[s * each];
        VEC(const char *) path = {0};
        for (int64_t k = 0; k < each; k++)
            for (int i = 0; i < from[k].npaths; i++)
                vec_push(p->arena, &path, from[k].path[i]);
        joined[s] = (StagePaths){path.at, path.n, from->loc};
    }
    plan->split = joined;
    plan->nsplit = n;
}

bool stages_split(Stages *s)
{
    Program *p = s->p;
    Pipeline *plan = &p->plan.pipeline;
    Division d = {.s = s};
    s->nstages = pipeline_stage_count(p);
    if (p->training) {
        plan->split = p->training->plan.pipeline.split;
        plan->nsplit = p->training->plan.pipeline.nsplit;
    }
    join_stages(p, plan, s->nstages);
    find_units(&d);
    if (!check_count(&d))
        return false;
    if (plan->nsplit && (!follow(&d) || !check_names(&d) || !check_stages(&d)))
        return false;
    if (!plan->nsplit) {
        balance(&d);
        record(&d);
    }
    number_ops(&d);
    return true;
}
