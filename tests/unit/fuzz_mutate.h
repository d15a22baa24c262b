/* fuzz_mutate.h: loads valid texts and files, and damages them.
 *
 * Damage changes bytes (flipped, removed, repeated, taken from another text) or
 * the structure: numbers, names and lines are exchanged. The random numbers
 * follow from Corpus.random alone.
 */
#ifndef PARC_TESTS_UNIT_FUZZ_MUTATE_H
#define PARC_TESTS_UNIT_FUZZ_MUTATE_H

#include <stdint.h>
#include <stdlib.h>

#include "base/arena.h"

enum { FUZZ_TEXTS = 512, FUZZ_SIZE = 1 << 18 };

typedef struct FuzzText {
    const char *at, *name;
    size_t size;
} FuzzText;

typedef struct Corpus {
    FuzzText text[FUZZ_TEXTS];
    int n;
    uint64_t random; /* not 0 */
} Corpus;

/* A number below `below`. */
uint64_t fuzz_next(Corpus *c, uint64_t below);
/* Adds the files that match and have at most `most` bytes. */
void fuzz_load(Arena *a, Corpus *c, const char *pattern, size_t most);
void fuzz_add(Corpus *c, const char *name, const char *text, size_t size);

/* Damages a text in a buffer of FUZZ_SIZE bytes; returns its new size. */
size_t fuzz_bytes(Corpus *c, char *text, size_t size);
size_t fuzz_tokens(Corpus *c, char *text, size_t size);

#endif
