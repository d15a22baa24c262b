/* npy.c: reads the header of an array in NumPy's format, which np.save writes.
 *
 *   \x93NUMPY  1  0  118
 *   {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 28, 28), }
 *
 * feeds an input of shape [batch, 28, 28]: dim 0 of the array counts samples,
 * its other dims are those of the input. Elements are little-endian: f4, u1, i4
 * or i8, also i1, i2, u2 and u4, in C order.
 *
 * Versions 1, 2 and 3 of the format differ in the width of the header's length.
 * Reference: NumPy's documentation, numpy.lib.format.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/message.h"
#include "data/samples.h"

enum { MAGIC_BYTES = 6, VERSION_AT = 6, LENGTH_AT = 8, MAX_HEADER = 1 << 16 };
static const char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

typedef struct Header {
    RtDataFile *f;
    char *text; /* the dictionary, ended by a 0 */
    const char *at;
    int64_t offset, length; /* of the text in the file */
    char type[16];
    bool has_shape, has_order, is_fortran;
    int ndim;
    int64_t dim[PARC_MAX_DIMS];
} Header;

bool rt_npy_is(const RtDataFile *f)
{
    return f->size >= MAGIC_BYTES && memcmp(f->map, magic, MAGIC_BYTES) == 0;
}

static bool refuse(const RtDataFile *f, int64_t at, const char *why)
{
    return rt_fault(f->path, at, "%s", why);
}

static bool refuse_header(const Header *h, const char *why)
{
    return refuse(h->f, h->offset + (h->at - h->text), why);
}

/* Copies the dictionary. */
static bool find_text(Header *h)
{
    const RtDataFile *f = h->f;
    int version = f->size > LENGTH_AT ? f->map[VERSION_AT] : 0;
    int width = version == 1 ? 2 : 4;
    if (f->size < LENGTH_AT + width)
        return refuse(f, f->size, "the file ends within NumPy's header");
    if (version < 1 || version > 3)
        return refuse(f, VERSION_AT,
                      "the version of NumPy's format is not 1, 2 or 3");
    int64_t n = (int64_t)rt_little(f->map + LENGTH_AT, width);
    h->offset = LENGTH_AT + width;
    if (n > MAX_HEADER || n > f->size - h->offset)
        return refuse(f, LENGTH_AT, "the file ends within NumPy's header");
    h->text = rt_allocate((size_t)n + 1);
    memcpy(h->text, f->map + h->offset, (size_t)n);
    h->length = n;
    h->at = h->text;
    return true;
}

static void skip_space(Header *h)
{
    h->at += strspn(h->at, " \t\r\n");
}

static bool accept(Header *h, char c)
{
    skip_space(h);
    bool is = *h->at == c;
    h->at += is;
    return is;
}

/* Reads 'text' into `to`, of `size` bytes. */
static bool read_string(Header *h, char *to, size_t size)
{
    skip_space(h);
    char quote = *h->at;
    const char *end =
        quote == '\'' || quote == '"' ? strchr(h->at + 1, quote) : NULL;
    size_t n = end ? (size_t)(end - h->at - 1) : size;
    if (n >= size)
        return refuse_header(h, "NumPy's header has no short text here; arrays "
                                "with fields or of objects cannot be read");
    memcpy(to, h->at + 1, n);
    to[n] = 0;
    h->at = end + 1;
    return true;
}

static bool read_order(Header *h)
{
    static const char *const word[] = {"False", "True"};
    skip_space(h);
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(word[i]);
        if (strncmp(h->at, word[i], n) == 0) {
            h->at += n;
            h->has_order = true;
            h->is_fortran = i;
            return true;
        }
    }
    return refuse_header(h, "fortran_order is neither True nor False");
}

static bool read_shape(Header *h)
{
    if (!accept(h, '('))
        return refuse_header(h, "the shape is not a tuple");
    for (h->ndim = 0; !accept(h, ')'); h->ndim++) {
        char *end;
        skip_space(h);
        bool digit = *h->at >= '0' && *h->at <= '9';
        long long n = digit ? strtoll(h->at, &end, 10) : -1;
        if (n < 0 || n >= INT64_MAX || h->ndim == PARC_MAX_DIMS)
            return refuse_header(h, "the shape is not a tuple of a few sizes");
        h->dim[h->ndim] = n;
        h->at = end;
        if (!accept(h, ',')) {
            skip_space(h);
            if (*h->at != ')')
                return refuse_header(h, "the shape is not a tuple of sizes");
        }
    }
    h->has_shape = true;
    return true;
}

static bool read_entry(Header *h)
{
    char key[16];
    if (!read_string(h, key, sizeof key))
        return false;
    if (!accept(h, ':'))
        return refuse_header(h, "NumPy's header is not a dictionary");
    return strcmp(key, "descr") == 0 ? read_string(h, h->type, sizeof h->type)
           : strcmp(key, "fortran_order") == 0 ? read_order(h)
           : strcmp(key, "shape") == 0
               ? read_shape(h)
               : refuse_header(h, "NumPy's header has an unknown key");
}

static bool read_entries(Header *h)
{
    if (!accept(h, '{'))
        return refuse_header(h, "NumPy's header is not a dictionary");
    while (!accept(h, '}')) {
        if (!read_entry(h))
            return false;
        skip_space(h);
        if (!accept(h, ',') && *h->at != '}')
            return refuse_header(h, "NumPy's header is not a dictionary");
    }
    if (!h->type[0] || !h->has_order || !h->has_shape)
        return refuse_header(h, "NumPy's header needs descr, fortran_order and "
                                "shape");
    return true;
}

static bool set_type(const Header *h)
{
    static const struct {
        const char *name;
        RtElement type;
    } types[] = {
        {"<f4", {4, true, true}},   {"|u1", {1, false, false}},
        {"|i1", {1, true, false}},  {"<u2", {2, false, false}},
        {"<i2", {2, true, false}},  {"<u4", {4, false, false}},
        {"<i4", {4, true, false}},  {"<i8", {8, true, false}},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (strcmp(h->type, types[i].name) == 0) {
            h->f->type = types[i].type;
            return true;
        }
    return rt_fault(h->f->path, h->offset, "elements of type '%s' cannot be "
                    "read; write the array as float32, uint8, int32 or int64: "
                    "np.save(file, x.astype('float32'))", h->type);
}

/* Dims after the first are those of the input, and the file has as many bytes
 * as the shape says. */
static bool check_shape(const Header *h, const RtRow *row)
{
    const ParcInput *in = row->input;
    RtDataFile *f = h->f;
    if (h->dim[0] < 1 ||
        !rt_same_shape(h->ndim - 1, h->dim + 1, in->ndim - 1, in->dim + 1)) {
        char have[RT_SHAPE_TEXT], want[RT_SHAPE_TEXT];
        rt_shape_text(in->ndim - 1, in->dim + 1, want);
        return rt_fault(f->path, h->offset, "the array has shape %s; '%s' "
                        "takes [samples%s%s, with at least one sample",
                        rt_shape_text(h->ndim, h->dim, have), in->name,
                        in->ndim > 1 ? ", " : "", want + 1);
    }
    int64_t bytes = row->n * f->type.width, data = f->size - f->first;
    if (h->dim[0] > data / bytes || h->dim[0] * bytes != data)
        return rt_fault(f->path, f->size, "the file has %lld samples of %lld "
                        "bytes and %lld bytes more; its header states %lld "
                        "samples; write it again", (long long)(data / bytes),
                        (long long)bytes, (long long)(data % bytes),
                        (long long)h->dim[0]);
    f->samples = h->dim[0];
    f->elements = f->samples * row->n;
    return true;
}

static bool check_type(const Header *h, const ParcInput *in)
{
    if (rt_can_convert(in, h->f->type))
        return true;
    return rt_fault(h->f->path, h->offset, "the elements have type '%s'; '%s' "
                    "takes %s", h->type, in->name,
                    in->type == PARC_I32 ? "integers" : "float32 or uint8");
}

bool rt_npy_read(RtDataFile *f, const RtRow *row)
{
    Header h = {.f = f};
    f->is_array = true;
    bool good = find_text(&h) && read_entries(&h);
    if (good && h.is_fortran)
        good = refuse_header(&h, "the array is in Fortran order; write "
                                 "np.save(file, np.ascontiguousarray(x))");
    good = good && set_type(&h) && check_type(&h, row->input);
    if (good) {
        f->first = h.offset + h.length;
        good = check_shape(&h, row);
    }
    free(h.text);
    return good;
}
