/* rt_log.c: writes the log of a run (a JSON object per step) and prints its
 * progress.
 *
 * The log file is locked while the run lasts: two runs with the same log file
 * would truncate it and interleave their lines.
 *
 * `tokens` counts from the start of the run; `tokens_per_s` and `step_ms` are
 * for one step. `mfu` is the step's flops divided by the peak of the devices
 * in use, or null if the peak is not known. Each line is one write, so a
 * reader never sees an incomplete line.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rt.h"
#include "rt_device.h"

/* Locks and truncates a regular file: several runs may write one pipe or
 * device. Returns NULL or an error. On a file system without locks, O_APPEND
 * still keeps lines whole. */
static const char *take_file(int file)
{
    struct stat st;
    if (fstat(file, &st) != 0) {
        return strerror(errno);
    }
    if (!S_ISREG(st.st_mode)) {
        return NULL;
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        return "another run is writing it; give each run a --log of its own";
    }
    return ftruncate(file, 0) != 0 ? strerror(errno) : NULL;
}

static bool open_file(RtLog *l, const char *program)
{
    if (rt_output_is_stdout(l->path)) {
        l->file = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    } else {
        l->file = open(l->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                       0666);
    }
    const char *why = l->file < 0 ? strerror(errno)
                      : rt_output_is_stdout(l->path) ? NULL
                                                     : take_file(l->file);
    if (why) {
        rt_error(program, "cannot write '%s': %s", rt_output_name(l->path),
                 why);
    }
    return !why;
}

bool rt_log_open(RtLog *l, const RtOptions *o, const ParcModel *model)
{
    memset(l, 0, sizeof *l);
    l->file = -1;
    l->terminal = isatty(STDERR_FILENO);
    l->steps = o->steps;
    l->tokens_a_step = model->batch * (model->seq > 0 ? model->seq : 1);
    l->path = o->log;
    return !o->log || o->dry_run || open_file(l, o->program);
}

void rt_log_start(RtLog *l, const ParcRt *rt)
{
    l->peak_flops = rt_device_peak_flops(rt);
    l->begin = l->last_step = l->last_line = rt_now();
}

static float output(ParcRt *rt, int64_t offset)
{
    return offset >= 0 ? *rt_floats(rt, offset) : NAN;
}

/* Non-finite values are null: JSON has no NaN. */
static int number(char *to, size_t room, const char *name, double value)
{
    return isfinite(value) ? snprintf(to, room, ", \"%s\": %.9g", name, value)
                           : snprintf(to, room, ", \"%s\": null", name);
}

static void write_line(RtLog *l, ParcRt *rt, int64_t step, double seconds)
{
    char text[512];
    size_t room = sizeof text, n;
    const ParcModel *m = rt->model;
    double peak = l->peak_flops > 0 ? l->peak_flops : NAN;
    n = (size_t)snprintf(text, room, "{\"step\": %lld", (long long)step);
    n += (size_t)number(text + n, room - n, "loss",
                        (double)output(rt, m->loss_offset));
    n += (size_t)number(text + n, room - n, "grad_norm",
                        (double)output(rt, m->grad_norm_offset));
    n += (size_t)number(text + n, room - n, "lr", rt->lr);
    if (m->loss_scale > 0) {
        n += (size_t)number(text + n, room - n, "loss_scale",
                            rt->scale.used);
    }
    n += (size_t)snprintf(text + n, room - n, ", \"tokens\": %lld",
                          (long long)(l->tokens_a_step * step));
    n += (size_t)number(text + n, room - n, "tokens_per_s",
                        (double)l->tokens_a_step / seconds);
    n += (size_t)number(text + n, room - n, "step_ms", seconds * 1e3);
    n += (size_t)number(text + n, room - n, "mfu", m->flops / seconds / peak);
    n += (size_t)number(text + n, room - n, "hfu",
                        m->executed_flops / seconds / peak);
    if (m->host_bytes > 0) {
        n += (size_t)snprintf(text + n, room - n, ", \"host_bytes\": %lld",
                              (long long)rt->host_bytes);
    }
    n += (size_t)snprintf(text + n, room - n, ", \"peak_bytes\": %lld}\n",
                          (long long)rt->peak_bytes);
    ssize_t did = write(l->file, text, n);
    if (did != (ssize_t)n) {
        rt_fail(rt, "cannot write '%s': %s", rt_output_name(l->path),
                strerror(did < 0 ? errno : ENOSPC));
    }
}

static const char *duration(double seconds, char text[32])
{
    long long s = (long long)(seconds + 0.5);
    if (s >= 3600) {
        snprintf(text, 32, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    } else {
        snprintf(text, 32, "%lld:%02lld", s / 60, s % 60);
    }
    return text;
}

/* On a terminal the line is redrawn up to ten times per second; otherwise
 * about ten lines are printed per run, and one after each half minute. */
static bool line_is_due(const RtLog *l, int64_t step, double now)
{
    if (step == 1 || step == l->steps) {
        return true;
    }
    return l->terminal ? now - l->last_line > 0.1
                       : step * 10 / l->steps != (step - 1) * 10 / l->steps ||
                             now - l->last_line > 30;
}

static void show(RtLog *l, float loss, int64_t step, double now)
{
    char text[160], left[32];
    double seconds = now - l->begin;
    double rate = (double)(l->tokens_a_step * step) / seconds;
    double rest = seconds / (double)step * (double)(l->steps - step);
    int n =
        snprintf(text, sizeof text,
                 "%sstep %lld/%lld  loss %.4f  %.0f tokens/s  %s left%s",
                 l->terminal ? "\r" : "", (long long)step, (long long)l->steps,
                 (double)loss, rate, duration(rest, left),
                 !l->terminal       ? "\n"
                 : step == l->steps ? "\033[K\n"
                                    : "\033[K");
    if (write(STDERR_FILENO, text, (size_t)n) < 0) {
        return; /* standard error is closed */
    }
    l->last_line = now;
}

void rt_log_skip(RtLog *l, int64_t step, double from, double to)
{
    rt_say("%sstep %lld is skipped: gradients are not finite at a loss scale "
           "of %g, which becomes %g",
           l->terminal ? "\r\033[K" : "", (long long)step, from, to);
}

void rt_log_step(RtLog *l, ParcRt *rt, int64_t step)
{
    double now = rt_now();
    float loss = output(rt, rt->model->loss_offset);
    if (step == 1) {
        l->first_loss = loss;
    }
    if (l->file >= 0) {
        write_line(l, rt, step, now - l->last_step);
    }
    if (line_is_due(l, step, now)) {
        show(l, loss, step, now);
    }
    l->last_step = now;
}

void rt_log_end(RtLog *l, ParcRt *rt, int64_t steps)
{
    double seconds = l->last_step - l->begin;
    if (steps > 0) {
        rt_say("%s%lld step%s in %.2f s: loss %.4f -> %.4f, %.0f tokens/s, "
               "%.1f ms per step",
               l->terminal && steps < l->steps ? "\r\033[K" : "",
               (long long)steps, steps == 1 ? "" : "s", seconds,
               (double)l->first_loss,
               (double)output(rt, rt->model->loss_offset),
               (double)(l->tokens_a_step * steps) / seconds,
               seconds * 1e3 / (double)steps);
    }
    if (l->file >= 0 && close(l->file) != 0) {
        rt_fail(rt, "cannot write '%s': %s", rt_output_name(l->path),
                strerror(errno));
    }
}
