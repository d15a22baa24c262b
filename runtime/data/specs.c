/* specs.c: opens what the options --data and --val name.
 *
 *   synthetic                 no file
 *   SOURCE                    feeds the only input of tokens, and the labels
 *   NAME=SOURCE,NAME=SOURCE   feeds inputs by name (feeds.c)
 *
 * A SOURCE is [PREFIX:]FILE[;FILE…] (files.c), or a mixture of these,
 * 0.7*SOURCE+0.3*SOURCE (mixture.c). All inputs share one order of samples:
 * they have the same number of sources, of equal weights and sample counts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "data/samples.h"

static bool is_sequence(const ParcInput *in, const ParcModel *m)
{
    return in->type == PARC_I32 && in->ndim == 2 && in->dim[1] == m->seq;
}

/* The input of tokens of a model that needs no names; NULL: none. */
static const ParcInput *only_tokens(const ParcModel *m)
{
    const ParcInput *tokens = NULL;
    for (int i = 0; i < m->ninputs; i++) {
        const ParcInput *in = &m->input[i];
        if (!is_sequence(in, m) || (!in->is_labels && tokens))
            return NULL;
        tokens = in->is_labels ? tokens : in;
    }
    return tokens;
}

bool rt_takes_tokens(const ParcModel *model)
{
    return only_tokens(model) != NULL;
}

/* Whether the program reads labels, which are the tokens one later. */
static bool reads_labels(const ParcModel *m)
{
    bool reads = false;
    for (int i = 0; i < m->ninputs; i++)
        reads |= m->input[i].is_labels && m->input[i].offset >= 0;
    return reads;
}

static bool open_unnamed(RtData *d, const char *spec, const ParcModel *model)
{
    const ParcInput *tokens = only_tokens(model);
    if (!tokens) {
        char names[RT_WHY];
        return rt_error("data '%s': a file without a name feeds one input of "
                        "tokens of shape [batch, seq] and the labels; %s takes "
                        "%s: write NAME=FILE for each, separated by commas",
                        spec, model->name, rt_input_names(model, names));
    }
    d->feed = rt_allocate(sizeof *d->feed);
    d->nfeeds = 1;
    *d->feed = (RtFeed){.row = {tokens, tokens->dim[1], reads_labels(model)},
                        .spec = rt_format("%s", spec)};
    return rt_feed_open(d->feed);
}

/* Whether the sources of a feed fit the order of samples of another one. */
static bool check_order(const RtFeed *f, const RtFeed *first)
{
    const char *name = f->row.input->name, *other = first->row.input->name;
    if (f->nsources != first->nsources)
        return rt_error("data: '%s' has %d source%s, '%s' has %d: all inputs "
                        "are mixed in the same way", other, first->nsources,
                        first->nsources == 1 ? "" : "s", name, f->nsources);
    for (int i = 0; i < f->nsources; i++) {
        const RtSource *a = &first->source[i], *b = &f->source[i];
        if (a->weight < b->weight || a->weight > b->weight)
            return rt_error("data: source %d has the weight %g for '%s' and %g "
                            "for '%s': all inputs are mixed in the same way",
                            i + 1, a->weight, other, b->weight, name);
        if (a->samples != b->samples)
            return rt_error("data: '%s' has %lld samples for '%s', '%s' has "
                            "%lld for '%s': every input needs the same number",
                            a->text, (long long)a->samples, other, b->text,
                            (long long)b->samples, name);
    }
    return true;
}

static bool set_order(RtData *d)
{
    const RtFeed *first = NULL;
    for (int i = 0; i < d->nfeeds; i++) {
        const RtFeed *f = &d->feed[i];
        if (f->nsources > 0 && !first) {
            first = f;
            if (!rt_mixture_set(d, f))
                return false;
        } else if (f->nsources > 0 && !check_order(f, first)) {
            return false;
        }
    }
    return true;
}

bool rt_data_open(RtData *d, const char *spec, bool shuffle, int64_t seed,
                  const ParcModel *model)
{
    *d = (RtData){.shuffle = shuffle, .seed = seed};
    if (!spec || strcmp(spec, "synthetic") == 0)
        return true;
    d->path = spec;
    bool good;
    if (rt_names_inputs(spec)) {
        char *text = rt_format("%s", spec);
        good = rt_feeds_open(d, text, model);
        free(text);
    } else {
        good = open_unnamed(d, spec, model);
    }
    good = good && set_order(d);
    for (int k = 0; k < d->nfeeds; k++)
        for (int i = 0; i < d->feed[k].nsources; i++)
            d->size += d->feed[k].source[i].bytes;
    d->samples = rt_mixture_samples(d);
    return good;
}

void rt_data_describe(const RtData *d, const ParcModel *model)
{
    if (!d->path) {
        printf("data      synthetic\n");
    } else if (d->nfeeds == 1 && d->feed->row.shifted) {
        const RtFeed *f = d->feed;
        int64_t tokens = 0;
        for (int i = 0; i < f->nsources; i++)
            tokens += f->source[i].elements;
        printf("data      %s: %lld tokens, %lld sequences of %lld%s\n", d->path,
               (long long)tokens, (long long)d->samples, (long long)model->seq,
               d->shuffle ? ", shuffled" : "");
    } else {
        printf("data      %s: %lld samples%s\n", d->path, (long long)d->samples,
               d->shuffle ? ", shuffled" : "");
    }
}

const char *rt_data_file(const RtData *d, int number)
{
    for (int k = 0; k < d->nfeeds; k++)
        for (int i = 0; i < d->feed[k].nsources; i++) {
            const RtSource *s = &d->feed[k].source[i];
            if (number < s->nfiles)
                return s->file[number].path;
            number -= s->nfiles;
        }
    return NULL;
}

void rt_data_close(RtData *d)
{
    for (int i = 0; i < d->nfeeds; i++)
        rt_feed_close(&d->feed[i]);
    free(d->feed);
    free(d->share);
    *d = (RtData){0};
}
