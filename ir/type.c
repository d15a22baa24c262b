/* type.c: computes with element types, shapes and placements, checks types and
 * prints them; see type.h. */
#include "ir/type.h"

#include <math.h>
#include <string.h>

/* ---- element types ------------------------------------------------------- */

static const struct {
    const char *name;
    int size;
    bool is_float;
    double infinity, zero; /* limits: x >= infinity rounds to infinity, x <=
                            * zero to zero */
    double largest;        /* the largest finite number */
} dtype_table[] = {
    [DT_F32] = {"f32", 4, true, 0x1.ffffffp127, 0x1p-150, 0x1.fffffep127},
    [DT_BF16] = {"bf16", 2, true, 0x1.ffp127, 0x1p-134, 0x1.fep127},
    [DT_F16] = {"f16", 2, true, 65504.0 + 16, 0x1p-25, 65504.0},
    [DT_I32] = {"i32", 4, false, 0, 0, 0},
    [DT_I64] = {"i64", 8, false, 0, 0, 0},
};

const char *dtype_name(DType t)
{
    return dtype_table[t].name;
}

int dtype_size(DType t)
{
    return dtype_table[t].size;
}

bool dtype_is_float(DType t)
{
    return dtype_table[t].is_float;
}

double dtype_largest(DType t)
{
    return dtype_table[t].largest;
}

int dtype_range(DType t, double x)
{
    double size = fabs(x);
    if (!(size < dtype_table[t].infinity))
        return 1;
    return size > 0 && size <= dtype_table[t].zero ? -1 : 0;
}

/* ---- comparison --------------------------------------------------------- */

bool place_equal(const Placement *a, const Placement *b)
{
    for (int i = 0; i < MAX_AXES; i++)
        if (!axis_place_equal(a->ax[i], b->ax[i]))
            return false;
    return true;
}

uint32_t place_hash(const Placement *p)
{
    uint32_t h = 2166136261u; /* FNV-1a's, over 32 bits at a time */
    for (int i = 0; i < MAX_AXES; i++) {
        const AxisPlace *x = &p->ax[i];
        h = (h ^ (uint32_t)(x->kind << 16 | x->dim << 8 | x->order)) *
            16777619u;
    }
    return h ^ h >> 15;
}

bool type_same_shape(const Type *a, const Type *b)
{
    if (a->nstack != b->nstack || a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->nstack; i++)
        if (a->stack[i] != b->stack[i])
            return false;
    for (int i = 0; i < a->ndim; i++)
        if (a->dim[i] != b->dim[i])
            return false;
    return true;
}

bool type_equal(const Type *a, const Type *b)
{
    return a->dtype == b->dtype && type_same_shape(a, b) &&
           place_equal(&a->place, &b->place);
}

bool type_same_holder(const Type *a, const Type *b)
{
    for (int i = 0; i < MAX_AXES; i++) {
        AxisPlace x = a->place.ax[i], y = b->place.ax[i];
        bool held = axis_place_is_held(x) || axis_place_is_held(y);
        if (held && !axis_place_equal(x, y))
            return false;
    }
    return true;
}

/* ---- sizes --------------------------------------------------------------- */

int64_t type_layer_elements(const Type *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++)
        n *= t->dim[d];
    return n;
}

int64_t type_layers(const Type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->nstack; i++)
        n *= t->stack[i];
    return n;
}

int64_t type_local_stack(const Type *t, const Mesh *m, int i)
{
    for (int a = 0; a < m->n; a++) {
        AxisPlace p = t->place.ax[a];
        if (p.kind == AX_CUT && p.dim == i)
            return cut_most(m, p.order, a);
    }
    return t->stack[i];
}

int64_t type_local_layers(const Type *t, const Mesh *m)
{
    int64_t n = 1;
    for (int i = 0; i < t->nstack; i++)
        n *= type_local_stack(t, m, i);
    return n;
}

int64_t type_elements(const Type *t)
{
    return type_layers(t) * type_layer_elements(t);
}

int64_t type_parts(const Type *t, const Mesh *m, int d)
{
    int64_t parts = 1;
    for (int a = 0; a < m->n; a++)
        if (t->place.ax[a].kind == AX_S && t->place.ax[a].dim == d)
            parts *= m->size[a];
    return parts;
}

int type_dim_axes(const Type *t, const Mesh *m, int d, int axes[MAX_AXES])
{
    int n = 0;
    for (int order = 0; order < MAX_AXES; order++)
        for (int a = 0; a < m->n; a++) {
            AxisPlace p = t->place.ax[a];
            if (p.kind == AX_S && p.dim == d && p.order == order)
                axes[n++] = a;
        }
    return n;
}

int64_t type_local_dim(const Type *t, const Mesh *m, int d)
{
    int64_t parts = type_parts(t, m, d);
    return (t->dim[d] + parts - 1) / parts;
}

int64_t type_local_index(const Type *t, const Mesh *m, int d, int64_t rank, int64_t i)
{
    int axes[MAX_AXES];
    int64_t part = type_local_dim(t, m, d); /* of the axes up to this one */
    for (int n = type_dim_axes(t, m, d, axes); n-- > 0; part *= m->size[axes[n]]) {
        int64_t piece = part / mesh_pieces(m, axes[n]);
        int64_t at = mesh_coord(m, rank, axes[n]);
        if (i >= piece) /* the second one */
            at = 2 * m->size[axes[n]] - 1 - at;
        i = at * piece + i % piece;
    }
    return i;
}

int64_t type_pieces(const Type *t, const Mesh *m, int d)
{
    int64_t pieces = 1;
    for (int a = 0; a < m->n; a++)
        if (t->place.ax[a].kind == AX_S && t->place.ax[a].dim == d)
            pieces *= m->size[a] * mesh_pieces(m, a);
    return pieces;
}

bool type_is_flat(const Type *t, const Mesh *m)
{
    for (int a = 0; a < m->n; a++)
        if (t->place.ax[a].kind == AX_FLAT)
            return true;
    return false;
}

uint32_t type_flat_axes(const Type *t)
{
    uint32_t axes = 0;
    for (int a = 0; a < MAX_AXES; a++)
        if (t->place.ax[a].kind == AX_FLAT)
            axes |= 1u << a;
    return axes;
}

bool type_push_stack(Type *t, int64_t n, int cut)
{
    if (t->nstack == MAX_STACK)
        return false;
    for (int a = 0; a < MAX_AXES; a++) {
        AxisPlace *p = &t->place.ax[a];
        if (p->kind == AX_CUT)
            p->dim++;
        else if (p->kind == AX_HERE && cut)
            *p = (AxisPlace){AX_CUT, 0, (uint8_t)cut};
    }
    memmove(t->stack + 1, t->stack, sizeof *t->stack * (size_t)t->nstack);
    t->stack[0] = n;
    t->nstack++;
    return true;
}

void type_pop_stack(Type *t)
{
    for (int a = 0; a < MAX_AXES; a++) {
        AxisPlace *p = &t->place.ax[a];
        if (p->kind == AX_CUT && p->dim == 0)
            *p = (AxisPlace){AX_HERE, 0, 0};
        else if (p->kind == AX_CUT)
            p->dim--;
    }
    t->nstack--;
    memmove(t->stack, t->stack + 1, sizeof *t->stack * (size_t)t->nstack);
    t->stack[t->nstack] = 0;
}

int64_t type_flat_run(const Type *t, const Mesh *m)
{
    int64_t n = 1, parts = 1;
    for (int d = 0; d < t->ndim; d++)
        n *= type_local_dim(t, m, d);
    for (int a = 0; a < m->n; a++)
        if (t->place.ax[a].kind == AX_FLAT)
            parts *= m->size[a];
    return (n + parts - 1) / parts;
}

int64_t type_flat_row(const Type *t, const Mesh *m)
{
    int64_t n = type_flat_run(t, m);
    for (int a = 0; a < m->n; a++)
        if (t->place.ax[a].kind == AX_FLAT)
            n *= m->size[a];
    return n;
}

int64_t type_local_elements(const Type *t, const Mesh *m)
{
    /* Without a flat axis the run is the rank's part of a layer. */
    return type_local_layers(t, m) * type_flat_run(t, m);
}

int64_t type_local_bytes(const Type *t, const Mesh *m)
{
    return type_local_elements(t, m) * dtype_size(t->dtype);
}

/* ---- legality ------------------------------------------------------------ */

void type_normalize(Type *t, const Mesh *m)
{
    AxisPlace *ax = t->place.ax;
    for (int a = 0; a < MAX_AXES; a++)
        if (a >= m->n || m->size[a] == 1)
            ax[a] = (AxisPlace){0};
    for (int a = 0; a < m->n; a++)
        if (ax[a].kind != AX_S && ax[a].kind != AX_AT && ax[a].kind != AX_CUT)
            ax[a].dim = ax[a].order = 0;
    /* Close the gaps in the orders of axes that split a dim. */
    AxisPlace old[MAX_AXES];
    memcpy(old, ax, sizeof old);
    for (int a = 0; a < m->n; a++) {
        if (ax[a].kind != AX_S)
            continue;
        ax[a].order = 0;
        for (int b = 0; b < m->n; b++)
            if (old[b].kind == AX_S && old[b].dim == old[a].dim &&
                (old[b].order < old[a].order ||
                 (old[b].order == old[a].order && b < a)))
                ax[a].order++;
    }
}

/* Far above the tensors of real programs; products of sizes stay within 64
 * bits. */
static const int64_t element_limit = (int64_t)1 << MAX_ELEMENTS_LOG2;

bool type_too_large(const Type *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->nstack && i < MAX_STACK; i++)
        if (__builtin_mul_overflow(n, t->stack[i], &n) || n > element_limit)
            return true;
    for (int d = 0; d < t->ndim && d < MAX_DIMS; d++)
        if (__builtin_mul_overflow(n, t->dim[d], &n) || n > element_limit)
            return true;
    return false;
}

static const char *check_sizes(Arena *a, const Type *t)
{
    if (t->ndim < 0 || t->ndim > MAX_DIMS)
        return arena_printf(a, "it has %d dims, at most %d are possible",
                            t->ndim, MAX_DIMS);
    if (t->nstack < 0 || t->nstack > MAX_STACK)
        return arena_printf(a, "it is stacked %d times, at most %d", t->nstack,
                            MAX_STACK);
    int64_t n = 1;
    for (int i = 0; i < t->nstack + t->ndim; i++) {
        int64_t size = i < t->nstack ? t->stack[i] : t->dim[i - t->nstack];
        if (size < 1)
            return arena_printf(a, "a dim has size %lld", (long long)size);
        if (size > element_limit / n)
            return arena_printf(a, "it has more than 2^%d elements", MAX_ELEMENTS_LOG2);
        n *= size;
    }
    return NULL;
}

static const char *check_cut(Arena *a, const Type *t, const Mesh *m, int axis)
{
    AxisPlace p = t->place.ax[axis];
    if (p.dim >= t->nstack)
        return arena_printf(a, "%s splits stack dim %d, but there are %d",
                            m->name[axis], p.dim, t->nstack);
    if (p.order < 1 || p.order > m->ncuts)
        return arena_printf(a, "there is no cut %d", p.order);
    const StageCut *c = &m->cut[p.order - 1];
    return c->begin[c->nstages] == t->stack[p.dim]
               ? NULL
               : arena_printf(a, "cut %d is of %lld iterations, the stack has "
                              "%lld", p.order, (long long)c->begin[c->nstages],
                              (long long)t->stack[p.dim]);
}

static const char *check_axis(Arena *a, const Type *t, const Mesh *m, int axis)
{
    AxisPlace p = t->place.ax[axis];
    if (p.kind > AX_CUT)
        return arena_printf(a, "axis %d has no known placement", axis);
    bool has_dim = p.kind == AX_S || p.kind == AX_AT || p.kind == AX_CUT;
    if ((!has_dim && p.dim) ||
        (p.kind != AX_S && p.kind != AX_CUT && p.order))
        return arena_printf(a, "axis %d has a dim that its placement lacks", axis);
    if (p.kind == AX_R)
        return NULL;
    if (axis >= m->n)
        return arena_printf(a, "the mesh has no axis %d", axis);
    if (m->size[axis] == 1)
        return arena_printf(a, "axis %s has size 1 and must be Replicate",
                            m->name[axis]);
    if (p.kind == AX_S && p.dim >= t->ndim)
        return arena_printf(a, "%s splits dim %d, but there are %d dims",
                            m->name[axis], p.dim, t->ndim);
    if (p.kind == AX_AT && p.dim >= MAX_STAGES)
        return arena_printf(a, "stage %d, at most %d are possible", p.dim,
                            MAX_STAGES);
    return p.kind == AX_CUT ? check_cut(a, t, m, axis) : NULL;
}

const char *type_check(Arena *a, const Type *t, const Mesh *m)
{
    const char *fault = check_sizes(a, t);
    for (int axis = 0; !fault && axis < MAX_AXES; axis++)
        fault = check_axis(a, t, m, axis);
    if (fault)
        return fault;
    for (int d = 0; d < t->ndim; d++) {
        int axes[MAX_AXES], seen = 0, n = 0;
        for (int b = 0; b < m->n; b++) {
            AxisPlace p = t->place.ax[b];
            if (p.kind == AX_S && p.dim == d) {
                n++;
                seen |= 1 << p.order;
            }
        }
        if (seen != (1 << n) - 1)
            return arena_printf(a, "the axes of dim %d are not in one order",
                                d);
        int64_t parts = type_pieces(t, m, d);
        if (t->dim[d] % parts) {
            type_dim_axes(t, m, d, axes);
            return arena_printf(a,
                                "dim %d of size %lld cannot be cut into "
                                "%lld parts by %s%s",
                                d, (long long)t->dim[d], (long long)parts,
                                m->name[axes[0]], n > 1 ? " and others" : "");
        }
    }
    return NULL;
}

/* ---- text ---------------------------------------------------------------- */

static void print_dim(Out *o, const Type *t, const Mesh *m, int d)
{
    out(o, "%lld", (long long)t->dim[d]);
    int axes[MAX_AXES];
    int n = type_dim_axes(t, m, d, axes);
    for (int i = 0; i < n; i++)
        out(o, "%s%s%s%s", i ? "·" : n > 1 ? "/(" : "/", m->name[axes[i]],
            mesh_pieces(m, axes[i]) > 1 ? ":zz" : "", n > 1 && i == n - 1 ? ")" : "");
}

/* "32", "32/pp", or with the second cut "32/pp:2". */
static void print_stack(Out *o, const Type *t, const Mesh *m, int i)
{
    out(o, "%lld", (long long)t->stack[i]);
    for (int a = 0; a < m->n; a++) {
        AxisPlace p = t->place.ax[a];
        if (p.kind != AX_CUT || p.dim != i)
            continue;
        out(o, "/%s", m->name[a]);
        if (p.order > 1)
            out(o, ":%d", p.order);
    }
}

void type_print(Out *o, const Type *t, const Mesh *m)
{
    static const char mark[] = {[AX_P] = '+', [AX_PMAX] = '^', [AX_FLAT] = '~',
                                [AX_AT] = '@', [AX_HERE] = '@'};
    out(o, "%s[", dtype_name(t->dtype));
    for (int i = 0; i < t->nstack; i++) {
        out(o, "%s", i ? " " : "");
        print_stack(o, t, m, i);
        out(o, " x");
    }
    for (int d = 0; d < t->ndim; d++) {
        out(o, "%s", d ? ", " : t->nstack ? " " : "");
        print_dim(o, t, m, d);
    }
    out(o, "]");
    for (int a = 0; a < m->n; a++) {
        int kind = t->place.ax[a].kind;
        if (kind != AX_R && kind != AX_S && kind != AX_CUT)
            out(o, "%c%s", mark[kind], m->name[a]);
        if (kind == AX_AT)
            out(o, "=%d", t->place.ax[a].dim);
    }
}

const char *type_text(Arena *a, const Type *t, const Mesh *m)
{
    Out o;
    out_init(&o, a);
    type_print(&o, t, m);
    return o.text;
}

const char *axis_place_text(Arena *a, AxisPlace p)
{
    static const char *const text[] = {
        [AX_R] = "R", [AX_P] = "P", [AX_PMAX] = "Pmax", [AX_FLAT] = "flat",
        [AX_HERE] = "@", [AX_CUT] = "stages"};
    return p.kind == AX_S    ? arena_printf(a, "S(%d)", p.dim)
           : p.kind == AX_AT ? arena_printf(a, "@%d", p.dim)
                             : text[p.kind];
}

const char *axis_place_words(Arena *a, AxisPlace p)
{
    static const char *const words[] = {[AX_R] = "Replicate",
                                        [AX_P] = "Partial(sum)",
                                        [AX_PMAX] = "Partial(max)",
                                        [AX_FLAT] = "flat",
                                        [AX_HERE] = "on the coordinate that runs the iteration",
                                        [AX_CUT] = "split by stages"};
    return p.kind == AX_S    ? arena_printf(a, "Shard(%d)", p.dim)
           : p.kind == AX_AT ? arena_printf(a, "on stage %d", p.dim)
                             : words[p.kind];
}

int64_t common_divisor(int64_t a, int64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}
