/* batch.c: prepares a rank's part of the batch of each step.
 *
 * Step s uses sequences s*batch … s*batch+batch-1 of the data and wraps around
 * at the end of the file. If the batch has changed when the run was resumed, the
 * steps continue after the sequences that were used before. With --shuffle each epoch has its own order. With
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

#include "rt.h"
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

/* The index in the file of sequence `number`, which counts over all epochs. */
static int64_t sequence_at(const RtData *d, int64_t number)
{
    int64_t at = number % d->sequences;
    return d->shuffle ? rt_permute(d->seed, (uint32_t)(number / d->sequences),
                                   d->sequences, at)
                      : at;
}

static int64_t token_at(const RtData *d, int64_t i)
{
    const unsigned char *p = d->map + d->first + i * d->width;
    uint32_t token = 0;
    for (int b = 0; b < d->width; b++) {
        token |= (uint32_t)p[b] << (8 * b);
    }
    return token;
}

static bool read_sequence(const RtData *d, const ParcInput *in, int32_t *to,
                          int64_t first, RtBatch *b)
{
    for (int64_t i = 0; i < in->dim[1]; i++) {
        int64_t token = token_at(d, first + i);
        if (in->below > 0 && token >= in->below) {
            snprintf(b->why, sizeof b->why,
                     "%s: byte %lld: error: token %lld is beyond the "
                     "vocabulary of %lld",
                     d->path, (long long)(d->first + (first + i) * d->width),
                     (long long)token, (long long)in->below);
            return false;
        }
        to[i] = (int32_t)token;
    }
    return true;
}

static bool from_file(ParcRt *rt, const RtData *d, const ParcInput *in,
                      int64_t step, RtBatch *b)
{
    int32_t *to = (int32_t *)(void *)(rt->arena + in->offset);
    for (int64_t m = 0; m < microbatches(in); m++) {
        Part p = part_of(rt, in, m);
        for (int64_t row = 0; row < p.rows; row++) {
            int64_t number = first_sample(d, in, step) + p.first + row;
            int64_t first = sequence_at(d, number) * in->dim[1];
            if (!read_sequence(d, in, to, first + in->is_labels, b)) {
                return false;
            }
            to += in->dim[1];
        }
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
        int64_t first = (first_sample(d, in, step) + p.first) * row;
        int64_t n = p.rows * row;
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
