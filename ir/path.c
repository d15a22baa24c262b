/* path.c: parses and matches module paths; see path.h. */
#include "ir/path.h"

#include <ctype.h>
#include <string.h>

enum { MAX_DIGITS = 18, SPECIFICITY_BITS = 10 };

static bool take_number(const char **at, const char *end, int64_t *n)
{
    const char *begin = *at;

    *n = 0;
    while (*at < end && **at >= '0' && **at <= '9' && *at - begin < MAX_DIGITS)
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

bool path_index(const char *segment, size_t size, PathIndex *x)
{
    const char *at = segment, *end = segment + size;

    *x = (PathIndex){.scale = 1};
    if (size == 1 && *at == '*')
        return true;
    bool scaled = take_number(&at, end, &x->scale);
    if (!scaled)
        x->scale = 1;
    if (at == end || *at++ != 'i')
        return false;
    int sign = at == end ? 0 : *at == '+' ? 1 : *at == '-' ? -1 : 0;
    at += sign != 0;
    if (sign > 0 && at < end && (isalpha((unsigned char)*at) || *at == '_')) {
        x->name = at;
        x->size = (size_t)(end - at);
        while (at < end && (isalnum((unsigned char)*at) || *at == '_'))
            at++;
    } else if (sign && !take_number(&at, end, &x->offset)) {
        return false;
    }
    x->offset *= sign;
    return at == end && (scaled || sign) && x->scale > 0 &&
           x->scale <= MAX_INDEX_SCALE && x->offset <= MAX_INDEX_OFFSET &&
           x->offset >= -MAX_INDEX_OFFSET;
}

const char *path_index_text(Arena *a, PathIndex x)
{
    long long scale = x.scale, offset = x.offset;
    const char *factor = scale == 1 ? "" : arena_printf(a, "%lld", scale);
    const char *summand = offset == 0 ? "" : arena_printf(a, "%+lld", offset);
    bool same = scale == 1 && offset == 0;
    return same ? "*" : arena_printf(a, "%si%s", factor, summand);
}

bool path_glob(const char *pattern, size_t n, const char *text, size_t k)
{
    size_t p = 0, t = 0, star = SIZE_MAX, rest = 0;

    while (t < k)
        if (p < n && pattern[p] == '*') {
            star = p++;
            rest = t;
        } else if (p < n && pattern[p] == text[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX) { /* the last star takes one more */
            p = star + 1;
            t = ++rest;
        } else {
            return false;
        }
    while (p < n && pattern[p] == '*')
        p++;
    return p == n;
}

static bool is_star(const char *segment, size_t n)
{
    return n == 1 && *segment == '*';
}

bool path_range_holds(PathRange r, int64_t element)
{
    return element >= r.first && element <= r.last &&
           (element - r.first) % r.step == 0;
}

/* Whether two ranges have an element in common. Which elements of b are in a
 * repeats after a.step elements of b. */
static bool share_element(PathRange a, PathRange b)
{
    int64_t skip = a.first > b.first ? (a.first - b.first) / b.step : 0;
    int64_t element = b.first + skip * b.step;

    for (int64_t i = 0; i <= a.step && element <= b.last; i++) {
        if (path_range_holds(a, element))
            return true;
        element += b.step;
    }
    return false;
}

static bool segment_matches(const char *pattern, size_t n, const char *path,
                            size_t k, bool first_only)
{
    PathRange want, have;

    if (is_star(pattern, n) || (n == k && memcmp(pattern, path, n) == 0))
        return true;
    bool index = path_range(path, k, &have);
    if (path_range(pattern, n, &want))
        return index && (first_only ? path_range_holds(want, have.first)
                                    : share_element(want, have));
    return !index && !is_star(path, k) && path_glob(pattern, n, path, k);
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

bool path_matches_first(const char *pattern, const char *path)
{
    return matches(pattern, path, LEADING);
}

bool path_overlaps(const char *a, const char *b)
{
    return matches(a, b, EITHER);
}

/* The number of segments of each kind in a path. */
typedef struct Kinds {
    int numbers, ranges, names, globs, stars;
} Kinds;

static Kinds kinds_of(const char *path)
{
    Kinds k = {0};
    PathRange r;

    for (int i = 0; i < path_depth(path); i++) {
        size_t size;
        const char *segment = path_segment(path, i, &size);
        if (path_range(segment, size, &r))
            ++*(r.first == r.last ? &k.numbers : &k.ranges);
        else if (is_star(segment, size))
            k.stars++;
        else
            ++*(memchr(segment, '*', size) ? &k.globs : &k.names);
    }
    return k;
}

int path_numbers(const char *path)
{
    Kinds k = kinds_of(path);
    return k.numbers + k.ranges;
}

int path_index_specificity(const char *pattern)
{
    Kinds k = kinds_of(pattern);
    return k.numbers << SPECIFICITY_BITS | k.ranges;
}

int path_specificity(const char *pattern)
{
    Kinds k = kinds_of(pattern);
    return path_index_specificity(pattern) << SPECIFICITY_BITS |
           (2 * k.names + k.globs);
}

bool path_is_open(const char *segment, size_t size)
{
    PathRange r;
    return is_star(segment, size) ||
           (path_range(segment, size, &r) && r.first < r.last);
}

bool path_has_star(const char *pattern)
{
    return kinds_of(pattern).stars > 0;
}

const char *path_parent(Arena *a, const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot ? arena_strndup(a, path, (size_t)(dot - path)) : "";
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

const char *path_all_elements(Arena *a, const char *path)
{
    const char *text = "";
    int depth = path_depth(path);
    for (int i = 0; i < depth; i++) {
        size_t size;
        PathRange r;
        const char *s = path_segment(path, i, &size);
        bool range = path_range(s, size, &r);
        text = arena_printf(a, "%s%s%.*s", text, i ? "." : "",
                            range ? 1 : (int)size, range ? "*" : s);
    }
    return text;
}
