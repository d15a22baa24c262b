/* mixture.c: decides which source provides each sample of a run.
 *
 *   0.7*a.bin+0.3*b.bin
 *
 * Sample n of the run depends on n, the weights and the seed only, so that a
 * mixture is the same on every mesh. Of the first n samples, the first source
 * provides floor(n * w), where w is its share, and the next sources divide the
 * others in the same way. Hence sample n belongs to the first source if
 * floor((n+1) * w) > floor(n * w), and its index in that source is
 * floor(n * w). Shares are multiples of 2^-32, so that the arithmetic is exact.
 * A permutation of each block of BLOCK samples, which depends on the seed,
 * avoids a periodic order.
 *
 * If the mixture changed when the run was resumed, n counts from the sample
 * `origin`, and each source continues after what it had provided (position.c).
 *
 * Requires: fewer than 2^62 samples. Time: one multiplication per source.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "data/samples.h"
#include "params/random.h"

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
    while (plus && !after_weight(plus + 1, &weight))
        plus = strchr(plus + 1, '+');
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
    if (!plus)
        return NULL;
    text[plus - text] = 0;
    return text + (plus - text) + 1;
}

static bool check_weights(const RtFeed *f, double *sum)
{
    *sum = 0;
    for (int i = 0; i < f->nsources; i++) {
        const RtSource *s = &f->source[i];
        if (!(s->weight > 0 && isfinite(s->weight)))
            return rt_error("the weight of '%s' is %g; a weight must be a "
                            "positive number: leave out a source that is not "
                            "used", s->file[0].path, s->weight);
        *sum += s->weight;
    }
    return true;
}

bool rt_mixture_set(RtData *d, const RtFeed *f)
{
    double sum;
    if (!check_weights(f, &sum))
        return false;
    d->share = rt_allocate(((size_t)f->nsources + 1) * sizeof *d->share);
    d->nshares = f->nsources;
    double rest = sum;
    for (int i = 0; i < f->nsources; i++) {
        const RtSource *s = &f->source[i];
        bool last = i == f->nsources - 1;
        double share = last ? 1 : s->weight / rest;
        rest -= s->weight;
        d->share[i] = (RtShare){
            .text = s->text, .samples = s->samples, .weight = s->weight / sum,
            .rest = share < 1 ? (uint64_t)(share * (double)ONE + 0.5) : ONE};
        if (!isfinite(sum) || d->share[i].rest == 0 ||
            (!last && d->share[i].rest == ONE))
            return rt_error("data '%s': the weights differ by more than a "
                            "factor of 4 billion", d->path);
    }
    return true;
}

/* floor(n * share), exact. */
static int64_t part(int64_t n, uint64_t share)
{
    uint64_t high = (uint64_t)n >> 32, low = (uint64_t)n & (ONE - 1);
    return (int64_t)(high * share + (low * share >> 32));
}

/* The source of sample n of a mixture that begins with sample 0. */
static int choose_source(const RtData *d, int64_t n, int64_t *at)
{
    int i = 0;
    if (d->nshares > 1) {
        int64_t block = n / BLOCK;
        n = block * BLOCK + rt_permute(d->seed, (uint32_t)block, BLOCK,
                                       n % BLOCK);
    }
    for (; i < d->nshares - 1; i++) {
        int64_t taken = part(n, d->share[i].rest);
        if (part(n + 1, d->share[i].rest) > taken) {
            n = taken;
            break;
        }
        n -= taken;
    }
    *at = n;
    return i;
}

int rt_mixture_choose(const RtData *d, int64_t number, int64_t *at)
{
    int i = choose_source(d, number - d->origin, at);
    *at += d->share[i].begin;
    return i;
}

/* Whole blocks provide what the shares say; samples of the last block are
 * counted. */
int64_t rt_mixture_used(const RtData *d, int64_t n, int i)
{
    int64_t left = n - d->origin, used, unused;
    int64_t whole = d->nshares > 1 ? left - left % BLOCK : left;
    used = whole;
    for (int k = 0; k < i; k++)
        used -= part(used, d->share[k].rest);
    if (i < d->nshares - 1)
        used = part(used, d->share[i].rest);
    for (int64_t k = whole; k < left; k++)
        used += choose_source(d, k, &unused) == i;
    return d->share[i].begin + used;
}

int64_t rt_mixture_samples(const RtData *d)
{
    double least = INFINITY;
    for (int i = 0; i < d->nshares; i++) {
        const RtShare *s = &d->share[i];
        least = fmin(least, floor((double)s->samples / s->weight));
    }
    return d->nshares == 0   ? 0
           : d->nshares == 1 ? d->share[0].samples
           : least < 0x1p62  ? (int64_t)least
                             : (int64_t)1 << 62;
}
