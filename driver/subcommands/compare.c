/* compare.c: runs `parc compare`: reads two plans, or makes them with parc itself, and
 * prints what differs.
 *
 *   parc compare llama.pdl --mesh 8x8 --mesh 16x4 --machine h100-sxm
 *
 * makes the plans of `parc llama.pdl --mesh 8x8 --machine h100-sxm` and of the same
 * command with --mesh 16x4: an option that is given twice has its first value in plan a
 * and its second in plan b.
 */
#include "driver/subcommands/compare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "compare/compare.h"
#include "driver/options/option_table.h"
#include "driver/subcommands/subcommand.h"
#include "page/page.h"

static const char help[] =
    "Prints what differs between two execution plans, and what it costs.\n"
    "\n"
    "  parc compare [--json] A.json B.json      plans that --emit json has written;\n"
    "                                           or pages of --emit html\n"
    "  parc compare [--json] A.pdl B.pdl [options of parc]\n"
    "  parc compare [--json] MODEL.pdl --mesh 8x8 --mesh 16x4 [options of parc]\n"
    "\n"
    "An option that is given twice has its first value in plan a and its second in\n"
    "plan b; -D belongs to both. With --machine the times are compared too.\n"
    "\n"
    "  --json            print JSON\n"
    "  --emit html=FILE  write a page that shows both plans side by side; the plans\n"
    "                    are models or pages\n"
    "  --help            print this text; also -h\n"
    "\n"
    "Exit status: 0 done; 1 a plan cannot be made or read; 2 wrong usage.\n";

typedef struct Given {
    const OptionRow *row;
    const char *value; /* NULL: the option takes none */
} Given;

typedef struct Compare {
    Subcommand run;
    bool json, help;
    const char *page; /* the file of --emit html=FILE; NULL: none */
    const char *plan[2]; /* for the page: JSON */
    VEC(const char *) input;
    VEC(Given) given;
} Compare;

/* ---- options ------------------------------------------------------------- */

/* Whether the option is about plans, not about what parc prints or writes. */
static bool is_of_plan(OptionId id)
{
    return id == OPT_MESH || id == OPT_RANKS || id == OPT_NODE_SIZE || id == OPT_PLAN ||
           id == OPT_TARGET || id == OPT_CPU || id == OPT_THREADS || id == OPT_MEMORY ||
           id == OPT_MACHINE || id == OPT_DEFINE || id == OPT_CONFIG ||
           id == OPT_NO_EVAL;
}

static const OptionRow *option_of(const char *name)
{
    for (int i = 0; i < option_count; i++) {
        const OptionRow *row = &option_table[i];
        if (strcmp(row->name, name) == 0 || (row->alias && strcmp(row->alias, name) == 0))
            return row;
    }
    return NULL;
}

static void read_emit(Compare *c, const char *value)
{
    static const char html[] = "html=";
    if (!starts_with(value, html) || !value[strlen(html)])
        subcommand_fail(&c->run, 2, "parc compare writes a page only: --emit html=FILE");
    if (c->page)
        subcommand_fail(&c->run, 2, "--emit is given twice");
    c->page = value + strlen(html);
}

/* Reads the option argv[*at], and its value. */
static void read_option(Compare *c, int argc, char **argv, int *at)
{
    const char *arg = argv[*at], *value = strchr(arg, '=');
    bool attached = starts_with(arg, "-D") && arg[2];
    const char *name = attached ? "-D"
                       : value  ? arena_strndup(c->run.arena, arg, (size_t)(value - arg))
                                : arg;
    const OptionRow *row = option_of(name);
    if (row && row->id == OPT_EMIT) {
        read_emit(c, value ? value + 1 : *at + 1 < argc ? argv[++*at] : "");
        return;
    }
    if (!row || !is_of_plan(row->id)) {
        subcommand_fail(&c->run, 2, "parc compare has no option '%s'; see 'parc compare "
                        "--help'", name);
        return;
    }
    value = attached ? arg + 2 : value ? value + 1 : NULL;
    if (row->kind == VALUE_NONE && value)
        subcommand_fail(&c->run, 2, "%s takes no value", name);
    if (row->kind != VALUE_NONE && !value)
        value = *at + 1 < argc ? argv[++*at] : NULL;
    if (row->kind != VALUE_NONE && !value)
        subcommand_fail(&c->run, 2, "%s needs a value", name);
    vec_push(c->run.arena, &c->given, ((Given){row, value}));
}

static void read_arguments(Compare *c, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") == 0)
            c->json = true;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            c->help = true;
        else if (argv[i][0] == '-' && argv[i][1])
            read_option(c, argc, argv, &i);
        else
            vec_push(c->run.arena, &c->input, (const char *)argv[i]);
}

/* How often the option was given before the i-th. */
static int given_before(const Compare *c, int i)
{
    int n = 0;
    for (int k = 0; k < i; k++)
        n += c->given.at[k].row == c->given.at[i].row;
    return n;
}

/* Whether the i-th option belongs to plan number `side`. */
static bool is_of_side(const Compare *c, int i, int side)
{
    bool twice = false;
    for (int k = 0; k < c->given.n; k++)
        twice |= k != i && c->given.at[k].row == c->given.at[i].row;
    return c->given.at[i].row->id == OPT_DEFINE || !twice || given_before(c, i) == side;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

static bool is_page(const Compare *c, int side)
{
    return c->input.n == 2 && ends_with(c->input.at[side], ".html");
}

/* Whether the input is a plan that parc has written. */
static bool is_plan(const Compare *c, int side)
{
    return is_page(c, side) || (c->input.n == 2 && ends_with(c->input.at[side], ".json"));
}

static void check_arguments(Compare *c)
{
    bool twice = false;
    for (int i = 0; i < c->given.n; i++) {
        int before = c->given.at[i].row->id == OPT_DEFINE ? 0 : given_before(c, i);
        twice |= before == 1;
        if (before > 1)
            subcommand_fail(&c->run, 2, "%s is given more than twice",
                            c->given.at[i].row->name);
        if (before == 1 && (is_plan(c, 0) || is_plan(c, 1)))
            subcommand_fail(&c->run, 2, "%s is given twice, but only one plan is to be made",
                            c->given.at[i].row->name);
    }
    if (c->input.n < 1 || c->input.n > 2)
        subcommand_fail(&c->run, 2, "parc compare needs two plans, or one model with an "
                        "option that is given twice; see 'parc compare --help'");
    else if (c->input.n == 1 && !twice)
        subcommand_fail(&c->run, 2, "parc compare needs a second plan: give an option "
                        "twice, as --mesh 8x8 --mesh 16x4; -D belongs to both plans: for "
                        "different values write them with --emit json, and compare the files");
    for (int side = 0; c->page && side < 2; side++)
        if (is_plan(c, side) && !is_page(c, side))
            subcommand_fail(&c->run, 2, "a page needs more of a plan than '%s' has; write "
                            "it with --emit html", c->input.at[side]);
    for (int i = 0; c->page && i < c->input.n; i++)
        if (strcmp(c->page, c->input.at[i]) == 0)
            subcommand_fail(&c->run, 2, "the page would overwrite '%s'", c->page);
    if (c->json && c->page)
        subcommand_fail(&c->run, 2, "--json and --emit html exclude each other");
    if (is_plan(c, 0) && is_plan(c, 1) && c->given.n)
        subcommand_fail(&c->run, 2, "%s has no effect on plans that exist",
                        c->given.at[0].row->name);
}

/* ---- plans --------------------------------------------------------------- */

/* Lets parc write the plan as JSON. Returns the file's name; NULL after an error. */
static const char *make_plan(Compare *c, int side, const char *directory)
{
    Arena *a = c->run.arena;
    const char *kind = c->page ? "html" : "json";
    const char *file = arena_printf(a, "%s/%c.%s", directory, 'a' + side, kind);
    VEC(const char *) argv = {0};
    vec_push(a, &argv, c->input.at[c->input.n == 2 ? side : 0]);
    for (int i = 0; i < c->given.n; i++) {
        const Given *g = &c->given.at[i];
        if (!is_of_side(c, i, side))
            continue;
        vec_push(a, &argv, g->row->name);
        if (g->value)
            vec_push(a, &argv, g->value);
    }
    vec_push(a, &argv, (const char *)"--emit");
    vec_push(a, &argv, (const char *)arena_printf(a, "%s=%s", kind, file));
    vec_push(a, &argv, (const char *)NULL);
    int status = subcommand_run(&c->run, argv.at);
    if (status == 0)
        return file;
    subcommand_fail(&c->run, status == 2 ? 2 : 1, "plan %c cannot be made", 'a' + side);
    return NULL;
}

static void read_side(Compare *c, Comparison *to, int side, const char *directory)
{
    const char *given = is_plan(c, side) ? c->input.at[side] : NULL;
    const char *file = given ? given : make_plan(c, side, directory);
    size_t size;
    if (!file)
        return;
    const char *text = file_read(c->run.arena, file, &size);
    if (!text) {
        subcommand_fail(&c->run, 1, "cannot read '%s': %s", file, strerror(errno));
        return;
    }
    if (c->page || is_page(c, side)) {
        text = page_plan(c->run.arena, text, size, &size);
        c->plan[side] = text;
    }
    if (!text) {
        subcommand_fail(&c->run, 1, "'%s' is no page of one plan, as --emit html writes it", file);
        return;
    }
    const char *wrong = compare_read(to, side, text, size);
    if (wrong)
        subcommand_fail(&c->run, 1, "%s: %s", given ? given : "a plan of parc", wrong);
}

static void write_page(Compare *c, const Comparison *plans)
{
    Out comparison, page;
    out_init(&comparison, c->run.arena);
    out_init(&page, c->run.arena);
    compare_print_json(&comparison, plans);
    page_emit_two(&page, c->plan, comparison.text);
    Outputs *outputs = outputs_new(c->run.arena);
    const char *wrong = outputs_add(outputs, c->page, page.text, page.size, false);
    wrong = wrong ? wrong : outputs_commit(outputs);
    if (wrong)
        subcommand_fail(&c->run, 1, "%s", wrong);
}

static void compare_plans(Compare *c)
{
    Comparison plans = compare_new(c->run.arena);
    Outputs *temporary = outputs_new(c->run.arena);
    const char *directory = outputs_directory(temporary);
    if (!directory)
        subcommand_fail(&c->run, 1, "cannot make a directory for temporary files: %s",
                        strerror(errno));
    for (int side = 0; side < 2 && !c->run.status; side++)
        read_side(c, &plans, side, directory);
    outputs_abandon(temporary);
    if (c->run.status)
        return;
    Out o;
    out_init(&o, c->run.arena);
    if (c->page) {
        write_page(c, &plans);
        return;
    }
    if (c->json)
        compare_print_json(&o, &plans);
    else
        compare_print(&o, &plans);
    if (fwrite(o.text, 1, o.size, stdout) < o.size || fflush(stdout) != 0)
        subcommand_fail(&c->run, 1, "cannot write the comparison: %s", strerror(errno));
}

int compare_main(int argc, char **argv)
{
    Compare c = {.run = subcommand_new()};
    read_arguments(&c, argc, argv);
    if (c.help)
        subcommand_help(&c.run, help);
    else
        check_arguments(&c);
    if (!c.help && !c.run.status)
        compare_plans(&c);
    return subcommand_end(&c.run);
}
