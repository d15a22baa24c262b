/* safetensors.c: parses and writes the header of a safetensors file.
 *
 *   8 bytes   length of the header, little-endian
 *   JSON      {"__metadata__": {"key": "value", …},
 *              "name": {"dtype": "F32", "shape": [2, 3],
 *                       "data_offsets": [0, 24]}, …}
 *   data      offsets count from here
 *
 * The parser accepts only these keys. Files may be damaged or malicious, so
 * every length and offset is checked before use. The first error
 * ends parsing; it is reported with its byte position.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/files.h"
#include "common/json.h"
#include "common/message.h"
#include "params/params.h"

enum { MAX_HEADER = 100 * 1000 * 1000 };

static const struct {
    const char *name;
    int bytes, type; /* type: a ParcType, or -1 */
} dtypes[] = {
    {"F32", 4, PARC_F32}, {"BF16", 2, PARC_BF16}, {"F16", 2, PARC_F16},
    {"F64", 8, -1},       {"I64", 8, PARC_I64},   {"I32", 4, -1},
    {"I16", 2, -1},       {"I8", 1, -1},          {"U8", 1, -1},
    {"U16", 2, -1},       {"U32", 4, -1},         {"U64", 8, -1},
    {"BOOL", 1, -1},
};

static void metadata(RtJson *j, RtTensorFile *f)
{
    char key[8], skipped[2];
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key))
        if (strcmp(key, "names") == 0)
            rt_json_string(j, f->names, sizeof f->names);
        else
            rt_json_string(j, skipped, sizeof skipped);
}

/* Checks that the range has the size of type and shape, and is inside the
 * data. */
static void check_range(RtJson *j, RtTensor *t, int64_t data, int64_t size)
{
    int64_t elements = 1, bytes = 0;
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(t->dtype_name, dtypes[i].name) == 0) {
            bytes = dtypes[i].bytes;
            t->type = dtypes[i].type;
        }
    for (int d = 0; d < t->ndim; d++) {
        if (t->dim[d] > 0 && elements > (INT64_MAX >> 8) / t->dim[d]) {
            rt_json_fail(j, "the tensor is too large");
            return;
        }
        elements *= t->dim[d];
    }
    if (t->begin > t->end || t->end > INT64_MAX - data) {
        rt_json_fail(j, "data_offsets end before they begin");
    } else if (bytes && t->end - t->begin != elements * bytes) {
        rt_json_fail(j, "data_offsets do not fit the shape and dtype");
    } else if (data + t->end > size) {
        j->at = size;
        rt_json_fail(j, "the file is truncated: it ends before its last tensor");
    }
    t->begin += data;
    t->end += data;
}

static void tensor_fields(RtJson *j, RtTensor *t)
{
    static const char *const names[] = {"dtype", "shape", "data_offsets"};
    enum { FIELDS = 3, ALL_FIELDS = (1 << FIELDS) - 1 };
    unsigned seen = 0;
    int64_t range[2];
    rt_json_expect(j, '{', "expected '{'");
    do {
        char key[RT_JSON_KEY];
        unsigned field = 0;
        rt_json_peek(j);
        int64_t key_at = j->at;
        rt_json_string(j, key, sizeof key);
        rt_json_expect(j, ':', "expected ':'");
        while (field < FIELDS && strcmp(key, names[field]) != 0)
            field++;
        if (!j->error && (field == FIELDS || seen >> field & 1)) {
            j->at = key_at;
            rt_json_fail(j, "expected dtype, shape and data_offsets, each once");
            return;
        }
        seen |= 1u << field;
        if (field == 0) {
            rt_json_string(j, t->dtype_name, sizeof t->dtype_name);
        } else if (field == 1) {
            t->ndim = rt_json_integers(j, t->dim, RT_MAX_NDIM);
        } else if (rt_json_integers(j, range, 2) != 2) {
            rt_json_fail(j, "data_offsets are two numbers");
        } else {
            t->begin = range[0];
            t->end = range[1];
        }
    } while (!j->error && rt_json_take(j, ','));
    rt_json_expect(j, '}', "expected ',' or '}'");
    if (seen != ALL_FIELDS)
        rt_json_fail(j, "a tensor needs dtype, shape and data_offsets");
}

static void entry(RtJson *j, RtTensorFile *f, const char *name)
{
    if (strcmp(name, "__metadata__") == 0) {
        metadata(j, f);
        return;
    }
    f->tensor = rt_grow(f->tensor, f->n, &f->capacity, sizeof *f->tensor);
    RtTensor *t = &f->tensor[f->n++];
    *t = (RtTensor){.file = f, .type = -1, .name = rt_format("%s", name),
                    .at = j->key_at};
    tensor_fields(j, t);
    if (!j->error)
        check_range(j, t, j->end, f->size);
}

const char *rt_safetensors_header(RtTensorFile *f, int64_t *at)
{
    char name[RT_NAME];
    *at = f->size;
    if (f->size < RT_LENGTH_BYTES)
        return "the file ends within the length of its header";
    uint64_t n = rt_little(f->map, RT_LENGTH_BYTES);
    if (n > MAX_HEADER) {
        *at = 0;
        return "this is not a safetensors file (its header would be too long)";
    }
    if ((int64_t)n > f->size - RT_LENGTH_BYTES)
        return "the file is truncated: it ends within its header";
    RtJson j = {.text = f->map,
                .at = RT_LENGTH_BYTES,
                .end = RT_LENGTH_BYTES + (int64_t)n};
    rt_json_expect(&j, '{', "expected '{': this is not a safetensors file");
    j.first = true;
    while (rt_json_key(&j, name, sizeof name))
        entry(&j, f, name);
    if (!j.error && rt_json_peek(&j) >= 0)
        rt_json_fail(&j, "something follows the header's last '}'");
    rt_json_sort(&j, f->tensor, f->n, sizeof *f->tensor);
    *at = j.at;
    return j.error;
}

void rt_safetensors_free(RtTensorFile *f)
{
    for (int i = 0; i < f->n; i++)
        free(f->tensor[i].name);
    free(f->tensor);
    f->tensor = NULL;
    f->n = 0;
    f->capacity = 0;
}

bool rt_tensor_file_open(RtTensorFile *f, const char *path)
{
    int64_t at;
    *f = (RtTensorFile){.path = path};
    f->map = rt_input_map(path, &f->size);
    const char *error = f->map ? rt_safetensors_header(f, &at) : NULL;
    if (error)
        rt_fault(path, at, "%s", error);
    return f->map && !error;
}

void rt_tensor_file_close(RtTensorFile *f)
{
    rt_safetensors_free(f);
    rt_input_unmap(f->map, f->size);
    f->map = NULL;
}

RtTensor *rt_tensor_find(const RtTensorFile *f, const char *name)
{
    return rt_named_find(f->tensor, f->n, sizeof *f->tensor, name);
}

bool rt_header_begin(RtHeader *h)
{
    *h = (RtHeader){0};
    h->f = open_memstream(&h->text, &h->n);
    if (h->f)
        fprintf(h->f, "%*s{", RT_LENGTH_BYTES, "");
    return h->f;
}

void rt_header_add(RtHeader *h, const char *name, const char *dtype, int ndim,
                   const int64_t *dim, int64_t begin, int64_t end)
{
    char shape[RT_SHAPE_TEXT];
    fprintf(h->f,
            ", \"%s\": {\"dtype\": \"%s\", \"shape\": %s, "
            "\"data_offsets\": [%lld, %lld]}",
            name, dtype, rt_shape_text(ndim, dim, shape), (long long)begin,
            (long long)end);
}

int rt_header_end(RtHeader *h, int align)
{
    if (!h->f)
        return errno;
    fputc('}', h->f);
    while (ftell(h->f) % align != 0 && !ferror(h->f))
        fputc(' ', h->f);
    bool failed = ferror(h->f) != 0;
    if (fclose(h->f) != 0 || failed)
        return errno ? errno : ENOMEM;
    for (int i = 0; i < RT_LENGTH_BYTES; i++)
        h->text[i] = (char)((uint64_t)(h->n - RT_LENGTH_BYTES) >> (8 * i));
    return 0;
}
