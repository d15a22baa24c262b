/* report_plan.c: prints the execution plan as text (--emit plan, and --info of
 * a binary).
 *
 * The plan begins with a summary: ranks, memory, communication, work. Then come
 * every parameter with its placement, every collective with its reason, the
 * low-precision copies of parameters, and the transfers from and to host
 * memory. The other report_*.c files print the other sections: process groups,
 * streams, saved values, kernels, the blocks that are live at the memory peak.
 */
#include "codegen/machine.h"
#include "codegen/statements/statements.h"
#include "ir/analysis/flops.h"
#include "ir/options.h"
#include "ir/plan/pipeline.h"
#include "report/report.h"

#include <string.h>

/* The elements of the parameters, or of what --save-async stages, on a rank of the
 * coordinate. */
static int64_t stored_elements(const Program *p, int coordinate, bool staged)
{
    int64_t n = 0;
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        if (staged ? pm->value && pm->init.kind != INIT_COPY
                   : pm->state_of < 0 && !pm->module_state)
            n += coordinate_elements(p, &pm->type, coordinate);
    }
    return n;
}

/* On the rank that stores the most. */
static int64_t most_elements(const Program *p, bool staged)
{
    int64_t most = stored_elements(p, 0, staged);
    for (int c = 1; c < pipeline_ranks(p); c++) {
        int64_t n = stored_elements(p, c, staged);
        most = n > most ? n : most;
    }
    return most;
}

int64_t report_staging(const Program *p)
{
    return most_elements(p, true) * (int64_t)sizeof(float);
}

static void head(Out *o, const Program *p, const TargetInfo *t)
{
    out(o, "%s", p->model);
    if (p->plan.name[0])
        out(o, " under plan %s", p->plan.name);
    out(o, " on");
    UserAxis axis[MAX_AXES];
    int naxes = user_axes(p, axis);
    for (int a = 0; a < naxes; a++)
        out(o, "%s %s=%lld", a ? " x" : "", axis[a].name,
            (long long)axis[a].size);
    out(o, "%s (%lld rank%s", p->mesh.n ? "" : " no mesh",
        (long long)mesh_ranks(&p->mesh), mesh_ranks(&p->mesh) == 1 ? "" : "s");
    if (p->mesh.node)
        out(o, ", %lld per node", (long long)p->mesh.node);
    out(o, "), %s, %s\n\n", dtype_name(p->train.precision),
        t->target == TARGET_CPU ? "CPU" : "CUDA");
}

/* ---- summary ------------------------------------------------------------- */

static void schedule(Out *o, Arena *a, const LrSchedule *s)
{
    static const char *const curve[] = {[DECAY_LINEAR] = "a line",
                                        [DECAY_SQRT] = "1 minus a square root",
                                        [DECAY_COSINE] = "half a cosine"};
    const char *end = "the run's last step";
    if (s->warmup > 0)
        out_line(o, "            lr warms up for %lld step%s",
                 (long long)s->warmup, s->warmup == 1 ? "" : "s");
    for (int i = 0; i < s->after.n; i++)
        out_line(o, "            lr is %s after step %.0f",
                 double_text(a, s->rates.v[i]), s->after.v[i]);
    if (s->kind == SCHEDULE_CONSTANT || s->kind == SCHEDULE_PIECEWISE)
        return;
    if (s->steps > 0)
        end = arena_printf(a, "step %lld", (long long)s->steps);
    out_line(o, "            lr falls along %s to %s at %s%s",
             curve[schedule_shape(s)], double_text(a, s->min_lr), end,
             s->kind != SCHEDULE_WSD ? ""
             : s->decay > 0 ? arena_printf(a, ", in %lld steps", (long long)s->decay)
                            : ", in the last tenth of the steps");
}

static void training(Out *o, const Program *p)
{
    Arena *a = p->arena;
    const Train *t = &p->train;
    out(o, "optimizer   %s, lr %s", option_word(OPTION_optimizer, t->optimizer),
        double_text(a, t->lr));
    if (t->momentum > 0)
        out(o, ", momentum %s", double_text(a, t->momentum));
    out_line(o, "%s", weight_decay_text(p));
    report_param_groups(o, p);
    if (t->clip > 0)
        out_line(o, "            gradients are clipped to a norm of %s",
                 double_text(a, t->clip));
    if (t->loss_scale > 0)
        out_line(o, "            the loss is scaled by %s at first",
                 double_text(a, t->loss_scale));
    schedule(o, a, &t->schedule);
    if (t->deterministic)
        out_line(o, "            every run computes the same bits");
}

/* "head        4 chunks of 512 tokens (output)": the loop that the pass chunk
 * has created, possibly inside other loops. */
static void head_chunks(Out *o, const Program *p, const Region *r)
{
    int64_t chunks = p->train.head_chunk > 0 ? 1 : 0;
    while (chunks) {
        const Op *loop = r->first, *logits = NULL;
        for (const Op *op = r->first; op; op = op->next)
            if (op_is_einsum(op->kind) && op->phase == PH_FORWARD && !logits)
                logits = op;
        while (loop && !loop_has_forward_and_backward(loop))
            loop = loop->next;
        if (loop) {
            chunks *= *loop->path ? loop_trips(loop) : 1;
            r = loop->body;
            continue;
        }
        const Type *t = logits ? &logits->out[0]->type : NULL;
        if (chunks > 1 && t)
            out_line(o, "head        %lld chunks of %lld tokens (%s)",
                     (long long)chunks,
                     (long long)(type_local_elements(t, &p->mesh) /
                                 type_local_dim(t, &p->mesh, t->ndim - 1)),
                     r->owner->path);
        return;
    }
}

static void summary(Out *o, const Program *p, const TargetInfo *t)
{
    Arena *a = p->arena;
    const MemoryPlan *m = p->memory;
    double all = 0;
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        if (pm->state_of < 0 && !pm->module_state)
            all += (double)type_elements(&pm->type);
    }
    out_line(o, "parameters  %s in the model, %s per rank", count_text(a, all),
             count_text(a, (double)most_elements(p, false)));
    int64_t tokens = program_sample_tokens(p);
    out_line(o, tokens > 1 ? "batch       %lld sequences of %lld, whole mesh"
                           : "batch       %lld, whole mesh",
             (long long)p->train.batch, (long long)tokens);
    if (p->train.accumulate > 1)
        out_line(o, "            in %lld microbatches, gradients accumulated "
                 "in f32", (long long)p->train.accumulate);
    head_chunks(o, p, p->step);
    training(o, p);
    if (t->cpu)
        out_line(o, "cpu         %s, %d thread%s per rank", t->cpu->name,
                 t->threads, t->threads == 1 ? "" : "s");
    out_line(o, "memory      %s per rank at the peak; the tensors that are live "
             "then have %s", bytes_text(a, m->peak),
             bytes_text(a, m->lower_bound));
    for (int c = 0; c < MEM_CLASSES; c++)
        if (m->at_peak[c])
            out_line(o, "            %-11s %10s", memory_class_words[c],
                     bytes_text(a, m->at_peak[c]));
    if (m->host)
        out_line(o, "            %s per rank in host memory",
                 bytes_text(a, m->host));
    out_line(o, "            %s per rank of staging in host memory, only with "
             "--save-async", bytes_text(a, report_staging(p)));
    report_experts(o, p, "");
    double forward = program_flops(p, PH_FORWARD);
    double backward = program_flops(p, PH_BACKWARD);
    out_line(o, "work        %sflop per step, whole mesh (forward %s, backward %s)",
             count_text(a, forward + backward +
                               program_flops(p, PH_OPTIMIZER)),
             count_text(a, forward), count_text(a, backward));
    double recomputed = program_flops_recomputed(p);
    if (recomputed > 0)
        out_line(o,
                 "            %sflop of these recompute values of the "
                 "forward pass",
                 count_text(a, recomputed));
}

/* ---- lists --------------------------------------------------------------- */

/* " of [257, 64]": the shape without its padding. */
static const char *true_shape(const Program *p, const Param *pm)
{
    Type t = param_shape(pm);
    if (!param_is_padded(pm))
        return "";
    const char *text = " of [";
    for (int d = 0; d < t.ndim; d++)
        text = arena_printf(p->arena, "%s%s%lld", text, d ? ", " : "",
                            (long long)t.dim[d]);
    return arena_printf(p->arena, "%s]", text);
}

static void plan_params(Out *o, const Program *p)
{
    Arena *a = p->arena;
    int width = 4;
    for (int i = 0; i < p->param.n; i++)
        if (p->param.at[i].state_of < 0 &&
            (int)strlen(p->param.at[i].name) > width)
            width = (int)strlen(p->param.at[i].name);
    out_line(o, "\nParameters (global shape, placement on each axis)");
    for (int i = 0; i < p->param.n; i++) {
        const Param *pm = &p->param.at[i];
        if (pm->state_of >= 0)
            continue;
        const char *place = user_placements(p, &pm->type);
        const char *group = param_group_text(p, pm);
        out_line(o, "  %-*s  %-34s %s%s%s%s%s%s%s%s  %s", width, pm->name,
                 arena_printf(a, "%s%s", type_text(a, &pm->type, &p->mesh),
                              true_shape(p, pm)),
                 place, *place ? " " : "", pm->unit ? "unit " : "",
                 pm->unit ? pm->unit : "",
                 pm->gathered && !pm->shared ? " stays gathered" : "",
                 pm->module_state ? " state" : pm->trainable ? "" : " frozen", *group ? " " : "", group,
                 diag_where(p->diag, a, pm->loc));
    }
}

const char *report_size(Arena *a, const CollectiveInfo *c)
{
    return c->in_place ? "in place" : bytes_text(a, c->bytes);
}

static bool some_in_place(const CollectiveInfo *c, int n)
{
    for (int i = 0; i < n; i++)
        if (c[i].in_place)
            return true;
    return false;
}

static void plan_collectives(Out *o, const Program *p, const CollectiveInfo *c,
                             int n)
{
    Arena *a = p->arena;
    Phase phase = PH_INIT;
    int width = 4;
    for (int i = 0; i < n; i++)
        if ((int)strlen(c[i].axis) > width)
            width = (int)strlen(c[i].axis);
    out_line(o, "\nCollectives, in order (calls per step x bytes per call, on "
                "each rank%s)", some_in_place(c, n)
                ? ";\nin place: the ranks share the memory, no data is copied"
                : "");
    for (int i = 0; i < n; i++) {
        const Op *op = c[i].op;
        if (!i || op->phase != phase)
            out_line(o, " %s", phase_name(op->phase));
        phase = op->phase;
        out_line(o, "  %-5s %-14s %-*s %4lld x %-11s %s", c[i].label,
                 c[i].kind, width, c[i].axis, (long long)c[i].count,
                 report_size(a, &c[i]), c[i].tensor);
        const char *link = collective_link(p, &c[i]);
        out_line(o, "        %s%s%s%s%s  (%s)",
                 op->why.text ? op->why.text : "", *link ? ", " : "", link,
                 c[i].dtype == DT_F32 ? "" : ", in ",
                 c[i].dtype == DT_F32 ? "" : dtype_name(c[i].dtype),
                 diag_where(p->diag, a, statement_loc(op)));
    }
    if (!n)
        out_line(o, "  none");
}

/* Lists the low-precision copies of parameters, which stay in memory between
 * steps. */
static void copies(Out *o, const Program *p)
{
    bool head = false;
    for (int i = 0; i < p->param.n; i++) {
        const Param *copy = &p->param.at[i];
        if (copy->init.kind != INIT_COPY)
            continue;
        if (!head)
            out_line(o,
                     "\nCopies of parameters in %s, written by the optimizer "
                     "(bytes per rank)",
                     dtype_name(p->train.precision));
        head = true;
        out_line(o, "  %-32s %-34s %s", p->param.at[copy->state_of].name,
                 type_text(p->arena, &copy->type, &p->mesh),
                 bytes_text(p->arena, type_local_bytes(&copy->type, &p->mesh)));
    }
}

/* Lists the copies between host memory and the device. */
static void transfers(Out *o, const Program *p)
{
    int n;
    const TransferInfo *x = transfers_of(p, &n);
    if (n)
        out_line(o,
                 "\nFrom and to host memory (copies per step x bytes per "
                 "copy, on each rank)  (%s)",
                 diag_where(p->diag, p->arena, p->plan.offload_loc));
    for (int i = 0; i < n; i++) {
        if (!i || x[i].op->phase != x[i - 1].op->phase)
            out_line(o, " %s", phase_name(x[i].op->phase));
        out_line(o, "  %-5s %-10s %4lld x %-11s %s", x[i].label,
                 x[i].to_host ? "to host" : "to device", (long long)x[i].count,
                 bytes_text(p->arena, x[i].bytes), x[i].param->name);
    }
}

void report_plan(Out *o, const Program *p, const TargetInfo *t, const Forecast *f)
{
    int n;
    CollectiveInfo *c = collectives_of(p, &n);
    head(o, p, t);
    summary(o, p, t);
    report_traffic(o, p, "traffic", 12, "step");
    if (!n)
        out_line(o, "traffic     none");
    plan_params(o, p);
    report_pipeline(o, p);
    report_context(o, p);
    plan_collectives(o, p, c, n);
    report_groups(o, p);
    report_streams(o, p, c, n);
    copies(o, p);
    report_saved(o, p);
    transfers(o, p);
    report_side(o, p);
    if (t->target == TARGET_CUDA) {
        report_matmuls(o, p);
        report_kernels(o, p);
    }
    report_peak(o, p);
    if (f)
        report_time(o, p, f);
}
