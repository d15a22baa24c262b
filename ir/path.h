/* path.h: paths of modules and names of parameters, as text.
 *
 * A path is names with dots between them. The elements of an array are one
 * module or a few, each standing for some of them: its segment is '*' for all,
 * else the numbers of the elements: "3", "0-3" for 0, 1, 2, 3, or "0-6:2" for
 * 0, 2, 4, 6.
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
/* The range as a segment. */
const char *path_range_text(Arena *a, PathRange r);

/* Whether a pattern matches a path as a whole: '*' in it matches any one
 * segment, a number every range that holds it. */
bool path_matches(const char *pattern, const char *path);
/* The same, but a number matches only a range that begins with it: of
 * patterns that name the elements of one range alike, one does. */
bool path_leads(const char *pattern, const char *path);
/* The same as path_matches, but each segment of either may be the pattern:
 * "s.0.b.1" meets "s.*.b.1-2". */
bool path_meets(const char *a, const char *b);

/* The numbers in a pattern: of two that match a path, the one with more means
 * it in particular. */
int path_numbers(const char *pattern);

/* How deep a path lies; that of the model itself, "", has depth 0. */
int path_depth(const char *path);
/* Segment number i of a path that has so many; *size: its length. */
const char *path_segment(const char *path, int i, size_t *size);

#endif
