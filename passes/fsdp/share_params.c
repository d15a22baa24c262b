/* share_params.c: lets ranks of a node gather parameters in place, in shared
 * memory.
 *
 * requires: STAGE_STORED; low-precision copies exist (lowp_copies.c)
 * ensures:  where the ranks of a node map the same memory
 *           (TargetInfo.shares_memory): parameters, and copies of them, that are
 *           gathered inside a node, and whose gathers need no memory of their
 *           own, are `gathered shared`
 *
 * before   param "layers.*.weight" : f32[4 x 64, 64]~dp … unit="layers.*"
 *            stack %wi = %w : f32[64, 64]~dp
 *            %wi.3 = all_gather{axes={dp}, …} %wi : f32[64, 64] forward
 * after    param "layers.*.weight" : f32[4 x 64, 64]~dp …
 *            unit="layers.*" gathered shared …
 *
 * The ranks of a group map one block of memory that holds every full layer.
 * Each rank writes its own run of it, which is its shard; the gathered tensor
 * is the block itself. The all_gather becomes a barrier (barriers.c) and moves
 * no data.
 *
 * A gather has memory of its own, and copies, in three cases: the layers of a
 * stack are padded to equal runs, and an op reads all layers as one contiguous
 * tensor; the gather's axes are not those that the parameter is sharded over;
 * or these are several.
 */
#include "ir/analysis/alias.h"
#include "ir/units.h"
#include "passes/side_program.h"
#include "passes/fsdp/storage.h"

/* The gathers of one parameter. */
typedef struct Gathers {
    const Program *p;
    const Uses *uses;
    uint32_t axes; /* the axes that the parameter is sharded over */
    bool padded;   /* the last run of a layer has padding */
    bool any, inside;
} Gathers;

/* Whether every reader of v consumes each layer separately, so that layers need
 * not be contiguous. */
static bool is_read_by_layer(const Value *v)
{
    if (v->type.nstack == 0)
        return true;
    for (const Op *op = v->region->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (op->arg[i] == v && (op->kind != OP_loop || i < op->ncarry ||
                                    i >= op->ncarry + op->nstack ||
                                    !is_read_by_layer(op->body->arg[i])))
                return false;
    const Op *loop = v->region->owner;
    for (int i = 0; loop && i < v->region->nyields; i++)
        if (v->region->yield[i] == v &&
            (i < loop->ncarry || !is_read_by_layer(loop->out[i])))
            return false;
    return true;
}

/* Whether every reader of v, a layer that a loop gathers, and of the stack that
 * the loop may yield of it, consumes each layer separately. */
static bool stack_is_read_by_layer(const Value *v)
{
    const Op *loop = v->region->owner;
    for (int i = 0; loop && i < v->region->nyields; i++)
        if (v->region->yield[i] == v && i >= loop->ncarry &&
            !is_read_by_layer(loop->out[i]))
            return false;
    return is_read_by_layer(v);
}

/* Follows the shard into loops. */
static void look_at_readers(Gathers *g, const Value *v)
{
    int n;
    Op *const *reader = uses_readers(g->uses, v, &n);
    for (int k = 0; k < n; k++) {
        const Op *op = reader[k];
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v)
                continue;
            if (op_is_unit_gather(op)) {
                g->any = true;
                g->inside &= attr_axes(op) == g->axes &&
                             (!g->padded || stack_is_read_by_layer(op->out[i]));
            } else if (op->kind == OP_loop && i >= op->ncarry) {
                look_at_readers(g, op->body->arg[i]);
            }
        }
    }
}

static bool is_gathered_inside(const Program *p, const Uses *uses,
                               const Param *pm)
{
    uint32_t axes = type_flat_axes(&pm->type);
    if (!pm->value || !pm->unit || !axes || (axes & (axes - 1)) ||
        (axes & mesh_between_nodes(&p->mesh)))
        return false;
    Gathers g = {.p = p, .uses = uses, .axes = axes, .inside = true,
                 .padded = storage_is_padded(p, &pm->type, axes)};
    look_at_readers(&g, pm->value);
    return g.any && g.inside;
}

void pass_share_params(Program *p, const TargetInfo *t)
{
    if (!t->shares_memory)
        return;
    if (p->training) {
        side_follow(p);
        return;
    }
    Uses uses = uses_find(p);
    for (int i = 0; i < p->param.n; i++)
        if (is_gathered_inside(p, &uses, &p->param.at[i]))
            p->param.at[i].gathered = p->param.at[i].shared = true;
}
