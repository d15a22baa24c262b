/* hmac.c: computes SHA-256 and HMAC-SHA-256 for the handshake of ranks.
 *
 * The processes of a job prove to each other that they know its token without
 * sending it (launch/handshake.h). No library is linked for that: the algorithm
 * is short, and a few hundred bytes are hashed per connection.
 */
#include "launch/hmac.h"

#include <string.h>

enum { BLOCK = 64 };

/* A hash of all bytes that have been added. */
typedef struct Hash {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char block[BLOCK];
} Hash;

/* The first 32 bits of the fractional parts of the cube roots of the first 64
 * primes. */
static const uint32_t rounds[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
    0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
    0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
    0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
    0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void add_block(Hash *h, const unsigned char *block)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++) {
        const unsigned char *p = block + 4 * i;
        w[i] = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
               (uint32_t)p[2] << 8 | (uint32_t)p[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] +
               (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) +
               (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
    }
    memcpy(s, h->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t e = s[4], a = s[0];
        uint32_t t = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
                     ((e & s[5]) ^ (~e & s[6])) + rounds[i] + w[i];
        uint32_t u = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
                     ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t;
        s[0] = t + u;
    }
    for (int i = 0; i < 8; i++)
        h->state[i] += s[i];
}

static void add(Hash *h, RtBytes text)
{
    const unsigned char *p = text.at;
    for (size_t i = 0; i < text.n; i++) {
        h->block[h->bytes++ % BLOCK] = p[i];
        if (h->bytes % BLOCK == 0)
            add_block(h, h->block);
    }
}

/* The digest of `first`, which may be empty, followed by the text. */
static void hash(RtBytes first, const RtBytes *text, int parts,
                 unsigned char digest[RT_DIGEST])
{
    Hash h = {.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
    unsigned char length[8];
    add(&h, first);
    for (int i = 0; i < parts; i++)
        add(&h, text[i]);
    uint64_t bits = h.bytes * 8;
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    add(&h, (RtBytes){"\x80", 1});
    while (h.bytes % BLOCK != BLOCK - sizeof length)
        add(&h, (RtBytes){"", 1});
    add(&h, (RtBytes){length, sizeof length});
    for (int i = 0; i < RT_DIGEST; i++)
        digest[i] = (unsigned char)(h.state[i / 4] >> (24 - 8 * (i % 4)));
}

void rt_hash_of(const RtBytes *text, int parts, unsigned char digest[RT_DIGEST])
{
    hash((RtBytes){0}, text, parts, digest);
}

void rt_hmac(RtBytes key, const RtBytes *text, int parts,
             unsigned char digest[RT_DIGEST])
{
    unsigned char block[BLOCK] = {0}, inner[BLOCK], outer[BLOCK];
    if (key.n > BLOCK)
        rt_hash_of(&key, 1, block);
    else
        memcpy(block, key.at, key.n);
    for (int i = 0; i < BLOCK; i++) {
        inner[i] = block[i] ^ 0x36;
        outer[i] = block[i] ^ 0x5c;
    }
    hash((RtBytes){inner, BLOCK}, text, parts, digest);
    hash((RtBytes){outer, BLOCK}, &(RtBytes){digest, RT_DIGEST}, 1, digest);
}

bool rt_digest_equal(const unsigned char *a, const unsigned char *b)
{
    volatile unsigned char different = 0;
    for (int i = 0; i < RT_DIGEST; i++)
        different |= a[i] ^ b[i];
    return different == 0;
}
