/* hash.h: a hash of text. */
#ifndef PARC_BASE_HASH_H
#define PARC_BASE_HASH_H

#include <stdint.h>

/* FNV-1a: h = HASH_START; for each byte: h = (h ^ byte) * HASH_PRIME. */
#define HASH_START 2166136261u
#define HASH_PRIME 16777619u
#define HASH_START_64 14695981039346656037u
#define HASH_PRIME_64 1099511628211u

static inline uint32_t hash_text_32(const char *text)
{
    uint32_t h = HASH_START;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * HASH_PRIME;
    return h;
}

static inline uint64_t hash_text(const char *text)
{
    uint64_t h = HASH_START_64;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * HASH_PRIME_64;
    return h;
}

#endif
