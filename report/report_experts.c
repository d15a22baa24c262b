/* report_experts.c: prints the buffers of experts on several ranks, for the plan and the JSON.
 *
 *   experts     layers.*.moe: 24576 rows for 131072 choices, 1.5 x balanced; a step that
 *               needs more is repeated in up to 6 rounds, with 4.45 GiB more
 */
#include "ir/analysis/expert_items.h"
#include "report/json.h"
#include "report/report.h"

/* The buffer of one call of group_rows: rows of a shard, for the choices of a group. */
typedef struct ExpertBuffer {
    const Op *op;
    int64_t shards, rows, choices, rounds;
} ExpertBuffer;

static ExpertBuffer buffer_of(const Op *op)
{
    const int64_t *shape = attr_shape(op)->v;
    int64_t choices = type_elements(&op->arg[0]->type) / (shape[0] * shape[1]);
    return (ExpertBuffer){op, shape[2], shape[3], choices, group_rounds(op)};
}

static void line(Out *o, const Program *p, const ExpertBuffer *b, bool first)
{
    const ExpertItem *item = expert_item(p, b->op);
    out(o, "%-12s%s: ", first ? "experts" : "", b->op->path);
    if (b->rounds == 1) {
        out_line(o, "a row for each of %lld choices", (long long)b->choices);
        return;
    }
    int64_t more = p->forward[FOR_ROUNDS]->memory->peak - p->memory->peak;
    out_line(o, "%lld rows for %lld choices, %g x balanced; a step that", (long long)b->rows,
             (long long)b->choices, item ? item->buffer : 1.0);
    out_line(o, "%12sneeds more is repeated in up to %lld rounds%s", "", (long long)b->rounds,
             more > 0 ? arena_printf(p->arena, ", with %s more", bytes_text(p->arena, more)) : "");
}

void report_experts(Out *o, const Program *p)
{
    bool first = true;
    for_ops(op, p->step) {
        if (op->kind != OP_group_rows || attr_shape(op)->v[2] == 1)
            continue;
        ExpertBuffer b = buffer_of(op);
        line(o, p, &b, first);
        first = false;
    }
}

void report_json_experts(Out *o, const Program *p)
{
    bool first = true;
    for_ops(op, p->step) {
        if (op->kind != OP_group_rows || attr_shape(op)->v[2] == 1)
            continue;
        ExpertBuffer b = buffer_of(op);
        out(o, first ? "  \"experts\": [\n    {" : ",\n    {");
        json_text(o, "module", op->path);
        json_number(o, "shards", b.shards);
        json_number(o, "rows", b.rows);
        json_number(o, "choices", b.choices);
        json_number(o, "rounds", b.rounds);
        json_text(o, "source", diag_where(p->diag, p->arena, op->loc));
        out(o, "}");
        first = false;
    }
    if (!first)
        out(o, "\n  ],\n");
}
