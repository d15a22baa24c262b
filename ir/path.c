/* path.c: see path.h. */
#include "ir/path.h"

#include <string.h>

static bool take_number(const char **at, const char *end, int64_t *n)
{
    const char *begin = *at;

    *n = 0;
    while (*at < end && **at >= '0' && **at <= '9' && *at - begin < 18)
        *n = *n * 10 + (*(*at)++ - '0');
    return *at > begin;
}

bool path_range(const char *segment, size_t size, PathRange *r)
{
    const char *at = segment, *end = segment + size;

    if (!take_number(&at, end, &r->first))
        return false;
    r->last = r->first;
    r->step = 1;
    if (at < end && *at++ == '-' && !take_number(&at, end, &r->last))
        return false;
    if (at < end && *at++ == ':' && !take_number(&at, end, &r->step))
        return false;
    return at == end && r->step > 0 && r->last >= r->first;
}

const char *path_range_text(Arena *a, PathRange r)
{
    if (r.first == r.last)
        return arena_printf(a, "%lld", (long long)r.first);
    const char *text = arena_printf(a, "%lld-%lld", (long long)r.first,
                                    (long long)r.last);
    if (r.step == 1)
        return text;
    return arena_printf(a, "%s:%lld", text, (long long)r.step);
}

static bool segment_matches(const char *pattern, size_t n, const char *path,
                            size_t k, bool leads)
{
    PathRange one, range;

    if ((n == 1 && *pattern == '*') ||
        (n == k && memcmp(pattern, path, n) == 0))
        return true;
    if (!path_range(pattern, n, &one) || one.first != one.last ||
        !path_range(path, k, &range))
        return false;
    if (leads)
        return one.first == range.first;
    return one.first >= range.first && one.first <= range.last &&
           (one.first - range.first) % range.step == 0;
}

typedef enum Way { WHOLLY, LEADING, EITHER } Way;

static bool matches(const char *pattern, const char *path, Way way)
{
    while (*pattern && *path) {
        size_t n = strcspn(pattern, "."), k = strcspn(path, ".");
        if (!segment_matches(pattern, n, path, k, way == LEADING) &&
            !(way == EITHER && segment_matches(path, k, pattern, n, false)))
            return false;
        pattern += n;
        path += k;
        if ((*pattern == '.') != (*path == '.'))
            return false;
        pattern += *pattern == '.';
        path += *path == '.';
    }
    return !*pattern && !*path;
}

bool path_matches(const char *pattern, const char *path)
{
    return matches(pattern, path, WHOLLY);
}

bool path_leads(const char *pattern, const char *path)
{
    return matches(pattern, path, LEADING);
}

bool path_meets(const char *a, const char *b)
{
    return matches(a, b, EITHER);
}

int path_numbers(const char *pattern)
{
    int n = 0;
    PathRange r;

    for (int i = 0; i < path_depth(pattern); i++) {
        size_t size;
        const char *segment = path_segment(pattern, i, &size);
        n += path_range(segment, size, &r);
    }
    return n;
}

int path_depth(const char *path)
{
    int depth = *path != 0;
    for (; *path; path++)
        depth += *path == '.';
    return depth;
}

const char *path_segment(const char *path, int i, size_t *size)
{
    for (; i > 0; i--)
        path += strcspn(path, ".") + 1;
    *size = strcspn(path, ".");
    return path;
}
