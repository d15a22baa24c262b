/* collectives.c: lists and numbers the collectives of a program.
 *
 * The plan, its JSON form, emitted code and the runtime's messages all take
 * names and numbers from this list. A collective inside a loop is one entry
 * with a count.
 */
#include "codegen/work/work.h"

#include "codegen/numbers.h"
#include "ir/analysis/alias.h"
#include "ir/plan/user_axes.h"

#include <string.h>

typedef struct KindName {
    OpKind kind;
    const char *name, *label;
} KindName;

static const KindName kinds[] = {
    {OP_all_gather, "all_gather", "ag"},
    {OP_all_reduce, "all_reduce", "ar"},
    {OP_reduce_scatter, "reduce_scatter", "rs"},
    {OP_all_to_all, "all_to_all", "aa"},
};

static const KindName *kind_name(OpKind kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].kind == kind)
            return &kinds[i];
    return NULL;
}

/* Bytes of the full tensors on one rank: the results of an all-gather, the
 * operands of a reduction or an all-to-all. */
static int64_t full_bytes(const Program *p, const Op *op)
{
    int64_t bytes = 0;
    for (int i = 0; i < op->nargs; i++) {
        const Value *full =
            op->kind == OP_all_gather ? op->out[i] : op->arg[i];
        if (operand_is_shard(op, i))
            continue; /* computed as a shard, never in full */
        bytes += type_local_bytes(&full->type, &p->mesh);
    }
    return bytes;
}

/* The name of the FSDP unit that the collective gathers or reduces, else the
 * names of its tensors: "a, b, c and 2 more". */
static const char *tensor_text(const Program *p, const Op *op)
{
    bool units = op->kind == OP_all_gather || op->kind == OP_reduce_scatter;
    if (units && op_unit(op) && op_unit(op)[0])
        return op_unit(op);
    const char *text = op->arg[0]->name;
    for (int i = 1; i < op->nargs && i < 3; i++)
        text = arena_printf(p->arena, "%s, %s", text, op->arg[i]->name);
    if (op->nargs > 3)
        text = arena_printf(p->arena, "%s and %d more", text, op->nargs - 3);
    return text;
}

static int made_as_shards(const Op *op)
{
    int n = 0;
    for (int i = 0; i < op->nargs; i++)
        n += operand_is_shard(op, i);
    return n;
}

typedef VEC(CollectiveInfo) Found;

static CollectiveInfo describe(const Program *p, const Op *op, int id)
{
    const KindName *k = kind_name(op->kind);
    uint32_t axes = op_axes(op);
    return (CollectiveInfo){
        .op = op, .id = id, .kind = k->name,
        .label = arena_printf(p->arena, "%s%d", k->label, id),
        .axes = axes, .axis = user_axes_text(p, axes),
        .group_size = mesh_group(&p->mesh, axes), .tensor = tensor_text(p, op),
        .dtype = op->arg[0]->type.dtype, .bytes = full_bytes(p, op),
        .count = ir_trip_count(op),
        .in_place = gather_in_place(op),
        .shards = made_as_shards(op)};
}

static void collect(const Program *p, const Region *r, int first, Found *found)
{
    for (const Op *op = r->first; op; op = op->next) {
        if (kind_name(op->kind)) {
            CollectiveInfo c = describe(p, op, first + found->n);
            vec_push(p->arena, found, c);
        }
        if (op->kind == OP_loop)
            collect(p, op->body, first, found);
    }
}

CollectiveInfo *collectives_of(const Program *p, int *n)
{
    Found found = {0};
    collect(p, p->step, numbers_first(p).collectives, &found);
    *n = found.n;
    return found.at;
}
