/* report_groups.c: prints the process groups that collectives run in, for the
 * plan and the JSON, and the traffic over each set of axes.
 *
 * A collective over some axes of the mesh runs in groups: the ranks of a group
 * have the same coordinates on all other axes. The text lists the size and the
 * number of the groups and the ranks of the first groups; a rank's own group
 * follows from the formula of its number:
 *
 *   Process groups (rank = 64 dp + 8 cp + tp)
 *     tp     64 groups of 8: {0-7}, {8-15}, {16-23}, …
 *     dp     64 groups of 8: {0, 64, 128, …, 448}, {1, 65, 129, …, 449}, …
 */
#include "report/json.h"
#include "report/report.h"

#include <string.h>

#include "ir/path.h"

enum { SHOWN_GROUPS = 3, SHOWN_RUNS = 3 };

/* Ranks base, base + stride, … of `size` coordinates; adjacent axes of the mesh
 * are merged into one digit. */
typedef struct Digit {
    int64_t size, stride;
} Digit;

/* A set of ranks in mixed radix, major digit first. */
typedef struct Digits {
    Digit at[MAX_AXES];
    int n;
} Digits;

static int64_t axis_stride(const Mesh *m, int axis)
{
    int64_t stride = 1;
    for (int a = axis + 1; a < m->n; a++)
        if (!mesh_is_loop_axis(m, a))
            stride *= m->size[a];
    return stride;
}

static Digits digits_of(const Mesh *m, uint32_t axes)
{
    Digits d = {.n = 0};
    for (int a = 0; a < m->n; a++) {
        if (!(axes >> a & 1) || mesh_is_loop_axis(m, a) || m->size[a] == 1)
            continue;
        Digit here = {m->size[a], axis_stride(m, a)};
        Digit *last = d.n > 0 ? &d.at[d.n - 1] : NULL;
        if (last && last->stride == here.size * here.stride)
            *last = (Digit){last->size * here.size, here.stride};
        else
            d.at[d.n++] = here;
    }
    return d;
}

static int64_t digits_count(const Digits *d)
{
    int64_t n = 1;
    for (int i = 0; i < d->n; i++)
        n *= d->at[i].size;
    return n;
}

/* Element i of the set of ranks. */
static int64_t digits_value(const Digits *d, int64_t i)
{
    int64_t value = 0;
    for (int k = d->n - 1; k >= 0; k--) {
        value += i % d->at[k].size * d->at[k].stride;
        i /= d->at[k].size;
    }
    return value;
}

/* "{0-7}", "{0, 64, 128, …, 448}", "{0-7, 64-71, 128-135, …, 448-455}": the
 * ranks of the group whose first rank is `base`. Consecutive ranks are one
 * run. */
static const char *group_text(Arena *a, Digits d, int64_t base)
{
    int64_t run = 1;
    if (d.n > 0 && d.at[d.n - 1].stride == 1)
        run = d.at[--d.n].size;
    const char *text = "{";
    int64_t runs = digits_count(&d);
    for (int64_t i = 0; i < runs; i++) {
        if (i == SHOWN_RUNS && runs > SHOWN_RUNS + 1) {
            text = arena_printf(a, "%s, …", text);
            i = runs - 1;
        }
        int64_t first = base + digits_value(&d, i);
        PathRange r = {first, first + run - 1, 1};
        text = arena_printf(a, "%s%s%s", text, i ? ", " : "",
                            path_range_text(a, r));
    }
    return arena_printf(a, "%s}", text);
}

/* The groups of one set of axes. */
typedef struct Groups {
    uint32_t axes;
    const char *axis; /* "dp,tp" */
    int64_t size, count;
    const char *first[SHOWN_GROUPS];
    int shown;
} Groups;

typedef VEC(Groups) GroupsList;

static Groups groups_of(const Program *p, uint32_t axes)
{
    const Mesh *m = &p->mesh;
    uint32_t all = (1u << m->n) - 1;
    Digits inside = digits_of(m, axes), outside = digits_of(m, all & ~axes);
    Groups g = {.axes = axes, .axis = user_axes_text(p, axes),
                .size = digits_count(&inside),
                .count = digits_count(&outside)};
    while (g.shown < SHOWN_GROUPS && g.shown < g.count) {
        int64_t base = digits_value(&outside, g.shown);
        g.first[g.shown++] = group_text(p->arena, inside, base);
    }
    return g;
}

/* Finds the groups for each set of axes that a collective runs over, in order
 * of the first collective. */
static GroupsList find_groups(const Program *p)
{
    int n;
    const CollectiveInfo *c = collectives_of(p, &n);
    GroupsList list = {0};
    for (int i = 0; i < n; i++) {
        bool known = false;
        for (int k = 0; k < list.n; k++)
            known = known || list.at[k].axes == c[i].axes;
        if (known)
            continue;
        Groups g = groups_of(p, c[i].axes);
        vec_push(p->arena, &list, g);
    }
    return list;
}

/* "64 dp + 8 cp + tp"; "0" for a single rank. */
static const char *rank_formula(const Program *p)
{
    UserAxis axis[MAX_AXES];
    int n = user_axes(p, axis);
    const char *text = "";
    for (int i = 0; i < n; i++) {
        int64_t stride =
            axis_stride(&p->mesh, axis[i].first + axis[i].parts - 1);
        if (axis[i].size == 1 || mesh_is_loop_axis(&p->mesh, axis[i].first))
            continue;
        text = arena_printf(p->arena, "%s%s%s%s", text, *text ? " + " : "",
                            stride == 1 ? ""
                                        : arena_printf(p->arena, "%lld ",
                                                       (long long)stride),
                            axis[i].name);
    }
    return *text ? text : "0";
}

static void group_line(Out *o, const Groups *g)
{
    out(o, "%lld group%s of %lld:", (long long)g->count,
        g->count == 1 ? "" : "s", (long long)g->size);
    for (int k = 0; k < g->shown; k++)
        out(o, "%s %s", k ? "," : "", g->first[k]);
    out_line(o, "%s", g->count > g->shown ? ", …" : "");
}

void report_groups(Out *o, const Program *p)
{
    GroupsList list = find_groups(p);
    int width = 4;
    for (int i = 0; i < list.n; i++)
        if ((int)strlen(list.at[i].axis) > width)
            width = (int)strlen(list.at[i].axis);
    if (list.n == 0)
        return;
    out_line(o, "\nProcess groups (rank = %s)", rank_formula(p));
    for (int i = 0; i < list.n; i++) {
        const Groups *g = &list.at[i];
        out(o, "  %-*s  ", width, g->axis);
        group_line(o, g);
    }
}

void report_group(Out *o, const Program *p, uint32_t axes)
{
    Groups g = groups_of(p, axes);
    out(o, "process groups (rank = %s): ", rank_formula(p));
    group_line(o, &g);
}

void report_traffic(Out *o, const Program *p, const char *head, int width,
                    const char *per)
{
    int n;
    const CollectiveInfo *c = collectives_of(p, &n);
    for (int i = 0; i < n; i++) {
        int64_t calls = 0, bytes = 0, gathers = 0;
        double sent = 0;
        bool known = false;
        for (int k = 0; k < i; k++)
            known |= c[k].axes == c[i].axes;
        if (known)
            continue;
        for (int k = i; k < n; k++)
            if (c[k].axes == c[i].axes && c[k].in_place) {
                gathers += c[k].count;
            } else if (c[k].axes == c[i].axes) {
                calls += c[k].count;
                bytes += c[k].count * c[k].bytes;
                sent += (double)c[k].count * collective_sent(&c[k]);
            }
        out(o, "%-*s%s: ", width, i ? "" : head, c[i].axis);
        if (calls)
            out(o, "%lld call%s, %s per rank and %s; a rank sends %s",
                (long long)calls, calls == 1 ? "" : "s",
                bytes_text(p->arena, bytes), per,
                bytes_text(p->arena, (int64_t)sent));
        if (gathers)
            out(o, "%s%lld gather%s in place", calls ? "; " : "",
                (long long)gathers, gathers == 1 ? "" : "s");
        out(o, "\n");
    }
}

/* "groups": [{"axis", "size", "count", "axes": [{"name", "size", "stride"}],
 * "first": ["{0-7}", …]}] */
void report_json_groups(Out *o, const Program *p)
{
    GroupsList list = find_groups(p);
    const Mesh *m = &p->mesh;
    out(o, "  \"groups\": [");
    for (int i = 0; i < list.n; i++) {
        const Groups *g = &list.at[i];
        const char *between = "";
        out(o, "%s    {", i ? ",\n" : "\n");
        json_text(o, "axis", g->axis);
        json_number(o, "size", g->size);
        json_number(o, "count", g->count);
        out(o, ", \"axes\": [");
        for (int a = 0; a < m->n; a++) {
            if (!(g->axes >> a & 1))
                continue;
            out(o, "%s{", between);
            json_text(o, "name", m->name[a]);
            json_number(o, "size", m->size[a]);
            json_number(o, "stride", axis_stride(m, a));
            out(o, "}");
            between = ", ";
        }
        out(o, "], \"first\": [");
        for (int k = 0; k < g->shown; k++) {
            out(o, "%s", k ? ", " : "");
            out_json_string(o, g->first[k]);
        }
        out(o, "]}");
    }
    out(o, "%s],\n", list.n ? "\n  " : "");
}
