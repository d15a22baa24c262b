/* plot.c: runs `parc plot`: reads the logs of training runs and draws their
 * curves as text, for a terminal or a pipe.
 *
 *   parc plot a.jsonl b.jsonl --field loss,grad_norm
 */
#include "driver/subcommands/plot.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/file.h"
#include "base/text.h"
#include "runtime/common/json.h"

enum { WIDTH = 80, HEIGHT = 24, MOST_SIZE = 1000, MOST_CURVES = 64 };

static const char help[] =
    "Draws the curves of training logs (./train --log FILE) as text.\n"
    "\n"
    "  parc plot [options] LOG...    ('-' reads standard input)\n"
    "\n"
    "  --field LIST   the fields to draw: loss,val_loss (default), grad_norm,\n"
    "                 lr, tokens_per_s, ...\n"
    "  --width N      columns; default: the terminal's, or 80\n"
    "  --height N     rows; default: the terminal's, or 24\n"
    "  --log-y        logarithmic values\n"
    "  --help         print this text; also -h\n"
    "\n"
    "Exit status: 0 done; 1 a log cannot be read or has no such field; 2 wrong\n"
    "usage.\n";

typedef struct PlotOptions {
    PlotStyle style;
    const char *fields; /* "loss,val_loss" */
    bool asked;         /* --field was given */
    bool help;
    VEC(const char *) log;
} PlotOptions;

typedef struct Plot {
    Arena *arena;
    Diag *diag;
    PlotOptions o;
    int ncurves;
    Curve curve[MOST_CURVES];
} Plot;

static void fail(Plot *p, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void fail(Plot *p, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_error(p->diag, (Loc){0}, "%s", arena_vprintf(p->arena, fmt, ap));
    va_end(ap);
}

/* ---- options ---- */

static int read_count(Plot *p, const char *option, const char *value, int least)
{
    char *end;
    errno = 0;
    long n = strtol(value, &end, 10);
    if (!*value || *end || errno || n < least || n > MOST_SIZE) {
        fail(p, "%s takes a whole number from %d to %d, not '%s'", option,
             least, MOST_SIZE, value);
        return least;
    }
    return (int)n;
}

/* Reads an option with a value; false if there is no such option. */
static bool valued(Plot *p, const char *name, const char *value)
{
    static const char *const names[] = {"--field", "--width", "--height"};
    int i = row_index(names, 3, name);
    if (i < 0)
        return false;
    if (!value || !*value)
        fail(p, "%s needs a value", name);
    else if (i == 0)
        p->o.fields = value, p->o.asked = true;
    else if (i == 1)
        p->o.style.width = read_count(p, name, value, PLOT_LEAST_WIDTH);
    else
        p->o.style.height = read_count(p, name, value, PLOT_LEAST_HEIGHT);
    return true;
}

static void read_options(Plot *p, int argc, char **argv)
{
    bool ended = false; /* "--" was read: the rest are logs */
    for (int i = 1; i < argc; i++) {
        const char *arg = argv[i], *equals = strchr(arg, '=');
        const char *name = equals ? arena_strndup(p->arena, arg,
                                                  (size_t)(equals - arg))
                                  : arg;
        if (ended || arg[0] != '-' || !arg[1])
            vec_push(p->arena, &p->o.log, arg);
        else if (!strcmp(arg, "--"))
            ended = true;
        else if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
            p->o.help = true;
        else if (!strcmp(arg, "--log-y"))
            p->o.style.log_y = true;
        else if (valued(p, name, equals ? equals + 1 : argv[i + 1]))
            i += !equals && i + 1 < argc;
        else
            fail(p, "unknown option '%s'; see 'parc plot --help'", arg);
    }
    if (!p->o.log.n && !p->o.help)
        fail(p, "parc plot needs a log: parc plot log.jsonl");
}

static void default_style(PlotStyle *s)
{
    struct winsize size;
    bool terminal = isatty(STDOUT_FILENO) &&
                    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    setlocale(LC_CTYPE, "");
    const char *no_color = getenv("NO_COLOR");
    *s = (PlotStyle){WIDTH, HEIGHT, false,
                     !strcmp(nl_langinfo(CODESET), "UTF-8"),
                     terminal && !(no_color && *no_color)};
    if (terminal && size.ws_col >= PLOT_LEAST_WIDTH)
        s->width = size.ws_col < MOST_SIZE ? size.ws_col : MOST_SIZE;
    if (terminal && size.ws_row > PLOT_LEAST_HEIGHT) /* one for the prompt */
        s->height = size.ws_row < MOST_SIZE ? size.ws_row - 1 : MOST_SIZE;
}

/* ---- logs ---- */

/* A log has a JSON object per line:
 *
 *   {"step": 1, "loss": 5.54, "lr": 1e-3}         loss: (1, 5.54) (2, 5.31)
 *   {"step": 2, "loss": 5.31, "lr": 1e-3}    ->   lr:   (1, 1e-3) (2, 1e-3)
 *
 * Every key with a number is a field. Null, text and nested values give no
 * point. A line that is not such an object, or has no step, is counted and
 * skipped: the last line of a log may be incomplete while its run writes it.
 */
enum { NAME_BYTES = 64, LINE_FIELDS = 64 };

typedef struct Field {
    const char *name;
    VEC(double) step;
    VEC(double) value;
} Field;

typedef struct Log {
    VEC(Field) field;
} Log;

/* The fields of one line, with the step that applies to all of them. */
typedef struct Line {
    int n;
    int field[LINE_FIELDS];
    double value[LINE_FIELDS], step;
} Line;

static int find_field(const Log *log, const char *name)
{
    return row_index(log->field.at, log->field.n, name);
}

static int find_or_add(Arena *a, Log *log, const char *name)
{
    int i = find_field(log, name);
    if (i >= 0)
        return i;
    vec_push(a, &log->field, ((Field){.name = arena_strdup(a, name)}));
    return log->field.n - 1;
}

/* Reads a line; false if it is damaged. */
static bool read_line(Arena *a, Log *log, RtJson *j, Line *line)
{
    char key[NAME_BYTES];
    *line = (Line){.step = NAN};
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key)) {
        int c = rt_json_peek(j);
        if (c != '-' && (c < '0' || c > '9')) {
            rt_json_skip(j);
            continue;
        }
        double value = rt_json_number(j);
        if (!strcmp(key, "step")) {
            line->step = value;
        } else if (line->n < LINE_FIELDS && isfinite(value)) {
            line->field[line->n] = find_or_add(a, log, key);
            line->value[line->n++] = value;
        }
    }
    return rt_json_peek(j) < 0 && !j->error && isfinite(line->step);
}

static void add_line(Arena *a, Log *log, const Line *line)
{
    for (int i = 0; i < line->n; i++) {
        Field *f = &log->field.at[line->field[i]];
        vec_push(a, &f->step, line->step);
        vec_push(a, &f->value, line->value[i]);
    }
}

/* Reads a log ("-": standard input). NULL with errno set if the file cannot be
 * read. Damaged lines are counted; *first is the first one. */
static Log *log_read(Arena *a, const char *path, int *damaged, int *first)
{
    size_t size;
    const char *text = file_read(a, path, &size);
    if (!text)
        return NULL;
    Log *log = NEW(a, Log);
    Line line;
    int number = 1;
    *damaged = *first = 0;
    for (size_t at = 0; at < size; number++) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t n = end ? (size_t)(end - text) - at : size - at;
        RtJson j = {.text = (const unsigned char *)text + at,
                    .end = (int64_t)n};
        if (rt_json_peek(&j) < 0) {
            /* an empty line */
        } else if (read_line(a, log, &j, &line)) {
            add_line(a, log, &line);
        } else {
            *first = *damaged ? *first : number;
            ++*damaged;
        }
        at += n + 1;
    }
    return log;
}

/* The points of a field; n is 0 if the log has no such field. */
static Curve log_curve(const Log *log, const char *path, const char *field)
{
    Curve c = {.log = path, .field = field};
    int i = find_field(log, field);
    if (i < 0)
        return c;
    c.n = log->field.at[i].value.n;
    c.step = log->field.at[i].step.at;
    c.value = log->field.at[i].value.at;
    return c;
}

/* The names of the fields with at least one number, separated by ", ". */
static const char *log_fields(Arena *a, const Log *log)
{
    const char *text = "";
    for (int i = 0; i < log->field.n; i++)
        if (log->field.at[i].value.n > 0)
            text = arena_printf(a, "%s%s%s", text, *text ? ", " : "",
                                log->field.at[i].name);
    return text;
}

/* ---- curves ---- */

static void add_curves(Plot *p, const Log *log, const char *path)
{
    char *rest, *list = arena_strdup(p->arena, p->o.fields);
    for (char *field = strtok_r(list, ",", &rest); field;
         field = strtok_r(NULL, ",", &rest)) {
        Curve c = log_curve(log, path, field);
        if (c.n == 0 && p->o.asked)
            fail(p, "%s has no number in the field '%s'; its fields are: %s",
                 path, field, log_fields(p->arena, log));
        if (c.n > 0 && p->ncurves == MOST_CURVES)
            fail(p, "more than %d curves", MOST_CURVES);
        else if (c.n > 0)
            p->curve[p->ncurves++] = c;
    }
}

static void read_log(Plot *p, const char *path)
{
    int damaged, line;
    const Log *log = log_read(p->arena, path, &damaged, &line);
    if (!log) {
        fail(p, "cannot read '%s': %s", path, strerror(errno));
        return;
    }
    if (damaged)
        fprintf(stderr, "%s:%d: note: not a line of a log: %d line%s skipped\n",
                path, line, damaged, damaged == 1 ? " is" : "s are");
    int before = p->ncurves;
    add_curves(p, log, path);
    if (p->ncurves == before && !p->o.asked)
        fail(p, "%s has no line with a loss", path);
}

static int draw_plot(Plot *p)
{
    Out o;
    out_init(&o, p->arena);
    for (int i = 0; i < p->o.log.n; i++)
        read_log(p, p->o.log.at[i]);
    if (diag_error_count(p->diag) > 0)
        return 1;
    /* Without colors, only characters tell several curves apart. */
    p->o.style.unicode &= p->ncurves == 1 || p->o.style.color;
    if (!plot_draw(&o, p->curve, p->ncurves, &p->o.style)) {
        fail(p, "--log-y: no value is above 0");
        return 1;
    }
    fwrite(o.text, 1, o.size, stdout);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fail(p, "cannot write standard output: %s", strerror(errno));
        return 1;
    }
    return 0;
}

int plot_main(int argc, char **argv)
{
    Plot p = {.arena = arena_new(), .o.fields = "loss,val_loss"};
    p.diag = diag_new(p.arena, COLOR_AUTO);
    default_style(&p.o.style);
    read_options(&p, argc, argv);
    int status = 2;
    if (diag_error_count(p.diag) > 0)
        ;
    else if (p.o.help)
        status = fputs(help, stdout) < 0 || fflush(stdout) != 0;
    else
        status = draw_plot(&p);
    diag_flush(p.diag, stderr);
    arena_free(p.arena);
    return status;
}
