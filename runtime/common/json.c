/* json.c: reads JSON text, value by value, without building a tree.
 *
 * The caller asks for what it expects, in order. Text may be damaged or
 * malicious: nothing is read beyond its end, and nesting is limited. After the
 * first error all functions return nothing, so a caller checks once, at the
 * end.
 *
 *   {"step": 3, "mesh": ["dp", "tp"]}
 *
 *   rt_json_object(&j);
 *   while (rt_json_key(&j, key, sizeof key)) {
 *       if (strcmp(key, "step") == 0) {
 *           step = rt_json_integer(&j);
 *       } else {
 *           rt_json_skip(&j);
 *       }
 *   }
 */
#include "common/json.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 64, MAX_NUMBER = 64 };

void rt_json_fail(RtJson *j, const char *error)
{
    if (!j->error)
        j->error = error;
}

int rt_json_peek(RtJson *j)
{
    if (j->error)
        return -1;
    while (j->at < j->end && j->text[j->at] &&
           strchr(" \t\r\n", j->text[j->at]))
        j->at++;
    return j->at < j->end ? j->text[j->at] : -1;
}

bool rt_json_take(RtJson *j, int c)
{
    if (rt_json_peek(j) != c)
        return false;
    j->at++;
    return true;
}

void rt_json_expect(RtJson *j, int c, const char *error)
{
    if (!rt_json_take(j, c))
        rt_json_fail(j, error);
}

/* The four hexadecimal digits of a Unicode escape. */
static unsigned hex4(RtJson *j)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        int c = j->at < j->end ? j->text[j->at++] : 0;
        const char *d =
            c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!d) {
            rt_json_fail(j, "a \\u needs four hexadecimal digits");
            return 0;
        }
        value = value * 16 + (unsigned)(d - digits);
    }
    return value;
}

static size_t put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        to[0] = (char)(0xC0 | c >> 6);
        to[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    to[0] = (char)(0xE0 | c >> 12);
    to[1] = (char)(0x80 | (c >> 6 & 0x3F));
    to[2] = (char)(0x80 | (c & 0x3F));
    return 3;
}

/* Decodes one character of a string to `to`; returns its size in bytes. */
static size_t character(RtJson *j, char *to)
{
    static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    int c = j->text[j->at++];
    if (c < 0x20) {
        j->at--;
        rt_json_fail(j, "a control character in a string");
        return 0;
    }
    if (c != '\\') {
        *to = (char)c;
        return 1;
    }
    c = j->at < j->end ? j->text[j->at++] : 0;
    if (c == 'u')
        return put_utf8(to, hex4(j));
    const char *found = c ? strchr(plain, c) : NULL;
    if (!found) {
        j->at--;
        rt_json_fail(j, "an unknown escape in a string");
        return 0;
    }
    *to = means[found - plain];
    return 1;
}

void rt_json_string(RtJson *j, char *to, size_t capacity)
{
    size_t n = 0;
    to[0] = 0;
    if (!rt_json_take(j, '"')) {
        rt_json_fail(j, "expected a string");
        return;
    }
    while (!j->error && j->at < j->end && j->text[j->at] != '"') {
        char one[4];
        size_t did = character(j, one);
        if (n + did < capacity) {
            memcpy(to + n, one, did);
            n += did;
        }
    }
    to[n] = 0;
    rt_json_expect(j, '"', "the text ends within a string");
}

/* Reads a whole number; no digit may follow a value above `most`. */
static int64_t digits(RtJson *j, bool negative, int64_t most)
{
    int64_t value = 0;
    int c = rt_json_peek(j);
    if (c < '0' || c > '9')
        rt_json_fail(j, "expected a whole number");
    while (!j->error && j->at < j->end && j->text[j->at] >= '0' &&
           j->text[j->at] <= '9') {
        int digit = j->text[j->at] - '0';
        if (value > most || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            rt_json_fail(j, "a number is too large");
        else
            j->at++;
    }
    return j->error ? 0 : value;
}

int64_t rt_json_integer(RtJson *j)
{
    return digits(j, false, INT64_MAX / 16);
}

int64_t rt_json_signed(RtJson *j)
{
    return digits(j, rt_json_take(j, '-'), INT64_MAX);
}

int rt_json_integers(RtJson *j, int64_t *to, int capacity)
{
    int n = 0;
    rt_json_list(j);
    while (rt_json_next(j)) {
        int64_t value = rt_json_integer(j);
        if (n == capacity) {
            rt_json_fail(j, "too many numbers in a list");
            return n;
        }
        to[n++] = value;
    }
    return n;
}

double rt_json_number(RtJson *j)
{
    char text[MAX_NUMBER], *end;
    size_t n = 0;
    rt_json_peek(j);
    while (!j->error && j->at + (int64_t)n < j->end && n < sizeof text - 1 &&
           j->text[j->at + (int64_t)n] &&
           strchr("+-.0123456789eE", j->text[j->at + (int64_t)n])) {
        text[n] = (char)j->text[j->at + (int64_t)n];
        n++;
    }
    text[n] = 0;
    double value = strtod(text, &end);
    if (n == 0 || *end) {
        rt_json_fail(j, "expected a number");
        return 0;
    }
    j->at += (int64_t)n;
    return value;
}

bool rt_json_word(RtJson *j, const char *word)
{
    size_t n = strlen(word);
    rt_json_peek(j);
    if (j->error || (size_t)(j->end - j->at) < n ||
        memcmp(j->text + j->at, word, n) != 0)
        return false;
    j->at += (int64_t)n;
    return true;
}

bool rt_json_boolean(RtJson *j)
{
    if (rt_json_word(j, "true"))
        return true;
    if (!rt_json_word(j, "false"))
        rt_json_fail(j, "expected true or false");
    return false;
}

void rt_json_object(RtJson *j)
{
    rt_json_expect(j, '{', "expected '{'");
    j->first = true;
}

/* Continues a list or object that `close` ends: whether an element follows. */
static bool has_next(RtJson *j, int close, const char *error)
{
    bool first = j->first;
    j->first = false;
    if (rt_json_take(j, close))
        return false;
    if (!first)
        rt_json_expect(j, ',', error);
    return !j->error;
}

bool rt_json_key(RtJson *j, char *to, size_t capacity)
{
    if (!has_next(j, '}', "expected ',' or '}'"))
        return false;
    rt_json_peek(j);
    j->key_at = j->at;
    rt_json_string(j, to, capacity);
    rt_json_expect(j, ':', "expected ':'");
    return !j->error;
}

void rt_json_list(RtJson *j)
{
    rt_json_expect(j, '[', "expected '['");
    j->first = true;
}

bool rt_json_next(RtJson *j)
{
    return has_next(j, ']', "expected ',' or ']'");
}

static void skip(RtJson *j, int depth)
{
    char ignored[2];
    int c = rt_json_peek(j);
    if (depth > MAX_DEPTH) {
        rt_json_fail(j, "values are nested too deeply");
    } else if (c == '{') {
        rt_json_object(j);
        while (rt_json_key(j, ignored, sizeof ignored))
            skip(j, depth + 1);
    } else if (c == '[') {
        rt_json_list(j);
        while (rt_json_next(j))
            skip(j, depth + 1);
    } else if (c == '"') {
        rt_json_string(j, ignored, sizeof ignored);
    } else if (!rt_json_word(j, "true") && !rt_json_word(j, "false") &&
               !rt_json_word(j, "null")) {
        rt_json_number(j);
    }
}

void rt_json_skip(RtJson *j)
{
    skip(j, 0);
}

static int by_name(const void *a, const void *b)
{
    const RtNamed *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

void rt_json_sort(RtJson *j, void *array, int64_t n, size_t size)
{
    if (n > 0)
        qsort(array, (size_t)n, size, by_name);
    for (int64_t i = 1; i < n && !j->error; i++) {
        const RtNamed *x = (void *)((char *)array + (size_t)i * size);
        const RtNamed *before = (const void *)((const char *)x - size);
        if (strcmp(before->name, x->name) == 0) {
            j->at = x->at;
            rt_json_fail(j, "a second tensor of the same name");
        }
    }
}

static int compare_name(const void *name, const void *element)
{
    return strcmp(name, ((const RtNamed *)element)->name);
}

void *rt_named_find(const void *array, int64_t n, size_t size, const char *name)
{
    return n > 0 ? bsearch(name, array, (size_t)n, size, compare_name) : NULL;
}

void rt_json_print(FILE *to, const char *text)
{
    fputc('"', to);
    for (const char *c = text; *c; c++)
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c == '\n')
            fputs("\\n", to);
        else if ((unsigned char)*c < ' ')
            fprintf(to, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, to);
    fputc('"', to);
}
