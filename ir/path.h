/* path.h: paths of modules and names of parameters, as text, and the patterns
 * that match them.
 *
 * A path consists of names separated by dots. Elements of an array share one
 * module, or a few modules each of which stands for some of them: the segment
 * is '*' for all elements, else their numbers: "3", "0-3" for 0, 1, 2, 3, or
 * "0-6:2" for 0, 2, 4, 6.
 *
 * A pattern is a path too. Its segment '*' matches any one segment, "w*" any
 * name that begins with w, a number or a range the elements that it contains.
 */
#ifndef PARC_IR_PATH_H
#define PARC_IR_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"

/* The elements first, first + step, … last of an array. */
typedef struct PathRange {
    int64_t first, last, step;
} PathRange;

/* Parses the segment of `size` characters as a range; false: it is '*' or a
 * name. */
bool path_range(const char *segment, size_t size, PathRange *r);
/* Whether the range counts the element. */
bool path_range_holds(PathRange r, int64_t element);
/* The range as a segment. */
const char *path_range_text(Arena *a, PathRange r);

/* The number scale * i + offset that a tensor's name has for element i of an
 * array. `name`: the offset is the model's parameter of this name, of `size`
 * characters; NULL: it is known. */
typedef struct PathIndex {
    int64_t scale, offset;
    const char *name;
    size_t size;
} PathIndex;

enum { MAX_INDEX_SCALE = 1000, MAX_INDEX_OFFSET = 1000000 };

/* Parses the segment of `size` characters as an index: "*" for i, "2i", "i+1",
 * "2i-1", "i+first"; false: it is a name. */
bool path_index(const char *segment, size_t size, PathIndex *x);
/* The index as a segment. */
const char *path_index_text(Arena *a, PathIndex x);

/* Whether a pattern matches a whole path. A number or range matches each range
 * that has an element in common with it. */
bool path_matches(const char *pattern, const char *path);
/* Matches like path_matches, except that a range of the path is only matched by
 * a number or range that contains its first element: of several patterns for
 * elements of one range, one matches. */
bool path_matches_first(const char *pattern, const char *path);
/* Whether two paths overlap: as path_matches, but each segment of either may be
 * the pattern: "s.0.b.1" and "s.*.b.1-2" overlap. */
bool path_overlaps(const char *a, const char *b);
/* Whether a text matches a pattern in which each '*' stands for any
 * characters. */
bool path_glob(const char *pattern, size_t n, const char *text, size_t k);

/* The number of segments of a path that are numbers or ranges. */
int path_numbers(const char *path);
/* How specific a pattern is: of two that match a path, the one with the higher
 * number is more specific. path_index_specificity compares the number of
 * numbers, then of ranges; path_specificity compares also whole names, then
 * names with a '*'. */
int path_index_specificity(const char *pattern);
int path_specificity(const char *pattern);
/* The path with '*' for every number and range. */
const char *path_all_elements(Arena *a, const char *path);
/* Whether a segment is '*' or a range of several elements. */
bool path_is_open(const char *segment, size_t size);
/* Whether a segment is '*', all elements of an array. */
bool path_has_star(const char *pattern);

/* The path without its last segment; "" if it has one. */
const char *path_parent(Arena *a, const char *path);
/* The number of segments of a path; 0 for the model's path "". */
int path_depth(const char *path);
/* Segment i of a path, which must exist; *size: its length. */
const char *path_segment(const char *path, int i, size_t *size);

#endif
