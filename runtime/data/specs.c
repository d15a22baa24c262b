/* specs.c: opens what the options --data and --val name.
 *
 *   synthetic                 no file
 *   SOURCE                    feeds the only input of tokens, and the labels
 *   NAME=SOURCE,NAME=SOURCE   feeds inputs by name:
 *
 *   x=images.npy,labels=labels.npy
 *   source=u16:de.bin,target=u16:en.bin,labels=u16:labels.bin
 *   tokens=0.7*a.bin+0.3*b.bin            labels: the tokens, one later
 *
 * A SOURCE is [PREFIX:]FILE[;FILE…] (files.c), or a mixture of these,
 * 0.7*SOURCE+0.3*SOURCE (mixture.c). All inputs share one order of samples:
 * they have the same number of sources, of equal weights and sample counts.
 *
 * A comma that NAME= does not follow belongs to the file name. Every input of
 * the model has to be named, with three exceptions: `NAME=synthetic` leaves an
 * input synthetic, an input that the program does not read needs no data, and
 * labels that are not named are the tokens of the model's only input of tokens,
 * shifted by one.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "data/samples.h"

/* ---- feeds --------------------------------------------------------------- */

/* The length of the "NAME=" that the text begins with; 0: none. */
static size_t name_length(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                            "0123456789_");
    return n > 0 && text[n] == '=' ? n + 1 : 0;
}

/* Ends the first part of the text with a 0; the next part, or NULL. */
static char *split(char *text)
{
    char *comma = strchr(text, ',');
    while (comma && name_length(comma + 1) == 0)
        comma = strchr(comma + 1, ',');
    if (comma)
        *comma = 0;
    return comma ? comma + 1 : NULL;
}

/* "x: float[8, 32], labels: int[8]": the inputs of a model. Returns `to`. */
static const char *input_names(const ParcModel *m, char to[RT_WHY])
{
    RtText t = {.at = to, .capacity = RT_WHY};
    char shape[RT_SHAPE_TEXT];
    to[0] = 0;
    for (int i = 0; i < m->ninputs; i++) {
        const ParcInput *in = &m->input[i];
        rt_add(&t, "%s%s: %s%s", i ? ", " : "", in->name,
               in->type == PARC_I32 ? "int" : "float",
               rt_shape_text(in->ndim, in->dim, shape));
    }
    return to;
}

static int find_input(const ParcModel *m, const char *name)
{
    int i = 0;
    while (i < m->ninputs && strcmp(m->input[i].name, name) != 0)
        i++;
    return i;
}

static int find_feed(const RtData *d, const char *name)
{
    int i = 0;
    while (i < d->nfeeds && strcmp(d->feed[i].row.input->name, name) != 0)
        i++;
    return i;
}

/* Opens the sources of one input, as f->spec says, which is changed. False
 * after a message. */
static bool open_feed(RtFeed *f)
{
    if (strcmp(f->spec, "synthetic") == 0)
        return true;
    bool mixture = rt_is_mixture(f->spec);
    for (char *next = f->spec; next;) {
        char *source = next;
        double weight = 1;
        f->source =
            rt_grow(f->source, f->nsources, &f->capacity, sizeof *f->source);
        RtSource *s = &f->source[f->nsources++];
        *s = (RtSource){0};
        next = mixture ? rt_mixture_split(next, &weight, &source) : NULL;
        s->weight = weight;
        if (!rt_files_open(s, source, &f->row))
            return false;
    }
    return true;
}

static void close_feed(RtFeed *f)
{
    for (int i = 0; i < f->nsources; i++)
        rt_files_close(&f->source[i]);
    free(f->source);
    free(f->spec);
    *f = (RtFeed){0};
}

/* Adds the feed of the input `name`, without opening it; false after a
 * message. */
static bool add_feed(RtData *d, const char *name, const char *spec,
                     const ParcModel *m)
{
    char names[RT_WHY];
    int i = find_input(m, name);
    if (i == m->ninputs)
        return rt_error("data '%s': %s has no input '%s'; its inputs are %s",
                        d->path, m->name, name, input_names(m, names));
    if (find_feed(d, name) < d->nfeeds)
        return rt_error("data '%s': the input '%s' is named twice", d->path,
                        name);
    const ParcInput *in = &m->input[i];
    RtFeed *f = &d->feed[d->nfeeds++];
    *f = (RtFeed){.row = {.input = in, .n = rt_row_elements(in)},
                  .spec = rt_format("%s", spec)};
    return true;
}

static bool is_tokens(const ParcInput *in, const ParcInput *labels)
{
    return in->type == PARC_I32 && !in->is_labels && in->ndim == labels->ndim &&
           in->ndim == 2 && in->dim[1] == labels->dim[1];
}

/* The labels' data are those of the model's only input of tokens, if that is
 * named. */
static bool lend_tokens(RtData *d, const ParcInput *labels, const ParcModel *m)
{
    const ParcInput *tokens = NULL;
    int ntokens = 0;
    for (int i = 0; i < m->ninputs; i++)
        if (m->input[i].type == PARC_I32 && !m->input[i].is_labels) {
            tokens = &m->input[i];
            ntokens++;
        }
    if (ntokens != 1 || !is_tokens(tokens, labels))
        return false;
    int i = find_feed(d, tokens->name);
    if (i < d->nfeeds)
        d->feed[i].row.shifted = true;
    return i < d->nfeeds;
}

static bool check_named(RtData *d, const ParcModel *m)
{
    for (int i = 0; i < m->ninputs; i++) {
        const ParcInput *in = &m->input[i];
        if (find_feed(d, in->name) < d->nfeeds || in->offset < 0 ||
            (in->is_labels && lend_tokens(d, in, m)))
            continue;
        char names[RT_WHY];
        return rt_error("data '%s': the input '%s' has no data; write %s=FILE "
                        "(or %s=synthetic); the inputs of %s are %s", d->path,
                        in->name, in->name, in->name, m->name,
                        input_names(m, names));
    }
    return true;
}

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

/* Adds the feed of a spec without names. */
static bool add_unnamed(RtData *d, const ParcModel *model)
{
    char names[RT_WHY];
    const ParcInput *tokens = only_tokens(model);
    if (tokens)
        return add_feed(d, tokens->name, d->path, model);
    return rt_error("data '%s': a file without a name feeds one input of "
                    "tokens of shape [batch, seq] and the labels; %s takes "
                    "%s: write NAME=FILE for each, separated by commas",
                    d->path, model->name, input_names(model, names));
}

static bool add_named(RtData *d, const ParcModel *model)
{
    RT_OWNED char *text = rt_format("%s", d->path);
    for (char *part = text; part;) {
        char *next = split(part), *spec = part + name_length(part);
        spec[-1] = 0;
        if (!add_feed(d, part, spec, model))
            return false;
        part = next;
    }
    return true;
}

static bool open_feeds(RtData *d, const ParcModel *model)
{
    d->feed = rt_allocate(((size_t)model->ninputs + 1) * sizeof *d->feed);
    bool good = (name_length(d->path) > 0 ? add_named(d, model)
                                          : add_unnamed(d, model)) &&
                check_named(d, model);
    for (int i = 0; i < d->nfeeds && good; i++)
        good = open_feed(&d->feed[i]);
    return good;
}

/* ---- the order of samples ------------------------------------------------ */

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
    bool good = open_feeds(d, model) && set_order(d);
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
        close_feed(&d->feed[i]);
    free(d->feed);
    free(d->share);
    *d = (RtData){0};
}
