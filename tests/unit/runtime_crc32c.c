/* runtime_crc32c.c: compares CRC-32C with the examples of RFC 3720 and with a
 * computation bit by bit, for every length up to 300 and around the block
 * lengths, at every alignment, whole and in two parts. */
#include <stdlib.h>

#include "runtime/common/files.h"
#include "tests/unit/check.h"

enum { MOST = 3 * 3 * 8192 + 64 };

static uint32_t bit_by_bit(const unsigned char *p, size_t n)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int b = 0; b < 8; b++)
            crc = crc >> 1 ^ (0x82F63B78u & -(crc & 1));
    }
    return ~crc;
}

static void known(Check *c)
{
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xFF, sizeof ones);
    for (int i = 0; i < 32; i++) {
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    CHECK(c, rt_crc32c(0, "", 0) == 0);
    CHECK(c, rt_crc32c(0, "123456789", 9) == 0xE3069283);
    CHECK(c, rt_crc32c(0, zeros, 32) == 0x8A9136AA);
    CHECK(c, rt_crc32c(0, ones, 32) == 0x62A8AB43);
    CHECK(c, rt_crc32c(0, up, 32) == 0x46DD794E);
    CHECK(c, rt_crc32c(0, down, 32) == 0x113FDB5C);
}

static void compare(Check *c, const unsigned char *p, size_t n)
{
    uint32_t want = bit_by_bit(p, n);
    size_t half = n / 3;
    CHECK(c, rt_crc32c(0, p, n) == want);
    CHECK(c, rt_crc32c_portable(0, p, n) == want);
    CHECK(c, rt_crc32c(rt_crc32c(0, p, half), p + half, n - half) == want);
}

int main(void)
{
    static const size_t lengths[] = {8192,     24575,     24576, 24577,
                                     24576 * 2, 24576 * 2 + 13, 24576 * 3};
    Check c = {0};
    unsigned char *data = malloc(MOST);
    uint32_t state = 1;
    for (size_t i = 0; data && i < MOST; i++) {
        state = state * 1664525 + 1013904223;
        data[i] = (unsigned char)(state >> 24);
    }
    known(&c);
    for (size_t align = 0; data && align < 8; align++) {
        for (size_t n = 0; n <= 300; n++)
            compare(&c, data + align, n);
        for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
            compare(&c, data + align, lengths[i]);
    }
    free(data);
    return check_end(&c);
}
