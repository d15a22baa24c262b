/* embedding.cuh: copies rows of a table by id.
 *
 * requires: EMBEDDING_BYTES (2, 4, 8, 16), the vector that a thread copies, and
 *           EMBEDDING_NAME(kernel)
 *
 * A rank holds rows *base … *base + rows - 1 of the table; other ids give
 * zeros.
 */
#include "copy_tools.h"

/* `n`: vectors of the result; `width`: vectors of a row. */
PARC_KERNEL(KERNEL_THREADS)
EMBEDDING_NAME(embedding)(uint8_t *__restrict__ out,
                          const uint8_t *__restrict__ table,
                          const int32_t *__restrict__ ids, int64_t n,
                          int64_t rows, int64_t width, const int64_t *base)
{
    int64_t i = block_index() * KERNEL_THREADS + thread_index(), position = i;
    if (i >= n)
        return;
    int64_t column = copy_digit(&position, width);
    int64_t row = (int64_t)ids[position] - (base ? *base : 0);
    copy_vector_if(row >= 0 && row < rows, out + i * EMBEDDING_BYTES,
                   table + (row * width + column) * EMBEDDING_BYTES,
                   EMBEDDING_BYTES);
}
