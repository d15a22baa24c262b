/* choose_token.c: chooses a token by its logit.
 *
 *   temperature 0     the token with the largest logit, the lowest id on ties
 *   temperature T     token i of the k candidates with the largest logits has
 *                     the probability exp(l_i / T) / sum_j exp(l_j / T)
 *
 * Probabilities are computed in double, in the order of ids, and one random
 * number of the seed and the position selects the token. Equal logits thus give
 * equal tokens on every mesh and machine.
 */
#include <math.h>
#include <stdlib.h>

#include "common/message.h"
#include "eval/eval.h"
#include "params/random.h"

static int64_t largest(const float *logit, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (logit[i] > logit[best])
            best = i;
    return best;
}

static int descending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The k-th largest logit. */
static float threshold(const float *logit, int64_t n, int64_t k)
{
    float *sorted = rt_allocate((size_t)n * sizeof *sorted);
    for (int64_t i = 0; i < n; i++)
        sorted[i] = logit[i];
    qsort(sorted, (size_t)n, sizeof *sorted, descending);
    float least = sorted[k - 1];
    free(sorted);
    return least;
}

/* A number in [0, 1) with 53 random bits. */
static double random_number(int64_t seed, int64_t position)
{
    uint32_t word[4];
    rt_random_block(word, seed, RT_STREAM_SAMPLE, 0, (uint64_t)position);
    uint64_t bits = (uint64_t)word[0] << 32 | word[1];
    return (double)(bits >> 11) * 0x1p-53;
}

/* The probability of a token before normalization; 0 below the threshold. Of
 * tokens that tie at the threshold only the first `ties` are candidates. */
static double weight(float logit, float least, float top, double temperature,
                     int64_t *ties)
{
    if (logit < least || (logit == least && (*ties)-- <= 0))
        return 0;
    return exp(((double)logit - (double)top) / temperature);
}

int64_t rt_sample_choose(const float *logit, int64_t n, const RtChoice *choice,
                         int64_t position)
{
    int64_t best = largest(logit, n), ties = n, above = 0;
    float top = logit[best], least = -INFINITY;
    if (choice->temperature == 0)
        return best;
    if (choice->top_k > 0 && choice->top_k < n) {
        least = threshold(logit, n, choice->top_k);
        for (int64_t i = 0; i < n; i++)
            above += logit[i] > least;
        ties = choice->top_k - above;
    }
    double sum = 0, part = 0;
    int64_t left = ties, last = best;
    for (int64_t i = 0; i < n; i++)
        sum += weight(logit[i], least, top, choice->temperature, &left);
    double at = random_number(choice->seed, position) * sum;
    left = ties;
    for (int64_t i = 0; i < n; i++) {
        double w = weight(logit[i], least, top, choice->temperature, &left);
        part += w;
        last = w > 0 ? i : last;
        if (at < part)
            return i;
    }
    return last; /* rounding: `at` is the sum */
}
