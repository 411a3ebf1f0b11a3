/* Shared code of the tests of matrix products: operands, the comparison with the reference, and
 * shapes that are cut in every way. All use one cache of products, which open_cache opens. */
#ifndef ETUDE_TESTS_KERNEL_GEMM_PRODUCTS_H
#define ETUDE_TESTS_KERNEL_GEMM_PRODUCTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "engine/kernel/gemm/gemm.h"

enum { THREADS = 4, VARIANTS = 3 * 2 * 2 * 2 * 2 * 2 * 2 };

extern et_gemm_cache *cache;

/* Set-up and tear-down of a group of cmocka. */
int open_cache(void **state);
int close_cache(void **state);

/* Operands and result of a product; bytes: size of C. */
typedef struct operands {
    void *a, *b, *packed, *c;
    float *bias;
    size_t bytes;
} operands;

/* Random values in [-1, 1); the caller frees them with et_free. */
void *matrix(int64_t rows, int64_t stride, et_dtype dtype, uint32_t seed);

double at(const void *from, et_dtype dtype, int64_t index);

int64_t stride_of(int64_t given, int64_t dense);

operands operands_of(const et_gemm_shape *s);
void release(operands *o);

/* The product of the cache; a failure fails the test. */
et_gemm *product(const et_gemm_shape *shape);

/* B as the product reads it: packed once, or as it is. */
const void *pack(const et_gemm_shape *shape, const et_gemm *gemm, operands *o);

/* Runs a product and the reference on equal operands; elements between rows must not change. */
void check(const et_gemm_shape *shape);

/* Types of A and B, and of C. */
extern const et_dtype types[3][2];

/* Variant number of a shape; false: there is no such product. */
bool vary(et_gemm_shape *shape, int variant);

/* Shapes that are cut along all ways: rows, columns, pieces and chunks of k, each with a rest. */
extern const et_gemm_shape cut_shapes[25];

/* Calls look for each of cut_shapes in each type that it has. */
void for_cut_shapes(void (*look)(const et_gemm_shape *shape));

/* The same with a cache of products of its own in place of the common one. l2: bytes; 0: as found.
 */
void with_cache(et_gemm_preference way, size_t l2, void (*look)(const et_gemm_shape *shape));

#endif
