/* out.c: a growable text buffer, allocated in an arena; see out.h. */
#include "base/out.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void out_init(Out *o, Arena *arena)
{
    *o = (Out){.arena = arena, .capacity = 256};
    o->text = arena_alloc(arena, o->capacity);
}

static void reserve(Out *o, size_t more)
{
    if (o->size + more + 1 <= o->capacity)
        return;
    size_t capacity = 2 * o->capacity;
    while (capacity < o->size + more + 1)
        capacity *= 2;
    char *text = arena_alloc(o->arena, capacity);
    memcpy(text, o->text, o->size);
    o->text = text;
    o->capacity = capacity;
}

void out_bytes(Out *o, const char *s, size_t n)
{
    reserve(o, n);
    memcpy(o->text + o->size, s, n);
    o->size += n;
    o->text[o->size] = 0;
}

static void append(Out *o, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n <= 0)
        return;
    reserve(o, (size_t)n);
    vsnprintf(o->text + o->size, (size_t)n + 1, fmt, ap);
    o->size += (size_t)n;
}

void out(Out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    append(o, fmt, ap);
    va_end(ap);
}

void out_line(Out *o, const char *fmt, ...)
{
    if (*fmt) {
        out(o, "%*s", o->indent, "");
        va_list ap;
        va_start(ap, fmt);
        append(o, fmt, ap);
        va_end(ap);
    }
    out_bytes(o, "\n", 1);
}

void out_open(Out *o, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    out_line(o, "%s", arena_vprintf(o->arena, fmt, ap));
    va_end(ap);
    o->indent += OUT_INDENT;
}

void out_close(Out *o)
{
    o->indent -= OUT_INDENT;
    out_line(o, "}");
}

enum { SHORT_GROUP = 40 };

/* The end of the group that begins at text[open], if it is so short that it is
 * not broken: "{0, 1, 64}", "parc_index(rt, AXIS_dp)"; else open. */
static size_t short_group(const char *text, size_t open)
{
    int depth = 0;
    for (size_t i = open; text[i] && i - open < SHORT_GROUP; i++) {
        depth += text[i] == '(' || text[i] == '{';
        depth -= text[i] == ')' || text[i] == '}';
        if (depth == 0)
            return i;
    }
    return open;
}

/* The number of bytes of `text` that fit in a line of `width`: all, or up to
 * the last place where C may be broken: after a comma or, in the first line of a
 * statement, the `=` of an assignment, else after a `+`. If no such place fits,
 * up to the first one. */
static size_t break_at(const char *text, size_t width, bool first)
{
    size_t n = strlen(text), best = 0, sum = 0, closed = 0;
    bool inside = !first;
    if (n <= width)
        return n;
    for (size_t i = 0; i < n && (i <= width || !best); i++) {
        bool opens = text[i] == '(' || text[i] == '{';
        inside = inside || opens;
        if (opens && i >= closed)
            closed = short_group(text, i);
        if (text[i] != ' ' || i < 2 || i < closed)
            continue;
        if (text[i - 1] == ',' || (text[i - 1] == '=' && !inside))
            best = i;
        if (text[i - 1] == '+' && i <= width)
            sum = i;
    }
    if (sum && (!best || best > width))
        return sum;
    return best ? best : n;
}

void out_code(Out *o, const char *fmt, ...)
{
    enum { LEAST = 20 };
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(o->arena, fmt, ap);
    va_end(ap);
    bool first = true;
    for (int indent = o->indent; *text; indent = o->indent + OUT_INDENT) {
        int left = OUT_WIDTH - indent;
        size_t width = left > LEAST ? (size_t)left : LEAST;
        size_t n = break_at(text, width, first);
        out(o, "%*s%.*s\n", indent, "", (int)n, text);
        text += n;
        while (*text == ' ')
            text++;
        first = false;
    }
}

void out_json_string(Out *o, const char *s)
{
    out_bytes(o, "\"", 1);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            out(o, "\\%c", c);
        else if (c == '\n')
            out_bytes(o, "\\n", 2);
        else if (c == '\t')
            out_bytes(o, "\\t", 2);
        else if (c < 0x20)
            out(o, "\\u%04x", c);
        else
            out_bytes(o, s, 1);
    }
    out_bytes(o, "\"", 1);
}

const char *double_text(Arena *a, double x)
{
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x)
            break;
    }
    return arena_strdup(a, text);
}

void out_double(Out *o, double x)
{
    out(o, "%s", double_text(o->arena, x));
}

void out_float(Out *o, double x)
{
    size_t before = o->size;
    out_double(o, x);
    if (!strpbrk(o->text + before, ".e"))
        out(o, ".0");
}

const char *bytes_text(Arena *a, int64_t bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double x = (double)bytes;
    int k = 0;
    while (x >= 1024 && k < 4) {
        x /= 1024;
        k++;
    }
    return arena_printf(a, k ? "%.2f %s" : "%.0f %s", x, unit[k]);
}

const char *count_text(Arena *a, double x)
{
    static const char *const unit[] = {"", " K", " M", " G", " T", " P",
                                       " E"};
    int k = 0;
    while (x >= 1000 && k < 6) {
        x /= 1000;
        k++;
    }
    return arena_printf(a, k ? "%.2f%s" : "%.0f%s", x, unit[k]);
}
