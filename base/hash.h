/* hash.h: a hash of text. */
#ifndef PARC_BASE_HASH_H
#define PARC_BASE_HASH_H

#include <stdint.h>

/* FNV-1a, 64 bits. */
static inline uint64_t hash_text(const char *text)
{
    static const uint64_t start = 14695981039346656037u, prime = 1099511628211u;
    uint64_t h = start;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * prime;
    return h;
}

#endif
