/* options.c: reads the command line, as the table of option_table.c describes
 * it, and prints the texts of --help, --version and similar options. */
#include "driver/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/out.h"
#include "base/text.h"
#include "base/version.h"
#include "driver/auto_plan.h"
#include "driver/help.h"
#include "frontend/options/options.h"
#include "report/report.h"

enum { MAX_THREADS = 4096 };

char *command_line_text(Arena *a, int argc, char **argv)
{
    Out o;
    out_init(&o, a);
    out(&o, "parc");
    for (int i = 1; i < argc; i++)
        out(&o, " %s", argv[i]);
    for (char *s = o.text; *s; s++) /* the source must be one line */
        *s = *s == '\n' || *s == '\r' ? ' ' : *s;
    return o.text;
}

/* ---- reading arguments ---- */

typedef struct Reader {
    Arena *arena;
    Diag *diag;
    Options *o;
    int argc, at;
    char **argv;
    uint16_t file;
    uint32_t col; /* column of argv[at] in the command line's source */
    bool wrong;
} Reader;

static Loc loc_at(const Reader *r, size_t skip, size_t len)
{
    Loc loc = {r->file, 1, 1, r->col + (uint32_t)skip};
    loc.len = len > UINT16_MAX ? UINT16_MAX : len > 0 ? (uint16_t)len : 1;
    return loc;
}

static void wrong(Reader *r, Loc loc, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void wrong(Reader *r, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_error(r->diag, loc, "%s", arena_vprintf(r->arena, fmt, ap));
    va_end(ap);
    r->wrong = true;
}

/* The name in the list for a word of other compilers; NULL if unknown. */
static const char *known_as(const char *name, const char *const *names, int n)
{
    static const struct {
        const char *said, *meant;
    } table[] = {{"gpu", "cuda"},  {"nvidia", "cuda"}, {"nvptx", "cuda"},
                 {"host", "cpu"},  {"x86", "cpu"},     {"--output", "-o"},
                 {"--verbose", "-v"}, {"--define", "-D"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int j = 0; j < n; j++)
            if (strcmp(name, table[i].said) == 0 &&
                strcmp(names[j], table[i].meant) == 0)
                return names[j];
    return NULL;
}

/* The value in the list that a word means or is near to; else NULL. */
static const char *near_value(const char *word, const char *const *names, int n)
{
    const char *known = known_as(word, names, n);
    return known ? known : diag_near_miss(word, names, n);
}

/* Suggests a name; without one, prints `otherwise`. */
static void suggest(Reader *r, const char *near, const char *otherwise)
{
    if (near)
        diag_help(r->diag, "did you mean '%s'?", near);
    else
        diag_help(r->diag, "%s", otherwise);
}

/* The index of a word in a list, or -1 after an error that lists them. */
static int word_index(Reader *r, Argument value, const char *what,
                      const char *const *names, int n)
{
    Out o;
    out_init(&o, r->arena);
    out(&o, "use one of ");
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], value.text) == 0)
            return i;
        out(&o, "%s%s", i ? ", " : "", names[i]);
    }
    wrong(r, value.loc, "unknown %s '%s'", what, value.text);
    suggest(r, near_value(value.text, names, n), o.text);
    return -1;
}

/* The index of a value among its row's words, or -1 after an error. */
static int choose_word(Reader *r, const OptionRow *row, Argument value,
                       const char *what)
{
    int n;
    const char **words = option_words(r->arena, row, &n);
    return word_index(r, value, what, words, n);
}

/* Earlier names of passes, which scripts may still use. */
typedef struct EarlierName {
    const char *was, *is;
} EarlierName;
static const EarlierName earlier[] = {
    {"shadow", "lowp_copies"}, {"shared", "share_params"},
    {"reduce", "grad_dtype"},  {"refine", "split_kv_axis"},
    {"events", "sync"},        {"rows", "fuse_embedding_grad"},
};

static int choose_pass(Reader *r, Argument value)
{
    int n = pass_count + 1;
    const char **names = NEW_ARRAY(r->arena, const char *, n);
    for (int i = 0; i < n; i++)
        names[i] = pass_name(i - 1);
    const EarlierName *old = table_find(earlier, value.text);
    int i = row_index(names, n, old ? old->is : value.text);
    if (i >= 0)
        return i - 1;
    wrong(r, value.loc, "unknown pass '%s'", value.text);
    suggest(r, near_value(value.text, names, n),
            "'parc --list-passes' lists them");
    return -1;
}

static void read_emit(Reader *r, const OptionRow *row, Argument value)
{
    const char *equals = strchr(value.text, '=');
    size_t n = equals ? (size_t)(equals - value.text) : strlen(value.text);
    EmitRequest e = {.file = equals ? equals + 1 : NULL, .loc = value.loc};
    Argument kind = {arena_strndup(r->arena, value.text, n), value.loc};
    kind.loc.len = n ? (uint16_t)n : 1;
    int index = choose_word(r, row, kind, "kind of output");
    if (index < 0)
        return;
    if (e.file && !*e.file) {
        wrong(r, value.loc, "'%s=' has no file name", kind.text);
        return;
    }
    e.kind = (EmitKind)index; /* ORDER EmitKind: as in option_table */
    vec_push(r->arena, &r->o->emit, e);
}

static void read_number(Reader *r, const OptionRow *row, Argument value)
{
    int most = row->id == OPT_THREADS ? MAX_THREADS : MAX_RANKS;
    Options *o = r->o;
    char *end;
    errno = 0;
    long n = strtol(value.text, &end, 10);
    if (*end || end == value.text || errno || n < 1 || n > most) {
        wrong(r, value.loc, "%s must be a number from 1 to %d", row->name, most);
        return;
    }
    bool ranks = row->id == OPT_RANKS, search = row->id == OPT_SEARCH;
    if (row->id == OPT_THREADS) {
        o->threads = (int)n;
        return;
    }
    *(ranks ? &o->ranks : search ? &o->search : &o->node_size) = n;
    *(ranks ? &o->ranks_arg : search ? &o->search_arg : &o->node_size_arg) = value;
}

static void read_memory(Reader *r, Argument value)
{
    static const char units[] = "KMGT";
    char *end;
    double x = strtod(value.text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (int i = 0; unit && i <= unit - units; i++)
        x *= 1024;
    end += unit != NULL;
    if (unit && strcmp(end, "iB") == 0) /* the spelling of reports: GiB */
        end += 2;
    if (end == value.text || *end || !(x >= 1) || x > 1e18) {
        wrong(r, value.loc, "--device-memory takes a size");
        diag_help(r->diag, "write 80G, 512MiB or a number of bytes");
        return;
    }
    r->o->device_memory = value;
    r->o->memory_limit = (int64_t)x;
}

/* Reports an unknown architecture, such as "sm_75" or "sm90a". */
static void wrong_arch(Reader *r, Argument value, const char *name)
{
    int known = 0, number = 0, end = 0;
    while (cuda_archs[known])
        known++;
    bool old = sscanf(name, "sm_%d%n", &number, &end) == 1 && !name[end] &&
               number >= 10 && number < 80;
    const char *near = diag_near_miss(name, cuda_archs, known);
    wrong(r, value.loc,
          old ? "'%s' is too old: parc compiles for sm_80 and newer"
              : "'%s' is not a GPU architecture that parc knows", name);
    if (near && !old)
        diag_help(r->diag, "did you mean '%s'?", near);
    else
        diag_help(r->diag, "write a list like sm_80,sm_90a");
}

static bool has_name(const char *const *list, int n, const char *name)
{
    for (int i = 0; i < n && list[i]; i++)
        if (strcmp(list[i], name) == 0)
            return true;
    return false;
}

static void read_arch(Reader *r, Argument value)
{
    const char *s = value.text;
    for (;;) {
        size_t n = strcspn(s, ",");
        const char *name = arena_strndup(r->arena, s, n);
        if (!has_name(cuda_archs, INT_MAX, name)) {
            wrong_arch(r, value, name);
            return;
        }
        if (!has_name(r->o->arch.at, r->o->arch.n, name))
            vec_push(r->arena, &r->o->arch, name);
        if (!s[n])
            return;
        s += n + 1;
    }
}

/* The words of the row are the names of the CPU levels, in the same order. */
static void read_cpu(Reader *r, const OptionRow *row, Argument value)
{
    int i = choose_word(r, row, value, "CPU level");
    if (i >= 0)
        r->o->cpu = &cpu_level[i];
    r->o->cpu_level = value;
}

static void once(Reader *r, Argument *slot, Argument value, const char *name)
{
    if (slot->text) {
        wrong(r, value.loc, "%s is given twice", name);
        diag_note(r->diag, slot->loc, "the first is here");
        return;
    }
    if (!*value.text)
        wrong(r, value.loc, "%s is empty", name);
    *slot = value;
}

/* The field of an option that takes any text; NULL: another kind of option. */
static Argument *text_of(Options *o, OptionId id)
{
    return id == OPT_MESH          ? &o->mesh
           : id == OPT_PLAN        ? &o->plan
           : id == OPT_CONFIG      ? &o->config
           : id == OPT_OUTPUT      ? &o->binary
           : id == OPT_SOURCE_TREE ? &o->directory
           : id == OPT_MACHINE     ? &o->machine
           : id == OPT_FROM        ? &o->from
           : id == OPT_EXPLAIN     ? &o->explain
                                   : NULL;
}

/* The field of an option without a value; NULL: another kind of option. */
static bool *flag_of(Options *o, OptionId id)
{
    return id == OPT_NO_EVAL       ? &o->no_eval
           : id == OPT_TIME_PASSES ? &o->pipeline.time_passes
           : id == OPT_VERBOSE     ? &o->verbose
           : id == OPT_DUMP_ALL    ? &o->pipeline.dump_after_all
                                   : NULL;
}

static void take(Reader *r, const OptionRow *row, Argument value)
{
    Options *o = r->o;
    int i;
    if (text_of(o, row->id)) {
        once(r, text_of(o, row->id), value, row->name);
        return;
    }
    if (flag_of(o, row->id)) {
        *flag_of(o, row->id) = true;
        return;
    }
    switch ((int)row->id) {
    case OPT_RANKS:
    case OPT_NODE_SIZE:
    case OPT_SEARCH:
    case OPT_THREADS:
        read_number(r, row, value);
        return;
    case OPT_TARGET:
        i = choose_word(r, row, value, "target");
        o->target = i == 1 ? TARGET_CPU : TARGET_CUDA;
        return;
    case OPT_ARCH:
        read_arch(r, value);
        return;
    case OPT_CPU:
        read_cpu(r, row, value);
        return;
    case OPT_MEMORY:
        read_memory(r, value);
        return;
    case OPT_DEFINE:
        vec_push(r->arena, &o->define, value);
        return;
    case OPT_EMIT:
        read_emit(r, row, value);
        return;
    case OPT_DUMP_BEFORE:
        i = choose_pass(r, value);
        if (i < 0 && !r->wrong)
            wrong(r, value.loc,
                  "'lower' is the first pass: no IR exists before it");
        vec_push(r->arena, &o->pipeline.dump_before, i);
        return;
    case OPT_DUMP_AFTER:
        i = choose_pass(r, value);
        vec_push(r->arena, &o->pipeline.dump_after, i);
        return;
    case OPT_STOP_AFTER:
        o->pipeline.stop_after = choose_pass(r, value);
        o->pipeline.stops = true;
        return;
    case OPT_START_AFTER:
        o->pipeline.start_after = choose_pass(r, value);
        o->pipeline.starts = true;
        return;
    case OPT_COLOR:
        i = choose_word(r, row, value, "color setting");
        diag_set_color(r->diag, i == 1   ? COLOR_ALWAYS
                                : i == 2 ? COLOR_NEVER
                                         : COLOR_AUTO);
        return;
    case OPT_COMPLETION:
        i = choose_word(r, row, value, "shell");
        if (i >= 0)
            o->completion = value.text;
        return;
    default: /* print_and_stop handles the others */
        bug("option %s is not read", row->name);
    }
}

/* ---- syntax of options ---- */

static void next(Reader *r)
{
    r->col += (uint32_t)strlen(r->argv[r->at]) + 1;
    r->at++;
}

/* Messages quote the arguments from column `from` to the current one. */
static void show_from(Reader *r, uint32_t from)
{
    diag_option(r->diag, from, r->col + (uint32_t)strlen(r->argv[r->at]));
}

static void unknown(Reader *r, const char *arg, size_t n)
{
    const char **names = NEW_ARRAY(r->arena, const char *, option_count);
    for (int i = 0; i < option_count; i++)
        names[i] = option_table[i].name;
    const char *name = arena_strndup(r->arena, arg, n);
    const char *known = known_as(name, names, option_count);
    wrong(r, loc_at(r, 0, n), "unknown option '%s'", name);
    const char *setting = starts_with(name, "--")
                              ? option_define_help(r->arena, name + 2) : NULL;
    if (setting)
        diag_help(r->diag, "%s", setting);
    else
        suggest(r, known ? known : option_near(r->arena, name),
                "'parc --help' lists the options");
}

static bool is_name(const char *name, const char *arg, size_t n)
{
    return name && strlen(name) == n && strncmp(name, arg, n) == 0;
}

/* The row of an option. *used receives the length of the name in arg. */
static const OptionRow *option_row(const char *arg, size_t *used)
{
    *used = arg[1] == '-' ? strcspn(arg, "=") : 2;
    for (int i = 0; i < option_count; i++) {
        const OptionRow *row = &option_table[i];
        if (is_name(row->name, arg, *used) || is_name(row->alias, arg, *used))
            return row;
    }
    return NULL;
}

static bool is_option(const char *arg)
{
    size_t used;
    return arg[0] == '-' && arg[1] && option_row(arg, &used) &&
           used == strlen(arg);
}

static void read_option(Reader *r)
{
    const char *arg = r->argv[r->at];
    size_t used, size = strlen(arg);
    const OptionRow *row = option_row(arg, &used);
    if (!row) {
        show_from(r, r->col);
        unknown(r, arg, arg[1] == '-' ? used : size);
        return;
    }
    uint32_t from = r->col;
    Argument value = {NULL, loc_at(r, 0, size)};
    if (!row->value || used < size || r->at + 1 >= r->argc)
        show_from(r, from);
    if (!row->value && used < size && arg[1] != '-') { /* -help */
        unknown(r, arg, size);
        return;
    }
    if (!row->value && used < size) {
        wrong(r, value.loc, "%s takes no value", row->name);
        return;
    }
    if (row->value && used < size) { /* --mesh=2x2, -Dname=3 */
        size_t skip = used + (arg[1] == '-');
        value.text = arg + skip;
        value.loc = loc_at(r, skip, size - skip);
    } else if (row->value) {
        if (r->at + 1 >= r->argc) {
            wrong(r, value.loc, "%s needs a value: %s", row->name, row->value);
            return;
        }
        next(r);
        show_from(r, from);
        if (is_option(r->argv[r->at])) {
            value.loc = loc_at(r, 0, strlen(r->argv[r->at]));
            wrong(r, value.loc, "%s needs a value: %s", row->name, row->value);
            diag_help(r->diag, "'%s' is an option", r->argv[r->at]);
        }
        value.text = r->argv[r->at];
        value.loc = loc_at(r, 0, strlen(value.text));
    }
    take(r, row, value);
}

static void take_input(Reader *r)
{
    const char *arg = r->argv[r->at];
    Argument value = {arg, loc_at(r, 0, strlen(arg))};
    show_from(r, r->col);
    if (r->o->input.text && r->wrong)
        return; /* perhaps the value of an unknown option */
    if (r->o->input.text) {
        wrong(r, value.loc, "'%s' is a second input: parc compiles one", arg);
        diag_note(r->diag, r->o->input.loc, "the first is here");
        return;
    }
    if (!*arg)
        wrong(r, value.loc, "the input's name is empty");
    r->o->input = value;
}

bool options_need_plan(const Options *o)
{
    bool need = o->binary.text || o->directory.text || o->explain.text ||
                o->memory_limit > 0;
    for (int i = 0; i < o->emit.n; i++)
        need |= o->emit.at[i].kind != EMIT_AST &&
                o->emit.at[i].kind != EMIT_IR;
    return need;
}

/* Rejects combinations of options that contradict each other. */
static void check_together(Reader *r)
{
    const Options *o = r->o;
    Loc end = loc_at(r, 0, 1);
    bool finished = options_need_plan(o), tree = false;
    for (int i = 0; i < o->emit.n; i++)
        tree |= o->emit.at[i].kind == EMIT_AST;
    const PipelineOptions *p = &o->pipeline;
    if (!o->input.text) {
        wrong(r, end, "no model is given");
        diag_help(r->diag, "parc [options] MODEL.pdl; 'parc --help' lists the "
                           "options");
    } else if (o->cpu_level.text && o->target != TARGET_CPU) {
        wrong(r, o->cpu_level.loc, "--cpu is for programs that run on CPUs");
        diag_help(r->diag, "add --target cpu; programs for GPUs run on every "
                           "CPU of their host's architecture");
    } else if (finished && p->stops && p->stop_after < pass_count - 1) {
        wrong(r, end, "--stop-after=%s leaves the plan unfinished: only --emit ir works "
              "with it", pass_name(p->stop_after));
    } else if (p->starts && (o->mesh.text || o->ranks_arg.text ||
                             o->node_size_arg.text || o->plan.text ||
                             o->config.text || o->define.n)) {
        Argument a = o->mesh.text            ? o->mesh
                     : o->ranks_arg.text     ? o->ranks_arg
                     : o->node_size_arg.text ? o->node_size_arg
                     : o->plan.text          ? o->plan
                     : o->config.text        ? o->config
                                             : o->define.at[0];
        wrong(r, a.loc, "an IR dump already has a mesh, a plan and sizes: "
              "remove this option");
    } else if (o->search && !(auto_requested(o) && o->machine.text)) {
        wrong(r, o->search_arg.loc, "--search has no effect without --machine and --mesh auto "
              "or --plan auto");
    } else if (p->starts && tree) {
        wrong(r, end, "an IR dump has no syntax tree: --emit ast needs PDL");
    } else if (p->starts && p->stops && p->stop_after < p->start_after) {
        wrong(r, end, "--stop-after=%s comes before --start-after=%s",
              pass_name(p->stop_after), pass_name(p->start_after));
    }
}

/* An option that prints a text ends the run and overrides the other options. */
static bool print_and_stop(Arena *a, int argc, char **argv)
{
    Out o;
    out_init(&o, a);
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++) {
        size_t used;
        const OptionRow *row =
            argv[i][0] == '-' ? option_row(argv[i], &used) : NULL;
        if (!row || argv[i][used])
            continue;
        if (row->id == OPT_HELP)
            help_text(&o);
        else if (row->id == OPT_MANUAL)
            help_manual(&o);
        else if (row->id == OPT_VERSION)
            out(&o, "parc %s\n", PARC_VERSION);
        else if (row->id == OPT_LIST_PASSES)
            pass_list(&o);
        else if (row->id == OPT_LIST_OPTIONS)
            report_options(&o);
        else
            continue;
        fputs(o.text, stdout);
        return true;
    }
    return false;
}

OptionsResult options_parse(Arena *a, Diag *d, uint16_t file, int argc,
                            char **argv, Options *o)
{
    *o = (Options){.target = TARGET_CUDA, .cpu = &cpu_level[PARC_CPU_NATIVE]};
    if (print_and_stop(a, argc, argv))
        return OPTIONS_DONE;
    Reader r = {.arena = a,
                .diag = d,
                .o = o,
                .argc = argc,
                .at = 1,
                .argv = argv,
                .file = file,
                .col = 6};
    bool only_inputs = false;
    for (; r.at < argc; next(&r)) {
        const char *arg = argv[r.at];
        if (only_inputs || arg[0] != '-' || arg[1] == 0)
            take_input(&r);
        else if (strcmp(arg, "--") == 0)
            only_inputs = true;
        else
            read_option(&r);
    }
    if (!r.wrong && o->completion) {
        Out text;
        out_init(&text, a);
        help_completion(&text, o->completion);
        fputs(text.text, stdout);
        return OPTIONS_DONE;
    }
    if (!r.wrong)
        check_together(&r);
    return r.wrong ? OPTIONS_WRONG : OPTIONS_RUN;
}
