/* user_axes.c: shows the mesh as the user declared it.
 *
 * An axis that the pass split_kv_axis or split_node_axis has split into parts, "tp.kv" and
 * "tp.rep", is one axis to the user, "tp": a collective over both parts is
 * shown as one over tp.
 */
#include "ir/plan/user_axes.h"

#include <string.h>

const char *user_placement(const Program *p, const Type *t, int axis)
{
    AxisPlace at = t->place.ax[axis];
    if (at.kind != AX_FLAT)
        return axis_place_text(p->arena, at);
    /* A run of whole rows, padded after the last row if needed. */
    int64_t row = 1;
    for (int d = 1; d < t->ndim; d++)
        row *= type_local_dim(t, &p->mesh, d);
    return row > 0 && type_flat_run(t, &p->mesh) % row == 0 ? "S(0)" : "flat";
}

int user_axes(const Program *p, UserAxis axis[MAX_AXES])
{
    const Mesh *m = &p->mesh;
    int n = 0;
    for (int a = 0; a < m->n; a++) {
        if (a > 0 && mesh_same_axis(m, a - 1, a)) {
            axis[n - 1].size *= m->size[a];
            axis[n - 1].parts++;
            continue;
        }
        axis[n++] = (UserAxis){mesh_user_name(p->arena, m, a), m->size[a], a,
                               1};
    }
    return n;
}

const char *user_axes_text(const Program *p, uint32_t axes)
{
    UserAxis axis[MAX_AXES];
    const char *text = "";
    int n = user_axes(p, axis);
    for (int i = 0; i < n; i++) {
        uint32_t all = ((1u << axis[i].parts) - 1) << axis[i].first;
        for (int a = axis[i].first; a < axis[i].first + axis[i].parts; a++) {
            bool whole = (axes & all) == all;
            if (!(axes >> a & 1) || (whole && a > axis[i].first))
                continue;
            text = arena_printf(p->arena, "%s%s%s", text, *text ? "," : "",
                                whole ? axis[i].name : p->mesh.name[a]);
        }
    }
    return text;
}

const char *user_axis_placement(const Program *p, const Type *t,
                                  const UserAxis *axis)
{
    const char *first = user_placement(p, t, axis->first), *text = "";
    bool same = true;
    for (int a = axis->first; a < axis->first + axis->parts; a++) {
        const char *here = user_placement(p, t, a);
        same = same && strcmp(here, first) == 0;
        if (strcmp(here, "R") != 0)
            text = arena_printf(p->arena, "%s%s%s over %s", text,
                                *text ? ", " : "", here, p->mesh.name[a]);
    }
    return same ? first : text;
}

const char *user_placements(const Program *p, const Type *t)
{
    UserAxis axis[MAX_AXES];
    const char *text = "";
    int n = user_axes(p, axis);
    for (int i = 0; i < n; i++)
        text = arena_printf(p->arena, "%s%s%s=%s", text, *text ? " " : "",
                            axis[i].name, user_axis_placement(p, t, &axis[i]));
    return text;
}

uint32_t batch_axes(const Program *p)
{
    uint32_t all = (1u << (p->mesh.n - p->mesh.nloop)) - 1;
    return all & ~(p->plan.tensor_axes | p->plan.context.axes);
}
