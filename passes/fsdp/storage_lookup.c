/* storage_lookup.c: looks up rows of an embedding table before casting them.
 *
 * before   %cast = cast{to=bf16} %table : bf16[32000, 256]
 *          %h = embedding %cast, %ids : bf16[8, 256, 256]
 * after    %h = embedding %table, %ids : f32[8, 256, 256]
 *          %cast.2 = cast{to=bf16} %h : bf16[8, 256, 256]
 *
 * A table that is gathered is cast before the gather, to move fewer bytes. One
 * that is not gathered would be cast completely for a few of its rows. The
 * order changes where the rows in f32 take fewer bytes than the cast table.
 */
#include "passes/fsdp/storage.h"

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

static void visit(Program *p, Op *op)
{
    if (op->kind != OP_embedding || !pays(p, op))
        return;
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

void storage_lookups(Program *p)
{
    for_ops(op, p->step)
        visit(p, op);
}
