/* parse_head.c: parses the header of a printed program; print_head.c shows
 * it. */
#include <string.h>

#include "ir/parse.h"
#include "ir/print.h"

static void parse_source(Parser *s)
{
    Loc loc = s->tok.loc;
    if (parse_small(s) != s->source.n + 1)
        parse_fail(s, loc, "sources are numbered 1, 2, …");
    const char *name = parse_string(s);
    if (!s->failed)
        vec_push(s->arena, &s->source, diag_source(s->diag, name, "", 0));
}

static void parse_mesh(Parser *s)
{
    Mesh *m = &s->p->mesh;
    bool in_time = false;
    while (!s->tok.first && (s->tok.kind == TK_WORD || !in_time)) {
        if (!in_time && s->tok.kind != TK_WORD) {
            parse_expect(s, ':');
            in_time = true;
        }
        Loc loc = s->tok.loc;
        const char *name = parse_word(s, "an axis");
        parse_expect(s, '=');
        int64_t size = parse_int(s);
        if (in_time)
            m->ntime++;
        if (m->n == MAX_AXES)
            parse_fail(s, loc, "more than %d axes", MAX_AXES);
        if (size < 1)
            parse_fail(s, loc, "the size of '%s' is out of range", name);
        for (int a = 0; a < m->n; a++)
            if (strcmp(m->name[a], name) == 0)
                parse_fail(s, loc, "two axes '%s'", name);
        if (s->failed)
            return;
        m->name[m->n] = name;
        m->size[m->n++] = size;
    }
    int64_t parts = 1;
    for (int a = 0; a < m->n && !s->failed; a++) {
        bool huge = __builtin_mul_overflow(parts, m->size[a], &parts);
        if (huge || (a < m->n - m->ntime && parts > MAX_RANKS))
            parse_fail(s, s->tok.loc, "the mesh has more than %d ranks",
                       MAX_RANKS);
    }
}

/* ---- train --------------------------------------------------------------- */

static void expect_key(Parser *s, const char *key)
{
    parse_expect_word(s, key);
    parse_expect(s, '=');
}

static double keyed_number(Parser *s, const char *key)
{
    expect_key(s, key);
    return parse_number(s);
}

/* schedule=cosine(warmup, steps, min_lr) */
static void parse_schedule(Parser *s, LrSchedule *to)
{
    expect_key(s, "schedule");
    to->kind =
        (ScheduleKind)parse_choice(s, ir_schedule_words, "a schedule");
    parse_expect(s, '(');
    Loc loc = s->tok.loc;
    to->warmup = parse_int(s);
    parse_expect(s, ',');
    to->steps = parse_int(s);
    if (to->warmup < 0 || to->steps < 0)
        parse_fail(s, loc, "steps are not negative");
    parse_expect(s, ',');
    to->min_lr = parse_number(s);
    parse_expect(s, ')');
}

static void parse_train(Parser *s)
{
    Train *t = &s->p->train;
    expect_key(s, "batch");
    t->batch = parse_int(s);
    expect_key(s, "seq");
    t->seq = parse_int(s);
    expect_key(s, "precision");
    t->precision = parse_dtype(s);
    expect_key(s, "optimizer");
    t->optimizer =
        (OptimizerKind)parse_choice(s, ir_optimizer_words, "an optimizer");
    t->lr = keyed_number(s, "lr");
    t->beta1 = keyed_number(s, "beta1");
    t->beta2 = keyed_number(s, "beta2");
    t->eps = keyed_number(s, "eps");
    t->weight_decay = keyed_number(s, "weight_decay");
    t->momentum = keyed_number(s, "momentum");
    if (parse_is_word(s, "reduce")) {
        expect_key(s, "reduce");
        t->reduce = parse_dtype(s);
    }
    if (parse_is_word(s, "clip"))
        t->clip = keyed_number(s, "clip");
    if (parse_is_word(s, "loss_scale"))
        t->loss_scale = keyed_number(s, "loss_scale");
    if (parse_is_word(s, "schedule"))
        parse_schedule(s, &t->schedule);
    if (parse_is_word(s, "head_chunk")) {
        expect_key(s, "head_chunk");
        t->head_chunk = parse_int(s);
    }
    if (parse_is_word(s, "epilogues")) {
        expect_key(s, "epilogues");
        parse_expect_word(s, "none");
        t->bare_matmuls = true;
    }
    if (parse_is_word(s, "accumulate")) {
        expect_key(s, "accumulate");
        t->accumulate = parse_int(s);
    }
    if (parse_is_word(s, "deterministic")) {
        expect_key(s, "deterministic");
        t->deterministic = parse_bool(s);
    }
    t->loc = parse_loc(s);
}

/* ---- plan ---------------------------------------------------------------- */

static Layout parse_layout(Parser *s)
{
    Layout l = {0};
    l.kind = (LayoutKind)parse_choice(s, ir_layout_words, "a layout");
    if (l.kind != LAYOUT_SHARD)
        return l;
    parse_expect(s, '(');
    Loc loc = s->tok.loc;
    int64_t d = parse_int(s);
    if (d < -MAX_DIMS || d >= MAX_DIMS)
        parse_fail(s, loc, "no such dim");
    l.dim = s->failed ? 0 : (int)d;
    parse_expect(s, ')');
    return l;
}

static int parse_layouts(Parser *s, const char *word, Layout *from, Layout *to)
{
    int n = 0;
    parse_expect_word(s, word);
    parse_expect(s, '(');
    if (parse_take(s, ')'))
        return 0;
    do {
        if (n == MAX_PORTS) {
            parse_fail(s, s->tok.loc, "more than %d layouts", MAX_PORTS);
            return 0;
        }
        from[n] = parse_layout(s);
        if (s->tok.kind != TK_ARROW)
            parse_fail(s, s->tok.loc, "expected '->'");
        parse_next(s);
        to[n++] = parse_layout(s);
    } while (parse_take(s, ','));
    parse_expect(s, ')');
    return s->failed ? 0 : n;
}

static Style parse_style(Parser *s)
{
    Style style = {0};
    const char *words[STYLE_KINDS + 1] = {NULL};
    for (int k = 0; k < STYLE_KINDS; k++)
        words[k] = style_name((StyleKind)k);
    style.kind = (StyleKind)parse_choice(s, words, "a style");
    style.path = parse_string(s);
    expect_key(s, "axis");
    style.axis = parse_axis(s);
    style.whole = parse_is_word(s, "whole");
    if (style.whole)
        parse_next(s);
    style.nin = parse_layouts(s, "in", style.in_from, style.in_to);
    style.nout = parse_layouts(s, "out", style.out_from, style.out_to);
    style.loc = parse_loc(s);
    return style;
}

static Unit parse_unit(Parser *s)
{
    static const char *const words[] = {"paths", "every", "min_params", NULL};
    Unit u = {.replicate_axis = -1};
    if (parse_is_word(s, "axes")) {
        expect_key(s, "axes");
        u.axes = parse_axes(s);
    } else {
        expect_key(s, "axis");
        u.axes = 1u << parse_axis(s);
    }
    if (parse_is_word(s, "replicate")) {
        expect_key(s, "replicate");
        u.replicate_axis = parse_axis(s);
    }
    u.replicas = parse_is_word(s, "no_shard");
    if (u.replicas)
        parse_next(s);
    u.kind = (UnitKind)parse_choice(s, words, "what the unit holds");
    if (u.kind == UNIT_PATHS) {
        u.npaths = parse_strings(s, &u.path);
    } else {
        parse_expect(s, '=');
        if (u.kind == UNIT_EVERY)
            u.class = parse_string(s);
        else
            u.min_params = parse_int(s);
    }
    expect_key(s, "reshard");
    u.reshard = parse_small(s);
    expect_key(s, "prefetch");
    Loc at = s->tok.loc;
    u.prefetch = parse_small(s);
    if (u.prefetch < -1 || u.prefetch > MAX_PREFETCH)
        parse_fail(s, at, "a prefetch distance is at most %d", MAX_PREFETCH);
    u.loc = parse_loc(s);
    return u;
}

static Checkpoint parse_checkpoint(Parser *s)
{
    static const char *const words[] = {"paths", "every", NULL};
    Checkpoint c = {0};
    if (parse_choice(s, words, "what is recomputed") == 0) {
        c.npaths = parse_strings(s, &c.path);
    } else {
        parse_expect(s, '=');
        c.class = parse_string(s);
    }
    c.every = 1;
    if (parse_is_word(s, "each")) {
        expect_key(s, "each");
        Loc loc = s->tok.loc;
        c.every = parse_small(s);
        if (c.every < 1)
            parse_fail(s, loc, "each is at least 1");
    }
    while (parse_is_word(s, "keep") && !s->failed) {
        expect_key(s, "keep");
        int k = parse_choice(s, keep_words, "what is saved");
        c.keep |= 1u << k;
    }
    c.loc = parse_loc(s);
    return c;
}

static void parse_offload(Parser *s, PlanSpec *plan)
{
    do
        plan->offload |= 1u << parse_choice(s, offload_words,
                                            "what is offloaded");
    while (!s->failed && s->tok.kind == TK_WORD && !s->tok.first);
    plan->offload_loc = parse_loc(s);
}

static void parse_plan(Parser *s)
{
    PlanSpec *plan = &s->p->plan;
    VEC(Style) styles = {0};
    VEC(Unit) units = {0};
    VEC(Checkpoint) checkpoints = {0};
    plan->name = parse_string(s);
    expect_key(s, "axes");
    plan->tensor_axes = parse_axes(s);
    plan->loc = parse_loc(s);
    while (!s->failed) {
        if (parse_is_word(s, "style")) {
            parse_next(s);
            Style style = parse_style(s);
            vec_push(s->arena, &styles, style);
        } else if (parse_is_word(s, "unit")) {
            parse_next(s);
            Unit unit = parse_unit(s);
            vec_push(s->arena, &units, unit);
        } else if (parse_is_word(s, "checkpoint")) {
            parse_next(s);
            Checkpoint checkpoint = parse_checkpoint(s);
            vec_push(s->arena, &checkpoints, checkpoint);
        } else if (parse_is_word(s, "offload")) {
            parse_next(s);
            parse_offload(s, plan);
        } else {
            break;
        }
    }
    plan->style = styles.at;
    plan->nstyles = styles.n;
    plan->unit = units.at;
    plan->nunits = units.n;
    plan->checkpoint = checkpoints.at;
    plan->ncheckpoints = checkpoints.n;
}

/* ---- modules, parameters, inputs ----------------------------------------- */

static void parse_module(Parser *s)
{
    Module m = {.path = parse_string(s)};
    expect_key(s, "class");
    m.class = parse_string(s);
    expect_key(s, "in");
    m.nin = parse_small(s);
    expect_key(s, "out");
    m.nout = parse_small(s);
    expect_key(s, "params");
    m.first_param = parse_small(s);
    parse_expect(s, '+');
    m.nparams = parse_small(s);
    m.loc = parse_loc(s);
    vec_push(s->arena, &s->p->module, m);
}

static const char *optional_string(Parser *s, const char *key)
{
    if (!parse_is_word(s, key))
        return NULL;
    expect_key(s, key);
    return parse_string(s);
}

static void parse_pad(Parser *s, Param *p)
{
    Loc loc = s->tok.loc;
    expect_key(s, "pad");
    AttrList l = parse_list(s);
    bool fits = l.n == p->type.ndim;
    for (int d = 0; d < l.n && fits; d++) {
        p->pad[d] = l.v[d];
        fits = l.v[d] >= 0 && l.v[d] < p->type.dim[d];
    }
    if (!fits)
        parse_fail(s, loc, "the padding does not fit the type");
}

/* A list of at most `most` numbers; returns their number. */
static int parse_numbers(Parser *s, int64_t *to, int most)
{
    Loc loc = s->tok.loc;
    AttrList l = parse_list(s);
    if (l.n > most) {
        parse_fail(s, loc, "at most %d numbers are possible", most);
        return 0;
    }
    for (int i = 0; i < l.n; i++)
        to[i] = l.v[i];
    return l.n;
}

static FileTensor parse_file_tensor(Parser *s, const Type *t)
{
    Loc loc = s->tok.loc;
    parse_next(s);
    FileTensor f = {.name = parse_string(s)};
    f.ndim = parse_numbers(s, f.dim, MAX_DIMS);
    expect_key(s, "from");
    f.first = parse_int(s);
    expect_key(s, "size");
    f.n = parse_numbers(s, f.size, MAX_FILE_FACTORS);
    expect_key(s, "stride");
    int strides = parse_numbers(s, f.stride, MAX_FILE_FACTORS);
    if (!s->failed && (strides != f.n || !file_tensor_fits(&f, t)))
        parse_fail(s, loc, "the layout in the file does not fit the type");
    return f;
}

static void parse_prefix(Parser *s)
{
    s->p->file_prefix = parse_string(s);
}

static void parse_config(Parser *s)
{
    s->p->file_config = parse_string(s);
}

static void parse_param(Parser *s)
{
    Param p = {.name = parse_string(s), .state_of = -1};
    parse_expect(s, ':');
    p.type = parse_type(s);
    expect_key(s, "init");
    p.init.kind = (InitKind)parse_choice(s, ir_init_words, "an initializer");
    parse_expect(s, '(');
    p.init.a = parse_number(s);
    parse_expect(s, ',');
    p.init.b = parse_number(s);
    parse_expect(s, ')');
    expect_key(s, "trainable");
    p.trainable = parse_bool(s);
    expect_key(s, "decay");
    p.decay = parse_bool(s);
    if (parse_is_word(s, "pad"))
        parse_pad(s, &p);
    Loc of_loc = s->tok.loc;
    const char *of = optional_string(s, "of");
    if (of)
        p.state_of = ir_param_index(s->p, of);
    if (of && p.state_of < 0)
        parse_fail(s, of_loc, "there is no parameter '%s' before it", of);
    p.slot = optional_string(s, "slot");
    p.unit = optional_string(s, "unit");
    p.kept = parse_is_word(s, "kept");
    if (p.kept)
        parse_next(s);
    p.shared = p.kept && parse_is_word(s, "shared");
    if (p.shared)
        parse_next(s);
    p.host = parse_is_word(s, "host");
    if (p.host)
        parse_next(s);
    if (parse_is_word(s, "alias")) {
        parse_next(s);
        p.nalias = parse_strings(s, &p.alias);
    }
    VEC(FileTensor) files = {0};
    while (parse_is_word(s, "file")) {
        Type shape = param_shape(&p);
        FileTensor f = parse_file_tensor(s, &shape);
        vec_push(s->arena, &files, f);
    }
    p.file = files.at;
    p.nfile = files.n;
    p.loc = parse_loc(s);
    vec_push(s->arena, &s->p->param, p);
}

static void parse_input(Parser *s)
{
    Input in = {.name = parse_string(s)};
    parse_expect(s, ':');
    in.type = parse_type(s);
    if (parse_is_word(s, "below")) {
        expect_key(s, "below");
        in.below = parse_int(s);
    }
    if (parse_is_word(s, "ignore")) {
        expect_key(s, "ignore");
        in.has_ignored = true;
        in.ignored = parse_int(s);
    }
    in.loc = parse_loc(s);
    vec_push(s->arena, &s->p->input, in);
}

static void parse_output(Parser *s)
{
    Output of = {.name = parse_string(s)};
    AttrList l = parse_list(s);
    of.ndim = l.n;
    memcpy(of.dim, l.v, sizeof l.v);
    of.loc = parse_loc(s);
    vec_push(s->arena, &s->p->output, of);
}

/* ---- the header ---------------------------------------------------------- */

static void check_modules(Parser *s)
{
    for (int i = 0; i < s->p->module.n; i++) {
        const Module *m = &s->p->module.at[i];
        if (m->first_param < 0 || m->nparams < 0 ||
            m->first_param > s->p->param.n - m->nparams)
            parse_fail(s, s->tok.loc,
                       "module '%s' has parameters that do not "
                       "exist",
                       m->path);
    }
}

void parse_head(Parser *s)
{
    static const struct {
        const char *word;
        void (*parse)(Parser *s);
    } lines[] = {
        {"source", parse_source}, {"mesh", parse_mesh},
        {"train", parse_train},   {"plan", parse_plan},
        {"module", parse_module}, {"param", parse_param},
        {"input", parse_input},   {"output", parse_output},
        {"prefix", parse_prefix}, {"config", parse_config},
        {"streams", parse_streams}, {"arena", parse_arena},
        {"segment", parse_segment},
        {"buffer", parse_buffer},
    };
    const size_t nlines = sizeof lines / sizeof *lines;
    parse_expect_word(s, "parc");
    parse_expect_word(s, "ir");
    Loc loc = s->tok.loc;
    if (parse_int(s) != 1)
        parse_fail(s, loc, "this parc reads version 1 of the IR only");
    parse_expect_word(s, "stage");
    s->p->stage = (Stage)parse_choice(s, ir_stage_words, "a stage");
    if (parse_is_word(s, "purpose")) {
        parse_next(s);
        s->p->purpose = (Purpose)parse_choice(s, purpose_words, "a purpose");
    }
    parse_expect_word(s, "model");
    s->p->model = parse_string(s);
    while (!parse_is_word(s, "step") && !s->failed) {
        size_t i = 0;
        while (i < nlines && !parse_is_word(s, lines[i].word))
            i++;
        if (i == nlines) {
            parse_expect_word(s, "step");
            return;
        }
        parse_next(s);
        lines[i].parse(s);
    }
    check_modules(s);
    parse_expect_word(s, "step");
}
