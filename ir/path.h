/* path.h: paths of modules and names of parameters, as text, and the patterns
 * that match them.
 *
 * A path is names with dots between them. The elements of an array are one
 * module or several, each of which stands for some elements: the segment of the
 * path is '*' for all elements, else the numbers of the elements: "3", "0-3" for
 * 0, 1, 2, 3, or "0-6:2" for 0, 2, 4, 6.
 *
 * A pattern is a path too. Its segment '*' matches any one segment, "w*" any
 * name that begins with w, a number or a range the elements that it counts.
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

/* The segment of that many characters as a range; false: it is '*' or a
 * name. */
bool path_range(const char *segment, size_t size, PathRange *r);
/* Whether the range counts the element. */
bool path_range_holds(PathRange r, int64_t element);
/* The range as a segment. */
const char *path_range_text(Arena *a, PathRange r);

/* Whether a pattern matches a path as a whole. A number or range matches each
 * range that it has an element in common with. */
bool path_matches(const char *pattern, const char *path);
/* The same, but a range of the path is matched only by a number or range that
 * holds its first element: of several patterns that ask the same of some
 * elements one matches. */
bool path_leads(const char *pattern, const char *path);
/* The same as path_matches, but each segment of either may be the pattern:
 * "s.0.b.1" meets "s.*.b.1-2". */
bool path_meets(const char *a, const char *b);
/* Whether a text matches a pattern in which each '*' stands for any
 * characters. */
bool path_glob(const char *pattern, size_t n, const char *text, size_t k);

/* The segments of a path that are numbers or ranges. */
int path_numbers(const char *path);
/* How particular a pattern is: of two that match a path, the one with the
 * higher rank means it in particular. First counts the number of numbers, then
 * that of ranges; path_rank goes on to whole names and then to names with a
 * '*' in them. */
int path_index_rank(const char *pattern);
int path_rank(const char *pattern);
/* Whether a segment is '*', all elements of an array. */
bool path_has_star(const char *pattern);

/* How deep a path lies; that of the model itself, "", has depth 0. */
int path_depth(const char *path);
/* Segment number i of a path that has so many; *size: its length. */
const char *path_segment(const char *path, int i, size_t *size);

#endif
