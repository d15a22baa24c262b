/* batch.c: prepares a rank's part of the batch of each step.
 *
 * Step s uses sequences s*batch … s*batch+batch-1 of the data. A source starts
 * again after its last sequence. If the batch has changed when the run was
 * resumed, the steps continue after the sequences that were used before. With
 * --shuffle each epoch of a source has its own order. With
 * gradient accumulation the batch consists of equal microbatches. The rank
 * with index r on the axes that split the batch uses the r-th equal part of
 * each microbatch.
 *
 * Synthetic data is an infinite sequence of random tokens; the labels are the
 * tokens shifted by one. Other inputs depend on their name and on the
 * element's index over all batches.
 *
 * If a step runs asynchronously on a device, the host prepares the next batch
 * meanwhile. An error in that batch is reported when its own step begins,
 * because the previous step may still fail for another reason.
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "data/tokens.h"
#include "rt_device.h"
#include "rt_type.h"

typedef struct Part {
    int64_t first, rows; /* rows of the global batch */
} Part;

static int64_t microbatches(const ParcInput *in)
{
    return in->micro > 0 ? in->micro : 1;
}

/* The rank's part of microbatch m. */
static Part part_of(const ParcRt *rt, const ParcInput *in, int64_t m)
{
    const RtGroup *g = &rt->group[in->batch_axes];
    int64_t rows = in->dim[0] / microbatches(in) / g->n;
    return (Part){rows * (m * g->n + g->index), rows};
}

/* Bytes of the rank's parts of all microbatches. */
static int64_t part_bytes(const ParcRt *rt, const ParcInput *in)
{
    int64_t n = microbatches(in) * part_of(rt, in, 0).rows;
    for (int d = 1; d < in->ndim; d++) {
        n *= in->dim[d];
    }
    return n * rt_type_size(in->type);
}

/* The first sample of a step's batch. */
static int64_t first_sample(const RtData *d, const ParcInput *in, int64_t step)
{
    return d->begin_sample + (step - d->begin_step) * in->dim[0];
}

/* Where sequence `number` is stored; numbers count over all epochs and all
 * sources. Each source has its own epochs. */
static RtSequence sequence_at(const RtData *d, int64_t number)
{
    int64_t place;
    int i = rt_mixture_choose(d, number, &place);
    const RtTokens *s = &d->source[i];
    int64_t at = place % s->sequences;
    if (d->shuffle) {
        uint32_t epoch = (uint32_t)(place / s->sequences);
        at = rt_permute(d->seed, epoch + (uint32_t)i * 0x9E3779B9u,
                        s->sequences, at);
    }
    return rt_tokens_sequence(s, at, d->seq);
}

static int64_t integer(const unsigned char *p, RtTokenType type)
{
    uint64_t token = 0;
    for (int b = 0; b < type.width; b++) {
        token |= (uint64_t)p[b] << (8 * b);
    }
    int unused = 64 - 8 * type.width;
    return type.is_signed ? (int64_t)(token << unused) >> unused
                          : (int64_t)token;
}

/* Tokens 0 … below-1 are valid. */
static bool refuse_token(const RtTokenFile *f, int64_t first, int64_t n,
                         int64_t below, RtBatch *b)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t at = f->first + (first + i) * f->type.width;
        int64_t token = integer(f->map + at, f->type);
        if (token < 0 || token >= below) {
            snprintf(b->why, sizeof b->why,
                     token < 0 ? "%s: byte %lld: error: token %lld is negative"
                               : "%s: byte %lld: error: token %lld is beyond "
                                 "the vocabulary of %lld",
                     f->path, (long long)at, (long long)token,
                     (long long)below);
            return false;
        }
    }
    return true;
}

/* Converts n tokens; whether all are in 0 … below-1. The loops have no branch,
 * so that the compiler vectorizes those of short tokens. */
static bool convert(int32_t *to, const unsigned char *p, RtTokenType type,
                    int64_t n, int64_t below)
{
    int64_t bad = 0;
    uint32_t most = 0;
    if (type.width == 1 && !type.is_signed) {
        for (int64_t i = 0; i < n; i++) {
            to[i] = p[i];
            most = p[i] > most ? p[i] : most;
        }
    } else if (type.width == 2 && !type.is_signed) {
        for (int64_t i = 0; i < n; i++) {
            uint32_t token = (uint32_t)p[2 * i] | (uint32_t)p[2 * i + 1] << 8;
            to[i] = (int32_t)token;
            most = token > most ? token : most;
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            int64_t token = integer(p + i * type.width, type);
            to[i] = (int32_t)token;
            bad |= token < 0 || token >= below;
        }
    }
    return !bad && (int64_t)most < below;
}

static bool read_sequence(RtSequence s, const ParcInput *in, int32_t *to,
                          RtBatch *b)
{
    const RtTokenFile *f = s.file;
    int64_t below = in->below > 0 ? in->below : (int64_t)INT32_MAX + 1;
    int64_t first = s.first + in->is_labels, n = in->dim[1];
    return convert(to, f->map + f->first + first * f->type.width, f->type, n,
                   below) ||
           refuse_token(f, first, n, below, b);
}

/* Calls for the pages of the rank's sequences of a step. The kernel itself
 * prefetches files that are read in order. */
static void prefetch(const ParcRt *rt, const RtData *d, const ParcInput *in,
                     int64_t step)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int64_t m = 0; m < microbatches(in); m++) {
        Part p = part_of(rt, in, m);
        int64_t number = first_sample(d, in, step) + p.first;
        for (int64_t row = 0; row < p.rows; row++) {
            RtSequence s = sequence_at(d, number + row);
            const RtTokenFile *f = s.file;
            uintptr_t begin = (uintptr_t)f->map + (uintptr_t)f->first +
                              (uintptr_t)(s.first * f->type.width);
            uintptr_t end = begin + (uintptr_t)((d->seq + 1) * f->type.width);
            begin -= begin % page;
            madvise((void *)begin, end - begin, MADV_WILLNEED);
        }
    }
}

static bool from_file(ParcRt *rt, const RtData *d, const ParcInput *in,
                      int64_t step, RtBatch *b)
{
    int32_t *to = (int32_t *)(void *)(rt->arena + in->offset);
    for (int64_t m = 0; m < microbatches(in); m++) {
        Part p = part_of(rt, in, m);
        int64_t number = first_sample(d, in, step) + p.first;
        for (int64_t row = 0; row < p.rows; row++) {
            if (!read_sequence(sequence_at(d, number + row), in, to, b)) {
                return false;
            }
            to += in->dim[1];
        }
    }
    if (!in->is_labels && (d->shuffle || d->nsources > 1)) {
        prefetch(rt, d, in, step + 1);
    }
    return true;
}

enum { PIECE = 4096 };

/* Fills elements first … first+n-1 of a floating-point input. */
static void noise(void *to, const RtData *d, const ParcInput *in,
                  int64_t first, int64_t n)
{
    float piece[PIECE];
    for (int64_t at = 0; at < n; at += PIECE) {
        int64_t count = n - at < PIECE ? n - at : PIECE;
        rt_random_normal(piece, d->seed, RT_STREAM_DATA, rt_hash(in->name),
                         first + at, count, 1);
        rt_narrow(in->type, rt_element_out(in->type, to, at), piece, count);
    }
}

static void synthetic(ParcRt *rt, const RtData *d, const ParcInput *in,
                      int64_t step)
{
    int64_t row = 1;
    for (int k = 1; k < in->ndim; k++) {
        row *= in->dim[k];
    }
    bool ints = in->type == PARC_I32;
    bool stream = ints && in->ndim == 2 && row == rt->model->seq;
    void *to = rt->arena + in->offset;
    for (int64_t m = 0; m < microbatches(in); m++) {
        Part p = part_of(rt, in, m);
        int64_t number = first_sample(d, in, step) + p.first;
        int64_t first = number * row, n = p.rows * row;
        if (ints) {
            uint32_t key = rt_hash(stream ? "tokens" : in->name);
            rt_random_below(to, d->seed, RT_STREAM_DATA, key,
                            first + (stream && in->is_labels), n, in->below);
        } else {
            noise(to, d, in, first, n);
        }
        to = rt_element_out(in->type, to, n);
    }
}

bool rt_batch_inputs(ParcRt *rt, const RtData *d, const ParcInput *input,
                     int ninputs, int64_t step, RtBatch *b)
{
    b->made = step + 1;
    b->why[0] = 0;
    for (int i = 0; i < ninputs; i++) {
        const ParcInput *in = &input[i];
        if (in->offset < 0) {
            continue; /* the program does not read this input */
        }
        if (d->path && in->type == PARC_I32) {
            if (!from_file(rt, d, in, step, b)) {
                return false;
            }
        } else {
            synthetic(rt, d, in, step);
        }
        rt_device_upload(rt, in->offset, part_bytes(rt, in));
    }
    return true;
}

void rt_data_resume(RtData *d, const ParcModel *model, int64_t step,
                    int64_t tokens)
{
    int64_t seq = model->seq > 0 ? model->seq : 1;
    if (tokens != step * model->batch * seq) {
        d->begin_step = step;
        d->begin_sample = (tokens + seq - 1) / seq;
    }
}

void rt_batch(ParcRt *rt, const RtData *d, int64_t step, RtBatch *b)
{
    const ParcModel *m = rt->model;
    if (b->made != step + 1) {
        rt_batch_inputs(rt, d, m->input, m->ninputs, step, b);
    }
    if (b->why[0]) {
        rt_fail_at(rt, "%s", b->why);
    }
}

void rt_batch_ahead(ParcRt *rt, const RtData *d, int64_t step, RtBatch *b)
{
    const ParcModel *m = rt->model;
    if (rt_device_runs_beside(rt)) {
        rt_batch_inputs(rt, d, m->input, m->ninputs, step, b);
    }
}

int64_t rt_data_batches(const RtData *d, const ParcModel *model)
{
    return d->path ? d->sequences / model->batch : 0;
}
