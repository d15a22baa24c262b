/* report_experts.c: prints the buffers of experts on several ranks, for the plan and the JSON.
 *
 *   experts     layers.*.moe: 24576 rows for 131072 choices, 1.5 x balanced; a step that
 *               needs more is repeated in up to 6 rounds, with 4.45 GiB more
 *               an expert takes up to 2560 of a sequence's 16384 choices, 1.25 x balanced
 *               to experts and back: all_to_all 18.00 MiB per call, gather 64.00 MiB
 */
#include "ir/analysis/choices.h"
#include "ir/analysis/expert_items.h"
#include "ir/options.h"
#include "ir/plan/checkpoint.h"
#include "report/json.h"
#include "report/report.h"

#include <string.h>

/* The buffer of one call of group_rows: rows of a shard, for the choices of a group. */
typedef struct ExpertBuffer {
    const Op *op;
    Choices of;
    int64_t rows, choices, rounds;
} ExpertBuffer;

static ExpertBuffer buffer_of(const Op *op)
{
    Choices of = group_choices(op);
    return (ExpertBuffer){op, of, attr_shape(op)->v[3], choices_pairs(&of), group_rounds(op)};
}

static void line(Out *o, const Program *p, const ExpertBuffer *b, bool first)
{
    const ExpertItem *item = expert_item(p, b->op);
    out(o, "%-12s%s: ", first ? "experts" : "", b->op->path);
    if (b->rounds == 1 && b->rows < b->choices) {
        out_line(o, "%lld rows for %lld choices; no step needs more", (long long)b->rows,
                 (long long)b->choices);
        return;
    }
    if (b->rounds == 1) {
        out_line(o, "a row for each of %lld choices", (long long)b->choices);
        return;
    }
    int64_t more = p->side[FOR_ROUNDS]->memory->peak - p->memory->peak;
    out_line(o, "%lld rows for %lld choices, %g x balanced; a step that", (long long)b->rows,
             (long long)b->choices, item ? item->buffer : 1.0);
    out_line(o, "%12sneeds more is repeated in up to %lld rounds%s", "", (long long)b->rounds,
             more > 0 ? arena_printf(p->arena, ", with %s more", bytes_text(p->arena, more)) : "");
}

/* The bytes that a rank receives in a call of the forward pass, by dispatch. */
static void moved_bytes(const Program *p, const ExpertBuffer *b, Dispatch is, int64_t *bytes)
{
    const Type *needed = &b->op->out[3]->type, *row = NULL;
    for_ops(op, p->step)
        if (op->kind == OP_gather_rows && !row && strcmp(op->path, b->op->path) == 0)
            row = &op->out[0]->type;
    int64_t n = b->of.shards, k = b->of.k;
    int64_t groups = type_local_dim(needed, &p->mesh, 0) * type_local_dim(needed, &p->mesh, 1);
    int64_t tokens = groups * b->choices / k / (is == DISPATCH_GATHER ? n : 1);
    double width = row ? (double)(row->dim[4] * dtype_size(row->dtype)) : 0;
    double rows = (double)n * (double)b->rows / (double)b->choices * (double)k;
    bytes[DISPATCH_GATHER] = (int64_t)(2 * (double)((n - 1) * tokens) * width);
    bytes[DISPATCH_ALL_TO_ALL] =
        (int64_t)(2 * (double)(n - 1) / (double)n * rows * (double)tokens * width);
}

/* How many choices an expert takes, and drops the others. */
static void limit(Out *o, const ExpertBuffer *b)
{
    if (b->of.limit)
        out_line(o, "%12san expert takes up to %lld of a sequence's %lld choices, %g x balanced", "",
                 (long long)b->of.limit, (long long)(b->of.length * b->of.k),
                 choices_capacity(&b->of));
}

/* Where the axes split tokens, both ways to move them. */
static void moves(Out *o, const Program *p, const ExpertBuffer *b)
{
    const ExpertItem *item = expert_item(p, b->op);
    if (!item || b->of.shards == 1)
        return;
    int64_t bytes[2];
    Dispatch is = item->dispatch;
    if (is == DISPATCH_GATHER && !(p->plan.experts.axes & ~p->plan.tensor_axes))
        return; /* tokens are on all ranks as a rule */
    Dispatch other = is == DISPATCH_GATHER ? DISPATCH_ALL_TO_ALL : DISPATCH_GATHER;
    moved_bytes(p, b, is, bytes);
    out_line(o, "%12sto experts and back: %s %s per call, %s %s", "",
             option_word(OPTION_dispatch, is), bytes_text(p->arena, bytes[is]),
             option_word(OPTION_dispatch, other), bytes_text(p->arena, bytes[other]));
}

/* The next call of group_rows after op in the module or below it, for experts on several ranks
 * or with a capacity; NULL: there is none. */
static const Op *next_group(const Program *p, const char *path, const Op *op)
{
    while ((op = ir_next(p->step, op)))
        if (op->kind == OP_group_rows && (attr_shape(op)->v[2] > 1 || attr_limit(op)) &&
            path_is_below(op->path, path))
            return op;
    return NULL;
}

void report_experts(Out *o, const Program *p, const char *path)
{
    bool first = true;
    for (const Op *op = NULL; (op = next_group(p, path, op));) {
        ExpertBuffer b = buffer_of(op);
        line(o, p, &b, first);
        limit(o, &b);
        moves(o, p, &b);
        first = false;
    }
}

void report_json_experts(Out *o, const Program *p)
{
    bool first = true;
    for (const Op *op = NULL; (op = next_group(p, "", op));) {
        ExpertBuffer b = buffer_of(op);
        out(o, first ? "  \"experts\": [\n    {" : ",\n    {");
        json_text(o, "module", op->path);
        const ExpertItem *item = expert_item(p, op);
        if (item)
            json_text(o, option_name(OPTION_dispatch),
                      option_word(OPTION_dispatch, item->dispatch));
        json_number(o, "shards", b.of.shards);
        json_number(o, "rows", b.rows);
        json_number(o, "choices", b.choices);
        json_number(o, "rounds", b.rounds);
        if (b.of.limit)
            json_number(o, "limit", b.of.limit);
        json_text(o, "source", diag_where(p->diag, p->arena, op->loc));
        out(o, "}");
        first = false;
    }
    if (!first)
        out(o, "\n  ],\n");
}
