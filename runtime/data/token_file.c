/* token_file.c: opens and checks one file of data: of tokens, or an array of
 * NumPy (npy.c).
 *
 *   tokens.bin    u16, little-endian. A file that begins with the magic number of
 *                 llm.c has a header of 256 words of 32 bits: magic, version,
 *                 number of tokens. A file with an index of Megatron beside it
 *                 has the type that the index states (megatron.c)
 *   u16:FILE      u16, little-endian, without any detection
 *   u32:FILE      u32, little-endian
 *   bytes:FILE    any file, one token per byte
 *
 * A text file without a prefix is refused: pairs of its letters are valid
 * tokens below 32768, and the run would train on them without a warning.
 *
 * Sequence i of a file is tokens[i*seq .. i*seq+seq-1]. If the labels are the
 * tokens shifted by one, n tokens are (n-1)/seq sequences, else n/seq.
 */
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/message.h"
#include "data/samples.h"

enum { HEADER_BYTES = 1024, TEXT_SAMPLE = 4096, RAW_BYTES = 2 };

/* Magic numbers of llm.c: GPT-2's tokens have 16 bits, Llama 3's 32. */
static const struct {
    uint32_t magic, version;
    int width;
} headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static uint32_t word(const unsigned char *p)
{
    return (uint32_t)rt_little(p, 4);
}

/* The size of the UTF-8 character at p, of n available bytes; 0 if the bytes
 * are not a character of a text. A character that the end of the sample
 * truncates counts. */
static int64_t character(const unsigned char *p, int64_t n)
{
    int64_t size = *p < 0x80 ? 1 : *p < 0xC2 ? 0 : *p < 0xE0 ? 2
                   : *p < 0xF0 ? 3 : *p < 0xF5 ? 4 : 0;
    bool control = (*p < ' ' && *p != '\t' && *p != '\n' && *p != '\r' &&
                    *p != '\f') || *p == 0x7F;
    for (int64_t i = 1; i < size && i < n; i++)
        if (p[i] >> 6 != 2)
            return 0;
    return control ? 0 : size;
}

static bool is_text(const RtDataFile *f)
{
    int64_t end = f->size < TEXT_SAMPLE ? f->size : TEXT_SAMPLE, at = 0;
    while (at < end) {
        int64_t n = character(f->map + at, end - at);
        if (n == 0)
            return false;
        at += n;
    }
    return true;
}

static bool refuse_text(const RtDataFile *f)
{
    if (!is_text(f))
        return true;
    return rt_fault(f->path, 0, "the file is text, not 16-bit tokens; --data "
                    "bytes:%s takes each byte as a token, u16:%s takes it as "
                    "16-bit tokens anyway", f->path, f->path);
}

/* Reads the header if the file has one; false, after a message, if it
 * contradicts the file. */
static bool read_header(RtDataFile *f)
{
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        if (f->size < 4 || word(f->map) != headers[i].magic)
            continue;
        if (f->size < HEADER_BYTES)
            return rt_fault(f->path, f->size, "the file ends within its header "
                            "of %d bytes", HEADER_BYTES);
        if (word(f->map + 4) != headers[i].version)
            return rt_fault(f->path, 4, "version %u of the token format is not "
                            "known (expected %u)", word(f->map + 4),
                            headers[i].version);
        f->first = HEADER_BYTES;
        f->type.width = headers[i].width;
        f->elements = word(f->map + 8);
        int64_t want = HEADER_BYTES + f->elements * f->type.width;
        if (f->size < want)
            return rt_fault(
                f->path, f->size, "the file is truncated: its header states "
                "%lld tokens, the file has %lld", (long long)f->elements,
                (long long)((f->size - HEADER_BYTES) / f->type.width));
        return true;
    }
    return true;
}

static bool count_tokens(RtDataFile *f, const RtRow *row)
{
    bool counted = f->elements > 0; /* by a header or an index */
    int width = f->type.width;
    if (!counted && f->first == 0) {
        f->elements = f->size / width;
        if (f->size % width != 0)
            return rt_fault(f->path, f->elements * width, "the file is "
                            "truncated: a token has %d bytes; --data bytes:%s "
                            "takes each byte as a token", width, f->path);
    }
    f->samples = (f->elements - row->shifted) / row->n;
    if (f->samples < 1)
        return rt_fault(f->path, f->size, "the file ends after %lld token%s; a "
                        "sequence of %lld needs %lld", (long long)f->elements,
                        f->elements == 1 ? "" : "s", (long long)row->n,
                        (long long)row->n + row->shifted);
    return true;
}

/* Tokens feed inputs of integers. */
static bool check_tokens(const RtDataFile *f, const RtRow *row)
{
    if (rt_can_convert(row->input, f->type))
        return true;
    return rt_fault(f->path, 0, "'%s' takes floats, and the file is not an "
                    "array of NumPy; write it with np.save(file, "
                    "x.astype('float32'))", row->input->name);
}

/* Maps the file and detects what it is. */
static bool open_any(RtDataFile *f, const char *path, const RtRow *row)
{
    char *bin = NULL, *index = NULL;
    rt_megatron_find(path, &bin, &index);
    f->path = bin ? bin : rt_format("%s", path);
    f->map = rt_input_map(f->path, &f->size);
    f->type = (RtElement){.width = RAW_BYTES, .is_signed = false};
    bool good = f->map, array = good && !index && rt_npy_is(f);
    if (array)
        good = rt_npy_read(f, row);
    else if (good && index)
        good = rt_megatron_read(f, index);
    else if (good)
        good = check_tokens(f, row) && refuse_text(f) && read_header(f);
    free(index);
    return good && (array || (check_tokens(f, row) && count_tokens(f, row)));
}

bool rt_data_file_open(RtDataFile *f, const char *path, RtElement type,
                       const RtRow *row)
{
    *f = (RtDataFile){.type = type};
    if (type.width == 0)
        return open_any(f, path, row);
    f->path = rt_format("%s", path);
    f->map = rt_input_map(f->path, &f->size);
    return f->map && check_tokens(f, row) && count_tokens(f, row);
}

void rt_data_file_close(RtDataFile *f)
{
    rt_input_unmap(f->map, f->size);
    free(f->path);
    *f = (RtDataFile){0};
}
