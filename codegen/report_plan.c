/* report_plan.c: the plan for people (--emit plan, and --info of a binary).
 *
 * First what fits on a card: ranks, memory, communication, work. Then every
 * parameter with its place, every collective with its reason, and who lives
 * at the memory peak.
 */
#include "codegen/report.h"
#include "ir/flops.h"

#include <stdlib.h>
#include <string.h>

const char *report_bytes(Arena *a, int64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    int k = 0;
    while (x >= 1024 && k < 4) {
        x /= 1024;
        k++;
    }
    return arena_printf(a, k ? "%.2f %s" : "%.0f %s", x, unit[k]);
}

static const char *count_text(Arena *a, double x)
{
    static const char *const unit[] = {"", " K", " M", " G", " T", " P",
                                       " E"};
    int k = 0;
    while (x >= 1000 && k < 6) {
        x /= 1000;
        k++;
    }
    return arena_printf(a, k ? "%.2f%s" : "%.0f%s", x, unit[k]);
}

static void head(Out *o, const Program *p, const TargetInfo *t)
{
    out(o, "%s", p->model);
    if (p->plan.name[0])
        out(o, " under plan %s", p->plan.name);
    out(o, " on");
    for (int a = 0; a < p->mesh.n; a++)
        out(o, "%s %s=%lld", a ? " x" : "", p->mesh.name[a],
            (long long)p->mesh.size[a]);
    out(o, "%s (%lld rank%s), %s, %s\n\n", p->mesh.n ? "" : " no mesh",
        (long long)mesh_ranks(&p->mesh),
        mesh_ranks(&p->mesh) == 1 ? "" : "s", dtype_name(p->train.precision),
        t->target == TARGET_CPU ? "CPU" : "CUDA");
}

static void summary(Out *o, const Program *p)
{
    Arena *a = p->arena;
    const MemoryPlan *m = p->memory;
    double all = 0, local = 0;
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        if (pm->state_of >= 0)
            continue;
        all += (double)type_elements(&pm->type);
        local += (double)type_local_elements(&pm->type, &p->mesh);
    }
    out_line(o, "parameters  %s, %s on a rank", count_text(a, all),
             count_text(a, local));
    bool sequences = false;
    for (int i = 0; i < p->input.n; i++)
        sequences |= p->input.at[i].below > 0;
    out_line(o, sequences ? "batch       %lld sequences of %lld"
                          : "batch       %lld",
             (long long)p->train.batch, (long long)p->train.seq);
    out_line(o, "memory      %s a rank at the peak, lower bound %s (%.3f)",
             report_bytes(a, m->peak), report_bytes(a, m->lower_bound),
             m->lower_bound ? (double)m->peak / (double)m->lower_bound : 1.0);
    for (int c = 0; c < MEM_CLASSES; c++)
        if (m->at_peak[c])
            out_line(o, "            %-11s %10s", memory_class_name(c),
                     report_bytes(a, m->at_peak[c]));
    double forward = program_flops(p, PH_FORWARD);
    double backward = program_flops(p, PH_BACKWARD);
    out_line(o, "work        %sflop a step (forward %s, backward %s)",
             count_text(a, forward + backward +
                               program_flops(p, PH_OPTIMIZER)),
             count_text(a, forward), count_text(a, backward));
}

/* Calls and bytes by axis set, in order of first appearance. */
static void traffic(Out *o, const Program *p, const CollectiveInfo *c, int n)
{
    uint32_t seen[64];
    int nseen = 0;
    for (int i = 0; i < n; i++) {
        bool known = false;
        for (int k = 0; k < nseen; k++)
            known |= seen[k] == c[i].axes;
        if (known || nseen == 64)
            continue;
        seen[nseen++] = c[i].axes;
        int64_t calls = 0, bytes = 0;
        for (int j = i; j < n; j++)
            if (c[j].axes == c[i].axes) {
                calls += c[j].count;
                bytes += c[j].count * c[j].bytes;
            }
        out_line(o, "%s%s: %lld calls, %s a step",
                 nseen == 1 ? "traffic     " : "            ", c[i].axis,
                 (long long)calls, report_bytes(p->arena, bytes));
    }
    if (!n)
        out_line(o, "traffic     none");
}

static void params(Out *o, const Program *p)
{
    Arena *a = p->arena;
    int width = 4;
    for (int i = 0; i < p->param.n; i++)
        if (p->param.at[i].state_of < 0 &&
            (int)strlen(p->param.at[i].name) > width)
            width = (int)strlen(p->param.at[i].name);
    out_line(o, "");
    out_line(o, "Parameters");
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        if (pm->state_of >= 0)
            continue;
        const char *place = "";
        for (int k = 0; k < p->mesh.n; k++)
            place = arena_printf(a, "%s%s=%s ", place, p->mesh.name[k],
                                 report_placement(p, &pm->type, k));
        out_line(o, "  %-*s  %-34s %s%s%s  %s", width, pm->name,
                 type_text(a, &pm->type, &p->mesh), place,
                 pm->unit ? "unit " : "", pm->unit ? pm->unit : "",
                 diag_where(p->diag, a, pm->loc));
    }
}

static void collectives(Out *o, const Program *p, const CollectiveInfo *c,
                        int n)
{
    Arena *a = p->arena;
    Phase phase = PH_INIT;
    int width = 4;
    for (int i = 0; i < n; i++)
        if ((int)strlen(c[i].axis) > width)
            width = (int)strlen(c[i].axis);
    out_line(o, "");
    out_line(o, "Collectives, in order (calls a step x bytes a call)");
    for (int i = 0; i < n; i++) {
        const Op *op = c[i].op;
        if (!i || op->phase != phase)
            out_line(o, " %s", phase_name(op->phase));
        phase = op->phase;
        Loc loc = op->why.loc.line ? op->why.loc : op->loc;
        out_line(o, "  %-5s %-14s %-*s %4lld x %-11s %s", c[i].label,
                 c[i].kind, width, c[i].axis, (long long)c[i].count,
                 report_bytes(a, c[i].bytes), c[i].tensor);
        out_line(o, "        %s  (%s)", op->why.text ? op->why.text : "",
                 diag_where(p->diag, a, loc));
    }
    if (!n)
        out_line(o, "  none");
}

/* ---- saved for the backward pass ----------------------------------------- */

static bool read_by(const Region *r, const Value *v, Phase phase)
{
    for (const Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nargs; i++)
            if (op->phase == phase && live_root(op->arg[i]) == v)
                return true;
    return false;
}

static void saved(Out *o, const Program *p)
{
    out_line(o, "");
    out_line(o, "Saved by the forward pass for the backward pass");
    int n = 0;
    for (const Op *op = p->step->first; op; op = op->next) {
        if (op->phase != PH_FORWARD || live_is_view(op->kind) ||
            op->kind == OP_param || op->kind == OP_input)
            continue;
        for (int i = 0; i < op->nouts; i++) {
            const Value *v = op->out[i];
            if (!read_by(p->step, v, PH_BACKWARD))
                continue;
            n++;
            out_line(o, "  %-28s %-34s %s", v->name,
                     type_text(p->arena, &v->type, &p->mesh),
                     report_bytes(p->arena,
                                type_local_bytes(&v->type, &p->mesh)));
        }
    }
    if (!n)
        out_line(o, "  nothing");
}

/* ---- the peak ------------------------------------------------------------ */

static int larger_first(const void *x, const void *y)
{
    const Block *a = *(const Block *const *)x, *b = *(const Block *const *)y;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return strcmp(a->name, b->name);
}

static void at_peak(Out *o, const Program *p)
{
    enum { SHOWN = 16 };
    const MemoryPlan *m = p->memory;
    const Block **live = NEW_ARRAY(p->arena, const Block *, m->nblocks + 1);
    int n = 0;
    for (int i = 0; i < m->nblocks; i++)
        if (m->block[i].first <= m->peak_time &&
            m->peak_time <= m->block[i].last)
            live[n++] = &m->block[i];
    qsort(live, (size_t)n, sizeof *live, larger_first);
    out_line(o, "");
    out_line(o, "Alive at the memory peak, largest first");
    for (int i = 0; i < n && i < SHOWN; i++)
        out_line(o, "  %10s  %-11s %s", report_bytes(p->arena, live[i]->bytes),
                 memory_class_name(live[i]->class), live[i]->name);
    if (n > SHOWN) {
        int64_t rest = 0;
        for (int i = SHOWN; i < n; i++)
            rest += live[i]->bytes;
        out_line(o, "  %10s  in %d smaller ones",
                 report_bytes(p->arena, rest), n - SHOWN);
    }
}

void report_plan(Out *o, const Program *p, const TargetInfo *t)
{
    int n;
    CollectiveInfo *c = collectives_of(p, &n);
    head(o, p, t);
    summary(o, p);
    traffic(o, p, c, n);
    params(o, p);
    collectives(o, p, c, n);
    saved(o, p);
    at_peak(o, p);
}
