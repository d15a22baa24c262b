/* rt_cudnn_attention.c: describes attention and its gradient as graphs of
 * operations.
 *
 * Engines recognize attention by the form of its graph: the operations, their
 * order, types and transposes. The tables have the form of NVIDIA's
 * documentation of the graph API ("Attention: SDPA forward, backward").
 *
 * In a deterministic backward pass, dq is the result of its product, which
 * makes the library choose engines that compute it in a fixed order. Otherwise
 * the product's result is a tensor in f32, to which blocks add in any order,
 * and dq is a copy of it.
 */
#include "cuda/attention/rt_cudnn_attention.h"

#include <string.h>

/* Tensors between operations. */
enum {
    SCORE = DNN_ADDRESSED, SCALED, QUERY, KEY, SEEN, MASKED,
    TOP, SHIFTED, POWER, SUM, LOG, WEIGHT,
    PRODUCT, ROW, WEIGHT_T, DV_HEADS, DP, LESS, DS, DS_SCALED, DS_T, DK_HEADS,
    KEYS, TENSORS,
};
_Static_assert((int)TENSORS <= (int)DNN_TENSORS, "DNN_TENSORS is too small");

/* The graphs that contain an entry: all; with a causal mask; with KV heads
 * that several query heads share; with a separate sum of dq. */
typedef enum When { ALWAYS, CAUSAL, GROUPED, SUMMED } When;

/* Sizes and strides. h: query heads, k: KV heads. */
typedef enum Shape {
    NUMBER,   /* 1 */
    HEADS_D,  /* b h s d, as stored: [b, s, h, d] */
    HEADS_E,  /* b h s e */
    KEYS_D,   /* b k t d, as stored: [b, t, k, d] */
    KEYS_E,   /* b k t e */
    KEYS_DT,  /* b k d t: transposed view of the same memory */
    KEYS_ET,  /* b k e t */
    ROWS,     /* b h s 1 */
    SCORES,   /* b h s t */
    SCORES_T, /* b h t s, view of the same memory */
    PRODUCTS, /* b h s e, dense */
    SUMS_D,   /* b h s d, dense */
    ALL_D,    /* b h t d, dense: dk for each query head */
    ALL_E,    /* b h t e */
} Shape;

enum { ELEMENT = -1 }; /* the type of q, k and v */

typedef struct TensorRow {
    DnnPlace place;
    Shape shape;
    int type;
    When when;
    int instead; /* the tensor that replaces it if `when` does not hold */
} TensorRow;

typedef struct NodeRow {
    DnnNode node;
    When when;
} NodeRow;

#define POINTWISE(mode, x, b, t, y)                                            \
    {{DNN_POINTWISE, RT_DNN_##mode, {x, b, t}, y, 0, {{0}, {0}, {0}}}, ALWAYS}
#define MASK(mode, x, b, t, y, axis)                                           \
    {{DNN_POINTWISE, RT_DNN_##mode, {x, b, t}, y, axis, {{0}, {0}, {0}}}, CAUSAL}
#define PRODUCT_OF(a, b, c)                                                    \
    {{DNN_MATMUL, 0, {a, b, DNN_NONE}, c, 0, {{0}, {0}, {0}}}, ALWAYS}
#define REDUCTION(mode, x, y, when)                                            \
    {{DNN_REDUCTION, RT_DNN_##mode, {x, DNN_NONE, DNN_NONE}, y, 0, {{0}, {0}, {0}}}, when}
#define RESHAPE(x, y)                                                          \
    {{DNN_RESHAPE, 0, {x, DNN_NONE, DNN_NONE}, y, 0, {{0}, {0}, {0}}}, ALWAYS}

/* The tensors that both passes have in the same form. */
#define TENSORS_OF_BOTH                                                        \
    [DNN_Q] = {DNN_MEMORY, HEADS_D, ELEMENT, ALWAYS, 0},                       \
    [DNN_K] = {DNN_MEMORY, KEYS_DT, ELEMENT, ALWAYS, 0},                       \
    [DNN_O] = {DNN_MEMORY, HEADS_E, ELEMENT, ALWAYS, 0},                       \
    [DNN_LSE] = {DNN_MEMORY, ROWS, RT_DNN_F32, ALWAYS, 0},                     \
    [DNN_SCALE] = {DNN_NUMBER, NUMBER, RT_DNN_F32, ALWAYS, 0},                 \
    [DNN_LEAST] = {DNN_NUMBER, NUMBER, RT_DNN_F32, CAUSAL, DNN_LEAST},         \
    [SCORE] = {DNN_INNER, SCORES, RT_DNN_F32, ALWAYS, 0},                      \
    [SCALED] = {DNN_INNER, SCORES, RT_DNN_F32, ALWAYS, 0},                     \
    [QUERY] = {DNN_INNER, SCORES, RT_DNN_I32, CAUSAL, QUERY},                  \
    [KEY] = {DNN_INNER, SCORES, RT_DNN_I32, CAUSAL, KEY},                      \
    [SEEN] = {DNN_INNER, SCORES, RT_DNN_BOOL, CAUSAL, SEEN},                   \
    [SHIFTED] = {DNN_INNER, SCORES, RT_DNN_F32, ALWAYS, 0},                    \
    [POWER] = {DNN_INNER, SCORES, RT_DNN_F32, ALWAYS, 0}

/* ---- forward ------------------------------------------------------------- */

static const TensorRow forward_tensors[TENSORS] = {
    TENSORS_OF_BOTH,
    [DNN_V] = {DNN_MEMORY, KEYS_E, ELEMENT, ALWAYS, 0},
    [MASKED] = {DNN_INNER, SCORES, RT_DNN_F32, CAUSAL, SCALED},
    [TOP] = {DNN_INNER, ROWS, RT_DNN_F32, ALWAYS, 0},
    [SUM] = {DNN_INNER, ROWS, RT_DNN_F32, ALWAYS, 0},
    [LOG] = {DNN_INNER, ROWS, RT_DNN_F32, ALWAYS, 0},
    [WEIGHT] = {DNN_INNER, SCORES, ELEMENT, ALWAYS, 0},
};

static const NodeRow forward_nodes[] = {
    PRODUCT_OF(DNN_Q, DNN_K, SCORE),
    POINTWISE(MULTIPLY, SCORE, DNN_SCALE, DNN_NONE, SCALED),
    MASK(INDEX, SCALED, DNN_NONE, DNN_NONE, QUERY, 2),
    MASK(INDEX, SCALED, DNN_NONE, DNN_NONE, KEY, 3),
    MASK(GREATER_EQUAL, QUERY, KEY, DNN_NONE, SEEN, 0),
    MASK(SELECT, SCALED, DNN_LEAST, SEEN, MASKED, 0),
    REDUCTION(MAX, MASKED, TOP, ALWAYS),
    POINTWISE(SUBTRACT, MASKED, TOP, DNN_NONE, SHIFTED),
    POINTWISE(EXP, SHIFTED, DNN_NONE, DNN_NONE, POWER),
    REDUCTION(SUM, POWER, SUM, ALWAYS),
    POINTWISE(LOG, SUM, DNN_NONE, DNN_NONE, LOG),
    POINTWISE(ADD, TOP, LOG, DNN_NONE, DNN_LSE),
    POINTWISE(DIVIDE, POWER, SUM, DNN_NONE, WEIGHT),
    PRODUCT_OF(WEIGHT, DNN_V, DNN_O),
};

/* ---- backward ------------------------------------------------------------ */

/* With p = e^(scores - lse) and delta = sum(d_o o) of each row:
 *   dv = p' d_o,  ds = p (d_o v' - delta) scale,  dk = ds' q,  dq = ds k */
static const TensorRow backward_tensors[TENSORS] = {
    TENSORS_OF_BOTH,
    [DNN_V] = {DNN_MEMORY, KEYS_ET, ELEMENT, ALWAYS, 0},
    [DNN_ONE] = {DNN_NUMBER, NUMBER, RT_DNN_F32, ALWAYS, 0},
    [DNN_DO] = {DNN_MEMORY, HEADS_E, ELEMENT, ALWAYS, 0},
    [DNN_DQ] = {DNN_MEMORY, HEADS_D, ELEMENT, ALWAYS, 0},
    [DNN_DK] = {DNN_MEMORY, KEYS_D, ELEMENT, ALWAYS, 0},
    [DNN_DV] = {DNN_MEMORY, KEYS_E, ELEMENT, ALWAYS, 0},
    [DNN_DELTA] = {DNN_MEMORY, ROWS, RT_DNN_F32, ALWAYS, 0},
    [PRODUCT] = {DNN_INNER, PRODUCTS, RT_DNN_F32, ALWAYS, 0},
    [ROW] = {DNN_INNER, ROWS, RT_DNN_F32, ALWAYS, 0},
    [MASKED] = {DNN_INNER, SCORES, RT_DNN_F32, CAUSAL, SHIFTED},
    [WEIGHT_T] = {DNN_INNER, SCORES_T, ELEMENT, ALWAYS, 0},
    [DV_HEADS] = {DNN_INNER, ALL_E, ELEMENT, GROUPED, DNN_DV},
    [DP] = {DNN_INNER, SCORES, RT_DNN_F32, ALWAYS, 0},
    [LESS] = {DNN_INNER, SCORES, RT_DNN_F32, ALWAYS, 0},
    [DS] = {DNN_INNER, SCORES, RT_DNN_F32, ALWAYS, 0},
    [DS_SCALED] = {DNN_INNER, SCORES, RT_DNN_F32, ALWAYS, 0},
    [DS_T] = {DNN_INNER, SCORES_T, ELEMENT, ALWAYS, 0},
    [DK_HEADS] = {DNN_INNER, ALL_D, ELEMENT, GROUPED, DNN_DK},
    [KEYS] = {DNN_INNER, KEYS_D, ELEMENT, ALWAYS, 0},
    [DNN_DQ_SUM] = {DNN_MEMORY, SUMS_D, RT_DNN_F32, SUMMED, DNN_DQ},
};

static const NodeRow backward_nodes[] = {
    POINTWISE(MULTIPLY, DNN_DO, DNN_O, DNN_NONE, PRODUCT),
    REDUCTION(SUM, PRODUCT, ROW, ALWAYS),
    POINTWISE(MULTIPLY, ROW, DNN_ONE, DNN_NONE, DNN_DELTA),
    PRODUCT_OF(DNN_Q, DNN_K, SCORE),
    POINTWISE(MULTIPLY, SCORE, DNN_SCALE, DNN_NONE, SCALED),
    POINTWISE(SUBTRACT, SCALED, DNN_LSE, DNN_NONE, SHIFTED),
    MASK(INDEX, SHIFTED, DNN_NONE, DNN_NONE, QUERY, 2),
    MASK(INDEX, SHIFTED, DNN_NONE, DNN_NONE, KEY, 3),
    MASK(GREATER_EQUAL, QUERY, KEY, DNN_NONE, SEEN, 0),
    MASK(SELECT, SHIFTED, DNN_LEAST, SEEN, MASKED, 0),
    POINTWISE(EXP, MASKED, DNN_NONE, DNN_NONE, POWER),
    RESHAPE(POWER, WEIGHT_T),
    PRODUCT_OF(WEIGHT_T, DNN_DO, DV_HEADS),
    REDUCTION(SUM, DV_HEADS, DNN_DV, GROUPED),
    PRODUCT_OF(DNN_DO, DNN_V, DP),
    POINTWISE(SUBTRACT, DP, DNN_DELTA, DNN_NONE, LESS),
    POINTWISE(MULTIPLY, LESS, POWER, DNN_NONE, DS),
    POINTWISE(MULTIPLY, DS, DNN_SCALE, DNN_NONE, DS_SCALED),
    RESHAPE(DS_SCALED, DS_T),
    PRODUCT_OF(DS_T, DNN_Q, DK_HEADS),
    REDUCTION(SUM, DK_HEADS, DNN_DK, GROUPED),
    RESHAPE(DNN_K, KEYS),
    PRODUCT_OF(DS_SCALED, KEYS, DNN_DQ_SUM),
    {{DNN_POINTWISE, RT_DNN_IDENTITY, {DNN_DQ_SUM, DNN_NONE, DNN_NONE}, DNN_DQ,
      0, {{0}, {0}, {0}}}, SUMMED},
};

/* ---- graph of a call ----------------------------------------------------- */

/* The tensor of a row for `b` sequences and `k` KV heads. In memory it is a
 * part of the call's tensor, which has ha query heads and ka KV heads. */
static DnnTensor dnn_tensor_of(const ParcAttention *a, int64_t b, int64_t k,
                               const TensorRow *row)
{
    int64_t s = a->s, t = a->t, h = k * a->g, ka = a->kv, ha = ka * a->g;
    int64_t d = a->d, e = a->e;
    bool inner = row->place == DNN_INNER;
    int64_t hr = inner ? h : ha;
    const int64_t shape[][2][DNN_DIMS] = {
        [NUMBER] = {{1, 1, 1, 1}, {1, 1, 1, 1}},
        [HEADS_D] = {{b, h, s, d}, {s * ha * d, d, ha * d, 1}},
        [HEADS_E] = {{b, h, s, e}, {s * ha * e, e, ha * e, 1}},
        [KEYS_D] = {{b, k, t, d}, {t * ka * d, d, ka * d, 1}},
        [KEYS_E] = {{b, k, t, e}, {t * ka * e, e, ka * e, 1}},
        [KEYS_DT] = {{b, k, d, t}, {t * ka * d, d, 1, ka * d}},
        [KEYS_ET] = {{b, k, e, t}, {t * ka * e, e, 1, ka * e}},
        [ROWS] = {{b, h, s, 1}, {hr * s, s, 1, 1}},
        [SCORES] = {{b, h, s, t}, {h * s * t, s * t, t, 1}},
        [SCORES_T] = {{b, h, t, s}, {h * s * t, s * t, 1, t}},
        [PRODUCTS] = {{b, h, s, e}, {h * s * e, s * e, e, 1}},
        [SUMS_D] = {{b, h, s, d}, {h * s * d, s * d, d, 1}},
        [ALL_D] = {{b, h, t, d}, {h * t * d, t * d, d, 1}},
        [ALL_E] = {{b, h, t, e}, {h * t * e, t * e, e, 1}},
    };
    int own = a->type == PARC_BF16 ? RT_DNN_BF16 : RT_DNN_F16;
    DnnTensor x = {row->place, row->type == ELEMENT ? own : row->type, {0}, {0}};
    memcpy(x.dim, shape[row->shape][0], sizeof x.dim);
    memcpy(x.stride, shape[row->shape][1], sizeof x.stride);
    return x;
}

static bool holds(const ParcAttention *a, When when)
{
    switch (when) {
    case CAUSAL: return a->causal;
    case GROUPED: return a->g > 1;
    case SUMMED: return !a->deterministic;
    case ALWAYS: break;
    }
    return true;
}

static int tensor_for(const ParcAttention *a, const TensorRow *rows, int tensor)
{
    return tensor == DNN_NONE || holds(a, rows[tensor].when)
               ? tensor
               : rows[tensor].instead;
}

void rt_cudnn_attention_graph(DnnGraph *g, const ParcAttention *a, int64_t b,
                              int64_t kv, bool backward)
{
    const TensorRow *tensors = backward ? backward_tensors : forward_tensors;
    const NodeRow *nodes = backward ? backward_nodes : forward_nodes;
    size_t n = backward ? sizeof backward_nodes : sizeof forward_nodes;
    memset(g, 0, sizeof *g);
    g->ntensors = TENSORS;
    g->refuses = backward && !a->deterministic ? 0 : 1u << RT_DNN_NOT_DETERMINISTIC;
    for (int i = 0; i < TENSORS; i++)
        if (tensors[i].place != DNN_NOWHERE && holds(a, tensors[i].when))
            g->tensor[i] = dnn_tensor_of(a, b, kv, &tensors[i]);
    for (size_t i = 0; i < n / sizeof *nodes; i++) {
        if (!holds(a, nodes[i].when))
            continue;
        DnnNode *to = &g->node[g->nnodes++];
        *to = nodes[i].node;
        for (int j = 0; j < 3; j++)
            to->in[j] = tensor_for(a, tensors, to->in[j]);
        to->out = tensor_for(a, tensors, to->out);
    }
}
