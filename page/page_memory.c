/* page_memory.c: prints the blocks of memory with their live ranges, for the page.
 *
 *   "moments": [-1, 0, 0, 3, …]       the statement that runs at each moment; -1: none
 *   "blocks": [["w1_out.3", "activations", 1442840576, 31, 160, "llama.pdl:25:24",
 *               "layers.*.feed_forward", "bf16[32 x 64/dp, 2048, 11008/tp]"], …]
 *
 * A moment is an op in the order of the schedule; the body of a loop is listed once. The
 * bytes are those of the pipeline's coordinate that needs the most.
 */
#include "page/fields.h"
#include "passes/schedule/liveness.h"
#include "report/json.h"

static void moments(Out *o, const Program *p, const Statement *statement, int n)
{
    Liveness live;
    live_analyse(p, &live);
    int *at = NEW_ARRAY(p->arena, int, p->memory->end + 1);
    for (int i = 0; i < p->memory->end; i++)
        at[i] = -1;
    for (int i = 0; i < n; i++)
        if (live.begin[statement[i].op->id] < p->memory->end)
            at[live.begin[statement[i].op->id]] = i;
    out(o, "      \"moments\": [");
    for (int i = 0; i < p->memory->end; i++)
        out(o, "%s%d", i ? "," : "", at[i]);
    out(o, "],\n");
}

static void print_block(Out *o, const Program *p, const LiveBlock *live)
{
    const Block *b = live->block;
    out(o, "        [");
    out_json_string(o, b->name);
    out(o, ", ");
    out_json_string(o, memory_class_words[b->class]);
    out(o, ", %lld, %d, %d, ", (long long)live->bytes, b->first, b->last);
    out_json_string(o, live->where);
    out(o, ", ");
    out_json_string(o, live->path ? live->path : "");
    out(o, ", ");
    out_json_string(o, live->type ? type_text(p->arena, live->type, &p->mesh) : "");
    out(o, "]");
}

void page_memory(Out *o, const Program *p, const Statement *statement, int n)
{
    const MemoryPlan *m = p->memory;
    const LiveBlock *live = report_blocks(p);
    bool first = true;
    out(o, "    \"memory\": {\n");
    moments(o, p, statement, n);
    out(o, "      \"peak\": %d,\n      \"blocks\": [", m->peak_time);
    for (int i = 0; i < m->nblocks; i++) {
        if (live[i].block->host || live[i].bytes <= 0)
            continue;
        out(o, "%s", first ? "\n" : ",\n");
        print_block(o, p, &live[i]);
        first = false;
    }
    out(o, "\n      ]\n    },\n");
}
