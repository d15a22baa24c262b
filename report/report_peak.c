/* report_peak.c: finds the blocks of memory that are live at the memory peak,
 * with the value that each was created for. The plan lists them. --explain
 * memory adds the time of the peak and the changes of the plan that reduce the
 * large categories.
 */
#include "ir/analysis/alias.h"
#include "ir/plan/user_axes.h"
#include "ir/units.h"
#include "passes/schedule/liveness.h"
#include "report/explain.h"

#include <stdlib.h>
#include <string.h>

/* ---- live blocks --------------------------------------------------------- */

/* Blocks with their values, by the block's index. A block that several values
 * share has the one whose name it has. */
typedef struct Blocks {
    const Program *p;
    LiveBlock *at;
} Blocks;

static void note(Blocks *s, int block, const char *name, LiveBlock from)
{
    if (block < 0)
        return;
    from.block = &s->p->memory->block[block];
    if (!s->at[block].path || strcmp(from.block->name, name) == 0)
        s->at[block] = from;
}

static void note_value(Blocks *s, const Value *v, const Op *op)
{
    note(s, value_address(v)->block, v->name,
         (LiveBlock){.loc = v->loc, .path = op->path, .type = &v->type});
}

static void note_op(Op *op, void *context)
{
    Blocks *s = context;
    const char *name = op->nouts ? op->out[0]->name : op_info(op->kind)->name;
    note(s, op->workspace, name, (LiveBlock){.loc = op->loc, .path = op->path});
    for (int i = 0; i < op->nouts; i++)
        note_value(s, op->out[i], op);
    for (int i = 0; op->kind == OP_loop && i < op->body->nargs; i++)
        note_value(s, op->body->arg[i], op);
}

static int larger_first(const void *x, const void *y)
{
    const LiveBlock *a = x, *b = y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return strcmp(a->block->name, b->block->name);
}

const LiveBlock *report_blocks(const Program *p)
{
    const MemoryPlan *m = p->memory;
    Blocks s = {p, NEW_ARRAY(p->arena, LiveBlock, m->nblocks + 1)};
    ir_walk(p->step, note_op, &s);
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        int block = pm->value ? value_address(pm->value)->block : -1;
        if (block >= 0)
            s.at[block].loc = pm->loc;
    }
    for (int i = 0; i < m->nblocks; i++) {
        Loc loc = s.at[i].loc;
        s.at[i].block = &m->block[i];
        s.at[i].bytes = block_counted_on(&m->block[i], m->peak_coordinate);
        s.at[i].where = loc.line ? diag_where(p->diag, p->arena, loc) : "";
    }
    return s.at;
}

const LiveBlock *report_live(const Program *p, int *n)
{
    const MemoryPlan *m = p->memory;
    const LiveBlock *all = report_blocks(p);
    LiveBlock *live = NEW_ARRAY(p->arena, LiveBlock, m->nblocks + 1);
    *n = 0;
    for (int i = 0; i < m->nblocks; i++) {
        const Block *b = &m->block[i];
        if (!b->host && block_bytes_on(b, m->peak_coordinate) > 0 &&
            b->first <= m->peak_time && m->peak_time <= b->last)
            live[(*n)++] = all[i];
    }
    qsort(live, (size_t)*n, sizeof *live, larger_first);
    return live;
}

/* Blocks that the plan lists; blocks of a category that --explain lists; a
 * category or block is large if it has 1/LARGE of the peak. */
enum { LISTED = 16, SHOWN = 24, LARGE = 10 };

/* "  12.00 KiB  in 3 smaller buffers" */
static void smaller(Out *o, int n, int64_t bytes)
{
    if (n)
        out_line(o, "  %10s  in %d smaller buffers",
                 bytes_text(o->arena, bytes), n);
}

void report_peak(Out *o, const Program *p)
{
    int n, width = 4;
    int64_t rest = 0;
    const LiveBlock *live = report_live(p, &n);
    for (int i = 0; i < n && i < LISTED; i++)
        if ((int)strlen(live[i].block->name) > width)
            width = (int)strlen(live[i].block->name);
    out_line(o, "\nLive at the memory peak, largest first (bytes per rank)");
    for (int i = 0; i < n; i++) {
        const Block *b = live[i].block;
        if (i < LISTED)
            out_line(o, "  %10s  %-11s %-*s  %s",
                     bytes_text(p->arena, live[i].bytes),
                     memory_class_words[b->class], width, b->name,
                     live[i].where);
        else
            rest += live[i].bytes;
    }
    smaller(o, n > LISTED ? n - LISTED : 0, rest);
}

/* ---- --explain memory ---------------------------------------------------- */

/* The op that runs at the peak: the last that begins by then. */
static const Op *op_at(const Region *r, const Liveness *l, int time)
{
    const Op *found = NULL;
    for (const Op *op = r->first; op; op = op->next)
        if (l->begin[op->id] <= time)
            found = op;
    const Op *inner = found && found->kind == OP_loop
                          ? op_at(found->body, l, time) : NULL;
    return inner ? inner : found;
}

static void when(Out *o, const Program *p)
{
    Liveness l;
    live_analyse(p, &l);
    const Op *op = op_at(p->step, &l, p->memory->peak_time);
    out_line(o, "memory: %s per rank at the peak; the tensors that are live then "
             "have %s",
             bytes_text(p->arena, p->memory->peak),
             bytes_text(p->arena, p->memory->lower_bound));
    if (op)
        out_line(o, "the peak is in the %s pass, at %s%s%s  (%s)",
                 phase_name(op->phase),
                 op->nouts ? op->out[0]->name : op_info(op->kind)->name,
                 *op->path ? " in " : "", op->path,
                 diag_where(p->diag, p->arena, op->loc));
}

static void category(Out *o, const Program *p, MemoryClass class,
                     const LiveBlock *live, int n)
{
    int shown = 0, more = 0;
    int64_t rest = 0;
    if (!p->memory->at_peak[class])
        return;
    out_line(o, "%s: %s per rank, %.1f%%", memory_class_words[class],
             bytes_text(p->arena, p->memory->at_peak[class]),
             100 * (double)p->memory->at_peak[class] /
                 (double)p->memory->peak);
    for (int i = 0; i < n; i++) {
        const Block *b = live[i].block;
        if (b->class != class)
            continue;
        if (shown++ >= SHOWN) {
            rest += live[i].bytes;
            more++;
            continue;
        }
        const Type *t = live[i].type;
        out_line(o, "  %10s  %-24s %-36s %s",
                 bytes_text(p->arena, live[i].bytes), b->name,
                 t ? type_text(p->arena, t, &p->mesh) : "", live[i].where);
    }
    smaller(o, more, rest);
}

/* ---- what would reduce it ------------------------------------------------ */

static bool is_large(const Program *p, MemoryClass class)
{
    return p->memory->at_peak[class] * LARGE >= p->memory->peak;
}

/* Bytes of parameters (or states) that no unit shards. */
static int64_t whole_bytes(const Program *p, bool states)
{
    int64_t bytes = 0;
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        int owner = pm->state_of >= 0 ? pm->state_of : i;
        if ((pm->state_of >= 0) == states && !sharding_unit(p, owner))
            bytes += type_local_bytes(&pm->type, &p->mesh);
    }
    return bytes;
}

static bool has_data_axis(const Program *p)
{
    for (int a = 0; a < p->mesh.n; a++)
        if (p->mesh.size[a] > 1 && !(p->plan.tensor_axes >> a & 1))
            return true;
    return false;
}

static void reduce_states(Out *o, const Program *p, const TargetInfo *t)
{
    int64_t whole = whole_bytes(p, false) + whole_bytes(p, true);
    if (has_data_axis(p) && whole * LARGE >= p->memory->peak)
        out_line(o, "  `fully_shard` for the modules without a unit: %s of "
                 "parameters and states are the same on all ranks of the data "
                 "axes", bytes_text(p->arena, whole));
    if (is_large(p, MEM_OPTIMIZER) && t->target == TARGET_CUDA &&
        !(p->plan.offload & OFFLOAD_OPTIMIZER))
        out_line(o, "  `offload { optimizer }`: states in host memory, %s",
                 bytes_text(p->arena, p->memory->at_peak[MEM_OPTIMIZER]));
    if (is_large(p, MEM_GATHERED))
        out_line(o, "  smaller units in `fully_shard`, `prefetch=0`, or "
                 "`reshard=true`: gathered parameters, %s",
                 bytes_text(p->arena, p->memory->at_peak[MEM_GATHERED]));
}

static void reduce_activations(Out *o, const Program *p, const Block *largest)
{
    int64_t rows = p->train.batch / mesh_group(&p->mesh, batch_axes(p));
    if (p->plan.ncheckpoints == 0)
        out_line(o, "  `checkpoint { … }` for the layers: the backward pass "
                 "recomputes what they save");
    if (rows > 1 && p->train.accumulate < 2)
        out_line(o, "  -D accumulate=N, up to %lld: activations of a part of "
                 "the batch", (long long)rows);
    if (p->train.head_chunk == 0 && largest &&
        largest->class == MEM_ACTIVATIONS && largest->bytes * LARGE >=
        p->memory->peak)
        out_line(o, "  -D head_chunk=TOKENS, if %s is the logits or their "
                 "gradient", largest->name);
}

bool explain_memory(Out *o, const Program *p, const TargetInfo *t,
                    const char *name)
{
    int n;
    if (strcmp(name, "memory") != 0)
        return false;
    const LiveBlock *live = report_live(p, &n);
    when(o, p);
    for (int c = 0; c < MEM_CLASSES; c++)
        category(o, p, (MemoryClass)c, live, n);
    if (p->memory->host)
        out_line(o, "host memory: %s per rank",
                 bytes_text(p->arena, p->memory->host));
    out_line(o, "changes that would reduce it (--device-memory SIZE tries such "
             "changes and prints their peaks)");
    reduce_states(o, p, t);
    if (is_large(p, MEM_ACTIVATIONS))
        reduce_activations(o, p, n > 0 ? live[0].block : NULL);
    out_line(o, "  a larger mesh, or a smaller batch");
    return true;
}
