/* report_peak.c: the blocks that are live at the memory peak, a part of the
 * plan, with the line of the model that each was made for.
 */
#include "codegen/report.h"

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

/* Locations by block. A block that several values share has that of the value
 * whose name it has. */
typedef struct Lines {
    const Program *p;
    Loc *loc;
} Lines;

static void note(Lines *l, int block, const char *name, Loc loc)
{
    if (block < 0 || !loc.line)
        return;
    const Block *b = &l->p->memory->block[block];
    if (!l->loc[block].line || strcmp(b->name, name) == 0)
        l->loc[block] = loc;
}

static void note_value(Lines *l, const Value *v)
{
    note(l, l->p->memory->value[v->id].block, v->name, v->loc);
}

static void note_op(Op *op, void *context)
{
    Lines *l = context;
    const char *name = op->nouts ? op->out[0]->name : op_info(op->kind)->name;
    note(l, l->p->memory->workspace[op->id], name, op->loc);
    for (int i = 0; i < op->nouts; i++)
        note_value(l, op->out[i]);
    for (int i = 0; op->kind == OP_loop && i < op->body->nargs; i++)
        note_value(l, op->body->arg[i]);
}

const Loc *report_block_locs(const Program *p)
{
    Lines l = {p, NEW_ARRAY(p->arena, Loc, p->memory->nblocks + 1)};
    ir_walk(p->step, note_op, &l);
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        int block = pm->value ? p->memory->value[pm->value->id].block : -1;
        if (block >= 0)
            l.loc[block] = pm->loc;
    }
    return l.loc;
}

const char *report_block_where(const Program *p, const Loc *locs,
                               const Block *b)
{
    Loc loc = locs[b - p->memory->block];
    return loc.line ? diag_where(p->diag, p->arena, loc) : "";
}

/* ---- the section --------------------------------------------------------- */

void report_peak(Out *o, const Program *p)
{
    enum { SHOWN = 16 };
    int n, width = 4;
    const Block **live = report_alive(p, &n);
    const Loc *locs = report_block_locs(p);
    for (int i = 0; i < n && i < SHOWN; i++)
        if ((int)strlen(live[i]->name) > width)
            width = (int)strlen(live[i]->name);
    out_line(o, "");
    out_line(o, "Live at the memory peak, largest first (bytes per rank)");
    for (int i = 0; i < n && i < SHOWN; i++)
        out_line(o, "  %10s  %-11s %-*s  %s",
                 report_bytes(p->arena, live[i]->counted),
                 memory_class_name(live[i]->class), width, live[i]->name,
                 report_block_where(p, locs, live[i]));
    if (n > SHOWN) {
        int64_t rest = 0;
        for (int i = SHOWN; i < n; i++)
            rest += live[i]->counted;
        out_line(o, "  %10s  in %d smaller blocks",
                 report_bytes(p->arena, rest), n - SHOWN);
    }
}
