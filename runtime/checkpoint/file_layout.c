/* file_layout.c: copies between a layer of a parameter and the tensor of a file
 * that holds it in another layout (ParcFileTensor).
 *
 * A layout is a permutation of the indices of a layer plus an offset: the file
 * may hold the transpose, a part of a concatenation, or the rows of a head in
 * another order. Rows of the layer that are columns of the file are copied in
 * blocks, so that a cache line of the file is read once for several rows.
 *
 *   size {2, 3}, stride {1, 2}: the layer [2, 3] is the transpose of [3, 2]
 *   elements 0 1 2 3 4 5 of the layer are elements 0 2 4 1 3 5 of the tensor
 */
#include <string.h>

#include "checkpoint/safetensors.h"
#include "common/type.h"

/* `rows` rows of `n` consecutive elements of a layer each. Element (r, c) is
 * element at + r * row_stride + c * stride of the tensor. */
typedef struct Block {
    int64_t rows, n, at, row_stride, stride;
} Block;

enum { BLOCK_ROWS = 16 };

/* The block that begins at element `global` of the layer, of which at most
 * `left` elements are wanted. */
static Block next_block(const ParcFileTensor *v, int64_t global, int64_t left)
{
    int last = v->n - 1;
    int64_t width = v->size[last], column = global % width;
    int64_t row = global / width;
    Block b = {.rows = 1, .at = v->first + column * v->stride[last],
               .stride = v->stride[last]};
    b.n = left < width - column ? left : width - column;
    for (int64_t rest = row, j = last - 1; j >= 0; j--) {
        b.at += rest % v->size[j] * v->stride[j];
        rest /= v->size[j];
    }
    if (last > 0 && column == 0 && left >= width && b.stride != 1) {
        int64_t rows = v->size[last - 1] - row % v->size[last - 1];
        rows = rows < left / width ? rows : left / width;
        b.rows = rows < BLOCK_ROWS ? rows : BLOCK_ROWS;
        b.row_stride = v->stride[last - 1];
    }
    return b;
}

/* The data of a file may begin at an odd address. */
static void widen(float *to, ParcType type, const unsigned char *from,
                  int64_t n)
{
    enum { CHUNK = 1024 };
    uint16_t half[CHUNK];
    if (type == PARC_F32) {
        memcpy(to, from, (size_t)n * sizeof *to);
        return;
    }
    for (int64_t i = 0, x; i < n && type == PARC_I64; i++) {
        memcpy(&x, from + 8 * i, sizeof x);
        to[i] = (float)x;
    }
    for (int64_t at = 0; at < n && type != PARC_I64; at += CHUNK) {
        int64_t some = n - at < CHUNK ? n - at : CHUNK;
        memcpy(half, from + 2 * at, (size_t)some * sizeof half[0]);
        rt_widen(to + at, type, half, some);
    }
}

/* Gathers a block whose columns are not contiguous in the file. */
static void gather(float *to, const RtTensor *t, const unsigned char *from,
                   const Block *b)
{
    float part[BLOCK_ROWS];
    uint16_t half[BLOCK_ROWS];
    int64_t width = rt_type_size((ParcType)t->type);
    for (int64_t c = 0; c < b->n; c++) {
        const unsigned char *at = from + c * b->stride * width;
        for (int64_t r = 0; r < b->rows; r++, at += b->row_stride * width)
            memcpy(t->type == PARC_F32 ? (void *)&part[r] : (void *)&half[r],
                   at, (size_t)width);
        if (t->type != PARC_F32)
            rt_widen(part, (ParcType)t->type, half, b->rows);
        for (int64_t r = 0; r < b->rows; r++)
            to[r * b->n + c] = part[r];
    }
}

void rt_view_read(float *to, const RtTensor *t, const ParcFileTensor *view,
                  int64_t global, int64_t n)
{
    const unsigned char *data = t->file->map + t->begin;
    int64_t width = rt_type_size((ParcType)t->type);
    if (!view) {
        widen(to, (ParcType)t->type, data + global * width, n);
        return;
    }
    while (n > 0) {
        Block b = next_block(view, global, n);
        if (b.stride == 1)
            widen(to, (ParcType)t->type, data + b.at * width, b.n);
        else
            gather(to, t, data + b.at * width, &b);
        to += b.rows * b.n;
        global += b.rows * b.n;
        n -= b.rows * b.n;
    }
}

void rt_view_write(float *tensor, const ParcFileTensor *view,
                   const float *layer, int64_t n)
{
    for (int64_t global = 0; global < n;) {
        Block b = next_block(view, global, n - global);
        for (int64_t c = 0; b.stride != 1 && c < b.n; c++)
            for (int64_t r = 0; r < b.rows; r++)
                tensor[b.at + r * b.row_stride + c * b.stride] =
                    layer[global + r * b.n + c];
        if (b.stride == 1)
            memcpy(tensor + b.at, layer + global, (size_t)b.n * sizeof *layer);
        global += b.rows * b.n;
    }
}
