/* report.c: collects the record of each step and passes it to the log, the
 * progress line and the event file.
 *
 *   {step 3, loss 5.12, lr 1e-3, …}  ->  {"step": 3, "loss": 5.12, …}   (log)
 *                                        step 3/20  loss 5.1200 …  (progress)
 *                                        loss: (3, 5.12) …      (TensorBoard)
 *
 * On a terminal the progress line is redrawn up to ten times per second;
 * otherwise about ten lines are printed per run, and one after each half minute:
 *
 *   step 20/100  loss 2.4310  val_loss 2.5102  81234 tokens/s  0:12 left
 *
 * The loss of one batch varies more than it falls between two lines. A line
 * hence has the mean over the latest steps: a tenth of those executed, at least
 * 1 and at most RT_MOST_LOSSES. The log has the loss of each step.
 */
#include "log/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/message.h"
#include "device.h"
#include "options/options.h"
#include "rt.h"

/* ---- the progress line --------------------------------------------------- */

enum { LINES = 10, LINE_SECONDS = 30 };
static const double redraw_seconds = 0.1;

static void start_progress(RtProgress *p, int64_t done, int64_t steps,
                           const char *noun)
{
    double now = rt_now();
    *p = (RtProgress){.terminal = isatty(STDERR_FILENO),
                      .first = done,
                      .steps = steps,
                      .begin = now,
                      .last_line = now,
                      .first_loss = NAN,
                      .noun = noun};
}

/* The mean loss of the latest of the `n` steps up to `step`. */
static double mean_loss(const RtProgress *p, int64_t step, int64_t n)
{
    double sum = 0;
    int64_t latest = n / 10;
    latest = latest < 1 ? 1 : latest > RT_MOST_LOSSES ? RT_MOST_LOSSES : latest;
    for (int64_t s = step; s > step - latest; s--)
        sum += p->losses[s % RT_MOST_LOSSES];
    return sum / (double)latest;
}

static const char *duration(double seconds, char text[32])
{
    long long s = (long long)(seconds + 0.5);
    if (s >= 3600)
        snprintf(text, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 32, "%lld:%02lld", s / 60, s % 60);
    return text;
}

static bool line_is_due(const RtProgress *p, const RtRecord *r, double now)
{
    int64_t step = r->step;
    if (step == p->first + 1 || step == p->steps || !isnan(r->val_loss))
        return true;
    return p->terminal
               ? now - p->last_line > redraw_seconds
               : step * LINES / p->steps != (step - 1) * LINES / p->steps ||
                     now - p->last_line > LINE_SECONDS;
}

static void show(RtProgress *p, const RtRecord *r, double now)
{
    char text[192], left[32], val[48] = "";
    double did = (double)(r->step - p->first);
    double rest = (now - p->begin) / did * (double)(p->steps - r->step);
    bool ends = r->step == p->steps;
    if (!isnan(r->val_loss))
        snprintf(val, sizeof val, "  val_loss %.4f", r->val_loss);
    int n = snprintf(
        text, sizeof text,
        "%sstep %lld/%lld  loss %.4f%s  %.0f %s/s  %s left%s",
        p->terminal ? "\r" : "", (long long)r->step, (long long)p->steps,
        mean_loss(p, r->step, r->step - p->first), val,
        (double)p->tokens / p->seconds, p->noun, duration(rest, left),
        !p->terminal          ? "\n"
        : ends || val[0] != 0 ? "\033[K\n"
                              : "\033[K");
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        return; /* standard error is closed */
    p->last_line = now;
}

static void add_progress(RtProgress *p, const RtRecord *r)
{
    double now = rt_now();
    if (r->step == p->first + 1)
        p->first_loss = r->loss;
    p->losses[r->step % RT_MOST_LOSSES] = r->loss;
    if (line_is_due(p, r, now))
        show(p, r, now);
}

/* `memory`: bytes of a rank. */
static void print_summary(const RtProgress *p, int64_t done, int64_t memory)
{
    int64_t did = done - p->first;
    char size[RT_SIZE_TEXT];
    if (did > 0)
        rt_say("%s%lld step%s in %.2f s: loss %.4f -> %.4f, %.0f %s/s, "
               "%.1f ms per step, %s of memory per rank",
               p->terminal && done < p->steps ? "\r\033[K" : "", (long long)did,
               did == 1 ? "" : "s", p->seconds, p->first_loss,
               mean_loss(p, done, did), (double)p->tokens / p->seconds, p->noun,
               p->seconds * 1e3 / (double)did,
               rt_size_text((double)memory, size));
}

/* ---- the record ---------------------------------------------------------- */

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
        .loss = output(rt, m->at.loss),
        .val_loss = NAN,
        .grad_norm = output(rt, m->at.grad_norm),
        .overflow = rt->overflow,
        .dropped = rt->dropped,
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
    r->noun = model->seq > 1 ? "tokens" : "samples";
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
    start_progress(&r->progress, r->done, steps, r->noun);
    rt_events_start(&r->events, rt, r->done);
}

void rt_report_step(RtReport *r, ParcRt *rt, const RtRecord *record)
{
    r->progress.seconds += record->step_ms / 1e3;
    r->progress.tokens += r->tokens_a_step;
    r->repeated += record->overflow > 0;
    r->dropped += record->dropped;
    rt_log_write(&r->log, rt, record);
    rt_events_write(&r->events, rt, record);
    add_progress(&r->progress, record);
}

void rt_report_skip(const RtReport *r, int64_t step, double from, double to)
{
    rt_say("%sstep %lld is skipped: gradients are not finite at a loss scale "
           "of %g, which becomes %g",
           r->progress.terminal ? "\r\033[K" : "", (long long)step, from, to);
}

void rt_say_dropped(int64_t dropped, int64_t n, const char *of)
{
    if (dropped > 0)
        rt_say("experts dropped %lld choices beyond their capacity, %.1f per %s",
               (long long)dropped, (double)dropped / (double)(n > 0 ? n : 1), of);
}

void rt_report_end(RtReport *r, ParcRt *rt, int64_t done)
{
    print_summary(&r->progress, done, rt->peak_bytes);
    int64_t did = done - r->progress.first;
    if (r->repeated)
        rt_say("%lld of %lld steps overflowed the buffers of experts and ran again in rounds: "
               "a larger buffer= of expert_parallel, or balanced experts, would be faster",
               (long long)r->repeated, (long long)did);
    rt_say_dropped(r->dropped, did, "step");
    rt_log_close(&r->log, rt);
    rt_events_close(&r->events, rt);
}
