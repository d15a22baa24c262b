/* device_cases.h: lists the cases on which hand-written device code is tested.
 * tests/unit/instances.c prints the instances of the code that they need, each
 * a copy for constant types and sizes; device_test.c runs the cases. */
#ifndef PARC_TESTS_STANDIN_DEVICE_CASES_H
#define PARC_TESTS_STANDIN_DEVICE_CASES_H

#include <stdbool.h>
#include <stdint.h>

/* Types by the runtime's numbers: 0 f32, 1 bf16, 2 f16. */
typedef struct AttentionCase {
    int type;
    int64_t b, s, t, kv, g, d, e;
    bool causal, drop;
    int64_t window; /* 0: none */
    bool negative;  /* the scale of the scores */
    double softcap; /* 0: none */
    int segments;   /* tokens of a segment; 0: none */
    int bias;       /* dims of the bias: bits for b, heads, s, t */
    int64_t first_s, second_s; /* not 0: the rank has s of 2 s queries (ParcAttention) */
} AttentionCase;
/* All queries, of which the rank may have half. */
static inline int64_t all_queries(const AttentionCase *c)
{
    return c->first_s || c->second_s ? 2 * c->s : c->s;
}

/* Element i of a bias: every fifth key is masked. */
static inline float bias_number(int64_t i)
{
    return i % 5 == 2 ? -3e38f : (float)(i * 7 % 13) / 6 - 1;
}

/* The segments of query and key i of sequence b; every seventh key is padding. */
static inline int32_t query_segment(int segments, int64_t b, int64_t i)
{
    return (int32_t)((i + 3 * b) / segments);
}
static inline int32_t key_segment(int segments, int64_t b, int64_t i)
{
    return i % 7 == 3 ? -1 : query_segment(segments, b, i);
}

static const AttentionCase attention_cases[] = {
    {0, 1, 1, 1, 1, 1, 1, 1, true, false, 0, false, 0, 0, 0, 0, 0},
    {0, 2, 5, 5, 2, 3, 4, 4, true, false, 0, false, 0, 0, 0, 0, 0},
    {0, 1, 7, 11, 1, 2, 3, 5, false, false, 0, false, 0, 0, 0, 0, 0},
    {0, 1, 70, 40, 1, 1, 64, 64, true, false, 0, false, 0, 0, 0, 0, 0},
    {0, 1, 33, 70, 1, 2, 24, 40, true, true, 0, false, 0, 0, 0, 0, 0},
    {0, 1, 70, 60, 1, 1, 128, 128, true, false, 0, false, 0, 0, 0, 0, 0},
    {0, 1, 35, 35, 1, 1, 256, 160, true, false, 0, false, 0, 0, 0, 0, 0},
    {1, 1, 40, 30, 1, 1, 3, 5, false, false, 0, false, 0, 0, 0, 0, 0},
    {1, 2, 40, 40, 1, 2, 16, 16, true, false, 0, false, 0, 0, 0, 0, 0},
    {1, 1, 150, 150, 1, 1, 64, 64, true, false, 0, false, 0, 0, 0, 0, 0},
    {1, 1, 70, 140, 2, 2, 64, 64, true, true, 0, false, 0, 0, 0, 0, 0},
    {1, 1, 140, 140, 1, 2, 128, 128, true, false, 0, false, 0, 0, 0, 0, 0},
    {1, 1, 140, 100, 1, 1, 128, 128, false, true, 0, false, 0, 0, 0, 0, 0},
    {1, 1, 70, 70, 1, 1, 256, 256, true, false, 0, false, 0, 0, 0, 0, 0},
    {1, 1, 40, 70, 1, 1, 136, 24, false, true, 0, false, 0, 0, 0, 0, 0},
    {2, 1, 66, 66, 1, 2, 32, 32, true, false, 0, false, 0, 0, 0, 0, 0},
    {0, 1, 70, 70, 1, 1, 24, 40, true, false, 2, false, 0, 0, 0, 0, 0},
    {0, 1, 70, 70, 1, 2, 64, 64, true, true, 20, true, 0, 0, 0, 0, 0},
    {1, 1, 150, 150, 1, 2, 64, 64, true, false, 40, false, 0, 0, 0, 0, 0},
    {1, 1, 140, 140, 1, 1, 128, 128, true, true, 60, false, 0, 0, 0, 0, 0},
    {1, 1, 150, 150, 1, 1, 32, 64, false, false, 30, true, 0, 0, 0, 0, 0},
    {1, 1, 70, 70, 1, 1, 256, 256, true, false, 17, false, 0, 0, 0, 0, 0},
    {0, 1, 70, 70, 1, 2, 24, 40, true, false, 0, true, 0.5, 0, 0, 0, 0},
    {0, 1, 140, 140, 1, 1, 128, 128, false, true, 33, false, 2, 0, 0, 0, 0},
    {1, 1, 150, 150, 1, 2, 64, 64, true, false, 0, false, 1, 0, 0, 0, 0},
    {1, 1, 140, 140, 1, 1, 128, 128, true, false, 40, false, 1.5, 0, 0, 0, 0},
    {1, 1, 70, 140, 1, 1, 64, 64, false, true, 0, true, 2, 0, 0, 0, 0},
    {2, 1, 70, 70, 1, 1, 256, 256, true, false, 0, false, 1, 0, 0, 0, 0},
    {0, 2, 70, 70, 1, 2, 24, 40, true, false, 0, true, 0, 3, 0, 0, 0},
    {0, 2, 70, 130, 1, 1, 64, 64, false, true, 0, false, 2, 20, 0, 0, 0},
    {1, 2, 150, 150, 1, 2, 64, 64, true, false, 0, false, 0, 40, 0, 0, 0},
    {1, 2, 140, 140, 1, 1, 128, 128, true, true, 60, false, 0, 33, 0, 0, 0},
    {2, 2, 70, 70, 1, 1, 256, 256, false, false, 0, true, 1, 50, 0, 0, 0},
    {0, 2, 70, 70, 1, 2, 24, 40, true, false, 0, true, 0, 0, 14, 0, 0},
    {0, 2, 70, 130, 1, 1, 64, 64, false, true, 0, false, 2, 20, 15, 0, 0},
    {0, 1, 35, 35, 1, 1, 256, 160, true, false, 0, false, 0, 0, 12, 0, 0},
    {0, 2, 70, 60, 2, 1, 128, 128, false, false, 0, false, 0, 0, 9, 0, 0},
    {1, 2, 150, 150, 1, 2, 64, 64, true, false, 40, false, 0, 0, 14, 0, 0},
    {1, 2, 140, 140, 1, 1, 128, 128, true, true, 60, false, 0, 33, 12, 0, 0},
    {1, 2, 70, 140, 2, 2, 32, 32, false, false, 0, false, 2, 0, 13, 0, 0},
    {1, 1, 70, 70, 1, 1, 128, 128, false, false, 0, false, 0, 0, 10, 0, 0},
    {2, 2, 70, 70, 1, 1, 256, 256, false, false, 0, true, 1, 50, 15, 0, 0},
    {0, 2, 35, 70, 1, 2, 24, 40, true, true, 0, true, 0, 3, 0, 35, 0},
    {0, 1, 70, 140, 1, 2, 64, 64, true, false, 20, false, 0, 0, 0, 10, 105},
    {1, 2, 75, 150, 1, 2, 64, 64, true, false, 40, false, 1, 40, 0, 75, 0},
    {1, 2, 76, 152, 1, 2, 64, 64, true, true, 0, true, 0, 0, 12, 38, 76},
    {1, 1, 150, 300, 1, 1, 128, 128, true, false, 0, false, 0, 0, 0, 0, 225},
    {1, 1, 70, 140, 1, 1, 128, 128, false, true, 33, false, 0, 0, 14, 35, 70},
    {2, 2, 70, 140, 1, 1, 256, 256, true, false, 0, false, 1, 50, 0, 0, 105},
};

/* Two steps of a ring: with the keys from first_t and second_t on (second_t 0: of one piece), then
 * with those of the queries. Of 2 t keys the rank has t. */
typedef struct RingCase {
    AttentionCase of;
    int64_t first_t, second_t;
} RingCase;

static const RingCase ring_cases[] = {
    {{0, 2, 35, 35, 1, 2, 24, 40, true, true, 0, true, 0, 3, 0, 35, 0}, 0, 0},
    {{0, 1, 70, 70, 1, 2, 64, 64, false, true, 20, false, 0, 0, 0, 35, 70}, 70, 35},
    {{0, 1, 20, 20, 1, 1, 256, 160, true, false, 0, false, 0, 0, 0, 0, 30}, 10, 20},
    {{1, 2, 76, 76, 1, 2, 64, 64, true, false, 40, false, 1, 40, 0, 76, 0}, 0, 0},
    {{1, 1, 152, 152, 2, 1, 64, 64, true, true, 0, true, 0, 0, 0, 76, 152}, 5, 228},
    {{1, 1, 140, 140, 1, 1, 128, 128, true, false, 0, false, 0, 0, 0, 0, 210}, 70, 140},
    {{1, 1, 70, 70, 1, 1, 128, 128, false, true, 33, false, 0, 0, 0, 70, 0}, 0, 0},
    {{1, 1, 70, 70, 1, 1, 32, 32, false, false, 0, false, 0, 20, 0, 0, 105}, 35, 70},
    {{2, 2, 40, 40, 1, 1, 256, 256, true, false, 0, false, 1, 50, 0, 0, 60}, 20, 40},
};

typedef struct EmbeddingCase {
    int type;
    int64_t n, rows, width, below; /* ids are in [0, below) */
    bool base;                     /* the rank's rows begin at rows / 2 */
} EmbeddingCase;

static const EmbeddingCase embedding_cases[] = {
    {0, 1, 1, 1, 1, false},      {0, 40, 10, 12, 10, false},
    {0, 300, 200, 7, 200, true}, {1, 2500, 40, 64, 5, true},
    {1, 4500, 20, 8, 20, false}, {1, 60, 1500, 24, 3000, true},
    {2, 50, 30, 33, 30, false},  {1, 20, 16, 2500, 16, false},
};

typedef struct TopkCase {
    int type;
    int64_t rows, width, n;
    bool largest;
    int64_t distinct; /* values; 0: as many as elements */
} TopkCase;

static const TopkCase topk_cases[] = {
    {0, 1, 1, 1, true, 0},      {0, 5, 70, 3, true, 0},    {1, 40, 64, 16, false, 5},
    {2, 9, 1000, 2, true, 0},   {0, 3, 5, 5, true, 2},     {1, 7, 300, 40, true, 3},
    {0, 2, 700, 700, false, 0}, {2, 2, 3000, 20, true, 9}, {0, 2, 5000, 2500, false, 0},
    {1, 1, 4500, 2100, true, 9}, {2, 1, 4200, 4190, true, 0}, {1, 1, 9000, 9000, true, 40},
    {0, 1060, 40, 17, true, 0}, {1, 1060, 40, 17, true, 0}, {2, 1060, 40, 17, false, 4},
};

/* A convolution of both dims alike, and its gradients; the size of y follows. */
typedef struct ConvCase {
    int type, out;
    int64_t n, g, c, k, image, kernel, stride, padding, dilation;
} ConvCase;

static const ConvCase conv_cases[] = {
    {0, 0, 2, 1, 3, 5, 7, 3, 1, 1, 1}, {0, 0, 1, 4, 2, 1, 9, 2, 3, 0, 2},
    {1, 1, 2, 1, 4, 8, 6, 4, 2, 1, 1}, {1, 0, 3, 8, 1, 1, 5, 3, 1, 2, 1},
    {2, 2, 1, 2, 3, 3, 8, 1, 2, 0, 1},
};

/* A mixture of experts; `choice`: how pairs choose experts, 0 all of them, 1 the last one, 2 two
 * of them, 3 some ids that no expert has. */
typedef struct ExpertsCase {
    int type, out;
    int64_t g, h, b, s, k, x, r; /* ParcGroups */
    int64_t shards, experts, first;
    int64_t f, d;
    int choice;
} ExpertsCase;

static const ExpertsCase experts_cases[] = {
    {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0},
    {0, 0, 1, 1, 4, 20, 2, 1, 160, 1, 8, 0, 33, 20, 0},
    {0, 0, 1, 1, 2, 150, 1, 1, 300, 1, 2, 0, 140, 24, 2},
    {0, 0, 2, 3, 2, 4, 2, 2, 9, 4, 2, 1, 20, 12, 0},
    {0, 1, 2, 1, 1, 40, 2, 1, 80, 1, 3, 0, 24, 140, 2},
    {1, 1, 1, 1, 3, 7, 2, 1, 42, 1, 5, 0, 16, 17, 1},
    {1, 0, 2, 2, 2, 3, 3, 1, 7, 3, 3, 0, 8, 24, 3},
    {1, 1, 1, 2, 2, 80, 1, 1, 200, 1, 2, 0, 160, 136, 2},
    {1, 0, 3, 1, 1, 90, 1, 2, 50, 3, 2, 1, 136, 40, 0},
    {2, 2, 1, 1, 2, 40, 2, 1, 160, 1, 4, 0, 40, 72, 0},
    {2, 0, 1, 1, 1, 30, 2, 1, 60, 1, 40, 0, 24, 9, 3},
    {0, 0, 1, 2, 3, 700, 3, 1, 6400, 2, 300, 1, 4, 4, 0}, /* several parts of pairs */
};

enum {
    EXPERTS_CASES = sizeof experts_cases / sizeof experts_cases[0],
    CONV_CASES = sizeof conv_cases / sizeof conv_cases[0],
    TOPK_CASES = sizeof topk_cases / sizeof topk_cases[0],
    ATTENTION_CASES = sizeof attention_cases / sizeof attention_cases[0],
    RING_CASES = sizeof ring_cases / sizeof ring_cases[0],
    EMBEDDING_CASES = sizeof embedding_cases / sizeof embedding_cases[0],
};

#endif
