/* explain_memory.c: explains the memory peak (--explain memory): its time, the
 * blocks that are live then, by category and with their lines of the model, and
 * the changes of the plan that reduce the large categories.
 */
#include "report/explain.h"
#include "ir/units.h"
#include "passes/schedule/liveness.h"

#include <string.h>

enum { SHOWN = 24, LARGE = 10 }; /* blocks of a category; large: 1/LARGE of all */

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
                     const Block **live, int n, const BlockSource *from)
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
        if (live[i]->class != class)
            continue;
        if (shown++ >= SHOWN) {
            rest += live[i]->counted;
            more++;
            continue;
        }
        const BlockSource *s = &from[live[i] - p->memory->block];
        out_line(o, "  %10s  %-24s %-36s %s",
                 bytes_text(p->arena, live[i]->counted), live[i]->name,
                 s->type ? type_text(p->arena, s->type, &p->mesh) : "",
                 s->loc.line ? diag_where(p->diag, p->arena, s->loc) : "");
    }
    if (more)
        out_line(o, "  %10s  in %d smaller buffers",
                 bytes_text(p->arena, rest), more);
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
    int64_t rows = p->train.batch;
    for (int a = 0; a < p->mesh.n; a++)
        if (!(p->plan.tensor_axes >> a & 1))
            rows /= p->mesh.size[a];
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
    const Block **live = report_alive(p, &n);
    const BlockSource *from = report_block_sources(p);
    when(o, p);
    for (int c = 0; c < MEM_CLASSES; c++)
        category(o, p, (MemoryClass)c, live, n, from);
    if (p->memory->host)
        out_line(o, "host memory: %s per rank",
                 bytes_text(p->arena, p->memory->host));
    out_line(o, "changes that would reduce it (--device-memory SIZE tries such "
             "changes and prints their peaks)");
    reduce_states(o, p, t);
    if (is_large(p, MEM_ACTIVATIONS))
        reduce_activations(o, p, n > 0 ? live[0] : NULL);
    out_line(o, "  a larger mesh, or a smaller batch");
    return true;
}
