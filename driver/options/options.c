/* options.c: reads the command line, as the table of option_table.c describes
 * it, and prints the texts of --help, --version and similar options. The values of
 * options are converted in option_values.c. */
#include "driver/options/options.h"

#include <stdio.h>
#include <string.h>

#include "base/out.h"
#include "base/text.h"
#include "base/version.h"
#include "driver/options/help.h"
#include "driver/options/option_values.h"
#include "frontend/options/options.h"
#include "report/report.h"

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
    OptionReader values;
    int argc, at;
    char **argv;
    uint16_t file;
    uint32_t col; /* column of argv[at] in the command line's source */
} Reader;

static Loc loc_at(const Reader *r, size_t skip, size_t len)
{
    Loc loc = {r->file, 1, 1, r->col + (uint32_t)skip};
    loc.len = len > UINT16_MAX ? UINT16_MAX : len > 0 ? (uint16_t)len : 1;
    return loc;
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
    diag_option(r->values.diag, from, r->col + (uint32_t)strlen(r->argv[r->at]));
}

static void unknown(Reader *r, const char *arg, size_t n)
{
    const char **names = NEW_ARRAY(r->values.arena, const char *, option_count);
    for (int i = 0; i < option_count; i++)
        names[i] = option_table[i].name;
    const char *name = arena_strndup(r->values.arena, arg, n);
    const char *known = option_known_as(name, names, option_count);
    option_wrong(&r->values, loc_at(r, 0, n), "unknown option '%s'", name);
    const char *setting =
        starts_with(name, "--") ? option_define_help(r->values.arena, name + 2) : NULL;
    if (setting)
        diag_help(r->values.diag, "%s", setting);
    else
        option_suggest(&r->values, known ? known : option_near(r->values.arena, name),
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
        option_wrong(&r->values, value.loc, "%s takes no value", row->name);
        return;
    }
    if (row->value && used < size) { /* --mesh=2x2, -Dname=3 */
        size_t skip = used + (arg[1] == '-');
        value.text = arg + skip;
        value.loc = loc_at(r, skip, size - skip);
    } else if (row->value) {
        if (r->at + 1 >= r->argc) {
            option_wrong(&r->values, value.loc, "%s needs a value: %s", row->name, row->value);
            return;
        }
        next(r);
        show_from(r, from);
        if (is_option(r->argv[r->at])) {
            value.loc = loc_at(r, 0, strlen(r->argv[r->at]));
            option_wrong(&r->values, value.loc, "%s needs a value: %s", row->name, row->value);
            diag_help(r->values.diag, "'%s' is an option", r->argv[r->at]);
        }
        value.text = r->argv[r->at];
        value.loc = loc_at(r, 0, strlen(value.text));
    }
    option_take(&r->values, row, value);
}

static void take_input(Reader *r)
{
    const char *arg = r->argv[r->at];
    Argument value = {arg, loc_at(r, 0, strlen(arg))};
    show_from(r, r->col);
    if (r->values.o->input.text && r->values.wrong)
        return; /* perhaps the value of an unknown option */
    if (r->values.o->input.text) {
        option_wrong(&r->values, value.loc, "'%s' is a second input: parc compiles one", arg);
        diag_note(r->values.diag, r->values.o->input.loc, "the first is here");
        return;
    }
    if (!*arg)
        option_wrong(&r->values, value.loc, "the input's name is empty");
    r->values.o->input = value;
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
    OptionReader *v = &r->values;
    const Options *o = v->o;
    Loc end = loc_at(r, 0, 1);
    bool finished = options_need_plan(o), tree = false;
    for (int i = 0; i < o->emit.n; i++)
        tree |= o->emit.at[i].kind == EMIT_AST;
    const PipelineOptions *p = &o->pipeline;
    if (!o->input.text) {
        option_wrong(v, end, "no model is given");
        diag_help(v->diag, "parc [options] MODEL.pdl; 'parc --help' lists the options");
    } else if (o->cpu_level.text && o->target != TARGET_CPU) {
        option_wrong(v, o->cpu_level.loc, "--cpu is for programs that run on CPUs");
        diag_help(v->diag, "add --target cpu; programs for GPUs run on every "
                           "CPU of their host's architecture");
    } else if (finished && p->stops && p->stop_after < pass_count - 1) {
        option_wrong(v, end, "--stop-after=%s leaves the plan unfinished: only --emit ir "
                             "works with it", pass_name(p->stop_after));
    } else if (p->starts && (o->mesh.text || o->ranks_arg.text ||
                             o->node_size_arg.text || o->plan.text ||
                             o->config.text || o->define.n)) {
        Argument a = o->mesh.text            ? o->mesh
                     : o->ranks_arg.text     ? o->ranks_arg
                     : o->node_size_arg.text ? o->node_size_arg
                     : o->plan.text          ? o->plan
                     : o->config.text        ? o->config
                                             : o->define.at[0];
        option_wrong(v, a.loc, "an IR dump already has a mesh, a plan and sizes: remove this "
                               "option");
    } else if (p->starts && tree) {
        option_wrong(v, end, "an IR dump has no syntax tree: --emit ast needs PDL");
    } else if (p->starts && p->stops && p->stop_after < p->start_after) {
        option_wrong(v, end, "--stop-after=%s comes before --start-after=%s",
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
    Reader r = {.values = {.arena = a, .diag = d, .o = o},
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
    if (!r.values.wrong && o->completion) {
        Out text;
        out_init(&text, a);
        help_completion(&text, o->completion);
        fputs(text.text, stdout);
        return OPTIONS_DONE;
    }
    if (!r.values.wrong)
        check_together(&r);
    return r.values.wrong ? OPTIONS_WRONG : OPTIONS_RUN;
}
