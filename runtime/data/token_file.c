/* token_file.c: opens and checks token files.
 *
 *   tokens.bin    u16, little-endian. A file that begins with the magic number of
 *                 llm.c has a header of 256 words of 32 bits: magic, version,
 *                 number of tokens
 *   u16:FILE      u16, little-endian, whatever the file looks like
 *   u32:FILE      u32, little-endian
 *   bytes:FILE    any file, one token per byte
 *   synthetic     no file
 *
 * A text file without a prefix is refused: pairs of its letters are valid
 * tokens below 32768, and the run would train on them without a warning.
 *
 * Sequence i of a file is tokens[i*seq .. i*seq+seq]. Its labels are shifted
 * by one token, hence n tokens are (n-1)/seq sequences.
 */
#include <string.h>

#include "rt.h"

enum { HEADER_BYTES = 1024, TEXT_SAMPLE = 4096 };

/* Magic numbers of llm.c: GPT-2's tokens have 16 bits, Llama 3's 32. */
static const struct {
    uint32_t magic, version;
    int width;
} headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static const struct {
    const char *prefix;
    int width;
} specs[] = {{"u16:", 2}, {"u32:", 4}, {"bytes:", 1}, {"", 2}};

static uint32_t word(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
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
    for (int64_t i = 1; i < size && i < n; i++) {
        if (p[i] >> 6 != 2) {
            return 0;
        }
    }
    return control ? 0 : size;
}

static bool is_text(const RtData *d)
{
    int64_t end = d->size < TEXT_SAMPLE ? d->size : TEXT_SAMPLE, at = 0;
    while (at < end) {
        int64_t n = character(d->map + at, end - at);
        if (n == 0) {
            return false;
        }
        at += n;
    }
    return true;
}

static bool refuse_text(const RtData *d)
{
    if (!is_text(d)) {
        return true;
    }
    rt_say("%s: byte 0: error: the file is text, not 16-bit tokens; --data "
           "bytes:%s takes each byte as a token, u16:%s takes it as 16-bit "
           "tokens anyway",
           d->path, d->path, d->path);
    return false;
}

/* Reads the header if the file has one; false, after a message, if it
 * contradicts the file. */
static bool read_header(RtData *d)
{
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        if (d->size < 4 || word(d->map) != headers[i].magic) {
            continue;
        }
        if (d->size < HEADER_BYTES) {
            rt_say("%s: byte %lld: error: the file ends within its header of "
                   "%d bytes",
                   d->path, (long long)d->size, HEADER_BYTES);
            return false;
        }
        if (word(d->map + 4) != headers[i].version) {
            rt_say("%s: byte 4: error: version %u of the token format is not "
                   "known (expected %u)",
                   d->path, word(d->map + 4), headers[i].version);
            return false;
        }
        d->first = HEADER_BYTES;
        d->width = headers[i].width;
        d->tokens = word(d->map + 8);
        int64_t want = HEADER_BYTES + d->tokens * d->width;
        if (d->size < want) {
            rt_say("%s: byte %lld: error: the file is truncated: its header "
                   "promises %lld tokens, it holds %lld",
                   d->path, (long long)d->size, (long long)d->tokens,
                   (long long)((d->size - HEADER_BYTES) / d->width));
            return false;
        }
        return true;
    }
    return true;
}

bool rt_takes_tokens(const ParcModel *model)
{
    int feeds = 0;
    for (int i = 0; i < model->ninputs; i++) {
        const ParcInput *in = &model->input[i];
        feeds += in->type == PARC_I32 && !in->is_labels;
    }
    return feeds == 1;
}

/* Checks that the integer inputs have shape [batch, seq], and that one of
 * them, apart from labels, can be read from a file. */
static bool check_inputs(const RtData *d, const ParcModel *model,
                         const char *program)
{
    for (int i = 0; i < model->ninputs; i++) {
        const ParcInput *in = &model->input[i];
        if (in->type != PARC_I32) {
            continue;
        }
        if (in->ndim != 2 || in->dim[1] != model->seq) {
            rt_error(program,
                     "'%s' cannot be fed from '%s': a token file feeds inputs "
                     "of shape [batch, seq]; use --data synthetic",
                     in->name, d->path);
            return false;
        }
    }
    if (!rt_takes_tokens(model)) {
        rt_error(program,
                 "--data %s cannot be used: a token file feeds one integer "
                 "input beside the labels, and %s does not have exactly one; "
                 "only --data synthetic can be used",
                 d->path, model->name);
        return false;
    }
    return true;
}

static bool count_tokens(RtData *d, const ParcModel *model)
{
    bool header = d->first > 0;
    if (!header) {
        d->tokens = (d->size - d->first) / d->width;
        if ((d->size - d->first) % d->width != 0) {
            rt_say("%s: byte %lld: error: the file is truncated: a token has "
                   "%d bytes; --data bytes:%s takes each byte as a token",
                   d->path, (long long)(d->first + d->tokens * d->width),
                   d->width, d->path);
            return false;
        }
    }
    d->sequences = (d->tokens - 1) / model->seq;
    if (d->sequences < 1) {
        rt_say("%s: byte %lld: error: the file ends after %lld token%s; a "
               "sequence of %lld needs %lld",
               d->path, (long long)d->size, (long long)d->tokens,
               d->tokens == 1 ? "" : "s", (long long)model->seq,
               (long long)model->seq + 1);
        return false;
    }
    return true;
}

bool rt_data_open(RtData *d, const char *spec, bool shuffle, int64_t seed,
                  const ParcModel *model, const char *program)
{
    *d = (RtData){.shuffle = shuffle, .seed = seed};
    if (!spec || strcmp(spec, "synthetic") == 0) {
        return true;
    }
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        size_t n = strlen(specs[i].prefix);
        if (strncmp(spec, specs[i].prefix, n) == 0) {
            d->path = spec + n;
            d->width = specs[i].width;
            break;
        }
    }
    bool raw = d->path == spec;
    if (!check_inputs(d, model, program)) {
        return false;
    }
    d->map = rt_input_map(d->path, &d->size, program);
    return d->map && (!raw || (refuse_text(d) && read_header(d))) &&
           count_tokens(d, model);
}

void rt_data_close(RtData *d)
{
    rt_input_unmap(d->map, d->size);
    d->map = NULL;
}
