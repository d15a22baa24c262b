/* report_peak.c: finds the blocks of memory that are live at the memory peak,
 * and the value that each was created for. It lists them in the plan with the
 * value's line of the model. */
#include "report/report.h"
#include "ir/analysis/alias.h"

#include <stdlib.h>
#include <string.h>

static int larger_first(const void *x, const void *y)
{
    const Block *a = *(const Block *const *)x, *b = *(const Block *const *)y;
    if (a->counted != b->counted)
        return a->counted < b->counted ? 1 : -1;
    return strcmp(a->name, b->name);
}

const Block **report_alive(const Program *p, int *n)
{
    const MemoryPlan *m = p->memory;
    const Block **live = NEW_ARRAY(p->arena, const Block *, m->nblocks + 1);
    *n = 0;
    for (int i = 0; i < m->nblocks; i++)
        if (!m->block[i].host && m->block[i].bytes > 0 &&
            m->block[i].first <= m->peak_time &&
            m->peak_time <= m->block[i].last)
            live[(*n)++] = &m->block[i];
    qsort(live, (size_t)*n, sizeof *live, larger_first);
    return live;
}

/* ---- lines --------------------------------------------------------------- */

/* Sources by block. A block that several values share has the source of the
 * value whose name it has. */
typedef struct Sources {
    const Program *p;
    BlockSource *at;
} Sources;

static void note(Sources *s, int block, const char *name, BlockSource from)
{
    if (block < 0)
        return;
    const Block *b = &s->p->memory->block[block];
    if (!s->at[block].path || strcmp(b->name, name) == 0)
        s->at[block] = from;
}

static void note_value(Sources *s, const Value *v, const Op *op)
{
    note(s, value_address(v)->block, v->name,
         (BlockSource){v->loc, op->path, &v->type});
}

static void note_op(Op *op, void *context)
{
    Sources *s = context;
    const char *name = op->nouts ? op->out[0]->name : op_info(op->kind)->name;
    note(s, op->workspace, name,
         (BlockSource){op->loc, op->path, NULL});
    for (int i = 0; i < op->nouts; i++)
        note_value(s, op->out[i], op);
    for (int i = 0; op->kind == OP_loop && i < op->body->nargs; i++)
        note_value(s, op->body->arg[i], op);
}

const BlockSource *report_block_sources(const Program *p)
{
    Sources s = {p, NEW_ARRAY(p->arena, BlockSource, p->memory->nblocks + 1)};
    ir_walk(p->step, note_op, &s);
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        int block = pm->value ? value_address(pm->value)->block : -1;
        if (block >= 0)
            s.at[block].loc = pm->loc;
    }
    return s.at;
}

const char *report_block_where(const Program *p, const BlockSource *sources,
                               const Block *b)
{
    Loc loc = sources[b - p->memory->block].loc;
    return loc.line ? diag_where(p->diag, p->arena, loc) : "";
}

/* ---- the section --------------------------------------------------------- */

void report_peak(Out *o, const Program *p)
{
    enum { SHOWN = 16 };
    int n, width = 4;
    const Block **live = report_alive(p, &n);
    const BlockSource *from = report_block_sources(p);
    for (int i = 0; i < n && i < SHOWN; i++)
        if ((int)strlen(live[i]->name) > width)
            width = (int)strlen(live[i]->name);
    out_line(o, "\nLive at the memory peak, largest first (bytes per rank)");
    for (int i = 0; i < n && i < SHOWN; i++)
        out_line(o, "  %10s  %-11s %-*s  %s",
                 bytes_text(p->arena, live[i]->counted),
                 memory_class_words[live[i]->class], width, live[i]->name,
                 report_block_where(p, from, live[i]));
    if (n > SHOWN) {
        int64_t rest = 0;
        for (int i = SHOWN; i < n; i++)
            rest += live[i]->counted;
        out_line(o, "  %10s  in %d smaller buffers",
                 bytes_text(p->arena, rest), n - SHOWN);
    }
}
