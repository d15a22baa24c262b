/* check.h: counts the checks of a small test program.
 *
 * A test program prints which checks failed and where, ends with a line
 * "N passed, N failed", and exits with 0 if no check failed.
 */
#ifndef PARC_TESTS_UNIT_CHECK_H
#define PARC_TESTS_UNIT_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns `few` or, in `make check-all`, `all`: a number of cases of which
 * further ones only differ in size, mesh, precision or seed (tests/e2e/lib.sh,
 * docs/hacking.md). */
static inline int few_or_all(int few, int all)
{
    const char *set = getenv("CHECK_ALL");
    return set && *set ? all : few;
}

typedef struct Check {
    int passed, failed;
} Check;

static inline void check_that(Check *c, int ok, const char *file, int line,
                              const char *what)
{
    if (ok) {
        c->passed++;
        return;
    }
    c->failed++;
    printf("%s:%d: failed: %s\n", file, line, what);
}

static inline void check_text(Check *c, const char *is, const char *expected,
                              const char *file, int line)
{
    if (is && expected ? strcmp(is, expected) == 0 : is == expected) {
        c->passed++;
        return;
    }
    c->failed++;
    printf("%s:%d: expected '%s'\n%s:%d:       got '%s'\n", file, line,
           expected ? expected : "(null)", file, line, is ? is : "(null)");
}

static inline int check_end(const Check *c)
{
    printf("%d passed, %d failed\n", c->passed, c->failed);
    return c->failed != 0;
}

#define CHECK(c, condition)                                                    \
    check_that((c), (condition) != 0, __FILE__, __LINE__, #condition)
#define CHECK_TEXT(c, is, expected)                                            \
    check_text((c), (is), (expected), __FILE__, __LINE__)

#endif
