/* progress.c: prints the progress of a run on standard error.
 *
 * On a terminal one line is redrawn up to ten times per second; otherwise about
 * ten lines are printed per run, and one after each half minute.
 *
 *   step 20/100  loss 2.4310  val_loss 2.5102  81234 tokens/s  0:12 left
 *
 * The loss of one batch varies more than it falls between two lines. A line
 * hence has the mean over the latest steps: a tenth of those executed, at least
 * 1 and at most RT_MOST_LOSSES. The log has the loss of each step.
 */
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "common/message.h"
#include "log/report.h"

enum { LINES = 10, LINE_SECONDS = 30 };
static const double redraw_seconds = 0.1;

void rt_progress_start(RtProgress *p, int64_t done, int64_t steps,
                       const char *unit)
{
    double now = rt_now();
    *p = (RtProgress){.terminal = isatty(STDERR_FILENO),
                      .first = done,
                      .steps = steps,
                      .begin = now,
                      .last_line = now,
                      .first_loss = NAN,
                      .unit = unit};
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
        (double)p->tokens / p->seconds, p->unit, duration(rest, left),
        !p->terminal          ? "\n"
        : ends || val[0] != 0 ? "\033[K\n"
                              : "\033[K");
    if (write(STDERR_FILENO, text, (size_t)n) < 0)
        return; /* standard error is closed */
    p->last_line = now;
}

void rt_progress_step(RtProgress *p, const RtRecord *r)
{
    double now = rt_now();
    if (r->step == p->first + 1)
        p->first_loss = r->loss;
    p->losses[r->step % RT_MOST_LOSSES] = r->loss;
    if (line_is_due(p, r, now))
        show(p, r, now);
}

void rt_progress_end(const RtProgress *p, int64_t done, int64_t memory)
{
    int64_t did = done - p->first;
    char size[RT_SIZE_TEXT];
    if (did > 0)
        rt_say("%s%lld step%s in %.2f s: loss %.4f -> %.4f, %.0f %s/s, "
               "%.1f ms per step, %s of memory per rank",
               p->terminal && done < p->steps ? "\r\033[K" : "", (long long)did,
               did == 1 ? "" : "s", p->seconds, p->first_loss,
               mean_loss(p, done, did), (double)p->tokens / p->seconds, p->unit,
               p->seconds * 1e3 / (double)did,
               rt_size_text((double)memory, size));
}
