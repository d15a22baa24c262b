/* plan.c: applies the user's plan to parameters and inputs.
 *
 * requires: STAGE_GLOBAL; Program.plan as the frontend resolved it
 * ensures:  Param.type has the compute layout (before FSDP), optimizer states
 *           have the layout and the unit of their parameter, Input.type has the
 *           split of the batch. Every style fits the dims of its modules and
 *           their sizes, or the error is reported (the frontend checks patterns
 *           and the number of layouts; the pass pad has padded sizes, except in
 *           a dump that was changed after it)
 *
 * before   plan "p" axes={tp}
 *            style ColwiseParallel "w1" axis=tp in(R -> R) …
 *            unit axis=dp paths("w1") reshard=-1 prefetch=2
 *          param "w1.weight" : f32[128, 64] … unit="w1" item=0 split(0 by 0)
 *          input "x" : f32[8, 64]
 * after    param "w1.weight" : f32[128/tp, 64] … unit="w1" item=0 split(0 by 0)
 *          input "x" : f32[8/dp, 64]
 *
 * Every axis that no 'parallelize' names splits dim 0 of every input, but that of the
 * clause `context`: it splits dim 1, and not an input that has none. The
 * microbatches of `accumulate` are an additional loop axis of the mesh, whose
 * parts one rank processes in iterations. Propagation, partitioning and the
 * verifier handle it as any axis; the pass `accumulate` converts it to a
 * loop.
 */
#include <string.h>

#include "ir/options.h"
#include "ir/plan/user_axes.h"
#include "ir/units.h"
#include "passes/sharding/exchange.h"
#include "passes/sharding/layouts.h"
#include "passes/pass.h"

/* ---- parameters ---------------------------------------------------------- */

/* Reports a size that the style's axes do not divide, which the pass pad would
 * have padded; `of` names the tensor. True: the type is valid. */
static bool check_sizes(const Program *p, const Style *s, const char *of,
                        const Type *t)
{
    const char *fault = type_check(p->arena, t, &p->mesh);
    if (!fault)
        return true;
    diag_error(p->diag, s->loc, "%s splits %s, but %s",
               style_text(p->arena, s), of, fault);
    diag_help(p->diag, "this program was changed after the pass pad, which "
                       "pads sizes: give the model, or a dump from before "
                       "that pass");
    return false;
}

static void split_param(Program *p, const Style *s, Param *q, int dim)
{
    const Mesh *m = &p->mesh;
    AxisPlace old = q->type.place.ax[s->axis];
    AxisPlace with[MAX_AXES] = {{0}};
    if (m->size[s->axis] == 1)
        return;
    if (old.kind == AX_S && old.dim != dim) {
        diag_error(p->diag, s->loc,
                   "'%s' is split along dim %d by this style and along dim "
                   "%d by another", q->name, dim, old.dim);
        diag_note(p->diag, q->loc, "'%s' is %s", q->name,
                  type_text(p->arena, &q->type, m));
        diag_help(p->diag, "parameters that are tied need styles that split "
                           "them alike");
        return;
    }
    with[s->axis] = (AxisPlace){AX_S, (uint8_t)dim, 0};
    Type t = q->type;
    t.place = place_override(m, &t, &t.place, 1u << s->axis, with);
    if (check_sizes(p, s, arena_printf(p->arena, "'%s'", q->name), &t))
        q->type = t;
}

/* ---- units, states, inputs ----------------------------------------------- */

static void name_units(Program *p)
{
    for (int i = 0; i < p->param.n; i++) {
        Param *q = &p->param.at[i];
        q->unit = unit_name_of_param(p, i);
        if (q->state_of >= 0 && !param_is_mean(p, q))
            q->type.place = p->param.at[q->state_of].type.place;
    }
}

/* "'rep' (2) and 'dp' (4)", for whole axes of the user; *n: their number. */
static const char *axes_text(const Program *p, uint32_t axes, int *n)
{
    const char *text = "";
    UserAxis axis[MAX_AXES];
    int all = user_axes(p, axis);
    *n = 0;
    for (int i = 0; i < all; i++)
        if (axes >> axis[i].first & 1) {
            axes &= ~(((1u << axis[i].parts) - 1) << axis[i].first);
            text = arena_printf(p->arena, "%s%s'%s' (%lld)", text,
                                !*text ? "" : axes ? ", " : " and ",
                                axis[i].name, (long long)axis[i].size);
            ++*n;
        }
    return text;
}

/* Adds the microbatch axis after all others, whose numbers stay the same. */
static void add_microbatch_axis(Program *p)
{
    Mesh *m = &p->mesh;
    if (p->train.accumulate < 2)
        return;
    const char *name = "micro";
    for (int a = 0; a < m->n; a++)
        if (strcmp(m->name[a], name) == 0)
            name = arena_printf(p->arena, "%s_", name);
    m->name[m->n] = name;
    m->size[m->n++] = p->train.accumulate;
    m->nloop = 1;
}

/* Whether ranks of a group share a node with some of the others only. The pass
 * split_node_axis splits such an axis. */
static bool straddles_nodes(const Mesh *m, int axis)
{
    int64_t stride = mesh_stride(m, axis);
    return m->node > stride && stride * m->size[axis] > m->node;
}

/* Orders sequences in zigzag if queries stay split: a causal mask leaves the last of
 * contiguous parts up to twice the average work. Only sizes that 2 |cp| does not divide, an
 * axis that nodes split, and one that splits experts too, keep contiguous parts. */
static void choose_zigzag(Program *p)
{
    Mesh *m = &p->mesh;
    const Context *c = &p->plan.context;
    bool pieces = c->exchange != EXCHANGE_HEADS && !(c->axes & p->plan.experts.axes);
    for (int i = 0; i < p->input.n; i++) {
        const Type *t = &p->input.at[i].type;
        pieces = pieces && (t->ndim < 2 || t->dim[1] % (2 * mesh_group(m, c->axes)) == 0);
    }
    for (int a = 0; a < m->n; a++)
        if (pieces && c->axes >> a & 1 && m->size[a] > 1 && !straddles_nodes(m, a))
            m->zigzag |= 1u << a;
}

/* Splits the sequences, dim 1, over the axis of the context. False after an error. */
static bool split_sequence(Program *p, Input *in)
{
    const Mesh *m = &p->mesh;
    const Context *c = &p->plan.context;
    AxisPlace with[MAX_AXES] = {{0}};
    if (!c->axes || in->type.ndim < 2)
        return true;
    for (int a = 0; a < m->n; a++)
        with[a] = (AxisPlace){AX_S, 1, 0};
    int64_t parts = mesh_group(m, c->axes);
    if (in->type.dim[1] % parts == 0) {
        in->type.place = place_override(m, &in->type, &in->type.place, c->axes, with);
        return true;
    }
    diag_error(p->diag, in->loc, "dim 1 of '%s' is %lld, which %lld ranks cannot split",
               in->name, (long long)in->type.dim[1], (long long)parts);
    diag_note(p->diag, c->loc, "%s splits dim 1 of every input over '%s'",
              clause_name(CL_CONTEXT), user_axes_text(p, c->axes));
    diag_help(p->diag, "choose a sequence that is a multiple of %lld", (long long)parts);
    return false;
}

/* Splits the batch. The microbatch axis is major in dim 0, then the data axes:
 * every microbatch is split over the data axes. */
static void split_input(Program *p, Input *in)
{
    const Mesh *m = &p->mesh;
    AxisPlace with[MAX_AXES] = {{0}};
    uint32_t time = ((1u << m->n) - 1) & ~((1u << (m->n - m->nloop)) - 1);
    uint32_t data = batch_axes(p);
    if (in->type.ndim == 0 || !split_sequence(p, in))
        return;
    for (int a = 0; a < m->n; a++)
        with[a].kind = AX_S;
    Type t = in->type;
    t.place = place_override(m, &t, &t.place, time, with);
    t.place = place_override(m, &t, &t.place, data, with);
    int64_t parts = type_parts(&t, m, 0);
    if (t.dim[0] % parts == 0) {
        in->type = t;
        return;
    }
    Loc loc = p->train.loc.file ? p->train.loc : in->loc;
    int64_t iterations = m->nloop ? m->size[m->n - 1] : 1;
    diag_error(p->diag, loc,
               "a batch of %lld cannot be split over %lld "
               "data-parallel ranks%s",
               (long long)t.dim[0], (long long)(parts / iterations),
               iterations > 1 ? arena_printf(p->arena, " in %lld microbatches",
                                             (long long)iterations)
                              : "");
    diag_note(p->diag, in->loc, "dim 0 of '%s' is the batch", in->name);
    int naxes;
    const char *axes = axes_text(p, data, &naxes);
    diag_note(p->diag, p->plan.loc, "%s split%s it: no `parallelize` names "
              "%s", axes, naxes > 1 ? "" : "s", naxes > 1 ? "them" : "it");
    diag_help(p->diag, "choose a batch that is a multiple of %lld",
              (long long)parts);
}

/* ---- layouts of boundaries ----------------------------------------------- */

/* Adds the layout to the type t of the boundary's operand or result; false: it
 * does not fit, which is reported. */
static bool check_layout(const Program *p, const Op *op, const Style *s,
                         Layout l, Type *t)
{
    int dim = l.dim < 0 ? l.dim + t->ndim : l.dim;
    if (l.kind != LAYOUT_SHARD)
        return true;
    if (dim >= 0 && dim < t->ndim) {
        AxisPlace with[MAX_AXES] = {{0}};
        with[s->axis] = (AxisPlace){AX_S, (uint8_t)dim, 0};
        t->place = place_override(&p->mesh, t, &t->place, 1u << s->axis, with);
        return check_sizes(p, s,
                           arena_printf(p->arena, "%s of '%s'",
                                        port_text(p->arena, op),
                                        attr_path(op)), t);
    }
    diag_error(p->diag, s->loc, "%s asks for Shard(%d) of a tensor with %d "
               "dim%s", style_text(p->arena, s), l.dim, t->ndim,
               t->ndim == 1 ? "" : "s");
    diag_note(p->diag, op->loc, "%s of '%s' is %s", port_text(p->arena, op),
              attr_path(op), type_text(p->arena, &op->out[0]->type, &p->mesh));
    if (t->ndim > 0)
        diag_help(p->diag, "its dims are 0 to %d, or -%d to -1 from the end",
                  t->ndim - 1, t->ndim);
    return false;
}

static void check_boundary(const Program *p, Op *op)
{
    if (op->kind != OP_boundary || attr_grad(op))
        return;
    Type in = op->out[0]->type, result = in;
    for (int a = 0; a < p->mesh.n; a++) {
        const Style *s = style_of_boundary(p, op, a);
        if (!s)
            continue;
        Layout from, to;
        style_port(s, attr_port(op), &from, &to);
        if (check_layout(p, op, s, to, &result))
            check_layout(p, op, s, from, &in);
    }
}

void pass_plan(Program *p, const TargetInfo *t)
{
    p->mesh.link = t->link;
    exchange_choose(p, t);
    choose_zigzag(p);
    add_microbatch_axis(p);
    for (int i = 0; i < p->param.n; i++)
        for (int k = 0; k < p->param.at[i].split.n; k++) {
            StyleSplit by = p->param.at[i].split.at[k];
            split_param(p, &p->plan.style[by.style], &p->param.at[i], by.dim);
        }
    name_units(p);
    for (int i = 0; i < p->input.n; i++)
        split_input(p, &p->input.at[i]);
    for_ops(op, p->step)
        check_boundary(p, op);
}
