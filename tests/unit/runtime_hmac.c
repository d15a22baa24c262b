/* runtime_hmac.c: compares SHA-256 with the examples of FIPS 180-4, and
 * HMAC-SHA-256 with those of RFC 4231. */
#include <stdio.h>
#include <string.h>

#include "runtime/launch/hmac.h"
#include "tests/unit/check.h"

static const char *text_of(const unsigned char digest[RT_DIGEST])
{
    static char text[2 * RT_DIGEST + 1];
    for (int i = 0; i < RT_DIGEST; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

/* Added in pieces of 1, 2, 3, … bytes. */
static void hashes_to(Check *c, const char *data, size_t n, const char *want)
{
    static RtBytes text[1500];
    unsigned char digest[RT_DIGEST];
    int parts = 0;
    for (size_t piece = 1, at = 0; at < n; at += piece++)
        text[parts++] =
            (RtBytes){data + at, piece < n - at ? piece : n - at};
    rt_hash_of(text, parts, digest);
    CHECK_TEXT(c, text_of(digest), want);
}

static void mac_is(Check *c, const void *key, size_t k, const char *data,
                   const char *want)
{
    unsigned char digest[RT_DIGEST];
    rt_hmac((RtBytes){key, k}, &(RtBytes){data, strlen(data)}, 1, digest);
    CHECK_TEXT(c, text_of(digest), want);
}

int main(void)
{
    static char million[1000000];
    unsigned char key[131], other[RT_DIGEST] = {0}, digest[RT_DIGEST] = {0};
    Check c = {0};
    hashes_to(&c, "", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495"
                         "991b7852b855");
    hashes_to(&c, "abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb4"
                            "10ff61f20015ad");
    hashes_to(&c, "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
              56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db"
                  "06c1");
    memset(million, 'a', sizeof million);
    hashes_to(&c, million, sizeof million,
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd"
              "0");
    memset(key, 0x0b, 20);
    mac_is(&c, key, 20, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c98"
                                    "33da726e9376c2e32cff7");
    mac_is(&c, "Jefe", 4, "what do ya want for nothing?",
           "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    mac_is(&c, key, sizeof key,
           "Test Using Larger Than Block-Size Key - Hash Key First",
           "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    CHECK(&c, rt_digest_equal(digest, other));
    for (int i = 0; i < RT_DIGEST; i++) {
        other[i] = 1;
        CHECK(&c, !rt_digest_equal(digest, other));
        other[i] = 0;
    }
    return check_end(&c);
}
