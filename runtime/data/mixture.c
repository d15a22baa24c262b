/* mixture.c: decides which source provides each sample of a run, and writes and
 * reads the position in every source.
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
 * A checkpoint has the position:
 *
 *   {"spec": "0.7*a.bin+0.3*b.bin", "origin": 0, "sample": 128,
 *    "sources": [
 *     {"source": "a.bin", "rest": 3006477107, "begin": 0, "used": 700},
 *     {"source": "b.bin", "rest": 4294967296, "begin": 0, "used": 300}]}
 *
 * `used` counts the samples that a source has provided, of `sample` elements
 * each. The order of samples is a function of their number; a
 * resumed run with the same sources and weights continues with the next number.
 * If sources or weights differ, a new mixture begins, whose numbers count from
 * `origin`. Each source that the previous mixture had continues after the
 * samples that it has provided; it is found by its text, or else by its index.
 *
 * Requires: fewer than 2^62 samples. Time: one multiplication per source.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
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

/* How many of the run's first `n` samples source i has provided. Whole blocks
 * provide what the shares say; samples of the last block are counted. */
static int64_t used_of(const RtData *d, int64_t n, int i)
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

/* ---- the position -------------------------------------------------------- */

int64_t rt_first_sample(const RtData *d, int64_t batch, int64_t step)
{
    return d->begin_sample + (step - d->begin_step) * batch;
}

/* Elements of a sample of the input that decides the order. */
static int64_t sample_size(const RtData *d)
{
    int i = 0;
    while (i < d->nfeeds && d->feed[i].nsources == 0)
        i++;
    return i < d->nfeeds ? d->feed[i].row.n : 1;
}

void rt_data_print(const RtData *d, const ParcModel *m, int64_t step, FILE *to)
{
    int64_t n = rt_first_sample(d, m->batch, step);
    fprintf(to, "{\"spec\": ");
    rt_json_print(to, d->path ? d->path : "synthetic");
    fprintf(to, ", \"origin\": %lld, \"sample\": %lld, \"sources\": [",
            (long long)d->origin, (long long)sample_size(d));
    for (int i = 0; i < d->nshares; i++) {
        const RtShare *s = &d->share[i];
        fprintf(to, "%s{\"source\": ", i ? ", " : "");
        rt_json_print(to, s->text);
        fprintf(to, ", \"rest\": %lld, \"begin\": %lld, \"used\": %lld}",
                (long long)s->rest, (long long)s->begin,
                (long long)used_of(d, n, i));
    }
    fprintf(to, "]}");
}

enum { MOST_TEXT = 1 << 16, MOST_SOURCES = 1 << 16 };

static void read_source(RtDataState *s, RtJson *j)
{
    if (s->nsources == MOST_SOURCES) {
        rt_json_fail(j, "too many sources of data");
        return;
    }
    s->source =
        rt_grow(s->source, s->nsources, &s->capacity, sizeof *s->source);
    struct RtSourceState *one = &s->source[s->nsources++];
    *one = (struct RtSourceState){.text = rt_allocate(MOST_TEXT)};
    char key[RT_JSON_KEY];
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key))
        if (strcmp(key, "source") == 0)
            rt_json_string(j, one->text, MOST_TEXT);
        else if (strcmp(key, "rest") == 0)
            one->rest = rt_json_integer(j);
        else if (strcmp(key, "begin") == 0)
            one->begin = rt_json_integer(j);
        else if (strcmp(key, "used") == 0)
            one->used = rt_json_integer(j);
        else
            rt_json_skip(j);
}

/* The largest position, in samples, tokens or elements of an input: sums of two
 * do not overflow. */
#define MOST_POSITION ((int64_t)1 << 60)

/* Whether no product or sum of the positions overflows. */
static bool is_possible(const RtDataState *s)
{
    int64_t most = MOST_POSITION;
    bool good = s->origin <= most && s->sample <= INT32_MAX;
    for (int i = 0; i < s->nsources && good; i++) {
        const struct RtSourceState *one = &s->source[i];
        good = one->begin <= most && one->used <= most / (s->sample + 1);
    }
    return good;
}

void rt_data_read(RtDataState *s, RtJson *j)
{
    char key[RT_JSON_KEY];
    rt_json_object(j);
    while (rt_json_key(j, key, sizeof key))
        if (strcmp(key, "spec") == 0 && !s->spec) {
            s->spec = rt_allocate(MOST_TEXT);
            rt_json_string(j, s->spec, MOST_TEXT);
        } else if (strcmp(key, "origin") == 0) {
            s->origin = rt_json_integer(j);
        } else if (strcmp(key, "sample") == 0) {
            s->sample = rt_json_integer(j);
        } else if (strcmp(key, "sources") == 0) {
            rt_json_list(j);
            while (rt_json_next(j))
                read_source(s, j);
        } else {
            rt_json_skip(j);
        }
    if (!is_possible(s))
        rt_json_fail(j, "the position in the data is not possible");
}

void rt_data_state_free(RtDataState *s)
{
    for (int i = 0; i < s->nsources; i++)
        free(s->source[i].text);
    free(s->source);
    free(s->spec);
    *s = (RtDataState){0};
}

static bool is_same_source(const RtData *d, int i, const RtDataState *s, int k)
{
    return strcmp(d->share[i].text, s->source[k].text) == 0;
}

static bool is_same_mixture(const RtData *d, const RtDataState *s)
{
    bool same = d->nshares == s->nsources && s->sample == sample_size(d);
    for (int i = 0; i < d->nshares && same; i++)
        same = is_same_source(d, i, s, i) &&
               (int64_t)d->share[i].rest == s->source[i].rest;
    return same;
}

/* The source of the checkpoint that source i continues; NULL: it is new. A
 * mixture may have a source twice: the one with the same index comes first. */
static const struct RtSourceState *find_source(const RtData *d,
                                               const RtDataState *s, int i)
{
    if (i < s->nsources && is_same_source(d, i, s, i))
        return &s->source[i];
    for (int k = 0; k < s->nsources; k++)
        if (is_same_source(d, i, s, k))
            return &s->source[k];
    return i < s->nsources && d->nshares == s->nsources ? &s->source[i] : NULL;
}

static int64_t divide_up(int64_t n, int64_t by)
{
    return n / by + (n % by != 0);
}

bool rt_data_can_resume(const ParcModel *m, int64_t step, int64_t tokens)
{
    int64_t longest = m->seq > 0 ? m->seq : 1; /* elements of a sample */
    for (int i = 0; i < m->ninputs; i++) {
        int64_t row = rt_row_elements(&m->input[i]);
        longest = row > longest ? row : longest;
    }
    int64_t most = MOST_POSITION / longest; /* samples */
    return tokens <= most && step <= most / m->batch;
}

void rt_data_resume(RtData *d, const ParcModel *m, const RtDataState *s,
                    int64_t step, int64_t tokens)
{
    int64_t used = divide_up(tokens, m->seq > 0 ? m->seq : 1);
    bool same = is_same_mixture(d, s) && s->origin <= used;
    d->origin = same ? s->origin : used;
    for (int i = 0; i < d->nshares; i++) {
        const struct RtSourceState *old = find_source(d, s, i);
        d->share[i].begin =
            !old   ? 0
            : same ? old->begin
                   : divide_up(old->used * s->sample, sample_size(d));
    }
    if (used != step * m->batch) {
        d->begin_step = step;
        d->begin_sample = used;
    }
}
