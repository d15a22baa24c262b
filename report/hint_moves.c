/* hint_moves.c: lists sets of plan lines to try for a warning.
 *
 * The lines concern the modules next to what the warning is about, those with a
 * weight that ColwiseParallel or RowwiseParallel can split. Next to a
 * conversion are the module of the op that reads its result, those that compute
 * the operands of the conversion and of that op, and the first one that reads
 * what that op computes. Modules of the same declaration (the lora_B of wq and
 * of wv) get the same style.
 *
 *   return x + down(gelu(up(norm(x))))       all_gather of the result of down
 *     → {down: ColwiseParallel(output=Replicate)}, {down: RowwiseParallel}, …
 *
 * The first set of a repeated computation has a line for each of its modules.
 */
#include <string.h>

#include "base/text.h"
#include "ir/analysis/producer.h"
#include "passes/sharding/layouts.h"
#include "report/hint.h"

/* Modules of one declaration, at which styles are tried. */
typedef struct Group {
    Loc declared;          /* of the weight */
    const Op *op;          /* the forward einsum or lookup of the first one */
    VEC(const char *) path;
} Group;

typedef struct Moves {
    Program *p;
    const Warning *warning;
    Uses uses;
    int axis;              /* of the conversions */
    VEC(const Op *) conversion; /* those of the warning, which nothing in the
                                 * plan asks for */
    VEC(const Op *) weighted; /* forward ops of modules with one weight */
    VEC(Group) group;
    HintMoves found;
} Moves;

/* ---- modules ------------------------------------------------------------- */

/* The parameter that is the module's weight; NULL if it has none or several. */
static const Param *weight_of(const Program *p, const char *path)
{
    const Weight *w = module_weight(ir_module(p, path));
    return w ? &p->param.at[w->param] : NULL;
}

static void find_weighted(Moves *m)
{
    for_ops(op, m->p->step)
        if (op->phase == PH_FORWARD &&
            (op_is_einsum(op->kind) || op->kind == OP_embedding) &&
            weight_of(m->p, op->path))
            vec_push(m->p->arena, &m->weighted, op);
}

/* The forward op of the module with this path; NULL if it has no weight that a
 * style splits. */
static const Op *module_at(const Moves *m, const char *path)
{
    for (int i = 0; i < m->weighted.n; i++)
        if (!strcmp(m->weighted.at[i]->path, path))
            return m->weighted.at[i];
    return NULL;
}

/* The same for the module whose forward or backward op this is. */
static const Op *forward_of(const Moves *m, const Op *op)
{
    return op && op_contracts(op) ? module_at(m, op->path) : NULL;
}

enum { READERS = 32 }; /* readers that a search visits */

/* The forward op of the first module that reads v, directly or through
 * conversions and elementwise ops; in the backward pass the first module whose
 * output has the gradient v. `budget` bounds the number of readers. */
static const Op *module_after(const Moves *m, const Value *v, int *budget)
{
    int n;
    Op *const *reader = uses_readers(&m->uses, v, &n);
    for (int i = 0; i < n && (*budget)-- > 0; i++) {
        const Op *op = reader[i];
        bool passes = op_is_conversion(op->kind) || op_is_elementwise(op->kind);
        const Op *found = forward_of(m, op);
        if (!found && passes && op->nouts == 1)
            found = module_after(m, op->out[0], budget);
        if (found)
            return found;
    }
    return NULL;
}

static void add_module(Moves *m, const Op *op)
{
    Arena *a = m->p->arena;
    const Op *forward = forward_of(m, op);
    if (!forward)
        return;
    Loc declared = weight_of(m->p, forward->path)->loc;
    Group *g = NULL;
    for (int i = 0; i < m->group.n; i++)
        if (loc_equal(m->group.at[i].declared, declared))
            g = &m->group.at[i];
    if (!g) {
        Group one = {.declared = declared, .op = forward};
        vec_push(a, &m->group, one);
        g = &m->group.at[m->group.n - 1];
    }
    for (int i = 0; i < g->path.n; i++)
        if (!strcmp(g->path.at[i], forward->path))
            return;
    vec_push(a, &g->path, forward->path);
}

/* The op that reads the result of a conversion, *v, possibly after others;
 * NULL: none. */
static const Op *reader_of(const Moves *m, const Op *conversion,
                           const Value **v)
{
    int n;
    *v = conversion->out[0];
    Op *const *reader = uses_readers(&m->uses, *v, &n);
    while (n == 1 && op_is_conversion(reader[0]->kind)) {
        *v = reader[0]->out[0];
        reader = uses_readers(&m->uses, *v, &n);
    }
    return n ? reader[0] : NULL;
}

/* The argument of a loop's body that the value becomes: v is an operand of the
 * loop, or the body's result for the next iteration. NULL: none. */
static const Value *carry_of(const Value *v, const Op *reader)
{
    const Op *loop = reader ? reader : v->region->owner;
    if (!loop || loop->kind != OP_loop)
        return NULL;
    for (int i = 0; i < loop->nargs; i++)
        if (reader ? loop->arg[i] == v
                   : i < loop->ncarry && loop->body->yield[i] == v)
            return loop->body->arg[i];
    return NULL;
}

static void add_modules_near(Moves *m, const Op *conversion)
{
    int budget = READERS;
    const Value *v;
    const Op *op = reader_of(m, conversion, &v);
    const Value *read = carry_of(v, op);
    add_module(m, op);
    add_module(m, producer_of(conversion->arg[0]));
    for (int i = 0; !read && op && i < op->nargs; i++)
        add_module(m, producer_of(op->arg[i]));
    if (!read && op && op->nouts == 1)
        read = op->out[0];
    if (read)
        add_module(m, module_after(m, read, &budget));
}

/* ---- lines --------------------------------------------------------------- */

static const char *axis_name(const Moves *m)
{
    UserAxis axis[MAX_AXES];
    int n = user_axes(m->p, axis);
    for (int i = 0; i < n; i++)
        if (m->axis >= axis[i].first &&
            m->axis < axis[i].first + axis[i].parts)
            return axis[i].name;
    return "";
}

static void add_line(Moves *m, PlanLines *lines, const char *path,
                     const char *style)
{
    PlanLine line = {axis_name(m), path, style};
    for (int i = 0; i < lines->n; i++)
        if (!strcmp(lines->at[i].path, path))
            return;
    vec_push(m->p->arena, lines, line);
}

static void add_move(Moves *m, const PlanLines *lines)
{
    if (lines->n)
        vec_push(m->p->arena, &m->found, *lines);
}

static void try_style(Moves *m, const Group *g, const char *style)
{
    PlanLines lines = {0};
    for (int i = 0; i < g->path.n; i++)
        add_line(m, &lines, g->path.at[i], style);
    add_move(m, &lines);
}

/* The dim of activations, other than their last, that the axis splits near the
 * module; -1: none. A sequence-parallel plan has one. */
static int split_dim(const Moves *m, const Group *g)
{
    int ndim = g->op->out[0]->type.ndim;
    for (int i = -1; i < m->conversion.n; i++) {
        const Op *op = i < 0 ? g->op : m->conversion.at[i];
        const Type *near[2] = {&op->out[0]->type, &op->arg[0]->type};
        for (int k = 0; k < 2; k++) {
            AxisPlace at = near[k]->place.ax[m->axis];
            if (near[k]->ndim == ndim && at.kind == AX_S && at.dim + 1 < ndim)
                return at.dim;
        }
    }
    return -1;
}

static void try_styles(Moves *m, const Group *g)
{
    Arena *a = m->p->arena;
    int dim = split_dim(m, g);
    if (g->op->kind == OP_embedding) {
        if (dim >= 0)
            try_style(m, g, arena_printf(a, "RowwiseParallel(input=Replicate, "
                                         "output=Shard(%d))", dim));
        try_style(m, g, "RowwiseParallel(input=Replicate)");
        try_style(m, g, "ColwiseParallel(output=Replicate)");
        return;
    }
    if (dim >= 0) {
        try_style(m, g, arena_printf(a, "ColwiseParallel(input=Shard(%d))",
                                     dim));
        try_style(m, g, arena_printf(a, "RowwiseParallel(output=Shard(%d))",
                                     dim));
    }
    try_style(m, g, "ColwiseParallel");
    try_style(m, g, "RowwiseParallel");
    try_style(m, g, "ColwiseParallel(output=Replicate)");
}

/* Gathers the split input of a module once, for all modules inside it. */
static void try_inputs(Moves *m)
{
    Arena *a = m->p->arena;
    VEC(const char *) parents = {0};
    for (int i = 0; i < m->group.n; i++) {
        const Group *g = &m->group.at[i];
        const char *dot = strrchr(g->path.at[0], '.');
        int dim = split_dim(m, g);
        if (!dot || dim < 0)
            continue;
        const char *path = arena_strndup(a, g->path.at[0],
                                         (size_t)(dot - g->path.at[0]));
        if (row_find(parents.at, parents.n, path))
            continue;
        vec_push(a, &parents, path);
        PlanLines lines = {0};
        add_line(m, &lines, path,
                 arena_printf(a, "PrepareModuleInput(Shard(%d) -> Replicate)",
                              dim));
        add_move(m, &lines);
    }
}

/* ---- attention and repeated computation ---------------------------------- */

static bool has_style(const Moves *m, const Op *op)
{
    return style_of_path(m->p, op->path, m->axis) != NULL;
}

/* Adds ColwiseParallel for the modules without a style that compute q, k and v,
 * if the axis divides the heads. */
static void split_heads(Moves *m, const Op *op, PlanLines *lines)
{
    uint32_t axes = mesh_user_axis(&m->p->mesh, m->axis);
    if (op->arg[0]->type.dim[2] % mesh_group(&m->p->mesh, axes))
        return;
    for (int i = 0; i < 3; i++) {
        const Op *made = forward_of(m, producer_of(op->arg[i]));
        if (made && made->kind != OP_embedding && !has_style(m, made))
            add_line(m, lines, made->path, "ColwiseParallel");
    }
}

/* Whether an attention reads the module's result, and has heads that the axis
 * does not divide. */
static bool makes_odd_heads(const Moves *m, const Op *op)
{
    uint32_t axes = mesh_user_axis(&m->p->mesh, m->axis);
    for (const Op *next = op->next; next; next = next->next)
        for (int i = 0; next->kind == OP_attention && i < 3; i++)
            if (producer_of(next->arg[i]) == op &&
                next->arg[0]->type.dim[2] % mesh_group(&m->p->mesh, axes))
                return true;
    return false;
}

/* Whether both paths have the same parent module. */
static bool same_parent(const char *a, const char *b)
{
    const char *x = strrchr(a, '.'), *y = strrchr(b, '.');
    size_t n = x ? (size_t)(x - a) : 0;
    return n == (y ? (size_t)(y - b) : 0) && strncmp(a, b, n) == 0;
}

/* RowwiseParallel for a Linear whose input comes from another Linear in the
 * same module, or from that module's attention; ColwiseParallel for others. */
static const char *style_of_linear(const Moves *m, const Op *op)
{
    const Op *before = producer_of(op->arg[0]);
    const char *dot = strrchr(op->path, '.');
    bool rowwise = false;
    if (before && before->kind == OP_attention)
        rowwise = dot && strlen(before->path) == (size_t)(dot - op->path) &&
                  !strncmp(op->path, before->path, strlen(before->path));
    else if (before && op_is_einsum(before->kind))
        rowwise = forward_of(m, before) && same_parent(before->path, op->path);
    return rowwise ? "RowwiseParallel" : "ColwiseParallel";
}

static bool at_warning(const Moves *m, Loc loc)
{
    return warning_is_at(m->warning, m->warning->kind, loc);
}

/* Splits all modules without a style that the line computes, in one set, then
 * each in other ways. */
static void moves_of_repeated(Moves *m)
{
    PlanLines all = {0};
    for_ops(op, m->p->step) {
        if (!op_contracts(op) || !at_warning(m, op->loc) || has_style(m, op))
            continue;
        const Op *linear = forward_of(m, op);
        if (linear && linear->kind != OP_embedding) {
            add_module(m, linear);
            if (!makes_odd_heads(m, linear))
                add_line(m, &all, linear->path, style_of_linear(m, linear));
        } else if (op->kind == OP_attention) {
            split_heads(m, op, &all);
        }
    }
    add_move(m, &all);
    for (int i = 0; i < m->group.n; i++)
        try_styles(m, &m->group.at[i]);
}

static void moves_of_collective(Moves *m)
{
    for_ops(op, m->p->step) {
        if (!op_is_conversion(op->kind) || op->why.origin != ORIGIN_IMPLIED ||
            !at_warning(m, statement_loc(op)))
            continue;
        if (!m->conversion.n)
            m->axis = __builtin_ctz(attr_axes(op));
        if (attr_axes(op) >> m->axis & 1)
            vec_push(m->p->arena, &m->conversion, op);
    }
    for (int i = 0; i < m->conversion.n; i++) {
        const Value *v;
        const Op *op = reader_of(m, m->conversion.at[i], &v);
        PlanLines heads = {0};
        if (op && op->kind == OP_attention)
            split_heads(m, op, &heads);
        add_move(m, &heads);
        add_modules_near(m, m->conversion.at[i]);
    }
    try_inputs(m);
    for (int i = 0; i < m->group.n; i++)
        try_styles(m, &m->group.at[i]);
}

HintMoves hint_moves(Program *p, const Warning *w)
{
    Moves m = {.p = p, .warning = w, .uses = uses_find(p),
               .axis = w->mesh_axis};
    find_weighted(&m);
    if (w->kind == WARN_COLLECTIVE)
        moves_of_collective(&m);
    else
        moves_of_repeated(&m);
    return m.found;
}
