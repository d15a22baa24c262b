/* jsonl.c: writes the log of a run: a JSON object per step (--log FILE).
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

#include "common/files.h"
#include "common/message.h"
#include "launch/world.h"
#include "log/report.h"
#include "rt.h"

/* Locks and truncates a regular file: several runs may write one pipe or
 * device. Returns NULL or an error. On a file system without locks, O_APPEND
 * still keeps lines whole. */
static const char *take_file(int file, const char *path, int64_t done)
{
    struct stat st;
    if (fstat(file, &st) != 0)
        return strerror(errno);
    if (!S_ISREG(st.st_mode))
        return NULL;
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return "another run is writing it; give each run a --log of its own";
    int64_t kept = done > 0 ? rt_log_kept(path, done) : 0;
    return kept < 0 || ftruncate(file, kept) != 0 ? strerror(errno) : NULL;
}

bool rt_log_open(RtLog *l, const char *path, int64_t done)
{
    bool is_stdout = rt_output_is_stdout(path);
    l->path = path;
    l->file = is_stdout ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                        : open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
                               0666);
    const char *why = l->file < 0 ? strerror(errno)
                      : is_stdout ? NULL
                                  : take_file(l->file, path, done);
    if (why)
        rt_error("cannot write '%s': %s", rt_output_name(path), why);
    return !why;
}

/* Appends a field; non-finite values are null, because JSON has no NaN. */
static size_t put_field(char *to, size_t size, const RtField *f,
                        const RtRecord *r)
{
    double value = rt_field_value(f, r);
    const char *comma = f == rt_fields ? "" : ", ";
    if (f->optional && (isnan(value) || value == 0))
        return 0;
    int n = f->whole ? snprintf(to, size, "%s\"%s\": %.0f", comma, f->name,
                                value)
            : isfinite(value)
                ? snprintf(to, size, "%s\"%s\": %.9g", comma, f->name, value)
                : snprintf(to, size, "%s\"%s\": null", comma, f->name);
    return (size_t)n;
}

void rt_log_write(RtLog *l, ParcRt *rt, const RtRecord *r)
{
    enum { LINE = 768 };
    char text[LINE];
    size_t n = 0;
    if (l->file < 0)
        return;
    text[n++] = '{';
    for (const RtField *f = rt_fields; f->name; f++)
        n += put_field(text + n, sizeof text - n, f, r);
    n += (size_t)snprintf(text + n, sizeof text - n, "}\n");
    ssize_t did = write(l->file, text, n);
    if (did != (ssize_t)n)
        rt_fail(rt, "cannot write '%s': %s", rt_output_name(l->path),
                strerror(did < 0 ? errno : ENOSPC));
}

void rt_log_close(RtLog *l, ParcRt *rt)
{
    if (l->file >= 0 && close(l->file) != 0)
        rt_fail(rt, "cannot write '%s': %s", rt_output_name(l->path),
                strerror(errno));
    l->file = -1;
}
