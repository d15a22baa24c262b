/* option_values.c: converts the values of options and stores them in Options: words of a list,
 * numbers, sizes, names of passes, GPU architectures and CPU levels. */
#include "driver/options/option_values.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bug.h"
#include "base/out.h"
#include "base/text.h"
#include "driver/options/help.h"

enum { MAX_THREADS = 4096 };

void option_wrong(OptionReader *r, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_error(r->diag, loc, "%s", arena_vprintf(r->arena, fmt, ap));
    va_end(ap);
    r->wrong = true;
}

const char *option_known_as(const char *name, const char *const *names, int n)
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
    const char *known = option_known_as(word, names, n);
    return known ? known : diag_near_miss(word, names, n);
}

void option_suggest(OptionReader *r, const char *near, const char *otherwise)
{
    if (near)
        diag_help(r->diag, "did you mean '%s'?", near);
    else
        diag_help(r->diag, "%s", otherwise);
}

/* The index of a word in a list, or -1 after an error that lists them. */
static int word_index(OptionReader *r, Argument value, const char *what,
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
    option_wrong(r, value.loc, "unknown %s '%s'", what, value.text);
    option_suggest(r, near_value(value.text, names, n), o.text);
    return -1;
}

/* The index of a value among its row's words, or -1 after an error. */
static int choose_word(OptionReader *r, const OptionRow *row, Argument value,
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

static int choose_pass(OptionReader *r, Argument value)
{
    int n = pass_count + 1;
    const char **names = NEW_ARRAY(r->arena, const char *, n);
    for (int i = 0; i < n; i++)
        names[i] = pass_name(i - 1);
    const EarlierName *old = table_find(earlier, value.text);
    int i = row_index(names, n, old ? old->is : value.text);
    if (i >= 0)
        return i - 1;
    option_wrong(r, value.loc, "unknown pass '%s'", value.text);
    option_suggest(r, near_value(value.text, names, n),
                   "'parc --list-passes' lists them");
    return -1;
}

static void read_emit(OptionReader *r, const OptionRow *row, Argument value)
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
        option_wrong(r, value.loc, "'%s=' has no file name", kind.text);
        return;
    }
    e.kind = (EmitKind)index; /* ORDER EmitKind: as in option_table */
    vec_push(r->arena, &r->o->emit, e);
}

static void read_number(OptionReader *r, const OptionRow *row, Argument value)
{
    int most = row->id == OPT_THREADS ? MAX_THREADS : MAX_RANKS;
    Options *o = r->o;
    char *end;
    errno = 0;
    long n = strtol(value.text, &end, 10);
    if (*end || end == value.text || errno || n < 1 || n > most) {
        option_wrong(r, value.loc, "%s must be a number from 1 to %d", row->name, most);
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

static void read_memory(OptionReader *r, Argument value)
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
        option_wrong(r, value.loc, "--device-memory takes a size");
        diag_help(r->diag, "write 80G, 512MiB or a number of bytes");
        return;
    }
    r->o->device_memory = value;
    r->o->memory_limit = (int64_t)x;
}

/* Reports an unknown architecture, such as "sm_75" or "sm90a". */
static void wrong_arch(OptionReader *r, Argument value, const char *name)
{
    int known = 0, number = 0, end = 0;
    while (cuda_archs[known])
        known++;
    bool old = sscanf(name, "sm_%d%n", &number, &end) == 1 && !name[end] &&
               number >= 10 && number < 80;
    const char *near = diag_near_miss(name, cuda_archs, known);
    option_wrong(r, value.loc,
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

static void read_arch(OptionReader *r, Argument value)
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
static void read_cpu(OptionReader *r, const OptionRow *row, Argument value)
{
    int i = choose_word(r, row, value, "CPU level");
    if (i >= 0)
        r->o->cpu = &cpu_level[i];
    r->o->cpu_level = value;
}

static void once(OptionReader *r, Argument *slot, Argument value, const char *name)
{
    if (slot->text) {
        option_wrong(r, value.loc, "%s is given twice", name);
        diag_note(r->diag, slot->loc, "the first is here");
        return;
    }
    if (!*value.text)
        option_wrong(r, value.loc, "%s is empty", name);
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

void option_take(OptionReader *r, const OptionRow *row, Argument value)
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
            option_wrong(r, value.loc,
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
