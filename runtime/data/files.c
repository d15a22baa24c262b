/* files.c: opens a source of samples: one file of tokens or an array of NumPy
 * (npy.c), or several files one after another.
 *
 *   tokens.bin    u16, little-endian. A file that begins with the magic number of
 *                 llm.c has a header of 256 words of 32 bits: magic, version,
 *                 number of tokens. A file with an index of Megatron beside it
 *                 has the type that the index states (megatron.c)
 *   u16:FILE      u16, little-endian, without any detection
 *   u32:FILE      u32, little-endian
 *   bytes:FILE    any file, one token per byte
 *
 *   u16:day1.bin;day2.bin     two files; the prefix holds for both
 *   bytes:books/[a-m]*.txt    the files that match, in the order of their names
 *
 * A text file without a prefix is refused: pairs of its letters are valid
 * tokens below 32768, and the run would train on them without a warning. A file
 * whose name contains the characters of a pattern is taken by its name if it
 * exists.
 *
 * Sequence i of a file is tokens[i*seq .. i*seq+seq-1]. If the labels are the
 * tokens shifted by one, n tokens are (n-1)/seq sequences, else n/seq. A sample
 * never crosses the end of a file.
 */
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "data/samples.h"

/* ---- one file ------------------------------------------------------------ */

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

/* Maps the file and detects what it is: NumPy's array, tokens, or the Megatron
 * data set that it names. */
static bool open_any(RtDataFile *f, const char *path, const RtRow *row)
{
    RT_OWNED char *index = NULL;
    char *bin = NULL;
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
    return good && (array || (check_tokens(f, row) && count_tokens(f, row)));
}

/* Opens a file; `type.width` 0: it says what it is. False after a message. */
static bool open_file(RtDataFile *f, const char *path, RtElement type,
                      const RtRow *row)
{
    *f = (RtDataFile){.type = type};
    if (type.width == 0)
        return open_any(f, path, row);
    f->path = rt_format("%s", path);
    f->map = rt_input_map(f->path, &f->size);
    return f->map && check_tokens(f, row) && count_tokens(f, row);
}

/* ---- a source ------------------------------------------------------------ */

static const struct {
    const char *prefix;
    int width;
} prefixes[] = {{"u16:", 2}, {"u32:", 4}, {"bytes:", 1}, {"", 0}};

static bool add_file(RtSource *s, const char *path, RtElement type,
                     const RtRow *row)
{
    s->file = rt_grow(s->file, s->nfiles, &s->capacity, sizeof *s->file);
    RtDataFile *f = &s->file[s->nfiles++];
    bool good = open_file(f, path, type, row);
    f->before = s->samples;
    s->bytes += f->size;
    s->elements += f->elements;
    s->samples += good ? f->samples : 0;
    return good;
}

/* Adds the file `path`, or the files that match it. */
static bool add_files(RtSource *s, const char *path, RtElement type,
                      const RtRow *row)
{
    if (!*path)
        return rt_error("data: a source has an empty file name; write FILE, or "
                        "FILE;FILE");
    if (!strpbrk(path, "*?[") || access(path, F_OK) == 0)
        return add_file(s, path, type, row);
    glob_t found = {0};
    int status = glob(path, GLOB_ERR, NULL, &found);
    bool good = status == 0;
    if (!good)
        rt_error("cannot read '%s': %s", path,
                 status == GLOB_NOMATCH ? "no file matches"
                                        : "a directory cannot be read");
    for (size_t i = 0; good && i < found.gl_pathc; i++)
        good = add_file(s, found.gl_pathv[i], type, row);
    globfree(&found);
    return good;
}

bool rt_files_open(RtSource *s, const char *spec, const RtRow *row)
{
    s->text = rt_format("%s", spec);
    RtElement type = {0};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        size_t n = strlen(prefixes[i].prefix);
        if (strncmp(spec, prefixes[i].prefix, n) == 0) {
            type.width = prefixes[i].width;
            spec += n;
            break;
        }
    }
    bool good = true;
    while (good && spec) {
        const char *end = strchrnul(spec, ';');
        RT_OWNED char *path = rt_format("%.*s", (int)(end - spec), spec);
        good = add_files(s, path, type, row);
        spec = *end ? end + 1 : NULL;
    }
    return good;
}

void rt_files_close(RtSource *s)
{
    for (int i = 0; i < s->nfiles; i++) {
        rt_input_unmap(s->file[i].map, s->file[i].size);
        free(s->file[i].path);
    }
    free(s->file);
    free(s->text);
    *s = (RtSource){0};
}

RtSample rt_files_sample(const RtSource *s, int64_t at, const RtRow *row)
{
    int low = 0, high = s->nfiles;
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        if (s->file[middle].before <= at)
            low = middle;
        else
            high = middle;
    }
    const RtDataFile *f = &s->file[low];
    return (RtSample){f, (at - f->before) * row->n};
}
