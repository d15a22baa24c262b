/* plot_log.c: reads the log of a training run: a JSON object per line.
 *
 *   {"step": 1, "loss": 5.54, "lr": 1e-3}         loss: (1, 5.54) (2, 5.31)
 *   {"step": 2, "loss": 5.31, "lr": 1e-3}    ->   lr:   (1, 1e-3) (2, 1e-3)
 *
 * Every key with a number is a field. Null, text and nested values give no
 * point. A line that is not such an object, or has no step, is counted and
 * skipped: the last line of a log may be incomplete while its run writes it.
 */
#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"
#include "driver/plot.h"
#include "runtime/common/json.h"

enum { NAME_BYTES = 64, LINE_FIELDS = 64 };

typedef struct Field {
    const char *name;
    VEC(double) step;
    VEC(double) value;
} Field;

struct Log {
    VEC(Field) field;
};

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

Log *log_read(Arena *a, const char *path, int *damaged, int *first)
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

Curve log_curve(const Log *log, const char *path, const char *field)
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

const char *log_fields(Arena *a, const Log *log)
{
    const char *text = "";
    for (int i = 0; i < log->field.n; i++)
        if (log->field.at[i].value.n > 0)
            text = arena_printf(a, "%s%s%s", text, *text ? ", " : "",
                                log->field.at[i].name);
    return text;
}
