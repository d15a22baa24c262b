/* fuzz_reader.c: runs the readers of a training program without a model: opens
 * its files, compares them with the parameters, and reads them. */
#include <stdio.h>
#include <string.h>

#include "runtime/common/files.h"
#include "runtime/rt.h"
#include "tests/unit/fuzz_run.h"
#include "tests/unit/runtime_tools.h"

enum { VOCAB = 256, BATCH = 2, SEQ = 8, ROWS = 4, COLUMNS = 6 };
enum {
    AT_TOKENS = 64, AT_LABELS = AT_TOKENS + BATCH * SEQ * 4,
    AT_WEIGHT = AT_LABELS + BATCH * SEQ * 4,
    AT_BIAS = AT_WEIGHT + 2 * ROWS * COLUMNS * 4, ARENA = AT_BIAS + COLUMNS * 4
};

static void nothing(ParcRt *rt)
{
    (void)rt;
}

/* Replaces the number after the last "crc32c" by the checksum of the text
 * before it: a checksum that is wrong would end all cases alike. */
static size_t mend_checksum(char *text, size_t n, size_t most)
{
    static const char name[] = "\n\"crc32c\": ";
    char *found = NULL;
    for (char *at = text; (at = memmem(at, n - (size_t)(at - text), name,
                                       sizeof name - 1)); at++)
        found = at;
    if (!found)
        return n;
    size_t head = (size_t)(found + 1 - text);
    return head + (size_t)snprintf(text + head, most - head,
                                   "\"crc32c\": %lu\n}\n",
                                   (unsigned long)rt_crc32c(0, text, head));
}

/* Copies the file to the index of the checkpoint beside it, whose path it
 * stores in `to`. */
static bool put_index(const char *file, char *to, size_t size)
{
    enum { MOST = 1 << 20 };
    static char text[MOST];
    char path[600];
    FILE *f = fopen(file, "rb");
    size_t n = f ? fread(text, 1, MOST - 64, f) : 0;
    if (f)
        fclose(f);
    n = mend_checksum(text, n, MOST);
    snprintf(to, size, "%.*s/%s", (int)(strrchr(file, '/') - file), file,
             FUZZ_STEP);
    snprintf(path, sizeof path, "%s/index.json", to);
    f = fopen(path, "wb");
    bool good = f && fwrite(text, 1, n, f) == n;
    return f && fclose(f) == 0 && good;
}

static bool has_suffix(const char *path, const char *suffix)
{
    size_t n = strlen(path), s = strlen(suffix);
    return n > s && strcmp(path + n - s, suffix) == 0;
}

/* Writes the tokens of the index of Megatron at `index`, beside it. */
static bool put_tokens(const char *index)
{
    enum { BYTES = 2 * FUZZ_TOKENS };
    static const char zeros[BYTES];
    char path[600];
    snprintf(path, sizeof path, "%.*sbin", (int)strlen(index) - 3, index);
    FILE *f = fopen(path, "wb");
    bool good = f && fwrite(zeros, 1, BYTES, f) == BYTES;
    return f && fclose(f) == 0 && good;
}

/* Reads the text of a file, up to its first 0. */
static bool get_text(const char *file, char *to, size_t size)
{
    FILE *f = fopen(file, "rb");
    if (!f)
        return false;
    to[fread(to, 1, size - 1, f)] = 0;
    return fclose(f) == 0;
}

int fuzz_reader(void *program)
{
    const FuzzProgram *f = program;
    static const int64_t mesh[] = {1};
    static const ParcInput inputs[] = {
        {.name = "tokens", .type = PARC_I32, .below = VOCAB, .ndim = 2,
         .dim = {BATCH, SEQ}, .offset = AT_TOKENS},
        {.name = "labels", .type = PARC_I32, .is_labels = true, .below = VOCAB,
         .ndim = 2, .dim = {BATCH, SEQ}, .offset = AT_LABELS},
    };
    ParcParam param[] = {
        {.name = "layers.*.weight", .nstack = 1, .stack = {2}, .ndim = 2,
         .dim = {ROWS, COLUMNS}, .offset = AT_WEIGHT,
         .local_elements = 2 * ROWS * COLUMNS, .init = PARC_ZEROS,
         .placement = "a=R"},
        {.name = "bias", .ndim = 1, .dim = {COLUMNS}, .offset = AT_BIAS,
         .local_elements = COLUMNS, .init = PARC_ZEROS, .placement = "a=R"},
    };
    for (int i = 0; i < 2; i++)
        memset(param[i].split, -1, sizeof param[i].split);
    ParcModel m = bare_model(1, mesh, ARENA);
    m.param = param;
    m.nparams = 2;
    m.input = inputs;
    m.ninputs = 2;
    m.batch = BATCH;
    m.seq = SEQ;
    m.optimizer = "SGD";
    m.init = nothing;
    m.step = nothing;
    static char checkpoint[512];
    bool resumes = strcmp(f->option, "--resume") == 0;
    if (resumes && !put_index(f->value, checkpoint, sizeof checkpoint))
        return 3;
    static char spec[1 << 15];
    const char *value = resumes ? checkpoint : f->value;
    if (has_suffix(value, ".idx") && !put_tokens(value))
        return 3;
    if (has_suffix(value, ".npy")) {
        snprintf(spec, sizeof spec, "tokens=%s,labels=%s", value, value);
        value = spec;
    }
    if (has_suffix(value, ".spec")) {
        if (!get_text(value, spec, sizeof spec))
            return 3;
        value = spec;
    }
    char *argv[] = {"train", "--steps", resumes ? "5" : "3", "--shuffle",
                    (char *)(uintptr_t)f->option,
                    (char *)(uintptr_t)value, NULL};
    return parc_main(6, argv, &m);
}

static char *weights_file(Arena *a, size_t *size)
{
    static const char header[] =
        "{\"__metadata__\": {\"format\": \"pt\"}, "
        "\"layers.0.weight\": {\"dtype\": \"F32\", \"shape\": [4, 6], "
        "\"data_offsets\": [0, 96]}, "
        "\"layers.1.weight\": {\"dtype\": \"BF16\", \"shape\": [4, 6], "
        "\"data_offsets\": [96, 144]}, "
        "\"bias\": {\"dtype\": \"F16\", \"shape\": [6], "
        "\"data_offsets\": [144, 156]}}";
    size_t n = sizeof header - 1;
    *size = 8 + n + 156;
    char *text = memset(arena_alloc(a, *size), 0, *size);
    for (int i = 0; i < 8; i++)
        text[i] = (char)(n >> 8 * i);
    memcpy(text + 8, header, n);
    return text;
}

/* A file with llm.c's header and 16-bit tokens. */
static char *tokens_file(Arena *a, size_t *size)
{
    enum { HEADER = 1024, TOKENS = 100 };
    const uint32_t head[] = {20240520, 1, TOKENS};
    *size = HEADER + 2 * TOKENS;
    char *text = memset(arena_alloc(a, *size), 0, *size);
    memcpy(text, head, sizeof head);
    for (int i = 0; i < TOKENS; i++)
        text[HEADER + 2 * i] = (char)(i % VOCAB);
    return text;
}

char *fuzz_reader_array(Arena *a, size_t *size)
{
    enum { HEADER = 128, SAMPLES = 12 };
    static const char head[] = "\x93NUMPY\1\0\x76\0{'descr': '<i4', "
                               "'fortran_order': False, 'shape': (12, 8), }";
    _Static_assert(SEQ == 8, "the shape has the length of a sequence");
    *size = HEADER + SAMPLES * SEQ * 4;
    char *text = memset(arena_alloc(a, *size), 0, *size);
    memset(text, ' ', HEADER);
    memcpy(text, head, sizeof head - 1);
    text[HEADER - 1] = '\n';
    for (int i = 0; i < SAMPLES * SEQ; i++)
        text[HEADER + 4 * i] = (char)i;
    return text;
}

char *fuzz_reader_file(Arena *a, const char *option, size_t *size)
{
    return strcmp(option, "--init") == 0 ? weights_file(a, size)
                                         : tokens_file(a, size);
}
