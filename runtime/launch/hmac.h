/* hmac.h: declares SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104). */
#ifndef PARC_RT_HMAC_H
#define PARC_RT_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RT_DIGEST = 32 };

/* A text is `parts` pieces, one after another. */
typedef struct RtBytes {
    const void *at;
    size_t n;
} RtBytes;

void rt_hash_of(const RtBytes *text, int parts, unsigned char digest[RT_DIGEST]);
/* A code over the text; it proves knowledge of the key. */
void rt_hmac(RtBytes key, const RtBytes *text, int parts,
             unsigned char digest[RT_DIGEST]);

/* Compares in a time that does not depend on where two digests differ. */
bool rt_digest_equal(const unsigned char *a, const unsigned char *b);

#endif
