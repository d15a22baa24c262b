/* collectives.c: lists and numbers the collectives of a program, and its
 * transfers between host memory and the device.
 *
 * The plan, its JSON form, emitted code and the runtime's messages all take
 * names and numbers from these lists. A collective or a transfer inside a loop
 * is one entry with a count. The lists of a side program that repeats another
 * program are parts of the other's lists.
 */
#include "codegen/statements/statements.h"

#include "codegen/numbers.h"
#include "ir/analysis/alias.h"
#include "ir/analysis/repeat.h"
#include "ir/plan/pipeline.h"
#include "ir/plan/user_axes.h"

#include <string.h>

static const char *label_of(OpKind collective)
{
    return collective == OP_all_gather       ? "ag"
           : collective == OP_all_reduce     ? "ar"
           : collective == OP_reduce_scatter ? "rs"
           : collective == OP_receive        ? "rc"
           : collective == OP_send           ? "sd"
           : collective == OP_move           ? "mv"
           : collective == OP_shift          ? "sh"
                                             : "aa";
}

/* Bytes of the full tensors on one rank: the results of an all-gather, the
 * operands of a reduction or an all-to-all. */
static int64_t full_bytes(const Program *p, const Op *op)
{
    int64_t bytes = 0;
    for (int i = 0; i < op->nargs; i++) {
        const Value *full =
            op->kind == OP_all_gather ? op->out[i] : op->arg[i];
        bytes += type_local_bytes(&full->type, &p->mesh);
    }
    return bytes;
}

/* The name of the FSDP unit that the collective gathers or reduces, else the
 * names of its tensors: "a, b, c and 2 more". */
static const char *tensor_text(const Program *p, const Op *op)
{
    bool units = op->kind == OP_all_gather || op->kind == OP_reduce_scatter;
    if (units && attr_unit(op) && attr_unit(op)[0])
        return attr_unit(op);
    const char *text = op->arg[0]->name;
    for (int i = 1; i < op->nargs && i < 3; i++)
        text = arena_printf(p->arena, "%s, %s", text, op->arg[i]->name);
    if (op->nargs > 3)
        text = arena_printf(p->arena, "%s and %d more", text, op->nargs - 3);
    return text;
}

/* On the coordinate of a pipeline that has the most calls. */
static int64_t most_calls(const Program *p, const Op *op)
{
    int64_t most = op_coordinate_count(p, op, 0, false);
    for (int c = 1; c < pipeline_ranks(p); c++) {
        int64_t n = op_coordinate_count(p, op, c, false);
        most = n > most ? n : most;
    }
    return most;
}

static CollectiveInfo describe(const Program *p, const Op *op, int id)
{
    uint32_t axes = attr_axes(op);
    return (CollectiveInfo){
        .op = op, .id = id, .kind = op_info(op->kind)->name,
        .label = arena_printf(p->arena, "%s%d", label_of(op->kind), id),
        .axes = axes, .axis = user_axes_text(p, axes),
        .group_size = mesh_group(&p->mesh, axes), .tensor = tensor_text(p, op),
        .dtype = op->arg[0]->type.dtype, .bytes = full_bytes(p, op),
        .count = most_calls(p, op),
        .in_place = gather_in_place(op)};
}

CollectiveInfo *collectives_of(const Program *p, int *n)
{
    VEC(CollectiveInfo) found = {0};
    const Program *of = p->repeats ? p->repeats : p;
    const Repeat *repeat = p->repeats ? repeat_of(p) : NULL;
    int id = numbers_first(of).collectives;
    for_ops(op, of->step) {
        if (!op_is_collective(op->kind))
            continue;
        CollectiveInfo c = describe(of, op, id++);
        if (repeat_has(repeat, op))
            vec_push(p->arena, &found, c);
    }
    *n = found.n;
    return found.at;
}

/* ---- transfers ----------------------------------------------------------- */

TransferInfo *transfers_of(const Program *p, int *n)
{
    VEC(TransferInfo) found = {0};
    const Program *of = p->repeats ? p->repeats : p;
    const Repeat *repeat = p->repeats ? repeat_of(p) : NULL;
    int id = numbers_first(of).transfers;
    for_ops(op, of->step) {
        bool store = op->kind == OP_store;
        if (op->kind != OP_fetch && !store)
            continue;
        TransferInfo x = {
            .op = op, .to_host = store, .param = transfer_param(of, op),
            .label = arena_printf(p->arena, "%s%d", store ? "st" : "ft", id++),
            .bytes = type_local_bytes(&op->out[0]->type, &of->mesh),
            .count = op_rank_count(of, op)};
        if (repeat_has(repeat, op))
            vec_push(p->arena, &found, x);
    }
    *n = found.n;
    return found.at;
}
