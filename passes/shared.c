/* shared.c: parameters that are gathered where they lie.
 *
 * requires: STAGE_STORED; copies in the compute type stand (shadow.c)
 * ensures:  where ranks are in one box (TargetInfo.shares_memory): parameters,
 *           and copies of them, whose gathers need no memory of their own, are
 *           `kept shared`
 *
 * before   param "layers.*.weight" : f32[4 x 64, 64]~dp … unit="layers.*"
 *            stack %wi = %w : f32[64, 64]~dp
 *            %wi.3 = all_gather{axes={dp}, …} %wi : f32[64, 64] forward
 * after    param "layers.*.weight" : f32[4 x 64, 64]~dp … unit="layers.*" kept
 *                                                                       shared
 *            …
 *
 * The ranks of a group map one memory that holds every layer whole. Each
 * writes its own run there, which is the shard that it stores; what is
 * gathered is that memory. An all_gather is left with saying since when all
 * have written (meetings.c), and moves nothing.
 *
 * A gather keeps memory of its own, and copies, where its result has to be
 * denser than the runs: of a stack whose layers are padded to equal runs,
 * somebody reads all layers as one tensor; and where it does not gather just
 * what storage has cut.
 */
#include "passes/memory.h"

/* All gathers of one parameter. */
typedef struct Gathers {
    const Program *p;
    uint32_t axes; /* that the parameter is cut over */
    bool padded;   /* layers are longer by what pads their last run */
    bool any, inside;
} Gathers;

static uint32_t flat_axes(const Type *t)
{
    uint32_t axes = 0;
    for (int a = 0; a < MAX_AXES; a++)
        if (t->place.ax[a].kind == AX_FLAT)
            axes |= 1u << a;
    return axes;
}

/* Whether who reads v takes it apart into layers: what it is then may lie
 * apart. */
static bool is_taken_apart(const Value *v)
{
    if (v->type.nstack == 0)
        return true;
    for (const Op *op = v->region->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (op->arg[i] == v &&
                (op->kind != OP_loop || i < op->ncarry ||
                 i >= op->ncarry + op->nstack ||
                 !is_taken_apart(op->body->arg[i])))
                return false;
    const Op *loop = v->region->owner;
    for (int i = 0; loop && i < v->region->nyields; i++)
        if (v->region->yield[i] == v &&
            (i < loop->ncarry || !is_taken_apart(loop->out[i])))
            return false;
    return true;
}

/* A layer that a loop gathers and stacks. */
static bool is_stacked_apart(const Value *v)
{
    const Op *loop = v->region->owner;
    for (int i = 0; loop && i < v->region->nyields; i++)
        if (v->region->yield[i] == v && i >= loop->ncarry &&
            !is_taken_apart(loop->out[i]))
            return false;
    return is_taken_apart(v);
}

static void look_at_gather(Gathers *g, const Op *gather, int i)
{
    g->any = true;
    g->inside &= (uint32_t)gather->attr[0].i == g->axes &&
                 (!g->padded || is_stacked_apart(gather->out[i]));
}

/* Follows the shard into loops. */
static void look_at_readers(Gathers *g, const Value *v)
{
    for (const Op *op = v->region->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++) {
            if (op->arg[i] != v)
                continue;
            if (live_is_unit_gather(op))
                look_at_gather(g, op, i);
            else if (op->kind == OP_loop && i >= op->ncarry)
                look_at_readers(g, op->body->arg[i]);
        }
}

/* Whether the runs of all ranks do not just fill up a layer. */
static bool is_padded(const Program *p, const Type *t, uint32_t axes)
{
    Type whole = *t;
    int64_t runs = type_flat_run(t, &p->mesh);
    for (int a = 0; a < p->mesh.n; a++)
        if (axes >> a & 1) {
            whole.place.ax[a].kind = AX_R;
            runs *= p->mesh.size[a];
        }
    return runs != type_flat_run(&whole, &p->mesh);
}

static bool is_gathered_inside(const Program *p, const Param *pm)
{
    uint32_t axes = flat_axes(&pm->type);
    if (!pm->value || !pm->unit || !axes || (axes & (axes - 1)))
        return false;
    Gathers g = {.p = p, .axes = axes, .inside = true,
                 .padded = is_padded(p, &pm->type, axes)};
    look_at_readers(&g, pm->value);
    return g.any && g.inside;
}

void pass_shared(Program *p, const TargetInfo *t)
{
    for (int i = 0; t->shares_memory && i < p->param.n; i++)
        if (is_gathered_inside(p, &p->param.at[i]))
            p->param.at[i].kept = p->param.at[i].shared = true;
}
