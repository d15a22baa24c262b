/* parc_vector.h: implements vector loads and stores of device code, which
 * convert 16-bit elements to f32 and back. They belong to part 5 of
 * parc_device.h, which documents them. */
#ifndef PARC_VECTOR_H
#define PARC_VECTOR_H

/* Load and store n words of 4 bytes, of a local array or to it. */
#define PARC_WORDS(name, access)                                               \
    PARC_DEVICE void name(void *to, const void *from, int n)                   \
    {                                                                          \
        const uint8_t *x = (const uint8_t *)from;                              \
        uint8_t *y = (uint8_t *)to;                                            \
        PARC_UNROLL                                                            \
        for (int i = 0; i + 4 <= n; i += 4)                                    \
            access##16(y + 4 * i, x + 4 * i);                                  \
        if (n == 2)                                                            \
            access##8(y, x);                                                   \
        if (n == 1)                                                            \
            access##4(y, x);                                                   \
    }
PARC_WORDS(parc_read_words, parc_load)
PARC_WORDS(parc_write_words, parc_store)

/* Elements that are a number of words. */
#define PARC_WHOLE(name, type, words)                                          \
    PARC_DEVICE void parc_read_##name(type *x, const type *from, int n)        \
    {                                                                          \
        parc_read_words(x, from, words * n);                                   \
    }                                                                          \
                                                                               \
    PARC_DEVICE void parc_write_##name(type *to, const type *x, int n)         \
    {                                                                          \
        parc_write_words(to, x, words * n);                                    \
    }
PARC_WHOLE(f32, float, 1)
PARC_WHOLE(i32, int32_t, 1)
PARC_WHOLE(i64, int64_t, 2)

/* The i-th 16-bit half of an array of words. */
PARC_DEVICE uint16_t parc_half(const uint32_t *word, int i)
{
    return (uint16_t)(word[i / 2] >> (i % 2 * 16));
}

#define PARC_HALF(type)                                                        \
    PARC_DEVICE void parc_widen_##type(float *x, const uint32_t *word, int n)  \
    {                                                                          \
        PARC_UNROLL                                                            \
        for (int i = 0; i < n; i++)                                            \
            x[i] = parc_from_##type(parc_half(word, i));                       \
    }                                                                          \
                                                                               \
    PARC_DEVICE void parc_read_##type(float *x, const parc_##type *from, int n)\
    {                                                                          \
        uint32_t word[4];                                                      \
        if (n == 1) {                                                          \
            x[0] = parc_from_##type(*from);                                    \
            return;                                                            \
        }                                                                      \
        parc_read_words(word, from, n / 2);                                    \
        parc_widen_##type(x, word, n);                                         \
    }                                                                          \
                                                                               \
    PARC_DEVICE void parc_write_##type(parc_##type *to, const float *x, int n) \
    {                                                                          \
        uint32_t word[4];                                                      \
        if (n == 1) {                                                          \
            *to = parc_to_##type(x[0]);                                        \
            return;                                                            \
        }                                                                      \
        PARC_UNROLL                                                            \
        for (int i = 0; i < n; i += 2)                                         \
            word[i / 2] = parc_pack_##type(x[i], x[i + 1]);                    \
        parc_write_words(to, word, n / 2);                                     \
    }
PARC_HALF(bf16)
PARC_HALF(f16)

#endif
