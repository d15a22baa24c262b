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
#include "ir/plan/pipeline.h"

enum { SHOWN_GROUPS = 3, SHOWN_RUNS = 3 };

/* Rank i of those that differ only in the axes from rank 0, in order. */
static int64_t rank_at(const Mesh *m, uint32_t axes, int64_t i)
{
    int64_t rank = 0, stride = 1;
    for (int a; (a = mesh_axis_of_stride(m, stride)) >= 0; stride *= m->size[a])
        if (axes >> a & 1) {
            rank += i % m->size[a] * stride;
            i /= m->size[a];
        }
    return rank;
}

/* The number of consecutive ranks that these begin with. */
static int64_t first_run(const Mesh *m, uint32_t axes)
{
    int64_t run = 1;
    for (int a; (a = mesh_axis_of_stride(m, run)) >= 0 && (axes >> a & 1);)
        run *= m->size[a];
    return run;
}

/* "{0-7}", "{0, 64, 128, …, 448}", "{0-7, 64-71, 128-135, …, 448-455}": the
 * `size` ranks of the group over the axes whose first rank is `base`.
 * Consecutive ranks are one run. */
static const char *group_text(const Program *p, uint32_t axes, int64_t size,
                              int64_t base)
{
    Arena *a = p->arena;
    const char *text = "{";
    int64_t run = first_run(&p->mesh, axes), runs = size / run;
    for (int64_t i = 0; i < runs; i++) {
        if (i == SHOWN_RUNS && runs > SHOWN_RUNS + 1) {
            text = arena_printf(a, "%s, …", text);
            i = runs - 1;
        }
        int64_t first = base + rank_at(&p->mesh, axes, i * run);
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
    int64_t nodes;    /* of each group; 0: without --node-size */
    const char *first[SHOWN_GROUPS];
    int shown;
} Groups;

typedef VEC(Groups) GroupsList;

static Groups groups_of(const Program *p, uint32_t axes)
{
    const Mesh *m = &p->mesh;
    uint32_t all = (1u << (m->n - m->nloop)) - 1;
    Groups g = {.axes = axes, .axis = user_axes_text(p, axes),
                .size = mesh_group(m, axes & all),
                .nodes = m->node ? mesh_group(m, axes & mesh_between_nodes(m))
                                 : 0,
                .count = mesh_group(m, all & ~axes)};
    while (g.shown < SHOWN_GROUPS && g.shown < g.count) {
        int64_t base = rank_at(m, all & ~axes, g.shown);
        g.first[g.shown++] = group_text(p, axes, g.size, base);
    }
    return g;
}

/* Whether no collective before the i-th is over the same axes. */
static bool is_first_over(const CollectiveInfo *c, int i)
{
    for (int k = 0; k < i; k++)
        if (c[k].axes == c[i].axes)
            return false;
    return true;
}

/* Finds the groups for each set of axes that a collective runs over, in order
 * of the first collective. */
static GroupsList find_groups(const Program *p)
{
    int n;
    const CollectiveInfo *c = collectives_of(p, &n);
    GroupsList list = {0};
    for (int i = 0; i < n; i++)
        if (is_first_over(c, i)) {
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
            mesh_stride(&p->mesh, axis[i].first + axis[i].parts - 1);
        for (int a = axis[i].first; a < axis[i].first + axis[i].parts; a++)
            if (mesh_stride(&p->mesh, a) < stride)
                stride = mesh_stride(&p->mesh, a);
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
    out(o, "%s", g->count > g->shown ? ", …" : "");
    if (g->nodes)
        out(o, g->nodes > 1 ? ", each on %lld nodes" : ", each on a node",
            (long long)g->nodes);
    out_line(o, "");
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

/* A rank of a group of n sends (n-1)/n of the full tensors in an all-gather, a
 * reduce-scatter or an all-to-all, and twice that in an all-reduce, which is a
 * reduce-scatter followed by an all-gather. In a transfer or a shift it sends all. */
double collective_sent(const CollectiveInfo *c)
{
    if (op_transfers(c->op))
        return c->op->kind == OP_receive ? 0 : (double)c->bytes;
    if (c->op->kind == OP_shift)
        return (double)c->bytes;
    double rest = (double)(c->group_size - 1) / (double)c->group_size;
    double rounds = c->op->kind == OP_all_reduce ? 2 : 1;
    return c->in_place ? 0 : rounds * rest * (double)c->bytes;
}

/* A group with n of its ranks on each node is a ring that leaves a node once: one
 * in n transfers is between nodes. In an all-to-all each rank sends to all
 * others. */
double collective_sent_between(const Program *p, const CollectiveInfo *c)
{
    uint32_t between = mesh_between_nodes(&p->mesh);
    if (!(c->axes & between) || mesh_group(&p->mesh, c->axes & between) == 1)
        return 0;
    if (op_transfers(c->op)) /* of the rank whose neighbor is on another node */
        return collective_sent(c);
    double here = (double)mesh_group(&p->mesh, c->axes & ~between);
    double ranks = (double)c->group_size;
    return collective_sent(c) * (c->op->kind == OP_all_to_all
                                     ? (ranks - here) / (ranks - 1)
                                     : 1 / here);
}

const char *collective_link(const Program *p, const CollectiveInfo *c)
{
    const Mesh *m = &p->mesh;
    uint32_t between = mesh_between_nodes(m);
    if (!m->node)
        return "";
    return mesh_group(m, c->axes & between) == 1    ? "inside a node"
           : mesh_group(m, c->axes & ~between) == 1 ? "between nodes"
                                                    : "inside and between nodes";
}

/* What a rank moves over a set of axes in a step. */
typedef struct Traffic {
    int64_t calls, bytes, gathers;
    double sent, between;
} Traffic;

/* The traffic of a coordinate of the pipeline. */
static Traffic traffic_of(const Program *p, const CollectiveInfo *c, int n,
                          uint32_t axes, int coordinate)
{
    Traffic t = {0};
    for (int i = 0; i < n; i++) {
        if (c[i].axes != axes)
            continue;
        int64_t calls = op_coordinate_count(p, c[i].op, coordinate, false);
        double sends = (double)op_coordinate_count(p, c[i].op, coordinate, true);
        t.gathers += c[i].in_place ? calls : 0;
        t.calls += c[i].in_place ? 0 : calls;
        t.bytes += c[i].in_place ? 0 : calls * c[i].bytes;
        t.sent += sends * collective_sent(&c[i]);
        t.between += sends * collective_sent_between(p, &c[i]);
    }
    return t;
}

/* The traffic of the coordinate that sends the most. */
static Traffic most_traffic(const Program *p, const CollectiveInfo *c, int n,
                            uint32_t axes)
{
    Traffic most = traffic_of(p, c, n, axes, 0);
    for (int k = 1; k < pipeline_ranks(p); k++) {
        Traffic t = traffic_of(p, c, n, axes, k);
        if (t.sent > most.sent || (t.sent == most.sent && t.calls > most.calls))
            most = t;
    }
    return most;
}

void report_traffic(Out *o, const Program *p, const char *head, int width,
                    const char *per)
{
    int n;
    const CollectiveInfo *c = collectives_of(p, &n);
    for (int i = 0; i < n; i++) {
        if (!is_first_over(c, i))
            continue;
        Traffic t = most_traffic(p, c, n, c[i].axes);
        out(o, "%-*s%s: ", width, i ? "" : head, c[i].axis);
        if (t.calls)
            out(o, "%lld call%s, %s per rank and %s; a rank sends %s",
                (long long)t.calls, t.calls == 1 ? "" : "s",
                bytes_text(p->arena, t.bytes), per,
                bytes_text(p->arena, (int64_t)t.sent));
        if (t.calls && p->mesh.node)
            out(o, ", %s", t.between == t.sent ? "between nodes"
                           : t.between == 0    ? "inside a node"
                           : arena_printf(p->arena, "%s of it between nodes",
                                          bytes_text(p->arena,
                                                     (int64_t)t.between)));
        if (t.gathers)
            out(o, "%s%lld gather%s in place", t.calls ? "; " : "",
                (long long)t.gathers, t.gathers == 1 ? "" : "s");
        out(o, "\n");
    }
}

void report_json_traffic(Out *o, const Program *p)
{
    int n;
    bool first = true;
    const CollectiveInfo *c = collectives_of(p, &n);
    out(o, "  \"traffic\": [");
    for (int i = 0; i < n; i++) {
        if (!is_first_over(c, i))
            continue;
        Traffic t = most_traffic(p, c, n, c[i].axes);
        out(o, "%s    {", first ? "\n" : ",\n");
        json_text(o, "axis", c[i].axis);
        json_number(o, "calls", t.calls);
        json_number(o, "bytes", t.bytes);
        json_real(o, "sent", t.sent);
        out(o, "}");
        first = false;
    }
    out(o, "%s],\n", first ? "" : "\n  ");
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
        if (g->nodes)
            json_number(o, "nodes", g->nodes);
        out(o, ", \"axes\": [");
        for (int a = 0; a < m->n; a++) {
            if (!(g->axes >> a & 1))
                continue;
            out(o, "%s{", between);
            json_text(o, "name", m->name[a]);
            json_number(o, "size", m->size[a]);
            json_number(o, "stride", mesh_stride(m, a));
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
