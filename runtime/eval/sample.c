/* sample.c: continues a text, token by token (--sample, --sample-ids).
 *
 * The side program of outputs (ParcModel.outputs) computes the logits of one
 * microbatch. Every row holds the same text; row 0 is read. A causal model's
 * logits at a position do not depend on later positions, so the rest of the row
 * is filled with zeros:
 *
 *   text "abcab", seq 8     row 0:  a b c a b 0 0 0
 *                                           ^ logits[0, 4, :] -> next token
 *   text of 20 tokens, seq 8        its last 8 tokens
 *
 * The logits of one position may be split over several ranks, by vocabulary,
 * and are stored only on ranks with row 0 of the batch and this position of the
 * sequence. Rank 0 reads the parts, chooses the token and sends it to all
 * ranks:
 *
 *   temperature 0     the token with the largest logit, the lowest id on ties
 *   temperature T     token i of the k candidates with the largest logits has
 *                     the probability exp(l_i / T) / sum_j exp(l_j / T)
 *
 * Probabilities are computed in double, in the order of ids, and one random
 * number of the seed and the position selects the token. Equal logits thus give
 * equal tokens on every mesh and machine.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "common/type.h"
#include "device.h"
#include "eval/eval.h"
#include "launch/world.h"
#include "options/options.h"
#include "params/params.h"
#include "params/random.h"
#include "rt.h"

enum { BYTES = 256, LOGIT_DIMS = 3, MOST_TOKENS = 1 << 30 };

/* ---- the prompt ---------------------------------------------------------- */

/* The input that holds the text; NULL, after a message, if the model does not
 * have exactly one. */
static const ParcInput *text_input(const RtRun *run)
{
    const ParcProgram *e = run->model->outputs;
    const ParcInput *found = NULL;
    int n = 0;
    for (int i = 0; i < e->ninputs; i++) {
        const ParcInput *in = &e->input[i];
        if (in->type == PARC_I32 && !in->is_labels && in->ndim == 2) {
            found = in;
            n++;
        }
    }
    if (n != 1) {
        rt_error("cannot sample from %s: it has %d inputs of tokens; sampling "
                 "continues the text of one", run->model->name, n);
        return NULL;
    }
    return found;
}

/* Checks that the model returns logits [batch, seq, vocabulary]. */
static bool check_outputs(const RtRun *run)
{
    const ParcModel *m = run->model;
    if (!m->outputs || m->outputs->noutputs == 0)
        return rt_error("cannot sample from %s: forward returns only the loss; "
                        "return the logits as the second value: return loss, "
                        "logits", m->name);
    const ParcOutput *o = &m->outputs->output[0];
    if (o->ndim != LOGIT_DIMS || o->dim[1] != m->seq || rt_is_integer(o->type))
        return rt_error("cannot sample from %s: '%s', its second value, does "
                        "not have the shape [batch, seq, vocabulary] of logits",
                        m->name, o->name);
    return true;
}

static bool add_token(RtRun *run, int64_t token, const char *what)
{
    const ParcOutput *o = &run->model->outputs->output[0];
    if (token < 0 || token >= o->dim[2])
        return rt_error("%s: token %lld is beyond the vocabulary of %lld", what,
                        (long long)token, (long long)o->dim[2]);
    run->prompt[run->nprompt++] = (int32_t)token;
    return true;
}

static bool read_text(RtRun *run)
{
    const RtOptions *o = &run->options;
    int64_t vocabulary = run->model->outputs->output[0].dim[2];
    if (vocabulary > BYTES)
        return rt_error("--sample: the model has %lld tokens, so it does not "
                        "read bytes; --sample-ids takes token ids",
                        (long long)vocabulary);
    for (const char *c = o->sample; *c; c++)
        if (!add_token(run, (unsigned char)*c, "--sample"))
            return false;
    return true;
}

/* Reads ids that commas or blanks separate. */
static bool read_ids(RtRun *run)
{
    const RtOptions *o = &run->options;
    const char *text = o->sample_ids;
    for (;;) {
        char *end;
        text += strspn(text, ", \t\n");
        if (!*text)
            return true;
        errno = 0;
        long long id = strtoll(text, &end, 10);
        if (end == text || errno || (*end && !strchr(", \t\n", *end)))
            return rt_error("--sample-ids takes token ids, as in 1,2,3; not "
                            "'%s'", text);
        if (!add_token(run, id, "--sample-ids"))
            return false;
        text = end;
    }
}

bool rt_sample_open(RtRun *run)
{
    const RtOptions *o = &run->options;
    const char *text = o->sample ? o->sample : o->sample_ids;
    if (!text)
        return true;
    if (!check_outputs(run) || !text_input(run))
        return false;
    if (o->tokens > MOST_TOKENS)
        return rt_error("--tokens takes at most %d, not %lld", MOST_TOKENS,
                        (long long)o->tokens);
    size_t most = strlen(text) + (size_t)o->tokens;
    run->prompt = rt_allocate((most + 1) * sizeof *run->prompt);
    if (!(o->sample ? read_text(run) : read_ids(run)))
        return false;
    if (run->nprompt == 0)
        rt_error("%s needs at least one token to continue",
                 o->sample ? "--sample" : "--sample-ids");
    return run->nprompt > 0;
}

/* ---- one token ----------------------------------------------------------- */

/* Writes the last tokens of the text to every row of the rank's part of an
 * input; zeros to any other input. */
static void fill_input(ParcRt *rt, const RtRun *run, const ParcInput *in,
                       bool is_text)
{
    RtInputPart p = rt_input_part(rt, in, 0);
    int64_t row = rt_row_elements(in);
    int64_t bytes = p.rows * p.n * rt_type_size(in->type);
    int64_t tokens = run->nprompt < row ? run->nprompt : row;
    memset(rt->arena + in->offset, 0, (size_t)bytes);
    for (int64_t r = 0; is_text && r < p.rows * p.pieces; r++) {
        int64_t begin = p.begin[r % p.pieces], size = p.n / p.pieces;
        int64_t n = tokens - begin < size ? tokens - begin : size;
        if (n > 0)
            memcpy(rt_element_out(in->type, rt->arena + in->offset, r * size),
                   run->prompt + run->nprompt - tokens + begin,
                   (size_t)n * sizeof(int32_t));
    }
    rt_device_upload(rt, in->offset, bytes);
}

/* The part of the logits of one position that a rank stores. */
typedef struct Part {
    int64_t first, n; /* range of the vocabulary, without padding */
    int64_t offset;   /* in the arena */
    bool held;        /* the rank stores row 0 and the position, and no rank
                         with a lower number stores the same part */
} Part;

static Part part_of(const ParcModel *m, const ParcOutput *o, int rank,
                    int64_t position)
{
    ParcParam p = rt_output_param(o);
    RtShard s;
    rt_shard(&s, m, rank, &p);
    int64_t row = rt_shard_local(&s, 1, position);
    return (Part){.first = s.begin[2],
                  .n = s.held[2],
                  .offset = o->offset + row * s.part[2] * rt_type_size(o->type),
                  .held = s.owner && s.begin[0] == 0 && row >= 0 &&
                          s.held[2] > 0};
}

static void gather_logits(ParcRt *rt, const ParcOutput *o, int64_t position,
                          float *logit)
{
    Part own = part_of(rt->model, o, rt->rank, position);
    if (own.held)
        rt_device_download(rt, own.offset, own.n * rt_type_size(o->type));
    rt_synchronize(rt, RT_AT_SAMPLE);
    for (int r = 0; rt->rank == 0 && r < rt->nranks; r++) {
        Part p = part_of(rt->model, o, r, position);
        RtBuffer copy = {0};
        if (p.held)
            rt_widen(logit + p.first, o->type,
                     rt_arena_read(rt, r, p.offset,
                                   p.n * rt_type_size(o->type), &copy),
                     p.n);
        free(copy.at);
    }
    rt_synchronize(rt, RT_AT_SAMPLE); /* until then rank 0 may request parts */
}

/* Whether some logit is finite, and none is NaN or positive infinity; a model
 * may exclude tokens by negative infinity. */
static bool have_choice(const float *logit, int64_t n)
{
    bool some = false;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(logit[i]) || logit[i] == INFINITY)
            return false;
        some |= isfinite(logit[i]) != 0;
    }
    return some;
}

/* ---- the choice of a token ----------------------------------------------- */

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

/* The token that follows: an index into logit[0 … n). `position` counts the
 * tokens of the text and selects the random number. The same on every machine
 * for equal logits. */
static int64_t choose_token(const float *logit, int64_t n,
                            const RtOptions *choice, int64_t position)
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

static int64_t next_token(ParcRt *rt, RtRun *run, float *logit)
{
    const ParcProgram *e = rt->model->outputs;
    const ParcOutput *o = &e->output[0];
    const ParcInput *text = text_input(run);
    int64_t n = run->nprompt < o->dim[1] ? run->nprompt : o->dim[1], token = 0;
    do
        for (int i = 0; i < e->ninputs; i++)
            if (e->input[i].offset >= 0)
                fill_input(rt, run, &e->input[i], &e->input[i] == text);
    while (!rt_program_run(rt, e));
    gather_logits(rt, o, n - 1, logit);
    if (rt->rank == 0) {
        if (!have_choice(logit, o->dim[2]))
            rt_fail(rt, "cannot sample token %lld: '%s' is not finite",
                    (long long)run->nprompt, o->name);
        token = choose_token(logit, o->dim[2], &run->options, run->nprompt);
    }
    rt_share(rt, RT_AT_SAMPLE, &token, sizeof token);
    return token;
}

/* ---- the text ------------------------------------------------------------ */

static void print_tokens(ParcRt *rt, const RtRun *run, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        if (run->options.sample)
            putchar(run->prompt[i]);
        else
            printf("%s%d", i == 0 ? "" : " ", run->prompt[i]);
    if (fflush(stdout) != 0)
        rt_fail(rt, "cannot write standard output: %s", strerror(errno));
}

void rt_sample(ParcRt *rt, RtRun *run)
{
    const ParcProgram *e = rt->model->outputs;
    size_t bytes = (size_t)e->output[0].dim[2] * sizeof(float);
    float *logit = rt_allocate(bytes);
    int64_t end = run->nprompt + run->options.tokens;
    bool stopped = false;
    if (rt->rank == 0)
        print_tokens(rt, run, 0, run->nprompt);
    rt_program_begin(rt, e);
    while (run->nprompt < end && !stopped) {
        run->prompt[run->nprompt] = (int32_t)next_token(rt, run, logit);
        run->nprompt++;
        if (rt->rank == 0)
            print_tokens(rt, run, run->nprompt - 1, run->nprompt);
        stopped = rt_agree(rt, run) & RT_STOP;
    }
    rt_program_end(rt);
    if (rt->rank == 0)
        putchar('\n');
    free(logit);
}
