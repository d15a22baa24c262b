/* mixture.c: decides which source provides each sequence of a run.
 *
 *   0.7*a.bin+0.3*b.bin
 *
 * Sequence n of the run depends on n, the weights and the seed only, so that a
 * mixture is the same on every mesh, and a resumed run needs no state but n.
 *
 * Of the first n sequences, the first source provides floor(n * w), where w is
 * its share, and the next sources divide the others in the same way. Hence
 * sequence n belongs to the first source if floor((n+1) * w) > floor(n * w),
 * and its place in that source is floor(n * w). Shares are multiples of 2^-32,
 * so that the arithmetic is exact. A permutation of each block of BLOCK
 * sequences, which depends on the seed, avoids a periodic order.
 *
 * Requires: fewer than 2^62 sequences. Time: one multiplication per source.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/tokens.h"

enum { BLOCK = 1024 };
#define ONE ((uint64_t)1 << 32)

/* The text after "NUMBER*"; NULL if `text` does not begin with one. */
static const char *after_weight(const char *text, double *weight)
{
    char *end;
    *weight = strtod(text, &end);
    return end != text && *end == '*' ? end + 1 : NULL;
}

/* The plus sign that ends the first source of `text`; NULL: none. */
static const char *find_plus(const char *text)
{
    double weight;
    const char *plus = strchr(text, '+');
    while (plus && !after_weight(plus + 1, &weight)) {
        plus = strchr(plus + 1, '+');
    }
    return plus;
}

bool rt_is_mixture(const char *spec)
{
    double weight;
    const char *first = after_weight(spec, &weight);
    return first && find_plus(first);
}

char *rt_mixture_split(char *text, double *weight, char **source)
{
    const char *first = after_weight(text, weight);
    *source = text + (first - text);
    const char *plus = find_plus(first);
    if (!plus) {
        return NULL;
    }
    text[plus - text] = 0;
    return text + (plus - text) + 1;
}

bool rt_mixture_set(RtData *d, const char *program)
{
    double sum = 0;
    for (int i = 0; i < d->nsources; i++) {
        const RtTokens *s = &d->source[i];
        if (!(s->weight > 0 && isfinite(s->weight))) {
            rt_error(program,
                     "--data %s: the weight of '%s' is %g; a weight is a "
                     "positive number, and a source without one is left out",
                     d->path, s->file[0].path, s->weight);
            return false;
        }
        sum += s->weight;
    }
    double rest = sum;
    for (int i = 0; i < d->nsources; i++) {
        RtTokens *s = &d->source[i];
        bool last = i == d->nsources - 1;
        double share = last ? 1 : s->weight / rest;
        rest -= s->weight;
        s->rest = share < 1 ? (uint64_t)(share * (double)ONE + 0.5) : ONE;
        s->weight /= sum;
        if (!isfinite(sum) || s->rest == 0 || (!last && s->rest == ONE)) {
            rt_error(program, "--data %s: the weights differ by more than a "
                              "factor of 4 billion", d->path);
            return false;
        }
    }
    return true;
}

/* floor(n * share), exact. */
static int64_t part(int64_t n, uint64_t share)
{
    uint64_t high = (uint64_t)n >> 32, low = (uint64_t)n & (ONE - 1);
    return (int64_t)(high * share + (low * share >> 32));
}

int rt_mixture_choose(const RtData *d, int64_t number, int64_t *at)
{
    int i = 0;
    if (d->nsources > 1) {
        int64_t block = number / BLOCK;
        number = block * BLOCK + rt_permute(d->seed, (uint32_t)block, BLOCK,
                                            number % BLOCK);
    }
    for (; i < d->nsources - 1; i++) {
        int64_t taken = part(number, d->source[i].rest);
        if (part(number + 1, d->source[i].rest) > taken) {
            number = taken;
            break;
        }
        number -= taken;
    }
    *at = number;
    return i;
}

int64_t rt_mixture_sequences(const RtData *d)
{
    double least = INFINITY;
    for (int i = 0; i < d->nsources; i++) {
        const RtTokens *s = &d->source[i];
        least = fmin(least, floor((double)s->sequences / s->weight));
    }
    return d->nsources == 1 ? d->source[0].sequences
           : least < 0x1p62 ? (int64_t)least
                            : (int64_t)1 << 62;
}
