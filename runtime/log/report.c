/* report.c: collects the record of each step and passes it to the log, the
 * progress line and the event file.
 *
 *   {step 3, loss 5.12, lr 1e-3, …}  ->  {"step": 3, "loss": 5.12, …}   (log)
 *                                        step 3/20  loss 5.1200 …  (progress)
 *                                        loss: (3, 5.12) …      (TensorBoard)
 */
#include "log/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/message.h"
#include "device.h"
#include "options/options.h"
#include "rt.h"

static double output(ParcRt *rt, int64_t offset)
{
    return offset >= 0 ? (double)*rt_floats(rt, offset) : NAN;
}

RtRecord rt_report_record(RtReport *r, ParcRt *rt, int64_t step)
{
    const ParcModel *m = rt->model;
    double seconds = rt_now() - r->step_begin;
    double peak = r->peak_flops > 0 ? r->peak_flops : NAN;
    return (RtRecord){
        .step = step,
        .loss = output(rt, m->loss_offset),
        .val_loss = NAN,
        .grad_norm = output(rt, m->grad_norm_offset),
        .lr = rt->lr,
        .loss_scale = m->loss_scale > 0 ? rt->scale.used : NAN,
        .tokens = rt_report_tokens(r, step),
        .tokens_per_s = (double)r->tokens_a_step / seconds,
        .step_ms = seconds * 1e3,
        .mfu = m->flops / seconds / peak,
        .hfu = m->executed_flops / seconds / peak,
        .host_bytes = rt->host_bytes,
        .peak_bytes = rt->peak_bytes,
    };
}

bool rt_report_open(RtReport *r, const RtOptions *o, const ParcModel *model,
                    int64_t done, int64_t tokens)
{
    memset(r, 0, sizeof *r);
    r->done = done;
    r->tokens = tokens;
    r->log.file = r->events.file = -1;
    r->tokens_a_step = model->batch * (model->seq > 0 ? model->seq : 1);
    r->unit = model->seq > 1 ? "tokens" : "samples";
    if (o->dry_run)
        return true;
    return (!o->log || rt_log_open(&r->log, o->log, done)) &&
           (!o->tensorboard || rt_events_open(&r->events, o->tensorboard));
}

int64_t rt_report_tokens(const RtReport *r, int64_t step)
{
    return r->tokens + (step - r->done) * r->tokens_a_step;
}

void rt_report_start(RtReport *r, ParcRt *rt, int64_t steps)
{
    r->peak_flops = rt_device_peak_flops(rt);
    rt_progress_start(&r->progress, r->done, steps, r->unit);
    rt_events_start(&r->events, rt, r->done);
}

void rt_report_step(RtReport *r, ParcRt *rt, const RtRecord *record)
{
    r->progress.seconds += record->step_ms / 1e3;
    r->progress.tokens += r->tokens_a_step;
    rt_log_write(&r->log, rt, record);
    rt_events_write(&r->events, rt, record);
    rt_progress_step(&r->progress, record);
}

void rt_report_skip(const RtReport *r, int64_t step, double from, double to)
{
    rt_say("%sstep %lld is skipped: gradients are not finite at a loss scale "
           "of %g, which becomes %g",
           r->progress.terminal ? "\r\033[K" : "", (long long)step, from, to);
}

void rt_report_end(RtReport *r, ParcRt *rt, int64_t done)
{
    rt_progress_end(&r->progress, done, rt->peak_bytes);
    rt_log_close(&r->log, rt);
    rt_events_close(&r->events, rt);
}

void rt_report_release(RtReport *r)
{
    free(r->events.path);
    r->events.path = NULL;
}
