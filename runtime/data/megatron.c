/* megatron.c: reads the index of a data set of Megatron-LM.
 *
 *   data.bin   the tokens of all documents, one document after another
 *   data.idx   little-endian, without padding:
 *     9 bytes  "MMIDIDX", 0, 0
 *     u64      version, 1
 *     u8       type of the tokens: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16
 *     u64      number of sequences (S)
 *     u64      number of entries of the table of documents (D)
 *     i32[S]   tokens of each sequence
 *     i64[S]   offset in bytes of each sequence in data.bin
 *     i64[D]   first sequence of each document, and S
 *
 * The data set is one stream of tokens: the sequences must be stored in their
 * order without gaps, as Megatron's tools write them. --data names data.bin,
 * data.idx or their prefix "data".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "data/samples.h"

static const char magic[9] = "MMIDIDX\0";
enum { VERSION_AT = 9, TYPE_AT = 17, COUNTS_AT = 18, TABLES_AT = 34 };
enum { LENGTH = 4, OFFSET = 8 }; /* widths of the tables */

/* The types of tokens by their code; width 0: not of tokens. */
static const RtElement types[] = {
    [1] = {.width = 1},
    [2] = {.width = 1, .is_signed = true},
    [3] = {.width = 2, .is_signed = true},
    [4] = {.width = 4, .is_signed = true},
    [5] = {.width = 8, .is_signed = true},
    [8] = {.width = 2},
};

static int64_t little_endian(const unsigned char *p, int bytes)
{
    return (int64_t)rt_little(p, bytes);
}

static bool has_magic(const char *path)
{
    char text[sizeof magic];
    FILE *f = fopen(path, "rbe");
    bool found = f && fread(text, 1, sizeof text, f) == sizeof text &&
                 memcmp(text, magic, sizeof magic) == 0;
    if (f)
        fclose(f);
    return found;
}

void rt_megatron_find(const char *path, char **bin, char **index)
{
    size_t n = strlen(path);
    bool suffixed = n > 4 && (strcmp(path + n - 4, ".bin") == 0 ||
                              strcmp(path + n - 4, ".idx") == 0);
    if (!suffixed && access(path, F_OK) == 0)
        return;
    int stem = (int)(suffixed ? n - 4 : n);
    *index = rt_format("%.*s.idx", stem, path);
    if (!rt_is_regular(*index) || !has_magic(*index)) {
        free(*index);
        *index = NULL;
        return;
    }
    *bin = rt_format("%.*s.bin", stem, path);
}

typedef struct Index {
    const char *path;
    const unsigned char *map;
    int64_t size;
} Index;

static bool refuse(const Index *x, int64_t at, const char *why)
{
    return rt_fault(x->path, at, "%s", why);
}

/* Checks that the sequences follow each other, and counts their tokens. */
static bool read_sequences(RtDataFile *f, const Index *x, int64_t n)
{
    int64_t offsets = TABLES_AT + LENGTH * n, end = 0;
    int width = f->type.width;
    for (int64_t i = 0; i < n; i++) {
        int64_t length = little_endian(x->map + TABLES_AT + LENGTH * i, LENGTH);
        if (little_endian(x->map + offsets + OFFSET * i, OFFSET) != end)
            return refuse(x, offsets + OFFSET * i,
                          "the sequence does not begin where the previous one "
                          "ends; write the data set again without gaps");
        if (length > INT32_MAX || length * width > f->size - end)
            return refuse(x, TABLES_AT + LENGTH * i,
                          "the sequence does not fit the file of tokens; copy "
                          "both files of the data set again");
        end += length * width;
    }
    if (end != f->size)
        return rt_fault(f->path, end, "the file has tokens that its index '%s' "
                        "does not name; copy both files of the data set again",
                        x->path);
    f->elements = end / width;
    return true;
}

static bool read_token_index(RtDataFile *f, const Index *x)
{
    if (x->size < TABLES_AT)
        return refuse(x, x->size, "the file ends within its header of 34 bytes");
    if (little_endian(x->map + VERSION_AT, 8) != 1)
        return refuse(x, VERSION_AT, "the version of the index is not 1");
    size_t code = x->map[TYPE_AT];
    if (code >= sizeof types / sizeof types[0] || types[code].width == 0)
        return refuse(x, TYPE_AT, "the tokens are not integers of 1, 2, 4 or 8 "
                                  "bytes");
    f->type = types[code];
    int64_t n = little_endian(x->map + COUNTS_AT, 8);
    int64_t documents = little_endian(x->map + COUNTS_AT + 8, 8);
    int64_t tables = x->size - TABLES_AT;
    if (n < 0 || n > tables / (LENGTH + OFFSET) || documents < 0 ||
        documents > (tables - (LENGTH + OFFSET) * n) / OFFSET)
        return refuse(x, x->size, "the file ends within the tables that its "
                                  "header announces");
    return read_sequences(f, x, n);
}

bool rt_megatron_read(RtDataFile *f, const char *index)
{
    Index x = {.path = index};
    x.map = rt_input_map(index, &x.size);
    bool good = x.map && read_token_index(f, &x);
    rt_input_unmap(x.map, x.size);
    return good;
}
