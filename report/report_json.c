/* report_json.c: prints the plan for other tools (--emit json).
 *
 * Other tools rely on the field names and their meanings. "units" states what
 * each number measures: bytes, flop, ranks …, of one rank or of the mesh, per
 * call or per step.
 *
 *   "units": { "collectives.bytes": {"unit": "bytes", "of": "rank",
 *                                    "per": "call"}, … }
 *
 * `of` is "rank" for one rank, or "mesh" for the whole mesh (all ranks
 * together, each element or operation of the model counted once). `per` is
 * "call", "step", "run" (of a side program), or null for a quantity that does
 * not depend on time. A stack of layers is
 * one entry with the number of layers as `count`, so that the output does not
 * grow with depth.
 */
#include "base/text.h"
#include "base/version.h"
#include "codegen/machine.h"
#include "codegen/numbers.h"
#include "ir/analysis/flops.h"
#include "report/json.h"
#include "report/report.h"

#include <string.h>

/* ---- units --------------------------------------------------------------- */

typedef struct Measure {
    const char *key, *unit, *of, *per;
} Measure;

static const char rank[] = "rank", whole[] = "mesh";

static const Measure measure[] = {
    {"mesh.size", "ranks", whole, NULL},
    {"params.shape", "elements of a layer", whole, NULL},
    {"params.local_elements", "elements of a layer", rank, NULL},
    {"params.count", "layers", whole, NULL},
    {"params.lr_factor", "1", whole, NULL},
    {"params.weight_decay", "1", whole, NULL},
    {"collectives.group_size", "ranks", whole, NULL},
    {"collectives.bytes", "bytes", rank, "call"},
    {"collectives.sent", "bytes", rank, "call"},
    {"collectives.count", "calls", rank, "step"},
    {"traffic.calls", "calls", rank, "step"},
    {"traffic.bytes", "bytes", rank, "step"},
    {"traffic.sent", "bytes", rank, "step"},
    {"groups.size", "ranks", whole, NULL},
    {"groups.count", "groups", whole, NULL},
    {"groups.axes.size", "ranks", whole, NULL},
    {"groups.axes.stride", "ranks", whole, NULL},
    {"work.bytes", "bytes", rank, "call"},
    {"work.flops", "flop", rank, "call"},
    {"work.count", "calls", rank, "step"},
    {"work.calls", "products", rank, "call"},
    {"work.batch", "matrices", rank, "call"},
    {"work.m", "elements", rank, "call"},
    {"work.n", "elements", rank, "call"},
    {"work.k", "elements", rank, "call"},
    {"memory.peak", "bytes", rank, NULL},
    {"memory.lower_bound", "bytes", rank, NULL},
    {"memory.host", "bytes", rank, NULL},
    {"memory.staging", "bytes", rank, NULL},
    {"experts.shards", "shards of the experts", whole, NULL},
    {"experts.rows", "rows of a shard in a group of tokens", whole, NULL},
    {"experts.choices", "choices of a group of tokens", whole, NULL},
    {"experts.rounds", "rounds", whole, NULL},
    {"experts.limit", "choices of a sequence", whole, NULL},
    {"at_peak.bytes", "bytes", rank, NULL},
    {"transfers.bytes", "bytes", rank, "call"},
    {"transfers.count", "calls", rank, "step"},
    {"warnings.ops", "operations of the program", rank, NULL},
    {"warnings.calls", "calls", rank, "step"},
    {"warnings.bytes", "bytes", rank, "step"},
    {"warnings.flops", "flop", rank, "step"},
    {"warnings.redundant_flops", "flop", rank, "step"},
    {"hints.lines", "lines of the plan", whole, NULL},
    {"hints.sent", "bytes", rank, "step"},
    {"hints.sent_after", "bytes", rank, "step"},
    {"hints.flops", "flop", rank, "step"},
    {"hints.flops_after", "flop", rank, "step"},
    {"flops.forward", "flop", whole, "step"},
    {"flops.backward", "flop", whole, "step"},
    {"flops.optimizer", "flop", whole, "step"},
    {"recomputed_flops", "flop", whole, "step"},
    {"model_flops", "flop", whole, "step"},
};

/* Fields with --node-size. */
static const Measure nodes[] = {
    {"node_size", "ranks", whole, NULL},
    {"groups.nodes", "nodes", whole, NULL},
    {"collectives.sent_between_nodes", "bytes", rank, "call"},
};

/* Fields with --machine. */
static const Measure times[] = {
    {"time.step_seconds", "s", rank, "step"},
    {"time.mfu", "1", rank, "step"},
    {"time.exposed_seconds", "s", rank, "step"},
    {"time.spread", "1", rank, NULL},
    {"time.between_seconds", "s", rank, "step"},
    {"time.bubble_seconds", "s", rank, "step"},
    {"time.by_phase", "s", rank, "step"},
    {"time.by_class", "s", rank, "step"},
    {"time.statements.alone_seconds", "s", rank, "call"},
    {"time.statements.run_seconds", "s", rank, "step"},
    {"time.statements.exposed_seconds", "s", rank, "step"},
    {"time.statements.slowed_seconds", "s", rank, "step"},
    {"time.losses.seconds", "s", rank, "step"},
};

/* Fields of a side program, after its name. */
static const Measure forward[] = {
    {"peak", "bytes", rank, NULL},
    {"more", "bytes", rank, NULL},
    {"flops", "flop", whole, "run"},
    {"kernels", "calls", rank, "run"},
    {"matmuls", "calls", rank, "run"},
    {"tensors.shape", "elements", whole, "run"},
    {"collectives.bytes", "bytes", rank, "call"},
    {"collectives.count", "calls", rank, "run"},
};

static void entry(Out *o, const Measure *m, bool first)
{
    out(o, "%s\n    ", first ? "" : ",");
    json_name(o, m->key);
    out(o, "{");
    json_text(o, "unit", m->unit);
    json_text(o, "of", m->of);
    json_text(o, "per", m->per);
    out(o, "}");
}

/* The numbers among the settings. */
static void setting_measures(Out *o)
{
    for (const Option *of = option_rows; of < option_rows + OPTIONS; of++) {
        const char *name = option_json_name(o->arena, of);
        bool number = of->takes == TAKES_INT || option_is_number(of) ||
                      option_is_list(of);
        Measure m = {arena_printf(o->arena, "settings.%s", name ? name : ""),
                     of->unit ? of->unit : "1", whole, NULL};
        if (name && number)
            entry(o, &m, false);
    }
}

static void measures(Out *o, const Program *p, bool timed)
{
    out(o, "  \"units\": {");
    for (size_t i = 0; i < sizeof measure / sizeof *measure; i++)
        entry(o, &measure[i], i == 0);
    for (size_t i = 0; p->mesh.node && i < sizeof nodes / sizeof *nodes; i++)
        entry(o, &nodes[i], false);
    for (size_t i = 0; timed && i < sizeof times / sizeof *times; i++)
        entry(o, &times[i], false);
    setting_measures(o);
    for (int c = 0; c < MEM_CLASSES; c++) {
        Measure m = {arena_printf(p->arena, "memory.%s", memory_class_words[c]),
                     "bytes", rank, NULL};
        entry(o, &m, false);
    }
    for (int k = 0; k < PURPOSES; k++)
        for (size_t i = 0; p->side[k] && i < sizeof forward / sizeof *forward;
             i++) {
            Measure m = forward[i];
            m.key = arena_printf(p->arena, "%s.%s", program_word(p->side[k]),
                                 m.key);
            if (p->side[k]->output.n ||
                !starts_with(forward[i].key, "tensors"))
                entry(o, &m, false);
        }
    out(o, "\n  },\n");
}

/* ---- parts --------------------------------------------------------------- */

static void mesh(Out *o, const Program *p)
{
    UserAxis axis[MAX_AXES];
    int n = user_axes(p, axis);
    out(o, "  \"mesh\": [");
    for (int a = 0; a < n; a++) {
        out(o, "%s{", a ? ", " : "");
        json_text(o, "name", axis[a].name);
        json_number(o, "size", axis[a].size);
        out(o, "}");
    }
    out(o, "],\n");
    if (p->mesh.node)
        out(o, "  \"node_size\": %lld,\n", (long long)p->mesh.node);
}

static void placement(Out *o, const Program *p, const Type *t)
{
    json_name(o, "placement");
    out(o, "{");
    UserAxis axis[MAX_AXES];
    int n = user_axes(p, axis);
    for (int a = 0; a < n; a++)
        json_text(o, axis[a].name, user_axis_placement(p, t, &axis[a]));
    out(o, "}");
}

static void param(Out *o, const Program *p, const Param *pm)
{
    int64_t count = type_layers(&pm->type);
    out(o, "    {");
    json_text(o, "name", pm->name);
    Type type = param_shape(pm);
    json_shape(o, type.ndim, type.dim);
    json_text(o, "dtype", dtype_name(pm->type.dtype));
    placement(o, p, &pm->type);
    json_number(o, "local_elements",
                type_local_elements(&pm->type, &p->mesh) / count);
    json_number(o, "count", count);
    json_text(o, "unit", pm->unit);
    json_text(o, option_name(OPTION_optimizer),
              option_word(OPTION_optimizer, param_optimizer(&p->train, pm)));
    json_real(o, option_name(OPTION_lr_factor), param_lr_factor(pm));
    json_real(o, option_name(OPTION_group_decay),
              param_weight_decay(&p->train, pm));
    json_text(o, "source", diag_where(p->diag, p->arena, pm->loc));
    out(o, "}");
}

static void json_params(Out *o, const Program *p)
{
    const char *separator = "\n";
    out(o, "  \"params\": [");
    for (int i = 0; i < p->param.n; i++) {
        if (p->param.at[i].state_of >= 0)
            continue;
        out(o, "%s", separator);
        param(o, p, &p->param.at[i]);
        separator = ",\n";
    }
    out(o, "\n  ],\n");
}

static void collective(Out *o, const Program *p, const CollectiveInfo *c)
{
    out(o, "    {");
    json_text(o, "id", c->label);
    json_text(o, "kind", c->kind);
    json_text(o, "axis", c->axis);
    json_number(o, "group_size", c->group_size);
    json_text(o, "tensor", c->tensor);
    json_text(o, "phase", phase_name(c->op->phase));
    json_text(o, "dtype", dtype_name(c->dtype));
    json_number(o, "bytes", c->bytes);
    json_number(o, "count", c->count);
    out(o, ", \"in_place\": %s", c->in_place ? "true" : "false");
    json_number(o, "sent", (int64_t)collective_sent(c));
    if (p->mesh.node) {
        json_text(o, "link", collective_link(p, c));
        json_number(o, "sent_between_nodes",
                    (int64_t)collective_sent_between(p, c));
    }
    json_text(o, "source", diag_where(p->diag, p->arena, statement_loc(c->op)));
    json_text(o, "why", c->op->why.text ? c->op->why.text : "");
    json_text(o, "origin", origin_name(c->op->why.origin));
    out(o, "}");
}

static void json_collectives(Out *o, const Program *p)
{
    int n;
    CollectiveInfo *c = collectives_of(p, &n);
    out(o, "  \"collectives\": [");
    for (int i = 0; i < n; i++) {
        out(o, "%s", i ? ",\n" : "\n");
        collective(o, p, &c[i]);
    }
    out(o, "%s],\n", n ? "\n  " : "");
}

/* "m", "n" and "k" of the library's call, as "calls" repeats it. */
static void json_matmul(Out *o, const Statement *w)
{
    if (!w->calls)
        return;
    json_number(o, "calls", w->calls);
    json_number(o, "batch", w->batch);
    json_number(o, "m", w->m);
    json_number(o, "n", w->n);
    json_number(o, "k", w->k);
    json_text(o, "operands", dtype_name(w->type[0]));
    json_text(o, "result", dtype_name(w->type[2]));
}

/* The stream, and the statements of other streams that it waits for. */
static void json_order(Out *o, const Program *p, const Statement *w, int i,
                       const StatementWaits *waits)
{
    if (p->streams < 2)
        return;
    json_text(o, "stream", stream_name(w[i].op->stream));
    out(o, ", \"after\": [");
    for (int k = 0; k < waits->n; k++) {
        out(o, "%s", k ? ", " : "");
        out_json_string(o, w[waits->at[k]].id);
    }
    out(o, "]");
}

static void json_work(Out *o, const Program *p)
{
    int n;
    Statement *w = statements_of(p, &n);
    const StatementWaits *waits = statement_waits(p, w, n);
    out(o, "  \"work\": [");
    for (int i = 0; i < n; i++) {
        out(o, "%s    {", i ? ",\n" : "\n");
        json_text(o, "id", w[i].id);
        json_text(o, "kind", w[i].kind);
        json_text(o, "phase", phase_name(w[i].op->phase));
        json_number(o, "bytes", w[i].bytes);
        json_real(o, "flops", w[i].flops);
        json_number(o, "count", w[i].count);
        json_text(o, "path", w[i].op->path);
        json_text(o, "detail", w[i].detail);
        json_matmul(o, &w[i]);
        json_order(o, p, w, i, &waits[i]);
        json_text(o, "source",
                  diag_where(p->diag, p->arena, statement_loc(w[i].op)));
        out(o, "}");
    }
    out(o, "%s],\n", n ? "\n  " : "");
}

static void json_memory(Out *o, const Program *p)
{
    const MemoryPlan *m = p->memory;
    out(o, "  \"memory\": {");
    for (int c = 0; c < MEM_CLASSES; c++)
        json_number(o, memory_class_words[c], m->at_peak[c]);
    json_number(o, "peak", m->peak);
    json_number(o, "lower_bound", m->lower_bound);
    json_number(o, "host", m->host);
    json_number(o, "staging", report_staging(p));
    out(o, "},\n  \"at_peak\": [");
    int n;
    const LiveBlock *live = report_live(p, &n);
    for (int i = 0; i < n; i++) {
        out(o, "%s    {", i ? ",\n" : "\n");
        json_text(o, "name", live[i].block->name);
        json_text(o, "class", memory_class_words[live[i].block->class]);
        json_number(o, "bytes", live[i].bytes);
        json_text(o, "source", live[i].where);
        out(o, "}");
    }
    out(o, "\n  ],\n");
}

static void transfers(Out *o, const Program *p)
{
    int n;
    const TransferInfo *x = transfers_of(p, &n);
    out(o, "  \"transfers\": [");
    for (int i = 0; i < n; i++) {
        out(o, "%s    {", i ? ",\n" : "\n");
        json_text(o, "id", x[i].label);
        json_text(o, "tensor", x[i].param->name);
        json_text(o, "to", x[i].to_host ? "host" : "device");
        json_text(o, "phase", phase_name(x[i].op->phase));
        json_number(o, "bytes", x[i].bytes);
        json_number(o, "count", x[i].count);
        json_text(o, "source",
                  diag_where(p->diag, p->arena, p->plan.offload_loc));
        out(o, "}");
    }
    out(o, "%s],\n", n ? "\n  " : "");
}

static void warning(Out *o, const Program *p, const Warning *w)
{
    out(o, "    {");
    json_text(o, "kind",
              w->kind == WARN_COLLECTIVE ? "collective" : "repeated");
    json_text(o, "axis", w->axis);
    json_text(o, "what",
              *w->text ? arena_printf(p->arena, "%s: %s", w->what, w->text)
                       : w->what);
    json_number(o, "ops", w->ops);
    json_number(o, "calls", w->calls);
    json_number(o, "bytes", w->bytes);
    json_real(o, "flops", w->flops);
    json_real(o, "redundant_flops", w->wasted);
    json_text(o, "source", diag_where(p->diag, p->arena, w->loc));
    out(o, ", \"help\": [");
    for (int i = 0; i < w->hint.n; i++) {
        out(o, i ? ", " : "");
        out_json_string(o, arena_printf(p->arena, "%s: %s", w->hint.at[i].path,
                                        w->hint.at[i].style));
    }
    out(o, "]}");
}

static void json_warnings(Out *o, const Program *p, const Warnings *all)
{
    out(o, "  \"warnings\": [");
    for (int i = 0; i < all->n; i++) {
        out(o, "%s", i ? ",\n" : "\n");
        warning(o, p, &all->at[i]);
    }
    out(o, "%s],\n", all->n ? "\n  " : "");
    const Savings *s = &all->saved;
    if (!s->lines)
        return;
    out(o, "  \"hints\": {");
    json_number(o, "lines", s->lines);
    json_real(o, "sent", s->sent);
    json_real(o, "sent_after", s->sent_after);
    json_real(o, "flops", s->flops);
    json_real(o, "flops_after", s->flops_after);
    out(o, "},\n");
}

void report_json(Out *o, const Program *p, const TargetInfo *t,
                 const Warnings *warnings, const Forecast *f)
{
    out(o, "{\n  \"parc\": \"" PARC_VERSION "\",\n  ");
    json_text(o, "model", p->model);
    out(o, ",\n  ");
    json_text(o, "plan", p->plan.name);
    out(o, ",\n");
    if (t->cpu) {
        out(o, "  ");
        json_text(o, "cpu", t->cpu->name);
        out(o, ",\n");
    }
    measures(o, p, f != NULL);
    report_json_settings(o, p);
    mesh(o, p);
    json_params(o, p);
    report_json_pipeline(o, p);
    report_json_context(o, p);
    json_collectives(o, p);
    report_json_traffic(o, p);
    report_json_groups(o, p);
    json_work(o, p);
    json_memory(o, p);
    report_json_experts(o, p);
    transfers(o, p);
    json_warnings(o, p, warnings);
    report_json_side(o, p);
    if (f)
        report_json_time(o, p, f);
    out(o, "  \"flops\": {");
    for (Phase phase = PH_FORWARD; phase <= PH_OPTIMIZER; phase++)
        if (phase != PH_WEIGHTS) /* a part of the backward pass */
            json_real(o, phase_name(phase), program_flops(p, phase));
    out(o, "},\n  ");
    json_real(o, "recomputed_flops", program_flops_recomputed(p));
    out(o, ",\n  ");
    json_real(o, "model_flops", program_flops_model(p));
    out(o, "\n}\n");
}
