/* fuse.c: groups elementwise ops and reductions into kernels.
 *
 * requires: STAGE_STORED, updates expanded into primitive ops
 * ensures:  STAGE_FUSED: every op that a kernel can hold is in the body of a
 *           `fused` op, except views (reshape) and lone transposes. Ops keep
 *           their order as far as the kernels allow.
 *
 *   before
 *     %h = add %x, %a : f32[8, 64] forward "norm"
 *     %s = mul %h, %h : f32[8, 64] forward "norm"
 *     %m = sum{dims=[1], keep=true} %s : f32[8, 1] forward "norm"
 *     %r = rsqrt %m : f32[8, 1] forward "norm"
 *     %n = mul %h, %r : f32[8, 64] forward "norm"
 *   after (other ops read h too)
 *     %h, %n = fused{name="norm"} : f32[8, 64], f32[8, 64] forward "norm" {
 *       arg %x.2 = %x : f32[8, 64]
 *       arg %a.2 = %a : f32[8, 64]
 *       %h.2 = add %x.2, %a.2 : f32[8, 64] forward "norm"
 *       …
 *       yield %h.2, %n.2
 *     }
 */
#include <string.h>

#include "base/bug.h"
#include "passes/fusion/fuse.h"
#include "passes/pass.h"

enum { SHARE_ROUNDS = 4 };

/* ---- views --------------------------------------------------------------- */

static int new_group(Fuser *f, Op *op)
{
    int g = f->ngroups++;
    f->group[g] = (FuseGroup){0};
    vec_push(f->arena, &f->group[g].op, op);
    f->group_of[op->id] = g;
    return g;
}

static OpList without(const Fuser *f, const OpList *ops, const Op *op)
{
    OpList list = {0};
    for (int i = 0; i < ops->n; i++)
        if (ops->at[i] != op)
            vec_push(f->arena, &list, ops->at[i]);
    return list;
}

/* Removes a view that only other groups read from the kernel, which then stores
 * the view's operand. The view stays if only it gave the kernel its order of
 * axes. */
static void expel_view(Fuser *f, int g, Op *op)
{
    const OpList *users = &f->users[op->out[0]->id];
    for (int i = 0; i < users->n; i++)
        if (f->group_of[users->at[i]->id] == g)
            return;
    OpList rest = without(f, &f->group[g].op, op);
    new_group(f, op);
    if (rest.n && !fuse_is_legal(f, &rest, &g, 1)) {
        f->group[--f->ngroups] = (FuseGroup){0};
        f->group_of[op->id] = g;
        return;
    }
    f->group[g].op = rest;
}

static bool is_work(const FuseGroup *group)
{
    for (int i = 0; i < group->op.n; i++)
        if (!fuse_is_view(group->op.at[i]->kind) &&
            group->op.at[i]->kind != OP_transpose)
            return true;
    return false;
}

static void expel_views(Fuser *f)
{
    int n = f->ngroups;
    for (int g = 0; g < n; g++) {
        if (!f->group[g].open)
            continue;
        for (int i = f->group[g].op.n; i-- > 0;)
            if (fuse_is_view(f->group[g].op.at[i]->kind))
                expel_view(f, g, f->group[g].op.at[i]);
    }
}

/* ---- outlining ----------------------------------------------------------- */

typedef VEC(Value *) ValueList;

static void find_interface(Fuser *f, int g, ValueList *args, ValueList *outs)
{
    const OpList *ops = &f->group[g].op;
    for (int i = 0; i < ops->n; i++) {
        const Op *op = ops->at[i];
        for (int k = 0; k < op->nargs; k++) {
            Value *v = op->arg[k];
            /* The tables do not cover kernels that were made meanwhile. */
            bool inside = v->def && v->def->region == f->r &&
                          v->def->kind != OP_fused &&
                          f->group_of[v->def->id] == g;
            if (!inside && !vec_has(args, v))
                vec_push(f->arena, args, v);
        }
        if (fuse_is_stored(f, g, op->out[0]))
            vec_push(f->arena, outs, op->out[0]);
    }
}

static Phase group_phase(const OpList *ops)
{
    Phase phase = ops->at[0]->phase;
    for (int i = 1; i < ops->n; i++)
        if (ops->at[i]->phase < phase)
            phase = ops->at[i]->phase;
    return phase;
}

static int group_piece(const OpList *ops)
{
    int piece = 0;
    for (int i = 0; i < ops->n; i++)
        piece = piece ? piece : ops->at[i]->piece;
    return piece;
}

static void replace_args(Op *op, const Value *old, Value *with)
{
    for (int i = 0; i < op->nargs; i++)
        if (op->arg[i] == old)
            op->arg[i] = with;
}

/* Gives the kernel's result the name of the inner value, and lets consumers
 * outside of the group read the result. */
static void expose(Fuser *f, int g, Value *inner, Value *outer)
{
    ir_swap_names(inner, outer);
    const OpList *users = &f->users[inner->id];
    for (int i = 0; i < users->n; i++)
        if (f->group_of[users->at[i]->id] != g)
            replace_args(users->at[i], inner, outer);
    for (int i = 0; i < f->r->nyields && f->yielded[inner->id]; i++)
        if (f->r->yield[i] == inner)
            f->r->yield[i] = outer;
}

static void outline(Fuser *f, int g, TextMap *used)
{
    ValueList args = {0}, outs = {0};
    const OpList *ops = &f->group[g].op;
    find_interface(f, g, &args, &outs);
    const Op *main = outs.n ? outs.at[outs.n - 1]->def : ops->at[ops->n - 1];
    Build b = {.p = f->p,
               .region = f->r,
               .phase = group_phase(ops),
               .loc = main->loc,
               .path = main->path,
               .piece = group_piece(ops)};
    Attr attr[MAX_ATTRS] = {{.s = fuse_name(f->p, ops, used)}};
    Op *fused = ir_open(&b, OP_fused, args.n, args.at, 0, 0, attr);
    for (int i = 0; i < ops->n; i++) {
        ir_move(ops->at[i], fused->body, NULL);
        ops->at[i]->phase = b.phase;
        for (int k = 0; k < args.n; k++)
            replace_args(ops->at[i], args.at[k], fused->body->arg[k]);
    }
    ir_yield(f->p, fused->body, outs.n, outs.at);
    ir_close(f->p, fused);
    for (int i = 0; i < outs.n; i++)
        expose(f, g, outs.at[i], fused->out[i]);
}

static void outline_region(Fuser *f, TextMap *used)
{
    int n;
    const int *order = fuse_order(f, &n);
    for (int i = 0; i < n; i++) {
        const FuseGroup *group = &f->group[order[i]];
        if (group->open && is_work(group)) {
            outline(f, order[i], used);
            continue;
        }
        for (int k = 0; k < group->op.n; k++)
            ir_move(group->op.at[k], f->r, NULL);
    }
}

/* ---- the pass ------------------------------------------------------------ */

/* Whether the region is a step, or the body of the loop over microbatches. */
static bool is_whole(const Region *r)
{
    for (const Op *op = r->first; op && r->owner; op = op->next)
        if (op->phase != r->owner->phase)
            return true;
    return !r->owner;
}

static void fuse_region(Fuser *f, Region *r, TextMap *used)
{
    f->r = r;
    f->arena = arena_new();
    f->attempt = arena_new();
    f->whole = is_whole(r);
    fuse_clean(f);
    fuse_drop_unused(f);
    fuse_tables(f);
    fuse_groups(f);
    for (int i = 0; i < SHARE_ROUNDS && fuse_share(f); i++) {
        fuse_drop_unused(f);
        fuse_tables(f);
        fuse_groups(f);
    }
    expel_views(f);
    outline_region(f, used);
    arena_free(f->attempt);
    arena_free(f->arena);
    for (Op *op = r->first; op; op = op->next)
        if (op->kind == OP_loop)
            fuse_region(f, op->body, used);
}

void pass_fuse(Program *p, const TargetInfo *t)
{
    (void)t;
    Fuser f = {.p = p, .tables = arena_new()};
    TextMap names = {.arena = p->arena};
    fuse_region(&f, p->step, &names);
    arena_free(f.tables);
    p->stage = STAGE_FUSED;
}
