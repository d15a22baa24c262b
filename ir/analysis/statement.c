/* statement.c: says which ops are statements of the emitted program; see
 * statement.h. */
#include "ir/analysis/statement.h"

#include "ir/memory.h"

bool op_is_statement(const Op *op)
{
    const Op *owner = op->region->owner;
    if (owner && owner->kind == OP_fused)
        return false;
    switch ((int)op->kind) {
    case OP_param:
    case OP_input:
    case OP_scalar:
    case OP_output:
    case OP_assign:
    case OP_loop:
        return false;
    case OP_copy:
        return !value_in_place(op->out[0]);
    }
    return !op_is_view(op->kind) && !op_is_schedule(op->kind);
}

const Op *op_issued_at(const Op *at)
{
    if (at->kind == OP_start)
        return attr_op(at);
    return !at->done && op_is_statement(at) ? at : NULL;
}
