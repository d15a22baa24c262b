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
#include <string.h>

#include "common/files.h"
#include "common/json.h"
#include "common/message.h"
#include "data/samples.h"

enum { MAGIC_BYTES = 6, VERSION_AT = 6, LENGTH_AT = 8, MAX_HEADER = 1 << 16 };
static const char magic[MAGIC_BYTES + 1] = "\x93NUMPY";

typedef struct Header {
    RtDataFile *f;
    int64_t offset, length; /* of the dictionary in the file */
    char type[16];
    bool has_order, has_shape, is_fortran;
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
    h->length = (int64_t)rt_little(f->map + LENGTH_AT, width);
    h->offset = LENGTH_AT + width;
    if (h->length > MAX_HEADER || h->length > f->size - h->offset)
        return refuse(f, LENGTH_AT, "the file ends within NumPy's header");
    return true;
}

/* The dictionary as JSON, which has other quotes, no tuples, and no comma after
 * the last entry. Each character keeps its position. */
static unsigned char *as_json(const unsigned char *from, int64_t n)
{
    unsigned char *text = rt_allocate((size_t)n + 1);
    int64_t comma = -1; /* the latest character, if it is a comma */
    for (int64_t i = 0; i < n; i++) {
        int c = from[i];
        text[i] = (unsigned char)(c == '\''  ? '"'
                                  : c == '(' ? '['
                                  : c == ')' ? ']'
                                             : c);
        if (comma >= 0 && (c == ')' || c == '}'))
            text[comma] = ' ';
        comma = c == ',' ? i : c == ' ' || c == '\n' ? comma : -1;
    }
    return text;
}

static void read_entry(Header *h, RtJson *j, const char *key)
{
    int next = rt_json_peek(j);
    if (strcmp(key, "descr") == 0 && next == '"') {
        rt_json_string(j, h->type, sizeof h->type);
    } else if (strcmp(key, "descr") == 0) {
        rt_json_fail(j, "NumPy's header has no short text here; arrays with "
                        "fields or of objects cannot be read");
    } else if (strcmp(key, "shape") == 0 && next == '[') {
        h->has_shape = true;
        h->ndim = rt_json_integers(j, h->dim, PARC_MAX_DIMS);
        j->error = j->error ? "the shape is not a tuple of a few sizes" : NULL;
    } else if (strcmp(key, "shape") == 0) {
        rt_json_fail(j, "the shape is not a tuple of sizes");
    } else if (strcmp(key, "fortran_order") != 0) {
        rt_json_fail(j, "NumPy's header has an unknown key");
    } else {
        h->is_fortran = rt_json_word(j, "True");
        h->has_order = h->is_fortran || rt_json_word(j, "False");
        if (!h->has_order)
            rt_json_fail(j, "fortran_order is neither True nor False");
    }
    if (h->is_fortran)
        rt_json_fail(j, "the array is in Fortran order; write "
                        "np.save(file, np.ascontiguousarray(x))");
}

static bool read_entries(Header *h)
{
    RT_OWNED unsigned char *text = as_json(h->f->map + h->offset, h->length);
    RtJson j = {.text = text, .end = h->length};
    char key[RT_JSON_KEY];
    rt_json_object(&j);
    while (rt_json_key(&j, key, sizeof key))
        read_entry(h, &j, key);
    if (!h->type[0] || !h->has_order || !h->has_shape)
        rt_json_fail(&j, "NumPy's header needs descr, fortran_order and shape");
    return !j.error || refuse(h->f, h->offset + j.at, j.error);
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
    if (!find_text(&h) || !read_entries(&h) || !set_type(&h) ||
        !check_type(&h, row->input))
        return false;
    f->first = h.offset + h.length;
    return check_shape(&h, row);
}
