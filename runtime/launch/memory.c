/* memory.c: checks that this machine has the memory that the ranks need.
 *
 * The system allocates a page when it is first accessed. Without the check, a
 * program that needs too much memory would be killed during its first step,
 * and other programs with it. The check runs before any allocation.
 *
 * Available memory is the minimum of MemAvailable (/proc/meminfo) and, for
 * each memory control group of this process, its limit minus its usage. Page
 * cache that a group can drop (inactive_file) does not count as used. Control
 * groups of version 1 and 2 are read at /sys/fs/cgroup. In a container the
 * path in /proc/self/cgroup may be the host's: levels without files are
 * skipped, and the root of the mount is always read.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/message.h"
#include "common/type.h"
#include "device.h"
#include "launch/world.h"
#include "rt.h"

enum { PATH = 1024, CONTENT = 16384 };

/* The files of a memory control group, for each version of the interface. */
typedef struct Interface {
    const char *mount, *controller; /* "": the unified hierarchy */
    const char *limit, *usage, *cache;
} Interface;

static const Interface interfaces[] = {
    {"/sys/fs/cgroup", "", "memory.max", "memory.current", "inactive_file"},
    {"/sys/fs/cgroup", "", "memory.high", "memory.current", "inactive_file"},
    {"/sys/fs/cgroup/memory", "memory", "memory.limit_in_bytes",
     "memory.usage_in_bytes", "total_inactive_file"},
};

/* Reads a small file; false if it cannot be read. */
static bool read_text(const char *path, char text[CONTENT])
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, CONTENT - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
    return n > 0;
}

/* The number after `key` at the beginning of a line; -1: none. */
static double number_after(const char *text, const char *key)
{
    size_t n = strlen(key);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, n) == 0 && (line[n] == ' ' || line[n] == ':'))
            return strtod(line + n + 1, NULL);
    }
    return -1;
}

/* The number in a file; -1 if there is no file or its text is "max". */
static double number_in(const char *dir, const char *name)
{
    RT_OWNED char *path = rt_format("%s/%s", dir, name);
    return rt_read_number(path, -1);
}

static void take_least(RtMemory *m, double bytes, const char *what)
{
    if (bytes < m->bytes) {
        m->bytes = bytes > 0 ? bytes : 0;
        snprintf(m->source, sizeof m->source, "%s", what);
    }
}

/* One group: its limit minus the usage that it cannot drop. */
static void read_group(RtMemory *m, const Interface *i, const char *dir,
                       size_t root)
{
    char path[PATH + 64], stat[CONTENT], what[RT_MEMORY_SOURCE],
        size[RT_SIZE_TEXT];
    double limit = number_in(dir, i->limit), used = number_in(dir, i->usage);
    if (limit < 0 || used < 0)
        return;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    double cache = read_text(path, stat) ? number_after(stat, i->cache) : 0;
    cache = cache < 0 ? 0 : cache > used ? used : cache;
    snprintf(what, sizeof what, "the control group's limit of %s (%.300s/%s)",
             rt_size_text(limit, size), dir + root, i->limit);
    take_least(m, limit - (used - cache), what);
}

/* The group `path` below the interface's mount and all groups above it. */
static void read_groups(RtMemory *m, const Interface *i, const char *root,
                        const char *path)
{
    char dir[PATH];
    int n = snprintf(dir, sizeof dir, "%s%s", root, i->mount);
    size_t mount = (size_t)n;
    if (n < 0 || mount + strlen(path) >= sizeof dir)
        return;
    memcpy(dir + mount, path, strlen(path) + 1);
    for (size_t end = strlen(dir); end >= mount; end--)
        if (end == mount || (dir[end] == 0 && dir[end - 1] != '/') ||
            dir[end] == '/') {
            dir[end] = 0;
            read_group(m, i, dir, strlen(root));
        }
}

/* Whether `controller` is in the list "cpu,memory"; "" is the empty list. */
static bool lists(const char *list, size_t n, const char *controller)
{
    RT_OWNED char *items = rt_format(",%.*s,", (int)n, list);
    RT_OWNED char *item = rt_format(",%s,", controller);
    return *controller ? strstr(items, item) != NULL : n == 0;
}

/* One line of /proc/self/cgroup: "4:cpu,memory:/path". */
static void read_line(RtMemory *m, const char *root, char *line)
{
    char *list = strchr(line, ':');
    char *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return;
    size_t n = (size_t)(path - list) - 1;
    for (size_t i = 0; i < sizeof interfaces / sizeof *interfaces; i++)
        if (lists(list + 1, n, interfaces[i].controller))
            read_groups(m, &interfaces[i], root, path + 1);
}

void rt_memory_available(RtMemory *m, const char *root)
{
    char path[PATH], text[CONTENT];
    *m = (RtMemory){.bytes = INFINITY, .source = "unlimited"};
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    double kib = read_text(path, text) ? number_after(text, "MemAvailable") : -1;
    if (kib >= 0)
        take_least(m, kib * 1024, "the machine's available memory");
    else
        take_least(m, (double)sysconf(_SC_PHYS_PAGES) *
                          (double)sysconf(_SC_PAGESIZE),
                   "the machine's memory");
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (!read_text(path, text))
        return;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        read_line(m, root, line);
}

/* The advice is the caller's; the default is to ask parc for a plan that
 * fits. */
static void report_shortage(const RtNeed *need, const RtMemory *m)
{
    char all[RT_SIZE_TEXT], one[RT_SIZE_TEXT], have[RT_SIZE_TEXT];
    char per_rank[64] = "", advice[128];
    double ranks = (double)need->ranks;
    if (need->ranks > 1)
        snprintf(per_rank, sizeof per_rank, " (%s each)",
                 rt_size_text(need->each, one));
    snprintf(advice, sizeof advice,
             "parc --device-memory %.0fM says what would make the program fit",
             fmax(1, floor(m->bytes / ranks / (1 << 20))));
    rt_error("%lld rank%s need%s %s%s of memory for %s, and %s is available: "
             "%s; %s; PARC_MEMCHECK=0 starts the program anyway",
             (long long)need->ranks, need->ranks == 1 ? "" : "s",
             need->ranks == 1 ? "s" : "", rt_size_text(ranks * need->each, all),
             per_rank, need->what, rt_size_text(m->bytes, have), m->source,
             need->advice ? need->advice : advice);
}

bool rt_memory_fits(const RtNeed *need, const char *root)
{
    RtMemory m;
    int on = 1; /* 0 disables the check, for example because of swap */
    if (!rt_variable_number("PARC_MEMCHECK", 0, 1, &on))
        return false;
    if (!on)
        return true;
    rt_memory_available(&m, root);
    if ((double)need->ranks * need->each <= m.bytes)
        return true;
    report_shortage(need, &m);
    return false;
}

/* Bytes of the weights of a rank, if no step is executed. */
static double weights_bytes(const ParcModel *m)
{
    double bytes = 0;
    for (int i = 0; i < m->nparams; i++) {
        const ParcParam *p = &m->param[i];
        if (p->offset >= 0 && !p->state)
            bytes += (double)p->local_elements * (double)rt_type_size(p->type);
    }
    return bytes;
}

bool rt_memory_check(const RtWorld *w, int first, int ranks, bool runs,
                     int64_t staging)
{
    RtNeed need = {.ranks = ranks};
    if (runs) {
        for (int rank = first; rank < first + ranks; rank++)
            need.each += rt_device_host_bytes(w->model, rank, &need.what) / ranks;
        if (staging > 0) {
            need.each += (double)staging;
            need.what = "the plan and the staging buffer of --save-async";
        }
    } else {
        need.each = weights_bytes(w->model);
        need.what = "weights";
        need.advice = "a mesh of fewer ranks or a machine with more memory can "
                      "hold them";
    }
    return rt_memory_fits(&need, "");
}
