/* blas_product.h: computes matrix products on the host, for blas.c. */
#ifndef STANDIN_BLAS_PRODUCT_H
#define STANDIN_BLAS_PRODUCT_H

#include <stdint.h>

typedef enum ProductType { PRODUCT_F32, PRODUCT_BF16, PRODUCT_F16 } ProductType;

/* Column-major; matrices of a batch are `stride` elements apart. */
typedef struct ProductMatrix {
    void *at;
    ProductType type;
    int64_t rows, columns, leading, stride;
    int64_t bytes; /* from the first element to the end of the last */
} ProductMatrix;

/* The epilogue: applied to the product in f32 before it is stored. */
typedef enum ProductEnd {
    PRODUCT_AS_IT_IS,
    PRODUCT_BIAS,      /* vector [m] is added to each column */
    PRODUCT_GELU,      /* aux is the product, d its GELU (with tanh) */
    PRODUCT_GELU_BIAS, /* PRODUCT_GELU after vector was added */
    PRODUCT_GELU_GRAD, /* times GELU's derivative at aux */
    PRODUCT_SUM_A,     /* vector [m] is the sum of a's columns */
    PRODUCT_SUM_B,     /* vector [n] is the sum of b's rows */
} ProductEnd;

/* d [m, n] = alpha a [m, k] b [k, n] + beta c. Sums are in f32; the terms are
 * split into `parts` runs, whose sums are added. */
typedef struct Product {
    int64_t m, n, k, batch;
    ProductMatrix a, b, c, d;
    int a_transposed, b_transposed, parts;
    float alpha, beta;
    void *workspace;
    int64_t workspace_bytes;
    ProductEnd end;
    void *vector; /* bias or sums; vector and aux have d's type */
    ProductMatrix aux;
} Product;

void product_compute(const Product *p);

#endif
