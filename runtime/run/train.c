/* train.c: executes the training steps of a rank.
 *
 * Each step: read the batch and set the scalars, execute the step, repeat it in rounds if
 * experts need it, check loss and gradients, write the log. All ranks execute the same
 * steps; the values that they decide by (loss, gradient norm, overflow) are equal on all ranks.
 */
#include <math.h>

#include "common/message.h"
#include "device.h"
#include "eval/eval.h"
#include "launch/world.h"
#include "options/options.h"
#include "options/settings.h"
#include "rt.h"
#include "run.h"
#include "trace/trace.h"

static void set_scalar(ParcRt *rt, int64_t offset, double value)
{
    if (offset >= 0) {
        *rt_floats(rt, offset) = (float)value;
        rt_device_upload(rt, offset, sizeof(float));
    }
}

/* Sets the scalars that a program reads in step t (from 1). */
static void set_scalars(ParcRt *rt, const RtRun *run, const ParcScalars *at, int64_t t)
{
    const ParcModel *m = rt->model;
    rt->lr = rt_schedule_lr(&run->settings, t, run->options.steps);
    set_scalar(rt, at->lr, rt->lr);
    set_scalar(rt, at->clip, run->settings.clip);
    double updates = (double)(rt->updates + 1);
    bool powers = m->power1 != 0 || m->power2 != 0;
    set_scalar(rt, at->bias1, powers ? pow(updates, m->power1) : 1 - pow(m->beta1, updates));
    set_scalar(rt, at->bias2, powers ? pow(updates, m->power2) : 1 - pow(m->beta2, updates));
    rt->scale.used = rt->scale.scale;
    if (rt->scale.scale > 0)
        set_scalar(rt, at->loss_scale, rt->scale.scale);
    rt_set_key(rt, at->random, run->options.seed, t);
}

static void begin_step(ParcRt *rt, RtRun *run, int64_t step, RtBatch *batch)
{
    rt_batch(rt, &run->data, step - 1, batch);
    set_scalars(rt, run, &rt->model->at, step);
}

static bool is_finite(ParcRt *rt, int64_t offset)
{
    return offset < 0 || isfinite(*rt_floats(rt, offset));
}

/* If buffers of experts have overflowed, the step has changed nothing: another program
 * repeats it in rounds, which need no larger buffers. */
static void repeat_in_rounds(ParcRt *rt, RtRun *run, int64_t step, RtBatch *batch)
{
    const ParcScalars *at = &rt->model->at;
    const ParcProgram *e = rt->model->rounds;
    rt->overflow = rt_result(rt, at->overflow);
    rt->dropped = rt_dropped(rt, at);
    if (!(rt->overflow > 0)) {
        rt->rounds = 1;
        return;
    }
    if (rt->rounds < 2)
        rt->rounds = 2;
    rt_program_begin(rt, e);
    do {
        if (!rt_batch_inputs(rt, &run->data, e->input, e->ninputs, step - 1, batch))
            rt_fail_at(rt, "%s", batch->why);
        set_scalars(rt, run, &e->at, step);
    } while (!rt_program_run(rt, e));
    rt_ask_results(rt, &e->at);
    rt_device_results(rt);
    rt->dropped = rt_dropped(rt, &e->at);
    *rt_floats(rt, at->loss) = *rt_floats(rt, e->at.loss);
    *rt_floats(rt, at->grad_norm) = *rt_floats(rt, e->at.grad_norm);
    rt_program_end(rt);
    batch->made = 0; /* the program uses the memory of the next batch */
}

/* Checks the loss, which is equal on all ranks. If it is not finite and has no
 * loss scale, the step has updated no parameter on the CPU (parc_goes_on): it
 * is executed a second time with a check of each result. With a loss scale,
 * check_gradients skips the step if the gradients are not finite either. */
static void check_loss(ParcRt *rt, RtRun *run, int64_t step, RtBatch *batch)
{
    int64_t at = rt->model->at.loss;
    bool skipped = rt->scale.scale > 0 &&
                   !is_finite(rt, rt->model->at.grad_norm);
    if (is_finite(rt, at) || skipped)
        return;
    bool nan = isnan(*rt_floats(rt, at));
    if (rt_device_repeats(rt) && rt->scale.scale == 0 && !rt->nan_check) {
        rt->nan_check = true;
        batch->made = 0;
        begin_step(rt, run, step, batch);
        rt_device_step(rt);
        rt_ask_results(rt, &rt->model->at);
        rt_device_results(rt);
        repeat_in_rounds(rt, run, step, batch);
    }
    rt_fail(rt, "step %lld: the loss is %s%s", (long long)step,
            nan ? "not a number" : "infinite",
            rt->nan_check ? "" : "; with PARC_NANCHECK=1 the run names the "
                                 "first tensor that is not finite");
}

/* Called when all ranks have finished the traced steps. */
static void write_trace(ParcRt *rt, const RtRun *run)
{
    rt_synchronize(rt, RT_AT_TRACE);
    if (rt->rank == 0) {
        rt_trace_gather(rt);
        const char *error = rt_trace_write(rt->world, run->options.trace);
        if (error)
            rt_fail_write(rt, run->options.trace, error);
    }
    rt_synchronize(rt, RT_AT_TRACE); /* until then rank 0 may request marks */
}

/* Checks the norm, which is equal on all ranks; hence all ranks decide
 * alike. */
static void check_gradients(ParcRt *rt, RtRun *run, int64_t step)
{
    int64_t at = rt->model->at.grad_norm;
    double norm = at >= 0 ? (double)*rt_floats(rt, at) : 0;
    double scale = rt->scale.scale;
    if (scale > 0 && !rt_scale_step(rt, step, norm)) {
        if (rt->rank == 0)
            rt_report_skip(&run->report, step, scale, rt->scale.scale);
        return;
    }
    if (!isfinite(norm))
        rt_nonfinite(rt, step, norm);
    rt->updates++;
}

/* Without --data the loss does not show whether the model learns. */
static void note_noise(const RtRun *run)
{
    const RtOptions *o = &run->options;
    if (!o->data && o->steps > 0)
        rt_note("no --data: training on synthetic noise%s",
                rt_takes_tokens(run->model)
                    ? "; --data FILE trains on a file of tokens"
                    : "; --data NAME=FILE,... trains on a file for each input");
}

static void train_step(ParcRt *rt, RtRun *run, int64_t step, RtBatch *batch)
{
    bool evaluates = rt_evaluate_is_due(run, step);
    atomic_store(&rt->world->status[rt->rank].step, step);
    run->report.step_begin = rt_now();
    rt_trace_begin(rt, step);
    begin_step(rt, run, step, batch);
    rt_device_step(rt);
    rt_ask_results(rt, &rt->model->at);
    if (step < run->options.steps && !evaluates)
        rt_batch_prefetch(rt, &run->data, step, batch);
    rt_device_results(rt);
    rt_trace_end(rt);
    repeat_in_rounds(rt, run, step, batch);
    check_loss(rt, run, step, batch);
    check_gradients(rt, run, step);
    RtRecord record = rt_report_record(&run->report, rt, step);
    if (evaluates) { /* overwrites the results of the step */
        RtEvaluation e = rt_evaluate(rt, run);
        record.val_loss = e.loss;
        record.val_dropped = e.dropped;
    }
    if (rt->rank == 0)
        rt_report_step(&run->report, rt, &record);
    if (run->options.trace && step == rt->world->trace.last)
        write_trace(rt, run);
}

/* Saves if this is due or agreed, and returns whether there is a step to
 * execute; equal on all ranks. */
static bool save_and_continue(ParcRt *rt, RtRun *run)
{
    bool more = run->done < run->options.steps;
    int agreed = more ? rt_agree(rt, run) : 0;
    if (rt_save_is_due(run, run->done) ||
        (agreed & RT_SAVE && run->saver.saved != run->done)) {
        rt_checkpoint_save(rt, run, run->done);
        rt_agree_saved(run);
        agreed |= more ? rt_agree(rt, run) : 0; /* a signal during the save */
    }
    if (agreed & RT_SAVE)
        rt_agree_saved(run);
    return more && !(agreed & RT_STOP);
}

void rt_train(ParcRt *rt, RtRun *run)
{
    RtBatch batch = {0};
    if (rt->rank == 0) {
        note_noise(run);
        rt_report_start(&run->report, rt, run->options.steps);
    }
    if (run->done < run->options.steps) {
        if (run->options.save_async)
            rt_async_open(rt, run);
        rt_agree_start(run);
    }
    while (save_and_continue(rt, run)) {
        train_step(rt, run, run->done + 1, &batch);
        run->done++;
        rt_async_check(rt, run);
    }
    rt_async_close(rt, run);
    if (rt->rank == 0)
        rt_report_end(&run->report, rt, run->done);
}
