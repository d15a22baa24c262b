/* attention_work.c: counts the multiply-adds that the CPU runtime does for attention and its
 * gradient with a causal mask and a window of w keys: for each query those of the window, and
 * a few more where the edges of the window and of the mask cut tiles.
 *
 * The code is compiled here once more, with a tile product that counts. */
#include <stdio.h>
#include <stdlib.h>

#include "cpu/rt_tile.h"

static int64_t multiply_adds;

static void counted_tile(const RtTile *t)
{
    multiply_adds += t->m * t->n * t->k;
    rt_tile(t);
}
#define rt_tile counted_tile

#include "cpu/attention/rt_attention.c"
#include "cpu/attention/rt_attention_grad.c"

#include "common/message.h"
#include "tests/unit/attention_reference.h"

/* Enough heads for tasks of several tiles. */
enum { SEQ = 4096, HEADS = 4, HEAD = 16, MOST_MORE = 22 };

/* The keys whose scores each pass computes for a query, on average. */
typedef struct Keys {
    double forward, backward;
} Keys;

static Keys keys_per_query(int64_t window)
{
    ParcRt rt = {.threads = 1};
    ParcAttention a = {.b = 1, .s = SEQ, .t = SEQ, .kv = 1, .g = HEADS, .d = HEAD, .e = HEAD,
                       .causal = true, .window = window, .scale = 0.1f, .type = PARC_F32};
    float *in[4], *out[4], *lse = random_floats(HEADS * SEQ, 8);
    for (int i = 0; i < 4; i++) {
        in[i] = random_floats(HEADS * SEQ * HEAD, i);
        out[i] = random_floats(HEADS * SEQ * HEAD, i);
    }
    int64_t forward = parc_attention_scratch(&a, false, 1);
    int64_t backward = parc_attention_scratch(&a, true, 1);
    float *scratch = rt_allocate((size_t)(forward > backward ? forward : backward));
    double per_key = (double)HEAD * HEADS * SEQ;
    multiply_adds = 0;
    parc_attention(&rt, &a, out[0], lse, in[0], in[1], in[2], scratch);
    int64_t first = multiply_adds;
    parc_attention_grad(&rt, &a, out[1], out[2], out[3], in[3], in[0], in[1], in[2], out[0], lse,
                        scratch);
    for (int i = 0; i < 4; i++) {
        free(in[i]);
        free(out[i]);
    }
    free(lse);
    free(scratch);
    /* scores and o; scores, dp, dq, dk and dv */
    return (Keys){(double)first / (2 * per_key), (double)(multiply_adds - first) / (5 * per_key)};
}

static bool few_more(double keys, double least)
{
    return keys >= least && keys <= least + MOST_MORE;
}

int main(void)
{
    static const int64_t window[] = {16, 128, 512, 2048, SEQ};
    int failed = 0, n = sizeof window / sizeof *window;
    omp_set_num_threads(1);
    for (int i = 0; i < n; i++) {
        double w = (double)window[i], least = w * (2 * SEQ - w) / (2 * SEQ);
        Keys keys = keys_per_query(window[i]);
        printf("window %4d: %7.1f keys of a query; %7.1f computed forward, %7.1f backward\n",
               (int)window[i], least, keys.forward, keys.backward);
        failed += !few_more(keys.forward, least) + !few_more(keys.backward, least);
    }
    printf("%d passed, %d failed\n", 2 * n - failed, failed);
    return failed != 0;
}
