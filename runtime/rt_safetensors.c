/* rt_safetensors.c: parses the header of a safetensors file.
 *
 *   8 bytes   length of the header, little-endian
 *   JSON      {"__metadata__": {"key": "value", …},
 *              "name": {"dtype": "F32", "shape": [2, 3],
 *                       "data_offsets": [0, 24]}, …}
 *   data      offsets count from here
 *
 * The parser accepts only this subset of JSON. Files may be damaged or
 * malicious, so every length and offset is checked before use. The first error
 * ends parsing; it is reported with its byte position.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt.h"

enum { LENGTH_BYTES = 8, MAX_HEADER = 100 * 1000 * 1000 };

static const struct {
    const char *name;
    int bytes;
    RtDtype dtype;
} dtypes[] = {
    {"F32", 4, RT_F32},    {"BF16", 2, RT_BF16}, {"F16", 2, RT_F16},
    {"F64", 8, RT_OTHER},  {"I64", 8, RT_OTHER}, {"I32", 4, RT_OTHER},
    {"I16", 2, RT_OTHER},  {"I8", 1, RT_OTHER},  {"U8", 1, RT_OTHER},
    {"U16", 2, RT_OTHER},  {"U32", 4, RT_OTHER}, {"U64", 8, RT_OTHER},
    {"BOOL", 1, RT_OTHER},
};

typedef struct Json {
    const unsigned char *text;
    int64_t at, end;
    const char *error; /* the first error; parsing stops there */
} Json;

static void fail(Json *j, const char *error)
{
    if (!j->error) {
        j->error = error;
    }
}

static int peek(Json *j)
{
    if (j->error) {
        return -1;
    }
    while (j->at < j->end && j->text[j->at] &&
           strchr(" \t\r\n", j->text[j->at])) {
        j->at++;
    }
    return j->at < j->end ? j->text[j->at] : -1;
}

static bool take(Json *j, int c)
{
    if (peek(j) != c) {
        return false;
    }
    j->at++;
    return true;
}

static void expect(Json *j, int c, const char *error)
{
    if (!take(j, c)) {
        fail(j, error);
    }
}

/* The four hexadecimal digits of a Unicode escape. */
static unsigned hex4(Json *j)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        static const char digits[] = "0123456789abcdef";
        int c = j->at < j->end ? j->text[j->at++] : 0;
        const char *d =
            c ? strchr(digits, c >= 'A' && c <= 'F' ? c + 32 : c) : NULL;
        if (!d) {
            fail(j, "a \\u needs four hexadecimal digits");
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
static size_t character(Json *j, char *to)
{
    static const char plain[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    int c = j->text[j->at++];
    if (c < 0x20) {
        j->at--;
        fail(j, "a control character in a string");
        return 0;
    }
    if (c != '\\') {
        *to = (char)c;
        return 1;
    }
    c = j->at < j->end ? j->text[j->at++] : 0;
    if (c == 'u') {
        return put_utf8(to, hex4(j));
    }
    const char *found = c ? strchr(plain, c) : NULL;
    if (!found) {
        j->at--;
        fail(j, "an unknown escape in a string");
        return 0;
    }
    *to = means[found - plain];
    return 1;
}

/* Reads a string, truncated to `room` bytes; no name that the parser compares
 * is longer. */
static void string(Json *j, char *to, size_t room)
{
    size_t n = 0;
    to[0] = 0;
    if (!take(j, '"')) {
        fail(j, "expected a string");
        return;
    }
    while (!j->error && j->at < j->end && j->text[j->at] != '"') {
        char one[4];
        size_t did = character(j, one);
        if (n + did < room) {
            memcpy(to + n, one, did);
            n += did;
        }
    }
    to[n] = 0;
    expect(j, '"', "the header ends within a string");
}

static int64_t integer(Json *j)
{
    int64_t value = 0;
    int c = peek(j);
    if (c < '0' || c > '9') {
        fail(j, "expected a whole number");
        return 0;
    }
    while (j->at < j->end && j->text[j->at] >= '0' && j->text[j->at] <= '9') {
        if (value > INT64_MAX / 16) {
            fail(j, "a number is too large");
            return 0;
        }
        value = value * 10 + (j->text[j->at++] - '0');
    }
    return value;
}

/* Reads a list such as [1, 2, 3]; returns its length. */
static int integers(Json *j, int64_t *to, int room)
{
    int n = 0;
    expect(j, '[', "expected '['");
    if (take(j, ']')) {
        return 0;
    }
    do {
        int64_t value = integer(j);
        if (n == room) {
            fail(j, "too many numbers in a list");
            return n;
        }
        to[n++] = value;
    } while (!j->error && take(j, ','));
    expect(j, ']', "expected ',' or ']'");
    return n;
}

static void metadata(Json *j)
{
    char skipped[2];
    expect(j, '{', "expected '{'");
    if (take(j, '}')) {
        return;
    }
    do {
        string(j, skipped, sizeof skipped);
        expect(j, ':', "expected ':'");
        string(j, skipped, sizeof skipped);
    } while (!j->error && take(j, ','));
    expect(j, '}', "expected ',' or '}'");
}

/* Checks that the range has the size of type and shape, and is inside the
 * data. */
static void check_tensor(Json *j, RtTensor *t, int64_t data, int64_t size)
{
    int64_t elements = 1, bytes = 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (strcmp(t->dtype_name, dtypes[i].name) == 0) {
            bytes = dtypes[i].bytes;
            t->dtype = dtypes[i].dtype;
        }
    }
    for (int d = 0; d < t->ndim; d++) {
        if (t->dim[d] > 0 && elements > (INT64_MAX >> 8) / t->dim[d]) {
            fail(j, "the tensor is too large");
            return;
        }
        elements *= t->dim[d];
    }
    if (t->begin > t->end || t->end > INT64_MAX - data) {
        fail(j, "data_offsets end before they begin");
    } else if (bytes && t->end - t->begin != elements * bytes) {
        fail(j, "data_offsets do not fit the shape and dtype");
    } else if (data + t->end > size) {
        j->at = size;
        fail(j, "the file is truncated: it ends before its last tensor");
    }
    t->begin += data;
    t->end += data;
}

static void tensor_fields(Json *j, RtTensor *t)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    unsigned seen = 0;
    int64_t range[2];
    expect(j, '{', "expected '{'");
    do {
        char key[16];
        unsigned field = 0;
        peek(j);
        int64_t key_at = j->at;
        string(j, key, sizeof key);
        expect(j, ':', "expected ':'");
        while (field < 3 && strcmp(key, names[field]) != 0) {
            field++;
        }
        if (!j->error && (field == 3 || seen >> field & 1)) {
            j->at = key_at;
            fail(j, "expected dtype, shape and data_offsets, each once");
            return;
        }
        seen |= 1u << field;
        if (field == 0) {
            string(j, t->dtype_name, sizeof t->dtype_name);
        } else if (field == 1) {
            t->ndim = integers(j, t->dim, RT_MAX_RANK);
        } else if (integers(j, range, 2) != 2) {
            fail(j, "data_offsets are two numbers");
        } else {
            t->begin = range[0];
            t->end = range[1];
        }
    } while (!j->error && take(j, ','));
    expect(j, '}', "expected ',' or '}'");
    if (seen != 7) {
        fail(j, "a tensor needs dtype, shape and data_offsets");
    }
}

static RtTensor *new_tensor(RtWeights *w)
{
    if (w->n == w->room) {
        int room = w->room ? 2 * w->room : 64;
        RtTensor *more = rt_allocate((size_t)room * sizeof *more);
        if (w->n > 0) {
            memcpy(more, w->tensor, (size_t)w->n * sizeof *more);
        }
        free(w->tensor);
        w->tensor = more;
        w->room = room;
    }
    return memset(&w->tensor[w->n++], 0, sizeof(RtTensor));
}

static void entry(Json *j, RtWeights *w)
{
    char name[RT_NAME];
    peek(j);
    int64_t at = j->at;
    string(j, name, sizeof name);
    expect(j, ':', "expected ':'");
    if (j->error) {
        return;
    }
    if (strcmp(name, "__metadata__") == 0) {
        metadata(j);
        return;
    }
    for (int i = 0; i < w->n; i++) {
        if (strcmp(w->tensor[i].name, name) == 0) {
            j->at = at;
            fail(j, "a second tensor of the same name");
            return;
        }
    }
    RtTensor *t = new_tensor(w);
    t->name = rt_allocate(strlen(name) + 1);
    memcpy(t->name, name, strlen(name));
    t->dtype = RT_OTHER;
    t->at = at;
    tensor_fields(j, t);
    if (!j->error) {
        check_tensor(j, t, j->end, w->size);
    }
}

const char *rt_safetensors_header(RtWeights *w, int64_t *at)
{
    uint64_t n = 0;
    *at = w->size;
    if (w->size < LENGTH_BYTES) {
        return "the file ends within the length of its header";
    }
    for (int i = 0; i < LENGTH_BYTES; i++) {
        n |= (uint64_t)w->map[i] << (8 * i);
    }
    if (n > MAX_HEADER) {
        *at = 0;
        return "this is not a safetensors file (its header would be too long)";
    }
    if ((int64_t)n > w->size - LENGTH_BYTES) {
        return "the file is truncated: it ends within its header";
    }
    Json j = {
        .text = w->map, .at = LENGTH_BYTES, .end = LENGTH_BYTES + (int64_t)n};
    expect(&j, '{', "expected '{': this is not a safetensors file");
    if (!take(&j, '}')) {
        do {
            entry(&j, w);
        } while (!j.error && take(&j, ','));
        expect(&j, '}', "expected ',' or '}'");
    }
    if (!j.error && peek(&j) >= 0) {
        fail(&j, "something follows the header's last '}'");
    }
    *at = j.at;
    return j.error;
}

void rt_safetensors_free(RtWeights *w)
{
    for (int i = 0; i < w->n; i++) {
        free(w->tensor[i].name);
    }
    free(w->tensor);
    w->tensor = NULL;
    w->n = w->room = 0;
}
