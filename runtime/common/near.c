/* common/near.c: suggests the name that a user may have meant.
 *
 * Messages about unknown options, parameters and tensors show the candidate
 * with the smallest edit distance.
 *
 * example: --step -> --steps */
#include <string.h>

#include "common/message.h"


enum { LONGEST = 255 };

static int smallest(int a, int b, int c)
{
    int m = a < b ? a : b;
    return m < c ? m : c;
}

/* The Levenshtein distance. */
static int distance(const char *a, const char *b)
{
    int n = (int)strlen(a), m = (int)strlen(b), row[LONGEST + 1];
    if (n > LONGEST || m > LONGEST)
        return LONGEST;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int cost = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            row[j] = smallest(cost, row[j] + 1, row[j - 1] + 1);
        }
    }
    return row[m];
}

const char *rt_near_miss(const char *name, const char *const *candidate, int n)
{
    int best = (int)strlen(name) / 3 + 2;
    const char *found = NULL;
    for (int i = 0; i < n; i++) {
        int d = distance(name, candidate[i]);
        if (d < best) {
            best = d;
            found = candidate[i];
        }
    }
    return found;
}
