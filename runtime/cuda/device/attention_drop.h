/* attention_drop.h: implements dropout of attention's weights.
 *
 * The random number of a weight depends on its index in the global tensor
 * (parc_random.h). The index counts queries over batch and heads, and rows as
 * if their length were a multiple of 64 keys. Hence the backward pass draws
 * the same numbers as the forward pass, for any tiles and mesh.
 *
 * A block of random words covers four adjacent keys of a query. Tensor cores
 * prescribe which lane holds which element, so each lane draws one block and
 * lanes exchange words.
 */
#ifndef PARC_ATTENTION_DROP_H
#define PARC_ATTENTION_DROP_H

#include "attention_tile.h"

typedef struct AttentionDrop {
    float rate;
    int64_t key;
    uint32_t site;
    int64_t row;  /* index of the head's first query */
    int64_t row_keys; /* padded number of keys of a row */
    int64_t first_key; /* index of the first key */
} AttentionDrop;

PARC_DEVICE int64_t drop_number(const int64_t *at)
{
    return at ? *at : 0;
}

PARC_DEVICE uint32_t drop_kept(const AttentionDrop *d, uint32_t word)
{
    return parc_unit(word) < d->rate ? 0u : 1u;
}

PARC_DEVICE void drop_block(const AttentionDrop *d, uint32_t word[4],
                            int64_t query, int64_t key)
{
    parc_random_block(word, d->key, d->site,
                      ((d->row + query) * d->row_keys + d->first_key + key) >> 2);
}

PARC_DEVICE uint32_t drop_exchange(uint32_t word, int mask)
{
    return (uint32_t)warp_shuffle_xor_int((int)word, mask);
}

/* Draws a tile whose rows are queries. A lane has two keys of a block and its
 * neighbor the other two; each of them draws the block for one of the rows r
 * and r + 8. Returns one bit per register (attention_tile.h). */
PARC_DEVICE uint32_t drop_by_query(const AttentionDrop *d, int64_t query,
                                   int64_t key)
{
    int lane = lane_index(), odd = lane % 2;
    uint32_t word[4], other[2], own[2];
    drop_block(d, word, query + lane / 4 + odd * 8, key + lane % 4 / 2 * 4);
    PARC_UNROLL
    for (int i = 0; i < 2; i++) {
        other[i] = drop_exchange(odd ? word[i] : word[i + 2], 1);
        own[i] = odd ? word[i + 2] : word[i];
    }
    uint32_t drawn = drop_kept(d, own[0]) | drop_kept(d, own[1]) << 1;
    uint32_t got = drop_kept(d, other[0]) | drop_kept(d, other[1]) << 1;
    return odd ? got | drawn << 2 : drawn | got << 2;
}

/* Draws a tile whose rows are keys. Four lanes have the four keys of a block,
 * for the same two queries and the blocks of rows r and r + 8: each lane draws
 * one of these four blocks. */
PARC_DEVICE uint32_t drop_by_key(const AttentionDrop *d, int64_t query,
                                 int64_t key)
{
    int lane = lane_index(), own = lane / 4 % 4;
    uint32_t word[4], kept = 0;
    drop_block(d, word, query + lane % 4 * 2 + own % 2,
               key + lane / 16 * 4 + own / 2 * 8);
    PARC_UNROLL
    for (int x = 0; x < 4; x++) {
        int i = own ^ x;
        uint32_t low = i % 2 ? word[1] : word[0];
        uint32_t high = i % 2 ? word[3] : word[2];
        uint32_t got = i / 2 ? high : low;
        if (x > 0)
            got = drop_exchange(got, x * 4);
        kept |= drop_kept(d, got) << i;
    }
    return kept;
}

/* Draws weights one by one, from register `at` on; returns up to 32
 * bits. */
PARC_DEVICE uint32_t drop_each(int half, int rows, int columns, int turned,
                               const AttentionDrop *d, int64_t query,
                               int64_t key, int at)
{
    int down = half ? rows / 8 : rows / 2, per_row = rows * columns / 32 / down;
    int n = rows * columns / 32;
    uint32_t kept = 0;
    PARC_ROLL
    for (int i = at; i < n && i < at + 32; i++) {
        /* In 16 bits four registers are two rows and two columns. */
        int of = i / 4 / (columns / 8) * 2 + i / 2 % 2, across = i / 4 % (columns / 8) * 2 + i % 2;
        int r = tile_row_of(half, rows, half ? of : i / per_row);
        int c = tile_column_of(half, half ? across : i % per_row);
        int64_t x = query + (turned ? c : r), y = key + (turned ? r : c);
        float drawn =
            parc_random_at(d->key, d->site, (d->row + x) * d->row_keys + d->first_key + y);
        kept |= (drawn < d->rate ? 0u : 1u) << (i - at);
    }
    return kept;
}

/* Sets kept[i / 32] to a bit for each register i of a tile [rows, columns] of
 * the warp: 0 if the weight is dropped. `turned`: rows are keys. Loops are not
 * unrolled, because other variables need the registers. `whole`, a constant: d->first_key is
 * a multiple of a block of words. */
PARC_DEVICE void drop_tile(int half, uint32_t *kept, int rows, int columns,
                           int turned, const AttentionDrop *d, int64_t query,
                           int64_t key, int whole)
{
    const int each = !half || (!whole && d->first_key % 4 != 0);
    int tiles = columns / 8, all = rows / 16 * tiles;
    PARC_UNROLL
    for (int i = 0; i < (rows * columns / 32 + 31) / 32; i++) {
        uint32_t bits = 0;
        PARC_ROLL
        for (int j = 0; !each && j < 8 && i * 8 + j < all; j++) {
            int m = (i * 8 + j) / tiles * 16, n = (i * 8 + j) % tiles * 8;
            bits |= (turned ? drop_by_key(d, query + n, key + m)
                            : drop_by_query(d, query + m, key + n))
                    << (j * 4);
        }
        kept[i] = each ? drop_each(half, rows, columns, turned, d, query, key, i * 32) : bits;
    }
}

#endif
