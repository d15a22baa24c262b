/* specs.c: opens what the options --data and --val name.
 *
 *   synthetic                 no file
 *   [PREFIX:]FILE[;FILE…]     one source (tokens.c)
 *   0.7*SOURCE+0.3*SOURCE     a mixture of sources (mixture.c)
 */
#include <stdlib.h>
#include <string.h>

#include "data/tokens.h"

bool rt_takes_tokens(const ParcModel *model)
{
    int feeds = 0;
    for (int i = 0; i < model->ninputs; i++) {
        const ParcInput *in = &model->input[i];
        feeds += in->type == PARC_I32 && !in->is_labels;
    }
    return feeds == 1;
}

/* Checks that the integer inputs have shape [batch, seq], and that one of
 * them, apart from labels, can be read from a file. */
static bool check_inputs(const char *spec, const ParcModel *model,
                         const char *program)
{
    for (int i = 0; i < model->ninputs; i++) {
        const ParcInput *in = &model->input[i];
        if (in->type != PARC_I32) {
            continue;
        }
        if (in->ndim != 2 || in->dim[1] != model->seq) {
            rt_error(program,
                     "'%s' cannot be fed from '%s': a token file feeds inputs "
                     "of shape [batch, seq]; use --data synthetic",
                     in->name, spec);
            return false;
        }
    }
    if (!rt_takes_tokens(model)) {
        rt_error(program,
                 "--data %s cannot be used: a token file feeds one integer "
                 "input beside the labels, and %s does not have exactly one; "
                 "only --data synthetic can be used",
                 spec, model->name);
        return false;
    }
    return true;
}

/* Opens the sources of a text that is changed. */
static bool open_sources(RtData *d, char *text, bool mixture, int64_t seq,
                         const char *program)
{
    char *next = text;
    while (next) {
        char *source = next;
        RtTokens *more = realloc(d->source,
                                 (size_t)(d->nsources + 1) * sizeof *more);
        if (!more) {
            rt_error(program, "no memory for the sources of '%s'", d->path);
            return false;
        }
        d->source = more;
        RtTokens *s = &more[d->nsources++];
        *s = (RtTokens){.weight = 1};
        double weight = 1;
        next = mixture ? rt_mixture_split(next, &weight, &source) : NULL;
        bool good = rt_tokens_open(s, source, seq, program);
        s->weight = weight;
        if (!good) {
            return false;
        }
    }
    return rt_mixture_set(d, program);
}

static void add_up(RtData *d)
{
    d->sequences = rt_mixture_sequences(d);
    for (int i = 0; i < d->nsources; i++) {
        const RtTokens *s = &d->source[i];
        for (int k = 0; k < s->nfiles; k++) {
            d->tokens += s->file[k].tokens;
            d->size += s->file[k].size;
        }
    }
}

bool rt_data_open(RtData *d, const char *spec, bool shuffle, int64_t seed,
                  const ParcModel *model, const char *program)
{
    *d = (RtData){.shuffle = shuffle, .seed = seed, .seq = model->seq};
    if (!spec || strcmp(spec, "synthetic") == 0) {
        return true;
    }
    if (!check_inputs(spec, model, program)) {
        return false;
    }
    d->path = spec;
    char *text = strdup(spec);
    bool good = text && open_sources(d, text, rt_is_mixture(spec), model->seq,
                                     program);
    free(text);
    if (good) {
        add_up(d);
    }
    return good;
}

const char *rt_data_file(const RtData *d, int number)
{
    for (int i = 0; i < d->nsources; i++) {
        const RtTokens *s = &d->source[i];
        if (number < s->nfiles) {
            return s->file[number].path;
        }
        number -= s->nfiles;
    }
    return NULL;
}

void rt_data_close(RtData *d)
{
    for (int i = 0; i < d->nsources; i++) {
        rt_tokens_close(&d->source[i]);
    }
    free(d->source);
    d->source = NULL;
    d->nsources = 0;
}
