/* diag.c: collects and prints diagnostics, and finds the nearest of several
 * names for suggestions.
 *
 * A message is formatted when it is raised and printed by diag_flush. Notes and
 * helps follow the message that they explain, and are dropped with it when it
 * is a repetition or exceeds the error limit.
 */
#include "base/diag.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/out.h"

enum { ERROR_LIMIT = 20, MAX_NAME = 64, LINE_WINDOW = 160 };

static const struct {
    const char *word, *color;
} severity_table[] = {
    [SEV_ERROR] = {"error", "\033[1;31m"},
    [SEV_WARNING] = {"warning", "\033[1;35m"},
    [SEV_NOTE] = {"note", "\033[1;36m"},
    [SEV_HELP] = {"help", "\033[1;32m"},
};

typedef struct Message {
    Severity severity;
    Loc loc;
    const char *text;
} Message;

/* An option of the command line with its value: columns from … to - 1. */
typedef struct OptionRange {
    uint32_t from, to;
} OptionRange;

struct Diag {
    Arena *arena;
    ColorWhen color;
    VEC(OptionRange) option;
    VEC(Source) source;
    VEC(Message) message;
    int printed;   /* messages that diag_flush has printed */
    int errors;    /* raised, including those beyond the limit */
    int told;      /* errors when "N errors." was last printed */
    bool dropping; /* the last error was dropped, and its notes are too */
    bool demoting; /* errors are raised as warnings */
    int warnings;
    jmp_buf *stop; /* diag_set_stop */
};

Diag *diag_new(Arena *arena, ColorWhen color)
{
    Diag *d = NEW(arena, Diag);
    d->arena = arena;
    d->color = color;
    return d;
}

uint16_t diag_source(Diag *d, const char *name, const char *text, size_t size)
{
    vec_push(d->arena, &d->source, ((Source){name, text, size, false}));
    return (uint16_t)d->source.n;
}

const Source *diag_source_at(const Diag *d, uint16_t file)
{
    if (file == 0 || file > d->source.n)
        return NULL;
    return &d->source.at[file - 1];
}

void diag_set_source(Diag *d, uint16_t file, const char *name, const char *text,
                     size_t size)
{
    d->source.at[file - 1] = (Source){.name = name, .text = text, .size = size};
}

uint16_t diag_command_line(Diag *d, const char *text)
{
    uint16_t file = diag_source(d, "command line", text, strlen(text));
    d->source.at[file - 1].command = true;
    return file;
}

void diag_option(Diag *d, uint32_t from, uint32_t to)
{
    vec_push(d->arena, &d->option, ((OptionRange){from, to}));
}

void diag_set_color(Diag *d, ColorWhen color)
{
    d->color = color;
}

int diag_error_count(const Diag *d)
{
    return d->errors;
}

const char *diag_first_error(const Diag *d)
{
    for (int i = 0; i < d->message.n; i++)
        if (d->message.at[i].severity == SEV_ERROR)
            return d->message.at[i].text;
    return NULL;
}

Diag *diag_quiet(Arena *arena, const Diag *like)
{
    Diag *d = diag_new(arena, COLOR_NEVER);
    for (int i = 0; i < like->source.n; i++)
        vec_push(arena, &d->source, like->source.at[i]);
    return d;
}

int diag_warning_count(const Diag *d)
{
    return d->warnings;
}

void diag_demote(Diag *d, bool on)
{
    d->demoting = on;
}

/* ---- raising ---- */

/* Whether the message is a repetition. Lowering evaluates a class once for each
 * instance and a forward once for each call, with their sizes, and several ops
 * have the location of one statement: each may have the same error. */
static bool raised_before(const Diag *d, Severity severity, Loc loc,
                          const char *text)
{
    for (int i = 0; i < d->message.n; i++) {
        const Message *m = &d->message.at[i];
        if (m->severity == severity && loc_equal(m->loc, loc) &&
            strcmp(m->text, text) == 0)
            return true;
    }
    return false;
}

/* Whether an error or a warning is dropped, and its notes with it. */
static bool is_dropped(Diag *d, Severity severity, Loc loc, const char *text)
{
    return raised_before(d, severity, loc, text) ||
           (severity == SEV_ERROR && d->errors++ >= ERROR_LIMIT);
}

bool diag_raise(Diag *d, Severity severity, Loc loc, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    Message m = {severity, loc, arena_vprintf(d->arena, fmt, ap)};
    va_end(ap);
    if (severity == SEV_ERROR && d->demoting)
        m.severity = SEV_WARNING;
    if (m.severity <= SEV_WARNING)
        d->dropping = is_dropped(d, m.severity, loc, m.text);
    if (d->dropping)
        return false;
    d->warnings += m.severity == SEV_WARNING;
    vec_push(d->arena, &d->message, m);
    return false;
}

bool diag_twice(Diag *d, Loc loc, Loc first, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_error(d, loc, "%s", arena_vprintf(d->arena, fmt, ap));
    va_end(ap);
    return diag_note(d, first, "the first is here");
}

jmp_buf *diag_set_stop(Diag *d, jmp_buf *stop)
{
    jmp_buf *before = d->stop;
    d->stop = stop;
    return before;
}

void diag_stop(Diag *d)
{
    if (d->stop)
        longjmp(*d->stop, 1);
    diag_flush(d, stderr);
    exit(1);
}

/* ---- text and its width on a terminal ---- */

/* Decodes one character of at most n bytes; `used` gets its length. Bytes that
 * are not UTF-8, and control characters, give -1. */
static int32_t decode(const char *s, size_t n, int *used)
{
    unsigned char c = (unsigned char)s[0];
    *used = 1;
    if (c < 0x80)
        return c >= 0x20 && c != 0x7f ? c : c == '\t' ? '\t' : -1;
    int more = c >= 0xf0 && c < 0xf5 ? 3 : c >= 0xe0 ? 2 : c >= 0xc2 ? 1 : 0;
    if (c >= 0xf5 || more == 0 || (size_t)more >= n)
        return -1;
    int32_t x = c & (0x3f >> more);
    for (int i = 1; i <= more; i++) {
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return -1;
        x = x << 6 | (s[i] & 0x3f);
    }
    static const int32_t smallest[] = {0, 0x80, 0x800, 0x10000};
    bool surrogate = x >= 0xd800 && x < 0xe000;
    if (x < smallest[more] || x > 0x10ffff || surrogate || x < 0xa0)
        return -1;
    *used = more + 1;
    return x;
}

static int columns(int32_t c)
{
    static const struct {
        int32_t first, last;
        int width;
    } ranges[] = {
        {0x0300, 0x036f, 0},   {0x1100, 0x115f, 2}, {0x200b, 0x200f, 0},
        {0x20d0, 0x20ff, 0},   {0x2e80, 0xa4cf, 2}, {0xac00, 0xd7a3, 2},
        {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0}, {0xfe30, 0xfe6f, 2},
        {0xff00, 0xff60, 2},   {0xffe0, 0xffe6, 2}, {0x1f300, 0x1faff, 2},
        {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return ranges[i].width;
    return 1;
}

/* Appends text in a form that is safe to print (tabs are unchanged); returns
 * its width, a tab counting 1. */
static int out_visible(Out *o, const char *s, size_t n)
{
    int width = 0;
    for (size_t i = 0; i < n;) {
        int used;
        int32_t c = decode(s + i, n - i, &used);
        if (c < 0)
            out_bytes(o, "\xef\xbf\xbd", 3); /* U+FFFD */
        else
            out_bytes(o, s + i, (size_t)used);
        width += c < 0 ? 1 : columns(c);
        i += (size_t)used;
    }
    return width;
}

/* Appends blanks as wide as the text; tabs stay tabs. */
static void out_blank(Out *o, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        int used;
        int32_t c = decode(s + i, n - i, &used);
        out(o, "%*s", c < 0 ? 1 : c == '\t' ? 0 : columns(c), "");
        if (c == '\t')
            out_bytes(o, "\t", 1);
        i += (size_t)used;
    }
}

/* ---- printing ---- */

static bool find_line(const Source *s, uint32_t line, const char **text,
                      size_t *size)
{
    const char *p = s->text, *end = s->text + s->size;
    for (uint32_t i = 1; i < line; i++) {
        p = memchr(p, '\n', (size_t)(end - p));
        if (!p)
            return false;
        p++;
    }
    const char *q = memchr(p, '\n', (size_t)(end - p));
    *text = p;
    *size = (size_t)((q ? q : end) - p);
    if (*size && p[*size - 1] == '\r')
        --*size;
    return true;
}

/* The option that contains the location; makes loc.col count from its start. */
static bool find_option(const Diag *d, const Source *s, Loc *loc,
                        const char **text, size_t *size)
{
    for (int i = 0; i < d->option.n; i++) {
        OptionRange r = d->option.at[i];
        if (loc->col < r.from || loc->col > r.to)
            continue; /* a location may be just after its end */
        *text = s->text + r.from - 1;
        *size = r.to - r.from;
        loc->col -= r.from - 1;
        return true;
    }
    return false;
}

/* The source line, or the option, with its gutter and the caret range below it.
 * A line that is too long for a screen is cut to a window around the location.
 */
static void out_excerpt(Out *o, const Diag *d, const Source *s, Loc loc,
                        const char *color, const char *plain)
{
    const char *line = NULL;
    size_t size = 0;
    if (s->command ? !find_option(d, s, &loc, &line, &size)
                   : !find_line(s, loc.line, &line, &size))
        return;
    size_t at = loc.col - 1 < size ? loc.col - 1 : size;
    size_t begin = 0, end = size;
    if (size > LINE_WINDOW) {
        begin = at > LINE_WINDOW / 2 ? at - LINE_WINDOW / 2 : 0;
        while (begin < at && ((unsigned char)line[begin] & 0xc0) == 0x80)
            begin++;
        end = begin + LINE_WINDOW < size ? begin + LINE_WINDOW : size;
    }
    const char *before = begin ? "..." : "", *after = end < size ? "..." : "";
    if (s->command)
        out(o, "      | %s", before);
    else
        out(o, "%5u | %s", (unsigned)loc.line, before);
    out_visible(o, line + begin, end - begin);
    out(o, "%s\n      | %*s", after, (int)strlen(before), "");
    out_blank(o, line + begin, at - begin);
    size_t len = loc.len ? loc.len : 1;
    if (len > end - at)
        len = end - at;
    Out scratch;
    out_init(&scratch, o->arena);
    int width = out_visible(&scratch, line + at, len);
    out(o, "%s^", color);
    for (int i = 1; i < width; i++)
        out_bytes(o, "~", 1);
    out(o, "%s\n", plain);
}

static bool use_color(const Diag *d, FILE *to)
{
    if (d->color != COLOR_AUTO)
        return d->color == COLOR_ALWAYS;
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return !(no && *no) && !(term && strcmp(term, "dumb") == 0) &&
           isatty(fileno(to));
}

static void out_message(Out *o, const Diag *d, const Message *m, bool color)
{
    const char *word = severity_table[m->severity].word;
    const char *tint = color ? severity_table[m->severity].color : "";
    const char *bold = color ? "\033[1m" : "", *plain = color ? "\033[0m" : "";
    if (m->severity == SEV_HELP) {
        out(o, "      = %s%s:%s %s\n", tint, word, plain, m->text);
        return;
    }
    const Source *s = diag_source_at(d, m->loc.file);
    out(o, "%s", bold);
    if (!s)
        out(o, "parc: ");
    else if (m->loc.line == 0 || s->command)
        out(o, "%s: ", s->name);
    else
        out(o, "%s:%u:%u: ", s->name, (unsigned)m->loc.line,
            (unsigned)m->loc.col);
    out(o, "%s%s:%s %s%s%s\n", tint, word, plain,
        m->severity == SEV_NOTE ? "" : bold, m->text,
        m->severity == SEV_NOTE ? "" : plain);
    if (s && m->loc.line > 0 && m->loc.col > 0)
        out_excerpt(o, d, s, m->loc, tint, plain);
}

void diag_flush(Diag *d, FILE *to)
{
    Out o;
    out_init(&o, d->arena);
    bool color = use_color(d, to);
    for (; d->printed < d->message.n; d->printed++)
        out_message(&o, d, &d->message.at[d->printed], color);
    if (d->errors > d->told) {
        out(&o, "%d error%s", d->errors, d->errors == 1 ? "" : "s");
        if (d->errors > ERROR_LIMIT)
            out(&o, "; the first %d are shown", ERROR_LIMIT);
        out(&o, ".\n");
        d->told = d->errors;
    }
    fwrite(o.text, 1, o.size, to);
    fflush(to);
}

const char *diag_where(const Diag *d, Arena *a, Loc loc)
{
    const Source *s = diag_source_at(d, loc.file);
    if (!s)
        return "";
    if (s->command)
        return s->name;
    const char *slash = strrchr(s->name, '/');
    return arena_printf(a, "%s:%u:%u", slash ? slash + 1 : s->name,
                        (unsigned)loc.line, (unsigned)loc.col);
}

/* ---- suggestions ---- */

/* Edit distance with transpositions of neighbors, ignoring case. */
static int distance(const char *a, int n, const char *b, int m)
{
    int row[3][MAX_NAME + 1];
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3];
        const int *older = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            int x = tolower((unsigned char)a[i - 1]);
            int y = tolower((unsigned char)b[j - 1]);
            int best = last[j - 1] + (x != y);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
                y == tolower((unsigned char)a[i - 2]) &&
                older[j - 2] + 1 < best)
                best = older[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *diag_near_miss(const char *name, const char *const *candidates,
                           int n)
{
    size_t size = strlen(name);
    if (size == 0 || size > MAX_NAME)
        return NULL;
    const char *best = NULL;
    int least = (int)(size + 1) / 3 + 1; /* the distance must be smaller */
    if (least < 2)
        least = 2;
    for (int i = 0; i < n; i++) {
        const char *c = candidates[i];
        size_t other = c ? strlen(c) : 0;
        if (other == 0 || other > MAX_NAME || strcmp(c, name) == 0)
            continue;
        int far = distance(name, (int)size, c, (int)other);
        /* At least one character must be common. */
        if (far < least && far < (int)(size > other ? size : other)) {
            least = far;
            best = c;
        }
    }
    return best;
}
