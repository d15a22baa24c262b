/* jsonl.c: writes the log of a run: a JSON object per step (--log FILE).
 *
 * The log file is locked while the run lasts: two runs with the same log file
 * would truncate it and interleave their lines.
 *
 * `tokens` counts from the start of the run; `tokens_per_s` and `step_ms` are
 * for one step. `mfu` is the step's flops divided by the peak of the devices
 * in use, or null if the peak is not known. Each line is one write, so a
 * reader never sees an incomplete line.
 *
 * A run that was killed has logged steps after its last checkpoint. The resumed
 * run executes these steps again: their lines are removed first. Lines from the
 * first incomplete one on, which a killed run or a full disk leaves, are
 * removed too.
 *
 * example   step 20:  {"step": 19, …}    {"step": 19, …}
 *                     {"step": 20, …} -> {"step": 20, …}
 *                     {"step": 21, …}
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/files.h"
#include "common/json.h"
#include "common/message.h"
#include "launch/world.h"
#include "log/report.h"
#include "rt.h"

#define AT(name) offsetof(RtRecord, name)
const RtField rt_fields[] = {
    {"step", AT(step), true, false, false},
    {"loss", AT(loss), false, false, true},
    {"val_loss", AT(val_loss), false, true, true},
    {"grad_norm", AT(grad_norm), false, false, true},
    {"overflow", AT(overflow), false, true, true},
    {"dropped", AT(dropped), true, true, true},
    {"val_dropped", AT(val_dropped), true, true, true},
    {"lr", AT(lr), false, false, true},
    {"loss_scale", AT(loss_scale), false, true, true},
    {"tokens", AT(tokens), true, false, false},
    {"tokens_per_s", AT(tokens_per_s), false, false, true},
    {"step_ms", AT(step_ms), false, false, true},
    {"mfu", AT(mfu), false, false, true},
    {"hfu", AT(hfu), false, false, true},
    {"host_bytes", AT(host_bytes), true, true, true},
    {"peak_bytes", AT(peak_bytes), true, false, true},
    {NULL, 0, false, false, false},
};

double rt_field_value(const RtField *f, const RtRecord *r)
{
    const char *at = (const char *)r + f->at;
    return f->whole ? (double)*(const int64_t *)(const void *)at
                    : *(const double *)(const void *)at;
}

/* Whether a line is the object of a step up to `step`. */
static bool is_kept(const unsigned char *line, int64_t n, int64_t step)
{
    RtJson j = {.text = line, .end = n};
    char key[RT_JSON_KEY];
    int64_t has = INT64_MAX;
    rt_json_object(&j);
    while (rt_json_key(&j, key, sizeof key))
        if (strcmp(key, "step") == 0)
            has = rt_json_integer(&j);
        else
            rt_json_skip(&j);
    return !j.error && rt_json_peek(&j) < 0 && has <= step;
}

static int64_t kept_bytes(const unsigned char *text, int64_t size, int64_t step)
{
    int64_t at = 0;
    while (at < size) {
        const unsigned char *end = memchr(text + at, '\n', (size_t)(size - at));
        if (!end || !is_kept(text + at, end - (text + at), step))
            break;
        at = end + 1 - text;
    }
    return at;
}

/* Sets *size to that of the log without its lines from the first one that is
 * after `step` or damaged. Returns 0 or an errno. */
static int find_kept(const char *path, int64_t step, int64_t *size)
{
    const unsigned char *text;
    int64_t all;
    int error = rt_file_map(path, &text, &all);
    *size = kept_bytes(text, all, step);
    rt_input_unmap(text, all);
    return error;
}

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
    int64_t kept = 0;
    int error = done > 0 ? find_kept(path, done, &kept) : 0;
    if (!error && ftruncate(file, kept) != 0)
        error = errno;
    return error ? strerror(error) : NULL;
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

/* Non-finite values are null, because JSON has no NaN. */
static void print_field(RtText *t, const RtField *f, const RtRecord *r)
{
    double value = rt_field_value(f, r);
    if (f->optional && (isnan(value) || value == 0))
        return;
    rt_add(t, "%s\"%s\": ", f == rt_fields ? "" : ", ", f->name);
    if (isfinite(value))
        rt_add(t, f->whole ? "%.0f" : "%.9g", value);
    else
        rt_add(t, "null");
}

void rt_log_write(RtLog *l, ParcRt *rt, const RtRecord *r)
{
    enum { LINE = 768 };
    char text[LINE];
    RtText t = {.at = text, .capacity = sizeof text};
    if (l->file < 0)
        return;
    rt_add(&t, "{");
    for (const RtField *f = rt_fields; f->name; f++)
        print_field(&t, f, r);
    rt_add(&t, "}\n");
    ssize_t did = write(l->file, text, t.n);
    if (did != (ssize_t)t.n)
        rt_fail_write(rt, l->path, strerror(did < 0 ? errno : ENOSPC));
}

void rt_log_close(RtLog *l, ParcRt *rt)
{
    if (l->file >= 0 && close(l->file) != 0)
        rt_fail_write(rt, l->path, strerror(errno));
    l->file = -1;
}
