/* blas_product.h: matrix products on the host, for blas.c. */
#ifndef STANDIN_BLAS_PRODUCT_H
#define STANDIN_BLAS_PRODUCT_H

#include <stdint.h>

typedef enum ProductType { PRODUCT_F32, PRODUCT_BF16, PRODUCT_F16 } ProductType;

/* Column-major, `stride` elements from one of a batch to the next. */
typedef struct ProductMatrix {
    void *at;
    ProductType type;
    int64_t rows, columns, leading, stride;
    int64_t bytes; /* from the first element to behind the last */
} ProductMatrix;

/* d [m, n] = alpha a [m, k] b [k, n] + beta c, sums in f32, the terms in
 * `parts` runs that are summed each and then together. */
typedef struct Product {
    int64_t m, n, k, batch;
    ProductMatrix a, b, c, d;
    int a_transposed, b_transposed, parts;
    float alpha, beta;
    void *workspace;
    int64_t workspace_bytes;
} Product;

void product_compute(const Product *p);

#endif
