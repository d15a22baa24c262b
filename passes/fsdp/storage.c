/* storage.c: FSDP: stores parameters as shards, gathers them for use,
 * reduce-scatters gradients.
 *
 * requires: STAGE_PARTITIONED (parameters in compute layout, gradients of
 *           sharded parameters Partial over their unit's axis, all others
 *           summed at the end)
 * ensures:  STAGE_STORED: parameters of FSDP units and their optimizer states
 *           are flat over the unit's axis; a grouped all_gather precedes the
 *           first use in each region and phase, a grouped reduce_scatter
 *           follows the gradients; updates work on shards. Remaining sums over
 *           data axes (replicas, the outer axis of hybrid sharding) are grouped
 *           by unit and run in the loop that computes the gradients, or with
 *           gradient accumulation at the end
 *
 * before   %w = param{param="layers.*.weight"} : f32[4 x 64, 64] forward
 *          %out, %saved = loop{n=4, reverse=false} : … {
 *            stack %wi = %w : f32[64, 64]
 *            %y = einsum{…} %x, %wi : f32[8/dp, 64] forward
 *          %dh, %dw = loop{n=4, reverse=true} : …, f32[4 x 64, 64]+dp … {
 *            %dwi = einsum{…} %dy, %xs : f32[64, 64]+dp backward
 *            yield %dx, %dwi
 * after    %w = param{param="layers.*.weight"} : f32[4 x 64, 64]~dp forward
 *          %out, %saved = loop{n=4, reverse=false} : … {
 *            stack %wi = %w : f32[64, 64]~dp
 *            %wi.3 = all_gather{axes={dp}, unit="layers.*", prefetch=2}
 *                    %wi : f32[64, 64] forward
 *            %y = einsum{…} %x, %wi.3 : f32[8/dp, 64] forward
 *          %dh, %dw = loop{n=4, reverse=true} : …, f32[4 x 64, 64]~dp … {
 *            %dwi = einsum{…} %dy, %xs : f32[64, 64]+dp backward
 *            %dwi.2 = reduce_scatter{axes={dp}, unit="layers.*"}
 *                     %dwi : f32[64, 64]~dp backward
 *            yield %dx, %dwi.2
 *
 * A stacked parameter is gathered and reduced layer by layer in the loop that
 * uses it; a loop that only passes it on passes the shard. Casts to the compute
 * type are applied to the shard, so that the smaller type is gathered.
 */
#include "passes/fsdp/storage.h"
#include "passes/side_program.h"

/* ---- lookups ------------------------------------------------------------- */

/* Whether the lookup's rows take fewer bytes than the cast table that it reads.
 *
 * before   %cast = cast{to=bf16} %table : bf16[32000, 256]
 *          %h = embedding %cast, %ids : bf16[8, 256, 256]
 * after    %h = embedding %table, %ids : f32[8, 256, 256]
 *          %cast.2 = cast{to=bf16} %h : bf16[8, 256, 256]
 *
 * A table that is gathered is cast before the gather, to move fewer bytes. One
 * that is not gathered would be cast completely for a few of its rows. */
static bool pays(const Program *p, const Op *lookup)
{
    const Value *copy = lookup->arg[0], *rows = lookup->out[0];
    const Op *cast = copy->def;
    if (!cast || cast->kind != OP_cast || ir_count_uses(copy) > 1)
        return false;
    int64_t wide = dtype_size(cast->arg[0]->type.dtype);
    return type_local_elements(&rows->type, &p->mesh) * wide <
           type_local_bytes(&copy->type, &p->mesh);
}

static void cast_rows(Program *p, Op *op)
{
    Op *cast = op->arg[0]->def;
    Value *rows = op->out[0];
    DType narrow = rows->type.dtype;
    op->arg[0] = cast->arg[0];
    rows->type.dtype = cast->arg[0]->type.dtype;
    Build b = ir_build_at(p, op, op->next);
    Value *narrowed = ir_cast(&b, rows, narrow);
    ir_replace_uses(op->region, rows, narrowed);
    narrowed->def->arg[0] = rows;
    ir_remove(cast);
}

/* ---- the pass ------------------------------------------------------------ */

/* Updates the types of ops that read the gradients' shards. */
static void retype_tail(Program *p)
{
    for (Op *op = p->step->first; op; op = op->next)
        if (op->kind == OP_finish_grad) {
            op->out[0]->type = op->arg[0]->type;
        } else if (op->kind == OP_update) {
            for (int i = 0; i < op->nouts; i++)
                op->out[i]->type = update_old(op, i)->type;
        }
}

static void shard_params(Storage *s)
{
    Program *p = s->p;
    s->uses = uses_find(p);
    for (int i = 0; i < p->param.n; i++) {
        Param *pm = &p->param.at[i];
        int owner = pm->state_of >= 0 ? pm->state_of : i;
        pm->unit = unit_name_of_param(p, owner);
        const Unit *u = sharding_unit(p, owner);
        if (!u || param_is_mean(p, pm))
            continue;
        pm->type = storage_type(pm->type, unit_axes(p, u), AX_FLAT);
        if (pm->value)
            storage_shard_param(s, i, u);
    }
}

void pass_storage(Program *p, const TargetInfo *t)
{
    Storage s = {.p = p, .t = t};
    shard_params(&s);
    side_follow(p);
    storage_emit_gathers(&s);
    for_ops(op, p->step)
        if (op->kind == OP_embedding && pays(p, op))
            cast_rows(p, op);
    storage_reduce(&s);
    retype_tail(p);
    p->stage = STAGE_STORED;
}
