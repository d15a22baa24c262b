/* head.c: prints and parses the header of a program, which is everything except
 * its ops.
 *
 *   parc ir 1
 *   stage partitioned
 *   model "Llama"
 *   source 1 "llama.pdl"
 *   mesh dp=2 tp=2
 *   zigzag {tp}                              axes that split dims in this order
 *   node_size 2
 *   train batch=8 seq=32 precision=f32 optimizer=adamw …
 *   plan "tp_fsdp" axes={tp}                            see plan.c
 *   module "layers.*.attention.wq" class="Linear" … weight(param=2 in=1)
 *   param "tok_embeddings.weight" : f32[512/tp, 64] init=normal(1, 0) …
 *   input "tokens" : i32[8/dp, 32] below=512
 *   arena own=8192 …                                    see memory.c
 *
 * A side program has a line `purpose loss` after the stage, and `repeats
 * training` if it consists of statements of the training step. One for outputs
 * has a line `output "logits" [8, 32, 500]` for each, without padding.
 */
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "ir/text/text.h"

/* ---- sources, the mesh --------------------------------------------------- */

/* The source of the dump's programs with the name: they share their sources. */
static uint16_t source_named(Text *t, const char *name)
{
    const Source *known;
    for (uint16_t i = t->source + 1; (known = diag_source_at(t->diag, i)); i++)
        if (!strcmp(known->name, name))
            return i;
    return diag_source(t->diag, name, "", 0);
}

static void text_sources(Text *t)
{
    int number = 0;
    const char *name;
    for (int i = 1; i < t->nfiles; i++)
        if (t->file[i]) {
            name = diag_source_at(t->p->diag, (uint16_t)i)->name;
            out(t->out, "source %u", (unsigned)t->file[i]);
            text_field(t, " ", &name);
            text_form(t, "\n");
        }
    if (t->out)
        return;
    Loc loc = t->tok.loc;
    text_field(t, "", &number);
    if (number != t->named_source.n + 1)
        parse_fail(t, loc, "sources are numbered 1, 2, …");
    text_field(t, "", &name);
    if (!t->failed)
        vec_push(t->arena, &t->named_source, source_named(t, name));
}

static void parse_mesh_axis(Text *t, Mesh *m)
{
    Loc loc = t->tok.loc;
    int64_t size, stride = 0;
    const char *name = parse_word(t, "an axis");
    text_field(t, "=", &size);
    if (text_given(t, false, "@"))
        text_field(t, "", &stride);
    if (m->n == MAX_AXES)
        parse_fail(t, loc, "more than %d axes", MAX_AXES);
    if (size < 1 || stride < 0 || stride > MAX_RANKS)
        parse_fail(t, loc, "the size or stride of '%s' is out of range",
                   name);
    if (name_index(m->name, m->n, sizeof *m->name, name) >= 0)
        parse_fail(t, loc, "two axes '%s'", name);
    if (t->failed)
        return;
    m->name[m->n] = name;
    m->stride[m->n] = stride;
    m->size[m->n++] = size;
}

/* The mesh's axes, " dp=2 tp=2", then the loop axes: " : mb=4". `@` and the
 * stride follow an axis whose stride is not the product of the later sizes:
 * " dp.in=2@2 dp.out=2@4". */
static void text_mesh(Text *t)
{
    Mesh *m = &t->p->mesh;
    text_begin(t, "mesh");
    for (int a = 0; t->out && a < m->n; a++) {
        out(t->out, "%s %s=%lld", a == m->n - m->nloop ? " :" : "", m->name[a],
            (long long)m->size[a]);
        if (m->stride[a])
            out(t->out, "@%lld", (long long)m->stride[a]);
    }
    text_form(t, "\n");
    if (t->out)
        return;
    if (m->n > 0)
        parse_fail(t, t->tok.loc, "this is a second mesh");
    while (t->tok.kind == TK_WORD && !t->tok.first)
        parse_mesh_axis(t, m);
    if (!t->tok.first && text_given(t, false, ":"))
        for (; t->tok.kind == TK_WORD && !t->tok.first; m->nloop++)
            parse_mesh_axis(t, m);
    int64_t parts = 1;
    for (int a = 0; a < m->n && !t->failed; a++) {
        bool huge = __builtin_mul_overflow(parts, m->size[a], &parts);
        if (huge || (!mesh_is_loop_axis(m, a) && parts > MAX_RANKS))
            parse_fail(t, t->tok.loc, "the mesh has more than %d ranks",
                       MAX_RANKS);
    }
    if (!t->failed && !mesh_numbers_ranks(m))
        parse_fail(t, t->tok.loc, "the strides of the mesh's axes do not number "
                   "the ranks");
}

static void text_node_size(Text *t)
{
    Loc loc = t->tok.loc;
    int64_t *node = &t->p->mesh.node;
    if (t->out && *node == 0)
        return;
    text_begin(t, "node_size");
    text_field(t, " ", node);
    if (*node < 1 || *node > MAX_RANKS)
        parse_fail(t, loc, "the number of ranks of a node is out of range");
    text_form(t, "\n");
}

static void text_zigzag(Text *t)
{
    uint32_t *axes = &t->p->mesh.zigzag;
    if (t->out && *axes == 0)
        return;
    text_begin(t, "zigzag");
    text_axes(t, " ", axes);
    text_form(t, "\n");
}

/* "cut [0, 2, 4]": a stage begins at each number, the last is the end. */
static void text_cut(Text *t, StageCut *c)
{
    Loc loc = t->tok.loc;
    int64_t begin[MAX_STAGES + 1] = {0};
    for (int i = 0; t->out && i <= c->nstages; i++)
        begin[i] = c->begin[i];
    int n = text_list(t, " ", c->nstages + 1, begin, MAX_STAGES + 1);
    bool fits = n > 1 && begin[0] == 0 && begin[n - 1] > 0;
    for (int i = 1; fits && i < n; i++)
        fits = begin[i - 1] <= begin[i];
    if (!fits)
        parse_fail(t, loc, "the stages do not divide the iterations");
    c->nstages = n - 1;
    c->begin = arena_copy(t->arena, begin, sizeof begin);
    text_form(t, "\n");
}

static void text_cuts(Text *t)
{
    Mesh *m = &t->p->mesh;
    Loc loc = t->tok.loc;
    if (m->ncuts == MAX_CUTS)
        parse_fail(t, loc, "more than %d cuts", MAX_CUTS);
    StageCut *all = (StageCut *)m->cut; /* the parser's own list grows */
    text_lines(t, "cut", all, m->ncuts, StageCut, text_cut,
               array_push(t->arena, all, m->ncuts, x));
    m->cut = all;
}

static void text_train(Text *t)
{
    text_begin(t, "train");
    text_options(t, SCOPE_TRAIN, &t->p->train);
    text_end(t, &t->p->train.loc);
}

/* ---- names in files ------------------------------------------------------ */

static void text_optional_line(Text *t, const char *form, const char **x)
{
    if (t->out && !*x)
        return;
    text_begin(t, form);
    text_field(t, " ", x);
    text_form(t, "\n");
}

static void text_prefix(Text *t)
{
    text_optional_line(t, "prefix", &t->p->file_prefix);
}

static void text_config(Text *t)
{
    text_optional_line(t, "config", &t->p->file_config);
}

/* The name and layout of a parameter's layers, of type `layer`, in a file. */
static void text_file_tensor(Text *t, FileTensor *f, const Type *layer)
{
    Loc loc = t->tok.loc;
    int scales = 0, offsets = 0;
    text_field(t, " ", &f->name);
    if (text_given(t, f->nindex > 0, " stack=")) {
        f->nindex = text_list(t, "", f->nindex, f->stack, MAX_STACK);
        scales = text_list(t, " scale=", f->nindex, f->scale, MAX_STACK);
        offsets = text_list(t, " offset=", f->nindex, f->offset, MAX_STACK);
    }
    f->ndim = text_list(t, " ", f->ndim, f->dim, MAX_DIMS);
    bool parts = text_given(t, f->parts > 1, " parts=");
    if (parts)
        text_field(t, "", &f->parts);
    else
        f->parts = 1;
    text_field(t, " from=", &f->first);
    f->n = text_list(t, " size=", f->n, f->size, MAX_FILE_DIGITS);
    int strides = text_list(t, " stride=", f->n, f->stride, MAX_FILE_DIGITS);
    if (strides != f->n || scales != f->nindex || offsets != f->nindex ||
        !file_tensor_fits(f, layer))
        parse_fail(t, loc, "the tensor of the file does not fit the type");
}

static void text_files(Text *t, Param *p)
{
    VEC(FileTensor) files = {0};
    Type layer = param_shape(p);
    for (int i = 0; text_given(t, i < p->nfile, " file"); i++) {
        FileTensor f = t->out ? p->file[i] : (FileTensor){0};
        text_file_tensor(t, &f, &layer);
        vec_push(t->arena, &files, f);
    }
    p->file = files.at;
    p->nfile = files.n;
}

/* ---- modules, parameters, inputs ----------------------------------------- */

/* Parameters by number: their lines follow, and check_modules looks at them. */
static void text_weights(Text *t, Module *m)
{
    for (int i = 0;; i++) {
        bool given = t->out && i < m->weight.n;
        Weight w = given ? m->weight.at[i] : (Weight){0};
        w.lookup = text_given(t, given && w.lookup, " lookup(");
        if (!w.lookup && !text_given(t, given, " weight("))
            return;
        text_field(t, "param=", &w.param);
        text_field(t, " in=", &w.in_dim);
        w.out_dim = 1 - w.in_dim;
        int n = 0;
        for (; n < MAX_BIASES && text_given(t, n < w.nbiases, " bias="); n++)
            text_field(t, "", &w.bias[n]);
        w.nbiases = n;
        text_form(t, ")");
        if (!t->out)
            vec_push(t->arena, &m->weight, w);
    }
}

static void text_module(Text *t, Module *m)
{
    text_field(t, " ", &m->path);
    text_field(t, " class=", &m->class);
    text_field(t, " in=", &m->nin);
    text_field(t, " out=", &m->nout);
    text_field(t, " params=", &m->first_param);
    text_field(t, "+", &m->nparams);
    text_number(t, arena_printf(t->arena, " %s=", clause_name(CL_CHECKPOINT)),
                &m->checkpoint, t->p->plan.ncheckpoints);
    text_weights(t, m);
    text_end(t, &m->loc);
}

static void text_modules(Text *t)
{
    Program *p = t->p;
    text_lines(t, "module", p->module.at, p->module.n, Module, text_module,
               vec_push(t->arena, &p->module, x));
}

static void text_pad(Text *t, Param *p)
{
    Loc loc = t->tok.loc;
    if (!text_given(t, param_is_padded(p), " pad="))
        return;
    int n = text_list(t, "", p->type.ndim, p->pad, MAX_DIMS);
    bool fits = n == p->type.ndim;
    for (int d = 0; d < n && fits; d++)
        fits = p->pad[d] >= 0 && p->pad[d] < p->type.dim[d];
    if (!fits)
        parse_fail(t, loc, "the padding does not fit the type");
}

/* "split(0 by 3, 1 by 4)": dims and the styles that split them. */
static void text_splits(Text *t, Param *p)
{
    int i = 0;
    if (!text_given(t, p->split.n, " split("))
        return;
    do {
        Loc loc = t->tok.loc;
        StyleSplit split = t->out ? p->split.at[i] : (StyleSplit){0};
        text_field(t, "", &split.dim);
        text_field(t, " by ", &split.style);
        if (split.dim < 0 || split.dim >= p->type.ndim || split.style < 0 ||
            split.style >= t->p->plan.nstyles)
            parse_fail(t, loc, "there is no such dim or style");
        if (!t->out)
            vec_push(t->arena, &p->split, split);
    } while (text_given(t, ++i < p->split.n, ", "));
    text_form(t, ")");
}

/* The parameter whose state it is. */
static void text_state(Text *t, Param *p)
{
    if (!t->out)
        p->state_of = -1;
    Loc loc = t->tok.loc;
    if (text_given(t, p->state_of >= 0, " of=")) {
        const char *of = t->out ? t->p->param.at[p->state_of].name : NULL;
        text_field(t, "", &of);
        p->state_of = ir_param_index(t->p, of);
        if (p->state_of < 0)
            parse_fail(t, loc, "there is no parameter '%s' before it", of);
    }
    text_field_if(t, p->state, " state=", &p->state);
}

/* A setting of a parameter's group: a finite number above 0, if it is given. */
static void text_group(Text *t, OptionName id, double *x)
{
    Loc loc = t->tok.loc;
    if (!text_given(t, *x > 0, arena_printf(t->arena, " %s=", option_name(id))))
        return;
    text_field(t, "", x);
    if (!(*x > 0) || isinf(*x))
        parse_fail(t, loc, "'%s' is out of range", option_name(id));
}

static void text_param(Text *t, Param *p)
{
    static const char *const words[] = {"zeros", "ones", "normal",
                                        "truncated_normal", "uniform", "arange",
                                        "copy", NULL};
    text_field(t, " ", &p->name);
    text_field(t, " : ", &p->type);
    p->init.kind = (InitKind)text_choice(t, " init=", (int)p->init.kind, words,
                                         "an initializer");
    text_field(t, "(", &p->init.a);
    text_field(t, ", ", &p->init.b);
    if (p->init.kind == INIT_TRUNCATED_NORMAL)
        text_field(t, ", ", &p->init.c);
    text_form(t, ")");
    text_field_if(t, p->init.depth != 0, " depth=", &p->init.depth);
    text_field(t, " trainable=", &p->trainable);
    text_field(t, " decay=", &p->decay);
    text_flag(t, " module_state", &p->module_state);
    text_group(t, OPTION_lr_factor, &p->group.lr_factor);
    text_group(t, OPTION_group_decay, &p->group.weight_decay);
    text_flag(t, " adamw", &p->group.adamw);
    text_pad(t, p);
    text_state(t, p);
    Loc loc = t->tok.loc;
    text_field_if(t, p->unit, " unit=", &p->unit);
    text_number(t, " item=", &p->item, t->p->plan.nunits);
    if (p->item && !p->unit)
        parse_fail(t, loc, "a parameter with an item has the name of a unit");
    text_splits(t, p);
    text_flag(t, " gathered", &p->gathered);
    if (t->out || p->gathered)
        text_flag(t, " shared", &p->shared);
    text_flag(t, " host", &p->host);
    if (text_given(t, p->nalias, " alias"))
        p->nalias = text_strings(t, "", p->nalias, &p->alias);
    text_files(t, p);
    text_end(t, &p->loc);
}

static void text_params(Text *t)
{
    Program *p = t->p;
    text_lines(t, "param", p->param.at, p->param.n, Param, text_param,
               vec_push(t->arena, &p->param, x));
}

static void text_input(Text *t, Input *in)
{
    text_field(t, " ", &in->name);
    text_field(t, " : ", &in->type);
    text_field_if(t, in->below, " below=", &in->below);
    in->has_ignored = text_given(t, in->has_ignored, " ignore=");
    if (in->has_ignored)
        text_field(t, "", &in->ignored);
    text_end(t, &in->loc);
}

static void text_inputs(Text *t)
{
    Program *p = t->p;
    text_lines(t, "input", p->input.at, p->input.n, Input, text_input,
               vec_push(t->arena, &p->input, x));
}

static void text_output(Text *t, Output *of)
{
    text_field(t, " ", &of->name);
    of->ndim = text_list(t, " ", of->ndim, of->dim, MAX_DIMS);
    text_end(t, &of->loc);
}

static void text_outputs(Text *t)
{
    Program *p = t->p;
    text_lines(t, "output", p->output.at, p->output.n, Output, text_output,
               vec_push(t->arena, &p->output, x));
}

/* ---- the header ---------------------------------------------------------- */

/* Whether the number is that of a parameter with this many dims. */
static bool is_param(const Text *t, int param, int ndim)
{
    return param >= 0 && param < t->p->param.n &&
           t->p->param.at[param].type.ndim == ndim;
}

static bool weight_exists(const Text *t, const Weight *w)
{
    bool fine = is_param(t, w->param, 2) &&
                (w->in_dim == 0 || w->in_dim == 1);
    for (int i = 0; i < w->nbiases; i++)
        fine = fine && is_param(t, w->bias[i], 1);
    return fine;
}

static void check_modules(Text *t)
{
    for (int i = 0; i < t->p->module.n; i++) {
        const Module *m = &t->p->module.at[i];
        for (int k = 0; k < m->weight.n; k++)
            if (!weight_exists(t, &m->weight.at[k]))
                parse_fail(t, t->tok.loc, "module '%s' has a weight that does "
                           "not exist", m->path);
        if (m->first_param < 0 || m->nparams < 0 ||
            m->first_param > t->p->param.n - m->nparams)
            parse_fail(t, t->tok.loc,
                       "module '%s' has parameters that do not exist",
                       m->path);
    }
}

static void check_params(Text *t)
{
    TextMap names = {.arena = t->arena};
    for (int i = 0; i < t->p->param.n; i++)
        if (!text_map_add(&names, t->p->param.at[i].name))
            parse_fail(t, t->tok.loc, "there are two parameters '%s'",
                       t->p->param.at[i].name);
}

/* The first lines, in their order. */
static void text_title(Text *t)
{
    static const char *const stages[] = {"global", "placed", "partitioned",
                                         "stored", "fused",  NULL};
    Program *p = t->p;
    int64_t version = 1;
    text_form(t, "parc ir ");
    Loc loc = t->tok.loc;
    text_field(t, "", &version);
    if (version != 1)
        parse_fail(t, loc, "this parc reads version 1 of the IR only");
    p->stage = (Stage)text_choice(t, "\nstage ", (int)p->stage, stages,
                                  "a stage");
    if (text_given(t, p->purpose != FOR_TRAINING, "\npurpose "))
        p->purpose = (Purpose)text_choice(t, "", (int)p->purpose,
                                          purpose_words, "a purpose");
    t->repeats = p->repeats ? (int)p->repeats->purpose : -1;
    if (text_given(t, p->repeats, "\nrepeats "))
        t->repeats = text_choice(t, "", t->repeats, purpose_words,
                                 "a purpose");
    text_field(t, "\nmodel ", &p->model);
    text_form(t, "\n");
}

void text_head(Text *t)
{
    /* In the order in which they are printed. */
    const struct {
        const char *word;
        void (*text)(Text *t);
    } lines[] = {
        {"source", text_sources},
        {"mesh", text_mesh},
        {"zigzag", text_zigzag},
        {"node_size", text_node_size},
        {"cut", text_cuts},
        {"train", text_train},
        {"plan", text_plan},
        {"style", text_styles},
        {"unit", text_units},
        {clause_name(CL_CHECKPOINT), text_checkpoints},
        {clause_name(CL_OFFLOAD), text_offload},
        {clause_name(CL_PIPELINE), text_pipeline},
        {"stage_of", text_stages},
        {clause_name(CL_CONTEXT), text_context},
        {clause_name(CL_EXPERT_PARALLEL), text_experts},
        {"prefix", text_prefix},
        {"config", text_config},
        {"module", text_modules},
        {"param", text_params},
        {"input", text_inputs},
        {"output", text_outputs},
        {"streams", text_streams},
        {"arena", text_arena},
        {"rotation", text_rotations},
        {"segment", text_segments},
        {"buffer", text_buffers},
    };
    const int n = sizeof lines / sizeof *lines;
    text_title(t);
    for (int i = 0; i < n; i++)
        if (t->out) {
            lines[i].text(t);
        } else if (parse_is(t, lines[i].word)) {
            parse_next(t);
            lines[i].text(t);
            i = -1;
        }
    if (!t->out) {
        check_modules(t);
        check_params(t);
    }
    text_form(t, "step");
}
