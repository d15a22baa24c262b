/* predict.c: writes the model's outputs for given inputs (--predict FILE).
 *
 * The side program of outputs (ParcModel.outputs) computes what the model's
 * forward returns after the loss, for the samples of --data in their order.
 * FILE is a safetensors file with one tensor for each output, under its name.
 * Dim 0 of a tensor counts the samples:
 *
 *   return loss, prediction       prediction: F32 [1797, 2]
 *   --data x=x.npy                x.npy: float32 [1797, 16]
 *
 * Floats are written as F32, integers as I32 or I64. An input that the outputs
 * do not depend on, such as the labels, needs no data. The last batch may be
 * incomplete: the data begin again, and the outputs beyond the last sample are
 * dropped.
 *
 * Rank 0 reads the parts of an output from the arenas of the ranks that store
 * them, assembles one batch and writes it. Its memory does not grow with the
 * number of samples.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/safetensors.h"
#include "common/files.h"
#include "common/message.h"
#include "common/type.h"
#include "device.h"
#include "eval/eval.h"
#include "launch/world.h"
#include "options/options.h"
#include "params/params.h"
#include "rt.h"
#include "run.h"

/* Bytes of an element in the file. */
static int64_t width(const ParcOutput *o)
{
    return rt_is_integer(o->type) ? rt_type_size(o->type) : (int64_t)sizeof(float);
}

static int64_t row_elements(const ParcOutput *o)
{
    return rt_elements(o->dim + 1, o->ndim - 1);
}

/* The number of samples of one run of the program. */
static int64_t batch_of(const ParcProgram *e)
{
    return e->input[0].dim[0];
}

static bool check_outputs(const RtRun *run)
{
    const ParcModel *m = run->model;
    const ParcProgram *e = m->outputs;
    if (!e || e->noutputs == 0 || e->ninputs == 0)
        return rt_error("--predict: %s has no outputs: return them after the "
                        "loss, as in 'return loss, prediction', and compile "
                        "without --no-eval",
                        m->name);
    for (int i = 0; i < e->noutputs; i++) {
        const ParcOutput *o = &e->output[i];
        char shape[RT_SHAPE_TEXT];
        if (o->ndim == 0 || o->dim[0] != batch_of(e))
            return rt_error("--predict: the output '%s' has the shape %s; dim "
                            "0 of an output counts the %lld samples of a batch",
                            o->name, rt_shape_text(o->ndim, o->dim, shape),
                            (long long)batch_of(e));
    }
    return true;
}

bool rt_predict_open(RtRun *run)
{
    const RtOptions *o = &run->options;
    if (!o->predict)
        return true;
    if (!check_outputs(run))
        return false;
    ParcModel reads = *run->model; /* the inputs that the outputs need */
    reads.input = reads.outputs->input;
    reads.ninputs = reads.outputs->ninputs;
    reads.batch = batch_of(reads.outputs);
    if (!rt_data_open(&run->inputs, o->data, false, o->seed, &reads))
        return false;
    if (run->inputs.nshares != 1)
        return rt_error("--predict: %s has no last sample; name one source for "
                        "each input",
                        run->inputs.nshares ? "a mixture" : "synthetic data");
    if (reads.outputs->noutputs > 1 && !rt_is_regular(o->predict) &&
        (rt_output_is_stdout(o->predict) || access(o->predict, F_OK) == 0))
        return rt_error("--predict: '%s' cannot have the %d outputs of %s in "
                        "one pass; name a file",
                        o->predict, reads.outputs->noutputs, run->model->name);
    return true;
}

/* ---- the file ------------------------------------------------------------ */

/* The file and where each output begins. */
typedef struct Predictions {
    RtOutput file;
    int64_t samples;
    int64_t dropped; /* choices that experts with a capacity dropped */
    int64_t *begin; /* of each output, in bytes of the file */
} Predictions;

static void fail_if(ParcRt *rt, const RtRun *run, int error)
{
    if (error)
        rt_fail_write(rt, run->options.predict, strerror(error));
}

/* Opens the file and writes its header. */
static void begin_file(ParcRt *rt, const RtRun *run, Predictions *p)
{
    const ParcProgram *e = rt->model->outputs;
    RtHeader h;
    int64_t at = 0;
    p->begin = rt_allocate((size_t)e->noutputs * sizeof *p->begin);
    rt_output_open(&p->file, run->options.predict,
                   rt->world->temporary[RT_PREDICT_FILE]);
    if (rt_header_begin(&h)) {
        fprintf(h.f,
                "\"__metadata__\": {\"format\": \"pt\", \"parc\": \"%s\", "
                "\"model\": \"%s\"}",
                rt->model->parc_version, rt->model->name);
        for (int i = 0; i < e->noutputs; i++) {
            const ParcOutput *o = &e->output[i];
            int64_t dim[PARC_MAX_DIMS];
            memcpy(dim, o->dim, sizeof dim);
            dim[0] = p->samples;
            p->begin[i] = at;
            at += p->samples * row_elements(o) * width(o);
            rt_header_add(&h, o->name,
                          o->type == PARC_I32   ? "I32"
                          : o->type == PARC_I64 ? "I64"
                                                : "F32",
                          o->ndim, dim, p->begin[i], at);
        }
    }
    int error = rt_header_end(&h, RT_LENGTH_BYTES);
    rt_output_put(&p->file, h.text, h.n);
    for (int i = 0; i < e->noutputs; i++)
        p->begin[i] += (int64_t)h.n;
    free(h.text);
    fail_if(rt, run, error ? error : p->file.error);
}

/* ---- one batch ----------------------------------------------------------- */

/* Writes the outputs of samples first … of the file. */
static void write_batch(ParcRt *rt, const RtRun *run, Predictions *p,
                        int64_t first, RtBuffer *batch, RtBuffer *buffer)
{
    const ParcProgram *e = rt->model->outputs;
    int64_t rows = batch_of(e);
    int64_t left = p->samples - first < rows ? p->samples - first : rows;
    for (int i = 0; i < e->noutputs; i++) {
        const ParcOutput *o = &e->output[i];
        int64_t row = row_elements(o) * width(o);
        char *all = rt_buffer_grow(batch, rows * row);
        ParcParam param = rt_output_param(o);
        rt_param_assemble(rt, &param, 0, all, buffer);
        if (e->noutputs > 1 &&
            lseek(p->file.file, p->begin[i] + first * row, SEEK_SET) < 0)
            p->file.error = errno;
        rt_output_put(&p->file, all, (size_t)(left * row));
    }
    fail_if(rt, run, p->file.error);
}

static void run_batch(ParcRt *rt, const RtRun *run, int64_t number, Predictions *p)
{
    const ParcProgram *e = rt->model->outputs;
    rt_program_batch(rt, e, &run->inputs, number);
    rt_ask_results(rt, &e->at);
    rt_device_results(rt);
    p->dropped += rt_dropped(rt, &e->at);
    for (int i = 0; i < e->noutputs; i++) {
        ParcParam of = rt_output_param(&e->output[i]);
        RtShard s;
        rt_shard(&s, rt->model, rt->rank, &of);
        if (s.owner)
            rt_device_download(rt, of.offset, s.run * rt_type_size(of.type));
    }
}

void rt_predict(ParcRt *rt, RtRun *run)
{
    const ParcProgram *e = rt->model->outputs;
    Predictions p = {.samples = run->inputs.samples};
    RtBuffer batch = {0}, buffer = {0};
    double begin = rt_now();
    if (rt->rank == 0)
        begin_file(rt, run, &p);
    rt_program_begin(rt, e);
    rt_set_key(rt, e->at.random, run->options.seed, RT_PROGRAM_KEY);
    for (int64_t first = 0; first < p.samples; first += batch_of(e)) {
        run_batch(rt, run, first / batch_of(e), &p);
        rt_synchronize(rt, RT_AT_PREDICT);
        if (rt->rank == 0)
            write_batch(rt, run, &p, first, &batch, &buffer);
        rt_synchronize(rt, RT_AT_PREDICT); /* until then rank 0 reads */
    }
    rt_program_end(rt);
    free(batch.at);
    free(buffer.at);
    free(p.begin);
    if (rt->rank != 0)
        return;
    const char *error = rt_output_close(&p.file);
    fail_if(rt, run, error ? p.file.error : 0);
    rt_say("%lld samples, %d output%s to %s, %.2f s", (long long)p.samples,
           e->noutputs, e->noutputs == 1 ? "" : "s",
           rt_output_name(run->options.predict), rt_now() - begin);
    rt_say_dropped(p.dropped, (p.samples + batch_of(e) - 1) / batch_of(e), "batch");
}
