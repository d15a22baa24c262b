/* attention_work.c: counts the multiply-adds that the CPU runtime does for attention and its
 * gradient. With a window of w keys a query takes w of them, and a few more where the edges
 * of the window and of the causal mask cut tiles; so w / seq of the work of all keys.
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

enum {
    SEQ = 4096,
    HEAD = 16,
    PRODUCTS = 7,     /* scores and o; scores, dp, dq, dk and dv */
    EDGE = RT_EDGE_QUERIES + 2 * RT_PAD /* keys that the edges of tiles add */
};

/* The keys that a query takes, on average. */
static double keys_per_query(int64_t window)
{
    ParcRt rt = {.threads = 1};
    ParcAttention a = {.b = 1, .s = SEQ, .t = SEQ, .kv = 1, .g = 1, .d = HEAD, .e = HEAD,
                       .causal = true, .window = window, .scale = 0.1f, .type = PARC_F32};
    float *in[4], *out[4], *lse = random_floats(SEQ, 8);
    for (int i = 0; i < 4; i++) {
        in[i] = random_floats(SEQ * HEAD, i);
        out[i] = random_floats(SEQ * HEAD, i);
    }
    int64_t forward = parc_attention_scratch(&a, false, 1);
    int64_t backward = parc_attention_scratch(&a, true, 1);
    float *scratch = rt_allocate((size_t)(forward > backward ? forward : backward));
    multiply_adds = 0;
    parc_attention(&rt, &a, out[0], lse, in[0], in[1], in[2], scratch);
    parc_attention_grad(&rt, &a, out[1], out[2], out[3], in[3], in[0], in[1], in[2], out[0], lse,
                        scratch);
    for (int i = 0; i < 4; i++) {
        free(in[i]);
        free(out[i]);
    }
    free(lse);
    free(scratch);
    return (double)multiply_adds / ((double)PRODUCTS * HEAD * SEQ);
}

int main(void)
{
    static const int64_t window[] = {16, 128, 512, 2048, SEQ};
    int failed = 0, n = sizeof window / sizeof *window;
    omp_set_num_threads(1);
    for (int i = 0; i < n; i++) {
        double w = (double)window[i], least = w * (2 * SEQ - w) / (2 * SEQ);
        double keys = keys_per_query(window[i]);
        printf("window %5d: a query takes %7.1f keys of at least %7.1f\n", (int)window[i], keys,
               least);
        failed += !(keys >= least && keys <= least + EDGE);
    }
    printf("%d passed, %d failed\n", n - failed, failed);
    return failed != 0;
}
