/* fuse_space.c: computes the iteration space of a kernel (fuse_space.h): its
 * axes, their roles, the kinds of its reductions, and the blocks into which a
 * long column is split. */
#include <string.h>

#include "base/bug.h"
#include "passes/fusion/fuse_axes.h"

bool fuse_is_view(OpKind kind)
{
    return kind == OP_reshape || kind == OP_detach;
}

bool fuse_takes(const Op *op)
{
    static const OpKind also[] = {OP_full,      OP_iota,   OP_sum,
                                  OP_max,       OP_sumsq,  OP_reshape,
                                  OP_transpose, OP_onehot, OP_rotary,
                                  OP_random};
    if (op->kind == OP_boundary || op->kind == OP_copy)
        return false;
    if (op_is_elementwise(op->kind))
        return true;
    for (size_t i = 0; i < sizeof also / sizeof *also; i++)
        if (also[i] == op->kind)
            return true;
    return false;
}

bool fuse_is_expensive(OpKind kind)
{
    static const OpKind list[] = {OP_exp, OP_log, OP_tanh, OP_sigmoid,
                                  OP_erf, OP_sin, OP_cos,  OP_power,
                                  OP_gelu, OP_gelu_grad, OP_random};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i] == kind)
            return true;
    return false;
}

static const SpaceValue *space_value(const Space *s, const Value *v)
{
    for (int i = 0; i < s->nvalues; i++)
        if (s->value[i].value == v)
            return &s->value[i];
    bug("value %%%s is not in the iteration space", v->name);
}

static uint32_t value_axes(const Space *s, const Value *v)
{
    return space_value(s, v)->axes;
}

static uint32_t result_axes(const Space *s, int i)
{
    return value_axes(s, s->op[i].op->out[0]);
}

/* ---- axes ---------------------------------------------------------------- */

/* Sets the strides of a tensor of random numbers. They are strides of the
 * global tensor, even if a rank has a part of it, because elements are numbered
 * globally. */
static void set_counts(const Space *s, const AxisSolver *solver,
                       const AxisValue *value, const int *leaf_axis,
                       SpaceValue *to)
{
    const Op *op = value->value->def;
    int64_t whole = 1;
    bool drawn = false; /* drawn here, not read from memory */
    for (int i = 0; i < s->nops; i++)
        drawn |= s->op[i].op == value->value->def &&
                 s->op[i].op->kind == OP_random;
    if (!drawn)
        return;
    const AttrList *of = attr_global(op);
    for (int d = of->n; d-- > 0; whole *= of->v[d]) {
        int leaf[MAX_LEAVES], n = axes_dim_leaves(solver, value, d, leaf);
        int64_t stride = whole;
        while (n-- > 0) {
            int axis = 0;
            while (leaf_axis[axis] != leaf[n])
                axis++;
            to->count[axis] = stride;
            stride *= solver->node.at[leaf[n]].size;
        }
    }
}

/* Numbers the axes: the leaves of every value, in order of first occurrence. */
static const char *number_axes(Space *s, const AxisSolver *solver)
{
    int leaf_axis[MAX_LEAVES], naxes = 0;
    s->pair = -1;
    for (int v = 0; v < s->nvalues; v++) {
        SpaceValue *to = &s->value[v];
        int leaf[MAX_LEAVES],
            n = axes_leaves(solver, &solver->value.at[v], leaf);
        if (n < 0 || n > SPACE_AXES)
            return "too many axes";
        to->value = solver->value.at[v].value;
        for (int i = 0; i < n; i++) {
            int axis = 0;
            while (axis < naxes && leaf_axis[axis] != leaf[i])
                axis++;
            if (axis == SPACE_AXES)
                return "too many axes";
            if (axis == naxes) {
                leaf_axis[naxes++] = leaf[i];
                s->size[axis] = solver->node.at[leaf[i]].size;
            }
            if (to->axes >> axis & 1)
                return "a tensor has one axis twice";
            if (solver->node.at[leaf[i]].pair && s->pair != axis) {
                if (s->pair >= 0)
                    return "two kinds of pairs are rotated";
                s->pair = axis;
            }
            to->axes |= 1u << axis;
            to->order[to->n++] = (uint8_t)axis;
        }
        set_counts(s, solver, &solver->value.at[v], leaf_axis, to);
    }
    s->naxes = naxes;
    s->all = naxes ? (uint32_t)((UINT64_C(1) << naxes) - 1) : 0;
    return NULL;
}

/* Renumbers axes; to[a] = -1 drops axis a, which is joined with its
 * neighbor. */
static void renumber(Space *s, const int *to)
{
    int64_t size[SPACE_AXES];
    memcpy(size, s->size, sizeof size);
    int naxes = 0;
    for (int a = 0; a < s->naxes; a++) {
        if (to[a] < 0)
            continue;
        s->size[to[a]] = size[a];
        naxes++;
    }
    for (int v = 0; v < s->nvalues; v++) {
        SpaceValue *value = &s->value[v];
        int64_t count[SPACE_AXES];
        int n = 0;
        memcpy(count, value->count, sizeof count);
        memset(value->count, 0, sizeof count);
        for (int a = 0; a < s->naxes; a++)
            if (to[a] >= 0)
                value->count[to[a]] = count[a];
        value->axes = 0;
        for (int i = 0; i < value->n; i++) {
            int axis = to[value->order[i]];
            if (axis < 0)
                continue;
            value->order[n++] = (uint8_t)axis;
            value->axes |= 1u << axis;
        }
        value->n = n;
    }
    s->naxes = naxes;
    s->all = naxes ? (1u << naxes) - 1 : 0;
    if (s->pair >= 0)
        s->pair = to[s->pair];
}

/* Orders axes as in memory of a value that has all of them: the last stored
 * one, so that stores are in order. */
static bool order_axes(Space *s)
{
    const SpaceValue *full = NULL;
    for (int i = 0; i < s->nops; i++) {
        const SpaceValue *r = space_value(s, s->op[i].op->out[0]);
        if (r->axes == s->all && (s->op[i].stored || !full))
            full = r;
    }
    for (int v = 0; v < s->nvalues && !full; v++)
        if (s->value[v].axes == s->all)
            full = &s->value[v];
    if (!full)
        return false;
    int to[SPACE_AXES];
    for (int i = 0; i < full->n; i++)
        to[full->order[i]] = i;
    renumber(s, to);
    return true;
}

static bool go_together(const Space *s, int a)
{
    if (a == s->pair || a + 1 == s->pair)
        return false;
    for (int v = 0; v < s->nvalues; v++) {
        const SpaceValue *value = &s->value[v];
        for (int i = 0; i < value->n; i++) {
            if (value->order[i] == a &&
                (i + 1 == value->n || value->order[i + 1] != a + 1))
                return false;
            if (value->order[i] == a + 1 &&
                (i == 0 || value->order[i - 1] != a))
                return false;
        }
        if (value->count[a] != value->count[a + 1] * s->size[a + 1])
            return false;
    }
    return true;
}

/* Joins neighboring axes that are adjacent in every tensor. */
static void join_axes(Space *s)
{
    for (int a = s->naxes - 2; a >= 0; a--) {
        if (!go_together(s, a))
            continue;
        int to[SPACE_AXES];
        for (int i = 0; i < s->naxes; i++)
            to[i] = i <= a ? i : i - 1;
        to[a + 1] = -1;
        s->size[a] *= s->size[a + 1];
        for (int v = 0; v < s->nvalues; v++)
            s->value[v].count[a] = s->value[v].count[a + 1];
        renumber(s, to);
    }
}

static void set_strides(Space *s)
{
    for (int v = 0; v < s->nvalues; v++) {
        SpaceValue *value = &s->value[v];
        int64_t stride = 1;
        for (int i = value->n; i-- > 0;) {
            value->stride[value->order[i]] = stride;
            stride *= s->size[value->order[i]];
        }
    }
}

/* ---- roles --------------------------------------------------------------- */

static void set_reduced(Space *s)
{
    for (int i = 0; i < s->nops; i++) {
        const Op *op = s->op[i].op;
        s->op[i].reduced = 0;
        if (op->kind == OP_sum || op->kind == OP_max || op->kind == OP_sumsq)
            s->op[i].reduced =
                value_axes(s, op->arg[0]) & ~value_axes(s, op->out[0]);
    }
}

/* Marks in `from` the ops that depend on the result of op r. */
static void mark_dependents(const Space *s, int r, bool *from)
{
    memset(from, 0, sizeof *from * (size_t)s->nops);
    from[r] = true;
    for (int i = r + 1; i < s->nops; i++)
        for (int k = 0; k < s->op[i].op->nargs; k++)
            for (int j = r; j < i; j++)
                from[i] |=
                    from[j] && s->op[i].op->arg[k] == s->op[j].op->out[0];
}

/* Whether a dependent op has the axes that were reduced, so that the row must
 * be traversed a second time. */
static bool is_reused(const Space *s, int r, bool *scratch)
{
    mark_dependents(s, r, scratch);
    for (int i = r + 1; i < s->nops; i++)
        if (scratch[i] && (result_axes(s, i) & s->op[r].reduced))
            return true;
    return false;
}

static const char *choose_columns(Space *s, bool *scratch)
{
    uint32_t columns = 0;
    for (int r = 0; r < s->nops; r++) {
        if (!s->op[r].reduced || !is_reused(s, r, scratch))
            continue;
        if (s->reused && columns != s->op[r].reduced)
            return "rows are reduced over different axes";
        columns = s->op[r].reduced;
        s->reused = true;
    }
    int last = s->naxes - 1;
    if (last >= 0 && last == s->pair && last > 0)
        last--;
    uint32_t inner = last >= 0 ? 1u << last : 0;
    uint32_t pair = s->pair >= 0 ? 1u << s->pair : 0;
    if (s->reused && (columns & (inner | pair)) != (inner | pair))
        return "a row reduction over outer axes is used again";
    s->column = s->reused ? columns : inner | pair;
    return NULL;
}

static const char *classify(Space *s)
{
    s->summed = 0;
    for (int r = 0; r < s->nops; r++)
        s->summed |= s->op[r].reduced & ~s->column;
    s->kept = s->all & ~s->summed & ~s->column;
    uint32_t rows = s->kept | s->summed;
    for (int r = 0; r < s->nops; r++) {
        uint32_t reduced = s->op[r].reduced;
        s->op[r].reduce = REDUCE_NONE;
        if (!reduced)
            continue;
        uint32_t domain = value_axes(s, s->op[r].op->arg[0]);
        if (domain == s->all && reduced == s->column)
            s->op[r].reduce = REDUCE_ROW;
        else if (domain == s->all && s->summed &&
                 (reduced == s->summed || reduced == (s->summed | s->column)))
            s->op[r].reduce = REDUCE_ROWS;
        else if (domain == rows && reduced == s->summed)
            s->op[r].reduce = REDUCE_ROWS;
        else
            return "reductions over axes that do not nest";
    }
    return NULL;
}

/* Marks the epilogue: ops that depend on accumulated sums. Their other operands
 * must be computable without a row's results. */
static const char *find_epilogue(Space *s, bool *scratch)
{
    for (int r = 0; r < s->nops; r++) {
        if (s->op[r].reduce != REDUCE_ROWS)
            continue;
        mark_dependents(s, r, scratch);
        for (int i = r + 1; i < s->nops; i++)
            s->op[i].epilogue |= scratch[i];
    }
    uint32_t outer = s->kept | s->column;
    for (int i = 0; i < s->nops; i++) {
        uint32_t axes = result_axes(s, i);
        if (!s->op[i].epilogue)
            continue;
        if (s->op[i].reduce != REDUCE_NONE || s->op[i].op->kind == OP_rotary)
            return "a sum of sums";
        if (axes != s->kept && axes != outer)
            return "sums are spread over rows again";
    }
    for (int r = 0; r < s->nops; r++) {
        if (s->op[r].reduce != REDUCE_ROW)
            continue;
        mark_dependents(s, r, scratch);
        for (int i = r + 1; i < s->nops; i++)
            for (int k = 0; s->op[i].epilogue && k < s->op[i].op->nargs; k++)
                for (int j = r; j < i; j++)
                    if (scratch[j] && !s->op[j].epilogue &&
                        s->op[j].reduce != REDUCE_ROWS &&
                        s->op[j].op->out[0] == s->op[i].op->arg[k])
                        return "a row's result is mixed with sums";
    }
    return NULL;
}

static const char *check_stored(const Space *s)
{
    uint32_t rows = s->kept | s->summed;
    for (int i = 0; i < s->nops; i++) {
        uint32_t axes = result_axes(s, i);
        bool sums = s->op[i].epilogue || s->op[i].reduce == REDUCE_ROWS;
        if (s->op[i].stored && !sums && axes != s->all && axes != rows)
            return "a result would be written again for every row";
    }
    return NULL;
}

/* ---- blocks -------------------------------------------------------------- */

/* Splits a long column axis that no row needs completely. The axis that counts
 * the blocks is inserted before it, as axis `at`. */
static void insert_block_axis(Space *s, int at, int64_t blocks)
{
    int to[SPACE_AXES];
    for (int a = 0; a < s->naxes; a++)
        to[a] = a < at ? a : a + 1;
    renumber(s, to);
    s->naxes++;
    s->all = (1u << s->naxes) - 1;
    s->tail = s->size[at + 1] % SPACE_BLOCK;
    s->size[at] = blocks;
    s->size[at + 1] = SPACE_BLOCK;
    s->block = at;
}

static void add_block_strides(Space *s, int at, int64_t size)
{
    for (int v = 0; v < s->nvalues; v++) {
        SpaceValue *value = &s->value[v];
        if (!(value->axes >> (at + 1) & 1))
            continue;
        int64_t stride = 1;
        for (int i = value->n; i-- > 0;) {
            int axis = value->order[i];
            value->stride[axis] = stride;
            stride *= axis == at + 1 ? size : s->size[axis];
        }
        value->stride[at] = value->stride[at + 1] * SPACE_BLOCK;
        value->count[at] = value->count[at + 1] * SPACE_BLOCK;
        value->axes |= 1u << at;
        memmove(&value->order[1], &value->order[0], (size_t)value->n);
        value->order[0] = (uint8_t)at; /* ORDER: after the strides are set */
        value->n++;
    }
}

enum { LEAST_BLOCKS = 4 };

static bool wants_blocks(const Space *s)
{
    if (s->reused || s->pair >= 0 || !s->column || s->naxes == SPACE_AXES)
        return false;
    int64_t rows = 1, columns = s->size[s->naxes - 1];
    for (int a = 0; a + 1 < s->naxes; a++)
        rows *= s->size[a];
    if (s->column != 1u << (s->naxes - 1))
        return false;
    if (columns <= (rows == 1 ? SPACE_BLOCK : LEAST_BLOCKS * SPACE_BLOCK))
        return false;
    /* Either no reduction reduces the columns, or all do, together with all
     * rows that are summed; then a block is one more kept or summed row. */
    bool with = false, without = false;
    for (int r = 0; r < s->nops; r++) {
        if (!s->op[r].reduced)
            continue;
        bool row = s->op[r].reduced == s->column && rows > 1;
        if (row || value_axes(s, s->op[r].op->arg[0]) != s->all)
            return false;
        with |= (s->op[r].reduced & s->column) != 0;
        without |= !(s->op[r].reduced & s->column);
    }
    return !(with && without);
}

static void cut_columns(Space *s)
{
    int at = s->naxes - 1;
    int64_t size = s->size[at];
    insert_block_axis(s, at, (size + SPACE_BLOCK - 1) / SPACE_BLOCK);
    add_block_strides(s, at, size);
    s->column = 1u << (at + 1);
    set_reduced(s);
}

/* ---- the space ----------------------------------------------------------- */

static const char *pair_all(AxisSolver *solver, int nops, Op *const *ops)
{
    for (int i = 0; i < nops; i++)
        if (!axes_pair(solver, ops[i]))
            return "shapes that do not share axes";
    return NULL;
}

const char *space_build(Arena *a, const Program *p, int nops, Op *const *ops,
                        const bool *stored, Space *s)
{
    AxisSolver solver = {.arena = a, .p = p};
    const char *fault = pair_all(&solver, nops, ops);
    if (fault)
        return fault;
    *s = (Space){.nops = nops, .nvalues = solver.value.n, .block = -1};
    s->op = NEW_ARRAY(a, SpaceOp, nops + 1);
    s->value = NEW_ARRAY(a, SpaceValue, s->nvalues + 1);
    bool *scratch = NEW_ARRAY(a, bool, nops + 1);
    for (int i = 0; i < nops; i++) {
        s->op[i].op = ops[i];
        s->op[i].stored = stored[i];
    }
    if ((fault = number_axes(s, &solver)))
        return fault;
    if (!order_axes(s))
        return "no tensor has all axes";
    join_axes(s);
    set_strides(s);
    set_reduced(s);
    if ((fault = choose_columns(s, scratch)))
        return fault;
    if (wants_blocks(s))
        cut_columns(s);
    if ((fault = classify(s)) || (fault = find_epilogue(s, scratch)))
        return fault;
    return check_stored(s);
}

bool space_repeats_expensive(const Space *s)
{
    uint32_t rows = s->kept | s->summed;
    for (int i = 0; i < s->nops; i++) {
        uint32_t axes = result_axes(s, i);
        bool reduction = s->op[i].reduced != 0;
        if (s->op[i].epilogue || (axes & rows) == rows || !axes || reduction)
            continue;
        if (fuse_is_expensive(s->op[i].op->kind))
            return true;
    }
    return false;
}

static int64_t count_along(const Space *s, uint32_t axes)
{
    int64_t n = 1;
    for (int a = 0; a < s->naxes; a++)
        n *= axes >> a & 1 ? s->size[a] : 1;
    return n;
}

bool space_has_few_rows(const Space *s)
{
    int64_t columns = count_along(s, s->column);
    int64_t rows = count_along(s, s->all & ~s->column);
    return s->reused &&
           (columns > SPACE_LONG_ROW || columns / SPACE_ROW > rows);
}
