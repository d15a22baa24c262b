/* contract.cuh: computes the contractions that no matmul computes.
 *
 * requires: CONTRACT_NAME, the symbol; CONTRACT_A, _B, _C, the C types;
 *           CONTRACT_READ_A, _READ_B, _WRITE; CONTRACT_KEPT and CONTRACT_SUMMED,
 *           the number of letters that the result has and lacks; and
 *           CONTRACT_LETTERS, rows of {size, stride in c, in a, in b}, with those
 *           of the result first
 *
 * Each thread computes one element as a sum in double, in order.
 */
#include "copy_tools.h"

PARC_KERNEL(KERNEL_THREADS)
CONTRACT_NAME(CONTRACT_C *__restrict__ c, const CONTRACT_A *__restrict__ a,
              const CONTRACT_B *__restrict__ b, int64_t elements, int64_t terms)
{
    const int64_t letter[CONTRACT_KEPT + CONTRACT_SUMMED + 1][4] =
        CONTRACT_LETTERS;
    int64_t i = block_index() * KERNEL_THREADS + thread_index();
    double sum = 0;
    if (i >= elements)
        return;
    PARC_UNROLL
    for (int l = CONTRACT_KEPT - 1; l >= 0; l--) {
        int64_t x = copy_digit(&i, letter[l][0]);
        c += x * letter[l][1];
        a += x * letter[l][2];
        b += x * letter[l][3];
    }
    for (int64_t term = 0; term < terms; term++) {
        int64_t rest = term, at_a = 0, at_b = 0;
        float x[1], y[1];
        PARC_UNROLL
        for (int l = CONTRACT_KEPT + CONTRACT_SUMMED - 1; l >= CONTRACT_KEPT;
             l--) {
            int64_t digit = copy_digit(&rest, letter[l][0]);
            at_a += digit * letter[l][2];
            at_b += digit * letter[l][3];
        }
        CONTRACT_READ_A(x, a + at_a, 1);
        CONTRACT_READ_B(y, b + at_b, 1);
        sum += (double)x[0] * (double)y[0];
    }
    float rounded[1] = {(float)sum};
    CONTRACT_WRITE(c, rounded, 1);
}
