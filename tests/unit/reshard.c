/* reshard.c: tests the cheapest conversion between all pairs of placements.
 *
 * On several meshes, from every placement of a small tensor to every other:
 * each step is one that its collective can perform, the last step reaches the
 * target, and no conversion costs more than the one through Replicate. A table
 * lists the important conversions by name.
 */
#include "passes/sharding/reshard.h"

#include "check.h"
#include "base/diag.h"

enum { MAX_PLACES = 2048 };

typedef struct Case {
    Check c;
    Program *p;
    Type shape;
    int n;
    Placement place[MAX_PLACES];
} Case;

/* ---- all placements of a shape on a mesh --------------------------------- */

static bool legal(const Case *k, const Type *t)
{
    return type_check(k->p->arena, t, &k->p->mesh) == NULL;
}

static void enumerate(Case *k, int axis, Type t)
{
    static const AxisKind kinds[] = {AX_R, AX_P, AX_FLAT};
    const Mesh *m = &k->p->mesh;
    if (axis == m->n) {
        if (legal(k, &t) && k->n < MAX_PLACES)
            k->place[k->n++] = t.place;
        return;
    }
    for (int i = 0; i < 3; i++) {
        t.place.ax[axis] = (AxisPlace){(uint8_t)kinds[i], 0, 0};
        enumerate(k, axis + 1, t);
    }
    for (int d = 0; d < t.ndim; d++)
        for (int order = 0; order < m->n; order++) {
            t.place.ax[axis] =
                (AxisPlace){AX_S, (uint8_t)d, (uint8_t)order};
            enumerate(k, axis + 1, t);
        }
}

/* ---- one step ------------------------------------------------------------ */

static int axes_on(const Case *k, const Placement *p, int dim)
{
    int n = 0;
    for (int a = 0; a < k->p->mesh.n; a++)
        n += p->ax[a].kind == AX_S && p->ax[a].dim == dim;
    return n;
}

/* Whether the axis is the minor one of the dim that it splits, or splits
 * none. */
static bool is_minor(const Case *k, const Placement *p, int axis)
{
    AxisPlace x = p->ax[axis];
    return x.kind != AX_S || x.order == axes_on(k, p, x.dim) - 1;
}

/* An exchange over both axes: they split one dim and then another, in their order. */
static bool joint_possible(const Case *k, const Placement *before, const ReshardStep *s)
{
    const AxisPlace *x = before->ax, *y = s->to.place.ax;
    return s->kind == OP_all_to_all && legal(k, &s->to) && x[0].kind == AX_S &&
           x[1].kind == AX_S && y[0].kind == AX_S && y[1].kind == AX_S &&
           x[0].dim == x[1].dim && y[0].dim == y[1].dim && x[0].dim != y[0].dim &&
           x[0].order == 0 && y[0].order == 0;
}

static bool step_possible(const Case *k, const Placement *before,
                          const ReshardStep *s)
{
    int axis = __builtin_ctz(s->axes);
    if (s->axes != 1u << axis)
        return joint_possible(k, before, s);
    AxisPlace x = before->ax[axis], y = s->to.place.ax[axis];
    bool part = y.kind == AX_S || y.kind == AX_FLAT;
    for (int a = 0; a < k->p->mesh.n; a++) {
        AxisPlace u = before->ax[a], v = s->to.place.ax[a];
        if (a != axis && memcmp(&u, &v, sizeof u) != 0)
            return false;
    }
    if (!legal(k, &s->to) || !is_minor(k, before, axis) ||
        !is_minor(k, &s->to.place, axis))
        return false;
    switch ((int)s->kind) {
    case OP_all_gather:
        return (x.kind == AX_S || x.kind == AX_FLAT) && y.kind == AX_R;
    case OP_all_reduce:
        return (x.kind == AX_P || x.kind == AX_PMAX) && y.kind == AX_R;
    case OP_reduce_scatter:
        return x.kind == AX_P && part;
    case OP_all_to_all:
        return x.kind == AX_S && y.kind == AX_S && x.dim != y.dim;
    case OP_local_slice:
        return x.kind == AX_R && part;
    case OP_mask_to_partial:
        return x.kind == AX_R && y.kind == AX_P;
    default:
        return false;
    }
}

/* The cost of a conversion that replicates the axes that change, if that is a
 * valid placement. */
static double by_replicate(const Case *k, const Placement *from,
                           const Placement *to)
{
    Type t = k->shape;
    Placement between = *from;
    for (int a = 0; a < k->p->mesh.n; a++)
        if (memcmp(&from->ax[a], &to->ax[a], sizeof from->ax[a]) != 0)
            between.ax[a] = (AxisPlace){AX_R, 0, 0};
    t.place = *from;
    double seconds = reshard_seconds(&k->p->mesh, &t, &between);
    t.place = between;
    if (!legal(k, &t))
        return 1e9;
    return seconds + reshard_seconds(&k->p->mesh, &t, to);
}

static void check_pair(Case *k, const Placement *from, const Placement *to)
{
    ReshardPath path;
    Type t = k->shape;
    Placement at = *from;
    t.place = *from;
    reshard_path(&k->p->mesh, &t, to, &path);
    for (int i = 0; i < path.n; i++) {
        CHECK(&k->c, step_possible(k, &at, &path.step[i]));
        at = path.step[i].to.place;
    }
    CHECK(&k->c, place_equal(&at, to));
    CHECK(&k->c, (path.n == 0) == place_equal(from, to));
    CHECK(&k->c, path.seconds <= by_replicate(k, from, to) + 1e-12);
}

/* ---- important conversions ----------------------------------------------- */

static const struct {
    const char *from[2], *to[2]; /* on dp, tp */
    const char *way;
} rows[] = {
    {{"R", "P"}, {"R", "R"}, "all_reduce tp"},
    {{"R", "P"}, {"R", "S1"}, "reduce_scatter tp"},
    {{"R", "S1"}, {"R", "R"}, "all_gather tp"},
    {{"R", "S1"}, {"R", "S2"}, "all_to_all tp"},
    {{"R", "R"}, {"R", "S0"}, "local_slice tp"},
    {{"R", "R"}, {"R", "P"}, "mask_to_partial tp"},
    {{"S0", "P"}, {"S0", "S1"}, "reduce_scatter tp"},
    {{"S0", "P"}, {"S0", "S0"}, "reduce_scatter tp"},
    /* dp is the major axis of dim 0: tp must be gathered first and split again.
     * A tensor this small is gathered rather than sent twice. */
    {{"S0", "S0"}, {"R", "S0"}, "all_gather tp, all_gather dp, local_slice tp"},
    /* One exchange over both axes. */
    {{"S0", "S0"}, {"S2", "S2"}, "all_to_all dp,tp"},
    {{"P", "R"}, {"flat", "R"}, "reduce_scatter dp"},
    {{"flat", "S0"}, {"R", "S0"}, "all_gather dp"},
    {{"R", "Pmax"}, {"R", "R"}, "all_reduce tp"},
};

static AxisPlace place_of(const char *s)
{
    if (*s == 'S')
        return (AxisPlace){AX_S, (uint8_t)(s[1] - '0'), 0};
    if (strcmp(s, "Pmax") == 0)
        return (AxisPlace){AX_PMAX, 0, 0};
    return (AxisPlace){*s == 'P' ? AX_P : *s == 'f' ? AX_FLAT : AX_R, 0, 0};
}

static Placement both(Case *k, const char *const s[2])
{
    Type t = k->shape;
    for (int a = 0; a < 2; a++)
        t.place.ax[a] = place_of(s[a]);
    type_normalize(&t, &k->p->mesh);
    return t.place;
}

static void check_rows(Case *k)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Type t = k->shape;
        ReshardPath path;
        Out o;
        Placement to = both(k, rows[i].to);
        t.place = both(k, rows[i].from);
        reshard_path(&k->p->mesh, &t, &to, &path);
        out_init(&o, k->p->arena);
        for (int s = 0; s < path.n; s++) {
            out(&o, "%s%s ", s ? ", " : "", op_info(path.step[s].kind)->name);
            for (uint32_t axes = path.step[s].axes; axes; axes &= axes - 1)
                out(&o, "%s%s", k->p->mesh.name[__builtin_ctz(axes)],
                    axes & (axes - 1) ? "," : "");
        }
        CHECK_TEXT(&k->c, o.text, rows[i].way);
    }
}

/* A sum over both axes is one collective. */
static void check_joint(Case *k)
{
    Type t = k->shape;
    Placement none = {0};
    t.place = both(k, (const char *[]){"P", "P"});
    Value *x = ir_new_value(k->p, "x", t, (Loc){0});
    Build b = {.p = k->p, .region = k->p->step, .path = ""};
    Value *y = reshard_emit(&b, x, &none, (Why){0});
    CHECK(&k->c, y->def->kind == OP_all_reduce && y->def->arg[0] == x);
    CHECK(&k->c, attr_axes(y->def) == 3);
}

static const Mesh meshes[] = {
    {.n = 1, .name = {"tp"}, .size = {2}},
    {.n = 2, .name = {"dp", "tp"}, .size = {2, 2}},
    {.n = 2, .name = {"dp", "tp"}, .size = {3, 1}},
    {.n = 2, .name = {"dp", "tp"}, .size = {16, 4}},
    {.n = 3, .name = {"pp", "dp", "tp"}, .size = {2, 2, 2}},
};

int main(void)
{
    Arena *a = arena_new();
    Case *k = NEW(a, Case);
    k->p = ir_program(a, diag_new(a, COLOR_NEVER));
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) {
        k->p->mesh = meshes[i];
        k->n = 0;
        /* Not every mesh divides dim 2. */
        k->shape = (Type){.dtype = DT_F32, .ndim = 3, .dim = {192, 64, 6}};
        enumerate(k, 0, k->shape);
        /* Three axes have too many pairs for a quick test: uses a sample. */
        int step = k->n > 200 ? 17 : 1;
        for (int f = 0; f < k->n; f += step)
            for (int t = f % step; t < k->n; t += step)
                check_pair(k, &k->place[f], &k->place[t]);
    }
    k->p->mesh = meshes[1];
    k->shape = (Type){.dtype = DT_F32, .ndim = 3, .dim = {8, 16, 24}};
    check_rows(k);
    check_joint(k);
    int status = check_end(&k->c);
    arena_free(a);
    return status;
}
