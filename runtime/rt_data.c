/* rt_data.c: token files.
 *
 *   tokens.bin    u16, little-endian; or with llm.c's header of 256 words of
 *                 32 bits, told apart by the first: magic, version, tokens
 *   u32:FILE      u32, little-endian
 *   bytes:FILE    any file, a token a byte
 *   synthetic     no file
 *
 * Sequence i of a file is tokens[i*seq .. i*seq+seq], its labels the same one
 * further, so that n tokens hold (n-1)/seq sequences.
 */
#include <string.h>

#include "rt.h"

enum { HEADER_BYTES = 1024 };

/* llm.c's magics: GPT-2's tokens have 16 bits, Llama 3's 32. */
static const struct {
    uint32_t magic, version;
    int width;
} headers[] = {{20240520, 1, 2}, {20240801, 7, 4}};

static const struct {
    const char *prefix;
    int width;
} specs[] = {{"u32:", 4}, {"bytes:", 1}, {"", 2}};

static uint32_t word(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

/* A header where there is one; false where it contradicts the file. */
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

/* The one [batch, seq] of tokens that a file can feed, and its labels. */
static bool check_inputs(const RtData *d, const ParcModel *model,
                         const char *program)
{
    int feeds = 0;
    for (int i = 0; i < model->ninputs; i++) {
        const ParcInput *in = &model->input[i];
        if (in->type != PARC_I32) {
            continue;
        }
        feeds += !in->is_labels;
        if (in->ndim != 2 || in->dim[1] != model->seq) {
            rt_error(program,
                     "'%s' cannot be fed from '%s': a token file gives "
                     "[batch, seq]",
                     in->name, d->path);
            return false;
        }
    }
    if (feeds != 1) {
        rt_error(program,
                 "a token file feeds one input; %s takes %s, so that --data "
                 "can only be 'synthetic'",
                 model->name, feeds ? "several" : "no tokens");
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
                   "%d bytes",
                   d->path, (long long)(d->first + d->tokens * d->width),
                   d->width);
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

bool rt_data_open(RtData *d, const char *spec, const ParcModel *model,
                  const char *program)
{
    memset(d, 0, sizeof *d);
    if (strcmp(spec, "synthetic") == 0) {
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
    return d->map && (!raw || read_header(d)) && count_tokens(d, model);
}

void rt_data_close(RtData *d)
{
    rt_input_unmap(d->map, d->size);
    d->map = NULL;
}
