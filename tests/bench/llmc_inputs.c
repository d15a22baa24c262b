/* llmc_inputs.c: writes the files that llm.c's train_gpt2 opens at its start: a
 * checkpoint of GPT-2 (124M parameters) with random weights and two files of
 * tokens, under the expected names.
 *
 *   llmc_inputs DIRECTORY
 *
 * Both formats have a header of 256 words (a magic number, a version, sizes).
 * The data follow: 16 parameter tensors, each stacked over the layers, or
 * tokens of 16 bits.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    LAYERS = 12, HEADS = 12, DIM = 768, POSITIONS = 1024,
    VOCABULARY = 50257, PADDED = 50304, TOKENS = 1 << 15,
    WORDS = 256, BLOCK = 1 << 12
};

/* Uniform in -1 … 1 (xorshift: Marsaglia, "Xorshift RNGs", 2003). */
static float draw(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (float)(*state >> 40) / (float)(1 << 23) - 1;
}

static FILE *create(const char *directory, const char *name,
                    const int32_t *header, int n)
{
    char path[4096];
    int32_t words[WORDS] = {0};
    memcpy(words, header, (size_t)n * sizeof *words);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(words, sizeof words, 1, f) != 1) {
        fprintf(stderr, "llmc_inputs: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    return f;
}

static bool finish(FILE *f)
{
    bool ok = !ferror(f);
    return fclose(f) == 0 && ok;
}

/* `count` floats around `center`. */
static void write_floats(FILE *f, uint64_t *state, int64_t count, float center)
{
    float x[BLOCK];
    for (int64_t done = 0; done < count; done += BLOCK) {
        int64_t n = count - done < BLOCK ? count - done : BLOCK;
        for (int64_t i = 0; i < n; i++)
            x[i] = center + 0.03f * draw(state);
        fwrite(x, sizeof *x, (size_t)n, f);
    }
}

static bool write_checkpoint(const char *directory)
{
    static const int32_t header[] = {20240326, 3,     POSITIONS, VOCABULARY,
                                     LAYERS,   HEADS, DIM,       PADDED};
    static const struct {
        int64_t count;
        float center;
    } tensor[] = {
        {(int64_t)PADDED * DIM, 0},          {POSITIONS * DIM, 0},
        {LAYERS * DIM, 1},                   {LAYERS * DIM, 0},
        {(int64_t)LAYERS * 3 * DIM * DIM, 0}, {LAYERS * 3 * DIM, 0},
        {(int64_t)LAYERS * DIM * DIM, 0},    {LAYERS * DIM, 0},
        {LAYERS * DIM, 1},                   {LAYERS * DIM, 0},
        {(int64_t)LAYERS * 4 * DIM * DIM, 0}, {LAYERS * 4 * DIM, 0},
        {(int64_t)LAYERS * 4 * DIM * DIM, 0}, {LAYERS * DIM, 0},
        {DIM, 1},                            {DIM, 0}};
    uint64_t state = 88172645463325252u;
    FILE *f = create(directory, "gpt2_124M.bin", header, 8);
    for (size_t i = 0; i < sizeof tensor / sizeof *tensor; i++)
        write_floats(f, &state, tensor[i].count, tensor[i].center);
    return finish(f);
}

static bool write_tokens(const char *directory, const char *name)
{
    static const int32_t header[] = {20240520, 1, TOKENS};
    static uint16_t token[TOKENS];
    uint64_t state = 2463534242u;
    for (int i = 0; i < TOKENS; i++)
        token[i] = (uint16_t)((draw(&state) + 1) / 2 * (VOCABULARY - 1));
    FILE *f = create(directory, name, header, 3);
    fwrite(token, sizeof token, 1, f);
    return finish(f);
}

int main(int argc, char **argv)
{
    static const char *const directory[] = {"dev", "dev/data",
                                            "dev/data/tinyshakespeare"};
    char path[4096];
    if (argc != 2) {
        fprintf(stderr, "usage: llmc_inputs DIRECTORY\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof directory / sizeof *directory; i++) {
        snprintf(path, sizeof path, "%s/%s", argv[1], directory[i]);
        mkdir(path, 0777); /* create() reports a failure */
    }
    if (!write_checkpoint(argv[1]) ||
        !write_tokens(argv[1],
                      "dev/data/tinyshakespeare/tiny_shakespeare_train.bin") ||
        !write_tokens(argv[1],
                      "dev/data/tinyshakespeare/tiny_shakespeare_val.bin")) {
        fprintf(stderr, "llmc_inputs: %s: cannot be written\n", argv[1]);
        return 1;
    }
    return 0;
}
