/* fuse_axes.c: finds which dims of a group's tensors are the same axis of the
 * kernel's iteration space (fuse_space.h).
 *
 *   %q  = reshape{dims=[8, 32, 4, 16]} %x    x: f32[8, 32, 64]
 *   %q2 = mul %q, %c                         c: f32[32, 1, 16]
 *
 * pairs x's last dim with q's last two: x's node (fuse_axes.h) of size 64 is
 * split into nodes of sizes 4 and 16. The mul makes c's dims the nodes of sizes
 * 32 and 16.
 */
#include "passes/fusion/fuse_axes.h"
#include "base/bug.h"

int fuse_local_dims(const Program *p, const Type *t, int64_t dim[SPACE_DIMS])
{
    int n = 0;
    for (int i = 0; i < t->nstack; i++)
        dim[n++] = type_local_stack(t, &p->mesh, i);
    if (type_is_flat(t, &p->mesh)) {
        dim[n++] = type_flat_run(t, &p->mesh);
        return n;
    }
    for (int d = 0; d < t->ndim; d++)
        dim[n++] = type_local_dim(t, &p->mesh, d);
    return n;
}

static int new_node(AxisSolver *s, int64_t size)
{
    AxisNode node = {.parent = -1, .major = -1, .minor = -1, .size = size};
    vec_push(s->arena, &s->node, node);
    return s->node.n - 1;
}

/* The root of a node; the nodes on the path to it then refer to it directly. */
static int find(const AxisSolver *s, int node)
{
    int root = node;
    while (s->node.at[root].parent >= 0)
        root = s->node.at[root].parent;
    while (node != root) {
        int parent = s->node.at[node].parent;
        s->node.at[node].parent = root;
        node = parent;
    }
    return root;
}

/* Returns an index, because the vector may be reallocated. */
static int axis_value(AxisSolver *s, const Value *v)
{
    for (int i = 0; i < s->value.n; i++)
        if (s->value.at[i].value == v)
            return i;
    AxisValue new = {.value = v};
    int64_t size[SPACE_DIMS];
    new.ndim = fuse_local_dims(s->p, &v->type, size);
    for (int d = 0; d < new.ndim; d++)
        new.dim[d] = size[d] > 1 ? new_node(s, size[d]) : -1;
    vec_push(s->arena, &s->value, new);
    return s->value.n - 1;
}

static bool add_leaves(const AxisSolver *s, int node, int *leaf, int *n)
{
    node = find(s, node);
    const AxisNode *at = &s->node.at[node];
    if (at->major >= 0)
        return add_leaves(s, at->major, leaf, n) &&
               add_leaves(s, at->minor, leaf, n);
    if (*n == MAX_LEAVES)
        return false;
    leaf[(*n)++] = node;
    return true;
}

static bool list_leaves(const AxisSolver *s, const int *node, int count,
                        int *leaf, int *n)
{
    *n = 0;
    for (int i = 0; i < count; i++)
        if (node[i] >= 0 && !add_leaves(s, node[i], leaf, n))
            return false;
    return true;
}

int axes_leaves(const AxisSolver *s, const AxisValue *v, int *leaf)
{
    int n;
    return list_leaves(s, v->dim, v->ndim, leaf, &n) ? n : -1;
}

int axes_dim_leaves(const AxisSolver *s, const AxisValue *v, int dim,
                    int *leaf)
{
    int n;
    return list_leaves(s, &v->dim[dim], 1, leaf, &n) ? n : -1;
}

static bool split(AxisSolver *s, int node, int64_t minor_size)
{
    int64_t size = s->node.at[node].size;
    if (size % minor_size || s->node.at[node].pair)
        return false;
    int major = new_node(s, size / minor_size);
    int minor = new_node(s, minor_size);
    s->node.at[node].major = major;
    s->node.at[node].minor = minor;
    return true;
}

static void join_nodes(AxisSolver *s, int x, int y)
{
    s->node.at[y].pair |= s->node.at[x].pair;
    s->node.at[x].parent = y;
}

/* Makes two lists of dims the same axes, from the minor end. A split changes
 * the leaves, so unification starts over after it. */
static bool unify(AxisSolver *s, const int *a, int na, const int *b, int nb)
{
    int x[MAX_LEAVES], y[MAX_LEAVES], nx, ny;
retry:
    if (!list_leaves(s, a, na, x, &nx) || !list_leaves(s, b, nb, y, &ny))
        return false;
    while (nx > 0 && ny > 0) {
        int i = find(s, x[--nx]), j = find(s, y[--ny]);
        if (i == j)
            continue;
        int64_t size_i = s->node.at[i].size, size_j = s->node.at[j].size;
        if (size_i == size_j) {
            join_nodes(s, i, j);
            continue;
        }
        if (!split(s, size_i > size_j ? i : j,
                   size_i > size_j ? size_j : size_i))
            return false;
        goto retry;
    }
    return nx == 0 && ny == 0;
}

static bool pair_dims(AxisSolver *s, int v, int d, int w, int e)
{
    int a = s->value.at[v].dim[d], b = s->value.at[w].dim[e];
    if (a < 0 || b < 0)
        return true; /* broadcast, or size 1 */
    return unify(s, &a, 1, &b, 1);
}

/* Aligns operands with the result at the last dim, as NumPy does. */
static bool pair_elementwise(AxisSolver *s, const Op *op)
{
    int r = axis_value(s, op->out[0]);
    for (int i = 0; i < op->nargs; i++) {
        int v = axis_value(s, op->arg[i]);
        int n = s->value.at[v].ndim, shift = s->value.at[r].ndim - n;
        if (shift < 0)
            return false;
        for (int d = 0; d < n; d++)
            if (!pair_dims(s, v, d, r, d + shift))
                return false;
    }
    return true;
}

static bool pair_reduce(AxisSolver *s, const Op *op)
{
    const Type *t = &op->arg[0]->type;
    int v = axis_value(s, op->arg[0]), r = axis_value(s, op->out[0]), at = 0;
    const AttrList *dims = attr_dims(op);
    bool keep = attr_keep(op);
    if (type_is_flat(t, &s->p->mesh))
        return false;
    for (int d = 0; d < s->value.at[v].ndim; d++) {
        bool gone = false;
        for (int i = 0; i < dims->n; i++)
            gone |= dims->v[i] + t->nstack == d;
        if (!gone && !pair_dims(s, v, d, r, at))
            return false;
        at += !gone || keep;
    }
    return true;
}

static bool pair_reshape(AxisSolver *s, const Op *op)
{
    int from = axis_value(s, op->arg[0]), to = axis_value(s, op->out[0]);
    AxisValue v = s->value.at[from], r = s->value.at[to];
    return unify(s, v.dim, v.ndim, r.dim, r.ndim);
}

static bool pair_transpose(AxisSolver *s, const Op *op)
{
    int v = axis_value(s, op->arg[0]), r = axis_value(s, op->out[0]);
    const AttrList *perm = attr_perm(op);
    int stack = op->arg[0]->type.nstack;
    if (s->value.at[v].ndim != stack + perm->n)
        return false; /* a flat tensor */
    for (int d = 0; d < stack + perm->n; d++) {
        int from = d < stack ? d : stack + (int)perm->v[d - stack];
        if (!pair_dims(s, v, from, r, d))
            return false;
    }
    return true;
}

/* The class dim at the end of the result is an axis of its own. */
static bool pair_onehot(AxisSolver *s, const Op *op)
{
    int v = axis_value(s, op->arg[0]), r = axis_value(s, op->out[0]);
    if (op->nargs > 1)
        axis_value(s, op->arg[1]);
    for (int d = 0; d < s->value.at[v].ndim; d++)
        if (!pair_dims(s, v, d, r, d))
            return false;
    return true;
}

/* The last dim of x is (p e), or (e p) for rotated halves: p is the last dim of
 * the tables, e a pair axis of size 2. */
static bool pair_rotary(AxisSolver *s, const Op *op)
{
    int v = axis_value(s, op->arg[0]), r = axis_value(s, op->out[0]);
    int n = s->value.at[v].ndim;
    for (int d = 0; d < n; d++)
        if (!pair_dims(s, v, d, r, d))
            return false;
    int pair = new_node(s, 2);
    s->node.at[pair].pair = true;
    int c = axis_value(s, op->arg[1]);
    bool half = attr_half(op);
    int table = s->value.at[c].dim[s->value.at[c].ndim - 1];
    int both[2] = {half ? pair : table, half ? table : pair};
    int last = s->value.at[r].dim[n - 1];
    if (!unify(s, &last, 1, both, 2))
        return false;
    for (int i = 1; i <= 2; i++) {
        int w = axis_value(s, op->arg[i]), m = s->value.at[w].ndim;
        if (!pair_dims(s, w, m - 2, v, n - 3) ||
            !pair_dims(s, w, m - 1, c, m - 1))
            return false;
    }
    return true;
}

static bool pair_nothing(AxisSolver *s, const Op *op)
{
    for (int i = 0; i < op->nargs; i++)
        axis_value(s, op->arg[i]);
    axis_value(s, op->out[0]);
    return true;
}

/* An operand with the index of every element of a dim, in zigzag order, has that dim. */
static bool pair_random(AxisSolver *s, const Op *op)
{
    const AttrList *of = attr_global(op);
    pair_nothing(s, op);
    int r = axis_value(s, op->out[0]);
    for (int d = 0, i = 1; d < of->n && i < op->nargs; d++)
        if (of->v[d] != 1 && type_elements(&op->arg[i++]->type) == of->v[d] &&
            !pair_dims(s, axis_value(s, op->arg[i - 1]), 0, r, d))
            return false;
    return true;
}

bool axes_pair(AxisSolver *s, const Op *op)
{
    static const struct {
        OpKind kind;
        bool (*pair)(AxisSolver *, const Op *);
    } table[] = {
        {OP_sum, pair_reduce},          {OP_max, pair_reduce},
        {OP_sumsq, pair_nothing},       {OP_reshape, pair_reshape},
        {OP_transpose, pair_transpose}, {OP_onehot, pair_onehot},
        {OP_iota, pair_nothing},        {OP_full, pair_nothing},
        {OP_rotary, pair_rotary},       {OP_random, pair_random},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].kind == op->kind)
            return table[i].pair(s, op);
    return pair_elementwise(s, op);
}
