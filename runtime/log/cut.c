/* cut.c: finds the lines of a log that a resumed run writes again.
 *
 * A run that was killed has logged steps after its last checkpoint. The resumed
 * run executes these steps again and would log them a second time. Lines from
 * the first incomplete one on, which a killed run or a full disk leaves, are
 * removed too.
 *
 * example   step 20:  {"step": 19, …}    {"step": 19, …}
 *                     {"step": 20, …} -> {"step": 20, …}
 *                     {"step": 21, …}
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/json.h"
#include "log/report.h"

/* Whether a line is the object of a step up to `step`. */
static bool is_kept(const unsigned char *line, int64_t n, int64_t step)
{
    RtJson j = {.text = line, .end = n};
    char key[16];
    int64_t has = INT64_MAX;
    rt_json_object(&j);
    while (rt_json_key(&j, key, sizeof key)) {
        if (strcmp(key, "step") == 0)
            has = rt_json_integer(&j);
        else
            rt_json_skip(&j);
    }
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

int64_t rt_log_kept(const char *path, int64_t step)
{
    struct stat st;
    int64_t kept = -1;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file >= 0 && fstat(file, &st) == 0) {
        void *map = st.st_size > 0 ? mmap(NULL, (size_t)st.st_size, PROT_READ,
                                          MAP_PRIVATE, file, 0)
                                   : NULL;
        if (map != MAP_FAILED)
            kept = map ? kept_bytes(map, st.st_size, step) : 0;
        if (map != MAP_FAILED && map)
            munmap(map, (size_t)st.st_size);
    }
    if (file >= 0) {
        int error = errno;
        close(file);
        errno = error;
    }
    return kept;
}
