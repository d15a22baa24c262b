/* interp_place.c: converts between global tensors and ranks' parts, and
 * evaluates collectives.
 *
 * Everything is based on the global position of each element of a rank's part.
 * A collective is evaluated group by group: the parts of its members are
 * entered into one tensor at their global positions (Partial ones summed), and
 * every member reads the elements of its result from there. A position without
 * an entry is an error: the types require data that the group does not have.
 */
#include "tests/interp/interp_impl.h"

#include "base/bug.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *new_array(int64_t n, size_t size)
{
    void *p = calloc((size_t)n + 1, size);
    if (!p)
        bug("interpreter: out of memory");
    return p;
}

/* ---- positions --------------------------------------------------------- */

/* The positions of a rank's part of one layer, ignoring flat axes. */
static int64_t layer_positions(const Interp *in, const Type *t, int64_t rank,
                               int64_t *to)
{
    int64_t n = 1, all = 1; /* positions; elements of the dims after d */
    to[0] = 0;
    for (int d = 0; d < t->ndim; d++)
        all *= t->dim[d];
    for (int d = 0; d < t->ndim; d++) { /* the positions of dims up to d */
        int64_t size = type_local_dim(t, &in->mesh, d);
        all /= t->dim[d] ? t->dim[d] : 1;
        for (int64_t i = n; i-- > 0;)
            for (int64_t j = size; j-- > 0;)
                to[i * size + j] =
                    to[i] + type_local_index(t, &in->mesh, d, rank, j) * all;
        n *= size;
    }
    return n;
}

/* The index of a rank's run of a flat layer: lower axes are major. */
static int64_t flat_part(const Interp *in, const Type *t, int64_t rank)
{
    int64_t part = 0;
    for (int a = 0; a < in->mesh.n; a++)
        if (t->place.ax[a].kind == AX_FLAT)
            part = part * in->mesh.size[a] + mesh_coord(&in->mesh, rank, a);
    return part;
}

bool interp_has(const Interp *in, const Type *t, int64_t rank, int64_t layer)
{
    for (int a = 0; a < in->mesh.n; a++) {
        AxisPlace p = t->place.ax[a];
        int64_t at = mesh_coord(&in->mesh, rank, a), index = layer;
        for (int d = t->nstack - 1; p.kind == AX_CUT && d > p.dim; d--)
            index /= t->stack[d];
        if ((p.kind == AX_AT && at != stage_coordinate(&in->mesh, a, p.dim)) ||
            (p.kind == AX_HERE && at != in->here) ||
            (p.kind == AX_CUT &&
             at != cut_stage(&in->mesh, p.order, index % t->stack[p.dim]) %
                       in->mesh.size[a]))
            return false;
    }
    return true;
}

void interp_forget(Interp *in, const Value *v)
{
    const Slot *slot = &in->slot[v->id];
    int64_t run = slot->shape.n / type_layers(&v->type);
    for (int64_t rank = 0; rank < in->ranks; rank++)
        for (int64_t i = 0; i < slot->shape.n; i++)
            if (!interp_has(in, &v->type, rank, i / run))
                slot->at[rank * slot->shape.n + i] = NAN;
}

void interp_pass(Interp *in, const Value *v, int from, int to)
{
    const Slot *slot = &in->slot[v->id];
    int64_t n = slot->shape.n;
    for (int a = 0; a < in->mesh.n; a++)
        for (int64_t rank = 0; rank < in->ranks; rank++)
            if (v->type.place.ax[a].kind == AX_HERE &&
                mesh_coord(&in->mesh, rank, a) == to)
                memcpy(slot->at + rank * n,
                       slot->at +
                           (rank + (from - to) * mesh_step(&in->mesh, a)) * n,
                       sizeof(double) * (size_t)n);
}

/* For each element of the rank's part of a value of that type: its position in
 * the global tensor, or -1 for padding and what the rank does not have. */
static int64_t *positions_of(Interp *in, const Type *t, int64_t rank)
{
    Shape s;
    interp_shape(in, t, &s);
    Type whole = *t;
    for (int a = 0; a < in->mesh.n; a++)
        if (whole.place.ax[a].kind == AX_FLAT)
            whole.place.ax[a] = (AxisPlace){AX_R, 0, 0};
    int64_t layer = type_layer_elements(t), stack = 1;
    for (int d = 0; d < t->nstack; d++)
        stack *= t->stack[d];
    int64_t *first = new_array(layer, sizeof *first);
    int64_t held = layer_positions(in, &whole, rank, first);
    int64_t *to = new_array(s.n, sizeof *to);
    int64_t run = stack > 0 ? s.n / stack : 0;
    int64_t begin = s.flat ? flat_part(in, t, rank) * run : 0;
    for (int64_t i = 0; i < s.n; i++) {
        int64_t at = begin + i % run;
        to[i] = at < held && interp_has(in, t, rank, i / run)
                    ? i / run * layer + first[at]
                    : -1;
    }
    free(first);
    return to;
}

bool interp_is_first(const Interp *in, int64_t rank, const Type *t,
                     AxisKind kind, const Type *other, AxisKind other_kind)
{
    for (int a = 0; a < in->mesh.n; a++)
        if (t->place.ax[a].kind == kind &&
            (!other || other->place.ax[a].kind == other_kind) &&
            mesh_coord(&in->mesh, rank, a) != 0)
            return false;
    return true;
}

/* ---- global tensors and parts ------------------------------------------ */

static bool has_kind(const Interp *in, const Type *t, AxisKind kind)
{
    for (int a = 0; a < in->mesh.n; a++)
        if (t->place.ax[a].kind == kind)
            return true;
    return false;
}

void interp_assemble(Interp *in, const Type *t, const double *parts,
                     double *global)
{
    Shape s;
    interp_shape(in, t, &s);
    bool by_max = has_kind(in, t, AX_PMAX);
    for (int64_t i = 0; i < type_elements(t); i++)
        global[i] = by_max ? -INFINITY : 0;
    for (int64_t rank = 0; rank < in->ranks; rank++) {
        if (!interp_is_first(in, rank, t, AX_R, NULL, AX_R))
            continue;
        int64_t *at = positions_of(in, t, rank);
        for (int64_t i = 0; i < s.n; i++) {
            double x = parts[rank * s.n + i];
            if (at[i] >= 0 && by_max)
                global[at[i]] = fmax(global[at[i]], x);
            else if (at[i] >= 0)
                global[at[i]] += x;
        }
        free(at);
    }
}

void interp_split(Interp *in, const Type *t, const double *global,
                  double *parts)
{
    Shape s;
    interp_shape(in, t, &s);
    for (int64_t rank = 0; rank < in->ranks; rank++) {
        int64_t *at = positions_of(in, t, rank);
        for (int64_t i = 0; i < s.n; i++)
            parts[rank * s.n + i] = at[i] >= 0 ? global[at[i]] : 0;
        free(at);
    }
}

/* ---- checks ------------------------------------------------------------ */

/* The rank that must have the same part of t: the first one along every
 * Replicate axis. */
static int64_t representative(const Interp *in, int64_t rank, const Type *t)
{
    int64_t same = rank;
    for (int a = 0; a < in->mesh.n; a++)
        if (t->place.ax[a].kind == AX_R)
            same -= mesh_coord(&in->mesh, rank, a) * mesh_step(&in->mesh, a);
    return same;
}

void interp_check_equal(Interp *in, const Op *op, const Value *v)
{
    const Slot *slot = &in->slot[v->id];
    int64_t n = slot->shape.n;
    for (int64_t rank = 0; rank < in->ranks; rank++) {
        int64_t same = representative(in, rank, &v->type);
        if (same == rank || memcmp(slot->at + rank * n, slot->at + same * n,
                                   sizeof(double) * (size_t)n) == 0)
            continue;
        for (int64_t i = 0; i < n; i++) {
            double x = slot->at[rank * n + i], y = slot->at[same * n + i];
            if (x == y || (isnan(x) && isnan(y)))
                continue;
            interp_fail(in, op,
                        "%%%s is %s, but element %lld is %.17g on rank %lld "
                        "and %.17g on rank %lld",
                        v->name, type_text(in->arena, &v->type, &in->mesh),
                        (long long)i, x, (long long)rank, y, (long long)same);
            return;
        }
    }
}

void interp_check_padding(Interp *in, const Op *op, const Type *t,
                          const double *parts)
{
    if (!type_is_flat(t, &in->mesh))
        return;
    Shape s;
    interp_shape(in, t, &s);
    for (int64_t rank = 0; rank < in->ranks; rank++) {
        int64_t *at = positions_of(in, t, rank);
        for (int64_t i = 0; i < s.n; i++)
            if (at[i] < 0 && parts[rank * s.n + i] != 0 &&
                interp_has(in, t, rank, i / (s.n / type_layers(t))))
                interp_fail(in, op, "padding %lld of rank %lld is %.17g",
                            (long long)i, (long long)rank,
                            parts[rank * s.n + i]);
        free(at);
    }
}

/* ---- sums over Partial axes -------------------------------------------- */

const double *interp_summed(Interp *in, const Value *v)
{
    const Slot *slot = &in->slot[v->id];
    if (!has_kind(in, &v->type, AX_P))
        return slot->at;
    int64_t n = slot->shape.n;
    double *sum = NEW_ARRAY(in->arena, double, in->ranks *n + 1);
    for (int64_t to = 0; to < in->ranks; to++)
        for (int64_t from = 0; from < in->ranks; from++) {
            bool same = true; /* except on Partial axes */
            for (int a = 0; a < in->mesh.n; a++)
                same &= v->type.place.ax[a].kind == AX_P ||
                        mesh_coord(&in->mesh, from, a) ==
                            mesh_coord(&in->mesh, to, a);
            for (int64_t i = 0; same && i < n; i++)
                sum[to * n + i] += slot->at[from * n + i];
        }
    return sum;
}

/* ---- collectives ------------------------------------------------------- */

/* One operand of a collective and its result. */
typedef struct Move {
    const Op *op;
    const Value *from, *to;
    uint32_t axes;
    double *sum;    /* by global position */
    int64_t *group; /* by global position: the last group that entered a
                     * number, counted from 1 */
} Move;

/* Whether every axis of the collective changes, and no other. The interpreter runs
 * a loop on one stage after another: receive and send keep its carries. */
static bool axes_change(Interp *in, const Move *m)
{
    bool stays = m->op->kind == OP_receive || m->op->kind == OP_send;
    for (int a = 0; a < in->mesh.n; a++) {
        AxisPlace x = m->from->type.place.ax[a], y = m->to->type.place.ax[a];
        bool same = x.kind == y.kind && x.dim == y.dim;
        bool named = !stays && (m->axes >> a & 1);
        if (named == same && in->mesh.size[a] > 1) {
            interp_fail(in, m->op, "%%%s -> %%%s on axis %s: %s to %s",
                        m->from->name, m->to->name, in->mesh.name[a],
                        axis_place_text(in->arena, x),
                        axis_place_text(in->arena, y));
            return false;
        }
    }
    return true;
}

static bool in_group(const Interp *in, uint32_t axes, int64_t rank,
                     int64_t leader)
{
    for (int a = 0; a < in->mesh.n; a++)
        if (!(axes >> a & 1) &&
            mesh_coord(&in->mesh, rank, a) != mesh_coord(&in->mesh, leader, a))
            return false;
    return true;
}

static bool is_first_of_group(const Interp *in, uint32_t axes, int64_t rank)
{
    for (int a = 0; a < in->mesh.n; a++)
        if ((axes >> a & 1) && mesh_coord(&in->mesh, rank, a) != 0)
            return false;
    return true;
}

/* Whether the rank is the first on the collective's axes where t has that
 * kind. */
static bool first_on(const Interp *in, uint32_t axes, int64_t rank,
                     const Type *t, AxisKind kind)
{
    for (int a = 0; a < in->mesh.n; a++)
        if ((axes >> a & 1) && t->place.ax[a].kind == kind &&
            mesh_coord(&in->mesh, rank, a) != 0)
            return false;
    return true;
}

static bool maximum_on(const Interp *in, uint32_t axes, const Type *t)
{
    for (int a = 0; a < in->mesh.n; a++)
        if ((axes >> a & 1) && t->place.ax[a].kind == AX_PMAX)
            return true;
    return false;
}

static void gather_part(Interp *in, const Move *m, int64_t rank, int64_t group)
{
    if (!first_on(in, m->axes, rank, &m->from->type, AX_R))
        return; /* equal to the first rank's */
    Local part = interp_local(in, m->from, rank);
    bool by_max = maximum_on(in, m->axes, &m->from->type);
    int64_t *at = positions_of(in, &m->from->type, rank);
    for (int64_t i = 0; i < part.shape->n; i++) {
        if (at[i] < 0)
            continue;
        double *to = &m->sum[at[i]];
        if (m->group[at[i]] != group)
            *to = part.at[i];
        else if (by_max)
            *to = fmax(*to, part.at[i]);
        else
            *to += part.at[i];
        m->group[at[i]] = group;
    }
    free(at);
}

/* Of axes along which the result is Partial, the rank that has the operand keeps it; where
 * all have it, the first one. */
static bool keeps_share(const Interp *in, const Move *m, int64_t rank)
{
    uint32_t axes = m->axes;
    for (int a = 0; a < in->mesh.n; a++)
        if (axis_place_is_held(m->from->type.place.ax[a]))
            axes &= ~(1u << a);
    return first_on(in, axes, rank, &m->to->type, AX_P);
}

static void deliver_part(Interp *in, const Move *m, int64_t rank, int64_t group)
{
    Local part = interp_local(in, m->to, rank);
    bool masks = m->op->kind == OP_mask_to_partial, has_share = keeps_share(in, m, rank);
    int64_t run = part.shape->n / type_layers(&m->to->type);
    int64_t *at = positions_of(in, &m->to->type, rank);
    for (int64_t i = 0; i < part.shape->n; i++) {
        if (at[i] < 0 || !has_share ||
            (masks && !interp_has(in, &m->from->type, rank, i / run)))
            continue;
        if (m->group[at[i]] != group) {
            interp_fail(in, m->op,
                        "rank %lld needs element %lld of %%%s, which no rank "
                        "of its group holds",
                        (long long)rank, (long long)at[i], m->to->name);
            break;
        }
        part.at[i] = m->sum[at[i]];
    }
    free(at);
}

static void move_value(Interp *in, const Op *op, int i)
{
    Move m = {.op = op,
              .from = op->arg[i],
              .to = op->out[i],
              .axes = attr_axes(op)};
    if (!axes_change(in, &m))
        return;
    int64_t n = type_elements(&m.from->type), group = 0;
    m.sum = new_array(n, sizeof *m.sum);
    m.group = new_array(n, sizeof *m.group);
    for (int64_t leader = 0; leader < in->ranks; leader++) {
        if (!is_first_of_group(in, m.axes, leader))
            continue;
        group++;
        for (int64_t rank = 0; rank < in->ranks; rank++)
            if (in_group(in, m.axes, rank, leader))
                gather_part(in, &m, rank, group);
        for (int64_t rank = 0; rank < in->ranks; rank++)
            if (in_group(in, m.axes, rank, leader))
                deliver_part(in, &m, rank, group);
    }
    free(m.sum);
    free(m.group);
}

/* The number of a rank along the axes. */
static int64_t number_in_group(const Interp *in, uint32_t axes, int64_t rank)
{
    int64_t number = 0;
    for (int a = 0; a < in->mesh.n; a++)
        if (axes >> a & 1)
            number = number * in->mesh.size[a] + mesh_coord(&in->mesh, rank, a);
    return number;
}

void interp_shift(Interp *in, const Op *op)
{
    uint32_t axes = attr_axes(op);
    int64_t n = mesh_group(&in->mesh, axes);
    for (int64_t rank = 0; rank < in->ranks; rank++)
        for (int64_t to = 0; to < in->ranks; to++) {
            if (!in_group(in, axes, to, rank) || number_in_group(in, axes, to) !=
                                                     (number_in_group(in, axes, rank) + 1) % n)
                continue;
            for (int i = 0; i < op->nouts; i++) {
                Local from = interp_local(in, op->arg[i], rank);
                memcpy(interp_local(in, op->out[i], to).at, from.at,
                       sizeof *from.at * (size_t)from.shape->n);
            }
        }
}

void interp_collective(Interp *in, const Op *op)
{
    if (op->nargs != op->nouts)
        interp_fail(in, op, "%d operands, %d results", op->nargs, op->nouts);
    for (int i = 0; i < op->nouts && !in->error; i++)
        move_value(in, op, i);
}
