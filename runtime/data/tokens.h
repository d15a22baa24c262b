/* tokens.h: declares files of tokens, the sources that consist of them, and
 * the choice among sources: token_file.c, megatron.c, tokens.c, mixture.c. */
#ifndef PARC_RT_TOKENS_H
#define PARC_RT_TOKENS_H

#include "data/data.h"

/* How a file stores a token. `width` 0: not known. */
typedef struct RtTokenType {
    int width; /* bytes: 1, 2, 4 or 8 */
    bool is_signed;
} RtTokenType;

typedef struct RtTokenFile {
    char *path; /* allocated */
    const unsigned char *map;
    int64_t size;
    int64_t first; /* offset in bytes of the first token */
    RtTokenType type;
    int64_t tokens, sequences;
    int64_t before; /* sequences of the source's files before this one */
} RtTokenFile;

/* Sequences of one or several files, in the order of the files. */
struct RtTokens {
    RtTokenFile *file;
    int nfiles;
    int64_t sequences;
    double weight; /* of all sources: the sum is 1 */
    uint64_t rest; /* the share of this source in the sequences of this source
                      and those after it, in units of 2^-32 */
};

/* Where a sequence is stored. */
typedef struct RtSequence {
    const RtTokenFile *file;
    int64_t first; /* index in the file of its first token */
} RtSequence;

/* Opens the file `path`, or the Megatron data set that it names, whose
 * sequences have `seq` tokens. `type.width` 0: the file says what it is.
 * False after a message; rt_token_file_close also then. */
bool rt_token_file_open(RtTokenFile *f, const char *path, RtTokenType type,
                        int64_t seq, const char *program);
void rt_token_file_close(RtTokenFile *f);

/* If `path` names a Megatron data set, sets *bin and *index (allocated) to the
 * paths of its two files; otherwise leaves them NULL. */
void rt_megatron_find(const char *path, char **bin, char **index);
/* Reads the index of `f`, sets type and tokens. False after a message. */
bool rt_megatron_read(RtTokenFile *f, const char *index, const char *program);

/* Opens the source that `spec` describes: [PREFIX:]FILE[;FILE…]. False after a
 * message; rt_tokens_close also then. */
bool rt_tokens_open(RtTokens *s, const char *spec, int64_t seq,
                    const char *program);
void rt_tokens_close(RtTokens *s);
/* Sequence `at` of the source: 0 … sequences-1. */
RtSequence rt_tokens_sequence(const RtTokens *s, int64_t at, int64_t seq);

/* Splits "0.7*A+0.3*B" at the plus signs that a number and '*' follow. Sets
 * *weight, ends the text of the first source with a 0, and returns the text
 * of the next one (NULL: it was the last). */
char *rt_mixture_split(char *text, double *weight, char **source);
/* Whether the spec has at least two weights. */
bool rt_is_mixture(const char *spec);
/* Scales the weights to the sum 1. False after a message. */
bool rt_mixture_set(RtData *d, const char *program);
/* The source of sequence `number` of the run; sets *at to how many sequences
 * before it that source has provided. */
int rt_mixture_choose(const RtData *d, int64_t number, int64_t *at);
/* How many sequences the mixture provides until a source is used up. */
int64_t rt_mixture_sequences(const RtData *d);

#endif
