/* rt_contract.c: computes the contractions that no matmul computes.
 *
 * One loop iterates over the indices of the result, an inner one over the
 * contracted indices. Each element of the result is a sum in double, in order.
 */
#include "common/type.h"
#include "rt.h"

enum { MAX_LETTERS = 2 * PARC_MAX_DIMS, C = 1, A = 2, B = 3 };

/* Increments a counter over letters first … last-1 and updates the offsets;
 * false when the counter wraps around to zero. */
static bool advance(int64_t count[], int64_t at[4], int first, int last,
                    const int64_t letter[][4])
{
    for (int i = last - 1; i >= first; i--) {
        for (int t = C; t <= B; t++)
            at[t] += letter[i][t];
        if (++count[i] < letter[i][0])
            return true;
        for (int t = C; t <= B; t++)
            at[t] -= letter[i][t] * letter[i][0];
        count[i] = 0;
    }
    return false;
}

static double element(ParcType type, const void *base, int64_t i)
{
    float x;
    rt_widen(&x, type, rt_element(type, base, i), 1);
    return (double)x;
}

void parc_contract(ParcRt *rt, ParcTypes type, void *c, const void *a,
                   const void *b, int n, const int64_t letter[][4])
{
    int64_t count[MAX_LETTERS] = {0}, at[4] = {0};
    int kept = 0;
    (void)rt;
    while (kept < n && letter[kept][C])
        kept++;
    do {
        double sum = 0;
        do
            sum += element(type.a, a, at[A]) * element(type.b, b, at[B]);
        while (advance(count, at, kept, n, letter));
        float rounded = (float)sum;
        rt_narrow(type.c, rt_element_out(type.c, c, at[C]), &rounded, 1);
    } while (advance(count, at, 0, kept, letter));
}
