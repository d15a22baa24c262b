/* plot.c: runs `parc plot`: reads the logs of training runs and draws their
 * curves as text, for a terminal or a pipe.
 *
 *   parc plot a.jsonl b.jsonl --field loss,grad_norm
 */
#include "driver/plot.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/diag.h"
#include "base/text.h"

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
