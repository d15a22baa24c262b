/* print_head.c: prints the header of a program, which is everything except its
 * ops.
 *
 *   parc ir 1
 *   stage partitioned
 *   model "Llama"
 *   source 1 "llama.pdl"
 *   mesh dp=2 tp=2
 *   train batch=8 seq=32 precision=f32 optimizer=adamw …
 *   plan "tp_fsdp" axes={tp}
 *     style ColwiseParallel "layers.*.attention.wq" axis=tp in(R -> R) …
 *     unit axis=dp paths("norm", "output") reshard=-1 prefetch=-1
 *   module "layers.*.attention.wq" class="Linear" … weight(param=2 in=1)
 *   param "tok_embeddings.weight" : f32[512/tp, 64] init=normal(1, 0) …
 *   input "tokens" : i32[8/dp, 32] below=512
 *
 * A forward program has a line `purpose loss` after the stage, and `repeats
 * training` if it consists of statements of the training step. One for outputs
 * has a line `output "logits" [8, 32, 500]` for each, without padding.
 */
#include "ir/options.h"
#include "ir/plan/styles.h"
#include "ir/text/print.h"

static void end_line(Printer *w, Loc loc)
{
    print_loc(w, loc);
    out(w->o, "\n");
}

/* ---- train and plan ------------------------------------------------------ */

static void print_train(Printer *w)
{
    out(w->o, "train");
    print_options(w, SCOPE_TRAIN, &w->p->train);
    end_line(w, w->p->train.loc);
}

static void print_layout(Printer *w, Layout l)
{
    out(w->o, "%s", ir_layout_words[l.kind]);
    if (l.kind == LAYOUT_SHARD)
        out(w->o, "(%d)", l.dim);
}

static void print_layouts(Printer *w, const char *word, int n,
                          const Layout *from, const Layout *to)
{
    out(w->o, " %s(", word);
    for (int i = 0; i < n; i++) {
        if (i)
            out(w->o, ", ");
        print_layout(w, from[i]);
        out(w->o, " -> ");
        print_layout(w, to[i]);
    }
    out(w->o, ")");
}

static void print_style(Printer *w, const Style *s)
{
    out(w->o, "  style %s ", style_name(s->kind));
    print_string(w, "", s->path);
    out(w->o, " axis=%s%s", w->p->mesh.name[s->axis],
        s->whole ? " whole" : "");
    print_layouts(w, "in", s->nin, s->in_from, s->in_to);
    print_layouts(w, "out", s->nout, s->out_from, s->out_to);
    end_line(w, s->loc);
}

static void print_unit(Printer *w, const Unit *u)
{
    bool one = (u->axes & (u->axes - 1)) == 0;
    out(w->o, "  unit %s", one ? "axis=" : "axes=");
    for (int a = 0; a < w->p->mesh.n && one; a++)
        if (u->axes >> a & 1)
            out(w->o, "%s", w->p->mesh.name[a]);
    if (!one)
        print_axes(w, u->axes);
    if (u->replicate_axis >= 0)
        out(w->o, " replicate=%s", w->p->mesh.name[u->replicate_axis]);
    if (u->kind == UNIT_PATHS) {
        out(w->o, " paths(");
        print_strings(w, u->npaths, u->path);
        out(w->o, ")");
    } else if (u->kind == UNIT_EVERY) {
        print_string(w, " class=", u->class);
    } else {
        out(w->o, " %s=%lld", option_name(OPTION_min_params),
            (long long)u->min_params);
    }
    print_options(w, SCOPE_FULLY_SHARD, u);
    end_line(w, u->loc);
}

static void print_checkpoint(Printer *w, const Checkpoint *c)
{
    out(w->o, "  %s ", clause_name(CL_CHECKPOINT));
    if (c->class) {
        print_string(w, "class=", c->class);
    } else {
        out(w->o, "paths(");
        print_strings(w, c->npaths, c->path);
        out(w->o, ")");
    }
    print_options(w, SCOPE_CHECKPOINT, c);
    end_line(w, c->loc);
}

static void print_offload(Printer *w, const PlanSpec *plan)
{
    out(w->o, "  %s", clause_name(CL_OFFLOAD));
    for (const OptionWord *k = option_rows[OPTION_offload].words; k->name; k++)
        if (plan->offload >> k->value & 1)
            out(w->o, " %s", k->name);
    end_line(w, plan->offload_loc);
}

static void print_plan(Printer *w)
{
    const PlanSpec *plan = &w->p->plan;
    print_string(w, "plan ", plan->name ? plan->name : "");
    out(w->o, " axes=");
    print_axes(w, plan->tensor_axes);
    end_line(w, plan->loc);
    for (int i = 0; i < plan->nstyles; i++)
        print_style(w, &plan->style[i]);
    for (int i = 0; i < plan->nunits; i++)
        print_unit(w, &plan->unit[i]);
    for (int i = 0; i < plan->ncheckpoints; i++)
        print_checkpoint(w, &plan->checkpoint[i]);
    if (plan->offload)
        print_offload(w, plan);
}

/* ---- modules, parameters, inputs ----------------------------------------- */

/* Parameters by number: the ops that name them follow later. */
static void print_weight(Printer *w, const Weight *of)
{
    out(w->o, " %s(param=%d in=%d", of->lookup ? "lookup" : "weight",
        of->param, of->in_dim);
    for (int i = 0; i < of->nbiases; i++)
        out(w->o, " bias=%d", of->bias[i]);
    out(w->o, ")");
}

static void print_module(Printer *w, const Module *m)
{
    print_string(w, "module ", m->path);
    print_string(w, " class=", m->class);
    out(w->o, " in=%d out=%d params=%d+%d", m->nin, m->nout, m->first_param,
        m->nparams);
    if (m->checkpoint)
        out(w->o, " checkpoint=%d", m->checkpoint - 1);
    for (int i = 0; i < m->weight.n; i++)
        print_weight(w, &m->weight.at[i]);
    end_line(w, m->loc);
}

static void print_file_tensor(Printer *w, const FileTensor *f)
{
    print_string(w, " file ", f->name);
    out(w->o, " ");
    print_list(w, f->ndim, f->dim);
    out(w->o, " from=%lld size=", (long long)f->first);
    print_list(w, f->n, f->size);
    out(w->o, " stride=");
    print_list(w, f->n, f->stride);
}

static void print_files(Printer *w)
{
    if (w->p->file_prefix) {
        print_string(w, "prefix ", w->p->file_prefix);
        out(w->o, "\n");
    }
    if (w->p->file_config) {
        print_string(w, "config ", w->p->file_config);
        out(w->o, "\n");
    }
}

static void print_param(Printer *w, const Param *p)
{
    print_string(w, "param ", p->name);
    out(w->o, " : ");
    type_print(w->o, &p->type, &w->p->mesh);
    out(w->o, " init=%s(", ir_init_words[p->init.kind]);
    out_double(w->o, p->init.a);
    out(w->o, ", ");
    out_double(w->o, p->init.b);
    out(w->o, ") trainable=%s decay=%s", p->trainable ? "true" : "false",
        p->decay ? "true" : "false");
    if (param_is_padded(p)) {
        out(w->o, " pad=");
        print_list(w, p->type.ndim, p->pad);
    }
    if (p->state_of >= 0)
        print_string(w, " of=", w->p->param.at[p->state_of].name);
    if (p->slot)
        print_string(w, " slot=", p->slot);
    if (p->unit) {
        print_string(w, " unit=", p->unit);
        if (p->item)
            out(w->o, " item=%d", p->item - 1);
    }
    for (int i = 0; i < p->split.n; i++)
        out(w->o, "%s%d by %d%s", i ? ", " : " split(", p->split.at[i].dim,
            p->split.at[i].style, i == p->split.n - 1 ? ")" : "");
    if (p->gathered)
        out(w->o, " gathered");
    if (p->shared)
        out(w->o, " shared");
    if (p->host)
        out(w->o, " host");
    if (p->nalias) {
        out(w->o, " alias(");
        print_strings(w, p->nalias, p->alias);
        out(w->o, ")");
    }
    for (int i = 0; i < p->nfile; i++)
        print_file_tensor(w, &p->file[i]);
    end_line(w, p->loc);
}

static void print_input(Printer *w, const Input *in)
{
    print_string(w, "input ", in->name);
    out(w->o, " : ");
    type_print(w->o, &in->type, &w->p->mesh);
    if (in->below)
        out(w->o, " below=%lld", (long long)in->below);
    if (in->has_ignored)
        out(w->o, " ignore=%lld", (long long)in->ignored);
    end_line(w, in->loc);
}

static void print_output(Printer *w, const Output *of)
{
    print_string(w, "output ", of->name);
    out(w->o, " ");
    print_list(w, of->ndim, of->dim);
    end_line(w, of->loc);
}

/* ---- the header ---------------------------------------------------------- */

void print_head(Printer *w)
{
    const Program *p = w->p;
    out(w->o, "parc ir 1\nstage %s\n", ir_stage_words[p->stage]);
    if (p->purpose != FOR_TRAINING)
        out(w->o, "purpose %s\n", purpose_words[p->purpose]);
    if (p->repeats)
        out(w->o, "repeats %s\n", purpose_words[p->repeats->purpose]);
    print_string(w, "model ", p->model);
    out(w->o, "\n");
    for (int i = 1; i < w->nfiles; i++)
        if (w->file[i]) {
            out(w->o, "source %u ", (unsigned)w->file[i]);
            print_string(w, "", diag_source_at(p->diag, (uint16_t)i)->name);
            out(w->o, "\n");
        }
    out(w->o, "mesh");
    for (int a = 0; a < p->mesh.n; a++)
        out(w->o, "%s %s=%lld",
            a == p->mesh.n - p->mesh.ntime ? " :" : "", p->mesh.name[a],
            (long long)p->mesh.size[a]);
    out(w->o, "\n");
    print_train(w);
    print_plan(w);
    print_files(w);
    for (int i = 0; i < p->module.n; i++)
        print_module(w, &p->module.at[i]);
    for (int i = 0; i < p->param.n; i++)
        print_param(w, &p->param.at[i]);
    for (int i = 0; i < p->input.n; i++)
        print_input(w, &p->input.at[i]);
    for (int i = 0; i < p->output.n; i++)
        print_output(w, &p->output.at[i]);
    print_memory(w);
}
