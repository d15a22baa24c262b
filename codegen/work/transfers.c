/* transfers.c: lists and numbers the transfers between host memory and the
 * device.
 *
 * The plan, the JSON, emitted code and traces use this list. A transfer inside
 * a loop is one entry with a count.
 */
#include "codegen/work/work.h"

#include "codegen/numbers.h"
#include "ir/analysis/alias.h"

typedef VEC(TransferInfo) Found;

static void collect(const Program *p, const Region *r, int first, Found *found)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (op->kind == OP_loop)
            collect(p, op->body, first, found);
        if (op->kind != OP_fetch && op->kind != OP_store)
            continue;
        bool store = op->kind == OP_store;
        TransferInfo x = {
            .op = op, .to_host = store, .param = transfer_param(p, op),
            .label = arena_printf(p->arena, "%s%d", store ? "st" : "ft",
                                  first + found->n),
            .bytes = type_local_bytes(&op->out[0]->type, &p->mesh),
            .count = ir_trip_count(op)};
        vec_push(p->arena, found, x);
    }
}

TransferInfo *transfers_of(const Program *p, int *n)
{
    Found found = {0};
    collect(p, p->step, numbers_first(p).transfers, &found);
    *n = found.n;
    return found.at;
}
