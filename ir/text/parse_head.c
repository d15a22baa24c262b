/* parse_head.c: parses the header of a printed program; print_head.c shows
 * it. */
#include <stdlib.h>
#include <string.h>

#include "ir/text/parse.h"
#include "ir/text/print.h"

/* The source of the dump's programs with the name: they share their sources. */
static uint16_t source_named(Parser *s, const char *name)
{
    const Source *known;
    for (uint16_t i = s->file + 1; (known = diag_source_at(s->diag, i)); i++)
        if (!strcmp(known->name, name))
            return i;
    return diag_source(s->diag, name, "", 0);
}

static void parse_source(Parser *s)
{
    Loc loc = s->tok.loc;
    if (parse_small(s) != s->source.n + 1)
        parse_fail(s, loc, "sources are numbered 1, 2, …");
    const char *name = parse_string(s);
    if (!s->failed)
        vec_push(s->arena, &s->source, source_named(s, name));
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

static void parse_train(Parser *s)
{
    parse_options(s, SCOPE_TRAIN, &s->p->train);
    s->p->train.loc = parse_loc(s);
}

/* ---- modules, parameters, inputs ----------------------------------------- */

/* "item=2", a number below n, plus 1; 0 if the key is not there. */
static int optional_number(Parser *s, const char *key, int n)
{
    if (!parse_take_key(s, key))
        return 0;
    Loc loc = s->tok.loc;
    int number = parse_small(s);
    if (number < 0 || number >= n)
        parse_fail(s, loc, "the plan has no %s %d", key, number);
    return number + 1;
}

/* The parameters follow the modules: check_modules looks at their numbers. */
static void parse_weight(Parser *s, Module *m, bool lookup)
{
    Weight w = {.lookup = lookup};
    parse_expect(s, '(');
    w.param = parse_keyed_small(s, "param");
    w.in_dim = parse_keyed_small(s, "in");
    w.out_dim = 1 - w.in_dim;
    while (w.nbiases < MAX_BIASES && parse_take_key(s, "bias"))
        w.bias[w.nbiases++] = parse_small(s);
    parse_expect(s, ')');
    vec_push(s->arena, &m->weight, w);
}

static void parse_module(Parser *s)
{
    Module m = {.path = parse_string(s)};
    parse_expect_key(s, "class");
    m.class = parse_string(s);
    m.nin = parse_keyed_small(s, "in");
    m.nout = parse_keyed_small(s, "out");
    m.first_param = parse_keyed_small(s, "params");
    parse_expect(s, '+');
    m.nparams = parse_small(s);
    m.checkpoint = optional_number(s, clause_name(CL_CHECKPOINT),
                                   s->p->plan.ncheckpoints);
    while (!s->failed) {
        bool lookup = parse_take_word(s, "lookup");
        if (!lookup && !parse_take_word(s, "weight"))
            break;
        parse_weight(s, &m, lookup);
    }
    m.loc = parse_loc(s);
    vec_push(s->arena, &s->p->module, m);
}

static const char *optional_string(Parser *s, const char *key)
{
    if (!parse_take_key(s, key))
        return NULL;
    return parse_string(s);
}

static void parse_pad(Parser *s, Param *p)
{
    Loc loc = s->tok.loc;
    parse_expect_key(s, "pad");
    AttrList l = parse_list(s, MAX_DIMS);
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
    AttrList l = parse_list(s, MAX_DIMS);
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
    f.first = parse_keyed(s, "from");
    parse_expect_key(s, "size");
    f.n = parse_numbers(s, f.size, MAX_FILE_FACTORS);
    parse_expect_key(s, "stride");
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

/* "split(0 by 3, 1 by 4)": dims and the styles that split them. */
static void parse_splits(Parser *s, Param *p)
{
    if (!parse_take_word(s, "split"))
        return;
    parse_expect(s, '(');
    do {
        Loc loc = s->tok.loc;
        StyleSplit split = {.dim = parse_small(s)};
        parse_expect_word(s, "by");
        split.style = parse_small(s);
        if (split.dim < 0 || split.dim >= p->type.ndim || split.style < 0 ||
            split.style >= s->p->plan.nstyles)
            parse_fail(s, loc, "there is no such dim or style");
        vec_push(s->arena, &p->split, split);
    } while (parse_take(s, ',') && !s->failed);
    parse_expect(s, ')');
}

static void parse_param(Parser *s)
{
    Param p = {.name = parse_string(s), .state_of = -1};
    parse_expect(s, ':');
    p.type = parse_type(s);
    parse_expect_key(s, "init");
    p.init.kind = (InitKind)parse_choice(s, ir_init_words, "an initializer");
    parse_expect(s, '(');
    p.init.a = parse_number(s);
    parse_expect(s, ',');
    p.init.b = parse_number(s);
    parse_expect(s, ')');
    parse_expect_key(s, "trainable");
    p.trainable = parse_bool(s);
    parse_expect_key(s, "decay");
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
    p.item = optional_number(s, "item", s->p->plan.nunits);
    if (p.item && !p.unit)
        parse_fail(s, of_loc, "a parameter with an item has the name of a "
                   "unit");
    parse_splits(s, &p);
    p.gathered = parse_take_word(s, "gathered");
    p.shared = p.gathered && parse_take_word(s, "shared");
    p.host = parse_take_word(s, "host");
    if (parse_take_word(s, "alias"))
        p.nalias = parse_strings(s, &p.alias);
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
    if (parse_take_key(s, "below"))
        in.below = parse_int(s);
    if (parse_take_key(s, "ignore")) {
        in.has_ignored = true;
        in.ignored = parse_int(s);
    }
    in.loc = parse_loc(s);
    vec_push(s->arena, &s->p->input, in);
}

static void parse_output(Parser *s)
{
    Output of = {.name = parse_string(s)};
    AttrList l = parse_list(s, MAX_DIMS);
    of.ndim = l.n;
    memcpy(of.dim, l.v, sizeof of.dim);
    of.loc = parse_loc(s);
    vec_push(s->arena, &s->p->output, of);
}

/* ---- the header ---------------------------------------------------------- */

/* Whether the number is that of a parameter with this many dims. */
static bool is_param(const Parser *s, int param, int ndim)
{
    return param >= 0 && param < s->p->param.n &&
           s->p->param.at[param].type.ndim == ndim;
}

static bool weight_exists(const Parser *s, const Weight *w)
{
    bool fine = is_param(s, w->param, 2) &&
                (w->in_dim == 0 || w->in_dim == 1);
    for (int i = 0; i < w->nbiases; i++)
        fine = fine && is_param(s, w->bias[i], 1);
    return fine;
}

static void check_modules(Parser *s)
{
    for (int i = 0; i < s->p->module.n; i++) {
        const Module *m = &s->p->module.at[i];
        for (int k = 0; k < m->weight.n; k++)
            if (!weight_exists(s, &m->weight.at[k]))
                parse_fail(s, s->tok.loc, "module '%s' has a weight that does "
                           "not exist", m->path);
        if (m->first_param < 0 || m->nparams < 0 ||
            m->first_param > s->p->param.n - m->nparams)
            parse_fail(s, s->tok.loc,
                       "module '%s' has parameters that do not "
                       "exist",
                       m->path);
    }
}

static int by_name(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static void check_params(Parser *s)
{
    int n = s->p->param.n;
    const char **name = NEW_ARRAY(s->arena, const char *, n + 1);
    for (int i = 0; i < n; i++)
        name[i] = s->p->param.at[i].name;
    if (n)
        qsort(name, (size_t)n, sizeof *name, by_name);
    for (int i = 1; i < n; i++)
        if (strcmp(name[i - 1], name[i]) == 0)
            parse_fail(s, s->tok.loc, "there are two parameters '%s'", name[i]);
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
    if (parse_take_word(s, "purpose"))
        s->p->purpose = (Purpose)parse_choice(s, purpose_words, "a purpose");
    if (parse_take_word(s, "repeats"))
        s->repeats = parse_choice(s, purpose_words, "a purpose");
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
    check_params(s);
    parse_expect_word(s, "step");
}
