/* resume_index.c: reads index.json of a checkpoint (save_index.c shows one) and
 * checks that the checkpoint is whole.
 *
 * The text may be damaged or malicious. Every block is inside its tensor, has
 * the bytes of its extent, and is in a file of the directory that is long
 * enough; the blocks of a tensor have as many elements as the tensor. The
 * checksum of the index is verified here, those of the pieces before they are
 * copied (resume_load.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "checkpoint/resume.h"
#include "checkpoint/save.h"
#include "common/files.h"
#include "common/json.h"
#include "common/message.h"
#include "params/params.h"

enum { FILE_NAME = 128 };

/* The number of a file. The files of consecutive pieces are mostly the same one
 * or the next one. */
static int file_number(RtResume *c, const char *name, int64_t last)
{
    for (int64_t i = 0; i < c->nfiles; i++) {
        int64_t at = (last + i) % c->nfiles;
        if (strcmp(c->file[at].name, name) == 0)
            return (int)at;
    }
    c->file = rt_grow(c->file, c->nfiles, &c->files_capacity, sizeof *c->file);
    c->file[c->nfiles] = (RtSavedFile){.name = rt_format("%s", name)};
    return (int)c->nfiles++;
}

static void read_fields(RtJson *j, RtResume *c, RtSavedPiece *p, int ndim)
{
    static const char *const names[] = {"file", "bytes", "offset", "extent",
                                        "crc32c"};
    enum { NAMES = 5 };
    char key[RT_JSON_KEY], name[FILE_NAME];
    int64_t range[2];
    unsigned seen = 0;
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key)) {
        int i = 0;
        while (i < NAMES && strcmp(key, names[i]) != 0)
            i++;
        bool good = true;
        seen |= 1u << i;
        if (i == 0) {
            int64_t last = c->npieces > 0 ? c->piece[c->npieces - 1].file : 0;
            rt_json_string(j, name, sizeof name);
            good = rt_is_file_name(name);
            p->file = good ? file_number(c, name, last) : 0;
        } else if (i == 1) {
            good = rt_json_integers(j, range, 2) == 2;
            p->begin = good ? range[0] : 0;
            p->end = good ? range[1] : 0;
        } else if (i == 2) {
            good = rt_json_integers(j, p->offset, PARC_MAX_DIMS) == ndim;
        } else if (i == 3) {
            good = rt_json_integers(j, p->extent, PARC_MAX_DIMS) == ndim;
        } else if (i == 4) {
            int64_t crc = rt_json_integer(j);
            good = crc <= UINT32_MAX;
            p->crc = (uint32_t)crc;
        } else {
            rt_json_skip(j);
        }
        if (!good)
            rt_json_fail(j, "the piece's file, range or block is not valid");
    }
    if ((seen & ((1u << NAMES) - 1)) != (1u << NAMES) - 1)
        rt_json_fail(j, "a piece needs file, bytes, offset, extent and crc32c");
}

/* Whether the block is in the tensor and has the bytes of its range. */
static bool fits(const RtSavedPiece *p, const RtSavedTensor *t)
{
    int64_t n = 1;
    for (int d = 0; d < t->ndim; d++) {
        if (p->extent[d] < 1 || p->extent[d] > t->dim[d] ||
            p->offset[d] > t->dim[d] - p->extent[d])
            return false;
        n *= p->extent[d];
    }
    return p->begin % (int64_t)sizeof(float) == 0 && p->end >= p->begin &&
           p->end - p->begin == n * (int64_t)sizeof(float);
}

static void read_piece(RtJson *j, RtResume *c, const RtSavedTensor *t)
{
    RtSavedPiece p = {.tensor = (int)c->ntensors};
    rt_json_peek(j);
    int64_t at = j->at;
    read_fields(j, c, &p, t->ndim);
    if (!j->error && !fits(&p, t)) {
        j->at = at;
        rt_json_fail(j, "the piece does not fit its tensor or its bytes");
    }
    if (!j->error) {
        c->piece = rt_grow(c->piece, c->npieces, &c->pieces_capacity,
                           sizeof *c->piece);
        c->piece[c->npieces++] = p;
    }
}

/* Reads the shape; the number of elements fits in 59 bits. Returns it. */
static int64_t read_shape(RtJson *j, RtSavedTensor *t)
{
    int64_t elements = 1;
    t->ndim = rt_json_integers(j, t->dim, PARC_MAX_DIMS);
    for (int d = 0; d < t->ndim && !j->error; d++) {
        if (t->dim[d] < 1 || elements > (INT64_MAX >> 4) / t->dim[d]) {
            rt_json_fail(j, "the shape is not valid");
            return 0;
        }
        elements *= t->dim[d];
    }
    return elements;
}

static void read_tensor(RtJson *j, RtResume *c, RtSavedTensor *t)
{
    char key[RT_JSON_KEY], dtype[8] = "";
    int64_t elements = 0;
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key))
        if (strcmp(key, "dtype") == 0) {
            rt_json_string(j, dtype, sizeof dtype);
        } else if (strcmp(key, "shape") == 0 && elements == 0) {
            elements = read_shape(j, t);
        } else if (strcmp(key, "pieces") == 0 && elements > 0 && t->n == 0) {
            rt_json_list(j);
            while (rt_json_next(j)) {
                read_piece(j, c, t);
                if (!j->error) {
                    const RtSavedPiece *p = &c->piece[c->npieces - 1];
                    elements -= (p->end - p->begin) / (int64_t)sizeof(float);
                    t->n++;
                }
                if (elements < 0)
                    rt_json_fail(j, "the pieces have more elements than the "
                                    "tensor");
            }
        } else {
            rt_json_fail(j, "expected dtype, shape and pieces, each once");
        }
    if (strcmp(dtype, "F32") != 0)
        rt_json_fail(j, "the dtype is not F32");
    else if (elements != 0)
        rt_json_fail(j, "the pieces do not have all elements of the tensor");
}

static void read_tensors(RtJson *j, RtResume *c)
{
    char name[RT_NAME];
    rt_json_object(j);
    while (rt_json_key(j, name, sizeof name)) {
        RtSavedTensor t = {.first = c->npieces, .at = j->key_at};
        read_tensor(j, c, &t);
        if (j->error)
            return;
        t.name = rt_format("%s", name);
        c->tensor = rt_grow(c->tensor, c->ntensors, &c->tensors_capacity,
                            sizeof *c->tensor);
        c->tensor[c->ntensors++] = t;
    }
}

static void read_checkpoint_index(RtJson *j, RtResume *c)
{
    char key[RT_JSON_KEY], format[32] = "";
    int64_t version = 0;
    bool state = false, tensors = false;
    int64_t sum = -1, end = 0;
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key))
        if (strcmp(key, "format") == 0) {
            rt_json_string(j, format, sizeof format);
        } else if (strcmp(key, "version") == 0) {
            version = rt_json_integer(j);
        } else if (strcmp(key, "state") == 0 && !state) {
            rt_state_read(&c->state, j);
            state = true;
        } else if (strcmp(key, "optimizer") == 0) {
            rt_json_string(j, c->optimizer, sizeof c->optimizer);
        } else if (strcmp(key, "tensors") == 0 && !tensors) {
            read_tensors(j, c);
            tensors = true;
        } else if (strcmp(key, "crc32c") == 0) {
            end = j->key_at;
            sum = rt_json_integer(j);
        } else {
            rt_json_skip(j);
        }
    if (strcmp(format, RT_CHECKPOINT_FORMAT) != 0 || !state || !tensors)
        rt_json_fail(j, "this is not the index of a checkpoint of parc");
    else if (version != RT_CHECKPOINT_VERSION)
        rt_json_fail(j, "the checkpoint has a version that this program does "
                        "not know");
    else if (rt_json_peek(j) >= 0)
        rt_json_fail(j, "something follows the last '}'");
    else if (sum != (int64_t)rt_crc32c(0, j->text, (size_t)end))
        rt_json_fail(j, "wrong checksum: the index is damaged");
}

/* ---- the order of names -------------------------------------------------- */

const RtSavedTensor *rt_saved_find(const RtResume *c, const char *name)
{
    return rt_named_find(c->tensor, c->ntensors, sizeof *c->tensor, name);
}

/* Sorts the tensors, and renumbers those of the pieces. */
static void sort_tensors(RtJson *j, RtResume *c)
{
    rt_json_sort(j, c->tensor, c->ntensors, sizeof *c->tensor);
    for (int64_t i = 0; i < c->ntensors; i++)
        for (int64_t k = 0; k < c->tensor[i].n; k++)
            c->piece[c->tensor[i].first + k].tensor = (int)i;
}

/* ---- files --------------------------------------------------------------- */

static void read_sizes(RtResume *c, const char *directory)
{
    for (int64_t i = 0; i < c->nfiles; i++) {
        struct stat st;
        RtSavedFile *f = &c->file[i];
        RT_OWNED char *path = rt_path_join(directory, f->name);
        f->error = stat(path, &st) != 0 ? errno
                   : !S_ISREG(st.st_mode) ? EINVAL
                                          : 0;
        f->size = f->error ? -1 : (int64_t)st.st_size;
    }
}

/* Whether all files are long enough; else c->why. */
static bool check_files(RtResume *c, const char *directory)
{
    read_sizes(c, directory);
    for (int64_t i = 0; i < c->npieces; i++) {
        const RtSavedPiece *p = &c->piece[i];
        const RtSavedFile *f = &c->file[p->file];
        if (f->size >= p->end)
            continue;
        RtText why = {.at = c->why, .capacity = sizeof c->why};
        rt_add(&why, "%s/%s: ", directory, f->name);
        if (f->error)
            rt_add(&why, "error: the file cannot be read: %s",
                   strerror(f->error));
        else
            rt_add(&why, "byte %lld: error: the file is truncated",
                   (long long)f->size);
        rt_add(&why, "; bytes %lld to %lld are part of '%s'",
               (long long)p->begin, (long long)p->end,
               c->tensor[p->tensor].name);
        return false;
    }
    return true;
}

bool rt_resume_read(RtResume *c, const char *directory)
{
    int64_t size = 0;
    const unsigned char *map;
    *c = (RtResume){.path = rt_format("%s", directory)};
    RT_OWNED char *path = rt_path_join(directory, RT_INDEX_NAME);
    int error = rt_file_map(path, &map, &size);
    if (!map) {
        snprintf(c->why, sizeof c->why, "%s: error: the index cannot be read: "
                 "%s", path,
                 error && error != EINVAL
                     ? strerror(error)
                     : "it is empty, or not a regular file");
        return false;
    }
    RtJson j = {.text = map, .end = size};
    read_checkpoint_index(&j, c);
    sort_tensors(&j, c);
    rt_input_unmap(map, size);
    if (j.error)
        snprintf(c->why, sizeof c->why, "%s: byte %lld: error: %s", path,
                 (long long)j.at, j.error);
    return !j.error && check_files(c, directory);
}

void rt_resume_close(RtResume *c)
{
    for (int64_t i = 0; i < c->ntensors; i++)
        free(c->tensor[i].name);
    for (int64_t i = 0; i < c->nfiles; i++)
        free(c->file[i].name);
    free(c->tensor);
    free(c->piece);
    free(c->file);
    free(c->path);
    rt_state_free(&c->state);
    *c = (RtResume){0};
}
