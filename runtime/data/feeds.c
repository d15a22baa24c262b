/* feeds.c: opens the sources of inputs that a spec names.
 *
 *   x=images.npy,labels=labels.npy
 *   source=u16:de.bin,target=u16:en.bin,labels=u16:labels.bin
 *   tokens=0.7*a.bin+0.3*b.bin            labels: the tokens, one later
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

/* The length of the "NAME=" that the text begins with; 0: none. */
static size_t name_length(const char *text)
{
    size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                            "0123456789_");
    return n > 0 && text[n] == '=' ? n + 1 : 0;
}

bool rt_names_inputs(const char *spec)
{
    return name_length(spec) > 0;
}

/* Ends the first part of the text with a 0; the next part, or NULL. */
static char *split(char *text)
{
    char *comma = strchr(text, ',');
    while (comma && !rt_names_inputs(comma + 1))
        comma = strchr(comma + 1, ',');
    if (comma)
        *comma = 0;
    return comma ? comma + 1 : NULL;
}

const char *rt_input_names(const ParcModel *m, char to[RT_WHY])
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

bool rt_feed_open(RtFeed *f)
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

void rt_feed_close(RtFeed *f)
{
    for (int i = 0; i < f->nsources; i++)
        rt_files_close(&f->source[i]);
    free(f->source);
    free(f->spec);
    *f = (RtFeed){0};
}

/* Adds the feed of the part "NAME=SOURCE", without opening it; false after a
 * message. */
static bool add_feed(RtData *d, char *part, const ParcModel *m)
{
    char *spec = part + name_length(part), names[RT_WHY];
    spec[-1] = 0;
    int i = find_input(m, part);
    if (i == m->ninputs)
        return rt_error("data '%s': %s has no input '%s'; its inputs are %s",
                        d->path, m->name, part, rt_input_names(m, names));
    if (find_feed(d, part) < d->nfeeds)
        return rt_error("data '%s': the input '%s' is named twice", d->path,
                        part);
    const ParcInput *in = &m->input[i];
    RtFeed *f = &d->feed[d->nfeeds++];
    *f = (RtFeed){.row = {.input = in, .n = 1}, .spec = rt_format("%s", spec)};
    for (int k = 1; k < in->ndim; k++)
        f->row.n *= in->dim[k];
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
                        rt_input_names(m, names));
    }
    return true;
}

bool rt_feeds_open(RtData *d, char *text, const ParcModel *model)
{
    d->feed = rt_allocate(((size_t)model->ninputs + 1) * sizeof *d->feed);
    for (char *part = text; part;) {
        char *next = split(part);
        if (!add_feed(d, part, model))
            return false;
        part = next;
    }
    if (!check_named(d, model))
        return false;
    for (int i = 0; i < d->nfeeds; i++)
        if (!rt_feed_open(&d->feed[i]))
            return false;
    return true;
}
