/* units.c: divides a model into the units of `fully_shard`.
 *
 * A unit is gathered in one collective, before its modules run. Each element of an array is
 * one, so that the next element's gather overlaps with this one; each other module with
 * parameters is one, but joined with a neighbor if it is too small to be worth a collective.
 * A head that is tied to the embedding belongs to the embedding's unit.
 *
 *   tok_embeddings 250 MB, layers.*, norm 8 kB, output 250 MB
 *   → tok_embeddings, layers.*, [norm, output]
 */
#include "autoplan/flow.h"

#include "ir/path.h"
#include "ir/plan/checkpoint.h"
#include "ir/units.h"

/* Above this size the latency of a collective is negligible, on links of 50 GB/s. */
enum { SMALL_UNIT = 32 << 20 };

/* A module whose parameters stay together. */
typedef struct Piece {
    const Module *m;
    bool array;    /* each element is a unit */
    int owner;     /* another piece, which has its parameters; else its own index */
    int unit;      /* the lowest index of the pieces of its unit */
    int64_t bytes; /* of its own parameters, in the type of the computation */
} Piece;
typedef VEC(Piece) Pieces;

static bool is_element(const char *path)
{
    size_t n;
    int depth = path_depth(path);
    PathRange range;
    const char *last = depth ? path_segment(path, depth - 1, &n) : "";
    return depth > 0 && ((n == 1 && *last == '*') || path_range(last, n, &range));
}

static bool holds_array(const Program *p, const Module *m)
{
    for (int i = 0; i < p->module.n; i++)
        if (is_element(p->module.at[i].path) && path_is_below(p->module.at[i].path, m->path))
            return true;
    return false;
}

/* The first modules on each path that are elements of arrays, or hold none. */
static Pieces find_pieces(Arena *a, const Program *p)
{
    Pieces list = {0};
    for (int i = 0; i < p->module.n; i++) {
        const Module *m = &p->module.at[i];
        bool array = is_element(m->path), inside = false;
        for (int k = 0; k < list.n; k++)
            inside |= path_is_below(m->path, list.at[k].m->path);
        if (inside || (!array && (!flow_can_name(m->path) || holds_array(p, m))))
            continue;
        if (!m->nparams && !m->weight.n)
            continue;
        Piece new = {m, array, list.n, list.n,
                     module_elements(p, m) * dtype_size(p->train.precision)};
        vec_push(a, &list, new);
    }
    return list;
}

/* Lets pieces whose only weight is another's parameter follow that. */
static void find_owners(Pieces *list)
{
    for (int i = 0; i < list->n; i++) {
        const Module *m = list->at[i].m;
        for (int k = 0; !m->nparams && m->weight.n && k < list->n; k++) {
            const Module *o = list->at[k].m;
            int param = m->weight.at[0].param;
            if (param >= o->first_param && param < o->first_param + o->nparams)
                list->at[i].owner = k;
        }
    }
}

static void join(Pieces *list, int a, int b)
{
    int x = list->at[a].unit, y = list->at[b].unit;
    int stays = x < y ? x : y, goes = x < y ? y : x;
    for (int i = 0; i < list->n; i++)
        if (list->at[i].unit == goes)
            list->at[i].unit = stays;
}

/* The nearest piece of no array from `at` in the direction; `adjacent`: with no array
 * between. -1: none. */
static int neighbor(const Pieces *list, int at, int step, bool adjacent)
{
    for (int i = at + step; i >= 0 && i < list->n; i += step) {
        const Piece *x = &list->at[i];
        if (x->array && adjacent)
            return -1;
        if (!x->array && !list->at[x->owner].array)
            return x->owner;
    }
    return -1;
}

static int64_t unit_bytes(const Pieces *list, int unit)
{
    int64_t bytes = 0;
    for (int i = 0; i < list->n; i++)
        bytes += list->at[i].unit == unit ? list->at[i].bytes : 0;
    return bytes;
}

static void join_small(Pieces *list)
{
    for (int i = 0; i < list->n; i++) {
        const Piece *x = &list->at[i];
        if (x->array || x->owner != i || unit_bytes(list, x->unit) >= SMALL_UNIT)
            continue;
        int to = neighbor(list, i, 1, true);
        to = to < 0 ? neighbor(list, i, -1, true) : to;
        to = to < 0 ? neighbor(list, i, -1, false) : to;
        to = to < 0 ? neighbor(list, i, 1, false) : to;
        if (to >= 0)
            join(list, i, to);
    }
}

/* Whether parameters are in no piece: the model's own, and those of modules that hold an
 * array. */
static bool has_others(const Program *p, const Pieces *list)
{
    for (int i = 0; i < p->param.n; i++) {
        bool held = p->param.at[i].state_of >= 0;
        for (int k = 0; k < list->n && !held; k++) {
            const Module *m = list->at[k].m;
            held = i >= m->first_param && i < m->first_param + m->nparams;
        }
        if (!held)
            return true;
    }
    return false;
}

static const char *unit_text(Arena *a, const Pieces *list, int unit, bool others)
{
    const char *text = "";
    int n = 0;
    for (int i = 0; i < list->n; i++)
        if (list->at[i].unit == unit && list->at[i].owner == i)
            text = arena_printf(a, "%s%s%s", text, n++ ? ", " : "", list->at[i].m->path);
    if (others)
        text = arena_printf(a, "%s%smodel", text, n++ ? ", " : "");
    return n > 1 ? arena_printf(a, "[%s]", text) : text;
}

/* Parameters in no piece are in the last unit that is no element of an array. */
UnitTexts flow_units(const Flow *f)
{
    UnitTexts all = {0};
    Pieces list = find_pieces(f->arena, f->p);
    int last = -1;
    find_owners(&list);
    join_small(&list);
    for (int i = 0; i < list.n; i++)
        if (list.at[i].unit == i && list.at[i].owner == i && !list.at[i].array)
            last = i;
    bool others = has_others(f->p, &list);
    for (int i = 0; i < list.n; i++)
        if (list.at[i].unit == i && list.at[i].owner == i) {
            const char *text = unit_text(f->arena, &list, i, others && i == last);
            vec_push(f->arena, &all, text);
        }
    if (others && last < 0)
        vec_push(f->arena, &all, "model");
    return all;
}
