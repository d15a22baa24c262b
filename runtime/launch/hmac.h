/* hmac.h: declares SHA-256 and HMAC-SHA-256 (FIPS 180-4, RFC 2104). */
#ifndef PARC_RT_HMAC_H
#define PARC_RT_HMAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RT_DIGEST = 32, RT_HASH_BLOCK = 64 };

/* A hash of all bytes that have been added. */
typedef struct RtHash {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[RT_HASH_BLOCK];
} RtHash;

void rt_hash_begin(RtHash *h);
void rt_hash_add(RtHash *h, const void *data, size_t n);
void rt_hash_end(RtHash *h, unsigned char digest[RT_DIGEST]);

/* A code over all bytes that have been added; it proves knowledge of the
 * key. */
typedef struct RtHmac {
    RtHash inner, outer;
} RtHmac;

void rt_hmac_begin(RtHmac *m, const void *key, size_t n);
void rt_hmac_add(RtHmac *m, const void *data, size_t n);
void rt_hmac_end(RtHmac *m, unsigned char digest[RT_DIGEST]);

/* Compares in a time that does not depend on where two digests differ. */
bool rt_digest_equal(const unsigned char *a, const unsigned char *b);

#endif
