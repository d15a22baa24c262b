/* simplify.c: reduces the number and the cost of collectives.
 *
 * requires: STAGE_PARTITIONED
 * ensures:  the same stage and the same values. Equal conversions of a value
 *           are done once in a region, an all-to-all once for both passes; an
 *           all-reduce whose readers all take the
 *           same slice is a reduce-scatter; a term that one rank alone adds to
 *           a partial sum is added after the reduction; the scalar terms of a
 *           sum are masked to partial in one op; gradients of shared KV heads
 *           are summed as late as possible; independent all-reduces over the
 *           same axes are one grouped op; dead values are neither computed,
 *           carried nor saved
 *
 * before   %a = all_reduce{axes={tp}} %x : f32[8, 8] forward
 *          %b = local_slice{axes={tp}} %a : f32[8, 8/tp] forward
 *          %u = sum{dims=[0, 1], keep=false} %b : f32[]+tp forward
 *          %v = sumsq %h : f32[]+tp forward
 *          %c = all_reduce{axes={tp}} %u : f32[] forward
 *          %d = all_reduce{axes={tp}} %v : f32[] forward
 * after    %b.2 = reduce_scatter{axes={tp}, …} %x : f32[8, 8/tp] forward
 *          %u = sum{dims=[0, 1], keep=false} %b.2 : f32[]+tp forward
 *          %v = sumsq %h : f32[]+tp forward
 *          %c, %d = all_reduce{axes={tp}} %u, %v : f32[], f32[] forward
 */
#include "passes/simplify/simplify.h"

#include "passes/pass.h"

/* ---- equal conversions --------------------------------------------------- */

static bool same_conversion(const Op *a, const Op *b)
{
    return a->kind == b->kind && a->nargs == 1 && b->nargs == 1 &&
           a->arg[0] == b->arg[0] && attr_axes(a) == attr_axes(b) &&
           type_equal(&a->out[0]->type, &b->out[0]->type);
}

typedef struct Sharing {
    Program *p;
    Op **last;      /* by id of the operand: its latest conversion so far */
    Op **earlier;   /* by id of the op: the previous one */
    uint32_t nvalues, nops;
} Sharing;

static void share_region(Sharing *s, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            share_region(s, op->body);
        if (!op_is_conversion(op->kind) || op->nargs != 1 ||
            op->arg[0]->id >= s->nvalues || op->id >= s->nops)
            continue;
        Op **last = &s->last[op->arg[0]->id], *same = *last;
        while (same && !same_conversion(same, op))
            same = s->earlier[same->id];
        if (same) {
            ir_replace_uses(r, op->out[0], same->out[0]);
            ir_remove(op);
        } else {
            s->earlier[op->id] = *last;
            *last = op;
        }
    }
}

/* ---- all-reduce and slice to reduce-scatter ------------------------------ */

/* The first reader of v if all readers take the same slice; else NULL. */
static Op *only_part(const Region *r, const Value *v, uint32_t axes)
{
    Op *part = NULL;
    for (Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v)
                continue;
            if (op->kind != OP_local_slice || attr_axes(op) != axes ||
                (part && !same_conversion(part, op)))
                return NULL;
            part = part ? part : op;
        }
    for (int i = 0; i < r->nyields; i++)
        if (r->yield[i] == v)
            return NULL;
    return part;
}

static void scatter_region(Program *p, Region *r)
{
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->body)
            scatter_region(p, op->body);
        if (op->kind != OP_all_reduce || op->nargs != 1)
            continue;
        uint32_t axes = attr_axes(op);
        Op *part = only_part(r, op->out[0], axes);
        bool sum = true;
        for (int a = 0; a < p->mesh.n; a++)
            sum = sum && (!(axes >> a & 1) ||
                          op->arg[0]->type.place.ax[a].kind == AX_P);
        if (!part || !sum)
            continue;
        Build b = ir_build_at(p, op, op);
        Attr attr[MAX_ATTRS] = {{.i = axes}, {.s = ""}};
        Op *made = ir_op_typed(&b, OP_reduce_scatter, 1, op->arg, attr, 1,
                               &part->out[0]->type, &part->out[0]->name);
        made->why = op->why;
        for (int a = 0; a < p->mesh.n; a++)
            made->out[0]->why[a] = part->out[0]->why[a];
        ir_replace_uses(r, part->out[0], made->out[0]);
        next = part == op->next ? part->next : op->next;
        ir_remove(part);
        ir_remove(op);
    }
}

void pass_simplify(Program *p, const TargetInfo *t)
{
    (void)t;
    simplify_loops(p, p->step);
    Sharing s = {p, NEW_ARRAY(p->arena, Op *, p->nvalues + 1),
                 NEW_ARRAY(p->arena, Op *, p->nops + 1), p->nvalues,
                 p->nops};
    share_region(&s, p->step);
    simplify_exchanges(p, p->step);
    simplify_loops(p, p->step);
    ir_eliminate_dead(p);
    simplify_shares(p);
    scatter_region(p, p->step);
    simplify_summands(p, p->step);
    defer_reduce(p, p->step);
    simplify_buckets(p, p->step);
}
