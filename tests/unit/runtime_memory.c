/* runtime_memory.c: tests how available memory is read, from files that replace
 * a machine's /proc and /sys. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "runtime/launch/world.h"
#include "tests/unit/check.h"

static char root[64];

/* Writes a file of the machine; creates its directories. */
static void put(const char *path, const char *text)
{
    char full[512];
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    for (int i = (int)strlen(root) + 1; i < n; i++) {
        if (full[i] == '/') {
            full[i] = 0;
            mkdir(full, 0700);
            full[i] = '/';
        }
    }
    FILE *f = fopen(full, "w");
    if (!f || fputs(text, f) < 0 || fclose(f) != 0) {
        perror(full);
        exit(1);
    }
}

static void new_machine(const char *cgroup)
{
    static int n;
    snprintf(root, sizeof root, "machine%d", n++);
    mkdir(root, 0700);
    put("/proc/meminfo", "MemTotal:  16384 kB\nMemFree:  10 kB\n"
                         "MemAvailable:    8192 kB\n");
    put("/proc/self/cgroup", cgroup);
}

static void is(Check *c, double bytes, const char *source)
{
    RtMemory m;
    rt_memory_available(&m, root);
    if (m.bytes != bytes)
        printf("%s: %.0f available, %.0f expected\n", root, m.bytes, bytes);
    CHECK(c, m.bytes == bytes);
    CHECK(c, strstr(m.source, source));
}

/* A group's limit, with 300000 bytes in use, of which 100000 can be freed. */
static void limit_v2(const char *group, const char *limit)
{
    char path[256];
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.max", group);
    put(path, limit);
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.current", group);
    put(path, "300000\n");
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/memory.stat", group);
    put(path, "anon 200000\ninactive_file_x 7\ninactive_file 100000\n");
}

static void version_2(Check *c)
{
    new_machine("0::/a/b\n");
    is(c, 8192 * 1024, "the machine's available memory");
    limit_v2("/a/b", "max\n");
    is(c, 8192 * 1024, "the machine's available memory");
    limit_v2("/a/b", "1048576\n");
    is(c, 848576, "the control group's limit of 1.0 MiB "
                  "(/sys/fs/cgroup/a/b/memory.max)");
    limit_v2("/a", "524288\n"); /* the group around it */
    is(c, 324288, "(/sys/fs/cgroup/a/memory.max)");
    limit_v2("/a", "200000\n"); /* less than is in use */
    is(c, 0, "(/sys/fs/cgroup/a/memory.max)");
    limit_v2("/a", "max\n");
    put("/sys/fs/cgroup/a/memory.high", "400000\n");
    is(c, 200000, "(/sys/fs/cgroup/a/memory.high)");
    /* More page cache than use: the counters are read at different moments. */
    put("/sys/fs/cgroup/a/memory.stat", "inactive_file 900000\n");
    is(c, 400000, "(/sys/fs/cgroup/a/memory.high)");
    limit_v2("/b", "5\n"); /* other groups */
    limit_v2("/a/b/c", "5\n");
    is(c, 400000, "(/sys/fs/cgroup/a/memory.high)");
}

/* In a container the path is the host's, but the limit is at the mount. */
static void container(Check *c)
{
    new_machine("0::/host/docker-123.scope\n");
    limit_v2("", "1048576\n");
    is(c, 848576, "(/sys/fs/cgroup/memory.max)");
    new_machine("0::/\n");
    limit_v2("", "1048576\n");
    is(c, 848576, "(/sys/fs/cgroup/memory.max)");
}

static void version_1(Check *c)
{
    new_machine("9:name=systemd:/\n4:cpu,memory:/job_7/step_0\n0::/\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/memory/memory.usage_in_bytes", "5\n");
    is(c, 8192 * 1024, "the machine's available memory");
    put("/sys/fs/cgroup/memory/job_7/memory.limit_in_bytes", "2000000\n");
    put("/sys/fs/cgroup/memory/job_7/memory.usage_in_bytes", "1500000\n");
    put("/sys/fs/cgroup/memory/job_7/memory.stat",
        "inactive_file 1\ntotal_inactive_file 400000\n");
    is(c, 900000, "(/sys/fs/cgroup/memory/job_7/memory.limit_in_bytes)");
    put("/proc/self/cgroup", "4:memoryx:/job_7\n3:cpu:/job_7\n");
    is(c, 8192 * 1024, "the machine's available memory");
}

/* Without these files the system's own numbers are used. */
static void nothing_to_read(Check *c)
{
    RtMemory m;
    rt_memory_available(&m, "nowhere");
    CHECK(c, m.bytes > 0 && m.bytes < 1e18);
    rt_memory_available(&m, "");
    CHECK(c, m.bytes > 0 && m.bytes < 1e18);
}

/* The message about a program that does not fit; none if it fits. */
static void message(Check *c)
{
    static char text[2048];
    new_machine("0::/\n");
    limit_v2("", "1048576\n");
    RtNeed need = {.ranks = 4, .each = 212144, .what = "the plan"};
    if (!freopen("said", "w", stderr))
        exit(1);
    CHECK(c, rt_memory_fits(&need, root));
    need.each++;
    CHECK(c, !rt_memory_fits(&need, root));
    setenv("PARC_MEMCHECK", "0", 1);
    CHECK(c, rt_memory_fits(&need, root));
    setenv("PARC_MEMCHECK", "off", 1);
    CHECK(c, !rt_memory_fits(&need, root));
    FILE *f = fopen("said", "r");
    text[f ? fread(text, 1, sizeof text - 1, f) : 0] = 0;
    if (f)
        fclose(f);
    CHECK_TEXT(c, text,
               "train: error: 4 ranks need 828.7 KiB (207.2 KiB each) of "
               "memory for the plan, and 828.7 KiB is available: the control "
               "group's limit of 1.0 MiB (/sys/fs/cgroup/memory.max); parc "
               "--device-memory 1M says what would make the program fit; "
               "PARC_MEMCHECK=0 starts the program anyway\n"
               "train: error: PARC_MEMCHECK is 'off' in the environment; it "
               "takes 0 or 1\n");
}

int main(void)
{
    char directory[] = "/tmp/parc-memory-XXXXXX";
    Check c = {0};
    if (!mkdtemp(directory) || chdir(directory) != 0) {
        perror("mkdtemp");
        return 1;
    }
    version_2(&c);
    container(&c);
    version_1(&c);
    nothing_to_read(&c);
    message(&c);
    CHECK(&c, directory_remove(directory));
    return check_end(&c);
}
