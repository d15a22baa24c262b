/* emit_tables.c: emits the tables of model.c that describe the program to the
 * runtime: parameters, inputs, collectives, kernels, and the ParcModel that
 * refers to all of them. emit_statements.c emits the table of statements. */
#include "codegen/emit/emitter.h"
#include "ir/analysis/copy_engine.h"
#include "base/bug.h"
#include "base/hash.h"
#include "base/version.h"
#include "ir/analysis/flops.h"
#include "ir/options.h"
#include "ir/plan/pipeline.h"
#include "runtime/parc_rt.h"

#include <string.h>

static void list(Out *o, const char *field, int n, const int64_t *v)
{
    out(o, " .%s = {", field);
    for (int i = 0; i < n; i++)
        out(o, "%s%lld", i ? ", " : "", (long long)v[i]);
    out(o, "},");
}

static void splits(Emitter *e, const Type *t)
{
    Out *o = e->o;
    out(o, "     .split = {");
    for (int d = 0; d < (t->ndim ? t->ndim : 1); d++) {
        int axes[MAX_AXES];
        int n = d < t->ndim ? type_dim_axes(t, &e->p->mesh, d, axes) : 0;
        out(o, "%s{", d ? ", " : "");
        for (int i = 0; i < n; i++)
            out(o, "%d, ", axes[i]);
        out(o, "-1}");
    }
    out(o, "},\n");
}

/* The tensors of files that hold a parameter. */
static void file_rows(Emitter *e, const Param *pm)
{
    Out *o = e->o;
    out(o, ",\n     .nfile = %d, .file = (const ParcFileTensor[]){", pm->nfile);
    for (int i = 0; i < pm->nfile; i++) {
        const FileTensor *f = &pm->file[i];
        out(o, "%s\n         {.name = \"%s\", .ndim = %d,", i ? "," : "",
            c_string_body(e->p->arena, f->name), f->ndim);
        if (f->nindex) {
            list(o, "stack", f->nindex, f->stack);
            list(o, "scale", f->nindex, f->scale);
            list(o, "offset", f->nindex, f->offset);
        }
        if (f->ndim)
            list(o, "dim", f->ndim, f->dim);
        out(o, " .n = %d,", f->n);
        list(o, "size", f->n, f->size);
        list(o, "stride", f->n, f->stride);
        if (f->parts > 1)
            out(o, " .parts = %lld,", (long long)f->parts);
        out(o, " .first = %lld}", (long long)f->first);
    }
    out(o, "}");
}

/* The names of files of the whole model. */
static void file_names(Emitter *e)
{
    Arena *a = e->p->arena;
    if (e->p->file_prefix)
        out_line(e->o, ".file_prefix = \"%s\",",
                 c_string_body(a, e->p->file_prefix));
    if (e->p->file_config)
        out_line(e->o, ".file_config = \"%s\",",
                 c_string_body(a, e->p->file_config));
}

/* The coordinates of the pipeline's axis that have a tensor, if not all do. */
static void stages(Emitter *e, const Type *t)
{
    int axis = pipeline_axis(e->p);
    AxisPlace at = axis < 0 ? (AxisPlace){0} : t->place.ax[axis];
    if (at.kind != AX_AT && at.kind != AX_CUT)
        return;
    out(e->o, "     .pipeline = %s,", axes_expression(e, 1u << axis));
    if (at.kind == AX_AT)
        out(e->o, " .at = %d,\n", stage_coordinate(&e->p->mesh, axis, at.dim));
    else
        out(e->o, " .nstages = %d, .cut = cut_%d,\n",
            e->p->mesh.cut[at.order - 1].nstages, at.order);
}


static void param_row(Emitter *e, int i)
{
    static const char *const init[] = {
        [INIT_ZEROS] = "PARC_ZEROS",     [INIT_ONES] = "PARC_ONES",
        [INIT_NORMAL] = "PARC_NORMAL",   [INIT_UNIFORM] = "PARC_UNIFORM",
        [INIT_ARANGE] = "PARC_ARANGE",   [INIT_COPY] = "PARC_COPY",
        [INIT_TRUNCATED_NORMAL] = "PARC_TRUNCATED_NORMAL"};
    const Program *p = e->p;
    const Param *pm = &p->param.at[i];
    const Type *t = &pm->type;
    Out *o = e->o;
    for (int d = 0; d < t->ndim; d++) /* files and checkpoints have contiguous parts */
        if (type_pieces(t, &p->mesh, d) > type_parts(t, &p->mesh, d))
            bug("'%s' is stored in zigzag order", pm->name);
    out(o, "    {.name = \"%s\",", c_string_body(p->arena, pm->name));
    if (pm->state)
        out(o, " .state = \"%s\",", c_string_body(p->arena, pm->state));
    out(o, "\n     .nstack = %d, .ndim = %d,", t->nstack, t->ndim);
    if (t->nstack)
        list(o, "stack", t->nstack, t->stack);
    Type shape = param_shape(pm);
    if (t->ndim)
        list(o, "dim", t->ndim, shape.dim);
    if (param_is_padded(pm))
        list(o, "pad", t->ndim, pm->pad);
    out(o, "\n");
    splits(e, t);
    if (type_flat_axes(t))
        out(o, "     .flat_axes = %s,\n",
            axes_expression(e, type_flat_axes(t)));
    stages(e, t);
    const char *offset = pm->value ? value_row_offset(e, pm->value) : "-1";
    out(o, "     .offset = %s, .local_elements = %lld,\n", offset,
        (long long)type_local_elements(t, &p->mesh));
    if (pm->gathered)
        out(o, "     .inside = true,\n");
    if (pm->init.kind == INIT_COPY)
        out(o, "     .type = %s, .copy_of = %d,\n", c_parc_type(t->dtype),
            pm->state_of);
    out(o, "     .init = %s, .a = %s, .b = %s,", init[pm->init.kind],
        double_text(p->arena, pm->init.a), double_text(p->arena, pm->init.b));
    if (pm->init.kind == INIT_TRUNCATED_NORMAL)
        out(o, " .c = %s,", double_text(p->arena, pm->init.c));
    if (pm->init.depth != 0)
        out(o, " .depth = %s,", double_text(p->arena, pm->init.depth));
    out(o, "\n     .placement = \"%s\"",
        c_string_body(p->arena, user_placements(p, t)));
    if (pm->nalias) {
        out(o, ",\n     .nalias = %d, .alias = (const char *const[]){",
            pm->nalias);
        for (int k = 0; k < pm->nalias; k++)
            out(o, "%s\"%s\"", k ? ", " : "",
                c_string_body(p->arena, pm->alias[k]));
        out(o, "}");
    }
    if (pm->nfile)
        file_rows(e, pm);
    out(o, "},\n");
}

static void params(Emitter *e)
{
    out_line(e->o, "\nstatic const ParcParam param[] = {");
    for (int i = 0; i < e->p->param.n; i++)
        param_row(e, i);
    out_line(e->o, "};");
}

static void input_row(Emitter *e, const Input *in)
{
    Out *o = e->o;
    uint32_t axes[2] = {0}; /* that split dim 0, and dim 1 */
    for (int a = 0; a < e->p->mesh.n; a++)
        if (in->type.place.ax[a].kind == AX_S)
            axes[in->type.place.ax[a].dim] |= 1u << a;
    out(o, "    {.name = \"%s\", .type = %s, .is_labels = %s,\n",
        c_string_body(e->p->arena, in->name), c_parc_type(in->type.dtype),
        strcmp(in->name, "labels") ? "false" : "true");
    out(o, "     .below = %lld,", (long long)in->below);
    if (in->has_ignored)
        out(o, " .has_ignored = true, .ignored = %lld,",
            (long long)in->ignored);
    out(o, " .ndim = %d,", in->type.ndim);
    int64_t dim[MAX_DIMS], micro = in->type.nstack ? in->type.stack[0] : 1;
    for (int d = 0; d < in->type.ndim; d++)
        dim[d] = in->type.dim[d] * (d ? 1 : micro);
    list(o, "dim", in->type.ndim, dim);
    if (micro > 1)
        out(o, " .micro = %lld,", (long long)micro);
    const char *offset = "-1";
    if (in->value && value_address(in->value)->block >= 0)
        offset = value_offset(e, in->value);
    out(o, "\n     .batch_axes = %s,", axes_expression(e, axes[0]));
    if (axes[1])
        out(o, " .sequence_axes = %s,", axes_expression(e, axes[1]));
    out(o, " .offset = %s},\n", offset);
}

/* `word`: "", or that of a side program and '_'. */
static void inputs(Emitter *e, const char *word)
{
    Out *o = e->o;
    out_line(o, "\nstatic const ParcInput %sinput[] = {", word);
    for (int i = 0; i < e->p->input.n; i++)
        input_row(e, &e->p->input.at[i]);
    if (!e->p->input.n)
        out_line(o, "    {.name = 0}");
    out_line(o, "};");
}

static void collective_names(Emitter *e)
{
    Out *o = e->o;
    Arena *a = e->p->arena;
    out_line(o, "\n/* The names of collectives in messages. */");
    out_line(o, "static const char *const collective[] = {");
    for (const Emitter *x = e; x; x = x->next)
        for (int i = 0; i < x->ncollectives; i++) {
            const CollectiveInfo *c = &x->collective[i];
            const char *text = arena_printf(
                a, "%s %s over %s: %s (%s)", c->label, c->kind, c->axis,
                c->tensor, diag_where(e->p->diag, a, statement_loc(c->op)));
            out_line(o, "    \"%s\",", c_string_body(a, text));
        }
    out_line(o, "    0");
    out_line(o, "};");
}

static bool has_staging(const Emitter *e)
{
    for (; e; e = e->next)
        for (int i = 0; i < e->ncollectives; i++)
            if (e->collective[i].op->workspace >= 0)
                return true;
    return false;
}

/* The cell of a collective in a table. */
typedef const char *CollectiveCell(const Emitter *e, const CollectiveInfo *c);

static const char *stream_cell(const Emitter *e, const CollectiveInfo *c)
{
    (void)e;
    const Op *loop = op_loop(c->op);
    bool staged = op_transfers(c->op) && loop && loop->staged;
    return c_stream_name(staged ? STREAM_TRANSFER : c->op->stream);
}

/* The runtime creates a communicator for each set of axes. */
static const char *axes_cell(const Emitter *e, const CollectiveInfo *c)
{
    return axes_expression(e, c->axes);
}

/* The staging buffer of a collective whose layout NCCL supports only packed. */
static const char *staging_cell(const Emitter *e, const CollectiveInfo *c)
{
    int block = c->op->workspace;
    if (block < 0)
        return "{0}";
    return arena_printf(e->p->arena, "{AT_%s, %lld}", e->block_name[block],
                        (long long)e->memory->block[block].bytes);
}

/* `end`: the last row, which makes the table not empty, or "". */
static void collective_table(Emitter *e, const char *head, CollectiveCell *cell,
                             const char *end)
{
    out_line(e->o, "\nstatic const %s[] = {", head);
    for (const Emitter *x = e; x; x = x->next)
        for (int i = 0; i < x->ncollectives; i++)
            out_line(e->o, "    %s, /* %s */", cell(x, &x->collective[i]),
                     x->collective[i].label);
    out(e->o, "%s};\n", end);
}

/* Emits the text that --info prints, one literal for each line. */
static void info_text(Emitter *e, const char *text)
{
    Out *o = e->o;
    out_line(o, "\n/* The text that --info prints. */");
    out_line(o, "static const char info[] =");
    while (*text) {
        const char *end = strchr(text, '\n');
        size_t n = end ? (size_t)(end - text) + 1 : strlen(text);
        out_line(o, "    \"%s\"",
                 c_string_body(e->p->arena,
                           arena_strndup(e->p->arena, text, n)));
        text += n;
    }
    o->size--; /* the semicolon takes the place of the last newline */
    out(o, ";\n");
}

/* Emits the kernels' symbols, by the number that launch.c uses. */
static void kernel_names(Emitter *e)
{
    const CudaKernels *k = e->cuda->kernels;
    out_line(e->o, "\n/* The kernels' symbols, by number. */");
    out_line(e->o, "static const char *const kernel[] = {");
    for (int i = 0; i < k->symbol.n; i++)
        out_line(e->o, "    \"%s\",", k->symbol.at[i]);
    if (!k->symbol.n)
        out_line(e->o, "    NULL");
    out_line(e->o, "};");
    out_line(e->o, "extern const ParcImage images[]; /* images.c */");
}

static void kernel_rows(Emitter *e)
{
    out_line(e->o, ".kernel = kernel, .nkernels = %d,",
             e->cuda->kernels->symbol.n);
    out_line(e->o, ".image = images, .nimages = %d,", e->cuda->nimages);
}

/* The offset of a scalar of the step by name; "-1" if the step has none. */
static const char *scalar_offset(Emitter *e, OpKind kind, const char *name)
{
    if (kind == OP_output)
        name = count_name(e->p, name);
    for (const Op *op = e->p->step->first; op; op = op->next)
        if (op->kind == kind && !strcmp(attr_name(op), name))
            return value_offset(e, kind == OP_output ? op->arg[0]
                                                     : op->out[0]);
    return "-1";
}

/* The row of ParcScalars. */
static void scalars(Emitter *e)
{
    static const struct {
        OpKind kind;
        const char *name; /* of the op, and of the field */
    } all[] = {{OP_output, "loss"}, {OP_output, "grad_norm"}, {OP_output, "overflow"},
               {OP_output, "dropped"}, {OP_output, "dropped_256"},
               {OP_scalar, "lr"}, {OP_scalar, "bias1"}, {OP_scalar, "bias2"},
               {OP_scalar, "clip"}, {OP_scalar, "loss_scale"}, {OP_scalar, "random"}};
    enum { A_LINE = 3 };
    for (int i = 0; i < (int)(sizeof all / sizeof *all); i++)
        out(e->o, "%s.%s = %s", i == 0 ? "    .at = {" : i % A_LINE ? ", " : ",\n           ",
            all[i].name, scalar_offset(e, all[i].kind, all[i].name));
    out(e->o, "},\n");
}

static void shared_rows(Emitter *e)
{
    const MemoryPlan *m = e->memory;
    if (!m->nsegments)
        return;
    out(e->o, "    .nshared = %d, .shared = (const ParcShared[]){",
        m->nsegments);
    for (int i = 0; i < m->nsegments; i++)
        out(e->o, "%s\n        {.axes = %s, .offset = %s, .bytes = %lld}",
            i ? "," : "", axes_expression(e, m->segment[i].axes),
            emitter_segment_name(e, &m->segment[i]),
            (long long)m->segment[i].bytes);
    out(e->o, "},\n");
}

static void pieces(Out *o, const LrSchedule *s)
{
    out(o, ",\n        .npieces = %d, .after = (const int64_t[]){", s->after.n);
    for (int i = 0; i < s->after.n; i++)
        out(o, "%s%.0f", i ? ", " : "", s->after.v[i]);
    out(o, "},\n        .rate = (const double[]){");
    for (int i = 0; i < s->rates.n; i++)
        out(o, "%s%s", i ? ", " : "", double_text(o->arena, s->rates.v[i]));
    out(o, "}");
}

static void schedule_row(Out *o, const LrSchedule *s)
{
    static const char *const curve[] = {[DECAY_LINEAR] = "PARC_LINEAR",
                                        [DECAY_SQRT] = "PARC_SQRT",
                                        [DECAY_COSINE] = "PARC_COSINE"};
    if (s->kind == SCHEDULE_CONSTANT && s->warmup == 0)
        return;
    out(o, "    .schedule = {.kind = %s, .warmup = %lld",
        s->kind == SCHEDULE_CONSTANT    ? "PARC_CONSTANT"
        : s->kind == SCHEDULE_PIECEWISE ? "PARC_PIECEWISE"
                                        : curve[schedule_shape(s)],
        (long long)s->warmup);
    if (s->kind == SCHEDULE_PIECEWISE)
        pieces(o, s);
    else if (s->kind != SCHEDULE_CONSTANT)
        out(o, ", .steps = %lld, .min_lr = %s", (long long)s->steps,
            double_text(o->arena, s->min_lr));
    if (s->kind == SCHEDULE_WSD)
        out(o, ", .stable = true, .decay = %lld", (long long)s->decay);
    out(o, "},\n");
}

static void optimizer_rows(Out *o, const Train *t)
{
    Arena *a = o->arena;
    if (t->ema > 0)
        out_line(o, ".ema = %s,", double_text(a, t->ema));
    out_line(o, ".optimizer = \"%s\", .lr = %s, .beta1 = %s, .beta2 = %s,",
             option_word(OPTION_optimizer, t->optimizer), double_text(a, t->lr),
             double_text(a, t->beta1), double_text(a, t->beta2));
    if (t->optimizer == OPT_ADAFACTOR)
        out_line(o, ".power1 = %s, .power2 = -0.5,", double_text(a, t->beta2_decay));
    schedule_row(o, &t->schedule);
}

static void model_row(Emitter *e, const char *plan_text)
{
    const Program *p = e->p;
    const Train *t = &p->train;
    Arena *a = p->arena;
    Out *o = e->o;
    out_line(o, "\nstatic const ParcModel model = {");
    o->indent = OUT_INDENT;
    out_line(o, ".rt_version = PARC_RT_VERSION,");
    out_line(o, ".name = \"%s\", .parc_version = \""
                PARC_VERSION "\",",
             c_string_body(a, p->model));
    out_line(o, ".source = \"%s\", .info = info,",
             c_string_body(a, e->options->source));
    out_line(o, ".plan_hash = 0x%016llxu,",
             (unsigned long long)hash_text(plan_text));
    out_line(o, ".naxes = %d,", p->mesh.n);
    if (p->mesh.zigzag)
        out_line(o, ".zigzag = %s,", axes_expression(e, p->mesh.zigzag));
    out(o, "    .axis = {");
    for (int i = 0; i < p->mesh.n; i++)
        out(o, "%s{\"%s\", %lld}", i ? ", " : "",
            c_string_body(a, p->mesh.name[i]), (long long)p->mesh.size[i]);
    out(o, "%s},\n", p->mesh.n ? "" : "{0}");
    if (mesh_between_nodes(&p->mesh)) {
        out(o, "    .stride = {");
        for (int i = 0; i < p->mesh.n; i++)
            out(o, "%s%lld", i ? ", " : "",
                (long long)mesh_stride(&p->mesh, i));
        out(o, "},\n");
    }
    if (!e->cuda && mesh_between_nodes(&p->mesh))
        out_line(o, ".node_size = %lld, .transport = &parc_mpi,",
                 (long long)p->mesh.node);
    out_line(o, ".param = param, .nparams = %d,", p->param.n);
    out_line(o, ".input = input, .ninputs = %d,", p->input.n);
    if (pipeline_axis(e->p) >= 0)
        out_line(o, ".pipeline = %s, .order = %s, .ranges = ranges,",
                 axes_expression(e, 1u << pipeline_axis(e->p)),
                 pipeline_loop(p) ? "&pipeline" : "NULL");
    out_line(o, ".arena_bytes = ARENA_BYTES, .threads = %d,", e->t->threads);
    shared_rows(e);
    if (e->memory->host)
        out_line(o, ".host_bytes = HOST_BYTES,");
    if (e->cuda && copy_engine_axes(e->p))
        out_line(o, ".copy_engines = %s,", axes_expression(e, copy_engine_axes(e->p)));
    if (e->cuda && t->deterministic)
        out_line(o, ".deterministic = true,");
    out_line(o, ".batch = %lld, .seq = %lld,", (long long)t->batch,
             (long long)program_sample_tokens(p));
    out_line(o, ".flops = %s, .executed_flops = %s,",
             double_text(a, program_flops_model(p)),
             double_text(a, program_flops_executed(p)));
    optimizer_rows(o, t);
    out_line(o, ".options = \"%s\",", options_of_program(a));
    if (t->loss_scale > 0)
        out_line(o, ".loss_scale = %s,", double_text(a, t->loss_scale));
    if (t->clip > 0)
        out_line(o, ".clip = %s,", double_text(a, t->clip));
    scalars(e);
    Numbers all = numbers_all(p);
    out_line(o, ".collective = collective, .ncollectives = %d,",
             all.collectives);
    if (e->t->streams > 1)
        out_line(o, ".collective_stream = collective_stream,");
    if (all.events)
        out_line(o, ".nevents = %d,", all.events);
    if (e->cuda)
        out_line(o, ".collective_axes = collective_axes,%s",
                 has_staging(e) ? " .collective_staging = collective_staging,"
                                : "");
    out_line(o, ".work = work, .nwork = %d,", all.work);
    if (e->cuda)
        kernel_rows(e);
    file_names(e);
    out_line(o, ".init = init_constants, .step = step,");
    for (const Emitter *f = e->next; f; f = f->next)
        out_line(o, ".%s = &%s,", program_word(f->p), program_word(f->p));
    o->indent = 0;
    out_line(o, "};");
}

/* ---- side programs ---------------------------------------------------- */

static void output_row(Emitter *f, const Output *of)
{
    Out *o = f->o;
    Value *v = program_output(f->p, of->name);
    int64_t pad[MAX_DIMS];
    bool padded = false;
    for (int d = 0; d < of->ndim; d++) {
        pad[d] = v->type.dim[d] - of->dim[d];
        padded |= pad[d] > 0;
    }
    out(o, "    {.name = \"%s\", .type = %s,\n     .ndim = %d,",
        c_string_body(f->p->arena, of->name), c_parc_type(v->type.dtype),
        of->ndim);
    list(o, "dim", of->ndim, of->dim);
    if (padded)
        list(o, "pad", of->ndim, pad);
    out(o, "\n");
    splits(f, &v->type);
    stages(f, &v->type);
    out(o, "     .offset = %s},\n", value_offset(f, v));
}

static void side_tables(Emitter *f)
{
    Out *o = f->o;
    const char *word = program_word(f->p);
    inputs(f, arena_printf(f->p->arena, "%s_", word));
    if (f->p->output.n) {
        out_line(o, "\nstatic const ParcOutput %s_output[] = {", word);
        for (int i = 0; i < f->p->output.n; i++)
            output_row(f, &f->p->output.at[i]);
        out_line(o, "};");
    }
    out_line(o, "\nstatic const ParcProgram %s = {", word);
    o->indent = OUT_INDENT;
    out_line(o, ".init = %s, .begin = %s, .run = %s,", f->init, f->begin,
             f->run);
    scalars(f);
    out_line(o, ".input = %s_input, .ninputs = %d,", word, f->p->input.n);
    if (f->p->output.n)
        out_line(o, ".output = %s_output, .noutputs = %d,", word,
                 f->p->output.n);
    out_line(o, ".flops = %s,",
             double_text(f->p->arena, program_flops_executed(f->p)));
    o->indent = 0;
    out_line(o, "};");
}

void emit_tables(Emitter *e)
{
    emit_stage_tables(e);
    params(e);
    inputs(e, "");
    collective_names(e);
    if (e->t->streams > 1)
        collective_table(e, "int8_t collective_stream", stream_cell, "    0\n");
    if (e->cuda)
        collective_table(e, "uint32_t collective_axes", axes_cell, "    0\n");
    if (has_staging(e))
        collective_table(e, "ParcRange collective_staging", staging_cell, "");
    emit_statements(e);
    if (e->cuda)
        kernel_names(e);
    info_text(e, e->options->plan);
    for (Emitter *f = e->next; f; f = f->next)
        side_tables(f);
    model_row(e, e->options->plan);
}
