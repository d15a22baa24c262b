/* batch.c: prepares a rank's part of the batch of each step.
 *
 * Step s uses samples s*batch … s*batch+batch-1 of the data, for every input:
 *
 *   --data x=images.npy,labels=labels.npy     images 0 … 7, labels 0 … 7
 *   --data tokens.bin                         sequences 0 … 7; the labels are
 *                                             the sequences one token later
 *
 * A source starts again after its last sample. If the batch has changed when
 * the run was resumed, the steps continue after the samples that were used
 * before. With --shuffle each epoch of a source has its own order. With
 * gradient accumulation the batch consists of equal microbatches. The rank
 * with index r on the axes that split the batch uses the r-th equal part of
 * each microbatch, and with index s on the axis of a context the s-th part of
 * each sequence.
 *
 * Synthetic data is an infinite sequence of random tokens; the labels are the
 * tokens shifted by one. Other inputs depend on their name and on the
 * element's index over all batches.
 *
 * If a step runs asynchronously on a device, the host prepares the next batch
 * meanwhile. An error in that batch is reported when its own step begins,
 * because the previous step may still fail for another reason.
 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/type.h"
#include "data/samples.h"
#include "device.h"
#include "launch/world.h"
#include "params/random.h"
#include "rt.h"

static int64_t microbatches(const ParcInput *in)
{
    return in->micro > 0 ? in->micro : 1;
}

RtInputPart rt_input_part(const ParcRt *rt, const ParcInput *in, int64_t m)
{
    const RtGroup *g = &rt->group[in->batch_axes];
    const RtGroup *s = &rt->group[in->sequence_axes];
    int64_t rows = in->dim[0] / microbatches(in) / g->n;
    int64_t n = rt_row_elements(in) / s->n;
    RtInputPart p = {.first = rows * (m * g->n + g->index), .rows = rows, .n = n,
                     .begin = {n * s->index}, .pieces = 1};
    if (in->sequence_axes & rt->model->zigzag) {
        p.pieces = 2;
        for (int i = 0; i < p.pieces; i++)
            p.begin[i] = rt_zigzag(s->n, s->index, n, i * (n / 2));
    }
    return p;
}

/* Bytes of the rank's parts of all microbatches. */
static int64_t part_bytes(const ParcRt *rt, const ParcInput *in)
{
    RtInputPart p = rt_input_part(rt, in, 0);
    return microbatches(in) * p.rows * p.n * rt_type_size(in->type);
}

#define GOLDEN_RATIO 0x9E3779B9u

/* Where a feed's sample `number` is stored; numbers count over all epochs and
 * all sources. Each source has its own epochs. The order is that of all feeds. */
static RtSample sample_at(const RtData *d, const RtFeed *feed, int64_t number)
{
    int64_t used;
    int i = rt_mixture_choose(d, number, &used);
    int64_t samples = d->share[i].samples, at = used % samples;
    if (d->shuffle) {
        uint32_t epoch = (uint32_t)(used / samples);
        at = rt_permute(d->seed, epoch + (uint32_t)i * GOLDEN_RATIO, samples,
                        at);
    }
    return rt_files_sample(&feed->source[i], at, &feed->row);
}

/* The feed of an input, and whether the input reads its elements one later, as
 * labels do that have no data of their own. NULL: the input is synthetic. */
static const RtFeed *feed_of(const RtData *d, const ParcInput *in, bool *later)
{
    *later = false;
    for (int i = 0; i < d->nfeeds; i++)
        if (strcmp(d->feed[i].row.input->name, in->name) == 0)
            return d->feed[i].nsources > 0 ? &d->feed[i] : NULL;
    for (int i = 0; i < d->nfeeds && in->is_labels; i++)
        if (d->feed[i].row.shifted && d->feed[i].nsources > 0) {
            *later = true;
            return &d->feed[i];
        }
    return NULL;
}

/* Asks the kernel to read the pages of the rank's samples of a step. Files that
 * are read in order need no request: the kernel prefetches them. */
static void prefetch(const ParcRt *rt, const RtData *d, const RtFeed *feed,
                     const ParcInput *in, int64_t step)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int64_t m = 0; m < microbatches(in); m++) {
        RtInputPart p = rt_input_part(rt, in, m);
        int64_t number = rt_first_sample(d, in->dim[0], step) + p.first;
        for (int64_t i = 0; i < p.rows * p.pieces; i++) {
            RtSample s = sample_at(d, feed, number + i / p.pieces);
            const RtDataFile *f = s.file;
            int64_t first = s.first + p.begin[i % p.pieces];
            uintptr_t begin = (uintptr_t)f->map + (uintptr_t)f->first +
                              (uintptr_t)(first * f->type.width);
            uintptr_t end = begin + (uintptr_t)((p.n / p.pieces + 1) * f->type.width);
            begin -= begin % page;
            madvise((void *)begin, end - begin, MADV_WILLNEED);
        }
    }
}

static bool from_files(ParcRt *rt, const RtData *d, const RtFeed *feed,
                       bool later, const ParcInput *in, int64_t step,
                       RtBatch *b)
{
    void *to = rt->arena + in->offset;
    for (int64_t m = 0; m < microbatches(in); m++) {
        RtInputPart p = rt_input_part(rt, in, m);
        int64_t number = rt_first_sample(d, in->dim[0], step) + p.first;
        int64_t n = p.n / p.pieces;
        for (int64_t i = 0; i < p.rows * p.pieces; i++) {
            RtSample s = sample_at(d, feed, number + i / p.pieces);
            int64_t begin = p.begin[i % p.pieces];
            if (!rt_convert(in, s.file, s.first + begin + later, n, to, b->why))
                return false;
            to = rt_element_out(in->type, to, n);
        }
    }
    if (!later && (d->shuffle || d->nshares > 1))
        prefetch(rt, d, feed, in, step + 1);
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
    int64_t row = rt_row_elements(in);
    bool ints = in->type == PARC_I32;
    bool stream = ints && in->ndim == 2 && row == rt->model->seq;
    void *to = rt->arena + in->offset;
    for (int64_t m = 0; m < microbatches(in); m++) {
        RtInputPart p = rt_input_part(rt, in, m);
        int64_t number = rt_first_sample(d, in->dim[0], step) + p.first;
        int64_t runs = p.n < row ? p.rows * p.pieces : 1, n = p.rows * p.n / runs;
        for (int64_t i = 0; i < runs; i++) {
            int64_t first = (number + i / p.pieces) * row + p.begin[i % p.pieces];
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
}

bool rt_batch_inputs(ParcRt *rt, const RtData *d, const ParcInput *input,
                     int ninputs, int64_t step, RtBatch *b)
{
    b->made = step + 1;
    b->why[0] = 0;
    for (int i = 0; i < ninputs; i++) {
        const ParcInput *in = &input[i];
        if (in->offset < 0)
            continue; /* the program does not read this input */
        bool later;
        const RtFeed *feed = feed_of(d, in, &later);
        if (!feed)
            synthetic(rt, d, in, step);
        else if (!from_files(rt, d, feed, later, in, step, b))
            return false;
        rt_device_upload(rt, in->offset, part_bytes(rt, in));
    }
    return true;
}

void rt_batch(ParcRt *rt, const RtData *d, int64_t step, RtBatch *b)
{
    const ParcModel *m = rt->model;
    if (b->made != step + 1)
        rt_batch_inputs(rt, d, m->input, m->ninputs, step, b);
    if (b->why[0])
        rt_fail_at(rt, "%s", b->why);
}

void rt_batch_prefetch(ParcRt *rt, const RtData *d, int64_t step, RtBatch *b)
{
    const ParcModel *m = rt->model;
    if (rt_device_runs_beside(rt))
        rt_batch_inputs(rt, d, m->input, m->ninputs, step, b);
}

int64_t rt_data_batches(const RtData *d, const ParcModel *model)
{
    return d->path ? d->samples / model->batch : 0;
}
