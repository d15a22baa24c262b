/* text.h: prefixes, and searches in tables whose rows begin with a name. */
#ifndef PARC_BASE_TEXT_H
#define PARC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The first of n rows of `size` bytes that begins with this name (its first
 * member is a `const char *`, NULL matches nothing): its index; -1: none. */
static inline int name_index(const void *rows, int n, size_t size,
                             const char *name)
{
    const char *row = rows;
    for (int i = 0; i < n; i++, row += size) {
        const char *own = *(const char *const *)(const void *)row;
        if (own && strcmp(own, name) == 0)
            return i;
    }
    return -1;
}

/* The same: a pointer to the row; NULL: none. */
static inline const void *name_row(const void *rows, int n, size_t size,
                                   const char *name)
{
    int i = name_index(rows, n, size, name);
    return i < 0 ? NULL : (const char *)rows + size * (size_t)i;
}

#define row_index(rows, n, name) name_index(rows, n, sizeof *(rows), name)
#define row_find(rows, n, name) name_row(rows, n, sizeof *(rows), name)
/* In all rows of an array. */
#define table_find(table, name) \
    row_find(table, (int)(sizeof(table) / sizeof *(table)), name)

#endif
