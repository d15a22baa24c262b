/* auto_sizes.c: reads the sizes of --mesh auto, and lists the candidates for those to be
 * chosen; see auto_choice.h. */
#include "driver/auto/auto_choice.h"

#include <stdlib.h>
#include <string.h>

/* ---- the command line ---------------------------------------------------- */

/* The next size or name=size of the text; NULL at its end. */
static const char *next_part(const char **rest, size_t *size, char separator)
{
    const char *part = *rest;
    if (!part)
        return NULL;
    const char *end = strchr(part, separator);
    *size = end ? (size_t)(end - part) : strlen(part);
    *rest = end ? end + 1 : NULL;
    return part;
}

static char separator_of(const char *mesh)
{
    return strchr(mesh, '=') ? ',' : 'x';
}

static bool is_auto(const char *part, size_t size)
{
    return size >= 4 && memcmp(part + size - 4, "auto", 4) == 0 &&
           (size == 4 || part[size - 5] == '=');
}

bool auto_mesh_requested(const Options *o)
{
    if (!o->mesh.text)
        return false;
    const char *rest = o->mesh.text, *part;
    size_t size;
    while ((part = next_part(&rest, &size, separator_of(o->mesh.text))))
        if (is_auto(part, size))
            return true;
    return false;
}

static int axis_named(const Choice *c, const char *name, size_t size)
{
    for (int a = 0; a < c->n; a++)
        if (strlen(c->p->mesh.name[a]) == size &&
            memcmp(c->p->mesh.name[a], name, size) == 0)
            return a;
    return -1;
}

static bool wrong(Choice *c, const char *text)
{
    return diag_error(c->d, c->o->mesh.loc, "%s", text);
}

static const char *axes_text(const Choice *c)
{
    const char *text = "";
    for (int a = 0; a < c->n; a++)
        text = arena_printf(c->a, "%s%s%s", text, a ? ", " : "",
                            c->p->mesh.name[a]);
    return text;
}

/* Reads one part into Choice.given; `at`: its index among the parts. */
static bool read_part(Choice *c, const char *part, size_t size, int at)
{
    const char *equals = memchr(part, '=', size);
    int axis = equals ? axis_named(c, part, (size_t)(equals - part)) : at;
    if (axis < 0 || axis >= c->n)
        return wrong(c, arena_printf(c->a, "the plan's axes are %s, but --mesh "
                                     "has '%.*s'", axes_text(c), (int)size,
                                     part));
    if (c->named >> axis & 1)
        return wrong(c, arena_printf(c->a, "axis '%s' is given twice",
                                     c->p->mesh.name[axis]));
    c->named |= 1u << axis;
    char *end;
    const char *digits = equals ? equals + 1 : part;
    c->given[axis] = is_auto(part, size) ? AUTO : strtoll(digits, &end, 10);
    if (is_auto(part, size) || (end == part + size && c->given[axis] >= 1 &&
                                c->given[axis] <= MAX_RANKS))
        return true;
    return wrong(c, arena_printf(c->a, "'%.*s' is not the size of a mesh axis",
                                 (int)size, part));
}

/* Reads --mesh. An axis that it does not name is chosen too. */
bool choice_read_mesh(Choice *c)
{
    const char *rest = c->o->mesh.text, *part;
    char separator = separator_of(rest);
    size_t size;
    int n = 0;
    bool all = strcmp(rest, "auto") == 0;
    while (!all && (part = next_part(&rest, &size, separator)))
        if (!read_part(c, part, size, n++))
            return false;
    if (all || separator == ',' || n == c->n)
        return true;
    return wrong(c, arena_printf(c->a, "the mesh has %d axes, the plan has %d "
                                 "(%s)", n, c->n, axes_text(c)));
}

/* ---- candidates ---------------------------------------------------------- */

static Splits kind_of(const Choice *c, int axis)
{
    return c->p->plan.pipeline.axes >> axis & 1  ? SPLITS_LAYERS
           : c->p->plan.context.axes >> axis & 1 ? SPLITS_SEQUENCES
           : c->p->plan.tensor_axes >> axis & 1  ? SPLITS_TENSORS
                                                : SPLITS_BATCH;
}

static bool is_tensor(const Choice *c, int axis)
{
    return kind_of(c, axis) == SPLITS_TENSORS;
}

/* Tensor axes are the innermost ones, so that their groups are inside a node. */
static const char *mesh_of(const Choice *c, const int64_t *size)
{
    const char *text = "";
    for (int tensor = 0; tensor < 2; tensor++)
        for (int a = 0; a < c->n; a++)
            if (is_tensor(c, a) == tensor)
                text = arena_printf(c->a, "%s%s%s=%lld", text,
                                    *text ? "," : "", c->p->mesh.name[a],
                                    (long long)size[a]);
    return text;
}

static void add_candidate(Choice *c, const int64_t *size)
{
    Candidate new = {.mesh = mesh_of(c, size)};
    new.name = new.mesh;
    int64_t tensor = 1, ranks = 1;
    for (int a = 0; a < c->n; a++) {
        new.size[a] = size[a];
        ranks *= size[a];
        tensor *= is_tensor(c, a) ? size[a] : 1;
    }
    new.across = tensor > c->node;
    bool known = false;
    for (int i = 0; i < c->candidate.n; i++)
        known |= strcmp(c->candidate.at[i].mesh, new.mesh) == 0;
    if (ranks == c->ranks && !known)
        vec_push(c->a, &c->candidate, new);
}

/* The first or the last axis of a kind whose size is to be chosen; -1: none. */
static int auto_axis(const Choice *c, Splits kind, bool last)
{
    int found = -1;
    for (int a = 0; a < c->n; a++)
        if (c->given[a] == AUTO && kind_of(c, a) == kind && (last || found < 0))
            found = a;
    return found;
}

int choice_auto_axis(const Choice *c, Splits kind)
{
    return auto_axis(c, kind, true);
}

/* Adds the mesh whose last automatic axis of the batch has the ranks that are left. If
 * experts are split over it, their number limits its size: the first such axis has the
 * other ranks. */
static void add_divided(Choice *c, int64_t *size, int first, int last, int64_t rest)
{
    bool experts = first != last && c->p->plan.experts.axes >> last & 1;
    for (int64_t n = rest; n >= (experts ? 1 : rest); n--)
        if (rest % n == 0) {
            size[last] = n;
            size[first] = first == last ? n : rest / n;
            add_candidate(c, size);
        }
}

/* Adds the meshes with these sizes of the tensor axis and of an automatic axis of the
 * context; other automatic tensor axes have one rank. The ranks that are left go to the
 * last automatic axis of the batch; with two, the first may number the nodes. */
static void add_with_sizes(Choice *c, int tensor, int64_t tp, int64_t parts)
{
    int64_t size[MAX_MESH_AXES], rest = c->ranks, stages = 1;
    int first = auto_axis(c, SPLITS_BATCH, false);
    int last = auto_axis(c, SPLITS_BATCH, true);
    for (int a = 0; a < c->n; a++) {
        Splits kind = kind_of(c, a);
        bool layers = kind == SPLITS_LAYERS;
        size[a] = a == tensor                ? tp
                  : c->given[a] != AUTO      ? c->given[a]
                  : kind == SPLITS_SEQUENCES ? parts
                  : layers                   ? c->stages
                                             : 1;
        if (rest % size[a])
            return;
        rest /= size[a];
        stages *= layers ? size[a] : 1;
    }
    int64_t nodes = c->ranks / c->node / stages; /* of a stage */
    if (last >= 0 && first != last && nodes > 1 && rest % nodes == 0) {
        size[first] = nodes;
        size[last] = rest / nodes;
        add_candidate(c, size);
        size[first] = 1;
    }
    if (last < 0)
        add_candidate(c, size);
    else
        add_divided(c, size, first, last, rest);
}

/* Adds the meshes with this size of the tensor axis, those with few parts of sequences
 * first. */
static void add_with_tensor(Choice *c, int tensor, int64_t tp)
{
    int64_t most = choice_auto_axis(c, SPLITS_SEQUENCES) < 0 ? 1 : c->ranks;
    for (int64_t parts = 1; parts <= most; parts++)
        if (c->ranks % parts == 0)
            add_with_sizes(c, tensor, tp, parts);
}

/* Sets the ranks of a node. */
static void set_node(Choice *c)
{
    const Machine *m = c->from->t->machine;
    int64_t node = c->o->node_size              ? c->o->node_size
                   : m                          ? (int64_t)machine_value(m, node_ranks)
                   : c->o->target == TARGET_CPU ? c->ranks
                                                : DEFAULT_NODE_SIZE;
    c->node = node < c->ranks ? node : c->ranks;
}

void choice_add_candidates(Choice *c)
{
    int tensor = auto_axis(c, SPLITS_TENSORS, true), before = c->candidate.n;
    int64_t fixed = 1;
    set_node(c);
    for (int a = 0; a < c->n; a++)
        fixed *= is_tensor(c, a) && c->given[a] != AUTO ? c->given[a] : 1;
    for (int64_t tp = tensor < 0 ? 1 : c->node / fixed; tp >= 1; tp--)
        if (c->node % (tp * fixed) == 0)
            add_with_tensor(c, tensor, tp);
    if (c->candidate.n == before)
        for (int64_t tp = c->ranks; tp >= 1; tp--)
            if (c->ranks % tp == 0)
                add_with_tensor(c, tensor, tp);
}

int64_t choice_ranks(const Choice *c, const Candidate *t, Splits kind)
{
    int64_t n = 1;
    for (int a = 0; a < c->n; a++)
        n *= kind_of(c, a) == kind ? t->size[a] : 1;
    return n;
}

const char *choice_sizes(const Choice *c, const Candidate *t, Splits kind)
{
    const char *text = "";
    for (int a = 0; a < c->n; a++)
        if (kind_of(c, a) == kind && t->size[a] > 1)
            text = arena_printf(c->a, "%s%s%s=%lld", text, *text ? "," : "",
                                c->p->mesh.name[a], (long long)t->size[a]);
    return text;
}

/* ---- all candidates ------------------------------------------------------ */

/* Adds the meshes whose axes from `axis` on divide the ranks that are left. */
static void add_divisions(Choice *c, int axis, int64_t *size, int64_t left)
{
    if (axis == c->n) {
        if (left == 1)
            add_candidate(c, size);
        return;
    }
    bool given = c->given[axis] != AUTO;
    for (int64_t n = given ? c->given[axis] : 1; n <= left; n++) {
        size[axis] = n;
        if (left % n == 0)
            add_divisions(c, axis + 1, size, left / n);
        if (given)
            break;
    }
}

/* Whether x is tried before y: candidates whose tensor axes are inside a node come first,
 * then those with fewer stages, then those with larger tensor axes. */
static bool precedes(const Choice *c, const Candidate *x, const Candidate *y)
{
    int64_t tensor_x = choice_ranks(c, x, SPLITS_TENSORS);
    int64_t tensor_y = choice_ranks(c, y, SPLITS_TENSORS);
    int64_t stages_x = choice_ranks(c, x, SPLITS_LAYERS);
    int64_t stages_y = choice_ranks(c, y, SPLITS_LAYERS);
    if (x->across != y->across)
        return !x->across;
    if (stages_x != stages_y)
        return stages_x < stages_y;
    return x->across ? tensor_x < tensor_y : tensor_x > tensor_y;
}

void choice_add_all(Choice *c)
{
    int64_t size[MAX_MESH_AXES];
    set_node(c);
    add_divisions(c, 0, size, c->ranks);
    for (int i = 1; i < c->candidate.n; i++) /* stable, unlike qsort */
        for (int k = i; k > 0 && precedes(c, &c->candidate.at[k], &c->candidate.at[k - 1]);
             k--) {
            Candidate t = c->candidate.at[k];
            c->candidate.at[k] = c->candidate.at[k - 1];
            c->candidate.at[k - 1] = t;
        }
}
